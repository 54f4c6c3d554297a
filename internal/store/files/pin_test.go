package files

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/os/vfs"
)

func mustPin(t *testing.T, s *Set, names ...string) *Pin {
	t.Helper()
	p, err := s.Pin(names...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPin(t *testing.T) {
	s, mem, _ := newSet(t, nil)
	left := func(when, want string) {
		t.Helper()
		s.WaitDeleted()
		names, err := mem.List("/db")
		if got := strings.Join(names, " "); err != nil || got != want {
			t.Errorf("%s: left %s, want %s (%v)", when, got, want, err)
		}
	}
	touch(t, mem, "000001.log", "000002.log", "000003.ldb", "000004.sst", "000005.ldb",
		"MANIFEST-000006")
	one := mustPin(t, s, "000001.log", "000004.sst")
	two := mustPin(t, s, "000001.log", "000077.log")
	s.DeleteFile("000001.log")
	s.DeleteFile("000002.log")
	s.Obsolete(&manifest.FileMeta{Num: 3})
	s.Obsolete(&manifest.FileMeta{Num: 4}) // pinned under its other name
	left("pinned by name", "000001.log 000004.sst 000005.ldb MANIFEST-000006")
	if st := s.Stats(); st.Pinned != 2 || st.Pending != 0 || st.Deleted != 2 {
		t.Errorf("%+v", st)
	}
	one.Release()
	one.Release()
	left("one pin released", "000001.log 000005.ldb MANIFEST-000006")
	all := mustPin(t, s)
	two.Release()
	s.Obsolete(&manifest.FileMeta{Num: 5})
	s.DeleteFile("MANIFEST-000006")
	left("everything pinned", "000001.log 000005.ldb MANIFEST-000006")
	all.Release()
	left("nothing pinned", "")
	if st := s.Stats(); st.Pinned != 0 || st.Pending != 0 || st.Deleted != 6 {
		t.Errorf("%+v", st)
	}
}

// TestPinAndLeave: what is pinned when the Set leaves stays for the next opening,
// and Leave does not wait for it.
func TestPinAndLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, mem, _ := newSet(t, nil)
		touch(t, mem, "000001.log")
		p := mustPin(t, s, "000001.log")
		s.DeleteFile("000001.log")
		s.WaitDeleted()
		left := make(chan struct{})
		go func() {
			defer close(left)
			s.queue.close(time.Hour) // as Leave does, with more patience
		}()
		synctest.Wait()
		select {
		case <-left:
		default:
			t.Fatal("Leave waits for what is pinned")
		}
		s.Leave()
		p.Release()
		if st := s.Stats(); !exists(mem, "000001.log") || st.Pending != 0 || st.Pinned != 0 {
			t.Errorf("after Leave: %+v", st)
		}
		if _, err := s.Pin(); !errors.Is(err, base.ErrClosed) {
			t.Errorf("Pin after Leave: %v", err)
		}
	})
}

// TestPinWaitsForDeletionUnderWay: a name that is there when Pin returns stays.
func TestPinWaitsForDeletionUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		removing, proceed := make(chan struct{}), make(chan struct{})
		s, mem, _ := newSet(t, func(op vfs.Op) vfs.Outcome {
			if op.Kind == vfs.OpRemove {
				removing <- struct{}{}
				<-proceed
			}
			return vfs.Outcome{}
		})
		touch(t, mem, "000001.log", "000002.log")
		s.DeleteFile("000001.log")
		<-removing
		mustPin(t, s, "000002.log").Release() // waits for nothing
		pinned := make(chan bool)
		go func() {
			p, err := s.Pin("000001.log")
			pinned <- err == nil && exists(mem, "000001.log")
			if err == nil {
				p.Release()
			}
		}()
		synctest.Wait()
		select {
		case <-pinned:
			t.Error("Pin returned before the deletion had ended")
		default:
		}
		proceed <- struct{}{}
		if <-pinned {
			t.Error("the file is there after Pin and goes away nevertheless")
		}
		s.WaitDeleted()
	})
}

// TestPinOfFailedDeletion: a file whose deletion failed is not tried again while
// it is pinned.
func TestPinOfFailedDeletion(t *testing.T) {
	fail := make(chan bool, 2)
	s, mem, _ := newSet(t, func(op vfs.Op) vfs.Outcome {
		if op.Kind != vfs.OpRemove {
			return vfs.Outcome{}
		}
		select {
		case <-fail:
			return vfs.Outcome{Err: syscall.EIO}
		default:
			return vfs.Outcome{}
		}
	})
	touch(t, mem, "000001.log", "000002.log")
	fail <- true
	s.DeleteFile("000001.log")
	s.WaitDeleted()
	p := mustPin(t, s, "000001.log")
	s.DeleteFile("000002.log")
	s.WaitDeleted()
	if !exists(mem, "000001.log") || exists(mem, "000002.log") {
		t.Error("the pinned file was deleted, or the other one was not")
	}
	p.Release()
	s.WaitDeleted()
	if exists(mem, "000001.log") {
		t.Error("the file was not deleted after Release")
	}
}

// TestPinKeepsNames: a pinned file is not renamed, and Pin waits for a renaming that is
// under way.
func TestPinKeepsNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, _ := newSet(t, nil)
		p := mustPin(t, s, "000001.log")
		called := func() error { t.Error("renamed"); return nil }
		if err := s.Rename("000001.log", called); !errors.Is(err, base.ErrBusy) {
			t.Error(err)
		}
		p.Release()
		begun, proceed, pinned := make(chan bool), make(chan bool), make(chan error, 1)
		renamed := make(chan error, 1)
		go func() {
			renamed <- s.Rename("000001.log", func() error { begun <- true; <-proceed; return nil })
		}()
		<-begun
		go func() {
			p, err := s.Pin()
			pinned <- err
			if err == nil {
				p.Release()
			}
		}()
		synctest.Wait()
		select {
		case <-pinned:
			t.Error("Pin returned before the renaming had ended")
		default:
		}
		proceed <- true
		if err := errors.Join(<-renamed, <-pinned); err != nil {
			t.Error(err)
		}
		s.Leave()
		if err := s.Rename("000001.log", called); !errors.Is(err, base.ErrBusy) {
			t.Errorf("after Leave: %v", err)
		}
	})
}
