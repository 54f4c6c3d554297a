package lsm

import (
	"bytes"
	"errors"
	"sync"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/seed"
)

func TestBatchMayExceedTheWriteBuffer(t *testing.T) {
	db := mustOpen(t, t.TempDir(), small(Options{}))
	defer db.Close()
	b := NewBatch()
	for i := range 20_000 { // several times the write buffer
		b.Put(key(i), value(i))
	}
	if err := db.Write(b, Sync); err != nil {
		t.Fatal(err)
	}
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<17) // 2 MiB
	if err := db.Put([]byte("big"), big, NoSync); err != nil {
		t.Fatal(err)
	}
	check := func() {
		t.Helper()
		wantValues(t, db, 20_000)
		if v, err := db.Get([]byte("big"), nil); err != nil || !bytes.Equal(v, big) {
			t.Fatalf("%d bytes, %v", len(v), err)
		}
	}
	check()
	mustCompact(t, db)
	check()
}

func TestReadersSeeWholeValuesBesideWriters(t *testing.T) {
	db := mustOpen(t, "db", small(Options{FS: vfs.NewMem()}))
	writers, per := 4, seed.Scale(seed.Brief(400, 1000), 2000, 5000)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Add(2)
		go func() {
			defer wg.Done()
			for i := range per {
				if err := db.Put(key(w*per+i), value(w*per+i), WriteMode(i%64/63)); err != nil {
					t.Error(err)
					return
				}
			}
		}()
		go func() {
			defer wg.Done()
			for i := range per {
				v, err := db.Get(key(w*per+i), nil)
				if err == nil && !bytes.Equal(v, value(w*per+i)) || err != nil &&
					!errors.Is(err, ErrNotFound) {
					t.Errorf("%q %v", v, err)
					return
				}
			}
		}()
	}
	wg.Wait()
	for i := range writers * per {
		wantValue(t, db, i)
	}
	mustClose(t, db)
}
