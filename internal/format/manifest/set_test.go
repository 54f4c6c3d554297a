package manifest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/record"
	"github.com/loamdb/loam/internal/os/vfs"
)

const dir = "db"

func newDir(t testing.TB) *vfs.Mem {
	t.Helper()
	m := vfs.NewMem()
	if err := m.MkdirAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := m.SyncDir("."); err != nil {
		t.Fatal(err)
	}
	return m
}

func options(fsys vfs.FS) Options { return Options{FS: fsys, Dir: dir, Comparer: base.Bytewise} }

// write makes a durable file.
func write(t testing.TB, fsys vfs.FS, name, contents string) {
	t.Helper()
	f, err := fsys.Create(filepath.Join(dir, name))
	if err == nil {
		_, err = f.Write([]byte(contents))
	}
	if err == nil {
		err = errors.Join(f.Sync(), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := fsys.SyncDir(dir); err != nil {
		t.Fatal(err)
	}
}

// writeManifest makes a MANIFEST of edits.
func writeManifest(t testing.TB, fsys vfs.FS, name string, edits ...*Edit) {
	t.Helper()
	l, err := fsys.CreateLog(filepath.Join(dir, name), 0)
	if err != nil {
		t.Fatal(err)
	}
	w := record.NewWriter(l)
	for _, e := range edits {
		if err := w.Append(e.Encode(nil, base.LevelDB)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Sync(), w.Close()); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, fsys vfs.FS, name string) string {
	t.Helper()
	f, err := fsys.Open(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, f.Size())
	if n, err := f.ReadAt(b, 0); n < len(b) {
		t.Fatal(err)
	}
	return string(b)
}

func mustApply(t testing.TB, s *Set, e *Edit) {
	t.Helper()
	v, err := s.Apply(e)
	if err != nil {
		t.Fatal(err)
	}
	v.Unref()
}

// state describes what a Set holds.
func state(s *Set) string {
	v := s.Current(0)
	defer v.Unref()
	return fmt.Sprintf("log %d seq %d\n%v", s.LogNum(), s.LastSeq(), v)
}

func listing(t testing.TB, fsys vfs.FS) []string {
	t.Helper()
	names, err := fsys.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestVersionRaces(t *testing.T) {
	var gone [600]atomic.Int32
	o := options(newDir(t))
	o.Obsolete = func(f *FileMeta) { gone[f.Num-1000].Add(1) }
	o.MaxManifestSize = 2000
	s, err := Create(o)
	if err != nil {
		t.Fatal(err)
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			live := make(map[uint64]struct{})
			for !stop.Load() {
				v := s.Current(0)
				s.LiveFiles(live)
				for i := range v.Levels {
					for _, f := range v.Levels[i].Files {
						if gone[f.Num-1000].Load() != 0 {
							t.Error("a file of a referenced version is obsolete")
						}
						if _, ok := live[f.Num]; !ok {
							t.Error("a file of a referenced version is not live")
						}
					}
				}
				v.Unref()
			}
		}()
	}
	for i := range gone {
		e := &Edit{}
		e.Add(0, table(uint64(1000+i), "a", "b"))
		if i >= 3 {
			e.Delete(0, uint64(1000+i-3))
		}
		mustApply(t, s, e)
	}
	stop.Store(true)
	wg.Wait()
	for i := range gone {
		want := int32(1)
		if i >= len(gone)-3 {
			want = 0
		}
		if n := gone[i].Load(); n != want {
			t.Errorf("file %d became obsolete %d times, want %d", i, n, want)
		}
	}
	if len(s.TakeObsolete()) < 3 {
		t.Error("the MANIFEST was not replaced")
	}
}

// with fills in what a MANIFEST must have.
func (e *Edit) with() *Edit {
	e.SetComparer(base.Bytewise.Name)
	e.SetLogNum(3)
	e.SetNextFile(10)
	e.SetLastSeq(100)
	return e
}

func TestLoadOfNoDirectory(t *testing.T) {
	if _, err := Load(Options{FS: vfs.NewMem(), Dir: "nowhere", Comparer: base.Bytewise},
		false); !errors.Is(err, base.ErrDoesNotExist) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
}

func FuzzLoad(f *testing.F) {
	m := newDir(f)
	writeManifest(f, m, "MANIFEST-000009", (&Edit{}).with(), fullEditAdds(),
		&Edit{HasLogNum: true, LogNum: 8})
	f.Add(false, []byte(read(f, m, "MANIFEST-000009")))
	f.Add(false, []byte{})
	var edits []byte
	for _, e := range []*Edit{(&Edit{}).with(), fullEditAdds(),
		{HasLogNum: true, LogNum: 8, Deleted: []DeletedFile{{3, 11}}}} {
		edits = base.AppendBytes(edits, e.Encode(nil, base.LevelDB))
	}
	f.Add(true, edits)
	f.Fuzz(func(t *testing.T, framed bool, b []byte) {
		m := newDir(t)
		if framed { // b is a list of edits rather than the file
			b = frame(t, m, b)
		}
		write(t, m, "MANIFEST-000002", string(b))
		write(t, m, base.CurrentName, "MANIFEST-000002\n")
		for i := range 14 {
			write(t, m, base.LevelDB.FileName(base.FileTable, uint64(i)), "")
		}
		s, err := Load(options(m), false)
		if err != nil {
			for _, want := range []error{base.ErrCorruption, base.ErrNotADatabase,
				base.ErrComparerMismatch} {
				if errors.Is(err, want) {
					return
				}
			}
			t.Fatal(err)
		}
		if s.nextFile.Load() > base.MaxFileNum-10 {
			return // may count past what is accepted
		}
		before := state(s)
		mustApply(t, s, &Edit{})
		if s, err = Load(options(m), false); err != nil {
			t.Fatal(err)
		}
		if got := state(s); got != before {
			t.Fatalf("got\n%s\nwant\n%s", got, before)
		}
	})
}

// frame makes the file of the length-prefixed edits in b.
func frame(t testing.TB, m *vfs.Mem, b []byte) []byte {
	l, err := m.CreateLog(filepath.Join(dir, "frame"), 0)
	if err != nil {
		t.Fatal(err)
	}
	w := record.NewWriter(l)
	for {
		rec, rest, ok := base.CutBytes(b)
		if !ok {
			break
		}
		if err := w.Append(rec); err != nil {
			t.Fatal(err)
		}
		b = rest
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return []byte(read(t, m, "frame"))
}

func fullEditAdds() *Edit {
	e := fullEdit()
	e.Deleted = nil
	return e
}

func BenchmarkApply(b *testing.B) {
	s, err := Create(options(newDir(b)))
	if err != nil {
		b.Fatal(err)
	}
	n := uint64(1000)
	for b.Loop() {
		e := &Edit{}
		n++
		e.Add(0, table(n, "a", "b"))
		if n > 1001 {
			e.Delete(0, n-1)
		}
		mustApply(b, s, e)
	}
}

// BenchmarkLoad reads the MANIFEST of 100,000 tables and writes the next one, as an
// opening does.
func BenchmarkLoad(b *testing.B) {
	const tables = 100_000
	o := options(vfs.Default)
	o.Dir, o.Format = b.TempDir(), base.Native
	s, err := Create(o)
	if err != nil {
		b.Fatal(err)
	}
	e := &Edit{}
	for i := range uint64(tables) {
		f := table(100+i, fmt.Sprintf("user%012d", 2*i), fmt.Sprintf("user%012d", 2*i+1))
		f.Naming, f.Facts = base.NamedLoam, Facts{Format: base.Native, HasChecksum: true,
			Checksum: 1 << 31, Entries: 1000, Kinds: 3}
		e.Add(6, f)
		if err := os.WriteFile(filepath.Join(o.Dir, f.Name()), nil, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	mustApply(b, s, e)
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		s, err := Load(o, false)
		if err == nil {
			err = s.StartManifest()
		}
		if err == nil {
			err = s.Close()
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
