package lsm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/fstest"
	"github.com/loamdb/loam/internal/testkit/seed"
)

// putFile replaces the contents of a file; nil removes it.
func putFile(t *testing.T, fs vfs.FS, path string, b []byte) {
	t.Helper()
	must(t, fs.Remove(path))
	if b == nil {
		return
	}
	f, err := fs.Create(path)
	must(t, err)
	_, err = f.Write(b)
	must(t, errors.Join(err, f.Close()))
}

// TestFollowerRefusesWhatOpenRefuses changes, cuts and removes each log of several directories.
// OpenFollower fails exactly where a read-only Open fails, with the same file and offset; otherwise
// it shows and reports the same.
func TestFollowerRefusesWhatOpenRefuses(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine opens thousands of times: the run without -short has it")
	}
	onBothFormats(t, func(t *testing.T, o Options) {
		o.WALPreallocate = -1
		for _, state := range []string{"closed", "killed", "killed, unsynced"} {
			mem := vfs.NewMem()
			o.FS, o.ReadOnly = mem, false
			db := mustOpen(t, "db", &o)
			spaces := []*Keyspace{mustSpace(t, db, "default")}
			if o.Format == FormatNative {
				spaces = append(spaces, mustSpace(t, db, "other"))
			}
			put := func(key string, mode WriteMode) {
				for _, k := range spaces {
					must(t, k.Put([]byte(key), []byte("value"), mode))
				}
			}
			put("a", NoSync)
			if state != "killed, unsynced" {
				mustFlush(t, db)
				put("b", Sync)
			}
			e := db.engine.Parts()
			must(t, e.Pipeline.Exclusive(func() error {
				_, err := e.WAL.Rotate(e.Shared.Seqs.Visible())
				return err
			}))
			put("c", NoSync)
			if state == "killed" {
				put("d", Sync)
				put("e", NoSync)
			}
			left := mem.CrashClone(vfs.KeepAll())
			mustClose(t, db)
			if state == "closed" {
				left = mem
			}
			refused, shown := sameVerdicts(t, left, o)
			t.Logf("%v, %s: %d damages refused, %d shown", o.Format, state, refused, shown)
			if refused == 0 || shown == 0 {
				t.Errorf("%v, %s: %d damages refused, %d shown", o.Format, state, refused, shown)
			}
		}
	})
}

// sameVerdicts damages each log of a directory, cuts its MANIFEST, and compares Open and
// OpenFollower.
func sameVerdicts(t *testing.T, mem *vfs.Mem, o Options) (refused, shown int) {
	t.Helper()
	logs, err := fstest.Find(mem, "db", base.FileLog)
	must(t, err)
	manifests, err := fstest.Find(mem, "db", base.FileManifest)
	must(t, err)
	o.FS, o.ReadOnly = mem, true
	for _, log := range append(logs, manifests...) {
		whole, err := fstest.ReadFile(mem, log)
		must(t, err)
		damages := [][]byte{nil}
		for at := range whole {
			changed := slices.Clone(whole)
			changed[at] ^= 1
			damages =
				append(damages,
					[][]byte{changed, whole[:at:at],
						append(whole[:at:at], make([]byte, len(whole)-at)...)}[at%3])
		}
		if slices.Contains(manifests, log) {
			damages = damages[:0]
			for at := range whole {
				damages = append(damages, whole[:at:at])
			}
		}
		for i, b := range damages {
			if i%seed.Scale(5, 5, 1) != 0 {
				continue
			}
			what := fmt.Sprintf("%s, damage %d", log, i)
			putFile(t, mem, log, b)
			db, err := Open("db", &o)
			f, ferr := OpenFollower("db", &o)
			if err != nil {
				refused++
				if !errors.Is(err, ErrCorruption) || ferr == nil || ferr.Error() != err.Error() {
					t.Fatalf("%s: Open: %v; OpenFollower: %v", what, err, ferr)
				}
			} else {
				shown++
				if ferr != nil {
					t.Fatalf("%s: Open reports %+v; OpenFollower: %v", what, db.RecoveryReport(),
						ferr)
				}
				if i%10 == 0 {
					must(t, f.CatchUp(context.Background()))
				}
				if got, want := fmt.Sprint(content(t, f.DB)), fmt.Sprint(content(t, db)); got !=
					want {
					t.Fatalf("%s: the follower has %s, Open %s", what, got, want)
				}
				if got, want := fmt.Sprintf("%+v", f.RecoveryReport()), fmt.Sprintf("%+v",
					db.RecoveryReport()); got != want {
					t.Fatalf("%s: the follower reports %s, Open %s", what, got, want)
				}
				if i%10 == 0 {
					if lag, err := f.Lag(context.Background()); err != nil || lag.Sequences != 0 {
						t.Fatalf("%s: %+v, %v", what, lag, err)
					}
				}
				mustClose(t, db)
				must(t, f.Close())
			}
			if b == nil {
				f, err := mem.Create(log)
				must(t, errors.Join(err, f.Close()))
			}
		}
		putFile(t, mem, log, whole)
	}
	return refused, shown
}

