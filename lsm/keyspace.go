package lsm

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/batchrepr"
	"github.com/loamdb/loam/internal/commit"
	"github.com/loamdb/loam/internal/manifest"
	"github.com/loamdb/loam/internal/sstable"
	"github.com/loamdb/loam/internal/tree"
)

// maxLogs is how many write buffers of logs there may be before the keyspaces that
// keep the oldest log are flushed.
const maxLogs = 4

// keyspaces is the keyspaces of a database besides the default one. All share one
// write-ahead log, one sequence of numbers, one MANIFEST, one scheduler and one cache.
type keyspaces struct {
	mu     sync.Mutex // held while one is created or dropped; outermost
	byName map[string]*keyspace
	gone   *tree.Tree // never started: stands for a dropped keyspace in reads, which fail

	unread  atomic.Int32 // how many of dropped a snapshot may still read
	dropMu  sync.Mutex   // a leaf
	dropped []*keyspace  // dropped ones that a snapshot may still read, or with open iterators

	find func(base.KeyspaceID) *tree.Tree // DB.treeOf; constant
	// Used by the commit leader, changed in pipeline.Exclusive.
	several bool // a batch may name other keyspaces than the default one
	trees   map[base.KeyspaceID]*tree.Tree
}

// keyspace is a keyspace besides the default one. It is safe for concurrent use.
type keyspace struct {
	db   *DB
	tree *tree.Tree

	// gone is set when the keyspace is being dropped. Writes are refused from then on,
	// and reads too, except at snapshots whose sequence number is at most last.
	gone atomic.Bool
	last atomic.Uint64
}

// init makes the trees of the keyspaces that the manifest has.
func (s *keyspaces) init(db *DB) {
	s.gone = db.newTree(base.DefaultKeyspace, base.DefaultKeyspaceName, db.opts.Comparer)
	s.byName = map[string]*keyspace{}
	s.trees = map[base.KeyspaceID]*tree.Tree{}
	s.find = db.treeOf
	s.several = db.manifest.MaxKeyspace() > base.DefaultKeyspace
	for _, k := range db.manifest.Keyspaces() {
		if k.ID != base.DefaultKeyspace {
			s.add(&keyspace{db: db, tree: db.newTree(k.ID, k.Name, k.Comparer)})
		}
	}
}

// add adds a keyspace. It is called while no commit is under way.
func (s *keyspaces) add(k *keyspace) {
	s.several = true
	s.byName[k.tree.Name()] = k
	s.trees[k.tree.ID()] = k.tree
	k.db.jobs.Add(k.tree)
}

// treeOf returns the tree of a keyspace, or nil. Commit leader only.
func (db *DB) treeOf(id base.KeyspaceID) *tree.Tree {
	if id == base.DefaultKeyspace {
		return db.tree
	}
	return db.spaces.trees[id]
}

// all lists the trees of all keyspaces, first that of the default one.
func (s *keyspaces) all(first *tree.Tree) []*tree.Tree {
	s.mu.Lock()
	defer s.mu.Unlock()
	trees := []*tree.Tree{first}
	for _, name := range slices.Sorted(maps.Keys(s.byName)) {
		trees = append(trees, s.byName[name].tree)
	}
	return trees
}

// close closes the trees of all keyspaces. It is called after the last commit.
func (s *keyspaces) close() {
	for _, t := range s.trees {
		t.Close()
	}
	s.dropMu.Lock()
	defer s.dropMu.Unlock()
	for _, k := range s.dropped {
		k.tree.Close()
	}
	s.dropped = nil
	s.unread.Store(0)
}

// closeUnread drops the trees of dropped keyspaces that no open snapshot may read, and
// takes them off the list once they have no iterator either.
func (s *keyspaces) closeUnread(seqs *tree.Sequences) {
	if s.unread.Load() == 0 {
		return
	}
	oldest, open := seqs.Oldest()
	s.dropMu.Lock()
	defer s.dropMu.Unlock()
	unread := int32(0)
	s.dropped = slices.DeleteFunc(s.dropped, func(k *keyspace) bool {
		if open && uint64(oldest) <= k.last.Load() {
			unread++
			return false
		}
		k.tree.Drop()
		return k.tree.Unused()
	})
	s.unread.Store(unread)
}

