// Package batchrepr is the wire form of a write batch, which is also the
// payload of a log record (LevelDB's format):
//
//	sequence u64 | count u32 | entries
//	entry: kind 1, key, value  or  kind 0, key
//
// Integers are little-endian, keys and values are prefixed by a varint length.
// The sequence is that of the first entry; entry i has sequence + i.
//
// An entry of a keyspace other than the default has kind + 0x80 and the
// keyspace's ID as a varint before the key. LevelDB, goleveldb, RocksDB and
// Pebble have no such kinds and refuse the batch.
//
// Everything is a pure function over bytes. Any number of goroutines may read a batch
// that does not change.
package batchrepr

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"

	"github.com/loamdb/loam/internal/base"
)

// MaxLen bounds the length of a batch in bytes: a memtable addresses its entries with 32 bits.
const MaxLen = min(math.MaxUint32-1<<20, math.MaxInt)

// HeaderLen is the length of sequence and count.
const HeaderLen = 12

const kindName = "write batch"

// named is set in the kind byte of an entry that names its keyspace. Kinds are
// below it.
const named = 0x80

// Init makes dst an empty batch, keeping its memory.
func Init(dst []byte) []byte {
	return append(dst[:0], make([]byte, HeaderLen)...)
}

// AppendEntry adds an entry of a known kind and counts it in the header. b is of Init. The
// caller has checked that key and value are at most 4 GiB-1 long and that the count stays
// below 1<<32. A kind without a value takes none.
func AppendEntry(b []byte, keyspace base.KeyspaceID, kind base.Kind, key, value []byte) []byte {
	if keyspace == base.DefaultKeyspace {
		b = append(b, byte(kind))
	} else {
		b = binary.AppendUvarint(append(b, byte(kind)|named), uint64(keyspace))
	}
	b = base.AppendBytes(b, key)
	if kind.HasValue() {
		b = base.AppendBytes(b, value)
	}
	SetCount(b, Count(b)+1)
	return b
}

// AppendNamed adds an entry to a draft. Unlike AppendEntry it names the default keyspace,
// too.
func AppendNamed(b []byte, keyspace base.KeyspaceID, kind base.Kind, key, value []byte) []byte {
	if keyspace != base.DefaultKeyspace {
		return AppendEntry(b, keyspace, kind, key, value)
	}
	at := len(b)
	b = AppendEntry(append(b, 0), keyspace, kind, key, value)
	b[at], b[at+1] = b[at+1]|named, byte(base.DefaultKeyspace)
	return b
}

// Appender is AppendEntry or AppendNamed.
type Appender func(b []byte, keyspace base.KeyspaceID, kind base.Kind, key, value []byte) []byte

// AppendDraft adds to b the entries of a valid draft that is written to the keyspace home.
// add is AppendEntry, or AppendNamed if b is a draft, too. It reports false, with b as it
// was, when the count would not fit.
func AppendDraft(b, draft []byte, home base.KeyspaceID, add Appender) ([]byte, bool) {
	if uint64(Count(b))+uint64(Count(draft)) > math.MaxUint32 {
		return b, false
	}
	for it := ReadDraft(draft, home); ; {
		keyspace, kind, key, value, ok := it.Next()
		if !ok {
			return b, true
		}
		b = add(b, keyspace, kind, key, value)
	}
}

// AppendBatch adds all entries of src to b. It reports false, with b as it
// was, when the count would not fit.
func AppendBatch(b, src []byte) ([]byte, bool) {
	n := uint64(Count(b)) + uint64(Count(src))
	if n > math.MaxUint32 {
		return b, false
	}
	b = append(b, src[HeaderLen:]...)
	SetCount(b, uint32(n))
	return b, true
}

// Count reads the header's count.
func Count(b []byte) uint32 { return binary.LittleEndian.Uint32(b[8:HeaderLen]) }

// SetCount writes the header's count.
func SetCount(b []byte, n uint32) { binary.LittleEndian.PutUint32(b[8:HeaderLen], n) }

// Seq reads the header's sequence. It may exceed base.MaxSeqNum when the batch
// comes from a file and was not validated.
func Seq(b []byte) base.SeqNum { return base.SeqNum(binary.LittleEndian.Uint64(b)) }

