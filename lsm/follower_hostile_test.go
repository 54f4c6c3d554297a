package lsm

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/seed"
)

// dirFiles are the contents of a directory.
type dirFiles map[string][]byte

// readFiles reads a directory in which background work comes to its end.
func readFiles(t *testing.T, dir string) dirFiles {
	var all, before dirFiles
	for before == nil || !maps.EqualFunc(all, before, bytes.Equal) {
		all, before = dirFiles{}, all
		entries, err := os.ReadDir(dir)
		must(t, err)
		for _, e := range entries {
			if e.IsDir() { // CURRENT of the native format
				continue
			}
			b, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if !errors.Is(err, fs.ErrNotExist) { // deleted meanwhile
				must(t, err)
				all[e.Name()] = b
			}
		}
	}
	return all
}

// write makes a directory have these files, in place where they are there.
func (f dirFiles) write(t *testing.T, dir string) {
	for name := range readFiles(t, dir) {
		if _, ok := f[name]; !ok {
			must(t, os.Remove(filepath.Join(dir, name)))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f)) {
		must(t, os.WriteFile(filepath.Join(dir, name), f[name], 0o600))
	}
}

// damage changes one file of a directory, and returns a description.
func (f dirFiles) damage(rng *rand.Rand) string {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(f)), func(n string) bool {
		return n == "LOCK"
	})
	name := names[rng.IntN(len(names))]
	b := bytes.Clone(f[name])
	at := rng.IntN(len(b) + 1)
	what := rng.IntN(6)
	switch {
	case what == 0 || len(b) == 0:
		delete(f, name)
		return name + " is gone"
	case what == 1:
		f[name] = b[:at]
		return fmt.Sprintf("%s is cut off at %d", name, at)
	case what == 2:
		other := names[rng.IntN(len(names))]
		f[name], f[other] = f[other], f[name]
		return fmt.Sprintf("%s and %s are swapped", name, other)
	case what == 3:
		clear(b[at:min(at+512, len(b))])
		f[name] = b
		return fmt.Sprintf("%s has zeros from %d on", name, at)
	default:
		at = min(at, len(b)-1)
		b[at] ^= 1 << rng.IntN(8)
		f[name] = b
		return fmt.Sprintf("%s has another bit at %d", name, at)
	}
}

// writeNumbered writes batches, each of which sets keys by a rule, so that the states of the
// database are known.
func writeNumbered(t *testing.T, db *DB, from, to int) {
	for i := from; i <= to; i++ {
		b := NewBatch()
		for k, v := range numberedBatch(i) {
			b.Put([]byte(k), v)
		}
		must(t, db.Write(b, NoSync))
		if i%40 == 0 {
			must(t, db.Flush())
		}
	}
}

func numberedBatch(i int) map[string][]byte {
	n := binary.BigEndian.AppendUint32(nil, uint32(i))
	return map[string][]byte{"n": n, fmt.Sprintf("key%03d", i*7%90): bytes.Repeat(n, 100)}
}

// numberedState is what a follower shows: the number of a batch up to which all is there. It fails
// for a state that the writer never had.
func numberedState(f *Follower) (i int, err error) {
	got := map[string][]byte{}
	it := f.Iter(nil)
	for ok := it.First(); ok; ok = it.Next() {
		got[string(it.Key())] = bytes.Clone(it.Value())
	}
	if err := it.Close(); err != nil {
		return 0, err
	}
	if n := got["n"]; n != nil {
		i = int(binary.BigEndian.Uint32(n))
	}
	want := map[string][]byte{}
	for j := 1; j <= i; j++ {
		maps.Copy(want, numberedBatch(j))
	}
	if !maps.EqualFunc(got, want, bytes.Equal) {
		return i, fmt.Errorf("%d keys, which is no state of the writer at batch %d", len(got), i)
	}
	return i, nil
}

