package files

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/format/sstable/ldb"
	"github.com/loamdb/loam/internal/memory/cache"
	"github.com/loamdb/loam/internal/os/vfs"
)

var tableOptions = sstable.WriterOptions{
	Comparer: base.Bytewise, BlockSize: 1024, RestartInterval: 16, Compression: sstable.Snappy,
	BloomBits: 10,
}

const tableEntries = 300

func key(num uint64, i int) []byte   { return fmt.Appendf(nil, "table%04d-key%05d", num, i) }
func value(num uint64, i int) []byte { return fmt.Appendf(nil, "value %d of %d", i, num) }

// writeTable makes table num with tableEntries entries.
func writeTable(t testing.TB, s *Set, num uint64) *manifest.FileMeta {
	t.Helper()
	return writeTableWith(t, s, num, tableOptions)
}

func writeTableWith(t testing.TB, s *Set, num uint64, o sstable.WriterOptions) *manifest.FileMeta {
	t.Helper()
	w, name, err := s.Create(num, o)
	if err != nil {
		t.Fatal(err)
	}
	if name != base.LevelDB.FileName(base.FileTable, num) {
		t.Errorf("created %s", name)
	}
	for i := range tableEntries {
		if err := w.Add(key(num, i), base.MakeTrailer(base.SeqNum(i+1), base.KindSet),
			base.CodecRaw, value(num, i)); err != nil {
			t.Fatal(err)
		}
	}
	m, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &manifest.FileMeta{Num: num, Size: m.Size, Smallest: m.Smallest.Clone(),
		Largest: m.Largest.Clone()}
}

func get(s *Set, m *manifest.FileMeta, i int) error {
	r, err := s.Reader(m)
	if err != nil {
		return err
	}
	k := key(m.Num, i)
	v, _, found, err := r.Get(base.MakeLookup(base.Bytewise, k, base.MaxSeqNum), 0, nil)
	if err != nil {
		return err
	}
	if !found || !bytes.Equal(v, value(m.Num, i)) {
		return fmt.Errorf("table %d key %d: found %v, %q", m.Num, i, found, v)
	}
	return nil
}

func tableSet(t testing.TB, fsys vfs.FS, dir string) (*Set, *cache.Cache) {
	t.Helper()
	if err := fsys.MkdirAll(dir); err != nil {
		t.Fatal(err)
	}
	c := cache.New(256 << 10)
	return New(Options{FS: fsys, Dir: dir, Cache: c, Comparer: base.Bytewise,
		OnError: func(err error) { t.Error(err) }}), c
}

func closeSet(t testing.TB, s *Set, c *cache.Cache) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if st := s.Stats(); st.Readers != 0 || st.Descriptors != 0 {
		t.Errorf("after Close: %+v", st)
	}
	if st := c.Stats(); st.Used != 0 {
		t.Errorf("left in the cache: %+v", st)
	}
	c.Unref()
}

