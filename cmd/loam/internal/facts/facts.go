// Package facts says what the files of a database say, for the verbs that print it and the page
// that shows it.
package facts

import (
	"cmp"
	"slices"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/feature/examine"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/sstable"
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

// UserKeyBytes is the length of the keys without their sequence numbers and kinds, which the
// properties count.
func UserKeyBytes(p *sstable.Props) uint64 {
	if trailers := base.TrailerLen * p.Entries; trailers <= p.RawKeys {
		return p.RawKeys - trailers
	}
	return p.RawKeys // damaged
}

// Value is the value of an entry of a kind, without the deadline behind it if it is not packed.
func Value(kind base.Kind, codec base.Codec, value []byte) []byte {
	if kind.Expires() && codec == base.CodecRaw {
		if user, _, ok := base.CutDeadline(value); ok {
			return user
		}
	}
	return value
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
