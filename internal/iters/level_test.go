package iters

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/manifest"
)

// levelOf cuts sorted entries into files at random places, within user keys too.
func levelOf(t testing.TB, cmp *base.Comparer, es []entry, rng *rand.Rand, maxChunk int) base.Source {
	var files []*manifest.FileMeta
	parts := map[*manifest.FileMeta][]entry{}
	for len(es) > 0 {
		n := 1 + rng.IntN(min(len(es), 1+rng.IntN(40)))
		f := &manifest.FileMeta{
			Num:      uint64(len(files)),
			Smallest: base.InternalKey{User: es[0].key, Trailer: es[0].t},
			Largest:  base.InternalKey{User: es[n-1].key, Trailer: es[n-1].t},
		}
		files = append(files, f)
		parts[f] = es[:n]
		es = es[n:]
	}
	var l *level
	open := 0
	l = NewLevel(cmp, files, func(f *manifest.FileMeta) (base.Source, error) {
		if l.upper != nil && cmp.Compare(f.Smallest.User, l.upper) >= 0 || l.lower != nil && cmp.Compare(f.Largest.User, l.lower) < 0 {
			t.Errorf("opened a file outside of the bounds")
		}
		if open++; open > 1 {
			t.Errorf("%d files open", open)
		}
		return &countedSource{newTestSource(t, cmp, parts[f], rng, maxChunk), &open}, nil
	}).(*level)
	return l
}

type countedSource struct {
	*testSource
	open *int
}

func (c *countedSource) Close() {
	*c.open--
	c.testSource.Close()
}

// TestLevelOpensLazily counts the files that moves open.
func TestLevelOpensLazily(t *testing.T) {
	var files []*manifest.FileMeta
	data := map[*manifest.FileMeta][]entry{}
	for i := range 10 {
		var es []entry
		for j := range 5 {
			es = append(es, entry{fmt.Appendf(nil, "%02d", i*10+j), nil, base.MakeTrailer(1, base.KindSet)})
		}
		f := &manifest.FileMeta{Num: uint64(i),
			Smallest: base.InternalKey{User: es[0].key, Trailer: es[0].t}, Largest: base.InternalKey{User: es[4].key, Trailer: es[4].t}}
		files, data[f] = append(files, f), es
	}
	rng := rand.New(rand.NewPCG(1, 2))
	var opened []uint64
	var failOn uint64 = 99
	newLevel := func() *Cursor {
		opened = nil
		l := NewLevel(base.Bytewise, files, func(f *manifest.FileMeta) (base.Source, error) {
			opened = append(opened, f.Num)
			if f.Num == failOn {
				return nil, errInjected
			}
			return newTestSource(t, base.Bytewise, data[f], rng, 3), nil
		})
		return NewCursor(base.Bytewise, []base.Source{l}, base.MaxSeqNum, []byte("20"), []byte("40"))
	}
	for _, tc := range []struct {
		name string
		do   func(c *Cursor)
		want []uint64
	}{
		{"nothing", func(c *Cursor) {}, nil},
		{"scan", func(c *Cursor) {
			for ok := c.First(); ok; ok = c.Next() {
			}
		}, []uint64{2, 3}},
		{"scan back", func(c *Cursor) {
			for ok := c.Last(); ok; ok = c.Prev() {
			}
		}, []uint64{3, 2}},
		{"seek below", func(c *Cursor) { c.SeekGE([]byte("00")) }, []uint64{2}},
		{"seek above", func(c *Cursor) { c.SeekGE([]byte("77")) }, nil},
		{"seek between files", func(c *Cursor) { c.SeekGE([]byte("27")) }, []uint64{3}},
		{"seek after the last in bounds", func(c *Cursor) { c.SeekGE([]byte("38")) }, nil},
		{"seek back above", func(c *Cursor) { c.SeekLT([]byte("77")) }, []uint64{3}},
		{"seek back below", func(c *Cursor) { c.SeekLT([]byte("20")) }, nil},
		{"same file again", func(c *Cursor) { c.SeekGE([]byte("31")); c.SeekGE([]byte("30")); c.SeekLT([]byte("33")) }, []uint64{3}},
	} {
		c := newLevel()
		tc.do(c)
		if !slices.Equal(opened, tc.want) || c.Close() != nil {
			t.Errorf("%s: opened %v, want %v", tc.name, opened, tc.want)
		}
	}
	failOn = 3
	c := newLevel()
	n := 0
	for ok := c.First(); ok; ok = c.Next() {
		n++
	}
	if n != 5 || !errors.Is(c.Err(), errInjected) || !errors.Is(c.Close(), errInjected) {
		t.Errorf("%d entries, then %v", n, c.Err())
	}
}
