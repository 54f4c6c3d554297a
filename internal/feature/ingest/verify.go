package ingest

import (
	"fmt"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/rangedel"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/store/files"
	"github.com/loamdb/loam/internal/tree/compact"
	"github.com/loamdb/loam/internal/tree/memtable"
)

// verify reads a table from end to end, through its name in the database, and sets what the
// MANIFEST says of it. Then it makes the file durable; synced is false where the file system
// cannot.
func (j *job) verify(t *table, path string) (synced bool, err error) {
	f, err := j.fs.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	env := files.TableOptions{Name: t.name, Comparer: j.k.Comparer(),
		MaxDecoded: j.place.MaxDecoded}
	props, err := files.TableProps(f, env)
	if err != nil {
		return false, err
	}
	native := props.Format == base.Native.String()
	switch {
	case native && props.Comparer != j.k.Comparer().Name:
		return false, fmt.Errorf("%w: the table has %.200q, the keyspace has %.200q",
			base.ErrComparerMismatch, props.Comparer, j.k.Comparer().Name)
	case native && !props.Outside:
		return false, base.Invalidf("this is a table of a database; those of a TableWriter can " +
			"be ingested")
	case native && j.plain:
		return false, base.Invalidf("the table is in the native format, the database in LevelDB's")
	}
	r, err := files.OpenTable(f, env)
	if err != nil {
		return false, err
	}
	defer r.Close()
	if !native && !j.plain {
		return false, base.Invalidf("the table is in LevelDB's format, the database in the " +
			"native one")
	}
	v := verifier{j: j, r: r, cmp: j.k.Comparer(), native: native}
	if err := v.read(); err != nil {
		return false, err
	}
	sum, err := j.checksum(f)
	if err != nil {
		return false, err
	}
	v.describe(t.meta, f.Size(), sum)
	t.meta.Naming, _, _ = base.ParseTableName(t.name)
	t.meta.Comparer = v.cmp
	if sample := r.Props().Sample; sample != nil {
		t.meta.Sample.Store(sample)
	}
	if t.copied {
		return true, nil
	}
	s, ok := f.(interface{ Sync() error })
	if !ok {
		return false, nil
	}
	return true, s.Sync()
}

// checksum is that of the whole file.
func (j *job) checksum(f vfs.ReadFile) (sum uint32, err error) {
	buf := make([]byte, min(f.Size(), vfs.CopyChunk))
	err = base.ReadChunks(f, f.Size(), buf, func(b []byte) error {
		sum = base.CRCUpdate(sum, b)
		return j.stop()
	})
	return sum, err
}

// verifier checks the entries of a table, and notes what they are.
type verifier struct {
	j      *job
	r      sstable.Reader
	cmp    *base.Comparer
	native bool

	meta  sstable.Meta
	first base.InternalKey
	last  []byte
	kind  base.Kind // of last
}

func (v *verifier) read() error {
	src := v.r.NewSource(sstable.Scan | sstable.NoFill)
	defer src.Close()
	err := base.Scan(src, func(e *base.Chunk) error {
		for i := range e.Len() {
			if err := v.entry(e.Key(i), e.Value(i), e.Trailers[i]); err != nil {
				return err
			}
		}
		return v.j.stop()
	})
	if err == nil {
		err = v.r.VerifyMeta()
	}
	if err == nil {
		err = v.rangeDels()
	}
	if p := v.r.Props(); err == nil && p.Entries != 0 && p.Entries != v.meta.Entries {
		err = base.Corruptf("table", "it has %d entries, its properties say %d", v.meta.Entries,
			p.Entries)
	}
	if err == nil && v.meta.Entries == 0 && v.meta.RangeDels == 0 {
		err = base.Invalidf("the table has no entries")
	}
	return err
}

