package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/testkit/seed"
)

const chainNum = 7

// chainLog is a chained log and its expected records.
type chainLog struct {
	memLog
	w    *Writer
	recs [][]byte
	ends []int64 // of the records
}

func newChainLog(t testing.TB, former []byte) *chainLog { return numbered(t, chainNum, former) }

func numbered(t testing.TB, num uint64, former []byte) *chainLog {
	t.Helper()
	l := &chainLog{}
	l.w = NewWriter(&l.memLog)
	begin := Begin{Num: num, Before: Predecessor{Num: 5, End: 1000, Durable: 10},
		Former: int64(len(former))}
	if err := l.w.Begin(begin); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *chainLog) add(t testing.TB, rec []byte) {
	t.Helper()
	if err := l.w.Append(rec); err != nil {
		t.Fatal(err)
	}
	l.recs, l.ends = append(l.recs, rec), append(l.ends, l.w.Size())
}

func (l *chainLog) sync(t testing.TB) {
	t.Helper()
	if err := l.w.Sync(); err != nil {
		t.Fatal(err)
	}
}

// over is the log written over the bytes of a former life.
func (l *chainLog) over(former []byte) []byte {
	b := bytes.Clone(l.data)
	return append(b, former[min(len(former), len(b)):]...)
}

func readChain(b []byte, num uint64, synced int64) (*ChainReader, [][]byte, error) {
	r := NewChainReader(bytes.NewReader(b), int64(len(b)), "000007.wal", num, synced)
	for recs := [][]byte(nil); ; {
		rec, err := r.Next()
		if err != nil {
			return r, recs, err
		}
		recs = append(recs, bytes.Clone(rec))
	}
}

// isCorruption checks what an error says of a log of size bytes.
func isCorruption(t *testing.T, r *ChainReader, err error, size int) {
	t.Helper()
	var c *base.Corruption
	if !errors.As(err, &c) || !errors.Is(err, base.ErrCorruption) {
		t.Fatalf("not a corruption: %v", err)
	}
	if c.File != "000007.wal" || c.Offset != r.End() || c.Length != max(int64(size)-c.Offset, 0) {
		t.Fatalf("%v: records end at %d of %d", c, r.End(), size)
	}
	if _, again := r.Next(); again != err {
		t.Fatalf("%v became %v", err, again)
	}
}

