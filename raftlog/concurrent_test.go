package raftlog

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/loamdb/loam/internal/testkit/seed"
	"github.com/loamdb/loam/lsm/crashfs"
)

// TestReadersBesideTheWriter reads while entries are appended, replaced, and removed at both ends:
// every entry that a reader gets is whole and was stored, bounds that it reads are in order, and
// Set goes on beside.
func TestReadersBesideTheWriter(t *testing.T) {
	d := small
	d.FS = crashfs.New()
	s := open(t, "/raft", &d)
	from := uint64(seed.Of(t))
	var wg sync.WaitGroup
	end := make(chan struct{})
	failed := make(chan error, 8)
	beside := func(f func(r *rand.Rand) error, n uint64) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(from, n))
			for {
				select {
				case <-end:
					return
				default:
				}
				if err := f(r); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	for i := range uint64(3) {
		beside(func(r *rand.Rand) error { return readOne(s, r) }, i)
	}
	beside(func(r *rand.Rand) error {
		n := r.Uint64()
		got, err := s.GetUint64([]byte("term"))
		if err == nil && got == 0 {
			err = errors.New("the term is 0")
		}
		if errors.Is(err, ErrNotFound) {
			err = nil
		}
		return errors.Join(err, s.SetUint64([]byte("term"), n|1))
	}, 3)
	writer := rand.New(rand.NewPCG(from, 9))
	m := newModel()
	for range seed.Scale(150, 300, 20000) {
		o := next(writer, m, 12)
		if _, last := m.bounds(); last >= 1<<62 {
			o = op{kind: "delete", high: 1<<64 - 1}
		}
		m.apply(o)
		if err := o.on(s); err != nil {
			t.Errorf("%v: %v", o, err)
			break
		}
	}
	close(end)
	wg.Wait()
	close(failed)
	for err := range failed {
		t.Error(err)
	}
	// The last call of a history may have been another one than Set.
	delete(m.stable, "term")
	must(t, m.diff(s), s.Close())
}

// readOne reads the bounds, and one entry near them.
func readOne(s *Store, r *rand.Rand) error {
	first, err1 := s.FirstIndex()
	last, err2 := s.LastIndex()
	if err := errors.Join(err1, err2); err != nil || last == 0 || first > last {
		return err
	}
	index := first + r.Uint64N(min(last-first, 200)+2)
	var l raft.Log
	if err := s.GetLog(index, &l); err != nil {
		if err == raft.ErrLogNotFound {
			return nil
		}
		return err
	}
	want := entry(index, l.Term, len(l.Data))
	if l.Index != index || !bytes.Equal(l.Data, want.Data) ||
		!bytes.Equal(l.Extensions, want.Extensions) {
		return fmt.Errorf("entry %d is %.200v", index, l)
	}
	return nil
}
