package facts

import (
	"fmt"
	"path/filepath"

	"github.com/loamdb/loam/cmd/loam/internal/encode"
	"github.com/loamdb/loam/cmd/loam/internal/text"
	"github.com/loamdb/loam/internal/feature/examine"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/lsm"
)

// Info is what the verb info says.
type Info struct {
	Directory     string     `json:"directory"`
	Format        string     `json:"format"`
	Manifest      string     `json:"manifest"`
	ManifestBytes int64      `json:"manifest_bytes"`
	Edits         int        `json:"edits"`
	TornEnd       string     `json:"torn_end,omitempty"`
	LastSequence  uint64     `json:"last_sequence"`
	NextFile      uint64     `json:"next_file"`
	Logs          []Log      `json:"logs"`
	Tables        int        `json:"tables"`
	TableBytes    uint64     `json:"table_bytes"`
	Keyspaces     []Keyspace `json:"keyspaces"`
}

// Log is a write-ahead log.
type Log struct {
	File  string `json:"file"`
	Bytes int64  `json:"bytes"`
	// Counted says that the log was read. Its entries are those of whole batches; some may be in
	// tables already.
	Counted bool   `json:"counted"`
	Entries uint64 `json:"entries,omitempty"`
}

// Keyspace is what the MANIFEST says of a keyspace.
type Keyspace struct {
	Name          string  `json:"name"`
	ID            uint32  `json:"id"`
	Comparer      string  `json:"comparer"`
	MergeOperator string  `json:"merge_operator,omitempty"`
	Tables        int     `json:"tables"`
	Bytes         uint64  `json:"bytes"`
	Counted       bool    `json:"counted"` // all tables say how many entries they have
	Entries       uint64  `json:"entries,omitempty"`
	Tombstones    uint64  `json:"tombstones,omitempty"`
	RangeDeletes  uint64  `json:"range_deletes,omitempty"`
	Levels        []Level `json:"levels"`
}

// Level is a level of a keyspace.
type Level struct {
	Level  int    `json:"level"`
	Tables int    `json:"tables"`
	Bytes  uint64 `json:"bytes"`
}

// spaceOfState adds up what the MANIFEST says of a keyspace.
func spaceOfState(s *manifest.KeyspaceState) Keyspace {
	x := Keyspace{Name: NameOf(s), ID: uint32(s.ID), Comparer: s.Comparer,
		MergeOperator: s.MergeOperator, Counted: true}
	for level := range manifest.NumLevels {
		x.Levels = append(x.Levels, Level{Level: level})
	}
	for _, f := range s.Files {
		l := &x.Levels[f.Level]
		l.Tables++
		l.Bytes += f.Meta.Size
		x.Tables++
		x.Bytes += f.Meta.Size
		x.Entries += f.Meta.Entries
		x.Tombstones += f.Meta.Deletes
		x.RangeDeletes += f.Meta.RangeDels
		if f.Meta.Entries == 0 && f.Meta.RangeDels == 0 {
			x.Counted = false
		}
	}
	return x
}

// readLogs bounds what InfoOf reads of logs, in bytes, so that it takes the same time whatever the
// size.
const readLogs = 128 << 20

// count adds up the batches of the log, of which *left bytes may be read at most. ok is false if
// it has more than that, or cannot be read.
func (l *Log) count(d *examine.Directory, left *int64) (ok bool, err error) {
	_, format, num := examine.Kind(l.File)
	t, err := examine.FollowLog(d.FS(), filepath.Join(d.Path, l.File), format, num)
	if err != nil {
		// A log that was deleted meanwhile, and what is no regular file, has no entries to count.
		return false, nil
	}
	defer t.Close()
	n := uint64(0)
	for *left >= 0 {
		b, more, err := t.Next()
		if err != nil {
			return false, err
		}
		if !more || b.Damage != nil {
			l.Entries = n
			return true, nil
		}
		n += uint64(b.Count)
		*left -= b.Length
	}
	return false, nil
}

