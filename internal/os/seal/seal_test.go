package seal

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/hexdump"
)

// keysFor are Keys with the keys of these bytes, the first one current.
func keysFor(t testing.TB, bs ...byte) *Keys {
	t.Helper()
	var keys [][]byte
	for _, b := range bs {
		keys = append(keys, bytes.Repeat([]byte{b}, KeyLen))
	}
	p, err := RawKeys(keys...)
	if err != nil {
		t.Fatal(err)
	}
	k := NewKeys(p, false)
	if err := k.Refresh(); err != nil {
		t.Fatal(err)
	}
	return k
}

func pattern(n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(i ^ i>>8)
	}
	return p
}

// writeFile writes p in pieces.
func writeFile(t testing.TB, fsys vfs.FS, name string, p []byte) {
	t.Helper()
	w, err := fsys.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, uint64(len(p))))
	for len(p) > 0 {
		n := min(len(p), 1+rng.IntN(3*chunkLen))
		if _, err := w.Write(p[:n]); err != nil {
			t.Fatal(err)
		}
		p = p[n:]
	}
	if err := errors.Join(w.Sync(), w.Close()); err != nil {
		t.Fatal(err)
	}
}

// readFile reads a file whole.
func readFile(fsys vfs.FS, name string) ([]byte, error) {
	r, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	p := make([]byte, r.Size())
	return p, base.ReadFull(r, p, 0)
}

var sizes = []int{0, 1, 100, chunkLen - 1, chunkLen, chunkLen + 1, 2 * chunkLen, 70 * chunkLen,
	70*chunkLen + 5}

// TestChunks writes files of many sizes, and reads them at random places.
func TestChunks(t *testing.T) {
	mem := vfs.NewMem()
	fsys := Over(mem, "/db", keysFor(t, 1))
	rng := rand.New(rand.NewPCG(1, 1))
	for _, n := range sizes {
		name, want := filepath.Join("/", "f"+hex.EncodeToString([]byte{byte(n >> 8), byte(n)})),
			pattern(n)
		writeFile(t, fsys, name, want)
		if info, err := fsys.Stat(name); err != nil || info.Size() != int64(n) {
			t.Fatalf("%d bytes: %v, %v", n, info, err)
		}
		r, err := fsys.Open(name)
		if err != nil || r.Size() != int64(n) {
			t.Fatalf("%d bytes: %v", n, err)
		}
		for range 200 {
			off, size := rng.IntN(n+2), rng.IntN(2*chunkLen+2)
			if rng.IntN(20) == 0 {
				size = n
			}
			p := make([]byte, size)
			got, err := r.ReadAt(p, int64(off))
			end := min(off+size, n)
			if off > n {
				end = off
			}
			if got != end-off && off <= n || off <= n && !bytes.Equal(p[:got], want[off:end]) ||
				(err == io.EOF) != (got < size) || err != nil && err != io.EOF {
				t.Fatalf("%d bytes at %d of %d: %d, %v", size, off, n, got, err)
			}
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		raw, err := readFile(mem, name)
		if err != nil || n > 50 && bytes.Contains(raw, want[:50]) {
			t.Fatalf("%d bytes lie there in clear; %v", n, err)
		}
	}
}

// TestChangedByte changes each byte of a file, and cuts it at each place: it fails to open, or to
// be read, and gives no other bytes.
func TestChangedByte(t *testing.T) {
	mem := vfs.NewMem()
	fsys := Over(mem, "/db", keysFor(t, 1))
	want := pattern(2*chunkLen + 50)
	if err := mem.MkdirAll("/db"); err != nil {
		t.Fatal(err)
	}
	writeFile(t, fsys, "/db/000001.loam", want)
	raw, err := readFile(mem, "/db/000001.loam")
	if err != nil {
		t.Fatal(err)
	}
	try := func(what string, at int, b []byte) {
		t.Helper()
		replaceFile(t, mem, "/db/000001.loam", b)
		got, err := readFile(fsys, "/db/000001.loam")
		if err == nil || !errors.Is(err, base.ErrCorruption) &&
			!errors.Is(err, base.ErrEncryption) && !errors.Is(err, base.ErrNewerFormat) {
			t.Fatalf("%s at %d: %d bytes, %v", what, at, len(got), err)
		}
	}
	for i := range raw {
		if i > HeaderLen+40 && i < len(raw)-200 && i%97 != 0 {
			continue
		}
		b := bytes.Clone(raw)
		b[i] ^= 1 << (i % 8)
		try("changed", i, b)
		try("cut", i, raw[:i])
	}
	swapped := bytes.Clone(raw)
	copy(swapped[HeaderLen:], raw[HeaderLen+sealedLen:HeaderLen+2*sealedLen])
	copy(swapped[HeaderLen+sealedLen:], raw[HeaderLen:HeaderLen+sealedLen])
	try("swapped chunks", 0, swapped)
	try("cut behind a chunk", 0, raw[:HeaderLen+2*sealedLen])
	writeFile(t, fsys, "/db/000003.loam", want)
	other, err := readFile(mem, "/db/000003.loam")
	if err != nil {
		t.Fatal(err)
	}
	mixed := bytes.Clone(raw)
	copy(mixed[HeaderLen:], other[HeaderLen:HeaderLen+sealedLen])
	try("a chunk of another file", 0, mixed)
	try("a clear file", 0, want)
	try("another file", 0, other)
	replaceFile(t, mem, "/db/000001.loam", raw)
	if got, err := readFile(fsys, "/db/000001.loam"); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("what was there: %v", err)
	}
}

