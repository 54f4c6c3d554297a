package manifest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
)

const steps = 24 // edits of workload

// workload makes a database and changes it until the first error, through
// several MANIFESTs. After each step it calls acked with the state, before each
// with what the step leads to.
func workload(fsys vfs.FS, sideBySide bool, about, acked func(state string)) (*Set, error) {
	o := options(fsys)
	o.SideBySide = sideBySide
	o.MaxManifestSize = 400
	about("created")
	s, err := Create(o)
	if err != nil {
		return nil, err
	}
	acked(summary(s))
	for i := range steps {
		f := table(uint64(1000+i), fmt.Sprintf("k%02d", i), fmt.Sprintf("k%02d", i))
		e := &Edit{}
		e.SetLogNum(uint64(i))
		e.SetLastSeq(base.SeqNum(1000 + i))
		e.Add(i%3, f)
		if i >= 4 {
			e.Delete((i-4)%3, uint64(1000+i-4))
		}
		about(fmt.Sprintf("log %d", i))
		v, err := s.Apply(e)
		if err != nil {
			return s, err
		}
		v.Unref()
		for _, name := range s.TakeObsolete() {
			if err := fsys.Remove(filepath.Join(dir, name)); err != nil {
				return s, err
			}
		}
		acked(summary(s))
	}
	return s, nil
}

func summary(s *Set) string {
	if s.LogNum() == 0 && s.versionSize() == 0 {
		return "created"
	}
	return fmt.Sprintf("log %d", s.LogNum())
}

func (s *Set) versionSize() int {
	v := s.Current(0)
	defer v.Unref()
	return v.NumFiles()
}

// loadAfter opens what a run of workload left. The tables and logs are made up
// for it, as they are no concern of this package.
func loadAfter(t *testing.T, m *vfs.Mem) (*Set, error) {
	t.Helper()
	for i := range steps {
		write(t, m, base.LevelDB.FileName(base.FileTable, uint64(1000+i)), "")
		write(t, m, base.LevelDB.FileName(base.FileLog, uint64(i)), "")
	}
	return Load(options(m), false)
}

// checkState requires the tables to be those of the state's name.
func checkState(t *testing.T, s *Set) {
	t.Helper()
	want := map[uint64]struct{}{}
	if n := int(s.LogNum()); summary(s) != "created" {
		for i := max(0, n-3); i <= n; i++ {
			want[uint64(1000+i)] = struct{}{}
		}
	}
	got := map[uint64]struct{}{}
	if s.LiveFiles(got); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("log %d with tables %v", s.LogNum(), got)
	}
}

// TestCrashAnywhere stops after every call to the file system and loads every
// kind of state that a power cut may leave then.
func TestCrashAnywhere(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	states := map[string]func() vfs.CrashOptions{
		"kept":    vfs.KeepAll,
		"dropped": vfs.DropAll,
		"random":  func() vfs.CrashOptions { return vfs.RandomBlocks(rng) },
		"names only": func() vfs.CrashOptions {
			return vfs.CrashOptions{KeepEntry: func(vfs.DirOp) bool { return true }}
		},
	}
	calls := 0
	for stop := 0; ; stop++ {
		m := newDir(t)
		n := 0
		var pending, last string
		var crashed *vfs.Mem
		clones := map[string][]*vfs.Mem{}
		ft := vfs.NewFault(m, func(vfs.Op) vfs.Outcome {
			if n++; n == stop+1 {
				crashed = m
				for name, o := range states {
					for range 3 {
						clones[name] = append(clones[name], m.CrashClone(o()))
					}
				}
				return vfs.Outcome{Err: errors.New("power cut")}
			}
			if crashed != nil {
				return vfs.Outcome{Err: errors.New("power is off")}
			}
			return vfs.Outcome{}
		})
		_, err := workload(ft, false, func(s string) { pending = s }, func(s string) { last = s })
		if err == nil {
			break
		}
		calls++
		for name, list := range clones {
			for _, c := range list {
				s, err := loadAfter(t, c)
				switch {
				case errors.Is(err, base.ErrDoesNotExist) || errors.Is(err, base.ErrCorruption) &&
					strings.Contains(err.Error(), "is missing, but there is"):
					// The tables put there by the test are taken for the rest of a database.
					if last != "" {
						t.Errorf("call %d, %s: acknowledged %s, found nothing", stop, name, last)
					}
				case err != nil:
					t.Errorf("call %d, %s: %v", stop, name, err)
				default:
					if got := summary(s); got != last && got != pending {
						t.Errorf("call %d, %s: %s, want %s or %s", stop, name, got, last, pending)
					}
					checkState(t, s)
					if err := s.StartManifest(); err != nil {
						t.Errorf("call %d, %s: StartManifest: %v", stop, name, err)
					}
				}
			}
		}
		if t.Failed() {
			return
		}
	}
	if calls < 60 {
		t.Errorf("only %d calls", calls)
	}
}