// TestFollowerStaysWhereOpenEnds: a log in LevelDB's format is damaged before its last record. Open
// ends there and reports it. A follower is opened before it can tell the damage from a write under
// way; when it can, that is no failure of a catch-up.
func TestFollowerStaysWhereOpenEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		o := &Options{FS: mem, Format: FormatLevelDB, WALPreallocate: -1}
		db := mustOpen(t, "db", o)
		log := filepath.Join("db", base.LevelDB.FileName(base.FileLog, db.engine.Parts().WAL.Num()))
		must(t, db.Put([]byte("a"), []byte("value"), NoSync))
		damaged := db.engine.Parts().WAL.Size() + 7
		must(t, db.Put([]byte("b"), []byte("value"), NoSync))
		must(t, db.Put([]byte("c"), []byte("value"), NoSync))
		o.FS = mem.CrashClone(vfs.KeepAll())
		mustClose(t, db)
		b, err := fstest.ReadFile(o.FS, log)
		must(t, err)
		b[damaged] ^= 1
		putFile(t, o.FS, log, b)
		f, err := OpenFollower("db", o)
		must(t, err)
		for range 5 {
			time.Sleep(10 * time.Millisecond)
			must(t, f.CatchUp(t.Context()))
			if lag, err := f.Lag(t.Context()); err != nil || lag.Sequences != 0 {
				t.Fatalf("%+v, %v", lag, err)
			}
		}
		if len(f.RecoveryReport().Dropped) == 0 {
			t.Error("nothing was reported")
		}
		if got := fmt.Sprint(content(t, f.DB)); got != "[default/a=value]" {
			t.Errorf("the follower has %s", got)
		}
		must(t, f.Close())
	})
}

// content is all entries of a database, by keyspace.
func content(t *testing.T, db *DB) (all []string) {
	t.Helper()
	for _, name := range db.Keyspaces() {
		k, err := db.Keyspace(name, nil)
		must(t, err)
		for key, value := range k.All(nil, nil, &err) {
			all = append(all, fmt.Sprintf("%s/%s=%s", name, key, value))
		}
		must(t, err)
	}
	return all
}

// TestCatchUpRefusesDamage: a log that the MANIFEST calls durable is damaged while a follower runs,
// after the last record that it read. Each catch-up fails and names the place, and the
// state stays one of the writer; when the log is whole again the follower goes on.
func TestCatchUpRefusesDamage(t *testing.T) {
	needsNative(t)
	dir := t.TempDir()
	o := &Options{WALPreallocate: -1}
	db := mustOpen(t, dir, o)
	must(t, db.Put([]byte("a"), []byte("old"), Sync))
	mustFlush(t, db)
	f, err := OpenFollower(dir, o)
	must(t, err)
	log := filepath.Join(dir, base.Native.FileName(base.FileLog, db.engine.Parts().WAL.Num()))
	read := int(db.engine.Parts().WAL.Size()) // the follower does not read it again
	must(t, db.Put([]byte("a"), []byte("new"), Sync))
	must(t, db.Put([]byte("b"), []byte("new"), Sync))
	mustClose(t, db)
	whole, err := os.ReadFile(log)
	must(t, err)
	for at := read; at < len(whole); at++ {
		changed := slices.Clone(whole)
		changed[at] ^= 1
		// the follower has the file open
		must(t, os.WriteFile(log, [][]byte{changed, whole[:at:at]}[at%2], 0o600))
		var c *CorruptionError
		if err := f.CatchUp(context.Background()); !errors.As(err, &c) ||
			c.File != filepath.Base(log) || c.Offset > int64(at) {
			t.Fatalf("at %d: %v", at, err)
		}
		if has, err := f.Has([]byte("b")); has || err != nil {
			t.Fatalf("at %d: %v, %v", at, has, err)
		}
	}
	must(t, os.WriteFile(log, whole, 0o600))
	must(t, f.CatchUp(context.Background()))
	wantIs(t, f, "a", "new")
	wantIs(t, f, "b", "new")
	must(t, f.Close())
}

