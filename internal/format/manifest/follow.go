package manifest

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/loamdb/loam/internal/base"
)

// Change leads a Set that follows another process's MANIFEST to a newer State. It is made by Diff
// and carried out by Follow; nothing else changes the Set.
type Change struct {
	State *State
	// Added are the tables that the Set does not have.
	Added []*FileMeta
	// Created lists new keyspaces, Dropped those that are no more.
	Created []Keyspace
	Dropped []base.KeyspaceID

	edits []followed
}

// followed is what becomes of one keyspace.
type followed struct {
	k     *keyspace
	edit  *Edit    // nil: the keyspace is new
	next  *Version // nil: the tables are the same
	state *KeyspaceState
}

// Diff returns the changes that bring the Set to st. It fails with base.ErrComparerMismatch for a
// keyspace whose comparer is not known, with base.ErrDirectoryChanged where st cannot come after
// the Set's state, and for tables that overlap with a *base.Corruption.
func (s *Set) Diff(st *State) (*Change, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := st.checkComparer(s.opts.Comparer); err != nil {
		return nil, err
	}
	if st.LogNum < s.logNum.Load() || st.MaxKeyspace < s.maxID {
		return nil, fmt.Errorf("%w: the MANIFEST goes back to log %06d from %06d",
			base.ErrDirectoryChanged, st.LogNum, s.logNum.Load())
	}
	c := &Change{State: st}
	for _, k := range s.sorted() {
		if k.id != base.DefaultKeyspace && st.Others[k.id] == nil {
			c.Dropped = append(c.Dropped, k.id)
		}
	}
	for _, state := range st.Keyspaces() {
		var err error
		if k := s.find(state.ID); k != nil {
			err = s.diff(c, k, state)
		} else {
			err = s.diffCreated(c, state)
		}
		if err != nil {
			return nil, err
		}
	}
	return c, nil
}

// diff adds to c what changes in keyspace k. s.mu is held.
func (s *Set) diff(c *Change, k *keyspace, state *KeyspaceState) error {
	e := &Edit{Keyspace: k.id}
	for _, num := range slices.Sorted(maps.Keys(k.placed)) {
		have := k.placed[num]
		now, ok := state.Files[num]
		if ok && (now.Meta.Size != have.Meta.Size ||
			!bytes.Equal(now.Meta.Smallest.User, have.Meta.Smallest.User)) {
			return fmt.Errorf("%w: table %06d is another one", base.ErrDirectoryChanged, num)
		}
		if !ok || now.Level != have.Level {
			e.Deleted = append(e.Deleted, DeletedFile{have.Level, num})
		}
		if ok && now.Level != have.Level {
			e.Add(now.Level, have.Meta)
		}
	}
	for _, num := range slices.Sorted(maps.Keys(state.Files)) {
		if _, ok := k.placed[num]; !ok {
			a := state.Files[num]
			k.adopt(a)
			e.Add(a.Level, a.Meta)
			c.Added = append(c.Added, a.Meta)
		}
	}
	e.SetFirstLog(state.FirstLog)
	f := followed{k: k, edit: e, state: state}
	if len(e.Added) > 0 || len(e.Deleted) > 0 {
		var err error
		if f.next, err = s.derive(k, e); err != nil {
			return err
		}
	}
	c.edits = append(c.edits, f)
	return nil
}

// diffCreated adds to c a keyspace that the Set does not have.
func (s *Set) diffCreated(c *Change, state *KeyspaceState) error {
	k := &keyspace{id: state.ID, name: state.Name, cmp: s.comparer(state.Comparer),
		placed: maps.Clone(state.Files), firstLog: state.FirstLog, merge: state.MergeOperator}
	if k.cmp == nil {
		return UnknownComparer(state.Name, state.Comparer)
	}
	v, err := NewVersion(k.cmp, state.Levels())
	if err != nil {
		return err
	}
	for _, a := range state.Files {
		k.adopt(a)
		c.Added = append(c.Added, a.Meta)
	}
	c.Created = append(c.Created, Keyspace{ID: k.id, Name: k.name, Comparer: k.cmp,
		FirstLog: k.firstLog, MergeOperator: k.merge})
	c.edits = append(c.edits, followed{k: k, next: v, state: state})
	return nil
}

// Follow carries out a Change that Diff has made, nothing having changed since. It returns the
// versions of the changed keyspaces, each with a reference for the caller, which calls release when
// they are current.
func (s *Set) Follow(c *Change) (versions map[base.KeyspaceID]*Version, release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	versions = make(map[base.KeyspaceID]*Version)
	var old []*Version
	for _, f := range c.edits {
		switch {
		case f.edit == nil:
			f.next.refs.Store(2)
			s.versions.Lock()
			for num, a := range f.k.placed {
				s.versions.live[num] = a.Meta
				s.versions.values.add(a.Meta, true)
			}
			f.k.start(s, f.next)
			s.versions.Unlock()
		case f.next != nil:
			f.edit.SetLogNum(c.State.LogNum)
			f.edit.SetPrevLogNum(c.State.PrevLogNum)
			old = append(old, s.install(f.k, f.edit, f.next))
		default:
			f.k.firstLog = f.state.FirstLog
		}
		f.k.merge = f.state.MergeOperator
		if f.next != nil {
			versions[f.k.id] = f.next
		}
	}
	for _, id := range c.Dropped {
		old = append(old, s.forget(s.find(id)))
	}
	s.logNum.Store(c.State.LogNum)
	s.prevLogNum.Store(c.State.PrevLogNum)
	s.maxID, s.clock = c.State.MaxKeyspace, max(s.clock, c.State.Clock)
	s.MarkFileNumUsed(c.State.NextFile)
	s.SetLastSeq(c.State.LastSeq)
	return versions, func() {
		for _, v := range old {
			v.Unref()
		}
	}
}

// forget takes a keyspace out of the Set. The caller gets the Set's reference on its version.
func (s *Set) forget(k *keyspace) *Version {
	s.versions.Lock()
	defer s.versions.Unlock()
	delete(s.versions.keyspaces, k.id)
	old := k.current
	k.current = nil
	for i := range old.Levels {
		old.dropped = append(old.dropped, old.Levels[i].Files...)
	}
	return old
}

// LoadFollowed makes the Set of a State in a directory of a format that another process writes. The
// Set changes by Follow only.
func LoadFollowed(o Options, st *State, format base.Format) (*Set, error) {
	if err := o.ensureDefaults(); err != nil {
		return nil, err
	}
	if err := st.checkComparer(o.Comparer); err != nil {
		return nil, err
	}
	o.Format = format
	s, err := FromState(o, st, nil)
	if err == nil {
		s.readOnly = true
		for _, l := range s.versions.values {
			l.released = true
		}
	}
	return s, err
}

// Namings are the names that a table may have in a directory with this State.
func (s *State) Namings(f base.Format, num uint64) []base.TableNaming {
	if f == base.Native && num < s.LevelDBBelow {
		return []base.TableNaming{base.NamedLoam, base.NamedLDB, base.NamedSST}
	}
	return f.TableNamings()
}

// Clone copies a State; the tables are shared.
func (s *State) Clone() *State {
	c := *s
	c.KeyspaceState = s.KeyspaceState.clone()
	c.byName, c.Others = maps.Clone(s.byName), make(map[base.KeyspaceID]*KeyspaceState,
		len(s.Others))
	for id, k := range s.Others {
		other := k.clone()
		c.Others[id] = &other
	}
	return &c
}

func (k *KeyspaceState) clone() KeyspaceState {
	c := *k
	c.Files, c.added = maps.Clone(k.Files), slices.Clip(k.added)
	return c
}
