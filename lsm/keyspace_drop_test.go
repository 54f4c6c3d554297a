package lsm

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/fstest"
	"github.com/loamdb/loam/internal/testkit/hang"
)

// fullSpace is a database whose keyspace "full" takes no further write without a flush, while no
// table can be made.
type fullSpace struct {
	*DB
	full          *Keyspace
	tables, wrote fstest.Gate // shut: no table is created; no append to a log returns
}

func newFullSpace(t *testing.T) *fullSpace {
	d := &fullSpace{}
	fsys := vfs.NewFault(vfs.NewMem(), func(op vfs.Op) vfs.Outcome {
		switch typ := fstest.TypeOf(op.Name); {
		case op.Kind == vfs.OpCreate && typ == base.FileTable:
			d.tables.Pass()
		case op.Kind == vfs.OpAppend && typ == base.FileLog:
			d.wrote.Pass()
		}
		return vfs.Outcome{}
	})
	d.DB = mustOpen(t, "db", &Options{FS: fsys, WriteBufferSize: 64 << 10, MaxMemtables: 2,
		MaxMemtableBytes: 64 << 20})
	var err error
	d.full, err = d.Keyspace("full", nil)
	must(t, err)
	d.tables.Shut()
	for err = nil; err == nil; {
		err = d.put(NoStall)
	}
	if !errors.Is(err, ErrBusy) {
		t.Fatal(err)
	}
	return d
}

func (d *fullSpace) put(mode WriteMode) error {
	return d.full.Put([]byte("key"), make([]byte, 4<<10), mode)
}

// TestDropBesideGroup drops a keyspace while a group waits for room in its memtable: the writes of
// the group into other keyspaces are done, and the others count as written before the drop.
func TestDropBesideGroup(t *testing.T) {
	needsNative(t)
	synctest.Test(t, func(t *testing.T) {
		d := newFullSpace(t)
		errs := make(chan error, 5)
		call := func(f func() error) {
			go func() { errs <- f() }()
			synctest.Wait()
		}
		d.wrote.Shut()
		call(func() error { return d.Put(key(0), value(0), NoSync) })
		call(func() error { return d.put(NoSync) })
		call(func() error { return d.Put(key(1), value(1), NoSync) })
		call(func() error {
			b := NewBatch()
			b.Put(key(2), value(2))
			b.In(d.full).Put(key(2), value(2))
			return d.Write(b, NoSync)
		})
		d.wrote.Open()
		synctest.Wait() // the group waits for a flush
		call(func() error { return d.DropKeyspace("full") })
		d.tables.Open()
		hang.Within(t, "the writes", func() {
			for range cap(errs) {
				if err := <-errs; err != nil {
					t.Error(err)
				}
			}
		})
		wantValues(t, d.DB, 3)
		mustClose(t, d.DB)
	})
}
