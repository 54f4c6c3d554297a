package store

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode"
	"unicode/utf8"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/store/write"
	"github.com/loamdb/loam/internal/tree"
)

// keyspaces is the keyspaces of a database besides the default one. All share one
// write-ahead log, one sequence of numbers, one MANIFEST, one scheduler and one cache.
type keyspaces struct {
	mu     sync.Mutex // held while one is created or dropped; outermost
	byName map[string]*Keyspace

	idMu sync.RWMutex                  // a leaf
	byID map[base.KeyspaceID]*Keyspace // those that may be written

	unread  atomic.Int32 // how many of dropped a snapshot may still read
	dropMu  sync.Mutex   // a leaf
	dropped []*Keyspace  // dropped ones that a snapshot may still read, or with open iterators

	find func(base.KeyspaceID) *tree.Tree // DB.treeOf; constant
	// Used by the commit leader, changed in pipeline.Exclusive.
	several bool // a batch may name other keyspaces than the default one
	trees   map[base.KeyspaceID]*tree.Tree
}

// Keyspace is a keyspace of an open database. It is safe for concurrent use.
type Keyspace struct {
	Tree *tree.Tree
	db   *DB

	// gone is set when the keyspace is being dropped, to a tree whose reads say so. Writes
	// are refused from then on, and reads too, except at snapshots whose sequence number
	// is at most last.
	gone atomic.Pointer[tree.Tree]
	last atomic.Uint64

	sealing atomic.Bool   // see RangeDeleted
	ttl     atomic.Uint64 // see SetTTL
}

// init makes the trees of the keyspaces that the manifest has.
func (s *keyspaces) init(db *DB) {
	s.byID = map[base.KeyspaceID]*Keyspace{base.DefaultKeyspace: db.home}
	s.byName = map[string]*Keyspace{}
	s.trees = map[base.KeyspaceID]*tree.Tree{}
	s.find = db.treeOf
	s.several = db.manifest.MaxKeyspace() > base.DefaultKeyspace
	for _, k := range db.manifest.Keyspaces() {
		if k.ID != base.DefaultKeyspace {
			s.add(db.newKeyspace(k))
		}
	}
}

// add adds a keyspace. It is called while no commit is under way.
func (s *keyspaces) add(k *Keyspace) {
	s.several = true
	s.byName[k.Tree.Name()] = k
	s.trees[k.Tree.ID()] = k.Tree
	s.idMu.Lock()
	s.byID[k.Tree.ID()] = k
	s.idMu.Unlock()
	k.db.jobs.Add(k.Tree)
}

// treeOf returns the tree of a keyspace, or nil. Commit leader only.
func (db *DB) treeOf(id base.KeyspaceID) *tree.Tree {
	if id == base.DefaultKeyspace {
		return db.home.Tree
	}
	return db.spaces.trees[id]
}

// all lists the trees of all keyspaces, first that of the default one.
func (s *keyspaces) all(first *tree.Tree) []*tree.Tree {
	s.mu.Lock()
	defer s.mu.Unlock()
	trees := []*tree.Tree{first}
	for _, name := range slices.Sorted(maps.Keys(s.byName)) {
		trees = append(trees, s.byName[name].Tree)
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
		k.Tree.Close()
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
	s.dropped = slices.DeleteFunc(s.dropped, func(k *Keyspace) bool {
		if open && uint64(oldest) <= k.last.Load() {
			unread++
			return false
		}
		k.Tree.Drop()
		return k.Tree.Unused()
	})
	s.unread.Store(unread)
}

// newKeyspace makes a keyspace, whose tree does nothing before its Start.
func (db *DB) newKeyspace(k manifest.Keyspace) *Keyspace {
	space := &Keyspace{db: db, Tree: db.newTree(k)}
	db.serial.note(space.Tree)
	return space
}

// serialTrees are the trees whose comparer is on the caller's thread; nil: there is none. Those
// that were dropped stay.
type serialTrees struct {
	list atomic.Pointer[[]*tree.Tree]
}

func (s *serialTrees) note(t *tree.Tree) {
	if !t.Comparer().Serial() {
		return
	}
	for {
		old := s.list.Load()
		list := []*tree.Tree{t}
		if old != nil {
			list = append(list, *old...)
		}
		if s.list.CompareAndSwap(old, &list) {
			return
		}
	}
}

// orderWritten orders what was written, where that is the writers' work. The writes are done: of a
// comparer that panics the next call tells.
func (db *DB) orderWritten() {
	list := db.serial.list.Load()
	if list == nil {
		return
	}
	for _, t := range *list {
		var p *base.Panic
		if err := t.Order(); errors.As(err, &p) {
			_ = db.health.fail(err)
		}
	}
}

// maxKeyspaceName is the length in bytes of the longest name of a keyspace.
const maxKeyspaceName = 255

func checkKeyspaceName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: a keyspace needs a name", base.ErrInvalidArgument)
	case len(name) > maxKeyspaceName:
		return fmt.Errorf("%w: the name of a keyspace has %d bytes, at most %d are allowed",
			base.ErrInvalidArgument, len(name), maxKeyspaceName)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("%w: the name of a keyspace, %q, is not printable UTF-8",
			base.ErrInvalidArgument, name)
	}
	return nil
}

