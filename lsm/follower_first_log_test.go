package lsm

import (
	"os"
	"testing"
)

// TestFollowerOfFirstLog follows a database of Chromium whose MANIFEST records no log yet, before
// and after another opening writes to it.
func TestFollowerOfFirstLog(t *testing.T) {
	dir := t.TempDir()
	must(t, os.CopyFS(dir, os.DirFS("../testdata/users/localstorage")))
	count := func(db *DB) (n int) {
		var err error
		for range db.All(nil, nil, &err) {
			n++
		}
		must(t, err)
		return n
	}
	f, err := OpenFollower(dir, nil)
	must(t, err)
	defer f.Close()
	followed := count(f.DB)
	db, err := Open(dir, nil)
	must(t, err)
	if n := count(db); n == 0 || followed != n {
		t.Errorf("a follower has %d keys, of %d", followed, n)
	}
	must(t, db.Put([]byte("another"), nil, NoSync))
	must(t, f.CatchUp(t.Context()))
	if n := count(f.DB); n != followed+1 {
		t.Errorf("a follower has %d keys after another one, %d before", n, followed)
	}
	must(t, db.Close())
}