// openKeyspace returns a keyspace, which it creates if there is none of that name.
func (db *DB) openKeyspace(name string, c *Comparer) (*keyspace, error) {
	if !db.isNative() {
		return nil, fmt.Errorf("%w: a database in LevelDB's format has no keyspaces", ErrInvalidArgument)
	}
	s := &db.spaces
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.byName[name]; k != nil {
		switch {
		case k.gone.Load():
			return nil, fmt.Errorf("keyspace %q: a drop has failed, and must be tried again first", name)
		case c != nil && c.Name != k.tree.Comparer().Name:
			return nil, fmt.Errorf("%w: keyspace %q has %q, asked for is %q", ErrComparerMismatch, name, k.tree.Comparer().Name, c.Name)
		}
		return k, nil
	}
	if err := db.health.writable(); err != nil {
		return nil, err
	}
	if c == nil {
		c = db.opts.Comparer
	}
	if db.opts.comparerOf(c.Name) == nil {
		return nil, fmt.Errorf("%w: comparer %q of keyspace %q is not among those that Open knows", ErrInvalidArgument, c.Name, name)
	}
	id, version, err := db.jobs.CreateKeyspace(name, c)
	if err != nil {
		return nil, err
	}
	k := &keyspace{db: db, tree: db.newTree(id, name, c)}
	err = db.pipeline.Exclusive(func() error {
		if db.tree.Closed() {
			version.Unref()
			return ErrClosed
		}
		k.tree.Start(db.wal.Num(), nil, version)
		s.add(k)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return k, nil
}

// dropKeyspace drops a keyspace. If it fails, it is unknown whether the keyspace still
// exists on disk, and nothing but another dropKeyspace is allowed.
func (db *DB) dropKeyspace(name string) error {
	s := &db.spaces
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.byName[name]
	if k == nil {
		return fmt.Errorf("%w: %q", manifest.ErrNoKeyspace, name)
	}
	if err := db.health.writable(); err != nil {
		return err
	}
	// Writes that passed checkSpaces before count as written before the drop.
	k.last.Store(uint64(db.shared.Seqs.Visible()))
	k.gone.Store(true)
	if err := db.jobs.DropKeyspace(k.tree); err != nil {
		return err
	}
	delete(s.byName, name)
	err := db.pipeline.Exclusive(func() error {
		delete(s.trees, k.tree.ID())
		s.dropMu.Lock()
		defer s.dropMu.Unlock()
		s.dropped = append(s.dropped, k)
		s.unread.Add(1)
		return nil
	})
	s.closeUnread(db.shared.Seqs)
	if err != nil {
		return err
	}
	return db.jobs.ReleaseLogs()
}

// keyspaceNames lists all keyspaces, the default one first.
func (db *DB) keyspaceNames() (names []string) {
	for _, k := range db.manifest.Keyspaces() {
		names = append(names, k.Name)
	}
	return names
}

// checkSpaces refuses a batch for keyspaces that were dropped, or are another
// database's.
func (db *DB) checkSpaces(b *Batch) error {
	for _, k := range b.spaces {
		if k.db != db {
			return fmt.Errorf("%w: the batch names a keyspace of another database", ErrInvalidArgument)
		}
		if k.gone.Load() {
			return fmt.Errorf("%w: %q was dropped", manifest.ErrNoKeyspace, k.tree.Name())
		}
	}
	return nil
}

// makeRoomAll makes room in each tree that the group writes to. Commit leader only.
func (db *DB) makeRoomAll(group [][]byte, bytes int64, entries int, mode commit.Mode) error {
	if !db.spaces.several {
		return db.jobs.MakeRoom(db.tree, bytes, entries, mode)
	}
	return db.jobs.MakeRoomForGroup(db.spaces.find, group, mode)
}

// applyAll inserts a batch into the trees that it writes to. Commit leader only.
func (db *DB) applyAll(batch []byte, seq base.SeqNum) error {
	if !db.spaces.several {
		return db.tree.Apply(batch, seq)
	}
	return tree.ApplyAll(db.spaces.find, batch, seq)
}

// at is the tree to read at a snapshot, or at present if that is nil. If the keyspace was
// dropped before, it is a closed tree.
func (k *keyspace) at(snap *Snapshot) (*tree.Tree, *tree.Snapshot) {
	if snap == nil {
		if k.gone.Load() {
			return k.db.spaces.gone, nil
		}
		return k.tree, nil
	}
	if k.gone.Load() && uint64(snap.at.Seq()) > k.last.Load() {
		return k.db.spaces.gone, &snap.at
	}
	return k.tree, &snap.at
}

func (k *keyspace) get(key, dst []byte, snap *Snapshot, flags sstable.ReadFlags) ([]byte, error) {
	t, at := k.at(snap)
	return t.Get(key, dst, at, flags)
}

func (k *keyspace) iter(o *IterOptions) *Iterator {
	if o == nil {
		o = &IterOptions{}
	}
	t, _ := k.at(o.Snapshot)
	return newIterator(t, o)
}

func (k *keyspace) compactRange(start, limit []byte) error {
	return k.db.compactRange(context.Background(), k.tree, start, limit)
}

// put adds an operation on the keyspace to a batch.
func (k *keyspace) put(b *Batch, key, value []byte) {
	if b.checkSize(len(key) + len(value)) {
		b.note(k)
		b.repr = batchrepr.AppendPutIn(b.repr, k.tree.ID(), key, value)
	}
}

func (k *keyspace) delete(b *Batch, key []byte) {
	if b.checkSize(len(key)) {
		b.note(k)
		b.repr = batchrepr.AppendDeleteIn(b.repr, k.tree.ID(), key)
	}
}
