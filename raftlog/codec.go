package raftlog

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
	"github.com/loamdb/loam/lsm"
)

// Keys. All are in the default keyspace; the first byte says what the key is of.
//
//	'f'                      the version of this encoding, one byte; its key marks a Raft log
//	'l' index                an entry; the index is 8 bytes, big-endian
//	's' key                  a value of the StableStore
const (
	versionKey  = "f"
	entryPrefix = 'l'
	stableByte  = 's'

	version = 1
)

// keyLen is the length of the key of an entry.
const keyLen = 1 + 8

// appendKey appends the key of an entry.
func appendKey(dst []byte, index uint64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, entryPrefix), index)
}

// keyOf is the key of an entry.
func keyOf(index uint64) []byte { return appendKey(make([]byte, 0, keyLen), index) }

// behind is the first key after that of an entry, also where index+1 would overflow.
func behind(index uint64) []byte { return append(appendKey(make([]byte, 0, keyLen+1), index), 0) }

func indexOf(key []byte) (uint64, error) {
	if len(key) != keyLen || key[0] != entryPrefix {
		return 0, fmt.Errorf("raftlog: %q is no key of an entry: %w", key, lsm.ErrCorruption)
	}
	return binary.BigEndian.Uint64(key[1:]), nil
}

// The value of an entry:
//
//	1 byte    flags: hasTime, hasExtensions
//	1 byte    raft.LogType
//	uvarint   term
//	uvarint   the commit index that was staged when the entry was stored, 0: none
//	varint, uvarint      with hasTime: AppendedAt, seconds since 1970 and nanoseconds
//	uvarint, bytes       with hasExtensions: their length, and they
//	the rest  Data
const (
	hasTime = 1 << iota
	hasExtensions
)

// maxHeader bounds what the value of an entry has besides Extensions and Data.
const maxHeader = 2 + 5*binary.MaxVarintLen64

// appendHeader appends all of an entry's value but Data.
func appendHeader(dst []byte, l *raft.Log, commit uint64) []byte {
	flags := byte(0)
	if !l.AppendedAt.IsZero() {
		flags |= hasTime
	}
	if len(l.Extensions) > 0 {
		flags |= hasExtensions
	}
	dst = append(dst, flags, byte(l.Type))
	dst = binary.AppendUvarint(dst, l.Term)
	dst = binary.AppendUvarint(dst, commit)
	if flags&hasTime != 0 {
		dst = binary.AppendVarint(dst, l.AppendedAt.Unix())
		dst = binary.AppendUvarint(dst, uint64(l.AppendedAt.Nanosecond()))
	}
	if flags&hasExtensions != 0 {
		dst = binary.AppendUvarint(dst, uint64(len(l.Extensions)))
		dst = append(dst, l.Extensions...)
	}
	return dst
}

// decode fills l from the value of an entry, which it keeps, and returns the commit index.
func decode(l *raft.Log, index uint64, value []byte) (commit uint64, err error) {
	r := reader{rest: value}
	flags := r.byte()
	*l = raft.Log{Index: index, Type: raft.LogType(r.byte()), Term: r.uvarint()}
	commit = r.uvarint()
	if flags&hasTime != 0 {
		seconds := r.varint()
		l.AppendedAt = time.Unix(seconds, int64(r.uvarint())).UTC()
	}
	if flags&hasExtensions != 0 {
		l.Extensions = r.bytes(r.uvarint())
	}
	if r.bad || flags&^(hasTime|hasExtensions) != 0 {
		return 0, fmt.Errorf("raftlog: the value of entry %d is malformed: %w", index,
			lsm.ErrCorruption)
	}
	if len(r.rest) > 0 {
		l.Data = r.rest
	}
	return commit, nil
}

// reader takes fields from a value; bad is set once one is missing, and the rest is empty then.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) bytes(n uint64) []byte {
	if n > uint64(len(r.rest)) {
		r.rest, r.bad = nil, true
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) byte() byte {
	if b := r.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	r.skip(n)
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.rest)
	r.skip(n)
	return v
}

func (r *reader) skip(n int) {
	if n <= 0 {
		r.rest, r.bad = nil, true
		return
	}
	r.rest = r.rest[n:]
}
