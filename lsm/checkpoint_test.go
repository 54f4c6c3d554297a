package lsm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/fstest"
	"github.com/loamdb/loam/internal/testkit/seed"
)

func mustCheckpoint(t testing.TB, db *DB, dir string) {
	t.Helper()
	if err := db.Checkpoint(context.Background(), dir); err != nil {
		t.Fatal(err)
	}
}

// wantNothing wants neither a checkpoint nor what is left of one.
func wantNothing(t testing.TB, fsys vfs.FS, dir string) {
	t.Helper()
	for _, name := range []string{dir, dir + ".incomplete"} {
		if _, err := fsys.Stat(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left: %v", name, err)
		}
	}
}

// eachFormat runs a test on a database with tables, unflushed writes and, in the native
// format, logs that were another one.
func eachFormat(t *testing.T, fsys vfs.FS, dir string, test func(t *testing.T, db *DB)) {
	for _, format := range []Format{FormatLevelDB, FormatNative} {
		t.Run(format.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := dir + format.String()
				db := mustOpen(t, dir,
					small(Options{FS: fsys, Format: format, WriteBufferSize: 64 << 10}))
				putKeys(t, db, 3000)
				mustFlush(t, db)
				putKeys(t, db, 4000)
				test(t, db)
				if !db.engine.Health().Closing.Load() {
					mustClose(t, db)
				}
			})
		})
	}
}

// TestCheckpoint: the copy has what the database had, and neither sees what becomes of the
// other.
func TestCheckpoint(t *testing.T) {
	top := t.TempDir()
	// The bubble's clock moves on with each link, which is made without locks: it stands still
	// while a goroutine waits for a mutex.
	fsys := vfs.NewFault(vfs.Default, func(op vfs.Op) (out vfs.Outcome) {
		if op.Kind == vfs.OpLink {
			out.Delay = time.Microsecond
		}
		return out
	})
	eachFormat(t, fsys, filepath.Join(top, "db"), func(t *testing.T, db *DB) {
		to := filepath.Join(top, "copy-"+db.engine.Parts().Opts.Format.String())
		mustCheckpoint(t, db, to)
		tables := 0
		for name := range contentsOf(t, vfs.Default, to) {
			if fstest.TypeOf(name) == base.FileTable {
				tables++
			}
		}
		m := db.Metrics().Checkpoints
		if m.Count != 1 || m.Failed != 0 || tables == 0 || m.TablesLinked != uint64(tables) ||
			m.TablesCopied != 0 || m.BytesCopied == 0 || m.Duration <= 0 {
			t.Errorf("%d tables, %+v", tables, m)
		}
		if err := db.Delete(key(5), NoSync); err != nil {
			t.Fatal(err)
		}
		before := contentsOf(t, vfs.Default, to)
		wantNothing(t, vfs.Default, to+".incomplete")
		mustCompact(t, db) // deletes the tables that were linked
		putKeys(t, db, 6000)
		mustFlush(t, db)
		sameContents(t, before, contentsOf(t, vfs.Default, to))

		was := contentsOf(t, vfs.Default, db.engine.Parts().Dir)
		mustClose(t, db)
		own := contentsOf(t, vfs.Default, db.engine.Parts().Dir)
		for name, b := range was {
			if strings.HasSuffix(name, ".ldb") || strings.HasSuffix(name, ".loam") {
				// an obsolete one may be deleted
				if now, there := own[name]; there && string(now) != string(b) {
					t.Errorf("Close changes %s", name)
				}
			}
		}
		o := &Options{ErrorIfMissing: true}
		c := mustOpen(t, to, o)
		if r := c.RecoveryReport(); !r.WasClean || r.TornBytes != 0 {
			t.Errorf("recovery: %+v", r)
		}
		wantValues(t, c, 4000)
		wantMissing(t, c, 4000)
		if err := c.Verify(context.Background(), nil); err != nil {
			t.Error(err)
		}
		mustCompact(t, c)
		putKeys(t, c, 100)
		mustClose(t, c)
		if _, err := Repair(to, o); err != nil {
			t.Error(err)
		}
		sameContents(t, own, contentsOf(t, vfs.Default, db.engine.Parts().Dir))
		c = mustOpen(t, to, o)
		wantValues(t, c, 4000)
		mustClose(t, c)
	})
}

