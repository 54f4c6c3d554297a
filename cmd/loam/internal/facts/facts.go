// Package facts says what the files of a database say, for the verbs that print it and the page
// that shows it.
package facts

import (
	"cmp"
	"slices"

	"github.com/loamdb/loam/cmd/loam/internal/encode"
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/feature/examine"
	"github.com/loamdb/loam/internal/format/manifest"
)

// NameOf is the name of a keyspace as users have it.
func NameOf(s *manifest.KeyspaceState) string {
	if s.ID == base.DefaultKeyspace {
		return base.DefaultKeyspaceName
	}
	return s.Name
}

// TableFile is a table file and the sums of its entries.
type TableFile struct {
	File         string `json:"file"`
	Format       string `json:"format"`
	Bytes        int64  `json:"bytes"`
	Comparer     string `json:"comparer"`
	Keyspace     string `json:"keyspace,omitempty"`
	Entries      uint64 `json:"entries"`
	Tombstones   uint64 `json:"tombstones"`
	RangeDeletes uint64 `json:"range_deletes"`
	KeyBytes     uint64 `json:"key_bytes"`
	ValueBytes   uint64 `json:"value_bytes"`
	Blocks       int    `json:"blocks"`
	FilterBits   int    `json:"filter_bits"`
	MinSequence  uint64 `json:"min_sequence"`
	MaxSequence  uint64 `json:"max_sequence"`
}

// Table is a table as the MANIFEST has it.
type Table struct {
	Keyspace string `json:"keyspace"`
	Level    int    `json:"level"`
	Number   uint64 `json:"number"`
	File     string `json:"file"`
	Missing  bool   `json:"missing,omitempty"`
	Bytes    uint64 `json:"bytes"`
	// Entries and the others are 0 where the MANIFEST does not have them.
	Entries      uint64 `json:"entries,omitempty"`
	Tombstones   uint64 `json:"tombstones,omitempty"`
	RangeDeletes uint64 `json:"range_deletes,omitempty"`
	SmallestSeq  uint64 `json:"smallest_key_sequence"`
	LargestSeq   uint64 `json:"largest_key_sequence"`
	// First and Last are keys.
	First []byte `json:"-"`
	Last  []byte `json:"-"`
}

// Tables lists the tables of all keyspaces, by keyspace, level and number.
func Tables(d *examine.Directory) (tables []Table) {
	for _, s := range d.State.Keyspaces() {
		for num, f := range s.Files {
			m := f.Meta
			name, there := d.TableName(num)
			tables = append(tables, Table{Keyspace: NameOf(s), Level: f.Level, Number: num,
				File: name, Missing: !there, Bytes: m.Size, Entries: m.Entries,
				Tombstones: m.Deletes, RangeDeletes: m.RangeDels,
				SmallestSeq: uint64(m.Smallest.Trailer.Seq()),
				LargestSeq:  uint64(m.Largest.Trailer.Seq()),
				First:       m.Smallest.User, Last: m.Largest.User})
		}
	}
	slices.SortFunc(tables, func(a, b Table) int {
		return cmp.Or(cmp.Compare(a.Keyspace, b.Keyspace), cmp.Compare(a.Level, b.Level),
			cmp.Compare(a.Number, b.Number))
	})
	return tables
}

// Edit is an edit of a MANIFEST. Numbers that it does not set are missing.
type Edit struct {
	Offset        int64   `json:"offset"`
	Length        int64   `json:"length"`
	FormatVersion uint32  `json:"format_version,omitempty"`
	Keyspace      uint32  `json:"keyspace,omitempty"`
	NewKeyspace   string  `json:"new_keyspace,omitempty"`
	DropKeyspace  bool    `json:"drop_keyspace,omitempty"`
	Comparer      *string `json:"comparer,omitempty"`
	MergeOperator string  `json:"merge_operator,omitempty"`
	// The log was durable up to DurableEnd when the edit was written.
	DurableLog   uint64      `json:"durable_log,omitempty"`
	DurableEnd   int64       `json:"durable_end,omitempty"`
	Clock        uint64      `json:"clock,omitempty"`
	Log          *uint64     `json:"log,omitempty"`
	FirstLog     *uint64     `json:"first_log,omitempty"`
	NextFile     *uint64     `json:"next_file,omitempty"`
	LastSequence *uint64     `json:"last_sequence,omitempty"`
	Deleted      []EditTable `json:"deleted,omitempty"`
	Added        []EditTable `json:"added,omitempty"`
}

// EditTable is a table that an edit adds or deletes.
type EditTable struct {
	Level   int     `json:"level"`
	Number  uint64  `json:"number"`
	Bytes   *uint64 `json:"bytes,omitempty"`
	Entries uint64  `json:"entries,omitempty"`
	// Smallest and Largest are keys as text, with escapes, or in the encoding of EditOf.
	Smallest *string `json:"smallest,omitempty"`
	Largest  *string `json:"largest,omitempty"`
}

// EditOf describes an edit, with keys as text in the encoding as.
func EditOf(x *examine.ManifestEdit, as encode.Encoding) *Edit {
	e := &x.Edit
	l := &Edit{Offset: x.Offset, Length: x.Length, FormatVersion: e.FormatVersion,
		Keyspace: uint32(e.Keyspace), DropKeyspace: e.DropKeyspace, MergeOperator: e.MergeOperator,
		DurableLog: e.Durable.Num, DurableEnd: e.Durable.End, Clock: e.Clock}
	if e.NewKeyspace != nil {
		l.NewKeyspace = e.NewKeyspace.Name
		l.Comparer = &e.NewKeyspace.Comparer
	}
	if e.HasComparer {
		l.Comparer = &e.Comparer
	}
	if e.HasLogNum {
		l.Log = &e.LogNum
	}
	if e.HasFirstLog {
		l.FirstLog = &e.FirstLog
	}
	if e.HasNextFile {
		l.NextFile = &e.NextFile
	}
	if e.HasLastSeq {
		seq := uint64(e.LastSeq)
		l.LastSequence = &seq
	}
	for _, d := range e.Deleted {
		l.Deleted = append(l.Deleted, EditTable{Level: d.Level, Number: d.Num})
	}
	for _, f := range e.Added {
		l.Added = append(l.Added, added(f, as))
	}
	return l
}

func added(f manifest.AddedFile, as encode.Encoding) EditTable {
	m := f.Meta
	smallest, largest := as.Format(m.Smallest.User), as.Format(m.Largest.User)
	return EditTable{Level: f.Level, Number: m.Num, Bytes: &m.Size, Entries: m.Entries,
		Smallest: &smallest, Largest: &largest}
}
