package transfer

import (
	"context"
	"fmt"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/batchrepr"
	"github.com/loamdb/loam/internal/store"
)

// batchBytes is the size of the largest batch of more than one entry that a Writer commits.
const batchBytes = 256 << 10

// Writer is a Sink that puts entries into a database, without a sync: values keep the deadlines
// that they have, and get none where keyspaces have a default time to live.
type Writer struct {
	ctx      context.Context // ends Begin
	db       store.Host
	progress func(written uint64) // called after each batch, with the sum of their sizes

	spaces      []*store.Keyspace
	repr        []byte
	first, last int    // keyspaces of the batch
	expiring    []bool // by keyspace: it has been told that values expire
	value       []byte // with its deadline
	written     uint64
}

// NewWriter makes a Writer. progress is not nil.
func NewWriter(ctx context.Context, db store.Host, progress func(written uint64)) *Writer {
	return &Writer{ctx: ctx, db: db, progress: progress, repr: batchrepr.Init(nil)}
}

// Begin opens the keyspaces, or creates them.
func (w *Writer) Begin(spaces []Space) error {
	w.spaces, w.expiring = make([]*store.Keyspace, len(spaces)), make([]bool, len(spaces))
	for i, s := range spaces {
		if err := w.ctx.Err(); err != nil {
			return err // there may be any number, and each new one is an edit that is synced
		}
		merge := s.Merge
		if !w.db.Place().Native() {
			merge = nil
		}
		k, err := w.db.Keyspaces().Open(s.Name, s.Comparer, merge, true)
		if err != nil {
			return fmt.Errorf("keyspace %q: %w", s.Name, err)
		}
		w.spaces[i] = k
	}
	return nil
}

// Put adds an entry to the batch. A full one is committed before.
func (w *Writer) Put(i int, key, value []byte, deadline uint64) error {
	if len(w.repr)+len(key)+len(value) > batchBytes {
		if err := w.commit(); err != nil {
			return err
		}
	}
	k, kind := w.spaces[i], base.KindSet
	if deadline != 0 {
		if !w.expiring[i] {
			if !w.db.Place().Native() {
				return base.NeedsNative("a time to live")
			}
			k.Tree.NoteExpiring()
			w.expiring[i] = true
		}
		w.value = base.AppendDeadline(append(w.value[:0], value...), deadline)
		kind, value = base.KindSetExpiring, w.value
	}
	if batchrepr.Count(w.repr) == 0 {
		w.first = i
	}
	w.last = i
	w.repr = batchrepr.AppendEntry(w.repr, k.ID(), kind, key, value)
	return nil
}

// commit commits the batch, if there is something in it.
func (w *Writer) commit() (err error) {
	if batchrepr.Count(w.repr) == 0 {
		return nil
	}
	defer w.db.Health().CatchPanic(&err)
	for _, k := range w.spaces[w.first : w.last+1] {
		if err := k.Writable(); err != nil {
			return err
		}
	}
	if err := w.db.Commit(w.repr, 0, nil); err != nil {
		return err
	}
	w.written += uint64(len(w.repr))
	w.repr = batchrepr.Init(w.repr)
	w.progress(w.written)
	return nil
}

// End commits the last batch.
func (w *Writer) End() error { return w.commit() }

// Flush writes everything into tables.
func (w *Writer) Flush() error {
	for _, k := range w.spaces {
		if err := k.Flush(); err != nil {
			return err
		}
	}
	return nil
}
