package store

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode"
	"unicode/utf8"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/mergeop"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/store/work"
	"github.com/loamdb/loam/internal/store/write"
	"github.com/loamdb/loam/internal/tree"
)

// keyspaces is the list of the keyspaces of a database. All share one write-ahead log, one
// sequence of numbers, one MANIFEST, one scheduler and one cache.
type keyspaces struct {
	mu sync.Mutex // held while one is created or dropped; outermost

	listMu sync.Mutex // held while list is replaced, and with it dropped and unread change; a leaf
	// list is in the order of their IDs, the default one first. A dropped one stays while a
	// snapshot or an iterator may read it.
	list    atomic.Pointer[[]*Keyspace]
	unread  atomic.Int32 // how many dropped ones a snapshot may still read
	several atomic.Bool  // a batch may name other keyspaces than the default one
}

// Keyspace is the record of a keyspace of an open database. It is safe for concurrent use.
//
// A drop has three steps. tree.Sequences.Refuse: writes are refused, and reads but those of earlier
// snapshots. work.Scheduler.DropKeyspace: the edit of the MANIFEST, after which no job of the
// keyspace begins. dropped: no commit has the keyspace in its group, so that its tree goes as soon
// as no snapshot reads it.
type Keyspace struct {
	Tree *tree.Tree
	work work.Keyspace // Tree, and the work on it
	db   *DB

	dropped atomic.Bool
	sealing atomic.Bool       // see RangeDeleted
	ttl     atomic.Uint64     // see SetTTL
	named   *mergeop.Operator // for Open, as a caller named it last; under keyspaces.mu
}

// all is the list.
func (s *keyspaces) all() []*Keyspace {
	if list := s.list.Load(); list != nil {
		return *list
	}
	return nil
}

// live is the list without the dropped ones.
func (s *keyspaces) live() []*Keyspace {
	return slices.DeleteFunc(slices.Clone(s.all()), func(k *Keyspace) bool {
		return k.dropped.Load()
	})
}

// find returns the keyspace of an ID, or nil.
func (s *keyspaces) find(id base.KeyspaceID) *Keyspace {
	list := s.all()
	if id == base.DefaultKeyspace && len(list) > 0 {
		return list[0]
	}
	i, found := slices.BinarySearchFunc(list, id, func(k *Keyspace, id base.KeyspaceID) int {
		return cmp.Compare(k.ID(), id)
	})
	if !found || list[i].dropped.Load() {
		return nil
	}
	return list[i]
}

// named returns the keyspace of a name, or nil.
func (s *keyspaces) named(name string) *Keyspace {
	for _, k := range s.all() {
		if k.Tree.Name() == name && !k.dropped.Load() {
			return k
		}
	}
	return nil
}

// add puts keyspaces on the list. It is called while no commit is under way.
func (db *DB) add(added ...*Keyspace) {
	s := &db.spaces
	s.listMu.Lock()
	list := slices.Concat(s.all(), added)
	slices.SortFunc(list, func(a, b *Keyspace) int { return cmp.Compare(a.ID(), b.ID()) })
	s.list.Store(&list)
	s.listMu.Unlock()
	for _, k := range added {
		if k.ID() != base.DefaultKeyspace {
			s.several.Store(true)
		}
		db.jobs.Add(&k.work)
	}
}

// close closes the trees of all keyspaces. It is called after the last commit.
func (s *keyspaces) close() {
	for _, k := range s.all() {
		k.Tree.Close()
	}
	s.unread.Store(0)
}

// closeUnread drops the trees of dropped keyspaces that no open snapshot may read, and
// takes them off the list once they have no iterator either.
func (s *keyspaces) closeUnread(seqs *tree.Sequences) { s.unlist(s.dropUnread(seqs)) }

// dropUnread is the first step of closeUnread. It returns the keyspaces whose trees are dropped.
func (s *keyspaces) dropUnread(seqs *tree.Sequences) (over []*Keyspace) {
	for _, k := range s.all() {
		if k.dropped.Load() && !seqs.MayRead(k.Tree) {
			k.Tree.Drop()
			over = append(over, k)
		}
	}
	return over
}

// unlist is the second step. Keyspaces that are not over count as unread, also where the last
// snapshot has been closed since the first step: its Close comes here, too, and drops their trees.
func (s *keyspaces) unlist(over []*Keyspace) {
	s.listMu.Lock()
	defer s.listMu.Unlock()
	unread := int32(0)
	list := slices.DeleteFunc(slices.Clone(s.all()), func(k *Keyspace) bool {
		gone := slices.Contains(over, k)
		if k.dropped.Load() && !gone {
			unread++
		}
		return gone && k.Tree.Unused()
	})
	s.list.Store(&list)
	s.unread.Store(unread)
}

// newKeyspace makes a keyspace, whose tree does nothing before its Start.
func (db *DB) newKeyspace(m manifest.Keyspace) *Keyspace {
	k := &Keyspace{db: db}
	k.Tree = db.newTree(k, m)
	k.work.Tree = k.Tree
	if m.Comparer.Serial() {
		db.serial.Store(true)
	}
	return k
}

