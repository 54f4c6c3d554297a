package base

import "unsafe"

// Lookup is what a point read asks for: the newest entry of a user key whose
// sequence number is at most Seq.
//
// It has four words, so that the compiler keeps it in registers from call to
// call. With a slice for the key it would have five and live in memory, which
// makes a Get of a cached block a tenth slower.
type Lookup struct {
	key string // the caller's bytes
	// Hash is the hash of the key that the structure searched is built on, 0 where
	// the comparer's equality is not bytewise. Tables, whose hashes are on disk,
	// take MakeLookup's; memtables, whose hashes are seeded by the process, take
	// that of memtable.MakeLookup.
	Hash uint64
	Seq  SeqNum
}

// MakeLookup makes a Lookup for tables. It aliases key.
func MakeLookup(c *Comparer, key []byte, seq SeqNum) (l Lookup) {
	l = HashedLookup(key, 0, seq)
	if c.EqualIsBytewise {
		l.Hash = Hash(key)
	}
	return l
}

// HashedLookup makes a Lookup with this hash. It aliases key.
func HashedLookup(key []byte, hash uint64, seq SeqNum) Lookup {
	return Lookup{unsafe.String(unsafe.SliceData(key), len(key)), hash, seq}
}

// Key is the user key.
func (l Lookup) Key() []byte { return unsafe.Slice(unsafe.StringData(l.key), len(l.key)) }

// Trailer sorts before every entry of the key that the Lookup may find, and after
// those that are too new.
func (l Lookup) Trailer() Trailer { return MakeTrailer(l.Seq, KindForSeek) }
