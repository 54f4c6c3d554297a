package model

import (
	"bytes"
	"fmt"
	"slices"
	"sort"

	"github.com/loamdb/loam/internal/base"
)

// Entry is one version of a key, as memtables and tables hold it.
type Entry struct {
	Key, Value []byte
	Trailer    base.Trailer
}

// Fold is a comparer that takes upper and lower case for equal: distinct
// spellings are one key.
var Fold = &base.Comparer{
	Name:    "test.Fold",
	Compare: func(a, b []byte) int { return bytes.Compare(bytes.ToLower(a), bytes.ToLower(b)) },
}

// LengthFirst is a comparer that orders keys by length, then bytes: what holds for
// orders by bytes does not hold for it.
var LengthFirst = &base.Comparer{
	Name: "test.LengthFirst",
	Compare: func(a, b []byte) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return bytes.Compare(a, b)
	},
	EqualIsBytewise: true,
}

// Set is the entry that gives key a value.
func Set(key string, seq base.SeqNum, value string) Entry {
	return Entry{[]byte(key), []byte(value), base.MakeTrailer(seq, base.KindSet)}
}

// Tombstone is the entry that deletes key.
func Tombstone(key string, seq base.SeqNum) Entry {
	return Entry{[]byte(key), nil, base.MakeTrailer(seq, base.KindDelete)}
}

// Internal is the internal key.
func (e Entry) Internal() base.InternalKey {
	return base.InternalKey{User: e.Key, Trailer: e.Trailer}
}

// String is "key#seq=value" for a set, "key#seq-" for a tombstone, and
// "key#seq,kind=value" for any other kind.
func (e Entry) String() string {
	switch e.Trailer.Kind() {
	case base.KindSet:
		return fmt.Sprintf("%s#%d=%s", e.Key, e.Trailer.Seq(), e.Value)
	case base.KindDelete:
		return fmt.Sprintf("%s#%d-", e.Key, e.Trailer.Seq())
	}
	return fmt.Sprintf("%s#%d,%d=%s", e.Key, e.Trailer.Seq(), e.Trailer.Kind(), e.Value)
}

// Equal reports whether two entries are the same, byte for byte.
func (e Entry) Equal(o Entry) bool {
	return e.Trailer == o.Trailer && bytes.Equal(e.Key, o.Key) && bytes.Equal(e.Value, o.Value)
}

// Sort brings entries into internal order: keys ascend, the newest version of
// a key comes first.
func Sort(cmp *base.Comparer, es []Entry) {
	sort.SliceStable(es, func(i, j int) bool {
		return cmp.CompareInternal(es[i].Key, es[i].Trailer, es[j].Key, es[j].Trailer) < 0
	})
}

// SortUnique is Sort that drops all entries but the first of the same internal key,
// as a table must not have two.
func SortUnique(cmp *base.Comparer, es []Entry) []Entry {
	Sort(cmp, es)
	return slices.CompactFunc(es, func(a, b Entry) bool {
		return cmp.CompareInternal(a.Key, a.Trailer, b.Key, b.Trailer) == 0
	})
}

// Search returns the index of the first of the sorted entries at or after the
// internal key.
func Search(cmp *base.Comparer, es []Entry, key []byte, t base.Trailer) int {
	return sort.Search(len(es), func(i int) bool {
		return cmp.CompareInternal(es[i].Key, es[i].Trailer, key, t) >= 0
	})
}

// Chunk returns the sorted entries as a source hands them out. AllLiveSets
// holds where it can.
func Chunk(cmp *base.Comparer, es []Entry) base.Chunk {
	c := base.Chunk{AllLiveSets: true, Data: []byte("??")} // offsets do not begin at 0
	for i, e := range es {
		c.KeyOff = append(c.KeyOff, uint32(len(c.Data)))
		c.Data = append(c.Data, e.Key...)
		c.ValOff = append(c.ValOff, uint32(len(c.Data)))
		c.Data = append(c.Data, e.Value...)
		c.ValEnd = append(c.ValEnd, uint32(len(c.Data)))
		c.Trailers = append(c.Trailers, e.Trailer)
		c.MaxSeq = max(c.MaxSeq, e.Trailer.Seq())
		if e.Trailer.Kind() != base.KindSet || i > 0 && cmp.Compare(e.Key, es[i-1].Key) == 0 {
			c.AllLiveSets = false
		}
	}
	return c
}
