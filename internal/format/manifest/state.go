package manifest

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/record"
)

// KeyspaceState is what the edits of a MANIFEST say of one keyspace.
type KeyspaceState struct {
	ID            base.KeyspaceID
	Name          string
	Comparer      string
	HasComparer   bool
	FirstLog      uint64
	MergeOperator string // its name; "": none was ever named
	Pointers      [NumLevels]base.InternalKey
	// Files holds the live tables by number.
	Files map[uint64]AddedFile
	added []AddedFile // in the order of the edits, removed ones too
}

// State is what the edits of a MANIFEST add up to.
type State struct {
	KeyspaceState // the default one
	// Others holds the other keyspaces.
	Others        map[base.KeyspaceID]*KeyspaceState
	byName        map[string]base.KeyspaceID // of Others
	MaxKeyspace   base.KeyspaceID            // the largest ID that was ever given out
	LevelDBBelow  uint64                     // see Edit
	Durable       record.LogEnd              // see Edit
	Clock         uint64                     // the newest of the edits
	FormatVersion uint32                     // of the native format; 0: LevelDB's

	LogNum      uint64
	HasLogNum   bool
	PrevLogNum  uint64
	NextFile    uint64
	HasNextFile bool
	LastSeq     base.SeqNum
	HasLastSeq  bool
	Edits       int // how many were applied
}

// Apply adds an edit. On an error, which is a *base.Corruption, the state is
// as it was.
func (s *State) Apply(e *Edit) error {
	if s.Edits == 0 {
		e = e.snapshot()
	}
	k, err := s.keyspaceOf(e)
	if err != nil {
		return err
	}
	if err := checkEdit(e, func(num uint64) (int, bool) {
		f, ok := k.Files[num]
		return f.Level, ok
	}); err != nil {
		return err
	}
	if e.HasComparer && s.HasComparer && e.Comparer != s.Comparer {
		return base.Corruptf(kindManifest, "comparer changes from %.200q to %.200q", s.Comparer,
			e.Comparer)
	}
	k.apply(e)
	if e.LevelDBBelow != 0 {
		s.LevelDBBelow = e.LevelDBBelow
	}
	if e.Durable.Num != 0 {
		s.Durable = e.Durable
	}
	s.Clock = max(s.Clock, e.Clock)
	if e.FormatVersion != 0 {
		s.FormatVersion = e.FormatVersion
	}
	if e.HasMaxKeyspace {
		s.MaxKeyspace = max(s.MaxKeyspace, e.MaxKeyspace)
	}
	s.MaxKeyspace = max(s.MaxKeyspace, e.Keyspace)
	switch {
	case e.NewKeyspace != nil:
		if s.Others == nil {
			s.Others, s.byName = make(map[base.KeyspaceID]*KeyspaceState), make(
				map[string]base.KeyspaceID)
		}
		s.Others[k.ID], s.byName[k.Name] = k, k.ID
	case e.DropKeyspace:
		delete(s.Others, k.ID)
		delete(s.byName, k.Name)
	}
	if e.HasComparer {
		s.Comparer, s.HasComparer = e.Comparer, true
	}
	if e.HasLogNum {
		s.LogNum, s.HasLogNum = e.LogNum, true
	}
	if e.HasPrevLogNum {
		s.PrevLogNum = e.PrevLogNum
	}
	if e.HasNextFile {
		s.NextFile, s.HasNextFile = e.NextFile, true
	}
	if e.HasLastSeq {
		s.LastSeq, s.HasLastSeq = e.LastSeq, true
	}
	s.Edits++
	return nil
}

// keyspaceOf finds, or makes, the keyspace that an edit is about.
func (s *State) keyspaceOf(e *Edit) (*KeyspaceState, error) {
	switch {
	case (e.FormatVersion != 0 || e.LevelDBBelow != 0) && s.Edits > 0:
		return nil, base.Corruptf(kindManifest, "says the version of its format, or what an "+
			"upgrade left, on the way")
	case e.Keyspace == base.DefaultKeyspace:
		return &s.KeyspaceState, nil
	}
	k := s.Others[e.Keyspace]
	if e.NewKeyspace == nil {
		if k == nil {
			return nil, base.Corruptf(kindManifest, "changes keyspace %d, which does not exist",
				e.Keyspace)
		}
		return k, nil
	}
	if _, taken := s.byName[e.NewKeyspace.Name]; k != nil || taken ||
		e.NewKeyspace.Name == base.DefaultKeyspaceName {
		return nil, base.Corruptf(kindManifest, "creates keyspace %d, %q, and there is one with "+
			"that ID or name", e.Keyspace, e.NewKeyspace.Name)
	}
	return &KeyspaceState{ID: e.Keyspace, Name: e.NewKeyspace.Name,
		Comparer: e.NewKeyspace.Comparer, HasComparer: true}, nil
}

// apply adds an edit that was checked.
func (k *KeyspaceState) apply(e *Edit) {
	for _, d := range e.Deleted {
		delete(k.Files, d.Num)
	}
	if k.Files == nil && len(e.Added) > 0 {
		k.Files = make(map[uint64]AddedFile, len(e.Added))
	}
	for _, a := range e.Added {
		k.Files[a.Meta.Num] = a
	}
	k.added = append(k.added, e.Added...)
	for _, c := range e.CompactPointers {
		k.Pointers[c.Level] = c.Key
	}
	if e.HasFirstLog {
		k.FirstLog = e.FirstLog
	}
	if e.MergeOperator != "" {
		k.MergeOperator = e.MergeOperator
	}
}