// TestFollowerOfADamagedDirectory opens a follower and then changes the directory to a later state
// of it, with a damage. Catching up fails, or shows a state that the writer had; reads fail, or are
// right. When the later state is there without a damage, the follower shows it, or says that it
// follows another directory.
func TestFollowerOfADamagedDirectory(t *testing.T) {
	for _, format := range []Format{FormatNative, FormatLevelDB} {
		t.Run(format.String(), func(t *testing.T) {
			start := seed.Of(t)
			rng := rand.New(rand.NewPCG(uint64(start), 1))
			dir := t.TempDir()
			open := func() *DB {
				db, err := Open(dir, &Options{Format: format, L0Compaction: 100})
				must(t, err)
				return db
			}
			const first, last = 100, 230
			db := open()
			writeNumbered(t, db, 1, first)
			before := readFiles(t, dir)
			writeNumbered(t, db, first+1, last)
			after := readFiles(t, dir)
			must(t, db.Close())
			for trial := range seed.Scale(25, 25, 80) {
				func() {
					damaged := maps.Clone(after)
					what := damaged.damage(rng)
					before.write(t, dir)
					f, err := OpenFollower(dir, &Options{Format: format})
					must(t, err)
					defer f.Close()
					fail := func(args ...any) {
						t.Helper()
						t.Fatalf("seed %d, trial %d, %s: %v", start, trial, what,
							fmt.Sprintln(args...))
					}
					check := func(stage string, want int) {
						t.Helper()
						var p *base.Panic
						err := f.CatchUp(context.Background())
						if errors.As(err, &p) || want > 0 && err != nil &&
							!errors.Is(err, ErrDirectoryChanged) {
							fail(stage, "catching up:", err)
						}
						i, rerr := numberedState(f)
						switch {
						case errors.As(rerr, &p) || rerr != nil && !errors.Is(rerr, ErrCorruption):
							fail(stage, "reading:", rerr)
						case rerr == nil && (i < first || want > 0 && err == nil && i != want):
							fail(stage, "batch", i)
						case want > 0 && err == nil && rerr != nil:
							fail(stage, "reading:", rerr)
						}
					}
					if i, err := numberedState(f); err != nil || i != first {
						fail("before the damage: batch", i, err)
					}
					damaged.write(t, dir)
					check("damaged", 0)
					check("damaged, again", 0)
					after.write(t, dir)
					check("whole", last)
				}()
			}
		})
	}
}

// TestFollowerOfAReplacedDirectory: a follower whose directory is renamed away, and replaced by
// another one, says so and keeps its state; when the directory is back, it goes on.
func TestFollowerOfAReplacedDirectory(t *testing.T) {
	root := t.TempDir()
	dir, aside := filepath.Join(root, "db"), filepath.Join(root, "aside")
	db, err := Open(dir, nil)
	must(t, err)
	defer db.Close()
	writeNumbered(t, db, 1, 10)
	f, err := OpenFollower(dir, nil)
	must(t, err)
	defer f.Close()
	must(t, os.Rename(dir, aside))
	writeNumbered(t, db, 11, 20)
	wrong := func(when string) {
		t.Helper()
		if err := f.CatchUp(context.Background()); !errors.Is(err, ErrDirectoryChanged) {
			t.Errorf("%s: %v", when, err)
		}
		if i, err := numberedState(f); i != 10 || err != nil {
			t.Errorf("%s: batch %d, %v", when, i, err)
		}
	}
	wrong("renamed away")
	must(t, os.Mkdir(dir, 0o700))
	wrong("an empty directory")
	must(t, os.Remove(dir))
	other, err := Open(dir, nil)
	must(t, err)
	writeNumbered(t, other, 1, 30)
	wrong("another database")
	must(t, other.Close())
	must(t, os.RemoveAll(dir))
	must(t, os.WriteFile(dir, nil, 0o600))
	if err := f.CatchUp(context.Background()); err == nil {
		t.Error("a file is followed")
	}
	must(t, os.Remove(dir))
	must(t, os.Rename(aside, dir))
	must(t, f.CatchUp(context.Background()))
	if i, err := numberedState(f); i != 20 || err != nil {
		t.Errorf("back again: batch %d, %v", i, err)
	}
}

