package base

// Kind says what an entry does to its key. The engine asks what a kind is by the
// methods below, so that another kind is one more case in each of them.
type Kind uint8

// DO NOT CHANGE THESE VALUES: they are written to the log and to tables
// (LevelDB's format). Kinds to come are taken from RocksDB where it has them: 2 a
// merge operand, 15 a range tombstone, 17 the handle of a value that lies
// elsewhere. Until then these are unknown like all others.
const (
	KindDelete Kind = 0
	KindSet    Kind = 1

	// KindForSeek is above every kind and never stored. A lookup at sequence s
	// begins at (s, KindForSeek), which sorts before every entry of s. Kinds have
	// seven bits: memtables and batches use the eighth.
	KindForSeek Kind = 0x7f
)

// Known reports whether the engine knows what to do with an entry of this kind.
// Any other in a file is damage.
func (k Kind) Known() bool {
	switch k {
	case KindDelete, KindSet:
		return true
	}
	return false
}

// InLevelDB reports whether LevelDB's format has the kind. Any other in one of its
// logs or tables is damage, whatever the engine knows.
func (k Kind) InLevelDB() bool {
	switch k {
	case KindDelete, KindSet:
		return true
	}
	return false
}

// IsTombstone reports whether an entry of this kind says that its key has no
// value.
func (k Kind) IsTombstone() bool { return k == KindDelete }

// HasValue reports whether an entry of this kind carries a value.
func (k Kind) HasValue() bool { return k == KindSet }

// EndsLookup reports whether an entry of this kind is the whole answer for its
// key: a read that sees it needs no older entry of the key.
func (k Kind) EndsLookup() bool {
	switch k {
	case KindDelete, KindSet:
		return true
	}
	return false
}
