package txn

import (
	"slices"
	"sync"

	"github.com/loamdb/loam/internal/base"
)

// ErrRolledBack is the failure of a source whose entries were taken back.
var ErrRolledBack = base.Invalidf("the transaction was rolled back to a savepoint that is older " +
	"than this iterator: open another one")

// Chunks double from firstChunk to lastChunk entries, but end when they have chunkBytes.
const (
	firstChunk = 1
	lastChunk  = 64
	chunkBytes = 32 << 10
)

// source is a base.Source over the writes that a keyspace had when it was opened: of
// each key the newest one, and those that it does not hide.
type source struct {
	s     *Space
	mu    *sync.Mutex // of the transaction, guards the list
	limit uint32      // what lies behind came later
	since uint64      // the last rollback before

	first, last uint32 // nodes with the smallest and the largest key of the chunk
	want        int    // entries of the next chunk

	picked                 []uint32 // nodes of the chunk
	data                   []byte
	keyOff, valOff, valEnd []uint32
	trailers               []base.Trailer
}

// Sources returns a function that makes sources over the present writes, with entries
// above all sequence numbers of a database. They differ from others in one point: SeekGE
// finds the newest entry of a key whatever sequence number is asked for. Later writes
// stay invisible. mu guards the Batch: the caller of Sources holds it, the sources take it.
func (s *Space) Sources(mu *sync.Mutex) func() base.Source {
	s.b.kept = true
	limit, since := uint32(len(s.b.repr)), s.b.rollbacks
	return func() base.Source { return &source{s: s, mu: mu, limit: limit, since: since} }
}

// begin takes the lock for a move that begins anew; every move ends with end.
func (s *source) begin(e *base.Chunk, want int) error {
	s.mu.Lock()
	s.want = want
	if s.s.b.tookBack(s.since, int(s.limit)) {
		*e = base.Chunk{}
		return ErrRolledBack
	}
	return nil
}

func (s *source) end() { s.mu.Unlock() }

func (s *source) First(e *base.Chunk) (int, error) {
	defer s.end()
	if err := s.begin(e, lastChunk); err != nil {
		return -1, err
	}
	return firstOf(s.ahead(s.s.list.nodes[0].next, e)), nil
}

func (s *source) Last(e *base.Chunk) (int, error) {
	defer s.end()
	if err := s.begin(e, lastChunk); err != nil {
		return -1, err
	}
	return s.backward(s.s.list.nodes[0].prev, e) - 1, nil
}

// SeekGE ignores t: every entry is newer than what a caller may ask for.
func (s *source) SeekGE(key []byte, _ base.Trailer, e *base.Chunk) (int, error) {
	defer s.end()
	if err := s.begin(e, firstChunk); err != nil {
		return -1, err
	}
	l := &s.s.list
	return firstOf(s.ahead(l.nodes[l.find(s.s.b.repr, key, newest, nil)].next, e)), nil
}

// SeekLT ignores t, as SeekGE does.
func (s *source) SeekLT(key []byte, _ base.Trailer, e *base.Chunk) (int, error) {
	defer s.end()
	if err := s.begin(e, firstChunk); err != nil {
		return -1, err
	}
	return s.backward(s.s.list.find(s.s.b.repr, key, newest, nil), e) - 1, nil
}

// firstOf is the index of the first of n entries, -1 if there is none.
func firstOf(n int) int {
	if n == 0 {
		return -1
	}
	return 0
}

func (s *source) Next(e *base.Chunk) (bool, error) {
	defer s.end()
	if err := s.begin(e, min(2*s.want, lastChunk)); err != nil {
		return false, err
	}
	return s.ahead(s.s.list.behind(s.s.b.repr, s.last), e) > 0, nil
}

func (s *source) Prev(e *base.Chunk) (bool, error) {
	defer s.end()
	if err := s.begin(e, min(2*s.want, lastChunk)); err != nil {
		return false, err
	}
	l := &s.s.list
	return s.backward(l.nodes[l.start(s.s.b.repr, s.first)].prev, e) > 0, nil
}

func (s *source) Close() {}

// full reports whether the chunk takes no more keys.
func (s *source) full(bytes int) bool { return len(s.picked) >= s.want || bytes >= chunkBytes }

// ahead fills e with entries from node n on, the newest of its key, and returns how many.
func (s *source) ahead(n uint32, e *base.Chunk) int {
	s.picked = s.picked[:0]
	for bytes := 0; n != 0 && !s.full(bytes); {
		bytes += s.pick(n)
		n = s.s.list.behind(s.s.b.repr, n)
	}
	return s.fill(e)
}

// backward fills e with the entries of the key of node n and of those before it.
func (s *source) backward(n uint32, e *base.Chunk) int {
	s.picked = s.picked[:0]
	l := &s.s.list
	for bytes := 0; n != 0 && !s.full(bytes); {
		start := l.start(s.s.b.repr, n)
		from := len(s.picked)
		bytes += s.pick(start)
		slices.Reverse(s.picked[from:])
		n = l.nodes[start].prev
	}
	slices.Reverse(s.picked)
	return s.fill(e)
}

// pick adds the visible entries of a key to the chunk: from the newest one to the first
// that hides all older ones. n is the newest node of the key. It returns their bytes.
func (s *source) pick(n uint32) (bytes int) {
	l, repr := &s.s.list, s.s.b.repr
	key := l.key(repr, n)
	if l.nodes[n].off >= s.limit {
		n = l.first(repr, key, uint64(s.limit))
	}
	for n != 0 {
		kind, k, value := entryAt(repr, l.nodes[n].off)
		if l.cmp.Cmp(k, key) != 0 {
			break
		}
		s.picked = append(s.picked, n)
		bytes += len(k) + len(value)
		if kind.EndsLookup() {
			break
		}
		n = l.nodes[n].next
	}
	return bytes
}

// sequence is the number of the entry at an offset: the later, the larger.
func sequence(off uint32) base.SeqNum { return base.MaxSeqNum - 1<<32 + base.SeqNum(off) }

// fill copies the picked entries into e, as a batch has a length between key and value
// and may move while e is in use.
func (s *source) fill(e *base.Chunk) int {
	s.data, s.trailers = s.data[:0], s.trailers[:0]
	s.keyOff, s.valOff, s.valEnd = s.keyOff[:0], s.valOff[:0], s.valEnd[:0]
	if len(s.picked) == 0 {
		*e = base.Chunk{}
		return 0
	}
	s.first, s.last = s.picked[0], s.picked[len(s.picked)-1]
	for _, n := range s.picked {
		off := s.s.list.nodes[n].off
		kind, key, value := entryAt(s.s.b.repr, off)
		s.keyOff = append(s.keyOff, uint32(len(s.data)))
		s.data = append(s.data, key...)
		s.valOff = append(s.valOff, uint32(len(s.data)))
		s.data = append(s.data, value...)
		s.valEnd = append(s.valEnd, uint32(len(s.data)))
		s.trailers = append(s.trailers, base.MakeTrailer(sequence(off), kind))
	}
	*e = base.Chunk{Data: s.data, KeyOff: s.keyOff, ValOff: s.valOff, ValEnd: s.valEnd,
		Trailers: s.trailers, MaxSeq: base.MaxSeqNum}
	return len(s.picked)
}