// SetSeq writes the header's sequence.
func SetSeq(b []byte, s base.SeqNum) { binary.LittleEndian.PutUint64(b, uint64(s)) }

// Validate reports whether b is a whole batch: a header whose sequence numbers
// fit 56 bits, known kinds, lengths within b, the right count, and no bytes behind the
// last entry. Entries may name the keyspaces of which known is true. A nil known
// allows LevelDB's format only: its kinds, and no keyspaces. The error is a
// *base.Corruption with offsets relative to b, or base.ErrNewerFormat for an entry of a
// kind that the native format has and the engine does not know.
func Validate(b []byte, known func(base.KeyspaceID) bool) error {
	_, err := validate(b, known, false)
	return err
}

// ValidateDraft is Validate of a draft. Its entries may name the default keyspace, also if
// known is nil; neither a deadline nor a time to live is 0.
func ValidateDraft(b []byte, known func(base.KeyspaceID) bool) (Contents, error) {
	return validate(b, known, true)
}

// Contents says what entries a batch has.
type Contents struct {
	Kinds        Kinds
	Unnamed      bool // some name no keyspace
	NamesDefault bool // some name the default keyspace
}

// Kinds is a set of kinds: bit k is kind k.
type Kinds uint64

// Has reports whether a kind is in the set.
func (k Kinds) Has(kind base.Kind) bool { return k>>kind&1 != 0 }

// BeyondLevelDB is one of the kinds that LevelDB's format lacks, 0 if there are none.
func (k Kinds) BeyondLevelDB() base.Kind {
	k &^= 1<<base.KindDelete | 1<<base.KindSet
	if k == 0 {
		return 0
	}
	return base.Kind(bits.TrailingZeros64(uint64(k)))
}

func validate(b []byte, known func(base.KeyspaceID) bool, draft bool) (c Contents, err error) {
	if len(b) < HeaderLen {
		return c, corrupt(0, "%d bytes are too short for a header", len(b))
	}
	n := Count(b)
	if s := Seq(b); s > base.MaxSeqNum || base.SeqNum(n) > base.MaxSeqNum-s {
		return c, corrupt(0, "sequence %d with %d entries exceeds 56 bits", uint64(s), n)
	}
	it := Read(b)
	it.draft = draft
	seen := uint32(0)
	for {
		keyspace, kind, _, value, ok := it.Next()
		if !ok {
			break
		}
		if known == nil && (keyspace != base.DefaultKeyspace || !kind.InLevelDB()) {
			it.failed = badKind
			break
		}
		switch {
		case keyspace != base.DefaultKeyspace:
			if !known(keyspace) {
				return c, corrupt(int64(it.start), "unknown keyspace %d", keyspace)
			}
		case it.names():
			c.NamesDefault = true
		default:
			c.Unnamed = true
		}
		if !kind.InBatch() {
			return c, fmt.Errorf("%w: a batch with an entry of kind %d (%v)", base.ErrNewerFormat,
				uint8(kind), kind)
		}
		if kind == base.KindSetExpiring {
			_, deadline, ok := base.CutDeadline(value)
			if !ok || draft && deadline&^base.Relative == 0 {
				it.failed = badDeadline
				break
			}
		}
		c.Kinds |= 1 << kind
		seen++ // cannot wrap: an entry that is not counted stops the loop
		if seen > n {
			return c, corrupt(int64(it.start), "more entries than the %d of the header", n)
		}
	}
	if err := it.Err(); err != nil {
		return c, err
	}
	if seen != n {
		return c, corrupt(8, "header counts %d entries, found %d", n, seen)
	}
	return c, nil
}

func corrupt(offset int64, format string, args ...any) error {
	return base.Corruptf(kindName, format, args...).At("", offset, 0)
}

// Iter reads the entries of a batch without trusting it. It allocates nothing
// unless the batch is damaged.
type Iter struct {
	b      []byte
	pos    int
	start  int // of the entry last read, or the one that failed
	failed reason
	draft  bool // entries may name the default keyspace
}

type reason uint8

const (
	fine reason = iota
	badHeader
	badKind
	badKeyspace
	badKey
	badValue
	badDeadline
)

