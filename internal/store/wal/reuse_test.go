package wal

import (
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/fstest"
)

// reuser is a native Set whose calls of the file system are recorded.
type reuser struct {
	*Set
	mem     *vfs.Mem
	trace   *fstest.Trace
	deleted []string
	pinned  bool
	last    base.SeqNum
}

func newReuser(t testing.TB, fail func(op vfs.Op) vfs.Outcome) *reuser {
	t.Helper()
	r := &reuser{mem: vfs.NewMem(), trace: &fstest.Trace{}}
	must(t, r.mem.MkdirAll("db"))
	next := uint64(3)
	r.Set = New(Options{
		FS: vfs.NewFault(r.mem, r.trace.Hook(fail)), Dir: "db", Format: base.Native,
		Preallocate: 1 << 10, NewFileNum: func() uint64 {
			next++
			return next
		}, Fail: func(err error) error {
			t.Error(err)
			return err
		}, Panicked: func(r any) error { t.Error(r); return nil },
		Rename: func(_ string, rename func() error) error {
			if r.pinned {
				return base.ErrBusy
			}
			return rename()
		},
		Delete: func(name string) {
			r.deleted = append(r.deleted, name)
			_ = r.mem.Remove("db/" + name)
		},
	})
	return r
}

// fill rotates, and writes n batches into the new log.
func (r *reuser) fill(t testing.TB, n int) (num uint64) {
	t.Helper()
	num, err := r.Rotate(r.last)
	must(t, err)
	for range n {
		r.last++
		must(t, r.Append([][]byte{batch(r.last, 1)}))
	}
	return num
}

// reused counts the logs that were made of others.
func (r *reuser) reused() (n int) {
	for _, op := range r.trace.Ops() {
		if op.Kind == vfs.OpReuseLog {
			n++
		}
	}
	return n
}

// holds wants the entries from first on in the logs from num on.
func (r *reuser) holds(t testing.TB, num uint64, first base.SeqNum) {
	t.Helper()
	next := first
	p := &Replay{FS: r.mem.CrashClone(vfs.KeepAll()), Dir: "db", Format: base.Native,
		Last: first - 1, Apply: func(_ uint64, b []byte) error {
			if string(b) != string(batch(next, 1)) {
				t.Fatalf("instead of entry %d: %x", next, b)
			}
			next++
			return nil
		}}
	nums, err := p.Needed(base.Native.ParseFileName, num, 0)
	must(t, err)
	must(t, p.Run(nums, num))
	if next != r.last+1 || len(p.Report.Dropped) > 0 {
		t.Fatalf("logs %v: entries up to %d of %d, %v", nums, next-1, r.last, p.Report.Dropped)
	}
}

// TestReuse writes logs of different lengths over each other: needed logs are there at each moment,
// and no entry of an obsolete log comes back.
func TestReuse(t *testing.T) {
	r := newReuser(t, nil)
	first := r.fill(t, 20)
	firstSeq := base.SeqNum(1)
	for round, n := range []int{20, 3, 40, 0, 17, 20, 1, 60, 2} {
		began := r.last + 1
		num := r.fill(t, n)
		r.holds(t, first, firstSeq)
		if round%3 == 1 {
			must(t, r.Sync()) // closes full logs in the background
		}
		if round == 4 {
			continue // two logs become obsolete at once
		}
		for _, old := range r.TakeObsolete(num) {
			must(t, r.mem.Remove(r.path(old)))
		}
		first, firstSeq = num, began
		r.holds(t, first, firstSeq)
		r.Prepare()
		r.holds(t, first, firstSeq)
		if names, err := r.mem.List("db"); err != nil || len(names) > 3 {
			t.Errorf("round %d: %v, %v", round, names, err)
		}
	}
	if n := r.reused(); n < 5 {
		t.Errorf("%d logs were reused", n)
	}
	must(t, r.Close(true))
	if names, err := r.mem.List("db"); err != nil || len(names) != 1 {
		t.Errorf("after Close: %v, %v", names, err)
	}
}

// TestTrim has the logs that are kept for reuse given back: the needed ones stay, and the
// next ones are new files.
func TestTrim(t *testing.T) {
	r := newReuser(t, nil)
	r.fill(t, 20)
	for range 3 { // one obsolete log becomes the spare one, one waits
		num := r.fill(t, 20)
		r.TakeObsolete(num)
		if r.reusable != 0 && r.spare == nil {
			r.Prepare()
		}
	}
	began := r.last + 1
	num := r.fill(t, 20)
	r.TakeObsolete(num)
	r.Prepare()
	if n := r.reused(); n == 0 || r.spare.former == 0 {
		t.Fatalf("%d logs were reused, the spare one had %d bytes", n, r.spare.former)
	}
	r.Trim()
	r.holds(t, num, began)
	if names, err := r.mem.List("db"); err != nil || len(names) != 2 || r.spare.former != 0 ||
		r.reusable != 0 {
		t.Errorf("after Trim: %v, %v, a spare log of %d bytes", names, err, r.spare.former)
	}
	n := r.reused()
	r.fill(t, 20)
	r.holds(t, num, began)
	if r.reused() != n {
		t.Error("a log was reused that was given back")
	}
	r.Trim() // nothing is kept
	must(t, r.Close(true))
}