// TestFollowerWithoutPermission follows a directory in which every call that changes something, or
// wants a lock, fails: none is made.
func TestFollowerWithoutPermission(t *testing.T) {
	for _, format := range []Format{FormatNative, FormatLevelDB} {
		mem := vfs.NewMem()
		db, err := Open("db", &Options{FS: mem, Format: format, WriteBufferSize: 64 << 10})
		must(t, err)
		writeNumbered(t, db, 1, 100)
		refused := vfs.NewFault(mem, func(op vfs.Op) vfs.Outcome {
			switch op.Kind {
			case vfs.OpOpen, vfs.OpRead, vfs.OpList, vfs.OpStat, vfs.OpClose, vfs.OpMap,
				vfs.OpTouch:
				return vfs.Outcome{}
			}
			t.Errorf("%v: a follower called %v", format, op)
			return vfs.Outcome{Err: syscall.EROFS}
		})
		f, err := OpenFollower("db", &Options{FS: refused})
		must(t, err)
		writeNumbered(t, db, 101, 200)
		must(t, f.CatchUp(context.Background()))
		if i, err := numberedState(f); i != 200 || err != nil {
			t.Errorf("%v: batch %d, %v", format, i, err)
		}
		if _, err := f.Lag(context.Background()); err != nil {
			t.Error(err)
		}
		must(t, errors.Join(f.Close(), db.Close()))
	}
}

// TestFollowerOfAFasterWriter: whatever a follower reads of a log, its writer has written more by
// then. Opening and catching up end all the same, with all that was there when they began. Nothing
// is flushed meanwhile: a follower shows an edit of the MANIFEST with all that the logs had before
// it, and a writer that is never slower than its follower could move that end away for ever.
func TestFollowerOfAFasterWriter(t *testing.T) {
	mem := vfs.NewMem()
	db, err := Open("db", &Options{FS: mem, WriteBufferSize: 256 << 20, WALPreallocate: -1})
	must(t, err)
	value := make([]byte, 48<<10)
	var calls, written int
	write := func() {
		written++
		must(t, db.Put(binary.BigEndian.AppendUint32([]byte("key"), uint32(written%16)), value,
			NoSync))
		must(t, db.Put([]byte("n"), binary.BigEndian.AppendUint32(nil, uint32(written)), NoSync))
	}
	for range 100 { // more than a catch-up reads before it looks where the logs end
		write()
	}
	faster := vfs.NewFault(mem, func(op vfs.Op) vfs.Outcome {
		if op.Kind == vfs.OpRead && strings.HasSuffix(op.Name, ".wal") && op.N > 1<<10 {
			if calls++; calls > 5000 {
				return vfs.Outcome{Err: fs.ErrInvalid}
			}
			write()
		}
		return vfs.Outcome{}
	})
	f, err := OpenFollower("db", &Options{FS: faster})
	must(t, err)
	shown := func() int {
		n, err := f.Get([]byte("n"), nil)
		must(t, err)
		return int(binary.BigEndian.Uint32(n))
	}
	if n := shown(); n < 100 {
		t.Errorf("it was opened at %d", n)
	}
	for range 2 {
		for range 100 {
			write()
		}
		least := written
		must(t, f.CatchUp(context.Background()))
		if n := shown(); n < least {
			t.Errorf("at %d, and %d were written before", n, least)
		}
	}
	must(t, errors.Join(f.Close(), db.Close()))
}

// TestFollowerOfAnOlderCopy: an older copy of the database stands in its place, file by file. A
// follower says so, and keeps its state; it goes on when the files are back.
func TestFollowerOfAnOlderCopy(t *testing.T) {
	for _, format := range []Format{FormatNative, FormatLevelDB} {
		dir := t.TempDir()
		db, err := Open(dir, &Options{Format: format, L0Compaction: 100})
		must(t, err)
		writeNumbered(t, db, 1, 100)
		old := readFiles(t, dir)
		writeNumbered(t, db, 101, 200)
		f, err := OpenFollower(dir, &Options{Format: format})
		must(t, err)
		now := readFiles(t, dir)
		must(t, db.Close())
		named := filepath.Join(dir, "CURRENT")
		if format == FormatNative {
			named = filepath.Join(named, "manifest")
		}
		for range 3 {
			pointer, err := os.ReadFile(named)
			must(t, err)
			old.write(t, dir)
			must(t, os.Remove(named))
			must(t, os.WriteFile(named, pointer, 0o600))
			if err := f.CatchUp(context.Background()); !errors.Is(err, ErrDirectoryChanged) {
				t.Errorf("%v: %v", format, err)
			}
			if i, err := numberedState(f); i != 200 || err != nil {
				t.Errorf("%v: batch %d, %v", format, i, err)
			}
			now.write(t, dir)
			must(t, f.CatchUp(context.Background()))
			if i, err := numberedState(f); i != 200 || err != nil {
				t.Errorf("%v: back again: batch %d, %v", format, i, err)
			}
		}
		must(t, f.Close())
	}
}