func TestReaderLifecycle(t *testing.T) {
	mem := vfs.NewMem()
	s, c := tableSet(t, mem, "/db")
	m := writeTable(t, s, 7)
	if _, ok := s.OpenNow(m); ok {
		t.Error("open before it was opened")
	}
	if err := get(s, m, 5); err != nil {
		t.Fatal(err)
	}
	r, ok := s.OpenNow(m)
	if !ok || r.Props().Size != m.Size {
		t.Errorf("OpenNow: %v, %+v", ok, r.Props())
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = s.Reader(m) }); n != 0 {
		t.Errorf("%v allocations for an open reader", n)
	}
	if st := s.Stats(); st.Readers != 1 || st.Descriptors != 1 || st.ReaderBytes == 0 {
		t.Errorf("%+v", st)
	}
	g := s.o.Reads.Enter()
	s.Obsolete(m)
	if err := get(s, m, 6); err != nil { // the guard was entered before
		t.Error(err)
	}
	g.Exit()
	s.WaitDeleted()
	if exists(mem, m.Name()) {
		t.Error("the file is still there")
	}
	if st := s.Stats(); st.Readers != 0 || st.Descriptors != 0 {
		t.Errorf("%+v", st)
	}
	if _, err := s.Reader(m); !errors.Is(err, fs.ErrNotExist) ||
		errors.Is(err, base.ErrCorruption) {
		t.Errorf("a deleted table: %v", err)
	}
	last := writeTable(t, s, 8)
	if err := get(s, last, 1); err != nil {
		t.Error(err)
	}
	closeSet(t, s, c)
	if _, err := s.Reader(last); !errors.Is(err, base.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestBothNames(t *testing.T) {
	mem := vfs.NewMem()
	s, c := tableSet(t, mem, "/db")
	m := writeTable(t, s, 7)
	old := &manifest.FileMeta{Num: 7, Size: m.Size, Naming: base.NamedSST}
	if err := get(s, old, 1); err != nil {
		t.Errorf(".ldb for a table recorded as .sst: %v", err)
	}
	if err := mem.Rename("/db/000007.ldb", "/db/000007.sst"); err != nil {
		t.Fatal(err)
	}
	if err := get(s, m, 1); err != nil {
		t.Errorf(".sst for a table recorded as .ldb: %v", err)
	}
	s.Obsolete(m)
	s.WaitDeleted()
	if exists(mem, "000007.sst") {
		t.Error("the file under the other name is still there")
	}
	s.mu.Lock() // the second meta of the same number is not what a database has
	s.open[7] = old
	s.mu.Unlock()
	closeSet(t, s, c)
}

// overwrite replaces the end of a file.
func overwrite(t *testing.T, fsys vfs.FS, name string, change func(b []byte) []byte) {
	t.Helper()
	path := filepath.Join("/db", name)
	f, err := fsys.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, f.Size())
	if _, err := f.ReadAt(b, 0); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	_ = f.Close()
	if err := fsys.Remove(path); err != nil {
		t.Fatal(err)
	}
	w, err := fsys.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(change(b)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestDamage(t *testing.T) {
	magic := func(m uint64) func(b []byte) []byte {
		return func(b []byte) []byte {
			binary.LittleEndian.PutUint64(b[len(b)-8:], m)
			return b
		}
	}
	cases := []struct {
		name   string
		change func(b []byte) []byte
		want   []string
	}{
		{"shorter", func(b []byte) []byte {
			return b[:len(b)-1]
		}, []string{"table file", "bytes, the manifest says"}},
		{"empty", func(b []byte) []byte { return nil }, []string{"has 0 bytes"}},
		{"rocksdb", magic(0x88e241b785f4cff7), []string{"table footer", "RocksDB"}},
		{"pebble", func(b []byte) []byte {
			return append(b[:len(b)-8], "\xf0\x9f\xaa\xb3\xf0\x9f\xaa\xb3"...)
		}, []string{"Pebble"}},
		{"zeros", magic(0), []string{"zeros"}},
		{"unknown", magic(12345), []string{"0x3039", "known"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			mem := vfs.NewMem()
			s, ca := tableSet(t, mem, "/db")
			m := writeTable(t, s, 9)
			var good []byte
			overwrite(t, mem, "000009.ldb", func(b []byte) []byte {
				good = bytes.Clone(b)
				return c.change(b)
			})
			for range 2 { // found anew each time
				_, err := s.Reader(m)
				var damage *base.Corruption
				if !errors.As(err, &damage) || !errors.Is(err, base.ErrCorruption) {
					t.Fatalf("got %v", err)
				}
				if damage.File != "000009.ldb" {
					t.Errorf("file %q", damage.File)
				}
				for _, w := range c.want {
					if !strings.Contains(err.Error(), w) {
						t.Errorf("%q does not say %q", err, w)
					}
				}
			}
			overwrite(t, mem, "000009.ldb", func([]byte) []byte { return good })
			if err := get(s, m, 3); err != nil {
				t.Errorf("the whole file: %v", err)
			}
			// Bytes behind what the manifest counts are not the table's.
			extra := writeTable(t, s, 10)
			overwrite(t, mem, "000010.ldb", func(b []byte) []byte {
				return append(b, make([]byte, 100)...)
			})
			if err := get(s, extra, 3); err != nil {
				t.Errorf("a longer file: %v", err)
			}
			closeSet(t, s, ca)
		})
	}
	mem := vfs.NewMem()
	s, ca := tableSet(t, mem, "/db")
	for _, size := range []uint64{0, 7, 1 << 63, 1<<64 - 1} {
		if _, err := s.Reader(&manifest.FileMeta{Num: 1, Size: size}); !errors.Is(err,
			base.ErrCorruption) {
			t.Errorf("size %d: %v", size, err)
		}
	}
	closeSet(t, s, ca)
}

// Every failure of a read or an open while a table is opened is returned unchanged, leaves no
// state, and does not recur after the fault.
func TestTransientFaults(t *testing.T) {
	mem := vfs.NewMem()
	var count, failAt atomic.Int64
	s, c := tableSet(t, vfs.NewFault(mem, func(op vfs.Op) vfs.Outcome {
		if op.Kind == vfs.OpOpen || op.Kind == vfs.OpRead {
			if count.Add(1) == failAt.Load() {
				return vfs.Outcome{Err: syscall.EIO}
			}
		}
		return vfs.Outcome{}
	}), "/db")
	for i := int64(1); ; i++ {
		m := writeTable(t, s, uint64(i))
		count.Store(0)
		failAt.Store(i)
		_, err := s.Reader(m)
		if err == nil {
			if i < 3 {
				t.Errorf("opening a table takes %d calls", i-1)
			}
			break
		}
		if !errors.Is(err, syscall.EIO) || errors.Is(err, base.ErrCorruption) {
			t.Errorf("call %d: %v", i, err)
		}
		if st := s.Stats(); st.Descriptors != int(i-1) {
			t.Errorf("call %d: %d descriptors", i, st.Descriptors)
		}
		if err := get(s, m, 1); err != nil {
			t.Errorf("call %d: it sticks: %v", i, err)
		}
	}
	failAt.Store(0)
	closeSet(t, s, c)
}

// Many goroutines open, read and retire tables under few descriptors.
func TestConcurrentUse(t *testing.T) {
	before, _ := MaxOpen()
	SetMaxOpen(5)
	defer SetMaxOpen(before)
	fsys := &counting{FS: vfs.NewMem()}
	s, c := tableSet(t, fsys, "/db")
	const tables = 24
	var current [tables]atomic.Pointer[manifest.FileMeta]
	for i := range current {
		current[i].Store(writeTable(t, s, uint64(i+1)))
	}
	var next atomic.Uint64
	next.Store(tables)
	var wg sync.WaitGroup
	for g := range 6 {
		wg.Go(func() {
			x := uint32(g + 1)
			for range 400 {
				x = x*1664525 + 1013904223
				i := int(x >> 8)
				guard := s.o.Reads.Enter()
				err := get(s, current[i%tables].Load(), i/tables%tableEntries)
				guard.Exit()
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Go(func() {
		for i := range 60 {
			m := writeTable(t, s, next.Add(1))
			s.Obsolete(current[i%tables].Swap(m))
		}
	})
	wg.Wait()
	s.WaitDeleted()
	if m := fsys.most.Load(); m > 5 {
		t.Errorf("%d descriptors of tables were open", m)
	}
	names, err := fsys.List("/db")
	if err != nil || len(names) != tables {
		t.Errorf("%d files, %v", len(names), err)
	}
	t.Logf("%d opens, %+v", fsys.opens.Load(), s.Stats())
	closeSet(t, s, c)
}

// lowLimitEnv makes the test below the child that runs with few descriptors.
const lowLimitEnv = "LOAM_FILES_LOW_LIMIT"

func TestFewDescriptors(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no such limit")
	}
	if os.Getenv(lowLimitEnv) == "" {
		cmd := exec.Command("sh", "-c",
			`ulimit -n 64 && exec "$0" -test.run '^TestFewDescriptors$' -test.v`, os.Args[0])
		cmd.Env = append(os.Environ(), lowLimitEnv+"=1")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "PASS: TestFewDescriptors") {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	if limit, _ := MaxOpen(); limit < 10 || limit > 32 {
		t.Errorf("of 64 descriptors the tables may have %d", limit)
	}
	dir := t.TempDir()
	s, c := tableSet(t, vfs.Default, dir)
	const tables = 100
	metas := make([]*manifest.FileMeta, tables)
	for i := range metas {
		metas[i] = writeTable(t, s, uint64(i+1))
	}
	read := func() {
		var wg sync.WaitGroup
		for g := range 16 {
			wg.Go(func() {
				for i := range 300 {
					if err := get(s, metas[(i*7+g*13)%tables], i); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
	}
	read()
	// The host now takes all that is left; tables give way and go on.
	var taken []*os.File
	for {
		f, err := os.Open(dir)
		if err != nil {
			break
		}
		taken = append(taken, f)
	}
	read()
	writeTable(t, s, tables+1)
	for _, f := range taken {
		_ = f.Close()
	}
	read()
	if st := s.Stats(); st.Readers != tables {
		t.Errorf("%+v", st)
	}
	closeSet(t, s, c)
}

func BenchmarkReader(b *testing.B) {
	s, c := tableSet(b, vfs.NewMem(), "/db")
	m := writeTable(b, s, 1)
	if err := get(s, m, 1); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := s.Reader(m); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	closeSet(b, s, c)
}

// A table whose index is damaged under a right checksum is read once; one with
// a wrong checksum each time.
func TestFinalDamageIsRemembered(t *testing.T) {
	for _, sound := range []bool{true, false} {
		var reads atomic.Int64
		s, mem, _ := newSet(t, func(op vfs.Op) vfs.Outcome {
			if op.Kind == vfs.OpRead {
				reads.Add(1)
			}
			return vfs.Outcome{}
		})
		seal := func(rows []byte) []byte {
			trailer := block.Trailer(rows, block.None)
			return append(rows, trailer[:]...)
		}
		empty := seal([]byte{0, 0, 0, 0, 1, 0, 0, 0})
		index := seal([]byte{0, 1, 1, 'x', 'y', 0, 0, 0, 0, 1, 0, 0, 0})
		if !sound {
			index[len(index)-1] ^= 1
		}
		var foot [ldb.FooterLen]byte
		p := block.AppendHandle(foot[:0], block.Handle{Offset: 0, Size: 8})
		block.AppendHandle(p, block.Handle{Offset: uint64(len(empty)),
			Size: uint64(len(index) - block.TrailerLen)})
		binary.LittleEndian.PutUint64(foot[ldb.FooterLen-8:], ldb.Magic)
		b := slices.Concat(empty, index, foot[:])
		w, err := mem.Create("/db/000001.ldb")
		if err == nil {
			_, err = w.Write(b)
		}
		if err != nil {
			t.Fatal(err)
		}
		m := &manifest.FileMeta{Num: 1, Size: uint64(len(b))}
		first := int64(0)
		for i := range 10 {
			if _, err := s.Reader(m); !errors.Is(err, base.ErrCorruption) {
				t.Fatalf("opened: %v", err)
			}
			if i == 0 {
				first = reads.Load()
			}
		}
		if again := reads.Load() > first; first == 0 || again == sound {
			t.Errorf("checksum right %v: %d reads, %d of them at first", sound, reads.Load(), first)
		}
		_ = s.Close()
	}
}