// Host is the database, as features see it.
func (k *Keyspace) Host() Host { return k.db }

// Database is the database.
func (k *Keyspace) Database() *DB { return k.db }

// Keyspaces are the keyspaces of an open database.
type Keyspaces struct{ db *DB }

// Keyspaces is for Host.
func (db *DB) Keyspaces() Keyspaces { return Keyspaces{db} }

// Open returns the keyspace of a name. If there is none it creates one, with comparer c
// or, if that is nil, the default keyspace's; without create it fails with
// base.ErrNoKeyspace.
func (ks Keyspaces) Open(name string, c *base.Comparer, create bool) (*Keyspace, error) {
	db := ks.db
	if err := base.NotWithin(); err != nil {
		return nil, err
	}
	if err := checkKeyspaceName(name); err != nil {
		return nil, err
	}
	if db.health.Closing.Load() {
		return nil, base.ErrDatabaseClosed
	}
	db.shared.Seqs.Present()
	db.spaces.mu.Lock()
	defer db.spaces.mu.Unlock()
	k := db.spaces.byName[name]
	if name == base.DefaultKeyspaceName {
		k = db.home
	}
	switch {
	case k == nil:
		return db.createKeyspaceLocked(name, c, create)
	case k.gone.Load() != nil:
		return nil, dropFailed(name)
	case c != nil && c.Name != k.Tree.Comparer().Name:
		return nil, fmt.Errorf("%w: keyspace %q has %q, asked for is %q", base.ErrComparerMismatch,
			name, k.Tree.Comparer().Name, c.Name)
	}
	return k, nil
}

