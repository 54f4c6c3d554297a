package repair

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/os/seal"
	"github.com/loamdb/loam/internal/store/files"
)

// table is a table of the database to be.
type table struct {
	name   string
	space  *keyspace
	meta   *manifest.FileMeta // what the MANIFEST says, or what was found
	level  int                // where the levels are known
	damage string             // why it has to be rewritten; "" for a whole one
	made   bool               // by this run
	orphan bool               // space is a guess
	live   bool               // the MANIFEST has a table of its number
	refers bool               // it has values in logs, which a new state would not have
	native bool               // of the native format, by an engine that wrote sequence number 0
	// outside says that the file has sequence number 0 for all, see sstable.Props.Outside.
	outside bool
	// recorded is sstable.Props.Recorded.
	recorded uint32
	unnamed  bool   // the file does not say which keyspace it is of
	fileNum  uint64 // what the file says its number is; 0: nothing
	placed   uint64 // the number of the table of the MANIFEST that it is; 0: of none
	// firstLog is what the table records of logs, see sstable.Props; 0: nothing.
	firstLog uint64
	entries  uint64
	minSeq   base.SeqNum
	maxSeq   base.SeqNum
}

// note extends the table's record by an entry; entries come in order.
func (t *table) note(key []byte, tr base.Trailer) {
	if t.entries == 0 {
		t.minSeq = tr.Seq()
		t.meta.Smallest = base.InternalKey{User: append([]byte(nil), key...), Trailer: tr}
	}
	t.entries++
	t.minSeq = min(t.minSeq, tr.Seq())
	t.maxSeq = max(t.maxSeq, tr.Seq())
}

// checkTables reads all tables that are or may be live.
func (r *repair) checkTables() ([]*table, error) {
	k := &r.known
	found := make(map[uint64]*table)
	if err := r.findSeveral(); err != nil {
		return nil, err
	}
	var all, dead []*table
	for _, name := range r.tableNames() {
		num, _ := r.isTable(name)
		f, live := r.live[num]
		if k.from != "" && !live && (k.levels || k.dead[num]) {
			r.aside[name] = true
			dead = append(dead, &table{name: name, live: true,
				space: r.spaces[base.DefaultKeyspace],
				meta:  &manifest.FileMeta{Num: num, Naming: naming(name)}})
			continue
		}
		t := &table{name: name, meta: &manifest.FileMeta{Num: num, Naming: naming(name)},
			level: f.Level, space: f.space, live: live}
		find := r.spaceOfTable
		if live {
			find = r.spaceOfLive
		}
		switch known, err := find(t); {
		case err != nil:
			return nil, err
		case !known:
			r.aside[name] = true
			continue
		}
		switch other := found[num]; {
		case other != nil && live:
			r.aside[name] = true // .ldb comes before .sst
			continue
		case other != nil:
			t.damage = "its number is that of " + other.name
		case num >= maxNum:
			t.damage = "its number is out of range"
		}
		found[num] = t
		regular, err := r.checkTable(t)
		if err != nil {
			return nil, err
		}
		if !regular {
			r.aside[name] = true
			continue
		}
		if t.damage == "" {
			t.space.firstLog = max(t.space.firstLog, t.firstLog)
		}
		all = append(all, t)
	}
	all, err := r.place(all, dead)
	if err != nil {
		return nil, err
	}
	clear(found)
	for _, t := range all {
		r.maxSeq, found[t.placed] = max(r.maxSeq, t.maxSeq), t
	}
	r.reportMissing(found)
	return r.dropTwins(all), nil
}

// spaceOfLive sets the keyspace of a table of the MANIFEST to the one that the file records, which
// is another one if the file has the name of another table, see place. known is false, and the file
// dropped, if there is no such keyspace.
func (r *repair) spaceOfLive(t *table) (known bool, err error) {
	props, err := r.props(t, 0) // place compares what the file says
	t.fileNum, t.recorded = props.FileNum, props.Recorded
	switch {
	case errors.Is(err, base.ErrCorruption): // which checkTable reports
	case err != nil:
		return false, err
	case props.Comparer == "": // LevelDB's format has one keyspace; checkTable reports a link
	case props.Outside && props.KeyspaceName == "":
		t.unnamed = true
		for _, s := range r.sorted() {
			if c := r.comparer(props.Comparer); c != nil && t.space.cmp != c && s.cmp == c {
				t.space = s
			}
		}
	case r.spaces[props.Keyspace] != nil:
		t.space = r.spaces[props.Keyspace]
	default:
		r.report.drop(t.name, 0, int64(t.meta.Size), fmt.Sprintf("it is a table of keyspace %d, "+
			"which the MANIFEST does not have", props.Keyspace))
		return false, nil
	}
	return true, nil
}

// tableNames lists the tables in the order of their numbers, of which an ingested table gets its
// place among the others, see checkTable.
func (r *repair) tableNames() []string {
	names := slices.DeleteFunc(slices.Clone(r.names), func(name string) bool {
		_, ok := r.isTable(name)
		return !ok
	})
	sort.SliceStable(names, func(i, j int) bool {
		x, _ := r.isTable(names[i])
		y, _ := r.isTable(names[j])
		return x < y
	})
	return names
}

