package base

import "fmt"

// Kind says what an entry does to its key. The engine asks what a kind is by the
// methods below, so that another kind is one more case in each of them.
type Kind uint8

// DO NOT CHANGE THESE VALUES: they are written to the log and to tables. Those
// that RocksDB has have its numbers.
const (
	KindDelete Kind = 0
	KindSet    Kind = 1

	// The native format holds these as well. The engine refuses kinds that are not Known.
	KindRangeDelete Kind = 15 // deletes from its key up to its value, exclusive
	KindMerge       Kind = 2  // an operand of a merge
	KindValueHandle Kind = 17 // a value that lies in a log, see ValueHandle; in tables only
	KindSetExpiring Kind = 48 // a value with a deadline, see CutDeadline
	// KindExpiringHandle is a value handle and, behind it, a deadline; in tables only.
	KindExpiringHandle Kind = 49

	// KindForSeek is above every kind and never stored. A lookup at sequence s
	// begins at (s, KindForSeek), which sorts before every entry of s. Kinds have
	// seven bits: memtables and batches use the eighth.
	KindForSeek Kind = 0x7f
)

// String is what an entry of this kind is, for errors.
func (k Kind) String() string {
	switch k {
	case KindDelete:
		return "delete"
	case KindSet:
		return "set"
	case KindMerge:
		return "merge"
	case KindRangeDelete:
		return "range delete"
	case KindValueHandle:
		return "value handle"
	case KindSetExpiring:
		return "value that expires"
	case KindExpiringHandle:
		return "value handle that expires"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Known reports whether the engine knows what to do with an entry of this kind. The native format
// has them all; any other kind in one of its files is damage.
func (k Kind) Known() bool {
	switch k {
	case KindDelete, KindSet, KindMerge, KindRangeDelete, KindValueHandle, KindSetExpiring,
		KindExpiringHandle:
		return true
	}
	return false
}

// InBatch reports whether a batch may have entries of this kind. The engine knows those that it
// may not have, but refuses them there.
func (k Kind) InBatch() bool { return k.Known() && !k.Refers() }

// IsPoint reports whether an entry of this kind is about its key alone. Others are kept
// apart: in a data block, or among the entries of a memtable, they are damage.
func (k Kind) IsPoint() bool { return k != KindRangeDelete }

// InLevelDB reports whether LevelDB's format has the kind. Any other in one of its
// logs or tables is damage, whatever the engine knows.
func (k Kind) InLevelDB() bool { return k == KindDelete || k == KindSet }

// IsTombstone reports whether an entry of this kind says that its key has no
// value.
func (k Kind) IsTombstone() bool { return k == KindDelete }

// HasValue reports whether an entry of this kind carries a value.
func (k Kind) HasValue() bool { return k != KindDelete }

// IsValue reports whether an entry of this kind gives its key a value, until it expires.
func (k Kind) IsValue() bool {
	switch k {
	case KindSet, KindValueHandle, KindSetExpiring, KindExpiringHandle:
		return true
	}
	return false
}

// GivesValue reports whether an entry of this kind may give its key a value, as operands do, too.
func (k Kind) GivesValue() bool { return k.IsPoint() && !k.IsTombstone() }

// EndsLookup reports whether an entry of this kind is the whole answer for its
// key: a read that sees it needs no older entry of the key. One that has expired says, as
// a tombstone does, that there is no value.
func (k Kind) EndsLookup() bool { return k.IsTombstone() || k.IsValue() }

// Expires reports whether the value of an entry of this kind ends with a deadline.
func (k Kind) Expires() bool { return k == KindSetExpiring || k == KindExpiringHandle }

// ExpiringKinds has a bit for each kind that Expires.
const ExpiringKinds = 1<<KindSetExpiring | 1<<KindExpiringHandle

// ReferringKinds has a bit for each kind that Refers.
const ReferringKinds = 1<<KindValueHandle | 1<<KindExpiringHandle

// Refers reports whether the value of an entry of this kind is a handle, see Handle.
func (k Kind) Refers() bool { return k == KindValueHandle || k == KindExpiringHandle }

// Handle is the handle in the value of an entry of a kind that Refers: all but a deadline.
func (k Kind) Handle(value []byte) []byte {
	if k == KindExpiringHandle {
		value, _, _ = CutDeadline(value)
	}
	return value
}

// Referring is the kind of an entry with a handle in the place of the value of one of this kind.
func (k Kind) Referring() Kind {
	if k == KindSetExpiring {
		return KindExpiringHandle
	}
	return KindValueHandle
}

// Whole is the kind of an entry with the value in the place of the handle of one of this kind.
func (k Kind) Whole() Kind {
	if k == KindExpiringHandle {
		return KindSetExpiring
	}
	return KindSet
}