// createKeyspaceLocked creates a keyspace.
//
// REQUIRES: db.spaces.mu held.
func (db *DB) createKeyspaceLocked(name string, c *base.Comparer, create bool) (*Keyspace, error) {
	if !db.Native() {
		return nil, base.NeedsNative(fmt.Sprintf("keyspace %q", name))
	}
	if !create {
		return nil, fmt.Errorf("%w: %q", base.ErrNoKeyspace, name)
	}
	if err := db.health.Writable(); err != nil {
		return nil, err
	}
	if c == nil {
		c = db.opts.Comparer
	}
	if known := db.opts.Comparers(c.Name); known == nil {
		return nil,
			fmt.Errorf("%w: comparer %q of keyspace %q is not among those that Open was given",
				base.ErrInvalidArgument, c.Name, name)
	}
	id, version, err := db.jobs.CreateKeyspace(name, c)
	if err != nil {
		return nil, err
	}
	k := db.newKeyspace(manifest.Keyspace{ID: id, Name: name, Comparer: c})
	err = db.pipeline.Exclusive(func() error {
		if db.home.Tree.Closed() {
			version.Unref()
			return base.ErrDatabaseClosed
		}
		k.Tree.Start(db.wal.Num(), nil, version)
		db.spaces.add(k)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return k, nil
}

// Drop drops a keyspace. If it fails, it is unknown whether the keyspace still
// exists on disk, and nothing but another Drop is allowed.
func (ks Keyspaces) Drop(name string) error {
	db := ks.db
	if err := base.NotWithin(); err != nil {
		return err
	}
	s := &db.spaces
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := db.health.Writable(); err != nil {
		return err
	}
	if name == base.DefaultKeyspaceName {
		return fmt.Errorf("%w: the default keyspace cannot be dropped", base.ErrInvalidArgument)
	}
	k := s.byName[name]
	if k == nil {
		return fmt.Errorf("%w: %q", base.ErrNoKeyspace, name)
	}
	k.endReads()
	if err := db.jobs.DropKeyspace(k.Tree); err != nil {
		return err
	}
	if err := db.forgetLocked(k); err != nil {
		return err
	}
	return db.jobs.ReleaseLogs()
}

// endReads makes reads at present fail, and writes.
func (k *Keyspace) endReads() {
	// Writes that passed checkKeyspaces before count as written before the drop.
	k.last.Store(uint64(k.db.shared.Seqs.Visible()))
	if k.gone.Load() == nil {
		gone := k.db.newTree(manifest.Keyspace{ID: k.Tree.ID(), Name: k.Tree.Name(),
			Comparer: k.Tree.Comparer()})
		gone.Drop()
		k.gone.Store(gone)
	}
}

// forgetLocked takes a keyspace off the lists that was dropped.
//
// REQUIRES: db.spaces.mu held.
func (db *DB) forgetLocked(k *Keyspace) error {
	s := &db.spaces
	delete(s.byName, k.Tree.Name())
	s.idMu.Lock()
	delete(s.byID, k.Tree.ID())
	s.idMu.Unlock()
	err := db.pipeline.Exclusive(func() error {
		delete(s.trees, k.Tree.ID())
		s.dropMu.Lock()
		defer s.dropMu.Unlock()
		s.dropped = append(s.dropped, k)
		s.unread.Add(1)
		return nil
	})
	s.closeUnread(db.shared.Seqs)
	return err
}

// All lists the keyspaces, the default one first, the others in the order in which they were
// created. It calls then while none is created or dropped.
func (ks Keyspaces) All(then func()) (all []*Keyspace, err error) {
	db := ks.db
	db.shared.Seqs.Present()
	if db.follower == nil {
		return db.allKeyspaces(then)
	}
	db.follower.Still(func() { all, err = db.allKeyspaces(then) })
	return all, err
}

// Keep runs f while no keyspace is created or dropped, and no checkpoint takes its state.
func (ks Keyspaces) Keep(f func() error) error {
	ks.db.spaces.mu.Lock()
	defer ks.db.spaces.mu.Unlock()
	return f()
}

// Names lists all keyspaces, the default one first.
func (ks Keyspaces) Names() (names []string) {
	ks.db.shared.Seqs.Present()
	for _, k := range ks.db.manifest.Keyspaces() {
		names = append(names, k.Name)
	}
	return names
}

func (db *DB) allKeyspaces(then func()) (all []*Keyspace, err error) {
	s := &db.spaces
	s.mu.Lock()
	defer s.mu.Unlock()
	if db.health.Closing.Load() {
		return nil, base.ErrDatabaseClosed
	}
	// Not those of the MANIFEST: one may be in it whose creation failed afterwards.
	all = slices.AppendSeq([]*Keyspace{db.home}, maps.Values(s.byName))
	slices.SortFunc(all, func(a, b *Keyspace) int { return cmp.Compare(a.ID(), b.ID()) })
	for _, k := range all {
		if k.gone.Load() != nil {
			return nil, dropFailed(k.Tree.Name())
		}
	}
	then()
	return all, nil
}

func dropFailed(name string) error {
	return fmt.Errorf("%w: dropping %q failed; drop it again first", base.ErrNoKeyspace, name)
}

// ByID is the keyspace of an ID that takes writes, or nil.
func (ks Keyspaces) ByID(id base.KeyspaceID) *Keyspace { return ks.db.keyspaceByID(id) }

func (db *DB) keyspaceByID(id base.KeyspaceID) *Keyspace {
	s := &db.spaces
	s.idMu.RLock()
	defer s.idMu.RUnlock()
	if k := s.byID[id]; k != nil && k.gone.Load() == nil {
		return k
	}
	return nil
}

// checkKeyspaces refuses a batch for keyspaces that were dropped, or are another
// database's.
func (db *DB) checkKeyspaces(named []*Keyspace) error {
	for _, k := range named {
		if k.db != db {
			return fmt.Errorf("%w: the batch names a keyspace of another database",
				base.ErrInvalidArgument)
		}
		if gone := k.gone.Load(); gone != nil {
			return gone.Gone()
		}
	}
	return nil
}

// Writable returns why the keyspace takes no writes, or nil.
func (k *Keyspace) Writable() error {
	if gone := k.gone.Load(); gone != nil && !k.db.health.Closing.Load() {
		return gone.Gone()
	}
	return k.db.health.Writable()
}

// makeRoomAll makes room in each tree that the group writes to. Commit leader only.
func (db *DB) makeRoomAll(group [][]byte, bytes int64, entries int, mode write.Mode) error {
	if !db.spaces.several {
		return db.jobs.MakeRoom(db.home.Tree, bytes, entries, mode)
	}
	return db.jobs.MakeRoomForGroup(db.spaces.find, group, mode)
}

// applyAll inserts a batch into the trees that it writes to. Commit leader only.
func (db *DB) applyAll(batch []byte, seq base.SeqNum) error {
	if !db.spaces.several {
		return db.home.Tree.Apply(batch, seq)
	}
	return tree.ApplyAll(db.spaces.find, batch, seq)
}

// At is the tree to read at a snapshot, or at present if that is nil. If the keyspace was
// dropped before, it is one without a state.
func (k *Keyspace) At(snap *tree.Snapshot) *tree.Tree {
	if k.gone.Load() != nil {
		return k.whenGone(snap)
	}
	return k.Tree
}

func (k *Keyspace) whenGone(snap *tree.Snapshot) *tree.Tree {
	if snap == nil || uint64(snap.Seq()) > k.last.Load() {
		return k.gone.Load()
	}
	return k.Tree
}

// ID is the number of the keyspace.
func (k *Keyspace) ID() base.KeyspaceID { return k.Tree.ID() }

// Version is the tables of the keyspace, with a reference.
func (k *Keyspace) Version() *manifest.Version { return k.db.manifest.Current(k.ID()) }

// Comparer orders the keys.
func (k *Keyspace) Comparer() *base.Comparer { return k.Tree.Comparer() }

// CloseSnapshot closes a snapshot of the database. Further calls do nothing.
func (db *DB) CloseSnapshot(s *tree.Snapshot) {
	s.Close()
	db.spaces.closeUnread(db.shared.Seqs)
}