// TestCheckpointOutrun: memtables are flushed, and their logs become obsolete, while the MANIFEST
// is read.
func TestCheckpointOutrun(t *testing.T) {
	for _, format := range []Format{FormatNative, FormatLevelDB} {
		var db *DB
		written := 0
		write := func() {
			written++
			if err := errors.Join(db.Put(key(written), key(written), NoSync),
				db.Flush()); err != nil {
				t.Error(err)
			}
		}
		var outrun atomic.Bool // the next MANIFEST that is closed was read
		fsys := vfs.NewFault(vfs.NewMem(), func(op vfs.Op) vfs.Outcome {
			if op.Kind == vfs.OpClose && fstest.TypeOf(op.Name) == base.FileManifest &&
				outrun.CompareAndSwap(true, false) {
				write()
				write()
			}
			return vfs.Outcome{}
		})
		db = mustOpen(t, "db", &Options{FS: fsys, Format: format})
		write()
		if err := db.Put(key(0), key(0), NoSync); err != nil {
			t.Fatal(err)
		}
		outrun.Store(true)
		mustCheckpoint(t, db, "copy")
		if written != 3 {
			t.Errorf("%d flushes", written)
		}
		mustClose(t, db)
		c := mustOpen(t, "copy", &Options{FS: fsys, ErrorIfMissing: true, Format: format})
		for i := range written + 1 {
			if v, err := c.Get(key(i), nil); err != nil || !bytes.Equal(v, key(i)) {
				t.Errorf("%d: %q, %v", i, v, err)
			}
		}
		mustClose(t, c)
	}
}

