package native

import (
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/block"
)

// viewSource iterates over one View.
type viewSource struct {
	view block.View
	cmp  *base.Comparer
}

func (s *viewSource) at(i int, e *base.Chunk) (int, error) {
	*e = base.Chunk{}
	if i < 0 || i >= s.view.Len() {
		return -1, nil
	}
	s.view.Chunk(e)
	return i, nil
}

func (s *viewSource) First(e *base.Chunk) (int, error) { return s.at(0, e) }

func (s *viewSource) Last(e *base.Chunk) (int, error) { return s.at(s.view.Len()-1, e) }

func (s *viewSource) SeekGE(key []byte, t base.Trailer, e *base.Chunk) (int, error) {
	return s.at(s.view.SeekGE(s.cmp, key, t), e)
}

func (s *viewSource) SeekLT(key []byte, t base.Trailer, e *base.Chunk) (int, error) {
	return s.at(s.view.SeekLT(s.cmp, key, t), e)
}

func (s *viewSource) Next(e *base.Chunk) (bool, error) {
	*e = base.Chunk{}
	return false, nil
}

func (s *viewSource) Prev(e *base.Chunk) (bool, error) { return s.Next(e) }

func (s *viewSource) Close() {}
