package files

import (
	"errors"
	"io/fs"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/hang"
)

// newSet makes a Set in /db of a fresh memory file system behind hook.
func newSet(t *testing.T, hook func(op vfs.Op) vfs.Outcome) (*Set, *vfs.Mem, func() []error) {
	t.Helper()
	mem := vfs.NewMem()
	if err := mem.MkdirAll("/db"); err != nil {
		t.Fatal(err)
	}
	var fsys vfs.FS = mem
	if hook != nil {
		fsys = vfs.NewFault(mem, hook)
	}
	var mu sync.Mutex
	var errs []error
	s := New(Options{FS: fsys, Dir: "/db", OnError: func(err error) {
		mu.Lock()
		errs = append(errs, err)
		mu.Unlock()
	}})
	return s, mem, func() []error {
		mu.Lock()
		defer mu.Unlock()
		return errs
	}
}

func touch(t *testing.T, fsys vfs.FS, names ...string) {
	t.Helper()
	for _, name := range names {
		w, err := fsys.Create(filepath.Join("/db", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func exists(fsys vfs.FS, name string) bool {
	_, err := fsys.Stat(filepath.Join("/db", name))
	return err == nil
}

func TestDeleteQueue(t *testing.T) {
	s, mem, errs := newSet(t, nil)
	touch(t, mem, "000001.log", "MANIFEST-000002", "000003.ldb", "000004.sst", "000005.ldb",
		"CURRENT")
	s.DeleteFile("000001.log")
	s.DeleteFile("MANIFEST-000002")
	s.DeleteFile("000077.log") // gone already: no failure
	s.Obsolete(&manifest.FileMeta{Num: 3, Size: 1 << 40})
	s.Obsolete(&manifest.FileMeta{Num: 4}) // under its old name
	s.Obsolete(&manifest.FileMeta{Num: 5, Naming: base.NamedSST})
	s.WaitDeleted()
	left, err := mem.List("/db")
	if err != nil || strings.Join(left, " ") != "CURRENT" {
		t.Errorf("left: %v, %v", left, err)
	}
	if len(errs()) > 0 {
		t.Errorf("reported: %v", errs())
	}
	if st := s.Stats(); st.Pending != 0 || st.Failed != 0 || st.Deleted != 6 {
		t.Errorf("%+v", st)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// A name that no database file has is refused: nothing outside goes.
func TestDeleteRefusesStrangeNames(t *testing.T) {
	s, mem, errs := newSet(t, nil)
	touch(t, mem, "notes.txt")
	s.DeleteFile("../db/notes.txt")
	s.DeleteFile("notes.txt")
	s.WaitDeleted()
	if !exists(mem, "notes.txt") || len(errs()) != 2 {
		t.Errorf("exists %v, reported %v", exists(mem, "notes.txt"), errs())
	}
	_ = s.Close()
}

// What could not be deleted is reported once and tried again with the next.
func TestDeleteFailureIsRemembered(t *testing.T) {
	var failing atomic.Bool
	failing.Store(true)
	s, mem, errs := newSet(t, func(op vfs.Op) vfs.Outcome {
		if op.Kind == vfs.OpRemove && failing.Load() {
			return vfs.Outcome{Err: syscall.EIO}
		}
		return vfs.Outcome{}
	})
	touch(t, mem, "000001.log", "000002.log", "000003.log")
	s.DeleteFile("000001.log")
	s.WaitDeleted()
	s.DeleteFile("000002.log")
	s.WaitDeleted()
	if e := errs(); len(e) != 2 || !errors.Is(e[0], syscall.EIO) {
		t.Fatalf("reported: %v", e)
	}
	if st := s.Stats(); st.Failed != 2 || st.Pending != 0 {
		t.Fatalf("%+v", st)
	}
	failing.Store(false)
	s.DeleteFile("000003.log")
	s.WaitDeleted()
	if left, _ := mem.List("/db"); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	if st := s.Stats(); st.Failed != 0 || st.Deleted != 3 {
		t.Errorf("%+v", st)
	}
	_ = s.Close()
}

func TestObsoleteWaitsForGuards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, mem, _ := newSet(t, nil)
		touch(t, mem, "000001.ldb")
		g := s.o.Reads.Enter()
		s.Obsolete(&manifest.FileMeta{Num: 1})
		time.Sleep(time.Minute)
		synctest.Wait()
		if !exists(mem, "000001.ldb") {
			t.Error("deleted under a guard")
		}
		g.Exit()
		s.WaitDeleted()
		if exists(mem, "000001.ldb") {
			t.Error("not deleted")
		}
		_ = s.Close()
	})
}

// After Leave nothing is deleted or opened in the directory, whatever becomes
// obsolete later; what could be deleted before is.
func TestLeave(t *testing.T) {
	mem := vfs.NewMem()
	s, c := tableSet(t, mem, "/db")
	read, shut := writeTable(t, s, 1), writeTable(t, s, 2)
	for _, m := range []*manifest.FileMeta{read, shut} {
		if err := get(s, m, 1); err != nil {
			t.Fatal(err)
		}
	}
	r, _ := s.Reader(shut)
	for shut.Opened.Load().(*table).file.state.Load()&fileOpen != 0 {
		if !descriptors.closeIdle() {
			t.Fatal("the descriptor stays open")
		}
	}
	if err := get(s, read, 150); err != nil {
		t.Fatal(err)
	}
	touch(t, mem, "000007.log", "000008.log", "000009.ldb")
	s.DeleteFile("000007.log")
	s.Leave()
	if exists(mem, "000007.log") {
		t.Error("what was waiting is not deleted")
	}
	s.DeleteFile("000008.log")
	s.Obsolete(&manifest.FileMeta{Num: 9})
	s.WaitDeleted()
	for _, name := range []string{"000008.log", "000009.ldb"} {
		if !exists(mem, name) {
			t.Errorf("%s was deleted after Leave", name)
		}
	}
	if err := get(s, read, 250); err != nil {
		t.Errorf("a reader with an open descriptor: %v", err)
	}
	k := key(2, 250)
	if _, _, _, err := r.Get(base.MakeLookup(base.Bytewise, k, base.MaxSeqNum), 0,
		nil); !errors.Is(err, base.ErrClosed) {
		t.Errorf("a reader that would open its file again: %v", err)
	}
	if _, err := s.Reader(writeTable(t, s, 3)); !errors.Is(err, base.ErrClosed) {
		t.Errorf("opening a table: %v", err)
	}
	closeSet(t, s, c)
}

// Leave returns when the deletion under way has ended, and gives up the rest,
// if the disk is slow.
func TestLeaveOnSlowDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		removing, release := make(chan struct{}, 100), make(chan struct{})
		s, mem, _ := newSet(t, func(op vfs.Op) vfs.Outcome {
			if op.Kind == vfs.OpRemove {
				removing <- struct{}{}
				<-release
			}
			return vfs.Outcome{}
		})
		touch(t, mem, "000001.log", "000002.log", "000003.log")
		for _, name := range []string{"000001.log", "000002.log", "000003.log"} {
			s.DeleteFile(name)
		}
		<-removing
		left := make(chan struct{})
		go func() {
			s.queue.close(0)
			close(left)
		}()
		synctest.Wait()
		select {
		case <-left:
			t.Error("Leave returned beside a deletion")
		default:
		}
		close(release)
		<-left
		if exists(mem, "000001.log") || !exists(mem, "000002.log") || !exists(mem, "000003.log") {
			t.Error("deleted after Leave, or not deleted at all")
		}
		if st := s.Stats(); st.Pending != 0 {
			t.Errorf("%+v", st)
		}
	})
}

