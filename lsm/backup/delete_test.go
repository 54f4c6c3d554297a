package backup_test

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/lsm"
)

// objects lists the names of the objects in a folder.
func objects(t *testing.T, fsys vfs.FS, dir string) []string {
	t.Helper()
	names, err := fsys.List(filepath.Join(dir, "data"))
	must(t, err)
	return names
}

// TestDeletionFails: of the backups before the one whose deletion fails, nothing is left, and the
// others are whole.
func TestDeletionFails(t *testing.T) {
	mem := vfs.NewMem()
	renames, failing := 0, 0
	fsys := vfs.NewFault(mem, func(op vfs.Op) (out vfs.Outcome) {
		if op.Kind == vfs.OpRename && strings.HasSuffix(op.Name, ".backup") {
			if renames++; renames == failing {
				out.Err = syscall.EIO
			}
		}
		return out
	})
	db := mustOpen(t, "db", small(mem))
	f := mustFolder(t, "backups", fsys)
	const n = 5
	for i := range n { // each has objects that no other has
		fill(t, db, i*500, (i+1)*500)
		must(t, db.CompactRange(nil, nil))
		mustCreate(t, f, db)
	}
	before := len(objects(t, mem, "backups"))
	renames, failing = 0, 3
	if err := f.Keep(1); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	list := wantBackups(t, f, n-2)
	kept := map[uint64]bool{}
	for _, info := range list {
		kept[info.ID] = true
	}
	if !kept[n] {
		t.Errorf("the newest one is gone: %+v", list)
	}
	if after := len(objects(t, mem, "backups")); after >= before {
		t.Errorf("%d objects before, %d after", before, after)
	}
	must(t, f.Keep(1))
	wantBackups(t, f, 1)
	if got := len(objects(t, mem, "backups")); got != list[len(list)-1].Files {
		t.Errorf("%d objects, of %+v", got, list[len(list)-1])
	}
	must(t, f.Close())
	must(t, db.Close())
}

// TestDeletionWithEffect: a deletion whose rename fails although it took effect leaves no backup in
// the list that is not there, also if what the rename did cannot be told; another deletion goes on.
func TestDeletionWithEffect(t *testing.T) {
	for _, told := range []bool{true, false} {
		mem := vfs.NewMem()
		failing, blind := false, false
		fsys := vfs.NewFault(mem, func(op vfs.Op) (out vfs.Outcome) {
			switch {
			case !strings.HasSuffix(op.Name, ".backup"):
			case op.Kind == vfs.OpRename && failing:
				out.Err, out.Done = syscall.EIO, true
				failing, blind = false, !told
			case op.Kind == vfs.OpStat && blind:
				out.Err = syscall.EIO
				blind = false
			}
			return out
		})
		db := mustOpen(t, "db", small(mem))
		f := mustFolder(t, "backups", fsys)
		for i := range 3 {
			fill(t, db, i*500, (i+1)*500)
			must(t, db.CompactRange(nil, nil))
			mustCreate(t, f, db)
		}
		failing = true
		if err := f.Delete(1); errors.Is(err, syscall.EIO) == told {
			t.Errorf("told %t: %v", told, err)
		}
		if !told {
			must(t, f.Delete(1))
		}
		wantBackups(t, f, 2)
		if err := f.Delete(1); !errors.Is(err, lsm.ErrDoesNotExist) {
			t.Error(err)
		}
		must(t, f.Verify(ctx, 2, nil))
		failing = true
		if err := f.Keep(1); errors.Is(err, syscall.EIO) == told {
			t.Errorf("told %t: %v", told, err)
		}
		must(t, f.Keep(1))
		wantBackups(t, f, 1)
		must(t, f.Verify(ctx, 3, nil))
		if !told { // objects may be left until the folder is opened again
			must(t, f.Close())
			f = mustFolder(t, "backups", fsys)
		}
		list := wantBackups(t, f, 1)
		if got := len(objects(t, mem, "backups")); got != list[0].Files {
			t.Errorf("told %t: %d objects, of %+v", told, got, list[0])
		}
		if info := mustCreate(t, f, db); info.ID != 4 {
			t.Errorf("%+v", info)
		}
		must(t, f.Close())
		must(t, db.Close())
	}
}

