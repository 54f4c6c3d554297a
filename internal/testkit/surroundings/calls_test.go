package surroundings

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit"
	"github.com/loamdb/loam/internal/testkit/fstest"
	"github.com/loamdb/loam/lsm"
)

// opens matches the calls that take a descriptor.
func opens(op vfs.Op) bool {
	switch op.Kind {
	case vfs.OpCreate, vfs.OpCreateLog, vfs.OpOpen, vfs.OpList, vfs.OpLock:
		return true
	}
	return false
}

// script opens a database, writes past several logs and tables, reads, compacts,
// reopens it, and closes. It returns which keys were acknowledged; step takes each error, and
// returns whether to continue.
func script(dir string, fsys lsm.FS, step func(what string, err error) bool) (acked []bool) {
	acked = make([]bool, 1500)
	for half := range 2 {
		o := small()
		o.FS = fsys
		db, err := lsm.Open(dir, o)
		if !step("open", err) {
			return acked
		}
		for db == nil {
			if db, err = lsm.Open(dir, o); !step("open", err) {
				return acked
			}
		}
		for i := half * 750; i < (half+1)*750; i++ {
			err := db.Put(key(i), append(value100, key(i)...), lsm.NoSync)
			for err != nil && step("put", err) {
				err = db.Put(key(i), append(value100, key(i)...), lsm.NoSync)
			}
			acked[i] = err == nil
		}
		for _, work := range []struct {
			what string
			do   func() error
		}{
			{"flush", db.Flush},
			{"compact", func() error { return db.CompactRange(nil, nil) }},
			{"get", func() error { _, err := db.Get(key(half*750), nil); return err }},
		} {
			for err := work.do(); err != nil && step(work.what, err); {
				err = work.do()
			}
		}
		step("close", db.Close())
	}
	return acked
}

var value100 = make([]byte, 100)

// EMFILE at each call that takes a descriptor, once or until the caller has seen
// it: a typed error, nothing lost, and the next try succeeds.
func TestNoDescriptorAtEachOpen(t *testing.T) {
	for _, forever := range []bool{false, true} {
		step := int64(testkit.Scale(9, 4, 1))
		cases := 0
		for at := int64(0); ; at += step {
			dir := filepath.Join(t.TempDir(), "db")
			fail := &fstest.FailAt{At: at, Match: opens, Forever: forever,
				Outcome: vfs.Outcome{Err: syscall.EMFILE}}
			var healed atomic.Bool
			fsys := vfs.NewFault(vfs.Default, func(op vfs.Op) vfs.Outcome {
				if healed.Load() {
					return vfs.Outcome{}
				}
				return fail.Hook(op)
			})
			errs := 0
			acked := script(dir, fsys, func(what string, err error) bool {
				if err == nil {
					return true
				}
				if errs++; !errors.Is(err, lsm.ErrTooManyFiles) && !errors.Is(err, syscall.EMFILE) {
					t.Errorf("open call %d, forever %v: %s: %v", at, forever, what, err)
				}
				healed.Store(true)
				return errs < 20
			})
			if errs >= 20 {
				t.Fatalf("open call %d, forever %v: does not heal", at, forever)
			}
			db := open(t, dir, nil)
			for i, ok := range acked {
				if !ok {
					t.Errorf("open call %d, forever %v: put %d failed for good", at, forever, i)
				} else if _, err := db.Get(key(i), nil); err != nil {
					t.Fatalf("open call %d, forever %v: key %d: %v", at, forever, i, err)
				}
			}
			must(t, db.Close())
			must(t, os.RemoveAll(dir))
			if fail.Failed() == 0 {
				break
			}
			cases++
		}
		if cases < 3 {
			t.Errorf("only %d calls failed", cases)
		}
	}
}