func TestChainRoundTrip(t *testing.T) {
	sizes := [][]int{
		{}, {0}, {0, 0, 1, 0},
		{blockSize - chainHeaderLen - beginLen - chainHeaderLen, 4}, // exactly one block
		{blockSize - 2*chainHeaderLen - beginLen - 1, 5},            // a trailer of one byte
		{blockSize - 3*chainHeaderLen - beginLen, 5, 6},             // room for an empty chunk
		{blockSize, 2 * blockSize, 3*blockSize - 11, 17},
		{flushAt + 12345, 3, 3*flushAt + 1},
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 30 {
		var s []int
		for range rng.IntN(60) {
			s = append(s, rng.IntN(1<<rng.IntN(18)))
		}
		sizes = append(sizes, s)
	}
	for i, s := range sizes {
		former := numbered(t, 3, nil)
		for j := range rng.IntN(60) {
			former.add(t, pattern(j, rng.IntN(20000)))
		}
		l := newChainLog(t, former.data)
		for j, n := range s {
			l.add(t, pattern(j, n))
			if j%3 == i%3 {
				l.sync(t)
			}
		}
		for _, b := range [][]byte{
			l.data, append(bytes.Clone(l.data), make([]byte, i*1000)...), l.over(former.data),
		} {
			r, got, err := readChain(b, chainNum, l.w.Size())
			if err != io.EOF || !equal(got, l.recs) || r.End() != l.w.Size() ||
				r.Durable() > l.w.Durable() {
				t.Fatalf("sizes %v: %d records of %d, then %v at %d", s, len(got), len(l.recs), err,
					r.End())
			}
			begin, begun := r.Begin()
			if !begun || begin.Before != (Predecessor{5, 1000, 10}) ||
				begin.Former != int64(len(former.data)) {
				t.Fatalf("begin %+v, %v", begin, begun)
			}
			if _, got, err := readChain(b, chainNum+1, 0); err != io.EOF || got != nil {
				t.Fatalf("under another number: %d records, %v", len(got), err)
			}
			if r, _, err := readChain(b, chainNum+1, 1); r.Tail() {
				t.Fatal("synced under another number: torn")
			} else {
				isCorruption(t, r, err, len(b))
			}
		}
	}
}

// sample is a log of small and large records, synced now and then, over a former life.
func chainSample(t testing.TB) (l *chainLog, former []byte) {
	old := numbered(t, 3, nil)
	for i := range 400 {
		old.add(t, pattern(i, 120))
	}
	l = newChainLog(t, old.data)
	for i, n := range []int{0, 100, 131, 20, 3000, 0, 31000, 40, 50, 600, 70, 0} {
		l.add(t, pattern(i, n))
		if i%3 == 1 {
			l.sync(t)
		}
	}
	return l, old.data
}

// said is the most that the chunks of b, all intact, say is durable, without those
// that have a byte in [from, to).
func said(b []byte, from, to int64) (durable int64) {
	for pos := int64(0); pos+chainHeaderLen <= int64(len(b)); {
		if room := blockSize - pos%blockSize; room < chainHeaderLen {
			pos += room
			continue
		}
		h := chained(b[pos:])
		if end := pos + chainHeaderLen + int64(chunkLen(h)); end <= from || pos >= to {
			durable = max(durable, h.durable(pos))
		}
		pos += chainHeaderLen + int64(chunkLen(h))
	}
	return durable
}

// verdict wants what reading gives after the bytes [from, to) of a log were
// changed: all records before them; damage exactly where an intact chunk or the caller says that
// something is missing which was durable; and an error if any record is missing at all.
func (l *chainLog) verdict(t *testing.T, b []byte, from, to, synced int64) {
	t.Helper()
	r, got, err := readChain(b, chainNum, synced)
	durable := max(said(l.data, from, to), synced)
	if len(got) > len(l.recs) || !equal(got, l.recs[:len(got)]) {
		t.Fatalf("[%d, %d): other records", from, to)
	}
	if len(got) < len(l.recs) && l.ends[len(got)] <= from {
		t.Fatalf("[%d, %d): only %d records", from, to, len(got))
	}
	switch missing := len(got) < len(l.recs); {
	case r.End() < durable:
		if r.Tail() || err == io.EOF {
			t.Fatalf("[%d, %d): records end at %d, %d bytes were durable: %v, tail %v", from, to,
				r.End(), durable, err, r.Tail())
		}
		isCorruption(t, r, err, len(b))
	case err != io.EOF && !r.Tail():
		t.Fatalf("[%d, %d): records end at %d, %d bytes were durable: %v", from, to, r.End(),
			durable, err)
	case err != io.EOF:
		isCorruption(t, r, err, len(b))
	case missing && to-from == 1:
		t.Fatalf("[%d, %d): %d records of %d without an error", from, to, len(got), len(l.recs))
	}
}

// TestEveryByte changes each byte of a log, in usual runs each third one, with and without a former
// life behind it.
func TestEveryByte(t *testing.T) {
	l, former := chainSample(t)
	for _, b := range [][]byte{bytes.Clone(l.data),
		append(bytes.Clone(l.data), make([]byte, 5000)...), l.over(former)} {
		for i := range l.data {
			if i >= 300 && i%seed.Scale(3, 3, 1) != 0 {
				continue
			}
			flips := []byte{1 << (i % 8)}
			if i%37 == 0 || i < 300 {
				flips = append(flips, 0xff, b[i]) // b[i]: it becomes zero
			}
			for _, flip := range flips {
				if flip == 0 {
					continue
				}
				b[i] ^= flip
				l.verdict(t, b, int64(i), int64(i+1), 0)
				b[i] ^= flip
			}
		}
	}
}

// TestSyncedEnd has the caller know what was synced: the end of the log cannot be lost,
// be it changed or cut off.
func TestSyncedEnd(t *testing.T) {
	l, former := chainSample(t)
	size := l.w.Size()
	whole := l.over(former)
	for i := range l.data {
		if i%7 != 0 && size-int64(i) > 300 {
			continue
		}
		whole[i] ^= 0x10
		l.verdict(t, whole, int64(i), int64(i+1), size)
		whole[i] ^= 0x10
		l.verdict(t, l.data[:i], int64(i), size, size)
		l.verdict(t, l.data[:i], int64(i), size, 0)
		l.verdict(t, append(bytes.Clone(l.data[:i]), make([]byte, 9000)...), int64(i), size, size)
	}
	if r, _, err := readChain(nil, chainNum, 1); r.Tail() {
		t.Error("an empty file is torn")
	} else {
		isCorruption(t, r, err, 0)
	}
}

// TestLostPagesOfAChain has a power cut lose pages: the former life, or zeros, stand in their
// place. If only unsynced pages are lost, that is no damage, whatever stands behind.
func TestLostPagesOfAChain(t *testing.T) {
	l, former := chainSample(t)
	for from := int64(0); from < l.w.Size(); from += 4096 {
		for to := from + 4096; to < l.w.Size()+4096; to += 4096 {
			for _, was := range [][]byte{former, make([]byte, len(former))} {
				b := l.over(former)
				end := min(to, int64(len(b)))
				copy(b[from:end], was[from:end])
				l.verdict(t, b, from, end, 0)
			}
		}
	}
}

// TestTwoHistories: a record that was cut off comes back after its replacement, as a power cut may
// leave it: no record is joined from the two.
func TestTwoHistories(t *testing.T) {
	l := newChainLog(t, nil)
	l.add(t, pattern(0, 100))
	l.memLog.err, l.memLog.partial = errors.New("full"), 1<<30
	if err := l.w.Append(pattern(1, 3*blockSize)); err == nil {
		t.Fatal("no error")
	}
	first := bytes.Clone(l.data)
	l.memLog.err = nil
	if err := l.w.Cut(); err != nil {
		t.Fatal(err)
	}
	l.add(t, pattern(2, 3*blockSize))
	if _, got, err := readChain(l.data, chainNum, 0); err != io.EOF || !equal(got, l.recs) {
		t.Fatalf("%d records, %v", len(got), err)
	}
	for block := 1; block < 4; block++ {
		b := bytes.Clone(l.data)
		copy(b[block*blockSize:min((block+1)*blockSize, len(b))], first[block*blockSize:])
		r, got, err := readChain(b, chainNum, 0)
		if len(got) != 1 || !r.Tail() {
			t.Errorf("block %d of the old record: %d records, %v", block, len(got), err)
		}
	}
}

// TestForgedChunks has records hold chunks of later logs: they are not taken for any.
func TestForgedChunks(t *testing.T) {
	next := newChainLog(t, nil) // as somebody may foresee it, but for its life
	for i := range 20 {
		next.add(t, pattern(i, 100))
		next.sync(t)
	}
	l := newChainLog(t, next.data)
	l.add(t, pattern(1, 10))
	if bytes.Equal(l.data[atLife:atLife+4], next.data[atLife:atLife+4]) {
		t.Skip("the same life, once in 2^32")
	}
	if _, got, err := readChain(l.over(next.data), chainNum, 0); err != io.EOF ||
		!equal(got, l.recs) {
		t.Errorf("%d records, %v", len(got), err)
	}
}

// TestBeginOutOfRange has first chunks whose fields no writer writes.
func TestBeginOutOfRange(t *testing.T) {
	good := Begin{Num: chainNum, Before: Predecessor{3, 4, 5}, Former: 6}
	if b, ok := decodeBegin(good.encode(beginVersion)); !ok || b != good {
		t.Fatalf("%+v, %v", b, ok)
	}
	for _, change := range []func(p []byte){
		func(p []byte) { p[0]++ },
		func(p []byte) { binary.LittleEndian.PutUint64(p[17:], 1<<63) },
		func(p []byte) { binary.LittleEndian.PutUint64(p[25:], 1<<63) },
		func(p []byte) { binary.LittleEndian.PutUint64(p[33:], 1<<63) },
	} {
		p := good.encode(beginVersion)
		change(p)
		if b, ok := decodeBegin(p); ok {
			t.Errorf("%x is %+v", p, b)
		}
	}
	if _, ok := decodeBegin(append(good.encode(beginVersion), 0)); ok {
		t.Error("longer")
	}
}

// failAt is a file that cannot be read from an offset on.
type failAt struct {
	io.ReaderAt
	off int64
}

func (f failAt) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > f.off {
		return 0, errors.New("EIO")
	}
	return f.ReaderAt.ReadAt(p, off)
}

