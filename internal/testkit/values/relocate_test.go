package values

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/hang"
	"github.com/loamdb/loam/lsm"
)

// relocating sets options under which logs soon have much garbage, and are emptied.
func relocating(o *lsm.Options) {
	o.DisableCompaction, o.WriteBufferSize, o.MaxFileSize = false, 64<<10, 64<<10
	o.L0Compaction = 2
	o.Events = &lsm.EventListener{CompactionEnd: func(lsm.CompactionInfo) {
		select {
		case ended <- struct{}{}:
		default:
		}
	}}
}

// ended has an element when a compaction has ended since the last look.
var ended = make(chan struct{}, 1)

const (
	bigKeys  = 300
	bigValue = 2000
)

func bigKey(i int) string { return fmt.Sprintf("big %04d", i) }

// overwrite puts values of random keys.
func (d *database) overwrite(rng *rand.Rand, n, seed int) {
	d.t.Helper()
	for i := range n {
		d.put(bigKey(rng.IntN(bigKeys)), valueOf(seed+i, bigValue+rng.IntN(200)))
	}
}

// valueFiles lists the value files of a directory.
func valueFiles(t testing.TB, fsys vfs.FS) (names []string) {
	t.Helper()
	all, err := fsys.List("db")
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(name string) bool {
		return filepath.Ext(name) != ".val"
	})
}

// wantBytes is how many bytes of large values there are.
func (d *database) wantBytes() (n int64) {
	for _, v := range d.want {
		if len(v) >= least {
			n += int64(len(v))
		}
	}
	return n
}

// waitBounded waits until values take no more space than they may in quiet.
func (d *database) waitBounded() {
	d.t.Helper()
	const slack = 2 * 64 << 10 // what bounds do not count
	over := hang.After()
	for float64(d.Metrics().Values.DiskBytes) > 1.3*float64(d.wantBytes())+slack {
		select {
		case <-ended:
		case <-over:
			m := d.Metrics()
			d.t.Fatalf("%d bytes of values, %+v, levels %+v", d.wantBytes(), m.Values, m.Levels)
		}
	}
}

// TestRelocation overwrites values at random: their space is bounded, and what is read is right,
// through a snapshot and in another opening too.
func TestRelocation(t *testing.T) {
	fsys := vfs.NewMem()
	d := open(t, fsys, nil, relocating)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range bigKeys {
		d.put(bigKey(i), valueOf(i, bigValue))
	}
	d.put("small", []byte("a value"))
	d.overwrite(rng, 3*bigKeys, 1000)
	d.must(d.Flush())
	d.waitBounded()
	if m := d.Metrics().Values; m.Relocated == 0 || m.Files == 0 || m.DiskBytes < m.Bytes {
		t.Errorf("nothing was relocated: %+v", m)
	}
	check(t, d, d.want)
	d.must(d.Verify(t.Context(), nil))

	snap, old := d.Snapshot(), maps.Clone(d.want)
	d.overwrite(rng, 2*bigKeys, 5000)
	d.must(d.Flush())
	check(t, snap, old)
	d.must(snap.Close())
	d.waitBounded()
	check(t, d, d.want)
	for range 2 {
		d.must(d.Close())
		d = open(t, fsys, d.want, relocating)
		check(t, d, d.want)
		d.must(d.Verify(t.Context(), nil))
	}
	d.must(d.DeleteRange([]byte("a"), []byte("z"), lsm.NoSync))
	clear(d.want)
	d.must(d.CompactRange(nil, nil))
	d.must(d.Close())
	d = open(t, fsys, d.want, relocating)
	check(t, d, d.want)
	d.must(d.Close())
	if names := valueFiles(t, fsys); len(names) > 0 {
		t.Errorf("value files without a value: %v", names)
	}
}

