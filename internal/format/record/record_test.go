package record

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
)

// memLog keeps what is appended, and fails when told to.
type memLog struct {
	data    []byte
	appends int
	syncs   int
	err     error
	after   int  // appends that succeed before err
	partial int  // bytes of the failing append that are kept
	stuck   bool // Truncate fails
}

func (l *memLog) Append(p []byte) error {
	l.appends++
	if l.after > 0 {
		l.after--
	} else if l.err != nil {
		l.data = append(l.data, p[:min(l.partial, len(p))]...)
		return l.err
	}
	l.data = append(l.data, p...)
	return nil
}
func (l *memLog) Truncate(size int64) error {
	if l.stuck || size > int64(len(l.data)) {
		return io.ErrClosedPipe
	}
	l.data = l.data[:size]
	return nil
}
func (l *memLog) Sync() error  { l.syncs++; return l.err }
func (l *memLog) Close() error { return nil }

var _ vfs.Log = (*memLog)(nil)

// pattern is a record of n bytes that tells which one it is.
func pattern(i, n int) []byte {
	b := make([]byte, n)
	rng := rand.New(rand.NewPCG(uint64(i), uint64(n)))
	for j := range b {
		b[j] = byte(rng.Uint32())
	}
	return b
}

func build(t testing.TB, recs ...[]byte) []byte {
	t.Helper()
	l := new(memLog)
	w := NewWriter(l)
	for _, r := range recs {
		if err := w.Append(r); err != nil {
			t.Fatal(err)
		}
	}
	if w.Size() != int64(len(l.data)) {
		t.Fatalf("Size %d, %d in the log", w.Size(), len(l.data))
	}
	return l.data
}

func newReader(b []byte) *Reader {
	return NewReader(bytes.NewReader(b), int64(len(b)), "000001.log")
}

// readAll reads up to the first error.
func readAll(r *Reader) (recs [][]byte, err error) {
	for {
		rec, err := r.Next()
		if err != nil {
			return recs, err
		}
		recs = append(recs, bytes.Clone(rec))
	}
}

func equal(a, b [][]byte) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !bytes.Equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

