package facts

import (
	"fmt"
	"strings"

	"github.com/loamdb/loam/cmd/loam/internal/encode"
	"github.com/loamdb/loam/cmd/loam/internal/text"
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/feature/examine"
	"github.com/loamdb/loam/internal/format/manifest"
)

// Edit is an edit of a MANIFEST. Numbers that it does not set are missing.
type Edit struct {
	Offset        int64   `json:"offset"`
	Length        int64   `json:"length"`
	FormatVersion uint32  `json:"format_version,omitempty"`
	LevelDBBelow  uint64  `json:"leveldb_below,omitempty"`
	MaxKeyspace   *uint32 `json:"max_keyspace,omitempty"`
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
	PreviousLog  *uint64     `json:"previous_log,omitempty"`
	FirstLog     *uint64     `json:"first_log,omitempty"`
	NextFile     *uint64     `json:"next_file,omitempty"`
	LastSequence *uint64     `json:"last_sequence,omitempty"`
	Pointers     []Pointer   `json:"compact_pointers,omitempty"`
	Deleted      []EditTable `json:"deleted,omitempty"`
	Added        []EditTable `json:"added,omitempty"`
}

// Pointer is where the next compaction of a level goes on.
type Pointer struct {
	Level int    `json:"level"`
	Key   string `json:"key"` // as text, as those of EditTable
}

// EditTable is a table that an edit adds or deletes. What the edit does not have is missing.
type EditTable struct {
	Level   int     `json:"level"`
	Number  uint64  `json:"number"`
	Bytes   *uint64 `json:"bytes,omitempty"`
	Entries uint64  `json:"entries,omitempty"`
	// Tombstones and RangeDeletes are some of Entries, and beside them.
	Tombstones   uint64  `json:"tombstones,omitempty"`
	RangeDeletes uint64  `json:"range_deletes,omitempty"`
	Checksum     *uint32 `json:"checksum,omitempty"` // CRC-32C of the file
	// Seconds since 1970 from which on the first and the last entry have expired.
	FirstExpiry uint64 `json:"first_expiry,omitempty"`
	LastExpiry  uint64 `json:"last_expiry,omitempty"`
	// Smallest and Largest are keys as text, with escapes, or in the encoding of EditOf.
	Smallest         *string `json:"smallest,omitempty"`
	SmallestSequence *uint64 `json:"smallest_key_sequence,omitempty"`
	SmallestKind     string  `json:"smallest_key_kind,omitempty"`
	Largest          *string `json:"largest,omitempty"`
	LargestSequence  *uint64 `json:"largest_key_sequence,omitempty"`
	LargestKind      string  `json:"largest_key_kind,omitempty"`
}

// EditOf describes an edit, with keys as text in the encoding as.
func EditOf(x *examine.ManifestEdit, as encode.Encoding) *Edit {
	e := &x.Edit
	l := &Edit{Offset: x.Offset, Length: x.Length, FormatVersion: e.FormatVersion,
		LevelDBBelow: e.LevelDBBelow, Keyspace: uint32(e.Keyspace), DropKeyspace: e.DropKeyspace,
		MergeOperator: e.MergeOperator, DurableLog: e.Durable.Num, DurableEnd: e.Durable.End,
		Clock: e.Clock}
	if e.NewKeyspace != nil {
		l.NewKeyspace = e.NewKeyspace.Name
		l.Comparer = &e.NewKeyspace.Comparer
	}
	if e.HasComparer {
		l.Comparer = &e.Comparer
	}
	if e.HasMaxKeyspace {
		id := uint32(e.MaxKeyspace)
		l.MaxKeyspace = &id
	}
	last := uint64(e.LastSeq)
	for _, n := range []struct {
		set  bool
		from *uint64
		to   **uint64
	}{{e.HasLogNum, &e.LogNum, &l.Log}, {e.HasPrevLogNum, &e.PrevLogNum, &l.PreviousLog},
		{e.HasFirstLog, &e.FirstLog, &l.FirstLog}, {e.HasNextFile, &e.NextFile, &l.NextFile},
		{e.HasLastSeq, &last, &l.LastSequence}} {
		if n.set {
			*n.to = n.from
		}
	}
	for _, p := range e.CompactPointers {
		l.Pointers = append(l.Pointers, Pointer{p.Level, as.Format(p.Key.User)})
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
	t := EditTable{Level: f.Level, Number: m.Num, Bytes: &m.Size, Entries: m.Entries,
		Tombstones: m.Deletes, RangeDeletes: m.RangeDels, FirstExpiry: m.MinExpiry,
		LastExpiry: m.MaxExpiry}
	if m.HasChecksum {
		t.Checksum = &m.Checksum
	}
	end := func(k base.InternalKey) (*string, *uint64, string) {
		key, seq := as.Format(k.User), uint64(k.Trailer.Seq())
		return &key, &seq, k.Trailer.Kind().String()
	}
	t.Smallest, t.SmallestSequence, t.SmallestKind = end(m.Smallest)
	t.Largest, t.LargestSequence, t.LargestKind = end(m.Largest)
	return t
}

// Text is the edit for eyes: a line with its offset, and one for each table.
func (e *Edit) Text() string {
	var parts []string
	add := func(format string, args ...any) {
		parts = append(parts, fmt.Sprintf(format, args...))
	}
	if e.FormatVersion > 0 {
		add("format version %d", e.FormatVersion)
	}
	if e.LevelDBBelow > 0 {
		add("files of LevelDB below %d", e.LevelDBBelow)
	}
	if e.MaxKeyspace != nil && *e.MaxKeyspace > 0 {
		add("largest keyspace %d", *e.MaxKeyspace)
	}
	if e.Keyspace > 0 {
		add("keyspace %d", e.Keyspace)
	}
	if e.NewKeyspace != "" {
		add("new keyspace %s", encode.Escape([]byte(e.NewKeyspace)))
	}
	if e.DropKeyspace {
		add("drop keyspace")
	}
	if e.Comparer != nil {
		add("comparer %s", encode.Escape([]byte(*e.Comparer)))
	}
	if e.DurableLog > 0 {
		add("durable up to %d of log %d", e.DurableEnd, e.DurableLog)
	}
	if e.Clock > 0 {
		add("clock %d", e.Clock)
	}
	if e.MergeOperator != "" {
		add("merge operator %s", encode.Escape([]byte(e.MergeOperator)))
	}
	for _, n := range []struct {
		name string
		of   *uint64
	}{{"log", e.Log}, {"first log", e.FirstLog}, {"next file", e.NextFile},
		{"last sequence", e.LastSequence}} {
		if n.of != nil {
			add("%s %d", n.name, *n.of)
		}
	}
	if e.PreviousLog != nil && *e.PreviousLog > 0 {
		add("previous log %d", *e.PreviousLog)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d\t%s\n", e.Offset, strings.Join(parts, ", "))
	for _, p := range e.Pointers {
		fmt.Fprintf(&b, "\t> L%d goes on at %s\n", p.Level, p.Key)
	}
	for _, t := range e.Deleted {
		fmt.Fprintf(&b, "\t- L%d %06d\n", t.Level, t.Number)
	}
	for _, t := range e.Added {
		fmt.Fprintf(&b, "\t+ L%d %06d  %s  %s .. %s\n", t.Level, t.Number, text.Bytes(*t.Bytes),
			*t.Smallest, *t.Largest)
	}
	return b.String()
}