// A disk of 10 ms a call: a synced put needs few calls, and Close, whatever is
// under way, few enough for 2 s.
func TestSlowDisk(t *testing.T) {
	var calls, forPuts, closing atomic.Int64
	var closed atomic.Bool
	fsys := vfs.NewFault(vfs.Default, func(op vfs.Op) vfs.Outcome {
		calls.Add(1)
		// Obsolete files are deleted in the background meanwhile.
		if op.Kind != vfs.OpRemove && fstest.TypeOf(op.Name) != base.FileTable {
			forPuts.Add(1)
		}
		if closed.Load() {
			closing.Add(1)
		}
		return vfs.Outcome{}
	})
	o := small()
	o.FS = fsys
	o.CacheSize = -1
	db := open(t, t.TempDir(), o)
	for i := range 20_000 {
		must(t, db.Put(key(i%5000), value100, lsm.NoSync))
	}
	before := calls.Load()
	must(t, db.Flush())
	db.PauseCompaction()
	settled := forPuts.Load()
	const puts = 20
	for i := range puts {
		must(t, db.Put(key(i), value100, lsm.Sync))
	}
	if n := forPuts.Load() - settled; n > 3*puts {
		t.Errorf("%d calls for %d synced puts", n, puts)
	}
	db.ResumeCompaction()
	for i := range 5000 {
		must(t, db.Put(key(i), value100, lsm.NoSync))
	}
	closed.Store(true)
	must(t, db.Close())
	if n := closing.Load(); n > 200 {
		t.Errorf("Close took %d calls, %d were made before", n, before)
	}
}

// The engine takes no decision by the clock on the wall, so that its steps
// change nothing: it measures durations only, which Go takes from a clock that
// does not step. A file's time, too, comes from that wall. Values expire by the
// wall, which tree.Clock alone reads, and which never goes back there.
func TestNoWallClock(t *testing.T) {
	wall := regexp.MustCompile(
		`\.Unix(Nano|Milli|Micro)?\(\)|\btime\.(Date|Parse)\(|\.(Year|YearDay|Weekday|Hour|UTC|` +
			`Local)\(\)|\.Round\(0\)|\.ModTime\(\)|info\.ModTime|\btime\.Unix`)
	allowed := map[string]int{ // lines of a file
		"internal/os/vfs/dir_unix.go": 1, // fills in a fs.FileInfo
		"internal/tree/clock.go":      1, // values expire by the wall
		// The time of a backup or a dump, which is displayed: nothing compares it.
		"internal/feature/backup/create.go": 1,
		// one of them is an identity, compared for equality only
		"internal/feature/backup/catalog.go": 2,
		"internal/feature/transfer/dump.go":  1,
		"lsm/dump/dump.go":                   1,
		"internal/feature/feed/change.go":    1, // hands out a deadline that a value has
		"internal/feature/inspect/events.go": 1, // shows when an event was
		// Compared for equality only: it tells another file from the one that was read.
		"internal/feature/follow/edits.go": 2,
		"internal/store/wal/tail.go":       1,
		// How long ago an earlier opening wrote a log, which no other clock tells. It is asked once
		// for each log; a step that Open meets makes logs leave sooner or later than
		// WALRetentionTime says.
		"internal/store/wal/retain.go": 2,
		// Replicas are restored to a moment that a person names. Times of objects always grow, and
		// sequence numbers order the states; a clock that jumps ahead makes Keep shorter, and never
		// deletes the newest snapshot.
		"lsm/replicate/names.go": 1, "lsm/replicate/prune.go": 1, "lsm/replicate/restore.go": 2,
		"lsm/replicate/step.go":   2,
		"lsm/replicate/verify.go": 1, // leaves out what may have expired since
	}
	root := filepath.Join("..", "..", "..")
	files := 0
	for _, dir := range []string{"lsm", "internal"} {
		must(t, filepath.WalkDir(filepath.Join(root, dir),
			func(path string, d os.DirEntry, err error) error {
				if err != nil {
					return err
				}
				name, _ := filepath.Rel(root, path)
				name = filepath.ToSlash(name)
				if d.IsDir() {
					switch name {
					case "internal/testkit", "internal/kvbench", "internal/workload",
						"internal/arch":
						return filepath.SkipDir
					}
					return nil
				}
				if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
					return nil
				}
				files++
				b, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				var found []string
				for i, line := range strings.Split(string(b), "\n") {
					if wall.MatchString(line) {
						found = append(found,
							fmt.Sprintf("%s:%d: %s", name, i+1, strings.TrimSpace(line)))
					}
				}
				if len(found) != allowed[name] {
					t.Errorf("%d lines, of which %d are known:\n%s", len(found), allowed[name],
						strings.Join(found, "\n"))
				}
				delete(allowed, name)
				return nil
			}))
	}
	if files < 50 || len(allowed) > 0 {
		t.Errorf("only %d files were read, and none of %v", files, allowed)
	}
}
