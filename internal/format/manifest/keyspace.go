package manifest

import (
	"fmt"
	"maps"
	"slices"

	"github.com/loamdb/loam/internal/base"
)

// Keyspace describes a keyspace of a Set.
type Keyspace struct {
	ID       base.KeyspaceID
	Name     string
	Comparer *base.Comparer
	// FirstLog is the first log with entries of the keyspace that are not in tables.
	FirstLog      uint64
	MergeOperator string // its name; "": none was ever named
}

// keyspace is the state of one keyspace. A database in LevelDB's format has the
// default one alone.
type keyspace struct {
	id   base.KeyspaceID
	name string
	cmp  *base.Comparer

	// Guarded by Set.mu.
	firstLog uint64
	merge    string               // name of the merge operator
	placed   map[uint64]AddedFile // tables of the current version by number
	pointers []CompactPointer     // at most one a level

	current *Version // guarded by Set.versions: newest of the list of versions with references
}

// begin adds a keyspace with the tables that a State has. The Set is not shared yet.
func (s *Set) begin(st *KeyspaceState) error {
	k := &keyspace{id: st.ID, name: st.Name, cmp: s.opts.Comparer, firstLog: st.FirstLog,
		merge: st.MergeOperator, placed: st.Files}
	if k.id == base.DefaultKeyspace {
		k.name = base.DefaultKeyspaceName
	} else if k.cmp = s.comparer(st.Comparer); k.cmp == nil {
		return UnknownComparer(st.Name, st.Comparer)
	}
	for level, key := range st.Pointers {
		if len(key.User) > 0 || key.Trailer != 0 {
			k.pointers = append(k.pointers, CompactPointer{level, key})
		}
	}
	v, err := NewVersion(k.cmp, st.Levels())
	if err != nil {
		return err
	}
	for num, f := range st.Files {
		if other := s.versions.live[num]; other != nil {
			return base.Corruptf(kindManifest, "%v and %v are in two keyspaces", f.Meta, other)
		}
		s.versions.live[num] = f.Meta
		s.versions.values.add(f.Meta, false)
		k.adopt(f)
		s.MarkFileNumUsed(num)
		seq := f.Meta.Smallest.Trailer.Seq()
		if !f.Meta.OpenEnd() { // that is no entry's
			seq = max(seq, f.Meta.Largest.Trailer.Seq())
		}
		s.SetLastSeq(seq)
	}
	k.start(s, v)
	return nil
}

// adopt says of a table from a MANIFEST that it is one of k.
func (k *keyspace) adopt(f AddedFile) {
	m := f.Meta
	m.Comparer, m.Keyspace, m.Stored = k.cmp, k.id, true
	m.Unordered = f.Level == 0 && m.Format == base.LevelDB
}

// start makes v the first version of k and k part of s.
func (k *keyspace) start(s *Set, v *Version) {
	if k.placed == nil {
		k.placed = make(map[uint64]AddedFile)
	}
	v.set, k.current = s, v
	s.versions.keyspaces[k.id] = k
}

// place notes what an edit that was checked says of tables, pointers and logs, but
// for deletions.
func (k *keyspace) place(e *Edit) {
	for _, a := range e.Added {
		k.placed[a.Meta.Num] = a
	}
	for _, c := range e.CompactPointers {
		c.Key = c.Key.Clone()
		i := slices.IndexFunc(k.pointers, func(have CompactPointer) bool {
			return have.Level == c.Level
		})
		if i < 0 {
			k.pointers = append(k.pointers, c)
		} else {
			k.pointers[i] = c
		}
	}
	if e.HasFirstLog {
		k.firstLog = e.FirstLog
	}
}

// comparer finds a keyspace's comparer, or nil.
func (s *Set) comparer(name string) *base.Comparer {
	if s.opts.Comparers != nil {
		return s.opts.Comparers(name)
	}
	if name == s.opts.Comparer.Name {
		return s.opts.Comparer
	}
	return nil
}

// UnknownComparer is the error for a keyspace whose comparer is not known.
func UnknownComparer(keyspace, comparer string) error {
	return fmt.Errorf("%w: keyspace %.200q has %.200q, which the options do not name",
		base.ErrComparerMismatch, keyspace, comparer)
}

// find returns the keyspace id, or nil.
func (s *Set) find(id base.KeyspaceID) *keyspace {
	s.versions.Lock()
	defer s.versions.Unlock()
	return s.versions.keyspaces[id]
}

// checkKeyspace finds the keyspace of an edit. s.mu is held.
func (s *Set) checkKeyspace(e *Edit) (*keyspace, error) {
	if e.NewKeyspace != nil || e.DropKeyspace || e.HasMaxKeyspace || e.FormatVersion != 0 ||
		e.LevelDBBelow != 0 || e.MergeOperator != "" || e.HasFirstLog && s.format != base.Native ||
		e.HasComparer && e.Keyspace != base.DefaultKeyspace {
		return nil, base.Invalidf("an edit creates or drops a keyspace, or says what one cannot " +
			"say")
	}
	k := s.find(e.Keyspace)
	if k == nil {
		return nil, fmt.Errorf("%w: keyspace %d", base.ErrNoKeyspace, e.Keyspace)
	}
	if e.HasFirstLog && e.FirstLog < k.firstLog {
		return nil, base.Invalidf("first log of keyspace %d goes back from %d to %d", k.id,
			k.firstLog, e.FirstLog)
	}
	if e.HasFirstLog {
		s.MarkFileNumUsed(e.FirstLog)
	}
	return k, nil
}

