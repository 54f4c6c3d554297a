package transfer

import (
	"context"
	"fmt"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/mergeop"
	"github.com/loamdb/loam/internal/store"
	"github.com/loamdb/loam/internal/tree"
)

// Space is a keyspace of a Source.
type Space struct {
	Name     string
	Comparer *base.Comparer
	Merge    *mergeop.Operator // nil: none, or not known here
	Expires  bool              // entries may have deadlines
}

// Sink takes the entries of keyspaces. Its methods are called in the order in which they stand
// here.
type Sink interface {
	// Begin takes all keyspaces, "default" first.
	Begin(spaces []Space) error
	// Put takes an entry of the keyspace spaces[i]. Keyspaces come in their order, and the entries
	// of each in the order of its keys. key and value are valid during the call. deadline is in
	// seconds since 1970, 0 for a value that does not expire.
	Put(i int, key, value []byte, deadline uint64) error
	// End comes after the last entry.
	End() error
}

// State is one state of an open database: its entries as reads see them, that is without what was
// overwritten or deleted or has expired, and with merges folded.
type State struct {
	db     store.Host
	spaces []*store.Keyspace
	snap   *tree.Snapshot
	own    tree.Snapshot // where snap is not another one
}

// NewState is the state of a snapshot, with the keyspaces of the present, or, if snap is nil, the
// present state. The caller closes it.
func NewState(db store.Host, snap *tree.Snapshot) (*State, error) {
	s := &State{db: db, snap: snap}
	var err error
	s.spaces, err = db.Keyspaces().All(func([]*store.Keyspace) {
		if snap == nil {
			s.snap = &s.own
			db.Sequences().Open(s.snap)
		}
	})
	if err == nil && snap != nil {
		var it tree.Iterator
		s.iter(&it, 0) // fails if the snapshot is closed, or another database's
		err = it.Close()
	}
	return s, err
}

// Close gives up the state.
func (s *State) Close() {
	if s.snap == &s.own {
		s.db.CloseSnapshot(s.snap)
	}
}

// Spaces describes the keyspaces.
func (s *State) Spaces() []Space {
	spaces := make([]Space, len(s.spaces))
	for i, k := range s.spaces {
		spaces[i] = Space{Name: k.Tree.Name(), Comparer: k.Comparer(), Merge: k.Tree.Merge(),
			Expires: k.Tree.Expires()}
	}
	return spaces
}

func (s *State) ids() []base.KeyspaceID {
	ids := make([]base.KeyspaceID, len(s.spaces))
	for i, k := range s.spaces {
		ids[i] = base.KeyspaceID(k.ID())
	}
	return ids
}

// ctxStep is how many bytes of keys and values are copied between two looks at a context.
const ctxStep = 256 << 10

// position is the last entry that was copied: key of the keyspace spaces[space].
type position struct {
	space int
	key   []byte
}

// Copy hands all entries to a sink.
func (s *State) Copy(ctx context.Context, to Sink) error {
	if err := to.Begin(s.Spaces()); err != nil {
		return err
	}
	return s.copyBehind(ctx, nil, to)
}

// copyBehind hands the entries behind a position, nil for all, to a sink that has begun.
func (s *State) copyBehind(ctx context.Context, after *position, to Sink) error {
	first := 0
	if after != nil {
		first = after.space
	}
	for i := first; i < len(s.spaces); i++ {
		if err := s.copySpace(ctx, i, after, to); err != nil {
			return fmt.Errorf("keyspace %q: %w", s.spaces[i].Tree.Name(), err)
		}
		after = nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return to.End()
}

// iter makes it, a zero Iterator, one of a keyspace.
func (s *State) iter(it *tree.Iterator, i int) {
	s.spaces[i].Reads().Init(it, &tree.IterOptions{NoFillCache: true, Snapshot: s.snap})
}

func (s *State) copySpace(ctx context.Context, i int, after *position, to Sink) error {
	var it tree.Iterator
	s.iter(&it, i)
	defer it.Close()
	var ok bool
	if after == nil {
		ok = it.First()
	} else if ok = it.SeekGE(after.key); ok &&
		s.spaces[i].Comparer().Cmp(it.Key(), after.key) == 0 {
		ok = it.Next()
	}
	for left := 0; ok; ok = it.Next() {
		key, value := it.Key(), it.Value()
		if left -= len(key) + len(value); left <= 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			left = ctxStep
		}
		if err := to.Put(i, key, value, it.Deadline()); err != nil {
			return err
		}
	}
	return it.Err()
}
