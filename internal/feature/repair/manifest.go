package repair

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sort"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/current"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/record"
)

// salvagedManifest is what a repair could read of the MANIFEST that it chose.
type salvagedManifest struct {
	st   manifest.State
	from string // name of the MANIFEST; "" without a usable one
	// levels says that st is complete and right: the live tables are those of st, at
	// their levels there, and no others.
	levels bool
	// dead are tables that an edit deleted. They stay out of the database.
	dead map[uint64]bool
	// editsMissing says that edits are missing in st; gaps that these may be earlier than others,
	// and so have made keyspaces that st lacks. Without gaps a keyspace that st lacks, of a number
	// that it knows, was dropped.
	editsMissing, gaps bool
	torn               bool
	// maxSpace is the largest number of a keyspace that an edit names, also one that did not fit.
	maxSpace base.KeyspaceID
}

// readManifests chooses the MANIFEST: the one that CURRENT names, or else the newest
// one that is complete enough.
func (r *repair) readManifests() error {
	pointer, err := current.Read(r.o.FS, r.o.Dir)
	var c *base.Corruption
	switch {
	case err == nil:
		r.current = pointer.Manifest
	case errors.As(err, &c):
		r.report.dropCorruption(base.CurrentName, c, 0, 0)
	case errors.Is(err, base.ErrNotADatabase): // not a regular file
		r.report.drop(base.CurrentName, 0, 0, "not a regular file")
	case errors.Is(err, fs.ErrNotExist):
		r.report.drop(base.CurrentName, 0, 0, "missing")
	default:
		return err
	}
	if r.current != "" && !slices.Contains(r.names, r.current) {
		r.report.drop(r.current, 0, 0, "missing, but CURRENT names it")
	}
	for i, name := range r.candidates() {
		k, size, err := r.readManifest(name)
		if err != nil {
			return err
		}
		if k == nil {
			continue
		}
		r.named = max(r.named, k.maxSpace)
		if err := k.st.Complete(r.format); err != nil {
			var c *base.Corruption
			errors.As(err, &c)
			r.report.drop(name, 0, size, c.Reason)
			if k.st.FormatVersion == 0 {
				continue
			}
			k.editsMissing = true // the last of the first edits; others name keyspaces
		}
		k.gaps = k.editsMissing
		// A MANIFEST older than the one in force lacks the latest edits.
		k.editsMissing = k.editsMissing || i > 0
		k.from = name
		r.known = *k
		break
	}
	if err := r.adoptKeyspaces(); err != nil {
		return err
	}
	if err := r.leaveStrays(); err != nil {
		return err
	}
	return r.judge()
}

// candidates are the MANIFESTs in the order in which they are tried.
func (r *repair) candidates() []string {
	var found []string
	for _, name := range r.names {
		if t, _ := r.format.ParseFileName(name); t == base.FileManifest {
			found = append(found, name)
		}
	}
	sort.SliceStable(found, func(i, j int) bool {
		_, a := r.format.ParseFileName(found[i])
		_, b := r.format.ParseFileName(found[j])
		return a > b
	})
	if i := slices.Index(found, r.current); i > 0 {
		found = slices.Insert(slices.Delete(found, i, i+1), 0, r.current)
	}
	return found
}

// readManifest applies the edits of one MANIFEST, those behind damage too. It
// returns nil when the file is no MANIFEST.
func (r *repair) readManifest(name string) (*salvagedManifest, int64, error) {
	f, ok, err := r.open(name)
	if !ok {
		return nil, 0, err
	}
	defer f.Close()
	if err := manifest.CheckLog(f, name, r.format, nil); err != nil {
		if c := (*base.Corruption)(nil); errors.As(err, &c) {
			r.report.dropCorruption(name, c, 0, 0)
			return nil, 0, nil
		}
		return nil, 0, err
	}
	k := &salvagedManifest{dead: make(map[uint64]bool)}
	reader := record.NewReader(f, f.Size(), name)
	for {
		rec, err := reader.Next()
		var c *base.Corruption
		switch {
		case err == io.EOF:
			return k, f.Size(), nil
		case errors.As(err, &c):
			r.report.dropCorruption(name, c, reader.Offset(), 0)
			if reader.Tail() {
				k.torn = true
			} else {
				k.editsMissing = true
			}
			if !reader.Resume() {
				return k, f.Size(), nil
			}
			continue
		case err != nil:
			return nil, 0, fmt.Errorf("reading %s: %w", name, err)
		}
		var e manifest.Edit
		err = e.Decode(rec, r.format)
		if err == nil {
			if e.HasComparer && e.Comparer != r.o.Comparer.Name {
				return nil, 0, fmt.Errorf("%w: the database has %.200q, the options say %.200q",
					base.ErrComparerMismatch, e.Comparer, r.o.Comparer.Name)
			}
			err = k.apply(&e)
		}
		switch {
		case errors.As(err, &c):
			r.report.dropCorruption(name, c, reader.Offset(), int64(len(rec)))
			k.editsMissing = true
		case err != nil:
			return nil, 0, fmt.Errorf("reading %s: %w", name, err)
		}
	}
}

