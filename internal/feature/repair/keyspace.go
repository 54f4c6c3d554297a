package repair

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/store/files"
)

// keyspace is one keyspace of the database. Each has its own levels, which are rebuilt
// apart from the others.
type keyspace struct {
	id       base.KeyspaceID
	names    manifest.KeyspaceNames
	cmp      *base.Comparer
	merge    string // the name of its merge operator, "" if unknown
	firstLog uint64 // its entries of older logs are in tables
	pointers [manifest.NumLevels]base.InternalKey
}

// liveTable is a table of the MANIFEST.
type liveTable struct {
	manifest.AddedFile
	space *keyspace
}

// adoptKeyspaces takes over the keyspaces of the MANIFEST with their tables.
func (r *repair) adoptKeyspaces() error {
	r.spaces = make(map[base.KeyspaceID]*keyspace)
	r.live = make(map[uint64]liveTable)
	for _, st := range r.known.st.Keyspaces() {
		s := &keyspace{id: st.ID, names: manifest.KeyspaceNames{Name: st.Name,
			Comparer: st.Comparer}, cmp: r.o.Comparer,
			merge: st.MergeOperator, firstLog: st.FirstLog, pointers: st.Pointers}
		if s.id == base.DefaultKeyspace {
			s.names.Name = base.DefaultKeyspaceName
		} else if s.cmp = r.comparer(st.Comparer); s.cmp == nil {
			return manifest.UnknownComparer(st.Name, st.Comparer)
		}
		r.spaces[s.id] = s
		for num, f := range st.Files {
			if _, twice := r.live[num]; twice {
				r.report.drop(r.known.from, 0, 0, fmt.Sprintf("table %d is in two keyspaces", num))
				r.known.editsMissing, r.known.gaps = true, true
			}
			r.live[num] = liveTable{f, s}
		}
	}
	return nil
}

// dropped reports whether the keyspace of a number that st lacks was dropped.
func (k *salvagedManifest) dropped(id base.KeyspaceID) bool {
	return k.from != "" && !k.gaps && id <= k.st.MaxKeyspace
}

// comparer finds a comparer by name, nil for an unknown one.
func (r *repair) comparer(name string) *base.Comparer {
	if name == r.o.Comparer.Name {
		return r.o.Comparer
	}
	if r.o.Comparers == nil {
		return nil
	}
	return r.o.Comparers(name)
}

// spaceOfTable sets the keyspace of a table that no MANIFEST lists, as far as the table records it.
// known is false when the keyspace was dropped.
func (r *repair) spaceOfTable(t *table) (known bool, err error) {
	t.space = r.spaces[base.DefaultKeyspace]
	props, err := r.props(t, t.meta.Num)
	switch {
	case errors.Is(err, base.ErrCorruption):
		t.orphan = true
		return true, nil
	case err != nil:
		return false, err
	case props.Comparer == "": // LevelDB's format has one keyspace; checkTable reports a link
		return true, nil
	}
	if in, ok := r.ingested[t.meta.Num]; ok && props.Outside && props.KeyspaceName == "" {
		if s := r.told[in.Keyspace]; s.Comparer == props.Comparer {
			props.Keyspace, props.KeyspaceName = in.Keyspace, s.Name
		}
	}
	k := &r.known
	s := r.spaces[props.Keyspace]
	switch {
	case props.Outside && props.KeyspaceName == "" && (props.Comparer != r.o.Comparer.Name ||
		r.several):
		return true, r.spaceOfIngested(t, props.Comparer)
	case props.Keyspace == base.DefaultKeyspace && props.Comparer != r.o.Comparer.Name:
		return false, fmt.Errorf("%w: the database has %.200q, the options say %.200q",
			base.ErrComparerMismatch, props.Comparer, r.o.Comparer.Name)
	case s != nil:
		t.space = s
		return true, nil
	case k.dropped(props.Keyspace):
		return false, nil
	}
	s = &keyspace{id: props.Keyspace, names: manifest.KeyspaceNames{Name: props.KeyspaceName,
		Comparer: props.Comparer}, cmp: r.comparer(props.Comparer)}
	if s.cmp == nil {
		return false, manifest.UnknownComparer(props.KeyspaceName, props.Comparer)
	}
	r.spaces[s.id], t.space = s, s
	return true, nil
}

// props reads the properties of a table: the zero value for a file that is not regular.
func (r *repair) props(t *table, fileNum uint64) (props sstable.Props, err error) {
	info, err := r.o.FS.Stat(r.path(t.name))
	if err != nil || !info.Mode().IsRegular() {
		return props, err
	}
	f, err := r.o.FS.Open(r.path(t.name))
	if err != nil {
		return props, err
	}
	o := r.tableOptions(t)
	o.FileNum, t.meta.Size = fileNum, uint64(f.Size())
	props, err = files.TableProps(f, o)
	if err = cmp.Or(err, f.Close()); err != nil && !errors.Is(err, base.ErrCorruption) {
		err = fmt.Errorf("reading %s: %w", t.name, err)
	}
	return props, err
}