// TestFaultAnywhere fails every call to the file system in turn, once or from
// then on, with nothing, half or all of it done.
func TestFaultAnywhere(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EIO} {
		t.Run(errno.Error(), func(t *testing.T) { faultAnywhere(t, errno, false) })
		t.Run(errno.Error()+", syncs side by side", func(t *testing.T) {
			faultAnywhere(t, errno, true)
		})
	}
}

func faultAnywhere(t *testing.T, errno syscall.Errno, sideBySide bool) {
	for _, forever := range []bool{false, true} {
		for _, done := range []bool{false, true} {
			for at := 0; ; at++ {
				name := fmt.Sprintf("forever=%v done=%v call %d", forever, done, at)
				m := newDir(t)
				n, off := 0, false
				var op vfs.Op
				var mu sync.Mutex
				ft := vfs.NewFault(m, func(o vfs.Op) vfs.Outcome {
					mu.Lock()
					defer mu.Unlock()
					if n++; !off && (n == at+1 || forever && n > at) {
						if n == at+1 {
							op = o
						}
						short := 0
						if done {
							short = int(o.N) / 2
						}
						return vfs.Outcome{Err: errno, Done: done, Short: short}
					}
					return vfs.Outcome{}
				})
				var pending, last string
				s, err := workload(ft, sideBySide, func(s string) {
					pending = s
				}, func(s string) { last = s })
				if n <= at {
					break // no such call
				}
				if err == nil {
					// Closing a MANIFEST that CURRENT no longer names may fail, and an edit without
					// tables, which vouches for the one before.
					vouches := op.Kind == vfs.OpAppend && op.N < 20
					if op.Kind != vfs.OpClose && !vouches ||
						!strings.Contains(op.Name, "MANIFEST") {
						t.Errorf("%s, %v: not reported", name, op)
					}
					continue
				}
				if !errors.Is(err, errno) || errors.Is(err, base.ErrCorruption) {
					t.Errorf("%s, %v: %v", name, op, err)
				}
				final := s != nil && s.Err() != nil
				sync := op.Kind == vfs.OpSync || op.Kind == vfs.OpSyncDir
				if s != nil && op.Kind != vfs.OpRemove && !sync && final != (errno == syscall.EIO) {
					t.Errorf("%s, %v: final: %v", name, op, final)
				}
				if final {
					checkPoisoned(t, name, s, err)
				}
				off = true
				if s != nil && op.Kind != vfs.OpRemove {
					// With space again, a new MANIFEST makes the Set whole. Of
					// itself, unless a sync failed.
					before := state(s)
					c := m.Clone()
					if s.TakeObsolete() != nil {
						t.Errorf("%s, %v: MANIFESTs given away", name, op)
					}
					mend := s.Mend
					if final {
						mend = func() error { return s.StartManifest() }
					}
					if at%2 == 0 || final { // otherwise Apply does it
						if err := mend(); err != nil {
							t.Errorf("%s, %v: %v", name, op, err)
						}
					}
					mustApply(t, s, &Edit{})
					if obsolete := s.TakeObsolete(); !forever &&
						(!done || op.Kind == vfs.OpRename) {
						checkOneManifest(t, name, m, obsolete)
					}
					if s, err := loadAfter(t, m); err != nil ||
						strings.Split(state(s), "\n")[0] != strings.Split(before, "\n")[0] {
						t.Errorf("%s, %v: after StartManifest: %v", name, op, err)
					}
					m = c
				}
				if last == "" {
					continue // nothing was promised
				}
				s, err = loadAfter(t, m)
				if err != nil {
					t.Errorf("%s, %v: load: %v", name, op, err)
					continue
				}
				if got := summary(s); got != last && got != pending {
					t.Errorf("%s, %v: %s, want %s or %s", name, op, got, last, pending)
				}
				checkState(t, s)
			}
		}
	}
}

func checkPoisoned(t *testing.T, name string, s *Set, cause error) {
	t.Helper()
	if s.Err() != cause {
		t.Errorf("%s: poisoned with %v, want %v", name, s.Err(), cause)
	}
	if _, err := s.Apply(&Edit{}); err != cause {
		t.Errorf("%s: later Apply: %v", name, err)
	}
	if s.TakeObsolete() != nil {
		t.Errorf("%s: MANIFESTs given away", name)
	}
}