// Keyspaces returns all keyspaces, in the order of their IDs.
func (s *State) Keyspaces() []*KeyspaceState {
	return append([]*KeyspaceState{&s.KeyspaceState}, base.InOrder(s.Others)...)
}

// snapshot returns e as the first edit of a MANIFEST, which stands for a whole
// version. goleveldb writes it together with the change that led to the new
// MANIFEST: the tables added then are named twice, and those deleted are not
// there any more.
func (e *Edit) snapshot() *Edit {
	first := *e
	first.Deleted = nil
	first.Added = nil
	seen := make(map[uint64]AddedFile, len(e.Added))
	for _, a := range e.Added {
		if before, ok := seen[a.Meta.Num]; ok && before.Level == a.Level &&
			before.Meta.String() == a.Meta.String() {
			continue
		}
		seen[a.Meta.Num] = a
		first.Added = append(first.Added, a)
	}
	return &first
}

// checkEdit reports tables that an edit deletes but are not there, and tables
// that it adds but are there already, given where a table stands before it.
func checkEdit(e *Edit, level func(num uint64) (int, bool)) error {
	deleted := make(map[uint64]bool, len(e.Deleted))
	for _, d := range e.Deleted {
		if l, ok := level(d.Num); !ok || l != d.Level || deleted[d.Num] {
			return base.Corruptf(kindManifest, "table %06d is deleted from level %d, where "+
				"it is not", d.Num, d.Level)
		}
		deleted[d.Num] = true
	}
	added := make(map[uint64]bool, len(e.Added))
	for _, a := range e.Added {
		if _, ok := level(a.Meta.Num); ok && !deleted[a.Meta.Num] || added[a.Meta.Num] {
			return base.Corruptf(kindManifest,
				"table %06d is added to level %d, but is there already", a.Meta.Num, a.Level)
		}
		added[a.Meta.Num] = true
	}
	return nil
}

// Complete reports what a MANIFEST of a format must say and this one does not.
func (s *State) Complete(f base.Format) error {
	missing := ""
	switch {
	case s.Edits == 0:
		return base.Corruptf(kindManifest, "holds no edit")
	case f == base.Native && s.FormatVersion == 0:
		missing = "version of its format"
	case !s.HasComparer:
		missing = "comparator"
	case !s.HasLogNum:
		missing = "log number"
	case !s.HasNextFile:
		missing = "next file number"
	case !s.HasLastSeq:
		missing = "last sequence"
	default:
		return s.checkReferences()
	}
	return base.Corruptf(kindManifest, "does not say the %s", missing)
}

// checkReferences refuses a table with references of which no log is recorded. A repair by a
// version before 0.3 makes one, and moves the logs to the folder lost: back in the directory, they
// would be obsolete.
func (s *State) checkReferences() error {
	for _, f := range s.tables() {
		if f.Meta.Kinds&base.ReferringKinds != 0 && len(f.Meta.ValueLogs) == 0 {
			return base.Corruptf(kindManifest, "table %d refers to values in logs and names none, "+
				"after a repair by Loam before 0.3: move the logs back from the folder lost, "+
				"and repair the database", f.Meta.Num)
		}
	}
	return nil
}

// numReach bounds how far the numbers of files that were made after the last edit can be
// above those that the MANIFEST knows. A database that makes ten files a second and
// never writes an edit takes 19 days for as many.
const numReach = 1 << 24

// Reach bounds the numbers of files that can be the database's: those that are
// known, and so many more that were handed out since.
func (s *State) Reach() uint64 {
	next := max(s.NextFile, s.LogNum+1, s.PrevLogNum+1)
	for num := range s.tables() {
		next = max(next, num+1)
	}
	return next + numReach
}

// Levels returns the live tables by level, in no order that can be relied on. That of the
// edits is usually the level's, which spares much sorting.
func (k *KeyspaceState) Levels() (levels [NumLevels][]*FileMeta) {
	files := slices.DeleteFunc(slices.Clone(k.added), func(a AddedFile) bool {
		return k.Files[a.Meta.Num] != a
	})
	if len(files) != len(k.Files) { // k was not made of edits
		files = slices.Collect(maps.Values(k.Files))
	}
	for _, f := range files {
		levels[f.Level] = append(levels[f.Level], f.Meta)
	}
	return levels
}

// tables goes over the live tables of all keyspaces.
func (s *State) tables() iter.Seq2[uint64, AddedFile] {
	return func(yield func(uint64, AddedFile) bool) {
		for _, k := range s.Keyspaces() {
			for num, f := range k.Files {
				if !yield(num, f) {
					return
				}
			}
		}
	}
}

// checkComparer fails with base.ErrComparerMismatch when the names differ.
func (s *State) checkComparer(c *base.Comparer) error {
	if s.HasComparer && s.Comparer != c.Name {
		return fmt.Errorf("%w: the database has %.200q, the options say %.200q",
			base.ErrComparerMismatch, s.Comparer, c.Name)
	}
	return nil
}
