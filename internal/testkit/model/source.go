package model

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sort"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/base"
)

// ErrInjected is what a Source fails with.
var ErrInjected = errors.New("injected")

// Source is a base.Source of sorted entries. It overwrites a chunk when it is
// left, and fails the test on calls that the contract forbids.
type Source struct {
	// Adjust, when set, changes a chunk before it is handed out.
	Adjust func(c *base.Chunk)
	// FailAfter counts moves down: the move after the last one fails with
	// ErrInjected, once. A negative one never fails.
	FailAfter int

	t      testing.TB
	cmp    *base.Comparer
	es     []Entry
	ends   []int  // of the chunks, ascending; the last is len(es)
	cur    int    // the present chunk, -1 when not positioned
	from   int    // the chunks [from, to) were handed out since the last move
	to     int    // that was no Next
	old    []byte // the present chunk's data
	closed bool
}

// NewSource returns a source of sorted entries whose chunks end where ends say;
// the last is len(es), or none if there are no entries.
func NewSource(t testing.TB, cmp *base.Comparer, es []Entry, ends []int) *Source {
	return &Source{t: t, cmp: cmp, es: es, ends: ends, cur: -1, FailAfter: -1}
}

// ChunksOf returns the ends of chunks of size entries, n in all.
func ChunksOf(n, size int) (ends []int) {
	for i := 0; i < n; {
		i = min(n, i+size)
		ends = append(ends, i)
	}
	return ends
}

// RandomChunks returns the ends of chunks of 1 to most entries, n in all.
func RandomChunks(rng *rand.Rand, n, most int) (ends []int) {
	for i := 0; i < n; {
		i = min(n, i+1+rng.IntN(most))
		ends = append(ends, i)
	}
	return ends
}

// Chunks returns how many chunks there are.
func (s *Source) Chunks() int { return len(s.ends) }

// Walked returns the chunks [from, to) that were handed out since the last move
// that was no Next, and how many entries they have.
func (s *Source) Walked() (from, to, entries int) {
	return s.from, s.to, s.start(s.to) - s.start(s.from)
}

func (s *Source) start(chunk int) int {
	if chunk == 0 {
		return 0
	}
	return s.ends[chunk-1]
}

func (s *Source) fail() error {
	if s.closed {
		s.t.Error("use after Close")
	}
	s.FailAfter--
	if s.FailAfter == -1 {
		return ErrInjected
	}
	return nil
}

func (s *Source) none(c *base.Chunk, err error) (int, error) {
	s.scramble()
	s.cur = -1
	*c = base.Chunk{}
	return -1, err
}

func (s *Source) scramble() {
	for i := range s.old {
		s.old[i] = 0xee
	}
	s.old = nil
}

func (s *Source) load(chunk int, c *base.Chunk) {
	s.scramble()
	s.cur, s.to = chunk, chunk+1
	*c = Chunk(s.cmp, s.es[s.start(chunk):s.ends[chunk]])
	if s.Adjust != nil {
		s.Adjust(c)
	}
	s.old = c.Data
}

// position moves to the chunk of entry n.
func (s *Source) position(n int, c *base.Chunk) (int, error) {
	if err := s.fail(); err != nil || n < 0 || n >= len(s.es) {
		return s.none(c, err)
	}
	s.from = sort.SearchInts(s.ends, n+1)
	s.load(s.from, c)
	return n - s.start(s.from), nil
}

// step moves to a neighbouring chunk, if there is one.
func (s *Source) step(chunk int, c *base.Chunk) (bool, error) {
	if s.cur < 0 {
		s.t.Error("Next or Prev while not positioned")
		return false, nil
	}
	if err := s.fail(); err != nil || chunk < 0 || chunk >= len(s.ends) {
		_, err = s.none(c, err)
		return false, err
	}
	if chunk < s.cur {
		s.from = chunk
	}
	s.load(chunk, c)
	return true, nil
}

// First implements base.Source.
func (s *Source) First(c *base.Chunk) (int, error) { return s.position(0, c) }

// Last implements base.Source.
func (s *Source) Last(c *base.Chunk) (int, error) { return s.position(len(s.es)-1, c) }

// SeekGE implements base.Source.
func (s *Source) SeekGE(key []byte, t base.Trailer, c *base.Chunk) (int, error) {
	return s.position(Search(s.cmp, s.es, key, t), c)
}

// SeekLT implements base.Source.
func (s *Source) SeekLT(key []byte, t base.Trailer, c *base.Chunk) (int, error) {
	return s.position(Search(s.cmp, s.es, key, t)-1, c)
}

// Next implements base.Source.
func (s *Source) Next(c *base.Chunk) (bool, error) { return s.step(s.cur+1, c) }

// Prev implements base.Source.
func (s *Source) Prev(c *base.Chunk) (bool, error) { return s.step(s.cur-1, c) }

// Close implements base.Source.
func (s *Source) Close() {
	s.scramble()
	s.closed = true
}

// Parse reads entries as String prints them, "a#3=x a#2- b#1,9=x": a set, a
// tombstone, an entry of kind 9. A "|" ends a chunk.
func Parse(s string) (es []Entry, ends []int, err error) {
	for _, w := range strings.Fields(s) {
		if w == "|" {
			ends = append(ends, len(es))
			continue
		}
		key, rest, _ := strings.Cut(w, "#")
		e := Entry{Key: []byte(key)}
		var seq base.SeqNum
		kind := base.KindSet
		head, value, hasValue := strings.Cut(rest, "=")
		if hasValue {
			e.Value = []byte(value)
		}
		switch {
		case !hasValue && strings.HasSuffix(head, "-"):
			kind = base.KindDelete
			_, err = fmt.Sscanf(head, "%d-", &seq)
		case strings.Contains(head, ","):
			_, err = fmt.Sscanf(head, "%d,%d", &seq, &kind)
		default:
			_, err = fmt.Sscanf(head, "%d", &seq)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("entry %q: %w", w, err)
		}
		e.Trailer = base.MakeTrailer(seq, kind)
		es = append(es, e)
	}
	if len(es) > 0 {
		ends = append(ends, len(es))
	}
	return es, ends, nil
}

// Format prints entries as Parse reads them.
func Format(es []Entry) string {
	words := make([]string, len(es))
	for i, e := range es {
		words[i] = e.String()
	}
	return strings.Join(words, " ")
}