func (v *verifier) entry(key, value []byte, t base.Trailer) error {
	m, c := &v.meta, -1
	if m.Entries > 0 {
		c = v.cmp.Cmp(v.last, key)
	}
	switch {
	case t.Seq() != 0 || c == 0:
		return base.Invalidf("this is a table of a database: key %q has a sequence number, or "+
			"several versions", key)
	case c > 0:
		return base.Corruptf("table", "key %q is not behind the one before it", key)
	}
	switch kind := t.Kind(); {
	case kind == base.KindSet:
	case kind == base.KindDelete:
		m.Deletes++
	case kind == base.KindSetExpiring && v.native:
		_, deadline, ok := base.CutDeadline(value)
		if !ok {
			return base.NoDeadline()
		}
		if m.MinExpiry == 0 || deadline < m.MinExpiry {
			m.MinExpiry = max(deadline, 1)
		}
		m.MaxExpiry = max(m.MaxExpiry, deadline, 1)
	default:
		return base.Invalidf("the table has a %v, which cannot be ingested", kind)
	}
	if !v.r.MayContain(base.MakeLookup(v.cmp, key, base.MaxSeqNum)) {
		return base.Corruptf("table filter", "denies a key that is there")
	}
	if m.Entries == 0 {
		v.first = base.InternalKey{User: append([]byte{}, key...), Trailer: t}
	}
	v.last, v.kind = append(v.last[:0], key...), t.Kind()
	m.Entries++
	m.Kinds |= 1 << t.Kind()
	return nil
}

func (v *verifier) rangeDels() error {
	l := v.r.RangeDels()
	for _, f := range l.Fragments() {
		if len(f.Seqs) != 1 || f.Seqs[0] != 0 {
			return base.Invalidf("this is a table of a database: its range tombstones have " +
				"sequence numbers")
		}
	}
	if n := uint64(l.Count()); n > 0 {
		v.meta.RangeDels = n
		v.meta.Kinds |= 1 << base.KindRangeDelete
	}
	return nil
}

// describe sets what the MANIFEST says of the table. The sequence numbers come later.
func (v *verifier) describe(m *manifest.FileMeta, size int64, sum uint32) {
	m.Size = uint64(size)
	if v.native {
		v.meta.Format, v.meta.Checksum = base.Native.String(), sum
	}
	m.Facts = compact.FactsOf(v.meta, v.meta.Entries, false)
	m.Smallest, m.Largest = v.first, base.InternalKey{User: append([]byte{}, v.last...),
		Trailer: base.MakeTrailer(0, v.kind)}
	start, limit := v.r.RangeDels().Ends()
	if start == nil {
		return
	}
	// At one key, a value that expires is before the tombstone, other entries are behind it.
	dels := base.MakeTrailer(0, base.KindRangeDelete)
	if v.meta.Entries == 0 || v.cmp.CompareInternal(start, dels, m.Smallest.User,
		m.Smallest.Trailer) < 0 {
		m.Smallest = base.InternalKey{User: append([]byte{}, start...), Trailer: dels}
	}
	if v.meta.Entries == 0 || v.cmp.Cmp(limit, m.Largest.User) > 0 {
		m.Largest = base.InternalKey{User: append([]byte{}, limit...), Trailer: base.RangeDelEnd}
	}
}

// overlaps reports whether a memtable has an entry, or a range tombstone over a key, in the range
// of one of the tables.
func overlaps(m *memtable.MemTable, cmp *base.Comparer, tables []*table) (bool, error) {
	if m.Len() == 0 {
		return false, nil
	}
	for _, l := range m.RangeDels() {
		for _, t := range tables {
			if touches(l, cmp, t.meta) {
				return true, nil
			}
		}
	}
	if m.Points() == 0 {
		return false, nil
	}
	src := m.NewSource()
	defer src.Close()
	var e base.Chunk
	for _, t := range tables {
		i, err := src.SeekGE(t.meta.Smallest.User, base.MaxTrailer, &e)
		if err != nil {
			return false, err
		}
		if i < 0 {
			continue
		}
		if c := cmp.Cmp(e.Key(i), t.meta.Largest.User); c < 0 || c == 0 && !t.meta.OpenEnd() {
			return true, nil
		}
	}
	return false, nil
}

// touches reports whether a range tombstone of the list covers a key in the range of a table.
func touches(l *rangedel.List, cmp *base.Comparer, m *manifest.FileMeta) bool {
	start, _ := l.Clip(m.Smallest.User, nil).Ends()
	if start == nil {
		return false
	}
	c := cmp.Cmp(start, m.Largest.User)
	return c < 0 || c == 0 && !m.OpenEnd()
}