// replaceFile writes b in place of a file.
func replaceFile(t testing.TB, fsys vfs.FS, name string, b []byte) {
	t.Helper()
	if err := fsys.Remove(name); err != nil {
		t.Fatal(err)
	}
	writeFile(t, fsys, name, b)
}

// TestNumbers: a file that gets another number of the database is sealed anew for it, and one that
// becomes another one by a rename below is refused.
func TestNumbers(t *testing.T) {
	mem := vfs.NewMem()
	if err := mem.MkdirAll("/db"); err != nil {
		t.Fatal(err)
	}
	fsys, want := Over(mem, "/db", keysFor(t, 1)), pattern(chunkLen+1)
	number := func(name string) uint64 {
		h, err := headerOf(mem, name)
		if err != nil {
			t.Fatal(err)
		}
		return h.Number
	}
	writeFile(t, fsys, "/outside", want)
	if err := fsys.Link("/outside", "/db/000001.loam"); !errors.Is(err, vfs.ErrCannotLink) {
		t.Errorf("a file without a number gets one by a link: %v", err)
	}
	writeFile(t, fsys, "/db/000002.loam", want)
	if err := fsys.Link("/db/000002.loam", "/outside.2"); err != nil {
		t.Errorf("a copy: %v", err)
	}
	if err := fsys.Rename("/db/000002.loam", "/db/000003.loam"); err != nil {
		t.Fatal(err)
	}
	if got, err := readFile(fsys, "/db/000003.loam"); err != nil || !bytes.Equal(got, want) ||
		number("/db/000003.loam") != 3 {
		t.Errorf("renamed: %v", err)
	}
	writeFile(t, fsys.As("/db/000003.loam"), "/db/000004.loam", want)
	if err := fsys.Rename("/db/000004.loam", "/db/000003.loam"); err != nil ||
		number("/db/000003.loam") != 3 {
		t.Errorf("created as another one: %v", err)
	}
	if err := mem.Rename("/db/000003.loam", "/db/000005.loam"); err != nil {
		t.Fatal(err)
	}
	if _, err := readFile(fsys, "/db/000005.loam"); !errors.Is(err, base.ErrCorruption) {
		t.Errorf("the file of another one: %v", err)
	}
	writeFile(t, fsys, "/db/000006.wal", want) // as Rekey leaves a log that is kept for its values
	if got, err := readFile(fsys, "/db/000006.wal"); err != nil || !bytes.Equal(got, want) {
		t.Errorf("a log: %v", err)
	}
	if err := mem.Rename("/db/000006.wal", "/db/000007.wal"); err != nil { // the next one
		t.Fatal(err)
	}
	r, err := fsys.Open("/db/000007.wal")
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := r.(*raw); !ok {
		t.Error("a reader of a former life stays that of the log")
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestRenameReplacesNothing: a table that is sealed anew for another number leaves a stranger's
// file of that number as it is.
func TestRenameReplacesNothing(t *testing.T) {
	mem := vfs.NewMem()
	if err := mem.MkdirAll("/db"); err != nil {
		t.Fatal(err)
	}
	fsys := Over(mem, "/db", keysFor(t, 1))
	writeFile(t, fsys, "/db/000005.loam", pattern(100))
	writeFile(t, mem, "/db/000009.loam", pattern(7))
	for _, from := range []string{"/db/000005.loam", "/db/000006.loam"} {
		if err := fsys.Rename(from, "/db/000009.loam"); err == nil {
			t.Errorf("%s replaces a stranger's file", from)
		}
	}
	if b, err := readFile(mem, "/db/000009.loam"); err != nil || !bytes.Equal(b, pattern(7)) {
		t.Errorf("%d bytes of a stranger's file, %v", len(b), err)
	}
	if b, err := readFile(fsys, "/db/000005.loam"); err != nil || !bytes.Equal(b, pattern(100)) {
		t.Errorf("%d bytes of the table, %v", len(b), err)
	}
}

// TestKnownAnswer opens the file of docs/format-encryption.md.
func TestKnownAnswer(t *testing.T) {
	p, err := RawKeys(pattern(KeyLen))
	if err != nil {
		t.Fatal(err)
	}
	k := NewKeys(p, false)
	if err := k.Refresh(); err != nil || k.CurrentID() != "9f37af6341cdafb9" {
		t.Fatal(k.CurrentID(), err)
	}
	mem := vfs.NewMem()
	writeFile(t, mem, "/f", page(t, 0))
	if got, err := readFile(Over(mem, "/", k), "/f"); err != nil || string(got) != "loam" {
		t.Errorf("%q, %v", got, err)
	}
}

// page is the i-th dump of the page.
func page(t testing.TB, i int) []byte {
	t.Helper()
	text, err := os.ReadFile("../../../docs/format-encryption.md")
	if err != nil {
		t.Fatal(err)
	}
	return hexdump.Page(t, string(text), i)
}

// TestWrongKeys opens files without the right key: the error names the one that is missing.
func TestWrongKeys(t *testing.T) {
	mem := vfs.NewMem()
	right := keysFor(t, 1)
	writeFile(t, Over(mem, "/", right), "/f", pattern(10))
	id := right.CurrentID()
	passphrase, err := newPassphrases(leastLogN, "a")
	if err != nil {
		t.Fatal(err)
	}
	lying := &faulty{Provider: right.provider, key: func(string) ([]byte, error) {
		return make([]byte, KeyLen), nil
	}}
	for name, k := range map[string]*Keys{
		"no keys": nil, "another key": keysFor(t, 2),
		"another provider":       NewKeys(passphrase, false),
		"another key of this id": NewKeys(lying, false),
		"short": NewKeys(&faulty{Provider: right.provider, key: func(string) ([]byte, error) {
			return make([]byte, 5), nil
		}}, false),
		"fails": NewKeys(&faulty{Provider: right.provider, key: func(string) ([]byte, error) {
			return nil, io.ErrClosedPipe
		}}, false),
		"panics": NewKeys(&faulty{Provider: right.provider, key: func(string) ([]byte, error) {
			panic("no")
		}}, false),
	} {
		_, err := readFile(Over(mem, "/", k), "/f")
		var e *base.EncryptionError
		if !errors.As(err, &e) || e.KeyID != id || e.File != "f" || errors.Is(err,
			base.ErrCorruption) || !errors.Is(err, base.ErrEncryption) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := readFile(Over(mem, "/", keysFor(t, 3, 2, 1)), "/f"); err != nil {
		t.Errorf("an older key: %v", err)
	}
}

// faulty is a Provider with another Key.
type faulty struct {
	Provider
	key func(id string) ([]byte, error)
}

func (f *faulty) Key(id string) ([]byte, error) { return f.key(id) }

// TestPassphrases makes keys of passphrases, and finds them again by their ids.
func TestPassphrases(t *testing.T) {
	p, err := newPassphrases(leastLogN, "one")
	if err != nil {
		t.Fatal(err)
	}
	id, key, err := p.Current("")
	if err != nil {
		t.Fatal(err)
	}
	again, err := newPassphrases(leastLogN, "two", "one")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := again.Key(id); err != nil || !bytes.Equal(got, key) {
		t.Errorf("%x, %v", got, err)
	}
	if newID, _, err := again.Current(id); err != nil || newID == id {
		t.Errorf("the key of an older passphrase stays current; %v", err)
	}
	if same, got, err := p.Current(id); err != nil || same != id || !bytes.Equal(got, key) {
		t.Errorf("%s became %s, %v", id, same, err)
	}
	for _, bad := range []string{"", "scrypt-40-00-x",
		"scrypt-10-" + strings.Repeat("0", 32) + "-x", strings.Replace(id, "scrypt", "other", 1)} {
		if _, err := p.Key(bad); err == nil {
			t.Errorf("there is a key %q", bad)
		}
	}
	if _, err := Passphrases(""); err == nil {
		t.Error("an empty passphrase")
	}
}

// TestKeyFile reads files of keys.
func TestKeyFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "keys")
	one, two := strings.Repeat("01", KeyLen), strings.Repeat("02", KeyLen)
	for text, ok := range map[string]bool{one: true, "# keys\n" + one + "\n\n" + two + "\n": true,
		"": false, "0102": false, one + "0": false, strings.Repeat("#", maxKeyFile+1): false} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := KeyFile(name)
		if (err == nil) != ok {
			t.Errorf("%.20q: %v", text, err)
		}
		if err != nil {
			if !errors.Is(err, base.ErrInvalidArgument) ||
				strings.Contains(err.Error(), "0102") {
				t.Errorf("%.20q: %v", text, err)
			}
			continue
		}
		if id, key, err := p.Current(""); err != nil || key[0] != 1 || id != checkOf(key) {
			t.Errorf("%.20q: %s, %v", text, id, err)
		}
	}
	if _, err := KeyFile(filepath.Dir(name)); !errors.Is(err, base.ErrInvalidArgument) {
		t.Errorf("a directory: %v", err)
	}
}