// checkOneManifest requires all MANIFESTs but one to be among the obsolete.
func checkOneManifest(t *testing.T, name string, m *vfs.Mem, obsolete []string) {
	t.Helper()
	left := slices.DeleteFunc(listing(t, m), func(n string) bool {
		return !strings.HasPrefix(n, "MANIFEST-") || slices.Contains(obsolete, n)
	})
	if len(left) != 1 {
		t.Errorf("%s: MANIFESTs %v are left, %v were given away", name, left, obsolete)
	}
}

// TestReadErrors fails every call of Load in turn: the cause comes back, is
// never taken for damage or an end, and nothing is written.
func TestReadErrors(t *testing.T) {
	m := newDir(t)
	if _, err := workload(m, false, func(string) {}, func(string) {}); err != nil {
		t.Fatal(err)
	}
	if s, err := loadAfter(t, m); err != nil {
		t.Fatal(err)
	} else if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for at := 0; ; at++ {
		n := 0
		var op vfs.Op
		ft := vfs.NewFault(m, func(o vfs.Op) vfs.Outcome {
			if slices.Contains([]vfs.OpKind{vfs.OpCreate, vfs.OpCreateLog, vfs.OpWrite,
				vfs.OpRename, vfs.OpRemove, vfs.OpSync}, o.Kind) {
				t.Errorf("Load calls %v", o)
			}
			if n++; n == at+1 {
				op = o
				return vfs.Outcome{Err: syscall.EIO, Short: int(o.N) / 2}
			}
			return vfs.Outcome{}
		})
		_, err := Load(options(ft), false)
		if n <= at {
			if err != nil {
				t.Error(err)
			}
			break
		}
		if op.Kind == vfs.OpClose {
			continue // of a file that was read
		}
		if !errors.Is(err, syscall.EIO) || errors.Is(err, base.ErrCorruption) ||
			errors.Is(err, base.ErrDoesNotExist) {
			t.Errorf("%v: %v", op, err)
		}
	}
}

// TestCurrentSwapTrace pins the order of the calls that replace a MANIFEST.
func TestCurrentSwapTrace(t *testing.T) {
	var trace []string
	ft := vfs.NewFault(newDir(t), func(o vfs.Op) vfs.Outcome {
		trace = append(trace, o.Kind.String()+" "+filepath.Base(o.Name))
		return vfs.Outcome{}
	})
	s, err := Create(options(ft))
	if err != nil {
		t.Fatal(err)
	}
	trace = nil
	if err := s.StartManifest(); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"createlog MANIFEST-000002", "append MANIFEST-000002", "create 000002.dbtmp",
		"write 000002.dbtmp", "sync MANIFEST-000002", "sync 000002.dbtmp", "syncdir db",
		"close 000002.dbtmp", "rename 000002.dbtmp", "syncdir db", "close MANIFEST-000001",
	}
	if !slices.Equal(trace, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(trace, "\n"), strings.Join(want, "\n"))
	}
}

func TestLinksAreRefused(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege")
	}
	for _, name := range []string{"CURRENT", "MANIFEST-000001"} {
		d := t.TempDir()
		o := Options{FS: vfs.Default, Dir: d, Comparer: base.Bytewise}
		s, err := Create(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(o, true); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(d, name)
		if err := errors.Join(os.Rename(path, path+".real"),
			os.Symlink(path+".real", path)); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(o, false); !errors.Is(err, base.ErrNotADatabase) ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPlantedLinks has links where new files are going to be: they are neither
// followed nor replaced.
func TestPlantedLinks(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege")
	}
	d := t.TempDir()
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"MANIFEST-000001", "000002.dbtmp"} {
		if err := os.Symlink(victim, filepath.Join(d, name)); err != nil {
			t.Fatal(err)
		}
	}
	o := Options{FS: vfs.Default, Dir: d, Comparer: base.Bytewise}
	s, err := Create(o)
	if err != nil {
		t.Fatal(err)
	}
	if s.ManifestNum() != 3 {
		t.Errorf("MANIFEST number %d", s.ManifestNum())
	}
	// One that appears later.
	if err := os.Symlink(victim, filepath.Join(d, "MANIFEST-000004")); err != nil {
		t.Fatal(err)
	}
	if err := s.StartManifest(); err == nil {
		t.Error("a link was written through")
	}
	if b, err := os.ReadFile(victim); err != nil || string(b) != "precious" {
		t.Errorf("victim: %q, %v", b, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
