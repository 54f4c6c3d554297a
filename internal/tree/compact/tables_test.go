package compact

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/rangedel"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/testkit/model"
	"github.com/loamdb/loam/internal/tree/picker"
)

// tableSource is a model's source that records the covered keys.
type tableSource struct {
	*model.Source
	es    []model.Entry
	err   error // of Next
	total int   // what properties say, if not what there is
}

func newTableSource(t testing.TB, cmp *base.Comparer, es []model.Entry, chunk int) *tableSource {
	return &tableSource{Source: model.NewSource(t, cmp, es, model.ChunksOf(len(es), chunk)), es: es}
}

func (s *tableSource) Next(e *base.Chunk) (bool, error) {
	if s.err != nil {
		*e = base.Chunk{}
		return false, s.err
	}
	return s.Source.Next(e)
}

// Coverage leaves Total out for every other table, as LevelDB does for all.
func (s *tableSource) Coverage() sstable.Coverage {
	from, to, n := s.Walked()
	c := sstable.Coverage{From: from, To: to, Entries: uint64(n), Blocks: s.Chunks()}
	if len(s.es)%2 == 0 {
		c.Total = uint64(len(s.es))
	}
	if s.total > 0 {
		c.Total = uint64(s.total)
	}
	return c
}

// tables is a set of tables in memory.
type tables struct {
	t       testing.TB
	cmp     *base.Comparer
	next    uint64
	data    map[uint64][]model.Entry
	dels    map[uint64]*rangedel.List
	chunk   int
	failAdd int // fail the Add after so many, when not 0
	adds    int

	codec base.Codec   // of all values
	added []base.Codec // of the entries of tables written; not nil: they may differ

	failSync int // fail the Sync after so many, when not 0

	mu     sync.Mutex // tables are synced and closed in the background
	synced map[uint64]bool
	open   int // writers that are not closed
}

// opened is how many writers are not closed.
func (ts *tables) opened() int {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return ts.open
}

var errAdd, errSync = errors.New("disk full"), errors.New("sync failed")

func newTables(t testing.TB, cmp *base.Comparer) *tables {
	return &tables{t: t, cmp: cmp, data: map[uint64][]model.Entry{},
		dels: map[uint64]*rangedel.List{}, chunk: 3, synced: map[uint64]bool{}}
}

func (ts *tables) source(num uint64) base.Source {
	s := newTableSource(ts.t, ts.cmp, ts.data[num], ts.chunk)
	if ts.codec != base.CodecRaw {
		s.Adjust = func(e *base.Chunk) { e.Codecs = slices.Repeat([]base.Codec{ts.codec}, e.Len()) }
	}
	return s
}

func (ts *tables) env() *Env {
	return &Env{
		Comparer: ts.cmp, Merge: appendOperator,
		Open: func(m *manifest.FileMeta, _ sstable.ReadFlags) (base.Source, error) {
			if _, ok := ts.data[m.Num]; !ok {
				return nil, fmt.Errorf("table %d does not exist", m.Num)
			}
			return ts.source(m.Num), nil
		},
		RangeDels: func(m *manifest.FileMeta) (*rangedel.List, error) {
			return ts.dels[m.Num], nil
		},
		NewWriter: func() (uint64, sstable.Writer, error) {
			ts.mu.Lock()
			defer ts.mu.Unlock()
			ts.next++
			ts.open++
			return ts.next, &tableWriter{ts: ts, num: ts.next}, nil
		},
	}
}

// mayHold is Env.MayHold of filters that err for keys of odd lengths.
func (ts *tables) mayHold(m *manifest.FileMeta, key []byte) bool {
	return len(key)%2 == 1 || slices.ContainsFunc(ts.data[m.Num], func(e model.Entry) bool {
		return ts.cmp.Cmp(e.Key, key) == 0
	})
}

// splitKeys cuts a table where entries begin.
func (ts *tables) splitKeys(f *manifest.FileMeta, n int) (keys [][]byte) {
	es := ts.data[f.Num]
	for k := 1; k < n; k++ {
		if key := es[len(es)*k/n].Key; len(keys) == 0 || ts.cmp.Cmp(key, keys[len(keys)-1]) > 0 {
			keys = append(keys, key)
		}
	}
	return keys
}

// meta describes a table.
func (ts *tables) meta(num uint64) *manifest.FileMeta {
	es := ts.data[num]
	size, deletes := uint64(0), uint64(0)
	for _, e := range es {
		size += uint64(len(e.Key) + len(e.Value) + base.TrailerLen)
		if e.Trailer.Kind() == base.KindDelete {
			deletes++
		}
	}
	m := &manifest.FileMeta{Num: num, Size: size, Facts: manifest.Facts{Entries: uint64(len(es)),
		Deletes: deletes, RangeDels: uint64(ts.dels[num].Count())}}
	if len(es) > 0 {
		m.Smallest, m.Largest = es[0].Internal(), es[len(es)-1].Internal()
	}
	if frags := ts.dels[num].Fragments(); len(frags) > 0 {
		start, limit := ts.dels[num].Ends()
		first := base.InternalKey{User: start, Trailer: base.MakeTrailer(frags[0].Seqs[0],
			base.KindRangeDelete)}
		end := base.InternalKey{User: limit, Trailer: base.RangeDelEnd}
		if len(es) == 0 || ts.cmp.CompareInternal(first.User, first.Trailer, m.Smallest.User,
			m.Smallest.Trailer) < 0 {
			m.Smallest = first
		}
		if len(es) == 0 || ts.cmp.CompareInternal(m.Largest.User, m.Largest.Trailer, end.User,
			end.Trailer) < 0 {
			m.Largest = end
		}
	}
	return m
}