func TestRoundTrip(t *testing.T) {
	sizes := [][]int{
		{},
		{0},
		{0, 0, 1, 0},
		{blockSize - headerLen},             // exactly one block
		{blockSize - headerLen - 1, 5},      // a trailer of one byte
		{blockSize - 2*headerLen, 5, 6},     // room for an empty chunk only
		{blockSize - 2*headerLen + 1, 0, 9}, // room for six bytes: a trailer
		{blockSize, 2 * blockSize, 3*blockSize - 11, 17}, // several chunks
		{flushAt + 12345, 3, 3*flushAt + 1},              // several appends
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 40 {
		var s []int
		for range rng.IntN(60) {
			s = append(s, rng.IntN(1<<rng.IntN(18)))
		}
		sizes = append(sizes, s)
	}
	for _, s := range sizes {
		var recs [][]byte
		for i, n := range s {
			recs = append(recs, pattern(i, n))
		}
		b := build(t, recs...)
		for _, tail := range []int{0, 1, 6, 7, 8, 4096, 3 * blockSize} {
			got, err := readAll(newReader(append(bytes.Clone(b), make([]byte, tail)...)))
			if err != io.EOF || !equal(got, recs) {
				t.Fatalf("sizes %v, %d zeros: %d records of %d, then %v", s, tail, len(got),
					len(recs), err)
			}
		}
	}
}

// TestBytes compares with bytes made from the format's description by other
// code (bitwise crc32c).
func TestBytes(t *testing.T) {
	const want = "dd5fb37a030001666f6f052b2843000001"
	got := build(t, []byte("foo"), []byte{})
	if s := hex.EncodeToString(got); s != want {
		t.Errorf("got %s\nwant %s", s, want)
	}
}

func TestAppendParts(t *testing.T) {
	rec := pattern(1, 2*blockSize+100)
	for _, cuts := range [][]int{{}, {0}, {1}, {100, 200}, {0, 0, blockSize - headerLen},
		{len(rec)}} {
		l := new(memLog)
		var parts [][]byte
		at := 0
		for _, n := range cuts {
			parts = append(parts, rec[at:at+n])
			at += n
		}
		parts = append(parts, rec[at:])
		if err := NewWriter(l).AppendParts(parts...); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(l.data, build(t, rec)) {
			t.Errorf("cuts %v: not the bytes of the joined record", cuts)
		}
		if l.appends != 1 {
			t.Errorf("%d appends", l.appends)
		}
	}
}

func TestLargeRecordsAreAppendedInPieces(t *testing.T) {
	l := new(memLog)
	if err := NewWriter(l).Append(make([]byte, 5*flushAt/2)); err != nil {
		t.Fatal(err)
	}
	if l.appends != 3 {
		t.Errorf("%d appends", l.appends)
	}
}

func TestWriterErrorsAreSticky(t *testing.T) {
	boom := errors.New("boom")
	for _, what := range []string{"append", "sync"} {
		l := new(memLog)
		w := NewWriter(l)
		l.err = boom
		if what == "append" {
			if err := w.Append([]byte("x")); err != boom {
				t.Fatal(err)
			}
		} else if err := w.Sync(); err != boom {
			t.Fatal(err)
		}
		l.err = nil
		appends, syncs := l.appends, l.syncs
		if err := w.Append([]byte("y")); err != boom {
			t.Errorf("Append after a failed %s: %v", what, err)
		}
		if err := w.Sync(); err != boom {
			t.Errorf("Sync after a failed %s: %v", what, err)
		}
		if l.appends != appends || l.syncs != syncs {
			t.Errorf("the log was used after a failed %s", what)
		}
		if err := w.Close(); err != boom {
			t.Errorf("Close after a failed %s: %v", what, err)
		}
	}
	w := NewWriter(new(memLog))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.Append(nil); !errors.Is(err, base.ErrClosed) {
		t.Errorf("Append after Close: %v", err)
	}
}

// TestCut takes back failed records of every kind: what is written then reads as
// if they had never been begun.
func TestCut(t *testing.T) {
	boom := errors.New("boom")
	for _, n := range []int{0, 1, 1000, blockSize, 3*flushAt + 17} {
		for after := range 4 {
			for _, partial := range []int{0, 3, 900, 1 << 30} {
				l := new(memLog)
				w := NewWriter(l)
				if err := w.Append(pattern(1, 100)); err != nil {
					t.Fatal(err)
				}
				l.err, l.after, l.partial = boom, after, partial
				if err := w.Append(pattern(2, n)); err == nil {
					continue // it took fewer appends
				} else if err != boom {
					t.Fatal(err)
				}
				l.err = nil
				if err := w.Append(pattern(3, 10)); err != boom {
					t.Fatalf("Append before Cut: %v", err)
				}
				if err := w.Cut(); err != nil {
					t.Fatalf("Cut: %v", err)
				}
				for i := 4; i < 7; i++ {
					if err := w.Append(pattern(i, i*blockSize/5)); err != nil {
						t.Fatal(err)
					}
				}
				if err := errors.Join(w.Sync(), w.Close()); err != nil {
					t.Fatal(err)
				}
				got, err := readAll(newReader(l.data))
				want := [][]byte{pattern(1, 100), pattern(4, 4*blockSize/5), pattern(5, blockSize),
					pattern(6, 6*blockSize/5)}
				if err != io.EOF || !equal(got, want) || w.Size() != int64(len(l.data)) {
					t.Fatalf("record of %d, failed after %d appends and %d bytes: %d records, %v",
						n, after, partial, len(got), err)
				}
			}
		}
	}
}

// TestCutTakesBackAppendsOnly: a failed sync stays, and so does an append whose
// log cannot be cut.
func TestCutTakesBackAppendsOnly(t *testing.T) {
	boom := errors.New("boom")
	l := new(memLog)
	w := NewWriter(l)
	if err := w.Cut(); err == nil {
		t.Error("Cut without a failure succeeds")
	}
	l.err = boom
	if err := w.Sync(); err != boom {
		t.Fatal(err)
	}
	if err := w.Append(nil); err != boom || w.Cut() == nil {
		t.Error("Cut takes back a failed sync")
	}
	l = &memLog{err: boom, stuck: true}
	w = NewWriter(l)
	if err := w.Append(nil); err != boom {
		t.Fatal(err)
	}
	l.err = nil
	if err := w.Cut(); err == nil || w.Append(nil) != boom {
		t.Error("an append succeeds although the log could not be cut")
	}
}

// syncingLog is synced, as by another goroutine, after each append that succeeds.
type syncingLog struct {
	memLog
	w *Writer
}

func (l *syncingLog) Append(p []byte) error {
	return errors.Join(l.w.Sync(), l.memLog.Append(p))
}

func (l *syncingLog) Sync() error { return nil }

// TestCutBehindASync: what a Sync beside a long Append made durable is not durable any more once it
// is cut off and written anew.
func TestCutBehindASync(t *testing.T) {
	l := &syncingLog{}
	l.w = NewWriter(l)
	if err := l.w.Begin(Begin{Num: chainNum}); err != nil {
		t.Fatal(err)
	}
	l.err, l.after = errors.New("boom"), 2
	if err := l.w.Append(pattern(1, 4*flushAt)); !errors.Is(err, l.err) ||
		l.w.Durable() <= l.w.Size() {
		t.Fatalf("%d of %d bytes are durable, %v", l.w.Durable(), l.w.Size(), err)
	}
	if err := l.w.Cut(); err != nil || l.w.Durable() > l.w.Size() {
		t.Errorf("after Cut %d of %d bytes are durable, %v", l.w.Durable(), l.w.Size(), err)
	}
}

func TestAppendDoesNotAllocate(t *testing.T) {
	w := NewWriter(nullLog{})
	rec, big := make([]byte, 141), make([]byte, 100<<10)
	if n := testing.AllocsPerRun(1000, func() {
		_ = w.Append(rec)
		_ = w.AppendParts(rec[:12], rec, rec[:3])
		_ = w.Append(big)
		_ = w.Sync()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

type nullLog struct{}

func (nullLog) Append([]byte) error  { return nil }
func (nullLog) Truncate(int64) error { return nil }
func (nullLog) Sync() error          { return nil }
func (nullLog) Close() error         { return nil }

// ends returns where each record of recs ends in the log built from them.
func ends(t *testing.T, recs [][]byte) (at []int) {
	for i := range recs {
		at = append(at, len(build(t, recs[:i+1]...)))
	}
	return at
}

func someRecords() [][]byte {
	var recs [][]byte
	for i, n := range []int{20, 0, 141, 300, 1, blockSize, 77, 70000, 12} {
		recs = append(recs, pattern(i, n))
	}
	return recs
}

func TestTruncated(t *testing.T) {
	recs := someRecords()
	b, at := build(t, recs...), ends(t, recs)
	for n := 0; n <= len(b); n++ {
		if n%211 != 0 && n > 600 && n%blockSize > 30 && len(b)-n > 30 {
			continue
		}
		whole := 0
		for whole < len(at) && at[whole] <= n {
			whole++
		}
		for _, zeros := range []int{0, 5000} {
			r := newReader(append(bytes.Clone(b[:n]), make([]byte, zeros)...))
			got, err := readAll(r)
			if zeros > 0 && len(got) == whole+1 && allZero(b[n:at[whole]]) {
				continue // what was cut off was zero
			}
			if !equal(got, recs[:whole]) {
				t.Fatalf("cut at %d: %d records, want %d", n, len(got), whole)
			}
			end := 0
			if whole > 0 {
				end = at[whole-1]
			}
			trailer := n-end < headerLen && allZero(b[end:n]) // of a block, or of the cut chunk
			if n == end || trailer {
				if err != io.EOF {
					t.Fatalf("cut at %d: %v", n, err)
				}
				continue
			}
			var c *base.Corruption
			if !errors.As(err, &c) || !r.Tail() || r.Resume() {
				t.Fatalf("cut at %d of %d, record %d: tail %v, %v", n, len(b), whole, r.Tail(), err)
			}
			if pad := c.Offset - int64(end); pad < 0 || pad >= headerLen ||
				c.Offset+c.Length != int64(n+zeros) || c.File != "000001.log" {
				t.Fatalf("cut at %d: %v", n, err)
			}
		}
	}
}

func TestFlipped(t *testing.T) {
	recs := someRecords()
	b, at := build(t, recs...), ends(t, recs)
	for i := range b {
		if i%499 != 0 && i > 600 && i%blockSize > 30 && len(b)-i > 30 {
			continue
		}
		hit := 0
		for at[hit] <= i {
			hit++
		}
		for _, mask := range []byte{1, 0x80, 0xff} {
			bad := bytes.Clone(b)
			bad[i] ^= mask
			r := newReader(bad)
			got, err := readAll(r)
			if err == io.EOF && equal(got, recs) && i%blockSize > blockSize-headerLen {
				continue // a block's trailer is not looked at
			}
			if !equal(got, recs[:hit]) {
				t.Fatalf("byte %d: %d records, want %d", i, len(got), hit)
			}
			last := hit == len(recs)-1
			if !errors.Is(err, base.ErrCorruption) || r.Tail() != last {
				t.Fatalf("byte %d of record %d: tail %v, %v", i, hit, r.Tail(), err)
			}
			if r.Resume() == last {
				t.Fatalf("byte %d of record %d: Resume %v", i, hit, !last)
			}
			if last {
				continue
			}
			rest, err := readAll(r)
			if err != io.EOF || !equal(rest, recs[hit+1:]) {
				t.Fatalf("byte %d: %d records after the damage of %d, then %v", i, len(rest), hit,
					err)
			}
		}
	}
}

// lostPages puts zeros where pages of a log never reached the disk.
func TestLostPages(t *testing.T) {
	var recs [][]byte
	for i := range 300 {
		recs = append(recs, pattern(i, 500))
	}
	b := build(t, recs...)
	for page := range len(b) / 4096 {
		bad := bytes.Clone(b)
		clear(bad[page*4096:][:4096])
		r := newReader(bad)
		got, err := readAll(r)
		if !errors.Is(err, base.ErrCorruption) || r.Tail() || !equal(got, recs[:len(got)]) {
			t.Fatalf("page %d: %d records, tail %v, %v", page, len(got), r.Tail(), err)
		}
		clear(bad[page*4096:]) // and all after it
		r = newReader(bad)
		again, err := readAll(r)
		if len(again) != len(got) || err != io.EOF && !r.Tail() {
			t.Fatalf("from page %d on: %d records, tail %v, %v", page, len(again), r.Tail(), err)
		}
	}
	// A hole exactly between records is still a hole.
	bad := append(build(t, recs[0]), make([]byte, blockSize)...)
	bad = append(bad[:blockSize:blockSize], build(t, recs[1], recs[2])...)
	r := newReader(bad)
	got, err := readAll(r)
	if len(got) != 1 || !errors.Is(err, base.ErrCorruption) || r.Tail() ||
		!strings.Contains(err.Error(), "zeros where") {
		t.Errorf("a hole of zeros: %d records, tail %v, %v", len(got), r.Tail(), err)
	}
}

// raw builds a log chunk by chunk, right or wrong.
type raw struct{ b []byte }

func (w *raw) chunk(typ byte, data string) *raw {
	h := make([]byte, headerLen)
	putHeader(h, typ, base.CRCUpdate(typeCRC[typ], []byte(data)), len(data))
	w.b = append(append(w.b, h...), data...)
	return w
}

func (w *raw) toBlockEnd(typ byte) *raw {
	return w.chunk(typ, string(make([]byte, blockSize-len(w.b)%blockSize-headerLen)))
}

func TestChunkOrder(t *testing.T) {
	tests := []struct {
		name    string
		log     *raw
		want    string // records, by length
		tail    bool
		damaged bool
		after   string // records after Resume
	}{
		{"full", new(raw).chunk(1, "a"), "1", false, false, ""},
		{"empty first at the end of a block, then full",
			new(raw).chunk(1, string(make([]byte, blockSize-14))).chunk(2, "").chunk(1, "ab"),
			fmt.Sprint(blockSize-14, " 2"), false, false, ""},
		{"unfinished record, then a new one", new(raw).toBlockEnd(2).chunk(1, "ab"), "2", false,
			false, ""},
		{"unfinished record with a middle, then a new one",
			new(raw).toBlockEnd(2).toBlockEnd(3).toBlockEnd(2).chunk(4, "abc"),
			fmt.Sprint(blockSize - 7 + 3), false, false, ""},
		{"first alone", new(raw).chunk(1, "a").toBlockEnd(2), "1", true, true, ""},
		{"last alone", new(raw).chunk(4, "a"), "", false, true, ""},
		{"middle alone, then full", new(raw).chunk(3, "a").chunk(1, "bc"), "", false, true, "2"},
		{"unknown type", new(raw).chunk(1, "a").chunk(5, "b").chunk(1, "cd"), "1", false, true,
			"2"},
		{"unknown type at the end", new(raw).chunk(1, "a").chunk(9, "b"), "1", false, true, ""},
		{"type zero with data", new(raw).chunk(0, "b"), "", false, true, ""},
	}
	lengths := func(recs [][]byte) (s string) {
		for i, r := range recs {
			if i > 0 {
				s += " "
			}
			s += fmt.Sprint(len(r))
		}
		return s
	}
	for _, tt := range tests {
		r := newReader(tt.log.b)
		got, err := readAll(r)
		if lengths(got) != tt.want || errors.Is(err, base.ErrCorruption) != tt.damaged ||
			r.Tail() != tt.tail {
			t.Errorf("%s: records %q, tail %v, %v", tt.name, lengths(got), r.Tail(), err)
		}
		if r.Resume() != (tt.after != "") {
			t.Errorf("%s: Resume %v", tt.name, tt.after == "")
		} else if tt.after != "" {
			if got, err := readAll(r); lengths(got) != tt.after || err != io.EOF {
				t.Errorf("%s: after Resume %q, %v", tt.name, lengths(got), err)
			}
		}
	}
}

// badDisk fails reads at or after a place.
type badDisk struct {
	io.ReaderAt
	from int64
	err  error
}

func (d badDisk) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > d.from {
		return 0, d.err
	}
	return d.ReaderAt.ReadAt(p, off)
}

func TestReadErrorIsNotDamage(t *testing.T) {
	recs := someRecords()
	b := build(t, recs...)
	eio := errors.New("input/output error")
	for from := int64(0); from < int64(len(b)); from += 4096 {
		for _, damage := range []bool{false, true} {
			bad := bytes.Clone(b)
			if damage {
				bad[3] ^= 1
			}
			r := NewReader(badDisk{bytes.NewReader(bad), from, eio}, int64(len(b)), "f")
			_, err := readAll(r)
			if damage && from >= blockSize {
				continue // records after the damage came first
			}
			if err != eio || r.Resume() || r.Tail() {
				t.Fatalf("EIO from %d on: %v", from, err)
			}
		}
	}
	// A file that became shorter cannot be read either.
	_, err := readAll(NewReader(bytes.NewReader(b[:100]), int64(len(b)), "f"))
	if !errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, base.ErrCorruption) {
		t.Errorf("file shorter than its size: %v", err)
	}
}

// TestHostileScan is the worst that a file can do to the search for records:
// every other byte looks like a chunk of 32,513 bytes.
func TestHostileScan(t *testing.T) {
	b := bytes.Repeat([]byte{0x7f, 1}, 2<<20)
	r := newReader(b)
	if _, err := r.Next(); !errors.Is(err, base.ErrCorruption) || r.Tail() {
		t.Errorf("tail %v, %v", r.Tail(), err)
	}
}

// TestHostileGaps: many searches compute no more checksums together than one may. Each block has a
// record, and before it a gap in which every third byte begins what looks like a chunk of 4 KiB.
func TestHostileGaps(t *testing.T) {
	const blocks, gap = 64, 3072
	b := bytes.Repeat([]byte{0x00, 0x10, 0x01}, blocks*blockSize/3+1)[:blocks*blockSize]
	for at := gap; at < len(b); at += blockSize {
		n := blockSize - gap - headerLen
		putHeader(b[at:], chunkFull, base.CRCUpdate(typeCRC[chunkFull], b[at+headerLen:][:n]), n)
	}
	if found := intact(newReader(b)); found == 0 || found > blocks*3/4 {
		t.Errorf("%d of %d records were found", found, blocks)
	}
}

// intact is how many records are found beside the gaps.
func intact(r interface {
	Next() ([]byte, error)
	Resume() bool
}) (n int) {
	for {
		if _, err := r.Next(); err == nil {
			n++
		} else if !r.Resume() {
			return n
		}
	}
}

// holeFile has one record behind a hole, and counts what is read.
type holeFile struct {
	hole int64
	tail []byte
	read int64
}

func (f *holeFile) Stored() int64            { return int64(len(f.tail)) }
func (f *holeFile) NextData(off int64) int64 { return max(off, f.hole) }

func (f *holeFile) ReadAt(p []byte, off int64) (int, error) {
	f.read += int64(len(p))
	clear(p)
	if at := f.hole - off; at < int64(len(p)) {
		copy(p[max(at, 0):], f.tail[max(-at, 0):])
	}
	return len(p), nil
}

// Terabytes of holes are not read, neither for the end of a log nor for the bytes after damage.
func TestHolesAreNotRead(t *testing.T) {
	for _, shift := range []int64{0, 1, 6, 7, 8, 4096, blockSize - headerLen - 6} {
		var log memLog
		w := NewWriter(&log)
		if err := w.Append([]byte("behind")); err != nil {
			t.Fatal(err)
		}
		f := &holeFile{hole: 1<<42 + shift, tail: append(log.data, make([]byte, 100)...)}
		r := NewReader(f, f.hole, "log")
		if _, err := r.Next(); err != io.EOF {
			t.Errorf("nothing but a hole: %v", err)
		}
		r = NewReader(f, f.hole+int64(len(f.tail)), "log")
		_, err := r.Next()
		if !errors.Is(err, base.ErrCorruption) || r.Tail() {
			t.Errorf("shift %d: %v", shift, err)
		}
		if !r.Resume() {
			t.Fatalf("shift %d: no record found", shift)
		}
		if rec, err := r.Next(); err != nil || string(rec) != "behind" {
			t.Errorf("shift %d: %q, %v", shift, rec, err)
		}
		if f.read > 10*blockSize {
			t.Errorf("shift %d: %d bytes were read", shift, f.read)
		}
	}
}