// TestRelocationOnceQuiet opens a database whose logs are mostly dead: without any writes,
// relocation frees the space, and copies at most twice what is live.
func TestRelocationOnceQuiet(t *testing.T) {
	fsys := vfs.NewMem()
	d := open(t, fsys, nil, func(o *lsm.Options) {
		relocating(o)
		o.DisableCompaction, o.MaxSpaceAmplification = true, 20 // CompactRange copies nothing
	})
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range bigKeys {
		d.put(bigKey(i), valueOf(i, bigValue))
	}
	d.overwrite(rng, 3*bigKeys, 1000)
	d.must(d.Flush())
	d.must(d.CompactRange(nil, nil))
	if d.Metrics().Values.Relocated > 0 {
		t.Error("values were relocated without compactions")
	}
	d.must(d.Close())
	d = open(t, fsys, d.want, relocating)
	d.waitBounded()
	d.PauseCompaction() // ends what runs
	d.ResumeCompaction()
	copied := d.Metrics().Values.RelocatedBytes
	if copied == 0 || copied > uint64(2*d.wantBytes()) {
		t.Errorf("%d bytes of %d were relocated", copied, d.wantBytes())
	}
	check(t, d, d.want)
	d.must(d.Close())
}

// TestPastSnapshots: what a merge kept for a snapshot goes when that is closed, without a write.
func TestPastSnapshots(t *testing.T) {
	d := open(t, vfs.NewMem(), nil, relocating)
	for i := range bigKeys {
		d.put(bigKey(i), valueOf(i, bigValue))
	}
	d.must(d.Flush())
	snap, old := d.Snapshot(), maps.Clone(d.want)
	for i := range bigKeys {
		d.put(bigKey(i), valueOf(1000+i, bigValue))
	}
	d.must(d.CompactRange(nil, nil))
	check(t, snap, old)
	if m := d.Metrics().Values; int64(m.Bytes) < 2*d.wantBytes() {
		t.Fatalf("the snapshot's values are gone: %+v", m)
	}
	d.must(snap.Close())
	d.waitBounded()
	check(t, d, d.want)
	d.must(d.Close())
}

// TestRelocationBeside overwrites, deletes and reads while values are relocated all the time.
func TestRelocationBeside(t *testing.T) {
	fsys := vfs.NewMem()
	d := open(t, fsys, nil, func(o *lsm.Options) {
		relocating(o)
		o.MaxSpaceAmplification, o.MaxSubcompactions = 1, 2
	})
	rng := rand.New(rand.NewPCG(5, 6))
	for round := range 30 {
		d.overwrite(rng, 150, 1000*round)
		for range 10 {
			key := bigKey(rng.IntN(bigKeys))
			d.must(d.Delete([]byte(key), lsm.NoSync))
			delete(d.want, key)
		}
		if round%5 == 0 {
			snap, old := d.Snapshot(), maps.Clone(d.want)
			d.overwrite(rng, 50, 1000*round+500)
			check(t, snap, old)
			d.must(snap.Close())
		}
		for range 50 {
			key := bigKey(rng.IntN(bigKeys))
			got, err := d.Get([]byte(key), nil)
			if want, ok := d.want[key]; ok != (err == nil) || string(got) != string(want) {
				t.Fatalf("round %d: %s has %d bytes, %v; want %d", round, key, len(got), err,
					len(want))
			}
		}
	}
	check(t, d, d.want)
	d.must(d.Verify(t.Context(), nil))
	if d.Metrics().Values.Relocated == 0 {
		t.Error("nothing was relocated")
	}
	d.must(d.Close())
	d = open(t, fsys, d.want, relocating)
	check(t, d, d.want)
	d.must(d.Close())
}

// relocatedOnDisk makes a closed database with values in value files, in a directory of the
// operating system.
func relocatedOnDisk(t *testing.T) (dir string, want map[string][]byte) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "db")
	db, err := lsm.Open(dir, options(emptying))
	if err != nil {
		t.Fatal(err)
	}
	d := &database{db, t, vfs.OS{}, map[string][]byte{}}
	d.fill(100)
	d.churn()
	d.relocate()
	check(t, d, d.want)
	d.must(d.Close())
	return dir, d.want
}

// inValueFile finds a value that lies in a value file.
func inValueFile(t *testing.T, dir string, want map[string][]byte) (key, path string, at int) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.val"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range slices.Sorted(maps.Keys(want)) {
			if at := bytes.Index(content, want[key]); at >= 0 && len(want[key]) >= least {
				return key, path, at
			}
		}
	}
	t.Fatalf("no value lies in one of %v", paths)
	return "", "", 0
}