// Read begins an iteration over b.
func Read(b []byte) Iter {
	if len(b) < HeaderLen {
		return Iter{failed: badHeader}
	}
	return Iter{b: b, pos: HeaderLen}
}

// ReadAt is Read from the entry at offset pos, where an entry begins.
func ReadAt(b []byte, pos int) Iter { return Iter{b: b, pos: pos} }

// Next returns the next entry; key and value alias the batch, value is nil for
// a deletion. ok is false at the end and on damage, which Err tells apart.
func (it *Iter) Next() (keyspace base.KeyspaceID, kind base.Kind, key, value []byte, ok bool) {
	if it.pos >= len(it.b) || it.failed != fine {
		return 0, 0, nil, nil, false
	}
	it.start = it.pos
	kind = base.Kind(it.b[it.pos])
	pos := it.pos + 1
	if !kind.Known() {
		if kind, keyspace, pos = it.named(kind); pos < 0 {
			return 0, 0, nil, nil, false
		}
	}
	key, pos = it.cut(pos)
	if pos < 0 {
		it.failed = badKey
		return 0, 0, nil, nil, false
	}
	if kind.HasValue() {
		value, pos = it.cut(pos)
		if pos < 0 {
			it.failed = badValue
			return 0, 0, nil, nil, false
		}
	}
	it.pos = pos
	return keyspace, kind, key, value, true
}

// Pos is the offset in the batch behind the entry last read.
func (it *Iter) Pos() int { return it.pos }

// names reports whether the entry last read names its keyspace.
func (it *Iter) names() bool { return it.b[it.start]&named != 0 }

// named reads the keyspace of an entry that names one, and returns the position
// after it, or -1. Only a draft names the default keyspace: a logged entry has one form.
func (it *Iter) named(kind base.Kind) (base.Kind, base.KeyspaceID, int) {
	kind ^= named
	if !kind.Known() {
		it.failed = badKind
		return 0, 0, -1
	}
	id, w := base.Uvarint32(it.b[it.pos+1:])
	if w == 0 || base.KeyspaceID(id) == base.DefaultKeyspace && (!it.draft || w > 1) {
		it.failed = badKeyspace
		return 0, 0, -1
	}
	return kind, base.KeyspaceID(id), it.pos + 1 + w
}

// Draft reads the entries of a draft as Iter does those of a batch.
type Draft struct {
	it   Iter
	home base.KeyspaceID
}

// ReadDraft begins an iteration over b, which is written to the keyspace home.
func ReadDraft(b []byte, home base.KeyspaceID) Draft {
	d := Draft{it: Read(b), home: home}
	d.it.draft = true
	return d
}

// Next is Iter.Next. An entry that names no keyspace is on the one that ReadDraft got.
func (d *Draft) Next() (keyspace base.KeyspaceID, kind base.Kind, key, value []byte, ok bool) {
	keyspace, kind, key, value, ok = d.it.Next()
	if ok && !d.it.names() {
		keyspace = d.home
	}
	return keyspace, kind, key, value, ok
}

// Err is Iter.Err.
func (d *Draft) Err() error { return d.it.Err() }

// cut takes the string at pos and returns the position after it, -1 when it
// does not fit.
func (it *Iter) cut(pos int) ([]byte, int) {
	n, w := base.Uvarint32(it.b[pos:])
	pos += w
	if w == 0 || uint64(n) > uint64(len(it.b)-pos) {
		return nil, -1
	}
	end := pos + int(n)
	return it.b[pos:end:end], end
}

// Err is nil, or a *base.Corruption with offsets relative to the batch.
func (it *Iter) Err() error {
	switch it.failed {
	case fine:
		return nil
	case badHeader:
		return corrupt(0, "too short for a header")
	case badKind:
		return corrupt(int64(it.start), "unknown kind %d", it.b[it.start])
	case badKeyspace:
		return corrupt(int64(it.start), "keyspace malformed or the default one")
	case badDeadline:
		return corrupt(int64(it.start), "an operation that expires says not when")
	case badKey:
		return corrupt(int64(it.start), "key length malformed or beyond the end")
	}
	return corrupt(int64(it.start), "value length malformed or beyond the end")
}