// Current returns the newest version of a keyspace with a reference for the
// caller; nil if there is no such keyspace. The default one always is.
func (s *Set) Current(id base.KeyspaceID) *Version {
	s.versions.Lock()
	defer s.versions.Unlock()
	k := s.versions.keyspaces[id]
	if k == nil {
		return nil
	}
	k.current.Ref()
	return k.current
}

// Keyspaces lists the keyspaces in the order of their IDs.
func (s *Set) Keyspaces() []Keyspace {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.sorted()
	list := make([]Keyspace, len(all))
	for i, k := range all {
		list[i] = Keyspace{ID: k.id, Name: k.name, Comparer: k.cmp, FirstLog: k.firstLog,
			MergeOperator: k.merge}
	}
	return list
}

// IDs lists the keyspaces in no order.
func (s *Set) IDs() []base.KeyspaceID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.versions.keyspaces))
}

// FirstLog is the first log with entries of a keyspace that are not in tables; 0: not known.
func (s *Set) FirstLog(id base.KeyspaceID) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.find(id); k != nil {
		return max(k.firstLog, s.LogNum()) // an opening's edits have the second alone
	}
	return 0
}

// sorted lists the keyspaces in the order of their IDs. s.mu is held.
func (s *Set) sorted() []*keyspace {
	all := slices.Collect(maps.Values(s.versions.keyspaces))
	slices.SortFunc(all, func(a, b *keyspace) int { return int(int64(a.id) - int64(b.id)) })
	return all
}

// MaxKeyspace is the largest ID that was ever given out. Logs may name keyspaces
// that were dropped, but none with a larger ID.
func (s *Set) MaxKeyspace() base.KeyspaceID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.maxID
}

// CreateKeyspace makes an empty keyspace durable, with the name of its merge operator or "", and
// returns its ID, which no keyspace had before, and its first version with a reference for the
// caller. It fails with base.ErrExists if the name is taken, otherwise as Apply does.
func (s *Set) CreateKeyspace(name string, c *base.Comparer,
	merge string) (base.KeyspaceID, *Version, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.writable(); err != nil {
		return 0, nil, err
	}
	if s.format != base.Native || s.maxID == 1<<32-1 {
		return 0, nil, base.Invalidf("the database can have no more keyspaces")
	}
	for _, k := range s.versions.keyspaces {
		if k.name == name {
			return 0, nil, fmt.Errorf("%w: keyspace %q", base.ErrExists, name)
		}
	}
	s.maxID++ // used up, whatever comes
	e := &Edit{Keyspace: s.maxID, MergeOperator: merge,
		NewKeyspace: &KeyspaceNames{Name: name, Comparer: c.Name}}
	s.fill(e)
	if err := s.write(e); err != nil {
		return 0, nil, err
	}
	v := NoTables()
	v.Ref()
	s.versions.Lock()
	defer s.versions.Unlock()
	k := &keyspace{id: e.Keyspace, name: name, cmp: c, merge: merge}
	k.start(s, v)
	return k.id, v, nil
}

// SetMergeOperator names the merge operator of a keyspace of a native database. Before
// StartManifest the name becomes durable with that, later at once.
func (s *Set) SetMergeOperator(id base.KeyspaceID, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.writable(); err != nil {
		return err
	}
	k := s.find(id)
	if k == nil || s.format != base.Native {
		return fmt.Errorf("%w: keyspace %d", base.ErrNoKeyspace, id)
	}
	if s.log != nil {
		e := &Edit{Keyspace: id, MergeOperator: name}
		s.fill(e)
		if err := s.write(e); err != nil {
			return err
		}
	}
	k.merge = name
	return nil
}

// DropKeyspace makes durable that a keyspace is gone. Its tables become obsolete when the
// last reference on a Version of it is given back. It fails with base.ErrNoKeyspace,
// otherwise as Apply does: after a shortage the keyspace may be gone in what a crash
// leaves, so that it must not be written until DropKeyspace or Mend has succeeded.
func (s *Set) DropKeyspace(id base.KeyspaceID) error {
	var old *Version
	defer unref(&old)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.writable(); err != nil {
		return err
	}
	k := s.find(id)
	if k == nil || id == base.DefaultKeyspace {
		return fmt.Errorf("%w, or is the default one: keyspace %d", base.ErrNoKeyspace, id)
	}
	e := &Edit{Keyspace: id, DropKeyspace: true}
	s.fill(e)
	if err := s.write(e); err != nil {
		return err
	}
	old = s.forget(k)
	return nil
}

// snapshot is the edits that lead from nothing to the current state, the default
// keyspace first. The last one says what State.Complete demands: without it, the state is
// incomplete, not one whose later edit is torn. s.mu is held.
func (s *Set) snapshot() []*Edit {
	all := s.sorted()
	edits := make([]*Edit, len(all))
	for i, k := range all {
		e := &Edit{Keyspace: k.id, CompactPointers: k.pointers, MergeOperator: k.merge}
		if k.id == base.DefaultKeyspace {
			e.SetComparer(k.cmp.Name)
			if s.format == base.Native {
				e.FormatVersion, e.LevelDBBelow, e.MaxKeyspace, e.HasMaxKeyspace =
					formatVersion, s.levelDBBelow, s.maxID, true
			}
		} else {
			e.NewKeyspace = &KeyspaceNames{Name: k.name, Comparer: k.cmp.Name}
		}
		if k.firstLog != 0 {
			e.SetFirstLog(k.firstLog)
		}
		if i == len(all)-1 {
			s.fill(e)
		}
		for level, f := range k.current.Tables() {
			e.Add(level, f)
		}
		edits[i] = e
	}
	return edits
}