// TestReuseFails has every way to reuse a log fail: another log is created, and the old
// one deleted, once.
func TestReuseFails(t *testing.T) {
	for name, how := range map[string]func(r *reuser) vfs.Outcome{
		"the call fails": func(*reuser) vfs.Outcome {
			return vfs.Outcome{Err: errors.New("boom")}
		},
		"the call fails after effect": func(*reuser) vfs.Outcome {
			return vfs.Outcome{Err: errors.New("boom"), Done: true}
		},
		"the log is pinned": func(r *reuser) vfs.Outcome { r.pinned = true; return vfs.Outcome{} },
	} {
		var r *reuser
		r = newReuser(t, func(op vfs.Op) vfs.Outcome {
			if op.Kind == vfs.OpReuseLog {
				return how(r)
			}
			return vfs.Outcome{}
		})
		if name == "the log is pinned" {
			r.pinned = true
		}
		old := r.fill(t, 5)
		num := r.fill(t, 5)
		if nums := r.TakeObsolete(num); len(nums) != 0 {
			t.Fatalf("%s: %v to delete", name, nums)
		}
		r.Prepare()
		r.fill(t, 5)
		r.holds(t, num, 6)
		if want := base.Native.FileName(base.FileLog, old); !slices.Equal(r.deleted,
			[]string{want}) {
			t.Errorf("%s: deleted %v", name, r.deleted)
		}
		must(t, r.Close(false))
		if names, err := r.mem.List("db"); err != nil || len(names) != 2 {
			t.Errorf("%s: %s, %v", name, strings.Join(names, " "), err)
		}
	}
}

// TestReuseNotDurable: a log whose new name cannot be made durable is not written to.
func TestReuseNotDurable(t *testing.T) {
	full := false
	r := newReuser(t, func(op vfs.Op) vfs.Outcome {
		if full && op.Kind == vfs.OpSyncDir {
			return vfs.Outcome{Err: base.ErrNoSpace}
		}
		return vfs.Outcome{}
	})
	r.fill(t, 5)
	num := r.fill(t, 5)
	r.TakeObsolete(num)
	full = true
	if _, err := r.Rotate(r.last); !errors.Is(err, base.ErrNoSpace) {
		t.Errorf("Rotate: %v", err)
	}
	r.last++
	must(t, r.Append([][]byte{batch(r.last, 1)}))
	full = false
	r.fill(t, 3)
	r.holds(t, num, 6)
	must(t, r.Close(false))
}

// TestSpareReportsFailedSync: the sync of a spare log's name fails in Trim, or in Prepare, which
// return nothing. The failure is reported all the same, and the sync is not tried again; a shortage
// is not reported, and Rotate tries again.
func TestSpareReportsFailedSync(t *testing.T) {
	for _, cause := range []error{syscall.EIO, syscall.ENOSPC} {
		for _, by := range []string{"Trim", "Prepare"} {
			mem := vfs.NewMem()
			must(t, mem.MkdirAll("db"))
			failing := false
			fsys := vfs.NewFault(mem, func(op vfs.Op) vfs.Outcome {
				if failing && op.Kind == vfs.OpSyncDir {
					return vfs.Outcome{Err: cause}
				}
				return vfs.Outcome{}
			})
			var failed error
			next := uint64(3)
			s := New(Options{
				FS: fsys, Dir: "db", Format: base.Native, NewFileNum: func() uint64 {
					next++
					return next
				},
				Fail: func(err error) error {
					failed = err
					return err
				}, Panicked: func(r any) error { t.Error(r); return nil },
				Rename: func(_ string, rename func() error) error { return rename() },
				Delete: func(name string) { must(t, mem.Remove("db/"+name)) },
			})
			rotate := func() error { _, err := s.Rotate(0); return err }
			must(t, errors.Join(rotate(), rotate(), s.Sync()))
			s.TakeObsolete(s.Num()) // the next spare log is made of it
			if by == "Trim" {
				s.Prepare()
			}
			failing = true
			if by == "Trim" {
				s.Trim()
			} else {
				s.Prepare()
			}
			failing = false
			if shortage := base.IsShortage(cause); (failed == nil) != shortage || failed != nil &&
				!errors.Is(failed, cause) {
				t.Errorf("%s, %v: reported: %v", by, cause, failed)
			}
			if base.IsShortage(cause) {
				must(t, rotate())
			}
			must(t, s.Close(false))
		}
	}
}
