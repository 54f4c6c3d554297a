package record

import (
	"bytes"
	"errors"
	"io"
	"os"
	"syscall"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/seal"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/hexdump"
)

// sealedKeys are keys whose current one is 00 01 .. 1f.
func sealedKeys(t testing.TB) *seal.Keys {
	t.Helper()
	key := make([]byte, seal.KeyLen)
	for i := range key {
		key[i] = byte(i)
	}
	p, err := seal.RawKeys(key)
	if err != nil {
		t.Fatal(err)
	}
	k := seal.NewKeys(p, false)
	if err := k.Refresh(); err != nil {
		t.Fatal(err)
	}
	return k
}

const sealedName = "/000007.wal"

// sealedReader reads a log of either framing.
type sealedReader interface {
	Next() ([]byte, error)
	Tail() bool
}

func openSealed(t testing.TB, fsys vfs.FS, chained bool,
	synced int64) (sealedReader, vfs.ReadFile) {
	t.Helper()
	f, err := fsys.Open(sealedName)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if chained {
		return NewChainReader(f, f.Size(), sealedName, 7, synced), f
	}
	return NewReader(f, f.Size(), sealedName), f
}

func readSealed(r sealedReader) (recs [][]byte, err error) {
	for {
		rec, err := r.Next()
		if err != nil {
			return recs, err
		}
		recs = append(recs, bytes.Clone(rec))
	}
}

