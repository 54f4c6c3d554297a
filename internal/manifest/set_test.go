package manifest

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/record"
	"github.com/loamdb/loam/internal/vfs"
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
	if err := writeTemp(fsys, filepath.Join(dir, name), contents); err != nil {
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
		if err := w.Append(e.Encode(nil)); err != nil {
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

func TestSetLifecycle(t *testing.T) {
	m := newDir(t)
	var gone []uint64
	o := options(m)
	o.Obsolete = func(f *FileMeta) { gone = append(gone, f.Num) }
	s, err := Create(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Create(o); !errors.Is(err, base.ErrExists) {
		t.Errorf("second Create: %v", err)
	}
	if got := read(t, m, base.CurrentName); got != "MANIFEST-000001\n" {
		t.Errorf("CURRENT %q", got)
	}
	one := table(s.NewFileNum(), "a", "m")
	two := table(s.NewFileNum(), "k", "z")
	write(t, m, one.Name(), "x")
	write(t, m, base.OldTableName(two.Num), "x")
	e := &Edit{}
	e.SetLogNum(7)
	e.Add(0, one)
	e.Add(0, two)
	s.SetLastSeq(55)
	mustApply(t, s, e)
	if e.HasNextFile || e.HasLastSeq {
		t.Error("Apply changed the caller's edit")
	}
	pinned := s.Current(0)
	e = &Edit{CompactPointers: []CompactPointer{{0, ikey("m", 3)}}}
	e.Delete(0, one.Num)
	e.Add(1, one)
	mustApply(t, s, e)
	e = &Edit{}
	e.Delete(0, two.Num)
	e.Add(2, two)
	mustApply(t, s, e)
	want := state(s)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := s.Apply(&Edit{}); !errors.Is(err, base.ErrClosed) {
		t.Errorf("Apply after Close: %v", err)
	}
	if err := s.StartManifest(); !errors.Is(err, base.ErrClosed) {
		t.Errorf("StartManifest after Close: %v", err)
	}
	pinned.Unref()
	if len(gone) != 0 {
		t.Errorf("files %v became obsolete", gone)
	}

	before := fmt.Sprint(listing(t, m))
	ro, err := Load(options(m), true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ro.Apply(&Edit{}); !errors.Is(err, base.ErrReadOnly) {
		t.Errorf("Apply, read-only: %v", err)
	}
	if err := ro.StartManifest(); !errors.Is(err, base.ErrReadOnly) {
		t.Errorf("StartManifest, read-only: %v", err)
	}
	if err := ro.Close(); err != nil || fmt.Sprint(listing(t, m)) != before {
		t.Errorf("read-only load left %v, %v", listing(t, m), err)
	}

	s, err = Load(options(m), false)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.ReplaceAll(state(s), ".sst", ".ldb"); got != want {
		t.Errorf("loaded\n%s\nwant\n%s", got, want)
	}
	if s.TakeObsolete() != nil {
		t.Error("the MANIFEST in force was given away")
	}
	old := s.ManifestNum()
	if err := s.StartManifest(); err != nil {
		t.Fatal(err)
	}
	if got := s.TakeObsolete(); !slices.Equal(got, []string{base.FileName(base.FileManifest, old)}) || s.TakeObsolete() != nil {
		t.Errorf("obsolete MANIFESTs %v", got)
	}
	if s.CompactPointer(0).Trailer.Seq() != 3 || string(s.CompactPointer(0).User) != "m" {
		t.Error("compact pointer lost")
	}
	v := s.Current(0)
	if !v.Levels[2].Files[0].OldName || v.Levels[1].Files[0].OldName {
		t.Error("old name not found")
	}
	v.Unref()
	if n := s.NewFileNum(); n <= s.ManifestNum() {
		t.Errorf("file number %d handed out again", n)
	}
}

func listing(t testing.TB, fsys vfs.FS) []string {
	t.Helper()
	names, err := fsys.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestObsoleteOnce(t *testing.T) {
	o := options(newDir(t))
	var gone []uint64
	o.Obsolete = func(f *FileMeta) { gone = append(gone, f.Num) }
	s, err := Create(o)
	if err != nil {
		t.Fatal(err)
	}
	step := func(what, want string, live int) {
		t.Helper()
		if got := fmt.Sprint(gone); got != "["+want+"]" {
			t.Errorf("%s: obsolete %s, want %s", what, got, want)
		}
		nums := make(map[uint64]struct{})
		if s.LiveFiles(nums); len(nums) != live {
			t.Errorf("%s: live %v, want %d", what, nums, live)
		}
	}
	one, two, three := table(101, "a", "b"), table(102, "c", "d"), table(103, "e", "f")
	e := &Edit{}
	e.Add(1, one)
	e.Add(1, two)
	mustApply(t, s, e)
	oldest := s.Current(0) // 1 2
	e = &Edit{}
	e.Delete(1, 101)
	e.Add(2, one) // moves
	e.Add(0, three)
	mustApply(t, s, e)
	middle := s.Current(0) // 1 2 3
	step("moved", "", 3)
	e = &Edit{}
	e.Delete(0, 103)
	mustApply(t, s, e)
	step("3 dropped", "", 3)
	e = &Edit{}
	e.Delete(2, 101)
	mustApply(t, s, e)
	// 3 was born after the oldest version, which therefore does not hold it.
	middle.Unref()
	step("middle released", "103", 2)
	oldest.Ref()
	oldest.Unref()
	step("no change", "103", 2)
	e = &Edit{}
	e.Delete(1, 102)
	mustApply(t, s, e)
	step("2 dropped", "103", 2)
	oldest.Unref()
	step("oldest released", "103 101 102", 0)
	e = &Edit{}
	e.Add(0, table(104, "x", "y"))
	mustApply(t, s, e)
	e = &Edit{}
	e.Delete(0, 104)
	mustApply(t, s, e)
	step("never pinned", "103 101 102 104", 0)
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

func TestApplyRefusals(t *testing.T) {
	edit := func(f func(e *Edit)) *Edit {
		e := &Edit{}
		f(e)
		return e
	}
	tests := []struct {
		name string
		e    *Edit
		want error
	}{
		{"level -1", edit(func(e *Edit) { e.Add(-1, table(9, "a", "b")) }), base.ErrInvalidArgument},
		{"level 7", edit(func(e *Edit) { e.Delete(7, 9) }), base.ErrInvalidArgument},
		{"log goes back", edit(func(e *Edit) { e.SetLogNum(1) }), base.ErrInvalidArgument},
		{"another comparer", edit(func(e *Edit) { e.SetComparer("x") }), base.ErrInvalidArgument},
		{"delete what is not there", edit(func(e *Edit) { e.Delete(1, 99) }), base.ErrCorruption},
		{"delete from another level", edit(func(e *Edit) { e.Delete(2, 50) }), base.ErrCorruption},
		{"add twice", edit(func(e *Edit) { e.Add(1, table(50, "x", "y")) }), base.ErrCorruption},
		{"move another's number", edit(func(e *Edit) { e.Delete(1, 50); e.Add(2, table(50, "x", "y")) }), base.ErrCorruption},
		{"overlap", edit(func(e *Edit) { e.Add(1, table(51, "b", "z")) }), base.ErrCorruption},
		{"wrong way round", edit(func(e *Edit) { e.Add(1, table(51, "z", "y")) }), base.ErrCorruption},
	}
	for _, tc := range tests {
		s, err := Create(options(newDir(t)))
		if err != nil {
			t.Fatal(err)
		}
		e := &Edit{}
		e.SetLogNum(5)
		e.Add(1, table(50, "a", "c"))
		mustApply(t, s, e)
		before := state(s)
		_, err = s.Apply(tc.e)
		if !errors.Is(err, tc.want) {
			t.Errorf("%s: %v", tc.name, err)
		}
		if state(s) != before {
			t.Errorf("%s: changed the state", tc.name)
		}
		if poisoned := s.Err() != nil; poisoned != (tc.want == base.ErrCorruption) {
			t.Errorf("%s: poisoned %v", tc.name, s.Err())
		}
		if s.Err() != nil {
			if err2 := s.StartManifest(); err2 != err {
				t.Errorf("%s: StartManifest lifted corruption: %v", tc.name, err2)
			}
		}
	}
}

func TestCurrent(t *testing.T) {
	good := []*Edit{(&Edit{}).with()}
	tests := []struct {
		current string
		want    error
		reason  string
	}{
		{"MANIFEST-000005\n", nil, ""},
		{"MANIFEST-000005", base.ErrCorruption, "newline"},
		{"", base.ErrCorruption, "empty"},
		{"\n", base.ErrCorruption, "does not name"},
		{"MANIFEST-000006\n", base.ErrCorruption, "MANIFEST-000006, which is missing"},
		{"MANIFEST-\n", base.ErrCorruption, "does not name"},
		{"MANIFEST-+5\n", base.ErrCorruption, "does not name"},
		{"MANIFEST-5\n", base.ErrCorruption, "does not name"},
		{"../MANIFEST-000005\n", base.ErrCorruption, "does not name"},
		{"MANIFEST-000005\n\n", base.ErrCorruption, "does not name"},
		{"MANIFEST-000005\r\n", base.ErrCorruption, "does not name"},
		{"MANIFEST-000005 \n", base.ErrCorruption, "does not name"},
		{"LOCK\n", base.ErrCorruption, "does not name"},
		{"MANIFEST-9223372036854775807\n", base.ErrCorruption, "does not name"},
		{"MANIFEST-" + strings.Repeat("0", 100) + "5\n", base.ErrCorruption, "bytes long"},
	}
	for _, tc := range tests {
		m := newDir(t)
		write(t, m, base.CurrentName, tc.current)
		writeManifest(t, m, "MANIFEST-000005", good...)
		writeManifest(t, m, "MANIFEST-5", good...)
		_, err := Load(options(m), false)
		if !errors.Is(err, tc.want) || err != nil && !strings.Contains(err.Error(), tc.reason) {
			t.Errorf("%q: %v", tc.current, err)
		}
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

func TestDirectoriesThatAreNotOurs(t *testing.T) {
	tests := []struct {
		name   string
		files  map[string]string
		want   error
		reason string
	}{
		{"empty", nil, base.ErrDoesNotExist, "CURRENT"},
		{"strange files only", map[string]string{"notes.txt": "x", "LOCK": ""}, base.ErrDoesNotExist, "CURRENT"},
		{"creation cut short", map[string]string{"MANIFEST-000001": "x", "000002.log": strings.Repeat("\x00", 99), "000003.log": ""}, base.ErrDoesNotExist, "CURRENT"},
		{"CURRENT lost beside tables", map[string]string{"000004.ldb": "x"}, base.ErrCorruption, "000004.ldb"},
		{"CURRENT lost beside a log", map[string]string{"000004.log": "0123456789"}, base.ErrCorruption, "000004.log"},
		{"rocksdb", map[string]string{"CURRENT": "MANIFEST-000005\n", "OPTIONS-000007": "[Version]\n  rocksdb_version=9.0.0\n"}, base.ErrNotADatabase, "a RocksDB database"},
		{"pebble", map[string]string{"CURRENT": "MANIFEST-000005\n", "OPTIONS-000003": "[Version]\n  pebble_version=0.1\n"}, base.ErrNotADatabase, "a Pebble database"},
		{"pebble with markers", map[string]string{"marker.manifest.000001.MANIFEST-000001": ""}, base.ErrNotADatabase, "a Pebble database"},
		{"either", map[string]string{"OPTIONS-000003": "?"}, base.ErrNotADatabase, "RocksDB or Pebble"},
		{"not an options file", map[string]string{"OPTIONS-old": "?"}, base.ErrDoesNotExist, "CURRENT"},
	}
	for _, tc := range tests {
		m := newDir(t)
		for name, contents := range tc.files {
			write(t, m, name, contents)
		}
		_, err := Load(options(m), false)
		if !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.reason) {
			t.Errorf("%s: %v", tc.name, err)
		}
		_, err = Create(options(m))
		if (tc.want == base.ErrNotADatabase) != errors.Is(err, base.ErrNotADatabase) {
			t.Errorf("%s: Create: %v", tc.name, err)
		}
	}
	if _, err := Load(Options{FS: vfs.NewMem(), Dir: "nowhere", Comparer: base.Bytewise}, false); !errors.Is(err, base.ErrDoesNotExist) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
}

func TestLoadChecks(t *testing.T) {
	tests := []struct {
		name   string
		files  []string
		edits  []*Edit
		want   error
		reason string
	}{
		{"no edits", nil, nil, base.ErrCorruption, "no edit"},
		{"no comparer", nil, []*Edit{{HasLogNum: true, HasNextFile: true, HasLastSeq: true}}, base.ErrCorruption, "comparator"},
		{"no sequence", nil, []*Edit{{HasComparer: true, Comparer: base.Bytewise.Name, HasLogNum: true, HasNextFile: true}}, base.ErrCorruption, "last sequence"},
		{"fields over several edits", nil, []*Edit{{HasComparer: true, Comparer: base.Bytewise.Name}, {HasLogNum: true, HasNextFile: true, HasLastSeq: true}}, nil, ""},
		{"another comparer", nil, []*Edit{{HasComparer: true, Comparer: "idb_cmp1"}}, base.ErrComparerMismatch, `"idb_cmp1", the options say "leveldb.BytewiseComparator"`},
		{"comparer changes", nil, []*Edit{(&Edit{}).with(), {HasComparer: true, Comparer: "x"}}, base.ErrCorruption, "changes"},
		{"table missing", []string{"000008.ldb"}, []*Edit{{Added: []AddedFile{{2, table(7, "c", "d")}, {2, table(8, "a", "b")}}}, (&Edit{}).with()}, base.ErrCorruption, "000007.ldb"},
		{"old name", []string{"000007.sst"}, []*Edit{{Added: []AddedFile{{2, table(7, "a", "b")}}}, (&Edit{}).with()}, nil, ""},
		{"overlap", []string{"000007.ldb", "000008.ldb"}, []*Edit{{Added: []AddedFile{{2, table(7, "a", "c")}, {2, table(8, "b", "d")}}}, (&Edit{}).with()}, base.ErrCorruption, "overlaps"},
		{"overlap for a while", []string{"000008.ldb"}, []*Edit{{Added: []AddedFile{{2, table(7, "a", "c")}, {2, table(8, "b", "d")}}}, {Deleted: []DeletedFile{{2, 7}}}, (&Edit{}).with()}, nil, ""},
		{"deleted from nowhere", nil, []*Edit{(&Edit{}).with(), {Deleted: []DeletedFile{{2, 7}}}}, base.ErrCorruption, "000007.ldb"},
		{"goleveldb's first edit", []string{"000008.ldb"}, []*Edit{{Deleted: []DeletedFile{{2, 7}}, Added: []AddedFile{{2, table(8, "a", "b")}, {2, table(8, "a", "b")}}}, (&Edit{}).with()}, nil, ""},
	}
	for _, tc := range tests {
		m := newDir(t)
		write(t, m, base.CurrentName, "MANIFEST-000002\n")
		writeManifest(t, m, "MANIFEST-000002", tc.edits...)
		for _, f := range tc.files {
			write(t, m, f, "x")
		}
		s, err := Load(options(m), false)
		if !errors.Is(err, tc.want) || err != nil && !strings.Contains(err.Error(), tc.reason) {
			t.Errorf("%s: %v", tc.name, err)
		}
		var c *base.Corruption
		if errors.As(err, &c) && c.File == "" {
			t.Errorf("%s: the file is not named: %v", tc.name, err)
		}
		if err == nil && s.LastSeq() == 100 && s.NewFileNum() < 10 {
			t.Errorf("%s: file numbers start over", tc.name)
		}
	}
}

func TestTornManifest(t *testing.T) {
	flush := func() *Edit { e := &Edit{}; e.SetLogNum(6); e.Add(0, table(7, "a", "b")); return e }()
	make := func(cut int, flip bool, files ...string) *vfs.Mem {
		m := newDir(t)
		writeManifest(t, m, "MANIFEST-000009", (&Edit{}).with(), flush, &Edit{HasLogNum: true, LogNum: 8})
		b := []byte(read(t, m, "MANIFEST-000009"))
		if flip {
			b[len(b)-1] ^= 1
		}
		write(t, m, "MANIFEST-000002", string(b[:len(b)-cut]))
		write(t, m, base.CurrentName, "MANIFEST-000002\n")
		for _, f := range files {
			write(t, m, f, "x")
		}
		return m
	}
	for cut := range 12 { // the last record has 9 bytes
		m := make(cut, cut == 0, "000006.log", "000007.ldb", "000003.log")
		res, err := ReadManifest(m, "db", "MANIFEST-000002", false)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Load(options(m), false)
		if err != nil {
			t.Errorf("cut %d: %v", cut, err)
			continue
		}
		wantLog := uint64(6)
		if cut > 9 {
			wantLog = 3
		}
		if s.LogNum() != wantLog || (res.Torn == nil) != (cut == 9) {
			t.Errorf("cut %d: log %d, torn %v", cut, s.LogNum(), res.Torn)
		}
		if res.Torn != nil && (res.Torn.File != "MANIFEST-000002" || res.Torn.Offset <= 0) {
			t.Errorf("cut %d: %v", cut, res.Torn)
		}
	}
	// Without the log from before the damaged edit, that edit was acknowledged.
	if _, err := Load(options(make(0, true, "000007.ldb", "000008.log")), false); !errors.Is(err, base.ErrCorruption) || !strings.Contains(err.Error(), "000006.log") {
		t.Errorf("flipped, log gone: %v", err)
	}
	// Damage with an edit behind it is no torn tail.
	m := make(0, false, "000003.log", "000006.log", "000007.ldb", "000008.log")
	b := []byte(read(t, m, "MANIFEST-000002"))
	b[len(b)-15] ^= 1
	if err := m.Remove("db/MANIFEST-000002"); err != nil {
		t.Fatal(err)
	}
	write(t, m, "MANIFEST-000002", string(b))
	if _, err := Load(options(m), false); !errors.Is(err, base.ErrCorruption) || !strings.Contains(err.Error(), "MANIFEST-000002 at offset") {
		t.Errorf("damage in the middle: %v", err)
	}
}

func FuzzLoad(f *testing.F) {
	m := newDir(f)
	writeManifest(f, m, "MANIFEST-000009", (&Edit{}).with(), fullEditAdds(), &Edit{HasLogNum: true, LogNum: 8})
	f.Add(false, []byte(read(f, m, "MANIFEST-000009")))
	f.Add(false, []byte{})
	var edits []byte
	for _, e := range []*Edit{(&Edit{}).with(), fullEditAdds(), {HasLogNum: true, LogNum: 8, Deleted: []DeletedFile{{3, 11}}}} {
		edits = base.AppendBytes(edits, e.Encode(nil))
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
			write(t, m, base.FileName(base.FileTable, uint64(i)), "")
		}
		s, err := Load(options(m), false)
		if err != nil {
			for _, want := range []error{base.ErrCorruption, base.ErrNotADatabase, base.ErrComparerMismatch} {
				if errors.Is(err, want) {
					return
				}
			}
			t.Fatal(err)
		}
		if s.nextFile.Load() > maxFileNum-10 {
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
