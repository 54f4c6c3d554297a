package replica

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/hashicorp/raft"
	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/replica/internal/wire"
)

// systemName is the keyspace with what the node itself stores:
//
//	applied      index and term of the last applied entry, 8 bytes each, big-endian
//	members      index of the last applied configuration, 8 bytes, and the configuration
//	once, index  outcome of the change of that entry, 1 byte, and its idempotency key
const systemName = "loam.replica"

const (
	appliedKey = "applied"
	membersKey = "members"
	oncePrefix = "once"
)

// outcome is what a change did.
type outcome byte

const (
	notHeld outcome = iota // a condition did not hold
	done
)

// result is what the state machine answers.
type result struct {
	outcome outcome   // of the entry's first change
	group   []outcome // of all its changes
	err     error     // what halted this node
}

// fsm is the state machine: it applies entries to the database. Raft calls it on one goroutine.
//
// Every entry is one batch, which has the applied index and term as well, so that the database says
// by itself which entries it has. Batches are not synced: what a power cut takes is applied again
// from the Raft log, whose entries are synced. Entries up to the applied index are skipped.
type fsm struct {
	node *session
	once *onceTable

	mu      sync.Mutex
	current *database     // the running directory
	applied uint64        // index of the last entry in it
	changed chan struct{} // closed when applied grows, or the FSM ends
	failed  error         // why nothing is applied any more
}

func newFSM(s *session, d *database) (*fsm, error) {
	f := &fsm{node: s, changed: make(chan struct{})}
	return f, f.adopt(d)
}

// adopt makes d the running directory.
func (f *fsm) adopt(d *database) error {
	applied, err := appliedIndex(d.system)
	if err != nil {
		return err
	}
	once, err := loadOnce(d.system)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.current, f.once = d, once
	f.advance(applied)
	return nil
}

// appliedIndex reads the applied index; 0 in a new database.
func appliedIndex(system lsm.Reader) (uint64, error) {
	v, err := system.Get([]byte(appliedKey), nil)
	switch {
	case errors.Is(err, lsm.ErrNotFound):
		return 0, nil
	case err != nil:
		return 0, err
	case len(v) != 16:
		return 0, fmt.Errorf("replica: applied index of %d bytes: %w", len(v), ErrForeign)
	}
	return binary.BigEndian.Uint64(v), nil
}

// advance tells waiting readers.
// REQUIRES: f.mu is held.
func (f *fsm) advance(index uint64) {
	f.applied = index
	close(f.changed)
	f.changed = make(chan struct{})
}

