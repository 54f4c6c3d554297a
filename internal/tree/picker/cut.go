package picker

import (
	"sort"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
)

// partsPerPiece is of how many parts of the inputs a piece consists about, so that the
// pieces take about the same time.
const partsPerPiece = 16

// Cut chooses Subranges, before the first piece is run. splitKeys returns ascending user keys that
// cut a table into up to n parts of about the same size; it may return fewer, or none.
func (p *Plan) Cut(cmp *base.Comparer, splitKeys func(f *manifest.FileMeta, n int) [][]byte) {
	p.Subranges = nil
	if p.MaxPieces < 2 {
		return
	}
	type part struct {
		first []byte
		size  uint64
	}
	var parts []part
	unit := max(p.InputBytes/uint64(p.MaxPieces*partsPerPiece), 1)
	p.Files(func(_ int, f *manifest.FileMeta) {
		var keys [][]byte
		if n := int(f.Size / unit); n > 1 {
			keys = splitKeys(f, n)
		}
		size := f.Size / uint64(len(keys)+1)
		parts = append(parts, part{closed(f.Smallest.User), size})
		for _, key := range keys {
			parts = append(parts, part{key, size})
		}
	})
	sort.Slice(parts, func(i, j int) bool { return cmp.Cmp(parts[i].first, parts[j].first) < 0 })
	total := uint64(0)
	for _, p := range parts {
		total += p.size
	}
	last, before := p.Smallest, uint64(0)
	for _, at := range parts {
		n := uint64(len(p.Subranges)) + 1
		if n == uint64(p.MaxPieces) {
			return
		}
		if before >= total*n/uint64(p.MaxPieces) && cmp.Cmp(at.first, last) > 0 {
			p.Subranges = append(p.Subranges, at.first)
			last = at.first
		}
		before += at.size
	}
}