// dropTwins drops the keyspaces whose name a newer keyspace has: they were dropped before the name
// was given again. It sets their tables aside and returns the others.
func (r *repair) dropTwins(tables []*table) []*table {
	newest := make(map[string]*keyspace)
	for _, s := range r.sorted() {
		if twin := newest[s.names.Name]; twin != nil {
			r.twins[twin.id] = true
			delete(r.spaces, twin.id)
		}
		newest[s.names.Name] = s
	}
	return slices.DeleteFunc(tables, func(t *table) bool {
		twin := r.twins[t.space.id]
		if twin {
			r.aside[t.name] = true
		}
		return twin
	})
}

// homeless sets tables aside whose keyspace is not known where there are several, and
// returns the others: their entries would be invented in any one.
func (r *repair) homeless(tables []*table) []*table {
	if len(r.spaces) == 1 {
		return tables
	}
	return slices.DeleteFunc(tables, func(t *table) bool {
		if t.orphan {
			r.aside[t.name] = true
			r.report.drop(t.name, 0, int64(t.meta.Size), "it does not say its keyspace: "+t.damage)
		}
		return t.orphan
	})
}

// nameless returns a keyspace that no MANIFEST describes. Its name and comparer are
// not known: it gets the comparer of the default keyspace.
func (r *repair) nameless(id base.KeyspaceID) *keyspace {
	if s := r.spaces[id]; s != nil {
		return s
	}
	s := &keyspace{id: id, names: manifest.KeyspaceNames{Name: fmt.Sprintf("keyspace-%d", id),
		Comparer: r.o.Comparer.Name}, cmp: r.o.Comparer}
	for i := 1; r.nameTaken(s.names.Name); i++ {
		s.names.Name = fmt.Sprintf("keyspace-%d.%d", id, i)
	}
	r.report.drop(base.CurrentName, 0, 0,
		fmt.Sprintf("the name of keyspace %d is lost; it is called %q", id, s.names.Name))
	r.spaces[id] = s
	return s
}

func (r *repair) nameTaken(name string) bool {
	for _, s := range r.spaces {
		if s.names.Name == name {
			return true
		}
	}
	return false
}

// spaceOf returns the keyspace of an entry of a log, nil when the entry is in a table
// already or its keyspace was dropped.
func (r *repair) spaceOf(id base.KeyspaceID, log uint64) *keyspace {
	s := r.spaces[id]
	if s == nil {
		if r.known.dropped(id) || r.twins[id] {
			return nil
		}
		s = r.nameless(id)
	}
	if log < s.firstLog {
		return nil
	}
	return s
}

// sorted lists the keyspaces in the order of their IDs, the default one first.
func (r *repair) sorted() []*keyspace { return base.InOrder(r.spaces) }

// of returns the tables of a keyspace.
func (s *keyspace) of(tables []*table) (mine []*table) {
	for _, t := range tables {
		if t.space == s {
			mine = append(mine, t)
		}
	}
	return mine
}

// spaceOfIngested makes a keyspace for an ingested table that a TableWriter wrote: it records no
// keyspace, so among several it is not known which one had it. Its entries must not appear in one
// that never had them.
func (r *repair) spaceOfIngested(t *table, comparer string) error {
	cmp := r.comparer(comparer)
	if cmp == nil {
		return fmt.Errorf("%w: %s has %.200q, which the options do not name",
			base.ErrComparerMismatch, t.name, comparer)
	}
	id := slices.Max(slices.Collect(maps.Keys(r.spaces))) + 1
	s := &keyspace{id: max(id, r.maxSpace+1),
		names: manifest.KeyspaceNames{Name: fmt.Sprintf("ingested-%d", t.meta.Num),
			Comparer: comparer}, cmp: cmp}
	r.spaces[s.id], r.maxSpace, t.space = s, s.id, s
	return nil
}

// tell notes what a table says of its keyspace and of ingested tables.
func (r *repair) tell(props *sstable.Props) {
	r.maxSpace = max(r.maxSpace, props.Keyspace)
	for _, t := range props.Ingested {
		r.ingested[t.Num] = t
		r.maxSpace = max(r.maxSpace, t.Keyspace)
	}
	if props.KeyspaceName != "" && props.Keyspace != base.DefaultKeyspace {
		r.told[props.Keyspace] = manifest.KeyspaceNames{Name: props.KeyspaceName,
			Comparer: props.Comparer}
	}
}

// findSeveral sets r.several, r.ingested, r.told, and r.maxSpace to the largest number of a
// keyspace: in MANIFESTs, also in incomplete ones, and in the properties of tables that no MANIFEST
// lists.
func (r *repair) findSeveral() error {
	r.maxSpace = max(r.maxSpace, r.named)
	for id, s := range r.spaces {
		r.maxSpace, r.told[id] = max(r.maxSpace, id), s.names
	}
	r.told[base.DefaultKeyspace] = manifest.KeyspaceNames{Name: base.DefaultKeyspaceName,
		Comparer: r.o.Comparer.Name}
	for _, name := range r.names {
		num, ok := r.isTable(name)
		if _, live := r.live[num]; !ok || live {
			continue
		}
		props, err := r.props(&table{name: name, space: r.spaces[base.DefaultKeyspace],
			meta: &manifest.FileMeta{Num: num}}, num)
		switch {
		case err == nil:
			r.tell(&props)
		case !errors.Is(err, base.ErrCorruption): // which the table itself is reported for
			return err
		}
	}
	r.several = r.maxSpace > base.DefaultKeyspace
	return nil
}