// InfoOf reads what the MANIFEST in dir says, and the logs.
func InfoOf(fsys lsm.FS, dir string) (*Info, error) {
	d, err := examine.Open(fsys, dir)
	if err != nil {
		return nil, err
	}
	st := &d.State
	x := &Info{Directory: d.Path, Format: d.Format.String(), Manifest: d.Manifest,
		ManifestBytes: d.ManifestSize, Edits: st.Edits, LastSequence: uint64(st.LastSeq),
		NextFile: st.NextFile, Logs: []Log{}}
	if d.Torn != nil {
		x.TornEnd = d.Torn.Error()
	}
	logs, err := d.Logs()
	if err != nil {
		return nil, err
	}
	left := int64(readLogs)
	for _, l := range logs {
		y := Log{File: l.Name, Bytes: l.Size}
		if y.Counted, err = y.count(d, &left); err != nil {
			return nil, err
		}
		x.Logs = append(x.Logs, y)
	}
	for _, s := range st.Keyspaces() {
		space := spaceOfState(s)
		x.Tables += space.Tables
		x.TableBytes += space.Bytes
		x.Keyspaces = append(x.Keyspaces, space)
	}
	return x, nil
}

// Props is the sum of the properties that the tables of a keyspace store.
type Props struct {
	Keyspace     string  `json:"keyspace"`
	Tables       int     `json:"tables"`
	Bytes        uint64  `json:"bytes"`
	Entries      uint64  `json:"entries"`
	Tombstones   uint64  `json:"tombstones"`
	RangeDeletes uint64  `json:"range_deletes"`
	KeyBytes     uint64  `json:"key_bytes"`
	ValueBytes   uint64  `json:"value_bytes"`
	Ratio        float64 `json:"compression_ratio"`
	Blocks       int     `json:"blocks"`
	FilterBits   int     `json:"filter_bits"`
	// Silent counts the tables without properties: LevelDB wrote them.
	Silent int `json:"silent_tables"`
}

// Add adds the table in a file of a directory.
func (x *Props) Add(d *examine.Directory, file string) error {
	t, err := d.OpenTable(file)
	if t != nil {
		defer t.Close()
	}
	if err != nil {
		return err
	}
	p := t.Props
	x.Tables++
	x.Bytes += uint64(t.Size())
	x.Entries += p.Entries
	x.Tombstones += p.Deletes
	x.RangeDeletes += p.RangeDels
	x.KeyBytes += UserKeyBytes(&p)
	x.ValueBytes += p.RawValues
	x.Blocks += p.Blocks
	x.FilterBits = max(x.FilterBits, p.FilterBits)
	if p.Entries == 0 && p.RangeDels == 0 {
		x.Silent++
	}
	return nil
}

// LogsText is the number of logs, with the sums of their bytes and entries, for eyes.
func (x *Info) LogsText() string {
	bytes, entries, counted := uint64(0), uint64(0), true
	for _, l := range x.Logs {
		bytes, entries, counted = bytes+uint64(l.Bytes), entries+l.Entries, counted && l.Counted
	}
	line := fmt.Sprintf("%d, %s", len(x.Logs), text.Bytes(bytes))
	switch {
	case len(x.Logs) == 0:
		return line
	case !counted:
		return line + ", more than " + text.Count(entries) + " entries"
	}
	return line + ", " + text.Count(entries) + " entries"
}

// Pairs are the lines that show the sum.
func (x *Props) Pairs() (p text.Pairs) {
	p.Add("keyspace", "%s", encode.Escape([]byte(x.Keyspace)))
	p.Add("tables", "%s, %s", text.Count(x.Tables), text.Bytes(x.Bytes))
	if x.Silent > 0 {
		p.Add("silent", "%s without properties, left out below", text.Plural(x.Silent, "table"))
	}
	if x.Silent == x.Tables && x.Tables > 0 {
		return p
	}
	p.Add("entries", "%s", text.Count(x.Entries))
	p.Add("tombstones", "%s, %s of ranges", text.Count(x.Tombstones), text.Count(x.RangeDeletes))
	p.Add("keys", "%s", text.Bytes(x.KeyBytes))
	p.Add("values", "%s", text.Bytes(x.ValueBytes))
	if x.Ratio > 0 {
		p.Add("compression", "%.2f to 1", x.Ratio)
	}
	p.Add("filter", "%d bits per key", x.FilterBits)
	return p
}
