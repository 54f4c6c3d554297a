package vfs

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/loamdb/loam/internal/base"
)

// each runs a test on every file system, in an empty directory.
func each(t *testing.T, test func(t *testing.T, fsys FS, dir string)) {
	mem := func() *Mem {
		m := NewMem()
		if err := m.MkdirAll("db"); err != nil {
			t.Fatal(err)
		}
		return m
	}
	t.Run("os", func(t *testing.T) { test(t, Default, t.TempDir()) })
	t.Run("mem", func(t *testing.T) { test(t, mem(), "db") })
	t.Run("fault", func(t *testing.T) {
		test(t, NewFault(mem(), func(Op) Outcome { return Outcome{} }), "db")
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func writeFile(t testing.TB, fsys FS, name, content string) {
	t.Helper()
	f, err := fsys.Create(name)
	must(t, err)
	_, err = f.Write([]byte(content))
	must(t, err)
	must(t, f.Sync())
	must(t, f.Close())
}

func readFile(t testing.TB, fsys FS, name string) string {
	t.Helper()
	f, err := fsys.Open(name)
	must(t, err)
	defer f.Close()
	b, err := io.ReadAll(io.NewSectionReader(f, 0, f.Size()))
	must(t, err)
	return string(b)
}

func TestFiles(t *testing.T) {
	each(t, func(t *testing.T, fsys FS, dir string) {
		a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
		writeFile(t, fsys, a, "hello")
		if got := readFile(t, fsys, a); got != "hello" {
			t.Fatalf("read %q", got)
		}
		if _, err := fsys.Create(a); !errors.Is(err, fs.ErrExist) {
			t.Errorf("Create over a file: %v", err)
		}
		if _, err := fsys.CreateLog(a, 0); !errors.Is(err, fs.ErrExist) {
			t.Errorf("CreateLog over a file: %v", err)
		}
		writeFile(t, fsys, b, "old")
		must(t, fsys.Rename(a, b))
		must(t, fsys.SyncDir(dir))
		if got := readFile(t, fsys, b); got != "hello" {
			t.Errorf("after rename: %q", got)
		}
		if _, err := fsys.Stat(a); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Stat of the old name: %v", err)
		}
		r, err := fsys.Open(b)
		must(t, err)
		defer r.Close()
		if s, ok := r.(interface{ Sync() error }); ok {
			must(t, s.Sync())
		}
		must(t, fsys.Remove(b))
		p := make([]byte, 8)
		if n, err := r.ReadAt(p, 1); n != 4 || err != io.EOF || string(p[:n]) != "ello" {
			t.Errorf("ReadAt of a removed open file: %q, %v", p[:n], err)
		}
		if n, err := r.ReadAt(p[:2], 1); n != 2 || err != nil {
			t.Errorf("ReadAt: %d, %v", n, err)
		}
		if n, err := r.ReadAt(p, 100); n != 0 || err != io.EOF {
			t.Errorf("ReadAt past the end: %d, %v", n, err)
		}
		r.Prefetch(0, 5)
	})
}

func TestMissing(t *testing.T) {
	each(t, func(t *testing.T, fsys FS, dir string) {
		gone := filepath.Join(dir, "no", "such")
		_, openErr := fsys.Open(gone)
		_, createErr := fsys.Create(gone)
		_, logErr := fsys.CreateLog(gone, 4096)
		_, listErr := fsys.List(gone)
		_, statErr := fsys.Stat(gone)
		_, lockErr := fsys.Lock(gone)
		for what, err := range map[string]error{
			"open": openErr, "create": createErr, "log": logErr, "list": listErr, "stat": statErr,
			"lock": lockErr, "remove": fsys.Remove(gone), "rename": fsys.Rename(gone, gone+"x"),
			"syncdir": fsys.SyncDir(gone),
		} {
			if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "such") {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

func TestDirectories(t *testing.T) {
	each(t, func(t *testing.T, fsys FS, dir string) {
		sub := filepath.Join(dir, "x", "y")
		must(t, fsys.MkdirAll(sub))
		must(t, fsys.MkdirAll(sub))
		names := []string{"MANIFEST-000001", "\xff\xfe bad utf-8", "new\nline", "000001.log", "-",
			"..."}
		want := []string{"-", "...", "000001.log", "MANIFEST-000001", "new\nline",
			"\xff\xfe bad utf-8"}
		if _, system := fsys.(OS); system && runtime.GOOS == "windows" {
			// Names are Unicode there, without control characters, and dots at the end are cut.
			odd := func(name string) bool {
				return name == "new\nline" || name == "..." || !utf8.ValidString(name)
			}
			names, want = slices.DeleteFunc(names, odd), slices.DeleteFunc(want, odd)
		}
		for _, n := range names {
			writeFile(t, fsys, filepath.Join(sub, n), n)
		}
		got, err := fsys.List(sub)
		must(t, err)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("List: %q, want %q", got, want)
		}
		if err := fsys.Rename(filepath.Dir(sub), filepath.Join(sub, "z")); err == nil {
			t.Error("moved a directory into itself")
		}
		if err := fsys.Remove(sub); err == nil {
			t.Error("removed a directory that is not empty")
		}
		st, err := fsys.Stat(sub)
		must(t, err)
		if !st.IsDir() || st.Name() != "y" {
			t.Errorf("Stat: %v %q", st.IsDir(), st.Name())
		}
		if _, err := fsys.Open(sub); !errors.Is(err, ErrNotRegular) {
			t.Errorf("Open of a directory: %v", err)
		}
		if _, err := fsys.Lock(sub); !errors.Is(err, ErrNotRegular) {
			t.Errorf("Lock of a directory: %v", err)
		}
		if _, err := fsys.Create(sub); !errors.Is(err, fs.ErrExist) {
			t.Errorf("Create over a directory: %v", err)
		}
		if _, err := fsys.List(filepath.Join(sub, "-")); err == nil {
			t.Error("List of a file")
		}
		if err := fsys.SyncDir(filepath.Join(sub, "-")); err == nil {
			t.Error("SyncDir of a file")
		}
		if err := fsys.MkdirAll(filepath.Join(sub, "-", "z")); err == nil {
			t.Error("MkdirAll below a file")
		}
	})
}

func TestLog(t *testing.T) {
	for _, ahead := range []int64{0, 4096, 1 << 20} {
		each(t, func(t *testing.T, fsys FS, dir string) {
			name := filepath.Join(dir, "log")
			l, err := fsys.CreateLog(name, ahead)
			must(t, err)
			var want []byte
			for i := range 300 {
				p := bytes.Repeat([]byte{byte(i + 1)}, i*7%5000)
				must(t, l.Append(p))
				want = append(want, p...)
				if i%50 == 0 {
					must(t, l.Sync())
				}
			}
			got := readFile(t, fsys, name)
			if !strings.HasPrefix(got, string(want)) ||
				strings.Trim(got[len(want):], "\x00") != "" {
				t.Error("an open log does not read as what was appended and zeros")
			}
			must(t, l.Close())
			if got := readFile(t, fsys, name); got != string(want) {
				t.Errorf("ahead %d: a closed log has %d bytes, want %d", ahead, len(got), len(want))
			}
		})
	}
}

// TestLogTruncate cuts logs back at random, in the window, at its edges and
// before it, and goes on.
func TestLogTruncate(t *testing.T) {
	for _, ahead := range []int64{0, 8 << 10, 1 << 20} {
		each(t, func(t *testing.T, fsys FS, dir string) {
			name := filepath.Join(dir, "log")
			l, err := fsys.CreateLog(name, ahead)
			must(t, err)
			rng := rand.New(rand.NewPCG(uint64(ahead), 3))
			var want []byte
			ends := []int{0}
			for i := range 3000 {
				p := bytes.Repeat([]byte{byte(i%255 + 1)}, rng.IntN(300))
				must(t, l.Append(p))
				want = append(want, p...)
				ends = append(ends, len(want))
				if i%500 == 499 {
					back := len(ends) - 1 - rng.IntN(min(len(ends), 400))
					want, ends = want[:ends[back]], ends[:back+1]
					must(t, l.Truncate(int64(len(want))))
				}
			}
			must(t, l.Sync())
			if got := readFile(t, fsys, name); !strings.HasPrefix(got, string(want)) ||
				strings.Trim(got[len(want):], "\x00") != "" {
				t.Errorf("ahead %d: the log differs from what was appended and not cut off", ahead)
			}
			must(t, l.Close())
			if got := readFile(t, fsys, name); got != string(want) {
				t.Errorf("ahead %d: closed with %d bytes, want %d", ahead, len(got), len(want))
			}
		})
	}
}

func TestLogSyncBesideAppend(t *testing.T) {
	each(t, func(t *testing.T, fsys FS, dir string) {
		l, err := fsys.CreateLog(filepath.Join(dir, "log"), 16<<10)
		must(t, err)
		done := make(chan error)
		go func() {
			for range 20 {
				if err := l.Sync(); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
		for range 2000 {
			must(t, l.Append(make([]byte, 141)))
		}
		must(t, <-done)
		must(t, l.Close())
		if got := len(readFile(t, fsys, filepath.Join(dir, "log"))); got != 2000*141 {
			t.Errorf("%d bytes", got)
		}
	})
}

func TestLock(t *testing.T) {
	each(t, func(t *testing.T, fsys FS, dir string) {
		name := filepath.Join(dir, "LOCK")
		writeFile(t, fsys, name, "kept")
		l, err := fsys.Lock(name)
		must(t, err)
		for range 2 {
			if _, err := fsys.Lock(filepath.Join(dir, ".", "LOCK")); !errors.Is(err,
				base.ErrLocked) {
				t.Fatalf("second lock: %v", err)
			}
		}
		if got := readFile(t, fsys, name); got != "kept" {
			t.Errorf("Lock changed the file: %q", got)
		}
		must(t, l.Close())
		must(t, l.Close())
		l2, err := fsys.Lock(name)
		must(t, err)
		must(t, l.Close()) // must not release the new one
		if _, err := fsys.Lock(name); !errors.Is(err, base.ErrLocked) {
			t.Errorf("lock after closing an old one again: %v", err)
		}
		must(t, l2.Close())
	})
}
