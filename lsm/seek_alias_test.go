package lsm

import (
	"bytes"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
)

// TestKeysInWhatIsShown looks for keys that lie where the iterator, PinnedValue or MultiResult has
// what it shows, and is about to give up: it finds what it finds by copies of them.
func TestKeysInWhatIsShown(t *testing.T) {
	const n = 3000
	next := func(i int) int { return i * 7919 % n } // the key that is the value of key i
	for _, format := range []Format{FormatNative, FormatLevelDB} {
		for _, size := range []int64{-1, 20 << 10} {
			o := small(Options{FS: vfs.NewMem(), Format: format, BlockSize: 512, Mmap: MmapOff})
			o.CacheSize, o.MaxFileSize = size, 64<<10
			db := mustOpen(t, "db", o)
			for i := range n {
				must(t, db.Put(key(i), key(next(i)), NoSync))
			}
			mustFlush(t, db)
			mustCompact(t, db)
			tx := db.Begin(&TxnOptions{Isolation: Serializable})
			want := func(what string, i int, got []byte, err error) {
				t.Helper()
				if err != nil || !bytes.Equal(got, key(i)) {
					t.Fatalf("%v, cache %d, %s: %s, not %s; %v", format, size, what, got, key(i),
						err)
				}
			}
			for _, it := range []*Iterator{db.Iter(nil), tx.Iter(nil)} {
				it.First()
				it.Next()
				for i, at := 0, next(1); i < n; i, at = i+1, next(at) {
					it.SeekGE(it.Value())
					want("SeekGE of a value", at, it.Key(), it.Err())
				}
				it.Last()
				for i := n - 2; i >= 0; i-- {
					it.SeekLT(it.Key())
					want("SeekLT of a key", i, it.Key(), it.Err())
				}
				must(t, it.Close())
			}
			for _, get := range []func([]byte, *PinnedValue) error{db.GetPinned, tx.GetPinned} {
				var v PinnedValue
				must(t, get(key(1), &v))
				for i, at := 0, next(1); i < n; i, at = i+1, next(at) {
					err := get(v.Bytes(), &v)
					want("GetPinned", next(at), v.Bytes(), err)
				}
				v.Release()
			}
			var r MultiResult
			must(t, db.MultiGet([][]byte{key(1), key(2), key(3)}, &r))
			for i, at := 0, [3]int{next(1), next(2), next(3)}; i < n; i++ {
				a, _ := r.Value(0)
				b, _ := r.Value(1)
				c, _ := r.Value(2)
				err := db.MultiGet([][]byte{c, b, a}, &r)
				at = [3]int{next(at[2]), next(at[1]), next(at[0])}
				for i := range at {
					got, _ := r.Value(i)
					want("MultiGet", at[i], got, err)
				}
			}
			must(t, tx.Rollback())
			mustClose(t, db)
		}
	}
}
