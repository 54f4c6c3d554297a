package vfs

import (
	"bytes"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// appendTo appends to a log.
func appendTo(t testing.TB, l Log, parts ...string) {
	t.Helper()
	for _, p := range parts {
		must(t, l.Append([]byte(p)))
	}
}

// needReuse skips a test where the system's files have one name at a time, and where it is not
// known how many they have.
func needReuse(t *testing.T, fsys FS) {
	t.Helper()
	if _, system := fsys.(OS); system && !reusesLogs(t, t.TempDir()) {
		t.Skip("logs are not reused here")
	}
}

// reusesLogs reports whether logs are reused in a directory of the operating system.
func reusesLogs(t *testing.T, dir string) bool {
	t.Helper()
	a := filepath.Join(dir, "probe")
	writeFile(t, Default, a, "1")
	l, _, err := ReuseLog(Default, a, a+"2", 0)
	if errors.Is(err, errors.ErrUnsupported) {
		return false
	}
	must(t, err)
	must(t, errors.Join(l.Close(), Default.Remove(a+"2")))
	return true
}

func TestReuseLog(t *testing.T) {
	each(t, func(t *testing.T, fsys FS, dir string) {
		needReuse(t, fsys)
		for _, ahead := range []int64{0, 64 << 10} {
			a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
			l, err := fsys.CreateLog(a, ahead)
			must(t, err)
			old := strings.Repeat("0123456789", 1000)
			appendTo(t, l, old)
			must(t, l.Close())
			if _, _, err := ReuseLog(fsys, filepath.Join(dir, "none"), b,
				ahead); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("of a missing log: %v", err)
			}
			if _, _, err := ReuseLog(fsys, dir, b, ahead); err == nil {
				t.Error("of a directory")
			}
			writeFile(t, fsys, b, "taken")
			if _, _, err := ReuseLog(fsys, a, b, ahead); !errors.Is(err, fs.ErrExist) {
				t.Errorf("over a file: %v", err)
			}
			must(t, fsys.Remove(b))

			l, former, err := ReuseLog(fsys, a, b, ahead)
			must(t, err)
			if former != int64(len(old)) {
				t.Errorf("%d bytes of a former life", former)
			}
			if _, err := fsys.Stat(a); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the old name: %v", err)
			}
			if got := readFile(t, fsys, b); !strings.HasPrefix(got, old) {
				t.Errorf("before the first append: %d bytes", len(got))
			}
			appendTo(t, l, "new", "est")
			must(t, l.Sync())
			if got := readFile(t, fsys, b); len(got) < len(old) || got[:6] != "newest" ||
				got[len(old)-1] != '9' && got[len(old)-1] != 0 {
				t.Errorf("ahead %d: after appends: %d bytes, %.20q...", ahead, len(got), got)
			}
			must(t, l.Truncate(3))
			if got := readFile(t, fsys, b); got != "new" {
				t.Errorf("after a cut: %.20q...", got)
			}
			appendTo(t, l, "er")
			must(t, l.Close())
			if got := readFile(t, fsys, b); got != "newer" {
				t.Errorf("closed: %.20q", got)
			}

			l, _, err = ReuseLog(fsys, b, a, ahead)
			must(t, err)
			long := strings.Repeat("x", 300<<10)
			appendTo(t, l, long[:10], long[10:])
			must(t, l.Sync())
			must(t, l.Close())
			if got := readFile(t, fsys, a); got != long {
				t.Errorf("longer than its former life: %d bytes", len(got))
			}
			must(t, Link(fsys, a, b))
			if _, _, err := ReuseLog(fsys, a, filepath.Join(dir, "c"),
				ahead); !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("of a linked log: %v", err)
			}
			if got := readFile(t, fsys, b); got != long {
				t.Errorf("the link has %d bytes", len(got))
			}
			must(t, errors.Join(fsys.Remove(a), fsys.Remove(b)))
		}
	})
}

// TestReuseManySmallAppends has appends that are stored in a window: the former life is
// overwritten, byte for byte.
func TestReuseManySmallAppends(t *testing.T) {
	needReuse(t, Default)
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	l, err := Default.CreateLog(a, 8<<20)
	must(t, err)
	appendTo(t, l, strings.Repeat("old!", 300<<10))
	must(t, l.Close())
	l, _, err = ReuseLog(Default, a, b, 8<<20)
	must(t, err)
	var want bytes.Buffer
	for i := range 20000 {
		p := bytes.Repeat([]byte{byte(i)}, 1+i%200)
		must(t, l.Append(p))
		want.Write(p)
		if i == 7000 {
			must(t, l.Sync())
		}
	}
	must(t, l.Close())
	if got := readFile(t, Default, b); got != want.String() {
		t.Errorf("%d bytes of %d, or others", len(got), want.Len())
	}
}