// TestCheckpointBesideWrites makes checkpoints of keyspaces that are written together, flushed,
// compacted and dropped: in each, a batch is in all of them or in none, and those before it are,
// too.
func TestCheckpointBesideWrites(t *testing.T) {
	fsys := vfs.NewMem()
	db := openSpaces(t, fsys, func(o *Options) { o.MaxFileSize = 64 << 10 })
	a, b := mustSpace(t, db, "a"), mustSpace(t, db, "b")
	stop := make(chan struct{})
	var acked, begun atomic.Int64
	var wg sync.WaitGroup
	work := func(f func(i int) error) {
		wg.Go(func() {
			for i := 1; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				err := f(i)
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	pad := strings.Repeat("x", 300)
	work(func(i int) error {
		begun.Store(int64(i))
		batch := NewBatch()
		n := strconv.Itoa(i)
		batch.Put([]byte("last"), []byte(n))
		batch.In(a).Put([]byte("last"), []byte(n))
		batch.In(b).Put([]byte("last"), []byte(n))
		batch.In(b).Put(key(i%1000), []byte(n+pad))
		defer acked.Store(int64(i))
		return db.Write(batch, map[bool]WriteMode{true: Sync}[i%17 == 0])
	})
	work(func(i int) error {
		if i%2 == 0 {
			return a.Flush()
		}
		return b.CompactRange(nil, nil)
	})
	work(func(i int) error {
		k, err := db.Keyspace("again", nil)
		if err == nil {
			err = errors.Join(k.Put(key(i), nil, NoSync), db.DropKeyspace("again"))
		}
		return err
	})
	for i := range seed.Scale(5, 10, 40) {
		lo, to := acked.Load(), fmt.Sprintf("copy%d", i)
		mustCheckpoint(t, db, to)
		hi := begun.Load()
		c := mustOpen(t, to, &Options{FS: fsys, ErrorIfMissing: true, Format: FormatNative})
		var last []int64
		for _, name := range []string{base.DefaultKeyspaceName, "a", "b"} {
			v, err := mustSpace(t, c, name).Get([]byte("last"), nil)
			if err != nil && !errors.Is(err, ErrNotFound) {
				t.Fatal(err)
			}
			n, _ := strconv.ParseInt(string(v), 10, 64)
			last = append(last, n)
		}
		if last[0] != last[1] || last[0] != last[2] || last[0] < lo || last[0] > hi ||
			!c.RecoveryReport().WasClean {
			t.Fatalf("checkpoint %d: %v, between %d and %d; %+v", i, last, lo, hi,
				c.RecoveryReport())
		}
		for j := max(1, last[0]-999); j <= last[0]; j++ {
			v, err := mustSpace(t, c, "b").Get(key(int(j%1000)), nil)
			if want := fmt.Sprint(j) + pad; err != nil || string(v) != want {
				t.Fatalf("checkpoint %d of %d batches: batch %d: %.20q, %v", i, last[0], j, v, err)
			}
		}
		mustClose(t, c)
	}
	close(stop)
	wg.Wait()
	mustClose(t, db)
}

// TestCheckpointOrder: a batch over two keyspaces that is written, and flushed in one of them,
// while the MANIFEST is read is whole in the copy, or not in it: the logs are taken after the
// MANIFEST.
func TestCheckpointOrder(t *testing.T) {
	needsNative(t)
	dir := t.TempDir()
	var reading func()
	fsys := vfs.NewFault(vfs.Default, func(op vfs.Op) vfs.Outcome {
		if f := reading; f != nil && op.Kind == vfs.OpOpen &&
			fstest.TypeOf(op.Name) == base.FileManifest {
			reading = nil
			f()
		}
		return vfs.Outcome{}
	})
	db := mustOpen(t, filepath.Join(dir, "db"), &Options{FS: fsys, DisableCompaction: true})
	space, err := db.Keyspace("space", nil)
	if err != nil {
		t.Fatal(err)
	}
	mustPut(t, db, 0)
	reading = func() {
		b := db.NewBatch()
		b.Put(key(1), []byte("v"))
		b.In(space).Put(key(1), []byte("v"))
		if err := errors.Join(db.Write(b, Sync), space.Flush()); err != nil {
			t.Error(err)
		}
	}
	mustCheckpoint(t, db, filepath.Join(dir, "copy"))
	if reading != nil {
		t.Fatal("the checkpoint reads no MANIFEST")
	}
	mustClose(t, db)
	db = mustOpen(t, filepath.Join(dir, "copy"), nil)
	if space, err = db.Keyspace("space", nil); err != nil {
		t.Fatal(err)
	}
	one, err := db.Has(key(1))
	other, oerr := space.Has(key(1))
	if one != other || err != nil || oerr != nil {
		t.Errorf("of a batch over two keyspaces the copy has: %v, %v; %v, %v", one, other, err,
			oerr)
	}
	mustClose(t, db)
}

// TestCheckpointWithoutLinks copies tables where links do not reach, with their checksums.
func TestCheckpointWithoutLinks(t *testing.T) {
	for _, why := range []error{syscall.EXDEV, syscall.EPERM, syscall.EMLINK,
		errors.ErrUnsupported} {
		mem := vfs.NewMem()
		fsys := vfs.NewFault(mem, func(op vfs.Op) vfs.Outcome {
			if op.Kind == vfs.OpLink {
				return vfs.Outcome{Err: errors.Join(vfs.ErrCannotLink, why)}
			}
			return vfs.Outcome{}
		})
		eachFormat(t, fsys, "db", func(t *testing.T, db *DB) {
			mustCompact(t, db) // no compaction is left that would replace the tables
			tables := liveTables(db)
			mustCheckpoint(t, db, "copy")
			if m := db.Metrics().Checkpoints; m.TablesLinked != 0 ||
				m.TablesCopied != uint64(len(tables)) {
				t.Errorf("%+v", m)
			}
			c := mustOpen(t, "copy", &Options{FS: mem.CrashClone(vfs.DropAll()),
				ErrorIfMissing: true})
			wantValues(t, c, 4000)
			mustClose(t, c)
			if db.engine.Native() {
				if err := fstest.Flip(mem, filepath.Join("dbnative", tables[0].Name()),
					100); err != nil {
					t.Fatal(err)
				}
				var damage *CorruptionError
				err := db.Checkpoint(context.Background(), "copy2")
				if !errors.As(err, &damage) || damage.File != tables[0].Name() {
					t.Errorf("of a damaged table: %v", err)
				}
				wantNothing(t, mem, "copy2")
			}
			if err := Destroy("copy", &Options{FS: mem}); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestCheckpointRefused: a bad place is one sentence, and nothing is changed.
func TestCheckpointRefused(t *testing.T) {
	top := t.TempDir()
	db := mustOpen(t, filepath.Join(top, "db"), nil)
	defer db.Close()
	putKeys(t, db, 10)
	for _, dir := range []string{"full", "empty", "taken.incomplete"} {
		if err := os.Mkdir(filepath.Join(top, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"full/theirs", "file", "taken.incomplete/theirs"} {
		if err := os.WriteFile(filepath.Join(top, file), []byte("precious"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	other := mustOpen(t, filepath.Join(top, "other.incomplete"), nil)
	putKeys(t, other, 10)
	mustClose(t, other)
	before := contentsOf(t, vfs.Default, top)
	delete(before, "db")
	for _, c := range []struct {
		dir  string
		want error
		says string
	}{
		{"full", ErrExists, "full is not empty: choose a name that is free"},
		{"file", ErrExists, "is not a directory: choose a name that is free"},
		{"taken", ErrExists, "taken.incomplete, which is taken: move that away"},
		{"other", ErrExists, "other.incomplete, which is taken: move that away"},
		{"db/inside", ErrInvalidArgument, "lies in the database"},
		{"db", ErrInvalidArgument, "lies in the database"},
		{"none/copy", fs.ErrNotExist, "a directory above it is missing"},
		{"file/copy", syscall.ENOTDIR, "not a directory"},
	} {
		if c.want == syscall.ENOTDIR && runtime.GOOS == "windows" {
			continue // there the directory does not exist
		}
		err := db.Checkpoint(context.Background(), filepath.Join(top, c.dir))
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("into %s: %v", c.dir, err)
		}
	}
	after := contentsOf(t, vfs.Default, top)
	sameContents(t, before, after)
	if err := db.Checkpoint(context.Background(), ""); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
	// nolint:staticcheck // that is the test
	if err := db.Checkpoint(nil, filepath.Join(top, "x")); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
	mustCheckpoint(t, db, filepath.Join(top, "empty"))
	mustCheckpoint(t, db, filepath.Join(top, "slash")+"/")
	t.Chdir(top)
	mustCheckpoint(t, db, "relative")
	for _, dir := range []string{"empty", "slash", "relative"} {
		c := mustOpen(t, filepath.Join(top, dir), &Options{ErrorIfMissing: true})
		wantValues(t, c, 10)
		mustClose(t, c)
	}
}

// TestCheckpointFails: of a checkpoint that a full disk, its context or Close ends nothing is left,
// and the database goes on.
func TestCheckpointFails(t *testing.T) {
	mem := vfs.NewMem()
	var hook atomic.Pointer[func(op vfs.Op) error]
	fsys := vfs.NewFault(mem, func(op vfs.Op) vfs.Outcome {
		if f := hook.Load(); f != nil && strings.Contains(op.Name, "copy") {
			return vfs.Outcome{Err: (*f)(op)}
		}
		return vfs.Outcome{}
	})
	eachFormat(t, fsys, "db", func(t *testing.T, db *DB) {
		full := func(op vfs.Op) error {
			if op.Kind == vfs.OpWrite {
				return syscall.ENOSPC
			}
			return nil
		}
		hook.Store(&full)
		if err := db.Checkpoint(context.Background(), "copy"); !errors.Is(err, ErrNoSpace) {
			t.Errorf("on a full disk: %v", err)
		}
		wantNothing(t, mem, "copy")
		ctx, cancel := context.WithCancel(context.Background())
		ends := func(op vfs.Op) error {
			if op.Kind == vfs.OpLink {
				cancel()
			}
			return nil
		}
		hook.Store(&ends)
		if err := db.Checkpoint(ctx, "copy"); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
		wantNothing(t, mem, "copy")
		if m := db.Metrics().Checkpoints; m.Count != 2 || m.Failed != 2 {
			t.Errorf("%+v", m)
		}
		mustPut(t, db, 0)
		closed := make(chan error, 1)
		var once sync.Once
		closes := func(op vfs.Op) error {
			if op.Kind == vfs.OpLink {
				once.Do(func() {
					go func() { closed <- db.Close() }()
					synctest.Wait() // Close waits for the checkpoint
				})
			}
			return nil
		}
		hook.Store(&closes)
		err := db.Checkpoint(context.Background(), "copy")
		hook.Store(nil)
		if err := <-closed; err != nil {
			t.Error(err)
		}
		if err == nil { // it came to its end before Close had come so far
			err = Destroy("copy", &Options{FS: mem})
		} else if errors.Is(err, ErrClosed) {
			err = nil
		}
		if err != nil {
			t.Errorf("closed: %v", err)
		}
		wantNothing(t, mem, "copy")
		if err := db.Checkpoint(context.Background(), "copy"); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// TestCheckpointPanics has a file system that panics: nothing is left, and the cause is
// told.
func TestCheckpointPanics(t *testing.T) {
	mem := vfs.NewMem()
	fsys := vfs.NewFault(mem, func(op vfs.Op) vfs.Outcome {
		if op.Kind == vfs.OpLink {
			panic("boom")
		}
		return vfs.Outcome{}
	})
	db := mustOpen(t, "db", &Options{FS: fsys})
	putKeys(t, db, 10)
	mustFlush(t, db)
	for range 2 {
		if err := db.Checkpoint(context.Background(), "copy"); !errors.Is(err, ErrReadOnly) ||
			!strings.Contains(err.Error(), "boom") {
			t.Errorf("%v", err)
		}
		wantNothing(t, mem, "copy")
	}
	_ = db.Close()
}

// TestCheckpointAgain: two at a time into one directory, and one behind a crash.
func TestCheckpointAgain(t *testing.T) {
	mem := vfs.NewMem()
	var held atomic.Pointer[func()]
	fsys := vfs.NewFault(mem, func(op vfs.Op) vfs.Outcome {
		if f := held.Load(); f != nil && op.Kind == vfs.OpLink {
			(*f)()
		}
		return vfs.Outcome{}
	})
	eachFormat(t, fsys, "db", func(t *testing.T, db *DB) {
		var state *vfs.Mem
		second := func() {
			held.Store(nil)
			state = mem.CrashClone(vfs.KeepAll())
			if err := db.Checkpoint(context.Background(), "copy"); !errors.Is(err, ErrLocked) {
				t.Errorf("a second one at the same time: %v", err)
			}
		}
		held.Store(&second)
		mustCheckpoint(t, db, "copy")
		if state == nil {
			t.Fatal("nothing was linked")
		}
		for _, dir := range []string{"copy", "copy.incomplete", "copy.incomplete/db"} {
			if _, err := Open(dir, &Options{FS: state.Clone(), ErrorIfMissing: true}); !errors.Is(
				err, ErrDoesNotExist) && !errors.Is(err, ErrCorruption) {
				t.Errorf("half of a checkpoint, %s: %v", dir, err)
			}
		}
		again := mustOpen(t, db.engine.Parts().Dir, &Options{FS: state})
		mustCheckpoint(t, again, "copy")
		if _, err := state.Stat("copy.incomplete"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("what the crash left is left: %v", err)
		}
		mustClose(t, again)
		c := mustOpen(t, "copy", &Options{FS: state, ErrorIfMissing: true})
		wantValues(t, c, 3000)
		mustClose(t, c)
		if err := Destroy("copy", &Options{FS: mem}); err != nil {
			t.Fatal(err)
		}
	})
}

// TestCheckpointReadOnly copies what a crash left, without a recovery of the source.
func TestCheckpointReadOnly(t *testing.T) {
	mem := vfs.NewMem()
	eachFormat(t, mem, "db", func(t *testing.T, db *DB) {
		state := mem.CrashClone(vfs.KeepAll())
		ro := mustOpen(t, db.engine.Parts().Dir, &Options{FS: state, ReadOnly: true})
		before := contentsOf(t, state, db.engine.Parts().Dir)
		mustCheckpoint(t, ro, "copy")
		sameContents(t, before, contentsOf(t, state, db.engine.Parts().Dir))
		mustClose(t, ro)
		c := mustOpen(t, "copy", &Options{FS: state, ErrorIfMissing: true})
		if !c.RecoveryReport().WasClean {
			t.Errorf("%+v", c.RecoveryReport())
		}
		wantValues(t, c, 4000)
		mustClose(t, c)
	})
}

// TestCheckpointBehindUpgrade has tables that still have LevelDB's names.
func TestCheckpointBehindUpgrade(t *testing.T) {
	mem := vfs.NewMem()
	fsys := vfs.NewFault(mem, func(op vfs.Op) vfs.Outcome {
		if op.Kind == vfs.OpRename && strings.HasSuffix(op.Name, ".loam") {
			return vfs.Outcome{Err: syscall.EIO}
		}
		return vfs.Outcome{}
	})
	db := mustOpen(t, "db", small(Options{FS: mem, Format: FormatLevelDB}))
	putKeys(t, db, 3000)
	mustFlush(t, db)
	mustClose(t, db)
	o := Options{FS: fsys}
	if err := Upgrade("db", &o); err != nil {
		t.Fatal(err)
	}
	db = mustOpen(t, "db", &o)
	mustCheckpoint(t, db, "copy")
	mustClose(t, db)
	names, err := mem.List("copy")
	if err != nil || slices.ContainsFunc(names, func(n string) bool {
		return strings.HasSuffix(n, ".ldb")
	}) {
		t.Errorf("%v, %v", names, err)
	}
	c := mustOpen(t, "copy", &Options{FS: mem, ErrorIfMissing: true})
	wantValues(t, c, 3000)
	mustClose(t, c)
}

// TestCheckpointBesideAppends: while a file grows, FUSE tells its new size before it has the bytes.
// A MANIFEST that ends early is read again.
func TestCheckpointBesideAppends(t *testing.T) {
	for _, format := range []Format{FormatNative, FormatLevelDB} {
		early := new(atomic.Int32)
		fsys := vfs.NewFault(vfs.NewMem(), func(op vfs.Op) (out vfs.Outcome) {
			if op.Kind == vfs.OpRead && fstest.TypeOf(op.Name) == base.FileManifest &&
				early.Load() > 0 {
				early.Add(-1)
				out.Err, out.Short = io.EOF, int(op.N)-1
			}
			return out
		})
		db := mustOpen(t, "db", &Options{FS: fsys, Format: format})
		mustPut(t, db, 1)
		early.Store(2)
		mustCheckpoint(t, db, "copy")
		if left := early.Load(); left > 0 {
			t.Errorf("the MANIFEST was read %d times too few", left)
		}
		early.Store(math.MaxInt32)
		if err := db.Checkpoint(context.Background(), "copy2"); !errors.Is(err,
			io.ErrUnexpectedEOF) {
			t.Errorf("of a MANIFEST that was cut: %v", err)
		}
		early.Store(0)
		mustClose(t, db)
	}
}
