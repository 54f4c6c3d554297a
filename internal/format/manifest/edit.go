package manifest

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sort"
	"sync/atomic"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/foreign"
	"github.com/loamdb/loam/internal/format/record"
)

// NumLevels is how many levels a LevelDB tree has.
const NumLevels = 7

// maxTableSize bounds the sizes read from disk, in bytes: far beyond what a
// table can reach, and sums of them do not wrap.
const maxTableSize = 1 << 48

// Kinds named in Corruption errors.
const (
	kindEdit     = "manifest edit"
	kindManifest = "manifest"
)

// DO NOT CHANGE THESE VALUES: they are written to the MANIFEST (LevelDB's
// format). 8 was used for large values by unreleased LevelDBs.
const (
	tagComparer       = 1
	tagLogNum         = 2
	tagNextFile       = 3
	tagLastSeq        = 4
	tagCompactPointer = 5
	tagDeletedFile    = 6
	tagNewFile        = 7
	tagPrevLogNum     = 9
)

// DO NOT CHANGE THESE VALUES: they are written to native MANIFESTs. The numbers are
// ones that no other engine has.
const (
	tagVersion      = 1000
	tagKeyspace     = 1001
	tagNewKeyspace  = 1002
	tagDropKeyspace = 1003
	tagFirstLog     = 1004
	tagMaxKeyspace  = 1005
	tagFacts        = 1006
	tagLevelDBBelow = 1007
	tagDurable      = 1008
	tagMerge        = 1009
	tagClock        = 1010
)

// formatVersion is the newest version of the native format that this package reads, and the
// one that it writes.
const formatVersion = 1

// FileMeta describes one table. It is shared by every Version that has the
// table and must not be copied.
type FileMeta struct {
	Num  uint64
	Size uint64
	// Naming is how the file is named.
	Naming            base.TableNaming
	Smallest, Largest base.InternalKey
	// Comparer orders the table's keys; nil stands for that of the default keyspace.
	Comparer *base.Comparer
	// Stored says that all this was read from a MANIFEST, and that the table is one of Keyspace:
	// package files compares the file with it.
	Stored   bool
	Keyspace base.KeyspaceID
	// Unordered: the table was read from a MANIFEST, is of LevelDB's format, and was in level 0.
	// Other Unordered tables of level 0 may have newer entries and smaller numbers, or older ones
	// and larger numbers: the repairs of LevelDB and goleveldb put the tables of all levels into
	// level 0.
	Unordered bool

	// Facts are constant. Leftovers among them says that the table was written with
	// deletions, or with versions kept for snapshots, so that a compaction may find
	// something to drop in it. In LevelDB's format a table of an earlier opening has none.
	Facts
	// ValueLogs are the logs and value files that references of the table lead into, in the order
	// of their numbers: native only. ValueBytes is the sum of their Bytes. Constant, see
	// SetValueLogs.
	ValueLogs  []base.ValueLog
	ValueBytes uint64

	// Sample is of the table's keys. It is nil where equal keys may differ in bytes, for a
	// table of an earlier opening until it is opened, and always if that has none. Set once.
	Sample atomic.Pointer[base.KeySample]

	// Newest is a sequence number that no entry of the table is above, if the table was
	// written in this opening; 0: not known. It is not stored. Constant once the table is
	// in a version.
	Newest base.SeqNum

	// Level is where the table is, or is going to be. The opening of its reader goes by it.
	Level atomic.Int32
	// Opened belongs to package files: the open reader.
	Opened atomic.Value
	// Compacting belongs to the compaction bookkeeping: some compaction has
	// the file as an input.
	Compacting atomic.Bool

	born uint64 // id of the first Version with the file; guarded by Set.versions
}

// Name is the table's file name, without directory.
func (m *FileMeta) Name() string { return m.Naming.Name(m.Num) }

// OtherName is the name that the table's file may have instead, "" for none.
func (m *FileMeta) OtherName() string {
	switch m.Naming {
	case base.NamedLDB:
		return base.NamedSST.Name(m.Num)
	case base.NamedSST:
		return base.NamedLDB.Name(m.Num)
	}
	return ""
}

