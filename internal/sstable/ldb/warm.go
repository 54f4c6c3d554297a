package ldb

import "github.com/loamdb/loam/internal/base"

// warmStep blocks take about 200 us.
const warmStep = 64

// Cached is how many of the table's blocks are in the block cache.
func (r *Reader) Cached() int {
	if r.slots == nil {
		return 0
	}
	return r.slots.Cached()
}

// Warm reads the blocks into the cache, up to room bytes of them.
func (r *Reader) Warm(room int64, stop func() error) (used int64, err error) {
	if r.slots == nil {
		return 0, nil
	}
	// Not cached: what is there already would count as a hit.
	s := &source{r: r, at: -1, chunks: true, fill: true}
	defer s.Close()
	var e base.Chunk
	for i := range r.index.Len() {
		if used >= room {
			break
		}
		if i%warmStep == 0 {
			if err := stop(); err != nil {
				return used, err
			}
		}
		if _, err := s.load(i, 1, &e); err != nil {
			return used, err
		}
		if !s.frame.Valid() {
			return used, nil // no memory for more
		}
		used += int64(len(s.frame.Bytes()))
	}
	return used, nil
}