// TestChainReadErrorIsNotDamage fails each read.
func TestChainReadErrorIsNotDamage(t *testing.T) {
	l, former := chainSample(t)
	whole := l.over(former)
	for _, b := range [][]byte{whole, append(make([]byte, 100), whole[100:]...)} {
		for off := int64(0); off < int64(len(b)); off += blockSize {
			r := NewChainReader(failAt{bytes.NewReader(b), off}, int64(len(b)), "000007.wal",
				chainNum, 0)
			var err error
			for err == nil {
				_, err = r.Next()
			}
			if err == io.EOF || errors.Is(err, base.ErrCorruption) {
				t.Errorf("from %d on: %v", off, err)
			}
		}
	}
}

// TestChainedIsCheap bounds what the framing adds to a record.
func TestChainedIsCheap(t *testing.T) {
	l := newChainLog(t, nil)
	before := l.w.Size()
	rec := make([]byte, 131)
	l.add(t, rec)
	if extra := l.w.Size() - before - 131; extra > headerLen+12 {
		t.Errorf("%d bytes", extra)
	}
	l.memLog.data = make([]byte, 0, 1<<20)
	if n := testing.AllocsPerRun(1000, func() {
		if err := l.w.Append(rec); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzChainReader(f *testing.F) {
	l, former := numbered(f, 3, nil), []byte(nil)
	for round := range 2 {
		for i := range 12 - 4*round {
			l.add(f, pattern(i, 10*i))
			if i == 5 {
				l.sync(f)
			}
		}
		if round == 0 {
			former = l.data
			l = newChainLog(f, former)
		}
	}
	f.Add(l.over(former), uint32(0), uint16(0), byte(0))
	f.Add(l.data[:300], uint32(200), uint16(7), byte(3))
	f.Fuzz(func(t *testing.T, b []byte, at uint32, n uint16, flip byte) {
		// b itself is hardly ever a log; changed bytes of a log are.
		for _, b := range [][]byte{b, l.over(b)} {
			b = bytes.Clone(b)
			if len(b) == 0 {
				continue
			}
			from := int(at) % len(b)
			for i := from; i < min(from+int(n), len(b)); i++ {
				b[i] ^= flip
			}
			r, got, err := readChain(b, chainNum, int64(n))
			sum := 0
			for _, rec := range got {
				sum += len(rec) + chainHeaderLen
			}
			if sum > len(b) || r.End() > int64(len(b)) {
				t.Fatalf("%d bytes of records in a file of %d", sum, len(b))
			}
			if err != io.EOF {
				isCorruption(t, r, err, len(b))
			}
			if err == io.EOF && r.End() < int64(n) {
				t.Fatalf("ends at %d, %d bytes were synced", r.End(), n)
			}
		}
	})
}

func ExampleBegin() {
	var m memLog
	w := NewWriter(&m)
	_ = w.Begin(Begin{Num: 3})
	_ = w.Append([]byte("loam"))
	r := NewChainReader(bytes.NewReader(m.data), int64(len(m.data)), "000003.wal", 3, 0)
	rec, err := r.Next()
	fmt.Println(string(rec), err)
	_, err = r.Next()
	fmt.Println(err)
	// Output:
	// loam <nil>
	// EOF
}

// TestChainResume reads on behind each damaged record: all others are found.
func TestChainResume(t *testing.T) {
	l, former := chainSample(t)
	for i, end := range l.ends {
		b := l.over(former)
		b[end-1] ^= 1
		r := NewChainReader(bytes.NewReader(b), int64(len(b)), "000007.wal", chainNum, 0)
		var got [][]byte
		for {
			rec, err := r.Next()
			if err == nil {
				got = append(got, bytes.Clone(rec))
			} else if !r.Resume() {
				break
			}
		}
		want := append(append([][]byte(nil), l.recs[:i]...), l.recs[i+1:]...)
		if !equal(got, want) {
			t.Errorf("record %d damaged: %d of %d others", i, len(got), len(want))
		}
	}
}

// TestChainWithManyGaps: a log with many gaps is not read as many times.
func TestChainWithManyGaps(t *testing.T) {
	const records, each = 400, 2000
	l := newChainLog(t, nil)
	for i := range records {
		l.add(t, pattern(i, each))
	}
	for i, end := range l.ends {
		if i%2 == 0 {
			l.data[end-1] ^= 1
		}
	}
	f := &countingFile{Reader: bytes.NewReader(l.data)}
	found := intact(NewChainReader(f, int64(len(l.data)), "000007.wal", chainNum, 0))
	if found != records/2 {
		t.Errorf("%d of %d records", found, records/2)
	}
	if f.n > 4*int64(len(l.data)) {
		t.Errorf("%d bytes of %d were read", f.n, len(l.data))
	}
}

// countingFile counts the bytes that are read.
type countingFile struct {
	*bytes.Reader
	n int64
}

func (f *countingFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.Reader.ReadAt(p, off)
	f.n += int64(n)
	return n, err
}