func (ts *tables) put(es []model.Entry) *manifest.FileMeta { return ts.putWith(es, nil) }

// putWith adds a table with range tombstones.
func (ts *tables) putWith(es []model.Entry, dels *rangedel.List) *manifest.FileMeta {
	ts.next++
	ts.data[ts.next], ts.dels[ts.next] = es, dels
	return ts.meta(ts.next)
}

// cutRangeDels takes range tombstones, "b..d#5", out of what model.Parse reads.
func cutRangeDels(cmp *base.Comparer, s string) (rest string, dels *rangedel.List) {
	rest = rangeDel.ReplaceAllStringFunc(s, func(w string) string {
		m := rangeDel.FindStringSubmatch(w)
		seq, _ := strconv.Atoi(m[3])
		one := rangedel.Tombstone{Start: []byte(m[1]), Limit: []byte(m[2]), Seq: base.SeqNum(seq)}
		dels = rangedel.Merge(cmp, dels, rangedel.NewestOf(cmp, []rangedel.Tombstone{one}))
		return ""
	})
	return rest, dels
}

var rangeDel = regexp.MustCompile(`(\w+)\.\.(\w+)#(\d+)`)

func formatRangeDels(dels *rangedel.List) (s string) {
	for _, f := range dels.Fragments() {
		for _, seq := range f.Seqs {
			s += fmt.Sprintf(" %s..%s#%d", f.Start, f.Limit, seq)
		}
	}
	return s
}

type tableWriter struct {
	ts   *tables
	num  uint64
	es   []model.Entry
	dels []rangedel.Fragment
	size uint64
}

func (w *tableWriter) Add(key []byte, t base.Trailer, codec base.Codec, value []byte) error {
	if w.ts.adds++; w.ts.adds == w.ts.failAdd {
		return errAdd
	}
	if t.Kind() == base.KindRangeDelete {
		return w.addRangeDel(key, t, value)
	}
	if n := len(w.es); n > 0 && w.ts.cmp.CompareInternal(w.es[n-1].Key, w.es[n-1].Trailer, key,
		t) >= 0 {
		return fmt.Errorf("out of order: %q#%d after %v", key, t.Seq(), w.es[n-1])
	}
	if w.ts.added != nil {
		w.ts.added = append(w.ts.added, codec)
	} else if codec != w.ts.codec {
		return fmt.Errorf("a value packed by %d was handed on as by %d", w.ts.codec, codec)
	}
	w.es = append(w.es, model.Entry{Key: bytes.Clone(key), Value: bytes.Clone(value), Trailer: t})
	w.size += uint64(len(key) + len(value) + base.TrailerLen)
	return nil
}

func (w *tableWriter) addRangeDel(key []byte, t base.Trailer, limit []byte) error {
	if n := len(w.dels); n > 0 && bytes.Equal(w.dels[n-1].Start, key) &&
		bytes.Equal(w.dels[n-1].Limit, limit) {
		w.dels[n-1].Seqs = append(w.dels[n-1].Seqs, t.Seq())
	} else {
		w.dels = append(w.dels, rangedel.Fragment{Start: bytes.Clone(key),
			Limit: bytes.Clone(limit), Seqs: []base.SeqNum{t.Seq()}})
	}
	return nil
}

func (w *tableWriter) EstimatedSize() uint64 { return w.size }
func (w *tableWriter) Entries() uint64       { return uint64(len(w.es)) }
func (w *tableWriter) Finish() (sstable.Meta, error) {
	dels, ok := rangedel.New(w.ts.cmp, w.dels)
	if !ok {
		return sstable.Meta{}, fmt.Errorf("range tombstones out of order: %v", w.dels)
	}
	w.ts.data[w.num], w.ts.dels[w.num] = w.es, dels
	m := w.ts.meta(w.num)
	return sstable.Meta{Props: sstable.Props{Size: m.Size, Entries: uint64(len(w.es)),
		Deletes: m.Deletes, RangeDels: m.RangeDels}, Smallest: m.Smallest, Largest: m.Largest}, nil
}
func (w *tableWriter) Sync() error {
	w.ts.mu.Lock()
	defer w.ts.mu.Unlock()
	if len(w.ts.synced)+1 == w.ts.failSync {
		return errSync
	}
	w.ts.synced[w.num] = true
	return nil
}
func (w *tableWriter) Close() error {
	w.ts.mu.Lock()
	defer w.ts.mu.Unlock()
	w.ts.open--
	return nil
}

// planOf merges all tables down to a level into one table of it.
func planOf(v *manifest.Version, to int) *picker.Plan {
	p := &picker.Plan{OutputLevel: to, MaxPieces: 1, Reason: "test", Version: v}
	for l := 0; l <= to; l++ {
		p.Inputs[l] = v.Levels[l].Files
		p.InputBytes += v.Levels[l].Size
	}
	p.Files(func(_ int, f *manifest.FileMeta) {
		if p.Smallest == nil || base.Bytewise.Cmp(f.Smallest.User, p.Smallest) < 0 {
			p.Smallest = f.Smallest.User
		}
		if p.Largest == nil || base.Bytewise.Cmp(f.Largest.User, p.Largest) > 0 {
			p.Largest = f.Largest.User
		}
	})
	return p
}
