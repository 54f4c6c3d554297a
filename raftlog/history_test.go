package raftlog

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"
)

// model is what a Store holds: the reference of all histories.
type model struct {
	logs    map[uint64]*raft.Log
	commits map[uint64]uint64 // by index, what was staged when the entry was stored
	staged  uint64
	stable  map[string]string
}

func newModel() *model {
	return &model{logs: map[uint64]*raft.Log{}, commits: map[uint64]uint64{},
		stable: map[string]string{}}
}

func (m *model) clone() *model {
	return &model{maps.Clone(m.logs), maps.Clone(m.commits), m.staged, maps.Clone(m.stable)}
}

func (m *model) bounds() (first, last uint64) {
	if len(m.logs) == 0 {
		return 0, 0
	}
	keys := slices.Collect(maps.Keys(m.logs))
	return slices.Min(keys), slices.Max(keys)
}

func (m *model) commit() uint64 {
	_, last := m.bounds()
	return min(m.commits[last], last)
}

func (m *model) remove(low, high uint64) {
	for i := range m.logs {
		if i >= low && i <= high {
			delete(m.logs, i)
			delete(m.commits, i)
		}
	}
}

// op is one call that changes a Store.
type op struct {
	kind      string // "store", "delete", "set", "stage" or "reopen"
	logs      []*raft.Log
	low, high uint64
	key       string
	value     string
}

func (o op) String() string {
	switch o.kind {
	case "store":
		return fmt.Sprintf("store %d to %d of term %d", o.logs[0].Index,
			o.logs[len(o.logs)-1].Index, o.logs[0].Term)
	case "delete", "stage":
		return fmt.Sprintf("%s %d to %d", o.kind, o.low, o.high)
	}
	return o.kind + " " + o.key
}

// apply makes the change on the model.
func (m *model) apply(o op) {
	switch o.kind {
	case "store":
		for _, l := range o.logs {
			m.logs[l.Index] = l
			m.commits[l.Index] = m.staged
		}
	case "delete":
		if first, last := m.bounds(); last > 0 && o.low <= o.high && o.low <= last &&
			o.high >= first {
			m.remove(o.low, o.high)
			_, last = m.bounds()
			m.staged = min(m.staged, last)
		}
	case "set":
		m.stable[o.key] = o.value
	case "stage":
		m.staged = o.low
	case "reopen":
		m.staged = m.commit()
	}
}

// on makes the change on a Store.
func (o op) on(s *Store) error {
	switch o.kind {
	case "store":
		return s.StoreLogs(o.logs)
	case "delete":
		return s.DeleteRange(o.low, o.high)
	case "set":
		return s.Set([]byte(o.key), []byte(o.value))
	case "stage":
		return s.StageCommitIndex(o.low)
	}
	return errors.New("no such call")
}

// entry makes an entry whose contents follow from index and term.
func entry(index, term uint64, size int) *raft.Log {
	l := &raft.Log{Index: index, Term: term, Type: raft.LogType(index % 6)}
	if size > 0 {
		l.Data = bytes.Repeat(fmt.Appendf(nil, "%d/%d ", index, term), size/4+1)[:size]
	}
	if index%3 == 0 {
		l.Extensions = fmt.Appendf(nil, "extension of %d", index)
	}
	if index%2 == 0 {
		l.AppendedAt = time.Unix(int64(index%1e9), int64(term%1e9)).UTC()
	}
	return l
}

// next draws a call that fits the state of a model.
func next(r *rand.Rand, m *model, most int) op {
	first, last := m.bounds()
	span := last - first + 1
	switch n := r.IntN(20); {
	case n < 2:
		return op{kind: "set", key: string(rune('a' + r.IntN(4))),
			value: strings.Repeat("v", r.IntN(20))}
	case n == 2:
		return op{kind: "stage", low: first + r.Uint64N(span+4)}
	case n < 5 && last > 0: // a prefix
		return op{kind: "delete", low: first - r.Uint64N(2)*min(first, 3),
			high: first + r.Uint64N(span)}
	case n == 5 && last > 0: // a suffix
		return op{kind: "delete", low: first + r.Uint64N(span), high: last + r.Uint64N(3)}
	case n == 6 && last > 0: // anything
		return op{kind: "delete", low: first + r.Uint64N(span), high: first + r.Uint64N(span)}
	case n == 7 && last > 0 && r.IntN(3) == 0: // all
		return op{kind: "delete", low: first, high: last}
	}
	at := last + 1
	switch n := r.IntN(12); {
	case n == 0 && last > 0: // entries are replaced
		at = first + r.Uint64N(span)
	case n == 1: // a gap, as behind an installed snapshot
		at = last + 1 + r.Uint64N(50)
	case n == 2 && r.IntN(20) == 0 && last < 1<<62:
		at = 1<<63 - 2
	}
	o := op{kind: "store"}
	term := r.Uint64N(1 << r.IntN(40))
	for i := range uint64(1 + r.IntN(most)) {
		size := r.IntN(100)
		if r.IntN(10) == 0 {
			size = r.IntN(9000)
		}
		o.logs = append(o.logs, entry(at+i, term, size))
	}
	return o
}

// diff compares a Store with a model.
func (m *model) diff(s *Store) error {
	first, last := m.bounds()
	gotFirst, err1 := s.FirstIndex()
	gotLast, err2 := s.LastIndex()
	commit, err3 := s.GetCommitIndex()
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	if gotFirst != first || gotLast != last {
		return fmt.Errorf("entries %d to %d, want %d to %d", gotFirst, gotLast, first, last)
	}
	if commit != m.commit() {
		return fmt.Errorf("commit index %d, want %d", commit, m.commit())
	}
	for i := range m.logs {
		for _, at := range []uint64{i - 1, i, i + 1} {
			if err := m.same(s, at); err != nil {
				return err
			}
		}
	}
	for _, key := range []string{"a", "b", "c", "d"} {
		v, err := s.Get([]byte(key))
		if want, ok := m.stable[key]; string(v) != want || ok != (err == nil) {
			return fmt.Errorf("key %s: %q, %w, want %q", key, v, err, want)
		}
	}
	return nil
}

func (m *model) same(s *Store, index uint64) error {
	var got raft.Log
	err := s.GetLog(index, &got)
	want := m.logs[index]
	switch {
	case want == nil && err == raft.ErrLogNotFound:
		return nil
	case want == nil || err != nil:
		return fmt.Errorf("entry %d: %w, present in the model: %v", index, err, want != nil)
	case got.Index != index || got.Term != want.Term || got.Type != want.Type ||
		!bytes.Equal(got.Data, want.Data) || !bytes.Equal(got.Extensions, want.Extensions) ||
		!got.AppendedAt.Equal(want.AppendedAt):
		return fmt.Errorf("entry %d is %.200v, want %.200v", index, got, *want)
	}
	return nil
}