// TestStream seals streams, and cuts them.
func TestStream(t *testing.T) {
	k := keysFor(t, 1)
	for _, n := range sizes {
		var out bytes.Buffer
		w, err := k.Stream(&out)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(pattern(n)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		read := func(k *Keys, b []byte) ([]byte, error) {
			r, err := k.OpenStream(struct{ io.Reader }{bytes.NewReader(b)})
			if err != nil {
				return nil, err
			}
			return io.ReadAll(r)
		}
		if got, err := read(k, out.Bytes()); err != nil || !bytes.Equal(got, pattern(n)) {
			t.Errorf("%d bytes: %d, %v", n, len(got), err)
		}
		if _, err := read(nil, out.Bytes()); !errors.Is(err, base.ErrEncryption) {
			t.Errorf("without keys: %v", err)
		}
		for _, cut := range []int{1, tagLen, tagLen + 1, sealedLen} {
			if end := out.Len() - cut; end >= HeaderLen {
				if _, err := read(k, out.Bytes()[:end]); !errors.Is(err, base.ErrCorruption) {
					t.Errorf("%d of %d bytes cut: %v", cut, n, err)
				}
			}
		}
		broken := errors.New("broken")
		for end := out.Len(); end >= HeaderLen; end -= sealedLen {
			r, err := k.OpenStream(io.MultiReader(bytes.NewReader(out.Bytes()[:end]),
				iotest.ErrReader(broken)))
			if err == nil {
				_, err = io.ReadAll(r)
			}
			if !errors.Is(err, broken) {
				t.Errorf("a reader that fails behind %d of %d bytes: %v", end, n, err)
			}
		}
		clear := pattern(n)
		if got, err := read(k, clear); err != nil || !bytes.Equal(got, clear) {
			t.Errorf("%d clear bytes: %d, %v", n, len(got), err)
		}
		if r, err := k.OpenStream(bytes.NewReader(clear)); err != nil {
			t.Error(err)
		} else if _, ok := r.(io.Seeker); !ok {
			t.Error("a clear file cannot be sought any more")
		}
	}
}

// TestSalvage: a repair reads zeros where a file is damaged, and nothing else where it is clear.
func TestSalvage(t *testing.T) {
	mem := vfs.NewMem()
	if err := mem.MkdirAll("/db"); err != nil {
		t.Fatal(err)
	}
	fsys := Over(mem, "/db", keysFor(t, 1))
	want := pattern(3 * chunkLen)
	writeFile(t, fsys, "/db/000001.loam", want)
	raw, err := readFile(mem, "/db/000001.loam")
	if err != nil {
		t.Fatal(err)
	}
	raw[HeaderLen+sealedLen+9]++
	replaceFile(t, mem, "/db/000001.loam", raw)
	clear(want[chunkLen : 2*chunkLen])
	if got, err := readFile(fsys.Salvaging(), "/db/000001.loam"); err != nil ||
		!bytes.Equal(got, want) {
		t.Errorf("a damaged chunk: %v", err)
	}
	raw[atNames]++
	replaceFile(t, mem, "/db/000001.loam", raw) // one copy of the header
	if got, err := readFile(fsys.Salvaging(), "/db/000001.loam"); err != nil ||
		!bytes.Equal(got, want) {
		t.Errorf("a damaged copy of the header: %v", err)
	}
	raw[copyLen+atNames]++
	writeFile(t, mem, "/db/000003.loam", raw)
	writeFile(t, mem, "/db/000004.loam", want)
	for _, name := range []string{"/db/000003.loam", "/db/000004.loam"} {
		if got, err := readFile(fsys.Salvaging(), name); err != nil ||
			len(bytes.Trim(got, "\x00")) > 0 {
			t.Errorf("%s has something; %v", name, err)
		}
	}
}

// TestWriteErrors: what fails below fails here, and stays so.
func TestWriteErrors(t *testing.T) {
	for _, kind := range []vfs.OpKind{vfs.OpCreate, vfs.OpWrite, vfs.OpSync} {
		fsys := Over(vfs.NewFault(vfs.NewMem(), func(op vfs.Op) vfs.Outcome {
			if op.Kind == kind {
				return vfs.Outcome{Err: io.ErrClosedPipe}
			}
			return vfs.Outcome{}
		}), "/", keysFor(t, 1))
		w, err := fsys.Create("/f")
		if err == nil {
			_, _ = w.Write(pattern(100))
			if err = w.Sync(); err != nil {
				if again := w.Sync(); again == nil {
					t.Errorf("%v: a second sync succeeds", kind)
				}
			}
			_ = w.Close()
		}
		if !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("%v: %v", kind, err)
		}
	}
	fsys := Over(vfs.NewMem(), "/", keysFor(t, 1))
	w, err := fsys.Create("/f")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Sync(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("x")); !errors.Is(err, base.ErrInvalidArgument) {
		t.Errorf("a write behind the end: %v", err)
	}
}

