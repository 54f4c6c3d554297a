package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/batchrepr"
	"github.com/loamdb/loam/internal/store"
	"github.com/loamdb/loam/internal/store/write"
	"github.com/loamdb/loam/internal/tree"
)

// LoadOptions says how Load writes.
type LoadOptions struct {
	Overwrite bool // keyspaces of the dump need not be empty
	// SyncBytes is how many bytes of batches are loaded between two markers: what a crash makes the
	// next call load again.
	SyncBytes uint64
	Progress  func(Progress)
	Loading   *atomic.Bool // set while a dump is being loaded into the database; nil: nobody asks
	// Open returns what the reader has, decrypted. It is called once Loading is set.
	Open func(io.Reader) (io.Reader, error)
}

// Load writes a dump into a database; see package lsm/dump.
func Load(ctx context.Context, db store.Host, r io.Reader, o LoadOptions) (s Summary, err error) {
	if err := db.Health().Writable(); err != nil {
		return s, err
	}
	if o.Loading != nil && o.Loading.Swap(true) {
		return s, fmt.Errorf("%w: another dump is being loaded into the database", base.ErrBusy)
	}
	if o.Loading != nil {
		defer o.Loading.Store(false)
	}
	if o.Open != nil {
		if r, err = o.Open(r); err != nil {
			return s, err
		}
	}
	d, err := NewDecoder(r)
	if err != nil {
		return s, err
	}
	defer d.Close()
	l := &loader{ctx: ctx, db: db, d: d, o: o, marker: marker{id: d.Header.ID}}
	l.w = NewWriter(ctx, db, func(written uint64) { l.written = written })
	if err = l.begin(); err == nil {
		err = l.blocks()
	}
	if err == nil {
		err = l.end()
	}
	return d.summary(), err
}

type loader struct {
	ctx    context.Context
	db     store.Host
	d      *Decoder
	o      LoadOptions
	w      *Writer
	marker marker

	written, saved uint64 // bytes of batches, those that the marker counts
	loaded         bool   // there is a block that it does not count
}

// begin looks at the database, writes the marker, opens the keyspaces and goes to the
// first block that is not in the database.
func (l *loader) begin() error {
	found, err := l.findMarker()
	if err != nil {
		return err
	}
	spaces, err := l.spaces(!found && !l.o.Overwrite)
	if err != nil {
		return err
	}
	if err := l.ctx.Err(); err != nil {
		return err
	}
	if !found {
		if err := writeMarker(l.db, &l.marker); err != nil {
			return err
		}
	}
	if err := l.w.Begin(spaces); err != nil {
		return err
	}
	l.d.compare = func(i int) *base.Comparer { return spaces[i].Comparer }
	if l.marker.blocks {
		return l.d.skip(l.marker.last)
	}
	return nil
}

// findMarker reads the marker of a load of this dump that was interrupted. There is none of another
// dump.
func (l *loader) findMarker() (found bool, err error) {
	m, found, err := readMarker(l.db)
	if err != nil || !found {
		return false, err
	}
	if m.id != l.marker.id {
		return false, fmt.Errorf("%w: the load of another dump, %x, was interrupted: go on with "+
			"that, or begin with an empty database", base.ErrExists, m.id)
	}
	if m.blocks && len(m.last.counts.Entries) != len(l.d.Header.Spaces) {
		return false, base.Corruptf("load marker", "it counts %d keyspaces, the dump has %d",
			len(m.last.counts.Entries), len(l.d.Header.Spaces)).At(markerName, 0, 0)
	}
	l.marker = m
	return true, nil
}

// spaces says why the database cannot take the keyspaces of the dump, or describes them. With empty
// they must be.
func (l *loader) spaces(empty bool) ([]Space, error) {
	spaces := make([]Space, len(l.d.Header.Spaces))
	for i, h := range l.d.Header.Spaces {
		s := Space{Name: h.Name, Comparer: l.db.Place().Comparers(h.Comparer), Expires: h.Expires}
		if s.Comparer == nil {
			return nil, fmt.Errorf("%w: comparer %.200q of keyspace %q is none that Open was given",
				base.ErrComparerMismatch, h.Comparer, h.Name)
		}
		if h.Expires && !l.db.Place().Native() {
			return nil, fmt.Errorf("keyspace %q: %w", h.Name, base.NeedsNative("a time to live"))
		}
		k, err := l.db.Keyspaces().Open(h.Name, s.Comparer, nil, false)
		switch {
		case err == nil && k.Tree.Merge() != nil: // it keeps its operator
		case h.MergeOperator != "":
			s.Merge = l.db.Place().Merges(h.MergeOperator) // nil: not known
		}
		if err == nil && empty {
			err = l.empty(k)
		}
		if err != nil && !(errors.Is(err, base.ErrNoKeyspace) && l.db.Place().Native()) {
			return nil, err
		}
		spaces[i] = s
	}
	return spaces, nil
}

func (l *loader) empty(k *store.Keyspace) error {
	var it tree.Iterator
	k.Tree.Init(&it, &tree.IterOptions{KeysOnly: true})
	any := it.First()
	if err := it.Close(); err != nil || !any {
		return err
	}
	return fmt.Errorf("%w: keyspace %q is not empty, and it was not asked for that the dump "+
		"overwrites what is there", base.ErrExists, k.Tree.Name())
}

// blocks loads the blocks. After a failure the marker says how far that went.
func (l *loader) blocks() error {
	put := func(space int, e Entry) error { return l.w.Put(space, e.Key, e.Value, e.Deadline) }
	for {
		if err := l.ctx.Err(); err != nil {
			return l.interrupted(err)
		}
		last := l.d.last
		more, err := l.d.Next(put)
		if err == nil {
			err = l.w.End()
		}
		if err != nil {
			l.d.last = last
			return l.interrupted(err)
		}
		if !more {
			return nil
		}
		l.loaded = true
		if l.o.Progress != nil {
			l.o.Progress(l.d.progress())
		}
		if l.written-l.saved >= l.o.SyncBytes {
			if err := l.save(); err != nil {
				return err
			}
		}
	}
}

// interrupted saves how far the load came.
func (l *loader) interrupted(err error) error {
	if l.loaded && l.d.last != nil {
		_ = l.save() // the marker of before is good, too
	}
	return err
}

// sync makes what was loaded durable.
func (l *loader) sync() error {
	if err := l.db.Health().Writable(); err != nil {
		return err
	}
	return l.db.Commit(batchrepr.Init(nil), write.Sync, nil)
}

// save makes the loaded entries durable, and then the marker.
func (l *loader) save() error {
	if err := l.sync(); err != nil {
		return err
	}
	l.marker.blocks, l.marker.last = true, *l.d.last
	if err := writeMarker(l.db, &l.marker); err != nil {
		return err
	}
	l.saved, l.loaded = l.written, false
	return nil
}

// end makes everything durable. If the marker may be gone, and that is not durable, the marker is
// written again: without it the next call would refuse the entries that it finds.
func (l *loader) end() error {
	if err := l.sync(); err != nil {
		return err
	}
	err := removeMarker(l.db)
	if err != nil {
		_ = writeMarker(l.db, &l.marker) // the first failure is told
	}
	return err
}
