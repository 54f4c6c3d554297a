package lsm

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
)

func TestPanicInComparerEndsWrites(t *testing.T) {
	bad := false
	cmp := &Comparer{Name: "test.panics", EqualIsBytewise: false, Compare: func(a, b []byte) int {
		if bad {
			panic("comparer")
		}
		return bytes.Compare(a, b)
	}}
	db := mustOpen(t, "db", &Options{FS: vfs.NewMem(), Comparer: cmp})
	putKeys(t, db, 10)
	bad = true
	if _, err := db.Get(key(1), nil); !errors.Is(err, ErrReadOnly) ||
		!strings.Contains(err.Error(), "comparer") {
		t.Fatalf("%v", err)
	}
	bad = false
	if err := db.Put(key(1), nil, NoSync); !errors.Is(err, ErrReadOnly) {
		t.Fatalf("put after the panic: %v", err)
	}
	wantValue(t, db, 1)
	mustClose(t, db)
}