// reportMissing records the live tables that were not found.
func (r *repair) reportMissing(found map[uint64]*table) {
	reason := "missing"
	if !r.known.levels {
		reason = "missing; newer tables may have its entries"
	}
	for _, num := range slices.Sorted(maps.Keys(r.live)) {
		if m := r.live[num].Meta; found[num] == nil {
			name := r.known.st.Namings(r.format, num)[0].Name(num)
			r.report.Dropped = append(r.report.Dropped, Drop{File: name, Length: int64(m.Size),
				Reason: reason, Smallest: m.Smallest.User, Largest: m.Largest.User})
		}
	}
}

// checkTable reads a table the way the database does, and sets t.damage when
// that does not work. regular is false when there is nothing to read at all.
func (r *repair) checkTable(t *table) (regular bool, err error) {
	f, ok, err := r.open(t.name)
	if !ok {
		return false, err
	}
	defer f.Close()
	t.meta.Size = uint64(f.Size())
	o := r.tableOptions(t)
	if t.live {
		o.FileNum = 0 // place compares what the file says
	}
	reader, err := files.OpenTable(f, o)
	if err == nil {
		if p := reader.Props(); p.Format == base.Native.String() {
			t.native, t.firstLog, t.outside = true, p.FirstLog, p.Outside
			t.fileNum, t.recorded = p.FileNum, p.Recorded
			// Of a table that the MANIFEST does not name. Without RangeDels no read would look for
			// its range tombstones.
			t.meta.Facts = manifest.Facts{Format: base.Native, Leftovers: true, Entries: p.Entries,
				Deletes: p.Deletes, RangeDels: uint64(reader.RangeDels().Count()), Kinds: p.Kinds,
				MinExpiry: p.MinExpiry, MaxExpiry: p.MaxExpiry}
		}
		err = r.checkEntries(t, reader)
		err = errors.Join(err, reader.Close(), seal.HeaderDamage(r.o.FS, r.path(t.name)))
	}
	var c *base.Corruption
	if errors.As(err, &c) {
		if t.damage == "" {
			t.damage = c.Kind + ": " + c.Reason
		}
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading %s: %w", t.name, err)
	}
	return true, nil
}

// checkEntries reads all entries. The reader checks that they ascend and are
// where the index leads; what remains is that the filter admits them.
func (r *repair) checkEntries(t *table, reader sstable.Reader) error {
	src := reader.NewSource(sstable.Private | sstable.Scan)
	defer src.Close()
	var last []byte
	err := base.Scan(src, func(e *base.Chunk) error {
		for i := range e.Len() {
			key := e.Key(i)
			if !reader.MayContain(base.MakeLookup(t.space.cmp, key, e.Trailers[i].Seq())) {
				return base.Corruptf("table filter", "denies a key that is there")
			}
			t.note(key, e.Trailers[i])
			kind := e.Trailers[i].Kind()
			if !kind.Refers() {
				continue
			}
			t.refers = true
			_, in, err := r.value(kind, e.Codec(i), e.Value(i))
			if err == nil {
				err = r.headerDamage(in)
			}
			if err != nil {
				return err
			}
		}
		if n := e.Len(); n > 0 {
			last = append(last[:0], e.Key(n-1)...)
			t.meta.Largest.Trailer = e.Trailers[n-1]
		}
		return nil
	})
	if err != nil {
		return err
	}
	if t.entries == 0 && reader.RangeDels() == nil {
		return base.Corruptf("table", "has no entries")
	}
	t.meta.Largest.User = last
	t.noteRangeDels(t.space.cmp, reader.RangeDels())
	return nil
}

// tableOptions are for a pass over a table, past any cache.
func (r *repair) tableOptions(t *table) files.TableOptions {
	return files.TableOptions{Name: t.name, Comparer: t.space.cmp, MaxDecoded: r.o.MaxDecoded,
		FileNum: t.meta.Num}
}

// salvageTable writes the readable entries of a damaged table to new ones.
func (r *repair) salvageTable(t *table) ([]*table, error) {
	f, ok, err := r.open(t.name)
	if !ok {
		return nil, err
	}
	defer f.Close()
	out := output{r: r, space: t.space, level: t.level}
	defer out.close()
	add := func(key []byte, tr base.Trailer, codec base.Codec, value []byte) error {
		if t.meta.GlobalSeq > 0 {
			tr = base.MakeTrailer(t.meta.GlobalSeq, tr.Kind())
		}
		if tr.Kind().Refers() {
			return r.salvageValue(&out, t, key, tr, codec, value)
		}
		return out.add(key, tr, codec, value)
	}
	err = files.SalvageTable(f, r.tableOptions(t),
		sstable.Salvage{Add: add, Lost: func(l sstable.Lost) {
			r.report.Dropped = append(r.report.Dropped,
				Drop{File: t.name, Offset: l.Offset, Length: l.Length,
					Reason: l.Reason, Smallest: l.Smallest, Largest: l.Largest})
		}})
	tables, err := out.finish(err)
	if err != nil {
		return nil, fmt.Errorf("salvaging %s: %w", t.name, err)
	}
	return tables, nil
}