func TestReuseUnsupported(t *testing.T) {
	m := NewMem()
	writeFile(t, m, "a", "1")
	for name, fsys := range map[string]FS{
		"plain":          plainFS{m},
		"below a Fault":  NewFault(plainFS{m}, func(Op) Outcome { return Outcome{} }),
		"Fault in a Dir": &Dir{FS: NewFault(plainFS{m}, func(Op) Outcome { return Outcome{} })},
	} {
		if _, _, err := ReuseLog(fsys, "a", "b", 0); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestReuseOfHeldDirectory reuses a log when the directory's name is another one's.
func TestReuseOfHeldDirectory(t *testing.T) {
	needReuse(t, Default)
	top := t.TempDir()
	dir := filepath.Join(top, "db")
	d, err := OpenDir(Default, dir, DirOptions{Create: true})
	must(t, err)
	defer d.Close()
	writeFile(t, d, filepath.Join(dir, "a"), "former")
	must(t, Default.Rename(dir, filepath.Join(top, "moved")))
	must(t, Default.MkdirAll(dir))
	l, _, err := ReuseLog(d, filepath.Join(dir, "a"), filepath.Join(dir, "b"), 0)
	must(t, err)
	appendTo(t, l, "new")
	must(t, l.Sync())
	must(t, l.Close())
	if got := dump(t, Default, top); got != "db{} moved{LOCK= b=nx1+ex1+wx1}" {
		t.Error(got)
	}
}

// TestReuseFails has the call fail, with and without effect.
func TestReuseFails(t *testing.T) {
	for _, done := range []bool{false, true} {
		m := NewMem()
		writeFile(t, m, "a", "1")
		boom := errors.New("boom")
		f := NewFault(m, func(op Op) Outcome {
			if op.Kind == OpReuseLog && op.Name == "b" && op.N == 5 {
				return Outcome{Err: boom, Done: done}
			}
			return Outcome{}
		})
		if _, _, err := ReuseLog(f, "a", "b", 5); !errors.Is(err, boom) {
			t.Error(err)
		}
		if _, err := m.Stat("b"); (err == nil) != done {
			t.Errorf("done %v: %v", done, err)
		}
	}
}

// TestReusedLogInACrash loses blocks of a log that was another one: what stood there
// before comes back.
func TestReusedLogInACrash(t *testing.T) {
	m := NewMem()
	l, err := m.CreateLog("a", 0)
	must(t, err)
	appendTo(t, l, strings.Repeat("o", 5*blockSize))
	must(t, l.Close())
	must(t, m.SyncDir("/"))
	l, _, err = ReuseLog(m, "a", "b", 0)
	must(t, err)
	must(t, m.SyncDir("/"))
	appendTo(t, l, strings.Repeat("s", blockSize+10))
	must(t, l.Sync())
	appendTo(t, l, strings.Repeat("u", 2*blockSize))
	for _, c := range []struct {
		name string
		o    CrashOptions
		want string // what each tenth of a block has
	}{
		{"all", KeepAll(), "1s2u2o"},
		{"none", DropAll(), "1s4o"},
		{"a later block", CrashOptions{KeepData: func(_ string, b int) bool {
			return b == 2
		}}, "1s1o1u2o"},
	} {
		got := readFile(t, m.CrashClone(c.o), "b")
		if len(got) != 5*blockSize || runs(got) != c.want {
			t.Errorf("%s: %d bytes, %s, want %s", c.name, len(got), runs(got), c.want)
		}
		if got[:blockSize+10] != strings.Repeat("s", blockSize+10) {
			t.Errorf("%s: synced bytes are gone", c.name)
		}
	}
	must(t, l.Close())
	for keep, want := range map[bool]int{false: 5 * blockSize, true: 3*blockSize + 10} {
		o := KeepAll()
		o.KeepEntry = func(DirOp) bool { return keep }
		if got := readFile(t, m.CrashClone(o), "b"); len(got) != want {
			t.Errorf("closed, the cut kept: %v: %d bytes", keep, len(got))
		}
	}
}

// runs sums up which letters stand in the middle of the blocks of s.
func runs(s string) (sum string) {
	n := 0
	for b := range len(s) / blockSize {
		c := s[b*blockSize+blockSize/2]
		if n++; b+1 == len(s)/blockSize || s[(b+1)*blockSize+blockSize/2] != c {
			sum += string(rune('0'+n)) + string(c)
			n = 0
		}
	}
	return sum
}
