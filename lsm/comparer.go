package lsm

import (
	"errors"
	"strings"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/options"
)

// Comparer orders the keys of a database or a keyspace. Its functions must be pure and safe
// for concurrent use, and must not keep or change their arguments.
type Comparer struct {
	// Name is stored: a database opens only with the comparer that it was created with. Required.
	Name string
	// Compare returns a value below, equal to or above 0 for a below, equal to or above b.
	// Required.
	Compare func(a, b []byte) int
	// Separator appends to dst a short key k with a <= k < b, for a < b. nil: a itself.
	Separator func(dst, a, b []byte) []byte
	// Successor appends to dst a short key k >= a. nil: a itself.
	Successor func(dst, a []byte) []byte
	// EqualIsBytewise says that keys which compare as equal are the same bytes. The default is
	// false: then there are no filters and no hash index.
	EqualIsBytewise bool
	// Interrupted is for a Compare that takes a process-wide lock, such as an interpreter's: with
	// it, as many comparisons as possible run on the goroutines that call the database, and few in
	// the background. It reports whether, since its last call, a comparison on the calling
	// goroutine asked for an early end. The default, nil, lets every goroutine compare.
	Interrupted func() bool
}

// BytewiseComparer is the default order, that of bytes: LevelDB's "leveldb.BytewiseComparator".
var BytewiseComparer *Comparer = (*Comparer)(base.Bytewise)

// ReverseBytewiseComparer orders keys by descending bytes: "rocksdb.ReverseBytewiseComparator".
var ReverseBytewiseComparer *Comparer = (*Comparer)(base.ReverseBytewise)

// IndexedDBComparer is Chrome's order of IndexedDB keys ("idb_cmp1").
var IndexedDBComparer *Comparer = (*Comparer)(base.IndexedDB)

// usable reports why c cannot be a comparer.
func (c *Comparer) usable() error {
	if c == nil || c.Name == "" || c.Compare == nil {
		return base.Invalidf("a Comparer needs Name and Compare")
	}
	return nil
}

// comparerField is an option that takes a comparer by its name.
func comparerField(c **Comparer) options.Named {
	return options.Pointer(c, BytewiseComparer.Name, func(c *Comparer) string { return c.Name },
		func(name string) (*Comparer, error) {
			found, names := base.ComparerNamed(name)
			if found == nil {
				return nil, errors.New("want one of " + strings.Join(names, ", ") +
					", or set Options.Comparer")
			}
			return (*Comparer)(found), nil
		})
}