// wait returns when the database has all entries up to index.
func (f *fsm) wait(ctx context.Context, index uint64) error {
	for {
		f.mu.Lock()
		applied, changed, failed := f.applied, f.changed, f.failed
		f.mu.Unlock()
		switch {
		case applied >= index:
			return nil
		case failed != nil:
			return failed
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// index is the applied index.
func (f *fsm) index() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.applied
}

// fail ends the state machine: no entry is applied from now on, so that none is skipped.
func (f *fsm) fail(err error) {
	f.mu.Lock()
	first := f.failed == nil
	if first {
		f.failed = err
		f.advance(f.applied)
	}
	f.mu.Unlock()
	if first && !errors.Is(err, ErrClosed) {
		f.node.halt(err, false)
	}
}

// acquire returns the running directory, to be released.
func (f *fsm) acquire() (*database, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.current == nil {
		if halted := f.node.halted.Load(); halted != nil { // and a try of Rejoin failed
			return nil, *halted
		}
		return nil, fmt.Errorf("replica: %w", ErrClosed)
	}
	f.current.refs.Add(1)
	return f.current, nil
}

func (f *fsm) Apply(l *raft.Log) any { return f.ApplyBatch([]*raft.Log{l})[0] }

func (f *fsm) ApplyBatch(logs []*raft.Log) []any {
	out := make([]any, len(logs))
	for i, l := range logs {
		out[i] = f.apply(l)
	}
	return out
}

// apply applies one entry.
func (f *fsm) apply(l *raft.Log) result {
	f.mu.Lock()
	d, applied, failed := f.current, f.applied, f.failed
	f.mu.Unlock()
	if failed != nil {
		return result{err: failed}
	}
	if l.Index <= applied {
		return result{outcome: done}
	}
	b, r, err := f.batchOf(d, l)
	if err == nil {
		v := binary.BigEndian.AppendUint64(nil, l.Index)
		b.In(d.system).Put([]byte(appliedKey), binary.BigEndian.AppendUint64(v, l.Term))
		err = d.db.Write(b, lsm.NoSync)
	}
	if err != nil {
		err = fmt.Errorf("replica: entry %d: %w", l.Index, err)
		f.fail(err)
		return result{err: err}
	}
	f.mu.Lock()
	f.advance(l.Index)
	f.mu.Unlock()
	return r
}

// batchOf returns what an entry writes, and its outcome.
func (f *fsm) batchOf(d *database, l *raft.Log) (b *lsm.Batch, r result, err error) {
	b = lsm.NewBatch()
	switch l.Type {
	case raft.LogConfiguration:
		f.left(raft.DecodeConfiguration(l.Data))
		v := binary.BigEndian.AppendUint64(nil, l.Index)
		b.In(d.system).Put([]byte(membersKey), append(v, l.Data...))
		return b, result{outcome: done}, nil
	case raft.LogCommand:
	default:
		return b, result{outcome: done}, nil
	}
	changes, err := wire.DecodeEntry(l.Data)
	if err != nil {
		return nil, result{}, err
	}
	a := applying{f: f, d: d, at: place{index: l.Index}, batch: b}
	last := 0 // the last change with a condition
	for i, c := range changes {
		if len(c.Conditions) > 0 {
			last = i
		}
	}
	for i, c := range changes {
		a.at.sub = uint32(i)
		a.more = i < last
		o, err := a.apply(c)
		if err != nil {
			return nil, result{}, err
		}
		r.group = append(r.group, o)
	}
	r.outcome = r.group[0]
	return b, r, nil
}

// Snapshot syncs what was applied: entries up to the snapshot's index may leave the log afterwards.
// The checkpoint is made by Persist, beside further entries, and may have some of them: its own
// applied index says which.
func (f *fsm) Snapshot() (raft.FSMSnapshot, error) {
	d, err := f.acquire()
	if err != nil {
		return nil, err
	}
	if err := d.db.Write(lsm.NewBatch(), lsm.Sync); err != nil {
		d.release()
		f.fail(fmt.Errorf("replica: sync before a snapshot: %w", err))
		return nil, err
	}
	return &image{d}, nil
}

// image is a snapshot to be made.
type image struct{ of *database }

func (i *image) Persist(to raft.SnapshotSink) error { return to.(*sink).checkpoint(i.of.db) }

func (i *image) Release() { i.of.release() }

// Restore makes a snapshot that a leader sent the state.
func (f *fsm) Restore(r io.ReadCloser) error {
	for {
		wrapped, ok := r.(raft.ReadCloserWrapper)
		if !ok {
			break
		}
		r = wrapped.WrappedReadCloser()
	}
	s, ok := r.(*source)
	if !ok {
		return errors.New("replica: a snapshot of another store")
	}
	if err := f.swap(s.dir); err != nil {
		f.fail(fmt.Errorf("replica: snapshot %s: %w", s.meta.ID, err))
		return err
	}
	f.node.event(Event{Kind: Restored, Index: s.meta.Index})
	return nil
}

// swap fills a new directory from a snapshot's and makes it the running one. Reads that began
// before go on in the old one, which is removed when the last of them ends.
func (f *fsm) swap(from string) error {
	d, err := f.node.disk.fill(from)
	if err != nil {
		return err
	}
	f.mu.Lock()
	old := f.current
	f.mu.Unlock()
	if err := f.adopt(d); err != nil {
		return errors.Join(err, d.db.Close())
	}
	old.obsolete.Store(true)
	old.release()
	return nil
}

// close ends the state machine once Raft has.
func (f *fsm) close() {
	f.fail(fmt.Errorf("replica: %w", ErrClosed))
	f.mu.Lock()
	d := f.current
	f.current = nil
	f.mu.Unlock()
	if d != nil {
		d.release()
	}
}