// sealedWriter begins the log of the tests.
func sealedWriter(t testing.TB, fsys vfs.FS, chained bool) *Writer {
	t.Helper()
	l, err := fsys.CreateLog(sealedName, 0)
	if err != nil {
		t.Fatal(err)
	}
	w := NewWriter(l)
	if chained {
		if err := w.Begin(Begin{Num: 7}); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// sealedLog writes records of many lengths through fsys, and takes back the writes that fail.
func sealedLog(t testing.TB, fsys vfs.FS, chained bool) (recs [][]byte) {
	t.Helper()
	w := sealedWriter(t, fsys, chained)
	for i, n := range []int{0, 1, 100, 5000, 0, blockSize, 3 * blockSize, 7, 200} {
		rec := pattern(i, n)
		for err := w.Append(rec); err != nil; err = w.Append(rec) {
			if err := w.Cut(); err != nil {
				t.Fatal(err)
			}
		}
		recs = append(recs, rec)
	}
	if err := errors.Join(w.Sync(), w.Close()); err != nil {
		t.Fatal(err)
	}
	return recs
}

func eachFraming(t *testing.T, do func(t *testing.T, chained bool)) {
	t.Run("leveldb", func(t *testing.T) { do(t, false) })
	t.Run("chained", func(t *testing.T) { do(t, true) })
}

// TestSealedLog reads what was written, also behind writes that failed, and from a Tail.
func TestSealedLog(t *testing.T) {
	eachFraming(t, func(t *testing.T, chained bool) {
		for fails := range 3 {
			mem, calls := vfs.NewMem(), 0
			fsys := seal.Over(vfs.NewFault(mem, func(op vfs.Op) vfs.Outcome {
				if op.Kind == vfs.OpAppend {
					if calls++; fails > 0 && calls > 1 && calls%(fails+1) == 0 {
						return vfs.Outcome{Err: syscall.ENOSPC, Short: 10}
					}
				}
				return vfs.Outcome{}
			}), "/", sealedKeys(t))
			recs := sealedLog(t, fsys, chained)
			r, f := openSealed(t, fsys, chained, 0)
			if got, err := readSealed(r); err != io.EOF || !equal(got, recs) {
				t.Fatalf("%d failures: %d of %d records, %v", fails, len(got), len(recs), err)
			}
			raw := make([]byte, f.Size())
			if err := base.ReadFull(f, raw, 0); err != nil || bytes.Contains(raw, recs[2][:50]) {
				t.Errorf("a record lies there in clear; %v", err)
			}
			tail := NewTail(f, sealedName, 0)
			if chained {
				tail = NewChainTail(f, sealedName, 7, 0)
			}
			for i, rec := range recs {
				if got, err := tail.Next(); err != nil || !bytes.Equal(got, rec) {
					t.Fatalf("record %d of the tail: %d bytes, %v", i, len(got), err)
				}
			}
			if _, err := tail.Next(); err != ErrNotYet {
				t.Errorf("behind the end: %v", err)
			}
		}
	})
}

// TestSealedNonces: what a write left that failed, and the one after it at the same place, are
// sealed by different nonces.
func TestSealedNonces(t *testing.T) {
	eachFraming(t, func(t *testing.T, chained bool) {
		var written [][]byte
		fail := false
		mem := vfs.NewMem()
		fsys := seal.Over(appends{mem, func(p []byte) error {
			written = append(written, bytes.Clone(p))
			if fail {
				fail = false
				return syscall.ENOSPC
			}
			return nil
		}}, "/", sealedKeys(t))
		w := sealedWriter(t, fsys, chained)
		if err := w.Append([]byte("first")); err != nil {
			t.Fatal(err)
		}
		fail = true
		zero := make([]byte, 64)
		if err := w.Append(zero); err == nil {
			t.Fatal("no failure")
		}
		if err := errors.Join(w.Cut(), w.Append(zero)); err != nil {
			t.Fatal(err)
		}
		n := len(written)
		a, b := written[n-2][w.header+cutsLen:], written[n-1][w.header+cutsLen:]
		if bytes.Equal(a[:64], b[:64]) {
			t.Error("the same bytes are sealed alike at one place: a nonce was used twice")
		}
	})
}

// TestSealedLives: what is written to a file that becomes a log once more has another data key.
func TestSealedLives(t *testing.T) {
	mem := vfs.NewMem()
	fsys := seal.Over(mem, "/", sealedKeys(t))
	var lives [2][]byte
	for i := range lives {
		var l vfs.Log
		var err error
		if i == 0 {
			l, err = fsys.CreateLog(sealedName, 0)
		} else {
			l, _, err = vfs.ReuseLog(fsys, "/000006.wal", sealedName, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		w := NewWriter(l)
		zero := make([]byte, 100)
		if err := errors.Join(w.Begin(Begin{Num: 7, Life: 1}), w.Append(zero), w.Sync(),
			w.Close()); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, w.Size())
		f, err := mem.Open(sealedName)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(base.ReadFull(f, b, 0), f.Close()); err != nil {
			t.Fatal(err)
		}
		end := len(b) - seal.Overhead
		lives[i] = b[end-len(zero) : end]
		if i == 0 {
			if err := mem.Rename(sealedName, "/000006.wal"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if bytes.Equal(lives[0], lives[1]) {
		t.Error("two lives of a file are sealed alike: nonces were used twice")
	}
}

// appends sees the appends to logs.
type appends struct {
	vfs.FS
	see func(p []byte) error
}

func (a appends) CreateLog(name string, ahead int64) (vfs.Log, error) {
	l, err := a.FS.CreateLog(name, ahead)
	return seenLog{l, a.see}, err
}

type seenLog struct {
	vfs.Log
	see func(p []byte) error
}

func (l seenLog) Append(p []byte) error {
	if err := l.see(p); err != nil {
		return err
	}
	return l.Log.Append(p)
}

// TestSealedDamage changes bytes of a log, with the checksum made right for some: records are
// right, or the log ends with damage.
func TestSealedDamage(t *testing.T) {
	eachFraming(t, func(t *testing.T, chained bool) {
		mem, keys := vfs.NewMem(), sealedKeys(t)
		recs := sealedLog(t, seal.Over(mem, "/", keys), chained)
		r, f := openSealed(t, mem, chained, 0)
		if _, err := r.Next(); !errors.Is(err, base.ErrEncryption) {
			t.Errorf("without keys: %v", err)
		}
		raw := make([]byte, f.Size())
		if err := base.ReadFull(f, raw, 0); err != nil {
			t.Fatal(err)
		}
		header := headerLen
		if chained {
			header = chainHeaderLen
		}
		first := header + chunkLen(raw)
		for _, mend := range []bool{false, true} {
			for i := 0; i < first+400; i++ {
				b := bytes.Clone(raw)
				b[i] ^= 0x40
				at, before := chunkAt(raw, header, i)
				if mend && i >= at+atType {
					mendSum(b[at:], int64(at), chained)
				} else if mend {
					continue
				}
				other := vfs.NewMem()
				l, err := other.CreateLog(sealedName, 0)
				if err != nil {
					t.Fatal(err)
				}
				if err := errors.Join(l.Append(b), l.Close()); err != nil {
					t.Fatal(err)
				}
				r, _ := openSealed(t, seal.Over(other, "/", keys), chained, int64(len(b)))
				got, err := readSealed(r)
				if len(got) >= len(recs) || !equal(got, recs[:len(got)]) ||
					!errors.Is(err, base.ErrCorruption) && !errors.Is(err, base.ErrEncryption) {
					t.Fatalf("byte %d, sum mended: %v: %d records, %v", i, mend, len(got), err)
				}
				if mend && len(got) > before {
					t.Fatalf("byte %d: a record is returned that was changed", i)
				}
				if mend && r.Tail() {
					t.Fatalf("byte %d: what was changed counts as torn", i)
				}
			}
		}
	})
}

// chunkAt is where the chunk with byte i begins, and how many others lie between it and the first
// one.
func chunkAt(raw []byte, header, i int) (at, before int) {
	n := 0
	for next := at + header + chunkLen(raw); next <= i; next = at + header + chunkLen(raw[at:]) {
		at = next
		n++
	}
	return at, max(n-1, 0)
}

// mendSum makes the checksum of a chunk right.
func mendSum(h []byte, pos int64, isChained bool) {
	n := chunkLen(h)
	if !isChained {
		putHeader(h, h[6], base.CRCUpdate(typeCRC[h[6]], h[headerLen:headerLen+n]), n)
		return
	}
	c := chain{}
	c.finish(h, base.CRCUpdate(crcAt(numCRC(7), pos, h), h[chainHeaderLen:chainHeaderLen+n]))
}

// TestSealedKnownAnswers reads the logs of docs/format-encryption.md.
func TestSealedKnownAnswers(t *testing.T) {
	eachFraming(t, func(t *testing.T, chained bool) {
		mem := vfs.NewMem()
		l, err := mem.CreateLog(sealedName, 0)
		if err != nil {
			t.Fatal(err)
		}
		dump := 1
		if chained {
			dump = 2
		}
		if err := l.Append(sealedPage(t, dump)); err != nil {
			t.Fatal(err)
		}
		r, _ := openSealed(t, seal.Over(mem, "/", sealedKeys(t)), chained, 0)
		got, err := readSealed(r)
		if err != io.EOF || len(got) != 1 || string(got[0]) != "loam" {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// sealedPage is the i-th dump of the page.
func sealedPage(t testing.TB, i int) []byte {
	t.Helper()
	text, err := os.ReadFile("../../../docs/format-encryption.md")
	if err != nil {
		t.Fatal(err)
	}
	return hexdump.Page(t, string(text), i)
}

// TestClearLogInEncryptedDatabase: a clear log is refused, or read where that is allowed.
func TestClearLogInEncryptedDatabase(t *testing.T) {
	eachFraming(t, func(t *testing.T, chained bool) {
		mem := vfs.NewMem()
		recs := sealedLog(t, mem, chained)
		r, _ := openSealed(t, seal.Over(mem, "/", sealedKeys(t)), chained, 0)
		if got, err := readSealed(r); !errors.Is(err, base.ErrEncryption) || len(got) > 0 {
			t.Errorf("%d records, %v", len(got), err)
		}
		p, err := seal.RawKeys(make([]byte, seal.KeyLen))
		if err != nil {
			t.Fatal(err)
		}
		r, _ = openSealed(t, seal.Over(mem, "/", seal.NewKeys(p, true)), chained, 0)
		if got, err := readSealed(r); err != io.EOF || !equal(got, recs) {
			t.Errorf("allowed: %d records, %v", len(got), err)
		}
	})
}

// TestSealedFormerLife: the first chunk of a log was lost, and that of a former life of its file is
// there, with another key. Reading ends.
func TestSealedFormerLife(t *testing.T) {
	eachFraming(t, func(t *testing.T, chained bool) {
		mem := vfs.NewMem()
		fsys := seal.Over(mem, "/", sealedKeys(t))
		sealedLog(t, fsys, chained)
		l, err := fsys.CreateLog("/000005.wal", 0)
		if err != nil {
			t.Fatal(err)
		}
		w, n := NewWriter(l), headerLen+seal.HeaderLen+seal.Overhead
		if chained {
			n += chainHeaderLen - headerLen + beginLen
			if err := w.Begin(Begin{Num: 5}); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(w.Append([]byte("former")), w.Close()); err != nil {
			t.Fatal(err)
		}
		parts := [][]byte{make([]byte, n), nil} // the former beginning, what follows it now
		for i, name := range []string{"/000005.wal", sealedName} {
			f, err := mem.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			if i == 1 {
				parts[1] = make([]byte, f.Size()-int64(n))
			}
			if err := errors.Join(base.ReadFull(f, parts[i], int64(i*n)), f.Close()); err != nil {
				t.Fatal(err)
			}
		}
		if err := mem.Remove(sealedName); err != nil {
			t.Fatal(err)
		}
		out, err := mem.CreateLog(sealedName, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(out.Append(bytes.Join(parts, nil)), out.Close()); err != nil {
			t.Fatal(err)
		}
		r, _ := openSealed(t, fsys, chained, 0)
		for ends := 0; ; ends++ {
			recs, err := readSealed(r)
			if len(recs) > 0 || !errors.Is(err, base.ErrCorruption) || ends > 20 {
				t.Fatalf("end %d: %d records, %v", ends, len(recs), err)
			}
			if !r.(interface{ Resume() bool }).Resume() {
				break
			}
		}
	})
}
