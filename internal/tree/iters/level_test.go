package iters

import (
	"math/rand/v2"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/testkit/model"
)

// levelOf cuts sorted entries into files at random places, within user keys too.
func levelOf(t testing.TB, cmp *base.Comparer, es []model.Entry, rng *rand.Rand,
	maxChunk int) base.Source {
	var files []*manifest.FileMeta
	parts := map[*manifest.FileMeta][]model.Entry{}
	for len(es) > 0 {
		n := 1 + rng.IntN(min(len(es), 1+rng.IntN(40)))
		f := &manifest.FileMeta{
			Num:      uint64(len(files)),
			Smallest: es[0].Internal(),
			Largest:  es[n-1].Internal(),
		}
		files = append(files, f)
		parts[f] = es[:n]
		es = es[n:]
	}
	var l *level
	open := 0
	// Some of the files that have nothing within the bounds are skipped.
	skip := func(f *manifest.FileMeta, lower, upper []byte) bool {
		for _, e := range parts[f] {
			if cmp.Cmp(e.Key, lower) >= 0 && (upper == nil || cmp.Cmp(e.Key, upper) < 0) {
				return false
			}
		}
		return rng.IntN(2) == 0
	}
	l = NewFilteredLevel(cmp, files, func(f *manifest.FileMeta) (base.Source, error) {
		if l.upper != nil && cmp.Compare(f.Smallest.User, l.upper) >= 0 || l.lower != nil &&
			cmp.Compare(f.Largest.User, l.lower) < 0 {
			t.Errorf("opened a file outside of the bounds")
		}
		if open++; open > 1 {
			t.Errorf("%d files open", open)
		}
		return &countedSource{newTestSource(t, cmp, parts[f], rng, maxChunk), &open}, nil
	}, skip).(*level)
	return l
}

type countedSource struct {
	*model.Source
	open *int
}

func (c *countedSource) Close() {
	*c.open--
	c.Source.Close()
}