// TestGatheredWrites: what Write gathered is written by StartSync or Close, which return the error,
// and not by Abandon.
func TestGatheredWrites(t *testing.T) {
	for _, tc := range []struct {
		name  string
		end   func(w vfs.WriteFile) error
		write bool
	}{
		{"StartSync", vfs.StartSync, true},
		{"Close", vfs.WriteFile.Close, true},
		{"Abandon", vfs.Abandon, false},
		{"Abandon behind StartSync", func(w vfs.WriteFile) error {
			_ = vfs.StartSync(w)
			return vfs.Abandon(w)
		}, true},
	} {
		writes, closes := 0, 0
		fsys := Over(vfs.NewFault(vfs.NewMem(), func(op vfs.Op) vfs.Outcome {
			switch op.Kind {
			case vfs.OpWrite:
				writes++
				return vfs.Outcome{Err: io.ErrClosedPipe}
			case vfs.OpClose:
				closes++
			}
			return vfs.Outcome{}
		}), "/", keysFor(t, 1))
		w, err := fsys.Create("/f")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(pattern(100)); err != nil {
			t.Fatal(err)
		}
		err = tc.end(w)
		if errors.Is(err, io.ErrClosedPipe) != tc.write || (writes > 0) != tc.write {
			t.Errorf("%s: %d writes, %v", tc.name, writes, err)
		}
		if tc.name == "StartSync" {
			if err := w.Close(); !errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("Close behind StartSync: %v", err)
			}
		}
		if closes != 1 {
			t.Errorf("%s: closed %d times", tc.name, closes)
		}
	}
}

// FuzzDecode decodes any bytes as a header.
func FuzzDecode(f *testing.F) {
	k := keysFor(f, 1)
	b, _, err := k.New(Chunks, 0)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b, false)
	f.Fuzz(func(t *testing.T, b []byte, right bool) {
		if right && len(b) >= HeaderLen { // past the checksum
			b = bytes.Clone(b)
			copy(b, Magic)
			sum := base.MaskCRC(base.CRC(b[:copyLen-crcLen]))
			for i := range crcLen {
				b[copyLen-crcLen+i] = byte(sum >> (8 * i))
			}
			copy(b[copyLen:], b[:copyLen])
		}
		_ = Salvage(b)
		h, err := Decode(b)
		if h == nil {
			return
		}
		if err != nil || len(h.Provider) > maxName || len(h.KeyID) > maxName {
			t.Fatalf("%+v, %v", h, err)
		}
		if _, err := k.Open(h, "f"); err != nil && !errors.Is(err, base.ErrEncryption) {
			t.Fatal(err)
		}
	})
}