// EndsBefore reports whether all that the table holds is before key: its largest key may be
// the limit of a range tombstone, which is not deleted by it.
func (m *FileMeta) EndsBefore(c *base.Comparer, key []byte) bool {
	cmp := c.Cmp(m.Largest.User, key)
	return cmp < 0 || cmp == 0 && m.OpenEnd()
}

// OpenEnd reports whether the table holds nothing of its largest user key: that is the limit
// of a range tombstone.
func (m *FileMeta) OpenEnd() bool { return m.Largest.Trailer == base.RangeDelEnd }

// SetGlobalSeq gives all that is in an ingested table its sequence number.
func (m *FileMeta) SetGlobalSeq(seq base.SeqNum) {
	m.GlobalSeq = seq
	m.Smallest.Trailer = base.MakeTrailer(seq, m.Smallest.Trailer.Kind())
	if !m.OpenEnd() {
		m.Largest.Trailer = base.MakeTrailer(seq, m.Largest.Trailer.Kind())
	}
}

func (m *FileMeta) String() string {
	return fmt.Sprintf("%s [%q#%d .. %q#%d]", m.Name(),
		m.Smallest.User, m.Smallest.Trailer.Seq(), m.Largest.User, m.Largest.Trailer.Seq())
}

// CompactPointer is where the next compaction of a level starts.
type CompactPointer struct {
	Level int
	Key   base.InternalKey
}

// DeletedFile names a table that leaves a level.
type DeletedFile struct {
	Level int
	Num   uint64
}

// AddedFile is a table that enters a level.
type AddedFile struct {
	Level int
	Meta  *FileMeta
}

// KeyspaceNames is what a keyspace and its comparer are called.
type KeyspaceNames struct{ Name, Comparer string }

// Edit is one change of the set of tables: a record of the MANIFEST. Fields
// with a Has flag are absent unless it is set. Deletions come before additions:
// a table moves by being deleted from one level and added to another.
type Edit struct {
	// FormatVersion is the version of the native format. It stands at the beginning of a
	// native MANIFEST's first edit, and in no other one: 0.
	FormatVersion uint32
	// LevelDBBelow says that files with names of LevelDB's and smaller numbers are the
	// database's: an upgrade left them. It stands in a first edit only. 0: none.
	LevelDBBelow uint64
	// Durable is up to where the logs were known to be durable. Native only.
	Durable record.LogEnd
	// Clock is the newest time, in seconds since 1970, by which entries had expired. 0: it
	// does not say. Native only.
	Clock uint64
	// MaxKeyspace is the largest ID that was ever given out.
	MaxKeyspace    base.KeyspaceID
	HasMaxKeyspace bool
	// Keyspace is whose tables, compaction pointers and FirstLog the edit changes.
	Keyspace base.KeyspaceID
	// NewKeyspace, if set, says that the edit creates Keyspace.
	NewKeyspace *KeyspaceNames
	// DropKeyspace says that the edit drops Keyspace with all its tables.
	DropKeyspace  bool
	MergeOperator string // of Keyspace, by name; "": it does not change
	// FirstLog is the first log with entries of Keyspace that are not in tables:
	// recovery skips its entries in logs with smaller numbers. LogNum is the first
	// log that any keyspace needs.
	FirstLog        uint64
	HasFirstLog     bool
	Comparer        string // of the default keyspace
	HasComparer     bool
	LogNum          uint64 // logs with smaller numbers are no longer needed
	HasLogNum       bool
	PrevLogNum      uint64 // 0, or one more log needed; only LevelDB before 1.3 set it
	HasPrevLogNum   bool
	NextFile        uint64
	HasNextFile     bool
	LastSeq         base.SeqNum
	HasLastSeq      bool
	CompactPointers []CompactPointer
	Deleted         []DeletedFile
	Added           []AddedFile
}

// SetComparer sets the comparer's name.
func (e *Edit) SetComparer(name string) { e.Comparer, e.HasComparer = name, true }

// SetLogNum sets the number of the oldest log needed.
func (e *Edit) SetLogNum(n uint64) { e.LogNum, e.HasLogNum = n, true }

// SetPrevLogNum sets the number of the one older log needed, or 0.
func (e *Edit) SetPrevLogNum(n uint64) { e.PrevLogNum, e.HasPrevLogNum = n, true }