// TestNumberAfterAFailure: no number is given out twice, although the newest backup is deleted
// after the creation of another one failed.
func TestNumberAfterAFailure(t *testing.T) {
	mem := vfs.NewMem()
	failing := false
	fsys := vfs.NewFault(mem, func(op vfs.Op) (out vfs.Outcome) {
		if failing && op.Kind == vfs.OpRename && filepath.Dir(op.Name) == "backups" {
			out.Err = syscall.EIO
		}
		return out
	})
	db := mustOpen(t, "db", small(mem))
	f := mustFolder(t, "backups", fsys)
	mustCreate(t, f, db)
	last := mustCreate(t, f, db)
	failing = true
	if _, err := f.Create(ctx, db, nil); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	failing = false
	must(t, f.Delete(last.ID))
	must(t, f.Close())
	f = mustFolder(t, "backups", fsys)
	if info := mustCreate(t, f, db); info.ID <= last.ID {
		t.Errorf("backup %d again", info.ID)
	}
	must(t, f.Keep(0))
	must(t, f.Close())
	f = mustFolder(t, "backups", fsys)
	if info := mustCreate(t, f, db); info.ID <= last.ID+1 {
		t.Errorf("backup %d again", info.ID)
	}
	must(t, f.Close())
	must(t, db.Close())
}

// TestReplacedCatalog: a catalog that another one replaced while the folder is open takes no
// objects with it that other backups need.
func TestReplacedCatalog(t *testing.T) {
	for _, stranger := range []bool{false, true} {
		mem := vfs.NewMem()
		db, foreign := mustOpen(t, "db", small(mem)), mustOpen(t, "foreign", small(mem))
		fill(t, db, 0, 1000)
		fill(t, foreign, 0, 300)
		must(t, db.CompactRange(nil, nil))
		must(t, foreign.CompactRange(nil, nil))
		f := mustFolder(t, "backups", mem)
		mustCreate(t, f, db)
		mustCreate(t, f, db)
		of := db // the catalog that comes has tables of backup 2
		if stranger {
			of = foreign
		}
		other := mustFolder(t, "others", mem)
		mustCreate(t, other, of)
		must(t, other.Close())
		replace(t, mem, "others/000001.backup", "backups/000001.backup")
		must(t, f.Delete(1))
		wantBackups(t, f, 1)
		must(t, f.Restore(ctx, 2, "copy", nil))
		has(t, "copy", mem, 1000)
		must(t, f.Close())
		f = mustFolder(t, "backups", mem)
		list := wantBackups(t, f, 1)
		if got := len(objects(t, mem, "backups")); got != list[0].Files {
			t.Errorf("%d objects, of %+v", got, list[0])
		}
		if _, err := f.Create(ctx, db, nil); err != nil {
			t.Error(err)
		}
		if err := f.Delete(1); !errors.Is(err, lsm.ErrDoesNotExist) {
			t.Error(err)
		}
		must(t, f.Close())
		must(t, db.Close())
		must(t, foreign.Close())
	}
}

// replace writes the bytes of one file into another one's place.
func replace(t *testing.T, fsys vfs.FS, from, to string) {
	t.Helper()
	b := tree(t, fsys, filepath.Dir(from))[filepath.Base(from)]
	if b == nil {
		t.Fatalf("%s is not there", from)
	}
	must(t, fsys.Remove(to))
	w, err := fsys.Create(to)
	must(t, err)
	_, err = w.Write(b)
	must(t, errors.Join(err, w.Sync(), w.Close()))
}
