package compact

import (
	"bytes"
	"errors"
	"fmt"
	"sort"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/manifest"
	"github.com/loamdb/loam/internal/sstable"
)

type entry struct {
	key, value []byte
	t          base.Trailer
}

func (e entry) String() string {
	return fmt.Sprintf("%s#%d,%d=%s", e.key, e.t.Seq(), e.t.Kind(), e.value)
}

func sortEntries(cmp *base.Comparer, es []entry) {
	sort.SliceStable(es, func(i, j int) bool {
		return cmp.CompareInternal(es[i].key, es[i].t, es[j].key, es[j].t) < 0
	})
}

// tableSource iterates over entries in chunks of a few.
type tableSource struct {
	cmp   *base.Comparer
	es    []entry
	chunk int
	at    int    // start of the present chunk
	old   []byte // its data, overwritten when it is left
	err   error  // of Next
	cover sstable.Coverage
	total int // what properties say, if not what there is
}

func (s *tableSource) fill(at int, e *base.Chunk) {
	s.at = at
	s.scramble()
	*e = base.Chunk{AllLiveSets: true}
	defer func() { s.old = e.Data }()
	for i := at; i < min(at+s.chunk, len(s.es)); i++ {
		x := s.es[i]
		e.KeyOff = append(e.KeyOff, uint32(len(e.Data)))
		e.Data = append(e.Data, x.key...)
		e.ValOff = append(e.ValOff, uint32(len(e.Data)))
		e.Data = append(e.Data, x.value...)
		e.ValEnd = append(e.ValEnd, uint32(len(e.Data)))
		e.Trailers = append(e.Trailers, x.t)
		e.MaxSeq = max(e.MaxSeq, x.t.Seq())
		if x.t.Kind() != base.KindSet || i > at && s.cmp.Compare(x.key, s.es[i-1].key) == 0 {
			e.AllLiveSets = false
		}
	}
}

func (s *tableSource) scramble() {
	for i := range s.old {
		s.old[i] = 0xee
	}
	s.old = nil
}

func (s *tableSource) seek(i int, e *base.Chunk) (int, error) {
	if i < 0 || i >= len(s.es) {
		s.scramble()
		*e = base.Chunk{}
		return -1, nil
	}
	at := i - i%s.chunk
	s.fill(at, e)
	s.cover = sstable.Coverage{From: at / s.chunk, To: at/s.chunk + 1, Entries: uint64(e.Len())}
	return i - at, nil
}

// Coverage leaves Total out for every other table, as LevelDB does for all.
func (s *tableSource) Coverage() sstable.Coverage {
	c := s.cover
	c.Blocks = (len(s.es) + s.chunk - 1) / s.chunk
	if len(s.es)%2 == 0 {
		c.Total = uint64(len(s.es))
	}
	if s.total > 0 {
		c.Total = uint64(s.total)
	}
	return c
}

func (s *tableSource) search(key []byte, t base.Trailer) int {
	return sort.Search(len(s.es), func(i int) bool { return s.cmp.CompareInternal(s.es[i].key, s.es[i].t, key, t) >= 0 })
}

func (s *tableSource) First(e *base.Chunk) (int, error) { return s.seek(0, e) }
func (s *tableSource) Last(e *base.Chunk) (int, error)  { return s.seek(len(s.es)-1, e) }
func (s *tableSource) SeekGE(key []byte, t base.Trailer, e *base.Chunk) (int, error) {
	return s.seek(s.search(key, t), e)
}
func (s *tableSource) SeekLT(key []byte, t base.Trailer, e *base.Chunk) (int, error) {
	return s.seek(s.search(key, t)-1, e)
}
func (s *tableSource) Next(e *base.Chunk) (bool, error) {
	if s.err != nil {
		*e = base.Chunk{}
		return false, s.err
	}
	before := s.cover
	i, err := s.seek(s.at+s.chunk, e)
	if i >= 0 {
		s.cover.From = before.From
		s.cover.Entries += before.Entries
	}
	return i >= 0, err
}
func (s *tableSource) Prev(e *base.Chunk) (bool, error) {
	i, err := s.seek(s.at-s.chunk, e)
	return i >= 0, err
}
func (s *tableSource) Close() {}

// tables is a set of tables in memory.
type tables struct {
	cmp     *base.Comparer
	next    uint64
	data    map[uint64][]entry
	open    int // writers that are not closed
	chunk   int
	failAdd int // fail the Add after so many, when not 0
	adds    int
}

var errAdd = errors.New("disk full")

func newTables(cmp *base.Comparer) *tables {
	return &tables{cmp: cmp, data: map[uint64][]entry{}, chunk: 3}
}

func (ts *tables) source(num uint64) base.Source {
	return &tableSource{cmp: ts.cmp, es: ts.data[num], chunk: ts.chunk}
}

func (ts *tables) env() *Env {
	return &Env{
		Comparer: ts.cmp,
		Open: func(m *manifest.FileMeta, _ sstable.ReadFlags) (base.Source, error) {
			if _, ok := ts.data[m.Num]; !ok {
				return nil, fmt.Errorf("table %d does not exist", m.Num)
			}
			return ts.source(m.Num), nil
		},
		NewWriter: func() (uint64, sstable.Writer, error) {
			ts.next++
			ts.open++
			return ts.next, &tableWriter{ts: ts, num: ts.next}, nil
		},
	}
}

// meta describes a table.
func (ts *tables) meta(num uint64) *manifest.FileMeta {
	es := ts.data[num]
	size := uint64(0)
	for _, e := range es {
		size += uint64(len(e.key) + len(e.value) + base.TrailerLen)
	}
	last := es[len(es)-1]
	return &manifest.FileMeta{Num: num, Size: size,
		Smallest: base.InternalKey{User: es[0].key, Trailer: es[0].t}, Largest: base.InternalKey{User: last.key, Trailer: last.t}}
}

func (ts *tables) put(es []entry) *manifest.FileMeta {
	ts.next++
	ts.data[ts.next] = es
	return ts.meta(ts.next)
}

type tableWriter struct {
	ts   *tables
	num  uint64
	es   []entry
	size uint64
}

func (w *tableWriter) Add(key []byte, t base.Trailer, codec base.Codec, value []byte) error {
	if w.ts.adds++; w.ts.adds == w.ts.failAdd {
		return errAdd
	}
	if n := len(w.es); n > 0 && w.ts.cmp.CompareInternal(w.es[n-1].key, w.es[n-1].t, key, t) >= 0 {
		return fmt.Errorf("out of order: %q#%d after %v", key, t.Seq(), w.es[n-1])
	}
	w.es = append(w.es, entry{bytes.Clone(key), bytes.Clone(value), t})
	w.size += uint64(len(key) + len(value) + base.TrailerLen)
	return nil
}
func (w *tableWriter) EstimatedSize() uint64 { return w.size }
func (w *tableWriter) Entries() uint64       { return uint64(len(w.es)) }
func (w *tableWriter) Finish() (sstable.Meta, error) {
	w.ts.data[w.num] = w.es
	m := w.ts.meta(w.num)
	return sstable.Meta{Props: sstable.Props{Size: m.Size, Entries: uint64(len(w.es))}, Smallest: m.Smallest, Largest: m.Largest}, nil
}
func (w *tableWriter) Close() error {
	w.ts.open--
	return nil
}