// missingIngest returns an error if a follower's state has a batch that counts n ingests, and not
// the key of each.
func missingIngest(f *Follower) (n int, err error) {
	snap := f.Snapshot()
	defer snap.Close()
	v, err := snap.Get([]byte("ingested"), nil)
	n, _ = strconv.Atoi(string(v))
	for i := 1; i <= n && err == nil; i++ {
		_, err = snap.Get(fmt.Appendf(nil, "z%06d", i), nil)
	}
	if n == 0 {
		return 0, nil
	}
	return n, err
}

// TestFollowerBesideEachStep has the writer take a step between any two calls of a follower: it
// writes, with a sync or without, flushes, begins logs in the files of old ones, ingests, and opens
// the database anew. No follower takes that for damage, and none shows a batch without the tables
// that were ingested before it.
func TestFollowerBesideEachStep(t *testing.T) {
	onBothFormats(t, followBesideEachStep)
}

func followBesideEachStep(t *testing.T, options Options) {
	n, start, name := seed.Scale(5, 60, 60), uint64(seed.Of(t)), "other"
	if options.Format == FormatLevelDB {
		name = base.DefaultKeyspaceName // there is no other one
	}
	for run := range n {
		rng := rand.New(rand.NewPCG(start, uint64(run)))
		mem := vfs.NewMem()
		must(t, mem.MkdirAll("out"))
		o := &options
		o.FS, o.WriteBufferSize, o.MaxFileSize, o.WALPreallocate = mem, 64<<10, 64<<10, 4<<10
		db := mustOpen(t, "db", o)
		other := mustSpace(t, db, name)
		var mu sync.Mutex // a follower closes files on goroutines of its own
		var acked atomic.Int64
		written, ingested, left := 0, 0, 0
		step := func() {
			switch op := rng.IntN(20); {
			case op < 12:
				written++
				mode := []WriteMode{NoSync, Sync}[rng.IntN(2)]
				b := NewBatch()
				b.Put([]byte("n"), fmt.Append(nil, written))
				b.In(other).Put([]byte("n"), fmt.Append(nil, written))
				b.Put([]byte("ingested"), fmt.Append(nil, ingested))
				b.Put([]byte("large"), make([]byte, rng.IntN(8<<10)))
				must(t, db.Write(b, mode))
				acked.Store(int64(written))
			case op < 15:
				mustFlush(t, db)
			case op < 17:
				must(t, other.Flush())
			case op < 18:
				ingested++
				key := fmt.Sprintf("z%06d", ingested) // behind all others, see LevelDB's format
				must(t, db.Ingest(context.Background(), nil, writeTable(t, "out/"+key, o, key, "")))
			case op < 19:
				db.engine.Parts().WAL.Trim()
				db.engine.Parts().WAL.Prepare()
			default:
				mustClose(t, db)
				db = mustOpen(t, "db", o)
				other = mustSpace(t, db, name)
			}
		}
		for range rng.IntN(40) {
			step()
		}
		var f *Follower
		whole := func() { // no batch without the tables that were ingested before it
			if n, err := missingIngest(f); err != nil {
				t.Errorf("seed %d, run %d: of %d ingests: %v", start, run, n, err)
			}
		}
		fsys := vfs.NewFault(mem, func(op vfs.Op) vfs.Outcome {
			if mu.TryLock() {
				defer mu.Unlock()
				// A table is opened under a lock that a read of the table needs.
				if f != nil && left > 0 && fstest.TypeOf(op.Name) != base.FileTable {
					whole()
				}
				if left > 0 && rng.IntN(3) == 0 {
					left--
					step()
				}
			}
			return vfs.Outcome{}
		})
		allow := func(steps int) {
			mu.Lock()
			defer mu.Unlock()
			left = steps
		}
		fo := *o
		fo.FS = fsys
		allow(20)
		opened, err := OpenFollower("db", &fo)
		if err != nil {
			t.Fatalf("seed %d, run %d: %v", start, run, err)
		}
		mu.Lock()
		f = opened
		mu.Unlock()
		for range 8 {
			before := int(acked.Load())
			allow(20)
			if err := f.CatchUp(context.Background()); err != nil {
				t.Fatalf("seed %d, run %d: %v", start, run, err)
			}
			v, err := f.Get([]byte("n"), nil)
			if i, _ := strconv.Atoi(string(v)); err != nil && before > 0 || i < before {
				t.Fatalf("seed %d, run %d: %d of %d, %v", start, run, i, before, err)
			}
		}
		allow(0)
		must(t, f.Close())
		mustClose(t, db)
	}
}
