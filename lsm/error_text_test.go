package lsm

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/fstest"
	"github.com/loamdb/loam/internal/testkit/seed"
)

// checkText fails unless an error's text says each thing once: no name of the
// library, which its faces put in front, and no sentinel twice.
func checkText(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	text, _, _ := strings.Cut(err.Error(), "\n") // further lines are further errors, or a stack
	text, _, _ = strings.Cut(text, " (and ")     // another failure of the same kind
	if strings.Contains(" "+text, " loam: ") {
		t.Errorf("a prefix in %q", text)
	}
	for _, sentinel := range []error{
		ErrNotFound, ErrCorruption, ErrReadOnly, ErrLocked, ErrBusy, ErrInvalidArgument,
		ErrNotADatabase, ErrExists, ErrDoesNotExist, ErrComparerMismatch, ErrNoMergeOperator,
		ErrMergeFailed, ErrTooLarge, ErrDirectoryChanged, ErrNeedsNative, ErrNoKeyspace, ErrNoSpace,
		ErrNoMemory, ErrTooManyFiles,
	} {
		if words := sentinel.Error(); strings.Count(text, words) > 1 {
			t.Errorf("%q is said twice in %q", words, text)
		}
	}
}

// errorsOf opens, writes, reads and repairs on a file system, and returns how many
// errors that made; each is checked.
func errorsOf(t *testing.T, fsys vfs.FS, dir string) (failed int) {
	t.Helper()
	note := func(err error) bool {
		t.Helper()
		checkText(t, err)
		if err != nil {
			failed++
		}
		return err == nil
	}
	for range 2 {
		db, err := Open(dir, small(Options{FS: fsys}))
		if !note(err) {
			continue
		}
		for i := range 3 {
			for j := range 20 {
				note(db.Put(fmt.Appendf(nil, "%d-%d", i, j), make([]byte, 200),
					[]WriteMode{NoSync, Sync}[j/10]))
			}
			note(db.Flush())
		}
		_, err = db.Get([]byte("1-1"), nil)
		note(err)
		it := db.Iter(nil)
		for ok := it.First(); ok; ok = it.Next() {
		}
		note(it.Close())
		note(db.CompactRange(nil, nil))
		note(db.Resume())
		m := db.Metrics()
		checkText(t, m.ReadOnly)
		checkText(t, m.BackgroundError)
		note(db.Close())
	}
	_, err := Repair(dir, small(Options{FS: fsys}))
	note(err)
	note(Destroy(dir, small(Options{FS: fsys})))
	return failed
}

// TestErrorTexts fails one call of the file system after the other, and has a look
// at the text of every error that comes of it.
func TestErrorTexts(t *testing.T) {
	step := int64(seed.Scale(10, 5, 1))
	for _, errno := range []syscall.Errno{syscall.EIO, syscall.ENOSPC} {
		for _, forever := range []bool{false, true} {
			failed := 0
			for at := int64(0); ; at += step {
				hook := &fstest.FailAt{At: at, Forever: forever, Outcome: vfs.Outcome{Err: errno}}
				failed += errorsOf(t, vfs.NewFault(vfs.NewMem(), hook.Hook), "db")
				if hook.Failed() == 0 {
					break
				}
			}
			if failed < 20 {
				t.Errorf("%v: %d errors only", errno, failed)
			}
		}
	}
}

// TestErrorTextsOfDamage flips a bit in each file of a database.
func TestErrorTextsOfDamage(t *testing.T) {
	mem, failed := vfs.NewMem(), 0
	errorsOf(t, mem, "db")
	db := mustOpen(t, "db", small(Options{FS: mem}))
	mustPut(t, db, 1)
	if err := errors.Join(db.Flush(), db.Put([]byte("k"), []byte("v"), NoSync),
		db.Close()); err != nil {
		t.Fatal(err)
	}
	files, err := fstest.Tree(mem, "db")
	if err != nil {
		t.Fatal(err)
	}
	for name := range files {
		for _, at := range []float64{0, 0.5, 0.99} {
			hurt := mem.Clone()
			flip(t, hurt, "db/"+name, at)
			failed += errorsOf(t, hurt, "db")
		}
	}
	if failed < 5 {
		t.Errorf("%d errors only", failed)
	}
}

// flip flips a bit of a file, at a part of its length.
func flip(t *testing.T, fsys vfs.FS, name string, at float64) {
	t.Helper()
	f, err := fsys.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	content := make([]byte, f.Size())
	if len(content) > 0 {
		if _, err := f.ReadAt(content, 0); err != nil {
			t.Fatal(err)
		}
		content[int(at*float64(len(content)))] ^= 1
	}
	w, err := fsys.Create(name + ".new")
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Write(content)
	if err = errors.Join(err, w.Close(), fsys.Rename(name+".new", name), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestErrorTextsOfMisuse has a look at what callers do wrong.
func TestErrorTextsOfMisuse(t *testing.T) {
	mem := vfs.NewMem()
	db := mustOpen(t, "db", &Options{FS: mem})
	defer db.Close()
	closed := mustOpen(t, "closed", &Options{FS: mem})
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	other := Comparer{Name: "other", Compare: func(a, b []byte) int {
		return strings.Compare(string(a), string(b))
	}}
	open := func(dir string, o Options) error {
		o.FS = mem
		db, err := Open(dir, &o)
		if err == nil {
			err = errors.Join(errors.New("opened"), db.Close())
		}
		return err
	}
	_, notFound := db.Get([]byte("none"), nil)
	_, badBatch := BatchFromBytes([]byte("no batch"))
	for name, err := range map[string]error{
		"locked":            open("db", Options{}),
		"no database":       open("none", Options{ErrorIfMissing: true}),
		"a database":        open("closed", Options{ErrorIfExists: true}),
		"another order":     open("closed", Options{Comparer: &other}),
		"an option's value": open("x", Options{MaxOpenFiles: 1 << 60}),
		"an option":         (&Options{}).Set("cachesize", "1"),
		"a closed database": closed.Put([]byte("k"), nil, NoSync),
		"closed twice":      closed.Close(),
		"a missing key":     notFound,
		"a broken batch":    badBatch,
		"no batch":          db.Write(nil, NoSync),
		"a range":           db.CompactRange([]byte("b"), []byte("a")),
		"a shortage":        base.Classify(fmt.Errorf("writing: %w", syscall.ENOSPC)),
	} {
		if err == nil && name != "closed twice" {
			t.Errorf("%s: no error", name)
		}
		checkText(t, err)
	}
}
