// Package base holds what every floor of the engine speaks: internal keys,
// comparers, errors, file names, codings and the internal iterator contract.
//
// Everything here is a value or a pure function and safe for concurrent use.
package base

import (
	"encoding/binary"
	"math"
)

// SeqNum orders all writes of a database. It has 56 bits.
type SeqNum uint64

// MaxSeqNum is the largest number that fits. No write gets it.
const MaxSeqNum SeqNum = 1<<56 - 1

// LastSeqNum is the largest sequence number of a write: a point read at it sees everything. One at
// MaxSeqNum would end in a table whose largest key is that of the read with RangeDelEnd.
const LastSeqNum = MaxSeqNum - 1

// MaxEntry bounds the length of a key and its value together, in bytes. A batch of one such entry
// and what belongs to it fits into a memtable, which addresses its entries with 32 bits.
const MaxEntry = min(math.MaxUint32-2<<20, math.MaxInt)

// EntryFits reports whether a key and its value are within MaxEntry.
func EntryFits(key, value []byte) bool {
	return len(key) <= MaxEntry && len(value) <= MaxEntry-len(key)
}

// Trailer is sequence<<8 | kind: the last eight bytes of an internal key.
type Trailer uint64

// TrailerLen is the encoded length of a Trailer.
const TrailerLen = 8

// MaxTrailer sorts before every entry of the same user key.
const MaxTrailer = Trailer(uint64(MaxSeqNum)<<8 | uint64(KindForSeek))

// RangeDelEnd is the trailer of a table's largest key that is the limit of a range tombstone:
// no entry has it, and it sorts before every entry of the key, which is not in the table. A
// search at a sequence number below MaxSeqNum looks behind it.
const RangeDelEnd = Trailer(uint64(MaxSeqNum)<<8 | uint64(KindRangeDelete))

// MakeTrailer joins a sequence number and a kind.
func MakeTrailer(s SeqNum, k Kind) Trailer { return Trailer(s)<<8 | Trailer(k) }

// Seq returns the sequence number.
func (t Trailer) Seq() SeqNum { return SeqNum(t >> 8) }

// Kind returns the kind, which may be unknown when the trailer comes from a file.
func (t Trailer) Kind() Kind { return Kind(t & 0xff) }

// InternalKey is a user key with its trailer. Internal order: user key
// ascending, then trailer descending (newest first).
type InternalKey struct {
	User    []byte
	Trailer Trailer
}

// AppendInternalKey appends the encoded form: user key, trailer little-endian.
func AppendInternalKey(dst, user []byte, t Trailer) []byte {
	dst = append(dst, user...)
	return binary.LittleEndian.AppendUint64(dst, uint64(t))
}

// DecodeInternalKey splits an encoded internal key; the user key aliases b.
// It reports false when b is too short to hold a trailer.
func DecodeInternalKey(b []byte) (InternalKey, bool) {
	n := len(b) - TrailerLen
	if n < 0 {
		return InternalKey{}, false
	}
	return InternalKey{User: b[:n:n], Trailer: Trailer(binary.LittleEndian.Uint64(b[n:]))}, true
}

// Clone returns a copy that shares no memory with k. Its user key is not nil: a nil key is no bound
// in many places, and a comparer may have the empty key between others.
func (k InternalKey) Clone() InternalKey {
	return InternalKey{User: append([]byte{}, k.User...), Trailer: k.Trailer}
}

// CompareInternal compares in internal order.
func (c *Comparer) CompareInternal(a []byte, at Trailer, b []byte, bt Trailer) int {
	if r := c.Cmp(a, b); r != 0 {
		return r
	}
	switch {
	case at > bt:
		return -1
	case at < bt:
		return 1
	}
	return 0
}