// SetFirstLog sets the number of the first log that the keyspace needs.
func (e *Edit) SetFirstLog(n uint64) { e.FirstLog, e.HasFirstLog = n, true }

// SetNextFile sets the next file number to hand out.
func (e *Edit) SetNextFile(n uint64) { e.NextFile, e.HasNextFile = n, true }

// SetLastSeq sets the last sequence number used.
func (e *Edit) SetLastSeq(s base.SeqNum) { e.LastSeq, e.HasLastSeq = s, true }

// Delete takes a table out of a level.
func (e *Edit) Delete(level int, num uint64) {
	e.Deleted = append(e.Deleted, DeletedFile{level, num})
}

// Add puts a table into a level.
func (e *Edit) Add(level int, m *FileMeta) { e.Added = append(e.Added, AddedFile{level, m}) }

// Encode appends the record: what the native format adds first, then fields in the
// order in which LevelDB writes them.
func (e *Edit) Encode(dst []byte, format base.Format) []byte {
	dst = e.encodeNative(dst)
	if e.HasComparer {
		dst = appendString(append(dst, tagComparer), e.Comparer)
	}
	dst = appendField(dst, e.HasLogNum, tagLogNum, e.LogNum)
	dst = appendField(dst, e.HasPrevLogNum, tagPrevLogNum, e.PrevLogNum)
	dst = appendField(dst, e.HasNextFile, tagNextFile, e.NextFile)
	dst = appendField(dst, e.HasLastSeq, tagLastSeq, uint64(e.LastSeq))
	for _, c := range e.CompactPointers {
		dst = binary.AppendUvarint(append(dst, tagCompactPointer), uint64(c.Level))
		dst = appendKey(dst, c.Key)
	}
	deleted := e.Deleted
	byLevel := func(i, j int) bool {
		a, b := &deleted[i], &deleted[j]
		return a.Level < b.Level || a.Level == b.Level && a.Num < b.Num
	}
	if !sort.SliceIsSorted(deleted, byLevel) {
		deleted = slices.Clone(deleted)
		sort.Slice(deleted, byLevel)
	}
	for _, d := range deleted {
		dst = binary.AppendUvarint(append(dst, tagDeletedFile), uint64(d.Level))
		dst = binary.AppendUvarint(dst, d.Num)
	}
	for _, a := range e.Added {
		dst = binary.AppendUvarint(append(dst, tagNewFile), uint64(a.Level))
		dst = binary.AppendUvarint(dst, a.Meta.Num)
		dst = binary.AppendUvarint(dst, a.Meta.Size)
		dst = appendKey(dst, a.Meta.Smallest)
		dst = appendKey(dst, a.Meta.Largest)
		if format == base.Native {
			dst = a.Meta.Facts.encode(binary.AppendUvarint(dst, tagFacts), a.Meta.ValueLogs)
		}
	}
	return dst
}

func (e *Edit) encodeNative(dst []byte) []byte {
	dst = appendField(dst, e.FormatVersion != 0, tagVersion, uint64(e.FormatVersion))
	dst = appendField(dst, e.LevelDBBelow != 0, tagLevelDBBelow, e.LevelDBBelow)
	if e.Durable.Num != 0 {
		dst = appendField(dst, true, tagDurable, e.Durable.Num)
		dst = binary.AppendUvarint(dst, uint64(e.Durable.End))
	}
	dst = appendField(dst, e.Clock != 0, tagClock, e.Clock)
	dst = appendField(dst, e.HasMaxKeyspace, tagMaxKeyspace, uint64(e.MaxKeyspace))
	dst = appendField(dst, e.Keyspace != base.DefaultKeyspace, tagKeyspace, uint64(e.Keyspace))
	if k := e.NewKeyspace; k != nil {
		dst = appendString(appendString(binary.AppendUvarint(dst, tagNewKeyspace), k.Name),
			k.Comparer)
	}
	if e.DropKeyspace {
		dst = binary.AppendUvarint(dst, tagDropKeyspace)
	}
	dst = appendField(dst, e.HasFirstLog, tagFirstLog, e.FirstLog)
	if e.MergeOperator != "" {
		dst = appendString(binary.AppendUvarint(dst, tagMerge), e.MergeOperator)
	}
	return dst
}

