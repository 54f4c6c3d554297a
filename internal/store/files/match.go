package files

import (
	"bytes"
	"fmt"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/sstable"
)

// Match fails with a *base.Corruption if the table that r reads is not the one that the MANIFEST
// has as m: a file has the name of another one. c orders its keys. The properties
// suffice for a table that holds its own number, which OpenTable compares, or a checksum. Other
// tables are LevelDB's and those that older versions wrote outside a database: their first and last
// keys are read as well.
func Match(m *manifest.FileMeta, c *base.Comparer, r sstable.Reader) error {
	p := r.Props()
	native := p.Format == base.Native.String()
	outside := m.GlobalSeq > 0
	switch {
	case !native && (m.HasChecksum || outside):
		return another("it is in LevelDB's format")
	case native && p.Outside && !outside:
		return another("it was written outside of the database")
	case native && !p.Outside && outside:
		return another("it was not written outside of the database")
	case m.Entries != 0 && p.Entries != 0 && m.Entries != p.Entries:
		return another(fmt.Sprintf("it has %d entries, not %d", p.Entries, m.Entries))
	case m.Kinds != 0 && p.Kinds&^m.Kinds != 0:
		return another("it has entries of other kinds")
	case m.HasChecksum && p.Recorded != 0 && m.Checksum != p.Recorded:
		return another("its checksum is different")
	case native && p.Comparer != c.Name:
		return another(fmt.Sprintf("its comparer is %.200q, not %.200q", p.Comparer, c.Name))
	case native && (!outside || p.KeyspaceName != "") && p.Keyspace != m.Keyspace:
		return another(fmt.Sprintf("it is of keyspace %d, not %d", p.Keyspace, m.Keyspace))
	case native && (!outside || p.Recorded != 0):
		return nil
	}
	return matchKeys(m, c, r)
}

// another is the error for a file that is not the table of the MANIFEST.
func another(why string) error {
	return &base.Corruption{Offset: -1, Kind: "table file", Final: true,
		Reason: "the MANIFEST has another table: " + why}
}

// matchKeys compares the first and the last key of the table with those of the MANIFEST, which has
// no trailers of the file if the table has a sequence number from there.
func matchKeys(m *manifest.FileMeta, c *base.Comparer, r sstable.Reader) error {
	src := r.NewSource(0)
	defer src.Close()
	var e base.Chunk
	i, err := src.First(&e)
	if err != nil {
		return err
	}
	start, limit := r.RangeDels().Ends()
	first, last, outside := start, limit, m.GlobalSeq > 0
	if i >= 0 {
		key, t := e.Key(i), e.Trailers[i]
		if start == nil || c.Cmp(key, start) <= 0 {
			first = bytes.Clone(key)
			if !outside && t != m.Smallest.Trailer {
				return another("it begins with another entry")
			}
		}
		if i, err = src.Last(&e); err != nil {
			return err
		}
		key, t = e.Key(i), e.Trailers[i]
		if limit == nil || c.Cmp(key, limit) >= 0 {
			last = key
			if !outside && t != m.Largest.Trailer {
				return another("it ends with another entry")
			}
		}
	}
	switch {
	case first == nil:
		return another("it has no entries")
	case c.Cmp(first, m.Smallest.User) != 0:
		return another(fmt.Sprintf("it begins with key %s, not %s", preview(first),
			preview(m.Smallest.User)))
	case c.Cmp(last, m.Largest.User) != 0:
		return another(fmt.Sprintf("it ends with key %s, not %s", preview(last),
			preview(m.Largest.User)))
	}
	return nil
}

// preview is a key for an error, at most its first bytes.
func preview(key []byte) string { return fmt.Sprintf("%.32q", key) }