// apply applies an edit. An edit that does not fit the state is damaged, or follows
// edits that are missing. As much of it as fits is applied.
func (k *salvagedManifest) apply(e *manifest.Edit) error {
	for _, d := range e.Deleted {
		k.dead[d.Num] = true
	}
	for _, a := range e.Added {
		delete(k.dead, a.Meta.Num)
	}
	k.maxSpace = max(k.maxSpace, e.Keyspace, e.MaxKeyspace)
	files := k.filesOf(e.Keyspace)
	err := k.st.Apply(e)
	if err == nil {
		if e.DropKeyspace {
			for num := range files {
				k.dead[num] = true
			}
		}
		return nil
	}
	rest := *e
	rest.Deleted, rest.Added = nil, nil
	for _, d := range e.Deleted {
		if f, ok := files[d.Num]; ok {
			rest.Delete(f.Level, d.Num)
		}
	}
	for i, a := range e.Added {
		_, have := files[a.Meta.Num]
		moved := slices.ContainsFunc(rest.Deleted, func(d manifest.DeletedFile) bool {
			return d.Num == a.Meta.Num
		})
		twice := slices.ContainsFunc(e.Added[:i], func(b manifest.AddedFile) bool {
			return b.Meta.Num == a.Meta.Num
		})
		if (!have || moved) && !twice {
			rest.Added = append(rest.Added, a)
		}
	}
	seen := make(map[uint64]bool)
	rest.Deleted = slices.DeleteFunc(rest.Deleted, func(d manifest.DeletedFile) bool {
		twice := seen[d.Num]
		seen[d.Num] = true
		return twice
	})
	if again := k.st.Apply(&rest); again != nil {
		return again
	}
	if k.editsMissing {
		return nil
	}
	return err
}

// filesOf returns the live tables of a keyspace by number.
func (k *salvagedManifest) filesOf(id base.KeyspaceID) map[uint64]manifest.AddedFile {
	if id == base.DefaultKeyspace {
		return k.st.Files
	}
	if s := k.st.Others[id]; s != nil {
		return s.Files
	}
	return nil
}

// judge decides whether the tables and levels of the state are right. They are not
// when edits are missing. The signs are damage, or files of a later state: a log or
// table of the state is gone, and there are tables that the state does not have.
func (r *repair) judge() error {
	k := &r.known
	if k.from == "" {
		return nil
	}
	unknown := false
	gone, err := r.logGone()
	if err != nil {
		return err
	}
	have := make(map[uint64]bool)
	for _, name := range r.names {
		if num, ok := r.isTable(name); ok {
			have[num] = true
			if _, live := r.live[num]; !live && !k.dead[num] {
				unknown = true
			}
		}
	}
	for num := range r.live {
		gone = gone || !have[num]
	}
	switch {
	case k.editsMissing:
		k.levels = !gone && !unknown
	case gone && (unknown || k.torn):
		k.levels = false
	default:
		k.levels = true
	}
	if !k.levels {
		return nil
	}
	for _, st := range k.st.Keyspaces() {
		if _, err := manifest.NewVersion(r.spaces[st.ID].cmp, st.Levels()); err != nil {
			var c *base.Corruption
			errors.As(err, &c)
			r.report.dropCorruption(k.from, c, 0, 0)
			k.levels = false
		}
	}
	return nil
}

// logGone reports whether a log of the state is gone: the first one, or a later one that another
// log was begun behind. The first one may stay although its entries are in tables: for the values
// in it, or to become the next log.
func (r *repair) logGone() (bool, error) {
	first := r.known.st.LogNum
	gone := func(num uint64) bool {
		_, there := slices.BinarySearch(r.names, r.format.FileName(base.FileLog, num))
		return !there
	}
	if first != 0 && gone(first) {
		return true, nil
	}
	for _, name := range r.names {
		t, num := r.format.ParseFileName(name)
		if t != base.FileLog || num <= first || r.format != base.Native {
			continue
		}
		f, ok, err := r.open(name)
		if !ok {
			return false, err
		}
		b, begun, err := record.ReadBegin(f)
		if err = errors.Join(err, f.Close()); err != nil {
			return false, fmt.Errorf("reading %s: %w", name, err)
		}
		if begun && b.Num == num && b.Before.Num >= max(first, 1) && gone(b.Before.Num) {
			return true, nil
		}
	}
	return false, nil
}