// appendField appends the field of a number, if it is there.
func appendField(dst []byte, there bool, tag, v uint64) []byte {
	if !there {
		return dst
	}
	return binary.AppendUvarint(binary.AppendUvarint(dst, tag), v)
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func appendKey(dst []byte, k base.InternalKey) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(k.User)+base.TrailerLen))
	return base.AppendInternalKey(dst, k.User, k.Trailer)
}

// Decode replaces e by the record b, which is of a MANIFEST of that format; it keeps
// nothing of b. It fails with *base.Corruption, with an error that is
// base.ErrNotADatabase when a tag shows that another engine wrote the record, or with
// one that is base.ErrNewerFormat.
func (e *Edit) Decode(b []byte, format base.Format) error {
	*e = Edit{}
	c := cursor{Cutter: base.Cutter{B: b}}
	for len(c.B) > 0 {
		tag := c.Uvarint32()
		if c.Bad {
			return base.Corruptf(kindEdit, "malformed tag")
		}
		if tag >= tagVersion && tag <= tagClock {
			if format != base.Native {
				return fmt.Errorf("%w: the MANIFEST is a native one (tag %d) in a LevelDB "+
					"directory", base.ErrNotADatabase, tag)
			}
			newer := e.decodeNative(tag, &c)
			if c.Bad {
				return base.Corruptf(kindEdit, "version, keyspace, name, file number or facts "+
					"(tag %d): malformed, out of range, there twice or out of place", tag)
			}
			if newer {
				return fmt.Errorf("%w: a table needs a field of the MANIFEST that this Loam does "+
					"not know", base.ErrNewerFormat)
			}
			if e.FormatVersion > formatVersion {
				return fmt.Errorf("%w: the directory has version %d of the native format, this "+
					"Loam reads up to %d", base.ErrNewerFormat, e.FormatVersion, formatVersion)
			}
		} else if e.decodeField(tag, &c); c.Bad {
			return fieldError(tag)
		}
	}
	return e.checkKeyspace()
}

// decodeNative is decodeField for the tags of the native format. newer says that a table needs a
// field that is not known.
func (e *Edit) decodeNative(tag uint32, c *cursor) (newer bool) {
	switch tag {
	case tagVersion:
		c.Need(e.FormatVersion == 0)
		e.FormatVersion = c.Uvarint32()
		c.Need(e.FormatVersion != 0)
	case tagMaxKeyspace:
		c.Need(!e.HasMaxKeyspace)
		e.MaxKeyspace, e.HasMaxKeyspace = base.KeyspaceID(c.Uvarint32()), true
	case tagKeyspace:
		c.Need(e.Keyspace == base.DefaultKeyspace)
		e.Keyspace = base.KeyspaceID(c.Uvarint32())
		c.Need(e.Keyspace != base.DefaultKeyspace)
	case tagNewKeyspace:
		c.Need(e.NewKeyspace == nil)
		e.NewKeyspace = &KeyspaceNames{Name: string(c.Sized()), Comparer: string(c.Sized())}
	case tagDropKeyspace:
		e.DropKeyspace = true
	case tagFirstLog:
		e.SetFirstLog(c.fileNum())
	case tagLevelDBBelow:
		c.Need(e.LevelDBBelow == 0)
		e.LevelDBBelow = c.fileNum()
		c.Need(e.LevelDBBelow != 0)
	case tagDurable:
		c.Need(e.Durable.Num == 0)
		e.Durable = record.LogEnd{Num: c.fileNum(), End: int64(c.fileNum())}
		c.Need(e.Durable.Num != 0)
	case tagClock:
		c.Need(e.Clock == 0)
		e.Clock = c.Uvarint()
		c.Need(e.Clock != 0 && e.Clock <= base.MaxDeadline)
	case tagMerge:
		c.Need(e.MergeOperator == "")
		e.MergeOperator = string(c.Sized())
		c.Need(e.MergeOperator != "")
	case tagFacts: // of the table before
		if c.Need(c.table != nil); !c.Bad {
			newer = c.table.decodeFacts(c)
			c.table = nil
		}
	}
	return newer
}