// wakeFeeds makes the feeds look again that wait for a commit, a sync or a catch-up.
func (db *DB) wakeFeeds() {
	if db.feeds.Waiting() {
		db.feeds.Wake()
	}
}

// committed is called after a commit by the goroutine of each of its writers, which leads no more.
// It wakes feeds, goes in place of a scout that is late, and orders what was written, where that is
// the writers' work. The writes are done: the next call tells of a comparer that panics.
func (db *DB) committed(mode write.Mode) {
	db.wakeFeeds()
	if late := db.late.Load(); late != nil && mode&write.NoStall == 0 {
		late.ScoutNow()
	}
	if !db.serial.Load() {
		return
	}
	for _, k := range db.spaces.all() {
		var p *base.Panic
		if !k.Tree.Comparer().Serial() {
			continue
		}
		if err := k.Tree.Order(); errors.As(err, &p) {
			_ = db.health.Fail(err)
		}
	}
}

// maxKeyspaceName is the length in bytes of the longest name of a keyspace.
const maxKeyspaceName = 255

func checkKeyspaceName(name string) error {
	switch {
	case name == "":
		return base.Invalidf("a keyspace needs a name")
	case len(name) > maxKeyspaceName:
		return base.Invalidf("the name of a keyspace has %d bytes, at most %d are allowed",
			len(name), maxKeyspaceName)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return base.Invalidf("the name of a keyspace, %q, is no UTF-8 or has a control character",
			name)
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
// base.ErrNoKeyspace. op, unless nil, becomes its merge operator.
func (ks Keyspaces) Open(name string, c *base.Comparer, op *mergeop.Operator,
	create bool) (k *Keyspace, err error) {
	db := ks.db
	defer db.health.CatchPanic(&err)
	if err := base.NotWithin(); err != nil {
		return nil, err
	}
	if op != nil {
		if !db.Native() {
			return nil, base.NeedsNative("a merge operator")
		}
		if err := op.Usable(); err != nil {
			return nil, err
		}
	}
	if err := checkKeyspaceName(name); err != nil {
		return nil, err
	}
	if db.health.Closing.Load() {
		return nil, base.ErrDatabaseClosed
	}
	db.shared.Seqs.WaitFresh()
	db.spaces.mu.Lock()
	defer db.spaces.mu.Unlock()
	k = db.spaces.named(name)
	switch {
	case k == nil:
		return db.createKeyspaceLocked(name, c, op, create)
	case k.Tree.Refused():
		return nil, dropFailed(name)
	case c != nil && c.Name != k.Tree.Comparer().Name:
		return nil, fmt.Errorf("%w: keyspace %.200q has %.200q, asked for is %.200q",
			base.ErrComparerMismatch, name, k.Tree.Comparer().Name, c.Name)
	case op != nil:
		if err := k.setMergeLocked(op); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// createKeyspaceLocked creates a keyspace. One edit has its merge operator, too: a follower that
// knows the keyspace knows what its operands mean.
//
// REQUIRES: db.spaces.mu held.
func (db *DB) createKeyspaceLocked(name string, c *base.Comparer, op *mergeop.Operator,
	create bool) (*Keyspace, error) {
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
		return nil, base.Invalidf("comparer %.200q of keyspace %q is none that Open was given",
			c.Name, name)
	}
	merge := ""
	if op != nil {
		merge = op.Name
	}
	id, version, err := db.jobs.CreateKeyspace(name, c, merge)
	if err != nil {
		return nil, err
	}
	k := db.newKeyspace(manifest.Keyspace{ID: id, Name: name, Comparer: c})
	if op != nil {
		k.Tree.SetMerge(op, nil)
	}
	err = db.pipeline.Exclusive(func() error {
		if db.home.Tree.Closed() {
			version.Unref()
			return base.ErrDatabaseClosed
		}
		k.Tree.Start(db.wal.Num(), nil, version)
		db.add(k)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return k, nil
}

// Drop drops a keyspace. If it fails, it is unknown whether the keyspace still
// exists on disk, and nothing but another Drop is allowed. gone is its number, 0 if nothing was
// done.
func (ks Keyspaces) Drop(name string) (gone base.KeyspaceID, err error) {
	db := ks.db
	defer db.health.CatchPanic(&err)
	if err := base.NotWithin(); err != nil {
		return 0, err
	}
	db.spaces.mu.Lock()
	defer db.spaces.mu.Unlock()
	if err := db.health.Writable(); err != nil {
		return 0, err
	}
	if name == base.DefaultKeyspaceName {
		return 0, base.Invalidf("the default keyspace cannot be dropped")
	}
	k := db.spaces.named(name)
	if k == nil {
		return 0, fmt.Errorf("%w: %q", base.ErrNoKeyspace, name)
	}
	// Writes that passed checkKeyspaces before count as written before the drop.
	db.shared.Seqs.Refuse(k.Tree)
	gone = k.ID()
	if err := db.jobs.DropKeyspace(&k.work); err != nil {
		return gone, err
	}
	if err := db.detach(k); err != nil {
		return gone, err
	}
	return gone, db.jobs.ReleaseLogs()
}

// detach makes a keyspace that the MANIFEST does not have any more dropped.
//
// REQUIRES: db.spaces.mu held.
func (db *DB) detach(k *Keyspace) error {
	err := db.pipeline.Exclusive(func() error {
		db.spaces.listMu.Lock()
		defer db.spaces.listMu.Unlock()
		db.spaces.unread.Add(1)
		k.dropped.Store(true)
		return nil
	})
	db.spaces.closeUnread(db.shared.Seqs)
	return err
}

// All lists the keyspaces, the default one first, the others in the order in which they were
// created. It calls then with them while none is created, is dropped or gets another merge
// operator.
func (ks Keyspaces) All(then func(all []*Keyspace)) (all []*Keyspace, err error) {
	db := ks.db
	db.shared.Seqs.WaitFresh()
	if db.follower == nil {
		return db.allKeyspaces(then)
	}
	db.follower.Still(func() { all, err = db.allKeyspaces(then) })
	return all, err
}

// Keep runs f while no other goroutine creates, drops or looks up a keyspace by its name, and no
// checkpoint takes its state.
func (ks Keyspaces) Keep(f func() error) error {
	ks.db.spaces.mu.Lock()
	defer ks.db.spaces.mu.Unlock()
	return f()
}

// Names lists all keyspaces, the default one first. A follower's MANIFEST may have keyspaces of a
// later state than the visible one.
func (ks Keyspaces) Names() (names []string) {
	db := ks.db
	db.shared.Seqs.WaitFresh()
	if db.follower == nil {
		for _, k := range db.manifest.Keyspaces() {
			names = append(names, k.Name)
		}
		return names
	}
	db.spaces.mu.Lock()
	defer db.spaces.mu.Unlock()
	for _, k := range db.spaces.live() {
		names = append(names, k.Tree.Name())
	}
	return names
}

func (db *DB) allKeyspaces(then func(all []*Keyspace)) (all []*Keyspace, err error) {
	db.spaces.mu.Lock()
	defer db.spaces.mu.Unlock()
	if db.health.Closing.Load() {
		return nil, base.ErrDatabaseClosed
	}
	// Not those of the MANIFEST: one may be in it whose creation failed afterwards.
	all = db.spaces.live()
	for _, k := range all {
		if k.Tree.Refused() {
			return nil, dropFailed(k.Tree.Name())
		}
	}
	then(all)
	return all, nil
}

func dropFailed(name string) error {
	return fmt.Errorf("%w: dropping %q failed; drop it again first", base.ErrNoKeyspace, name)
}

// ByID is the keyspace of an ID that takes writes, or nil.
func (ks Keyspaces) ByID(id base.KeyspaceID) *Keyspace { return ks.db.keyspaceByID(id) }

func (db *DB) keyspaceByID(id base.KeyspaceID) *Keyspace {
	if k := db.spaces.find(id); k != nil && !k.Tree.Refused() {
		return k
	}
	return nil
}

// checkKeyspaces refuses a batch for keyspaces that were dropped, or are another
// database's.
func (db *DB) checkKeyspaces(named []*Keyspace) error {
	for _, k := range named {
		if k.db != db {
			return base.Invalidf("the batch names a keyspace of another database")
		}
		if err := k.Gone(); err != nil {
			return err
		}
	}
	return nil
}

// Gone returns base.ErrNoKeyspace if the keyspace was dropped.
func (k *Keyspace) Gone() error {
	if k.Tree.Refused() {
		return k.Tree.Gone()
	}
	return nil
}

// Writable returns why the keyspace takes no writes, or nil.
func (k *Keyspace) Writable() error {
	if k.Tree.Refused() && !k.db.health.Closing.Load() {
		return k.Tree.Gone()
	}
	return k.db.health.Writable()
}

// Present is the state to read at present, with a reference.
func (k *Keyspace) Present() (*tree.ReadState, error) {
	if state := k.Tree.Acquire(); state != nil && !k.Tree.Refused() {
		return state, nil
	} else if state != nil {
		state.Unref()
	}
	return nil, k.Tree.Gone()
}

// Debt is how many bytes compactions still have to move in a state.
func (k *Keyspace) Debt(state *tree.ReadState) uint64 { return k.db.jobs.Debt(&k.work, state) }

// Reads is the tree to read. If the keyspace was dropped, it says so.
func (k *Keyspace) Reads() *tree.Tree { return k.Tree }

// ID is the number of the keyspace.
func (k *Keyspace) ID() base.KeyspaceID { return k.Tree.ID() }

// Version is the tables of the keyspace, with a reference.
func (k *Keyspace) Version() *manifest.Version { return k.db.manifest.Current(k.ID()) }

// Comparer orders the keys.
func (k *Keyspace) Comparer() *base.Comparer { return k.Tree.Comparer() }

// CloseSnapshot closes a snapshot of the database. Further calls do nothing.
func (db *DB) CloseSnapshot(s *tree.Snapshot) {
	s.Close()
	if db.spaces.unread.Load() > 0 {
		db.spaces.closeUnread(db.shared.Seqs)
	}
}