// TestDamagedValueFile changes a byte of a value in a value file. Its reads are errors that name
// file and offset, also after compactions that would relocate it; all others are whole, and a
// repair reports it and leaves it out.
func TestDamagedValueFile(t *testing.T) {
	dir, want := relocatedOnDisk(t)
	bad, path, at := inValueFile(t, dir, want)
	flip(t, path, at+len(want[bad])/2)
	db, err := lsm.Open(dir, options(emptying))
	if err != nil {
		t.Fatal(err)
	}
	d := &database{db, t, vfs.OS{}, maps.Clone(want)}
	rest := maps.Clone(want)
	delete(rest, bad)
	isIt := func(what string, err error) {
		t.Helper()
		var c *lsm.CorruptionError
		if !errors.As(err, &c) || c.File != filepath.Base(path) || c.Offset != int64(at) {
			t.Errorf("%s: %v; want damage of %s at offset %d", what, err, path, at)
		}
	}
	for i := range 4 {
		_, err = d.Get([]byte(bad), nil)
		isIt("Get", err)
		isIt("Verify", d.Verify(t.Context(), nil))
		for key, value := range rest {
			if got, err := d.Get([]byte(key), nil); err != nil || !bytes.Equal(got, value) {
				t.Errorf("%s: %d bytes, %v", key, len(got), err)
			}
		}
		for key := range rest { // the garbage is beside the damaged value
			d.put(key, valueOf(700+i, len(rest[key])))
		}
		rest = maps.Clone(d.want)
		delete(rest, bad)
		d.must(d.Flush())
		d.must(d.CompactRange(nil, nil))
	}
	d.must(d.Close())
	report, err := lsm.Repair(dir, options(nil))
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Dropped) != 1 || string(report.Dropped[0].Smallest) != bad ||
		report.Dropped[0].Offset != int64(at) || report.Dropped[0].File != filepath.Base(path) {
		t.Errorf("the repair reports %+v", report.Dropped)
	}
	verify(t, "repaired", nil, dir, rest)
	if report, err = lsm.Repair(dir, options(nil)); err != nil || report.Changed() {
		t.Errorf("a second repair: %+v, %v", report, err)
	}
}

// TestDamageIsNotRelocated damages a value in a log that is to be emptied. The log stays, and so
// does the error; the values beside it are relocated.
func TestDamageIsNotRelocated(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	db, err := lsm.Open(dir, options(emptying))
	if err != nil {
		t.Fatal(err)
	}
	d := &database{db, t, vfs.OS{}, map[string][]byte{}}
	d.churn()
	paths, err := filepath.Glob(filepath.Join(dir, "*.wal"))
	d.must(err)
	const bad = "stays 07"
	at := 0
	for _, path := range paths {
		content, err := os.ReadFile(path)
		d.must(err)
		if i := bytes.Index(content, d.want[bad]); i >= 0 {
			at = i
			flip(t, path, at+500)
		}
	}
	delete(d.want, bad)
	d.relocate()
	for i := range 3 {
		d.put("churn 0", valueOf(i, 60_000))
		d.must(d.Flush())
		d.must(d.CompactRange(nil, nil))
	}
	if m := d.Metrics().Values; m.Relocated == 0 {
		t.Errorf("nothing was relocated: %+v", m)
	}
	for range 2 {
		var c *lsm.CorruptionError
		if _, err := d.Get([]byte(bad), nil); at == 0 || !errors.As(err, &c) ||
			filepath.Ext(c.File) != ".wal" || c.Offset != int64(at) {
			t.Errorf("%v; want damage at offset %d", err, at)
		}
		for key, value := range d.want {
			if got, err := d.Get([]byte(key), nil); err != nil || !bytes.Equal(got, value) {
				t.Errorf("%s: %d bytes, %v", key, len(got), err)
			}
		}
		d.must(d.Close())
		d.DB, err = lsm.Open(dir, options(emptying))
		d.must(err)
	}
	d.must(d.Close())
}

// TestValueFileIsMissing removes a value file, cuts it off, or empties it.
func TestValueFileIsMissing(t *testing.T) {
	for _, how := range []string{"removed", "cut", "empty"} {
		t.Run(how, func(t *testing.T) {
			dir, want := relocatedOnDisk(t)
			_, path, at := inValueFile(t, dir, want)
			var err error
			switch how {
			case "removed":
				err = os.Remove(path)
			case "cut":
				err = os.Truncate(path, int64(at+10))
			case "empty":
				err = os.Truncate(path, 0)
			}
			if err != nil {
				t.Fatal(err)
			}
			db, err := lsm.Open(dir, options(nil))
			if how == "removed" {
				var c *lsm.CorruptionError
				if !errors.As(err, &c) || c.File != filepath.Base(path) {
					t.Fatalf("Open: %v", err)
				}
			} else if err != nil {
				t.Fatal(err)
			} else {
				bad := damagedValues(t, "the file is "+how, db, want, ".val")
				if err := db.Verify(t.Context(), nil); bad == 0 || !isCorruption(err, ".val") {
					t.Errorf("%d values are damaged, Verify: %v", bad, err)
				}
				if err := db.Close(); err != nil {
					t.Fatal(err)
				}
			}
			repairedInPart(t, dir, want)
		})
	}
}