// checkKeyspace refuses what an edit of a keyspace cannot say.
func (e *Edit) checkKeyspace() error {
	why := ""
	switch {
	case e.Keyspace == base.DefaultKeyspace && (e.NewKeyspace != nil || e.DropKeyspace):
		why = "creates or drops the default keyspace"
	case e.Keyspace != base.DefaultKeyspace && e.HasComparer:
		why = "names the comparer of the default keyspace in another one"
	case e.DropKeyspace && (e.NewKeyspace != nil || e.HasFirstLog || e.MergeOperator != "" ||
		len(e.Deleted)+len(e.Added)+len(e.CompactPointers) > 0):
		why = "changes a keyspace that it drops"
	default:
		return nil
	}
	return base.Corruptf(kindEdit, "%s", why)
}

// decodeField reads the field of a tag. A field that is malformed or unknown makes c Bad.
func (e *Edit) decodeField(tag uint32, c *cursor) {
	switch tag {
	case tagComparer:
		e.SetComparer(string(c.Sized()))
	case tagLogNum:
		e.SetLogNum(c.fileNum())
	case tagPrevLogNum:
		e.SetPrevLogNum(c.fileNum())
	case tagNextFile:
		e.SetNextFile(c.fileNum())
	case tagLastSeq:
		e.SetLastSeq(base.SeqNum(c.Uvarint()))
		c.Need(e.LastSeq <= base.MaxSeqNum)
	case tagCompactPointer:
		if level, key := c.level(), c.key(); !c.Bad {
			e.CompactPointers = append(e.CompactPointers, CompactPointer{level, key.Clone()})
		}
	case tagDeletedFile:
		if level, num := c.level(), c.fileNum(); !c.Bad {
			e.Delete(level, num)
		}
	case tagNewFile:
		if a := c.newFile(); !c.Bad {
			e.Added = append(e.Added, a)
			c.table = a.Meta
		}
	default:
		c.Bad = true
	}
}

func fieldError(tag uint32) error {
	switch tag {
	case tagComparer:
		return base.Corruptf(kindEdit, "comparer name (tag 1) runs past the record")
	case tagLogNum, tagPrevLogNum, tagNextFile:
		return base.Corruptf(kindEdit, "file number (tag %d) is malformed or out of range", tag)
	case tagLastSeq:
		return base.Corruptf(kindEdit, "last sequence (tag 4) is malformed or above 56 bits")
	case tagCompactPointer, tagDeletedFile, tagNewFile:
		return base.Corruptf(kindEdit, "level, number, size or key (tag %d) is malformed or out "+
			"of range", tag)
	}
	if err := foreign.CheckTag(tag); err != nil {
		return err
	}
	return base.Corruptf(kindEdit, "unknown tag %d", tag)
}

// cursor cuts fields off the front of a record. One that is out of range makes it Bad, too.
type cursor struct {
	base.Cutter
	table *FileMeta // the last one added, unless its facts were read
}

func (c *cursor) fileNum() uint64 {
	v := c.Uvarint()
	c.Need(v <= base.MaxFileNum)
	return v
}

func (c *cursor) level() int {
	v := c.Uvarint32()
	c.Need(v < NumLevels)
	return int(v)
}

// key returns an internal key that aliases the record.
func (c *cursor) key() base.InternalKey {
	k, ok := base.DecodeInternalKey(c.Sized())
	c.Need(ok)
	return k
}

func (c *cursor) newFile() AddedFile {
	level, num, size := c.level(), c.fileNum(), c.Uvarint()
	smallest, largest := c.key(), c.key()
	c.Need(size <= maxTableSize)
	// Both keys share one allocation.
	keys := make([]byte, 0, len(smallest.User)+len(largest.User))
	keys = append(append(keys, smallest.User...), largest.User...)
	n := len(smallest.User)
	return AddedFile{Level: level, Meta: &FileMeta{
		Num: num, Size: size,
		Smallest: base.InternalKey{User: keys[:n:n], Trailer: smallest.Trailer},
		Largest:  base.InternalKey{User: keys[n:], Trailer: largest.Trailer},
	}}
}