func TestMissing(t *testing.T) {
	if missing(nil) || missing(syscall.EIO) || !missing(&fs.PathError{Err: fs.ErrNotExist}) {
		t.Error("missing")
	}
}

// TestObsoleteLogBesideAPanic has the file system panic when it is asked for the size of an
// obsolete log: its last holder, a reader perhaps, goes on, the panic is told, and the log is
// deleted.
func TestObsoleteLogBesideAPanic(t *testing.T) {
	var asked atomic.Bool
	s, mem, told := newSet(t, func(op vfs.Op) vfs.Outcome {
		if op.Kind == vfs.OpStat && !asked.Swap(true) {
			panic("no size today")
		}
		return vfs.Outcome{}
	})
	log := base.ValueFile{Num: 7}
	name := log.FileName(s.o.Format)
	touch(t, mem, name)
	s.ObsoleteLog(log)
	s.WaitDeleted()
	if !asked.Load() || exists(mem, name) {
		t.Errorf("asked for the size: %v; the log is there: %v", asked.Load(), exists(mem, name))
	}
	if errs := told(); len(errs) != 1 || !strings.Contains(errs[0].Error(), "no size today") {
		t.Errorf("told: %v", errs)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestDeletionsBesideGoexit: a file system that ends the goroutine of a deletion ends neither
// later ones nor Close, and is told.
func TestDeletionsBesideGoexit(t *testing.T) {
	var asked atomic.Bool
	s, mem, told := newSet(t, func(op vfs.Op) vfs.Outcome {
		if op.Kind == vfs.OpStat && !asked.Swap(true) {
			runtime.Goexit()
		}
		return vfs.Outcome{}
	})
	for _, name := range []string{"000001.ldb", "000002.ldb"} {
		touch(t, mem, name)
		s.DeleteFile(name)
	}
	hang.Within(t, "Close", func() {
		s.WaitDeleted()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if errs := told(); len(errs) != 1 || !errors.Is(errs[0], base.ErrGoexit) {
		t.Errorf("told: %v", errs)
	}
	if exists(mem, "000002.ldb") {
		t.Error("the second file is there")
	}
}