// TestValueFilesOf has a repair that leaves a whole database alone and one that loses the MANIFEST,
// orphans that an opening deletes, and Destroy.
func TestValueFilesOf(t *testing.T) {
	dir, want := relocatedOnDisk(t)
	report, err := lsm.Repair(dir, options(nil))
	if err != nil || report.Changed() {
		t.Fatalf("repair of a whole database: %+v, %v", report, err)
	}
	verify(t, "left alone", nil, dir, want)
	orphan := filepath.Join(dir, "000900.val")
	if err := os.WriteFile(orphan, []byte("loamvals of a crash"), 0o600); err != nil {
		t.Fatal(err)
	}
	verify(t, "with an orphan", nil, dir, want)
	if _, err := os.Stat(orphan); !errors.Is(err, os.ErrNotExist) {
		t.Error("an orphan stays:", err)
	}
	manifests, err := filepath.Glob(filepath.Join(dir, "*.manifest"))
	if err != nil || len(manifests) == 0 {
		t.Fatal(manifests, err)
	}
	for _, m := range manifests {
		if err := os.Remove(m); err != nil {
			t.Fatal(err)
		}
	}
	if _, err = lsm.Repair(dir, options(nil)); err != nil {
		t.Fatal(err)
	}
	verify(t, "without a MANIFEST", nil, dir, want)
	if left, _ := filepath.Glob(filepath.Join(dir, "*.val")); len(left) > 0 {
		t.Errorf("a repair leaves %v", left)
	}
	dir, _ = relocatedOnDisk(t)
	if err := lsm.Destroy(dir, nil); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 {
		t.Errorf("Destroy leaves %v", left)
	}
}

// TestRelocationFails fails calls on the first value files, or on the MANIFEST, for lack of space.
// Nothing is lost, a later compaction copies the values, and what the failed ones made is deleted.
func TestRelocationFails(t *testing.T) {
	for ext, kinds := range map[string][]vfs.OpKind{
		".val": {vfs.OpCreate, vfs.OpWrite, vfs.OpSync}, ".manifest": {vfs.OpAppend},
	} {
		for _, kind := range kinds {
			t.Run(fmt.Sprint(kind, " ", ext), func(t *testing.T) {
				mem := vfs.NewMem()
				var fails atomic.Int32
				fails.Store(-1)
				var made atomic.Bool // a value file, which the edit that fails adds
				fsys := vfs.NewFault(mem, func(op vfs.Op) vfs.Outcome {
					of := filepath.Ext(op.Name)
					if op.Kind == vfs.OpCreate && of == ".val" {
						made.Store(true)
					}
					if op.Kind == kind && of == ext && (ext == ".val" || made.Load()) &&
						fails.Add(-1) >= 0 {
						return vfs.Outcome{Err: syscall.ENOSPC}
					}
					return vfs.Outcome{}
				})
				d := open(t, fsys, nil, emptying)
				d.churn()
				failed := 0
				for i := 0; i < 10 && failed == 0; i++ {
					made.Store(false)
					fails.Store(1)
					if err := d.CompactRange(nil, nil); err != nil {
						failed++
					}
					fails.Store(-1)
					check(t, d, d.want)
					d.put("churn 0", valueOf(800+i, 7000))
					d.must(d.Flush())
				}
				if failed == 0 {
					t.Error("no compaction failed")
				}
				d.relocate()
				check(t, d, d.want)
				d.must(d.Verify(t.Context(), nil))
				files := d.Metrics().Values.Files
				d.must(d.Close()) // ends deletions
				if left := valueFiles(t, mem); len(left) != files {
					t.Errorf("value files %v, tables refer to %d", left, files)
				}
				d = open(t, mem, d.want, emptying)
				check(t, d, d.want)
				d.must(d.Close())
			})
		}
	}
}
