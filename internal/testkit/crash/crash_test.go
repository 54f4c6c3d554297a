package crash

import (
	"os"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit"
	"github.com/loamdb/loam/internal/testkit/fstest"
	"github.com/loamdb/loam/lsm"
)

// TestCrashStates takes about 4,000 states in the usual size.
func TestCrashStates(t *testing.T) { testkit.EachFormat(t, testCrashStates) }

func testCrashStates(t *testing.T, share int) {
	for _, name := range Workloads() {
		t.Run(name, func(t *testing.T) {
			if name == "recycle" && os.Getenv(testkit.FormatEnv) != lsm.FormatNative.String() {
				t.Skip("its databases are native ones")
			}
			total := takeStates(t, testkit.Scale(1, 1, 3), func(seed int64) (Result, error) {
				return States(name, seed, testkit.Scale(5, 1+3*share, 1))
			})
			if total.Nested == 0 && !testing.Short() {
				t.Error("no recovery was cut")
			}
		})
	}
}

// TestValueStates takes the crash states of a workload whose values stay in logs.
func TestValueStates(t *testing.T) {
	takeStates(t, testkit.Scale(1, 1, 4), func(seed int64) (Result, error) {
		return explore(&valueWorkload, seed, int64(testkit.Scale(24, 24, 4)), nil)
	})
}

// TestRecoveredValueStates takes the crash states of a workload whose recoveries refer to logs.
func TestRecoveredValueStates(t *testing.T) {
	takeStates(t, testkit.Scale(1, 1, 4), func(seed int64) (Result, error) {
		return explore(&recoverWorkload, seed, int64(testkit.Scale(16, 16, 4)), nil)
	})
}

// TestRelocationStates takes the crash states of a workload whose values are relocated.
func TestRelocationStates(t *testing.T) {
	takeStates(t, testkit.Scale(1, 1, 4), func(seed int64) (Result, error) {
		return explore(&relocateWorkload, seed, int64(testkit.Scale(32, 32, 4)), nil)
	})
}

// TestLargeKindStates takes the crash states of a workload over keyspaces with large values that
// expire, are merged, and are changed by a compaction filter.
func TestLargeKindStates(t *testing.T) {
	takeStates(t, testkit.Scale(1, 1, 4), func(seed int64) (Result, error) {
		return explore(&largeKindsWorkload, seed, int64(testkit.Scale(80, 60, 12)), nil)
	})
}

// TestTreeStates takes the crash states of workloads over seven keyspaces with one
// log, with every kind of write: of each batch all or nothing is there, in every keyspace.
func TestTreeStates(t *testing.T) {
	for _, w := range []*workload{&treeWorkload, &kindsWorkload} {
		t.Run(w.name, func(t *testing.T) {
			takeStates(t, testkit.Scale(1, 1, 2), func(seed int64) (Result, error) {
				return explore(w, seed, int64(testkit.Scale(90, 180, 12)), nil)
			})
		})
	}
}

// takeStates takes crash states in so many rounds, each with a seed of its own.
func takeStates(t *testing.T, rounds int, take func(seed int64) (Result, error)) (total Result) {
	t.Helper()
	seed := testkit.Seed(t)
	for round := range rounds {
		r, err := take(seed + int64(round))
		if err != nil {
			t.Fatal(err)
		}
		total.Points, total.States, total.Nested =
			total.Points+r.Points, total.States+r.States, total.Nested+r.Nested
	}
	t.Logf("%d states of %d points, %d within recoveries", total.States, total.Points, total.Nested)
	return total
}

// takeFaults fails calls of workloads, every stride-th of them.
func takeFaults(t *testing.T, stride int, workloads ...string) {
	t.Helper()
	n, err := Faults(testkit.Seed(t), workloads, stride)
	t.Logf("%d trials", n)
	if err != nil {
		t.Fatal(err)
	}
}

// eachFormatOf is testkit.EachFormat for a workload. One with keyspaces, which are native, runs
// once, in the size that it would have in that format.
func eachFormatOf(t *testing.T, workload string, test func(t *testing.T, share int)) {
	if workload == treeWorkload.name || strings.HasPrefix(workload, "tree-") {
		test(t, 2)
		return
	}
	testkit.EachFormat(t, test)
}

// TestCopyStates: whatever a crash during a checkpoint, or later, leaves is the database
// unharmed, and each checkpoint whole or not there.
func TestCopyStates(t *testing.T) { takeCopies(t, CopyWorkloads(), 100, 70) }

// TestBackupStates: whatever a crash during a backup, a deletion or a restore, or later, leaves is
// the database unharmed, each earlier backup whole, and the restored database whole or not there.
func TestBackupStates(t *testing.T) { takeCopies(t, BackupWorkloads(), 150, 100) }

// takeCopies takes crash states of workloads that make copies, at each short-th or usual-th call.
func takeCopies(t *testing.T, workloads []string, short, usual int) {
	for _, name := range workloads {
		t.Run(name, func(t *testing.T) {
			eachFormatOf(t, name, func(t *testing.T, share int) {
				takeStates(t, 1, func(seed int64) (Result, error) {
					return States(name, seed, testkit.Scale(short, usual*share, 4))
				})
			})
		})
	}
}

// TestCopyFaults fails the calls of a workload that makes checkpoints.
func TestCopyFaults(t *testing.T) {
	testkit.EachFormat(t, func(t *testing.T, share int) {
		takeFaults(t, testkit.Scale(120, 45*share, 2), "copy")
	})
}

// TestBackupFaults fails the calls of a workload that makes backups.
func TestBackupFaults(t *testing.T) {
	testkit.EachFormat(t, func(t *testing.T, share int) {
		takeFaults(t, testkit.Scale(150, 50*share, 2), "backup")
	})
}

// TestChangesStates: whatever a crash leaves, a feed of changes has what the database has, from the
// first batch on, and what a feed said was durable is there.
func TestChangesStates(t *testing.T) {
	testkit.EachFormat(t, func(t *testing.T, share int) {
		takeStates(t, 1, func(seed int64) (Result, error) {
			return ChangesStates(seed, testkit.Scale(60, 90*share, 4))
		})
	})
}

// TestChangesFaults fails the calls of a workload with feeds of changes.
func TestChangesFaults(t *testing.T) {
	testkit.EachFormat(t, func(t *testing.T, share int) {
		takeFaults(t, testkit.Scale(200, 150*share, 12), "changes")
	})
}

// TestUpgradeStates: whatever a crash during an upgrade leaves is a whole database in the
// one or the other format, and can be upgraded again.
func TestUpgradeStates(t *testing.T) {
	takeStates(t, 1, func(seed int64) (Result, error) {
		return UpgradeStates(seed, testkit.Scale(12, 4, 1))
	})
}

func TestFaults(t *testing.T) {
	names := []string{"create", "flush", "compact"}
	if testkit.Full() {
		names = append(names, "rotate", "manifest", "close")
	}
	testkit.EachFormat(t, func(t *testing.T, share int) {
		takeFaults(t, testkit.Scale(25, 8*share-1, 1), names...)
	})
}

// TestRelocationFaults fails the calls of a workload whose values are relocated.
func TestRelocationFaults(t *testing.T) { takeFaults(t, testkit.Scale(40, 40, 2), "relocate") }

// TestRecoveredValueFaults fails the calls of a workload whose recoveries refer to logs.
func TestRecoveredValueFaults(t *testing.T) { takeFaults(t, testkit.Scale(40, 40, 1), "recover") }

// TestValueFaults fails the calls of a workload whose values stay in logs.
func TestValueFaults(t *testing.T) { takeFaults(t, testkit.Scale(40, 40, 2), "values") }

// TestLargeKindsFaults fails the calls of a workload whose merged values lie in value files.
func TestLargeKindsFaults(t *testing.T) {
	takeFaults(t, testkit.Scale(80, 60, 4), "large-kinds")
}

// TestKindsFaults is TestFaults for a workload with every kind of write, keyspaces that are
// dropped, transactions and a compaction filter.
func TestKindsFaults(t *testing.T) { takeFaults(t, testkit.Scale(60, 33, 2), "kinds") }

func TestCorruption(t *testing.T) { testkit.EachFormat(t, testCorruption) }

func testCorruption(t *testing.T, share int) {
	n, err := Corruption(testkit.Seed(t), testkit.Scale(40, 8*share-1, 1), false)
	t.Logf("%d damages", n)
	if err != nil {
		t.Fatal(err)
	}
	if testkit.Full() {
		if _, err := Corruption(testkit.Seed(t), 1, true); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRepair(t *testing.T) { testkit.EachFormat(t, testRepair) }

func testRepair(t *testing.T, share int) {
	n, err := Repairs(testkit.Seed(t), testkit.Scale(200, 80*share, 3),
		testkit.Scale(400, 120*share, 4))
	t.Logf("%d repairs", n)
	if err != nil {
		t.Fatal(err)
	}
}

func TestFullDisk(t *testing.T) {
	testkit.EachFormat(t, func(t *testing.T, share int) {
		if err := FullDisk(testkit.Seed(t), testkit.Scale(3, 10/share, 200)); err != nil {
			t.Fatal(err)
		}
	})
}

// TestWorkloadsAlone runs each workload without any disturbance and wants what
// it wrote, and enough calls for crashes to be worth while.
func TestWorkloadsAlone(t *testing.T) {
	testkit.EachFormat(t, func(t *testing.T, _ int) { testWorkloadsAlone(t) })
}

func testWorkloadsAlone(t *testing.T) {
	for i := range workloads {
		w := &workloads[i]
		mem := vfs.NewMem()
		var calls [vfs.NumOps]int
		s := newSession(w, 1, mem, false)
		trace := &fstest.Trace{}
		s.fs = vfs.NewFault(mem, trace.Hook(nil))
		if err := w.run(s); err != nil {
			t.Errorf("%s: %v", w.name, err)
			continue
		}
		changing := 0
		for _, op := range trace.Ops() {
			calls[op.Kind]++
			if changes(op.Kind) {
				changing++
			}
		}
		x := &explorer{ledger: s.ledger}
		if _, err := x.recover(mem, s.last, s.last, drops{}, false); err != nil {
			t.Errorf("%s: %v", w.name, err)
		}
		t.Logf("%s: %d batches, %d calls that change something", w.name, s.last, changing)
		if w.name == "recycle" && calls[vfs.OpReuseLog] < 2 {
			t.Errorf("recycle: %d logs were reused", calls[vfs.OpReuseLog])
		}
		if changing < 40 || calls[vfs.OpRename] == 0 || calls[vfs.OpSyncDir] == 0 {
			t.Errorf("%s: only %d calls, %v", w.name, changing, calls)
		}
	}
}

func TestRecordEnds(t *testing.T) {
	rec := func(kind byte, n int) []byte {
		return append([]byte{0, 0, 0, 0, byte(n), byte(n >> 8), kind}, make([]byte, n)...)
	}
	log := append(rec(1, 10), rec(1, 300)...)
	two := len(log)
	log = append(log, rec(2, 32768-two-7)...)
	log = append(log, rec(4, 5)...)
	ends := recordEnds(log)
	for at, want := range map[int]bool{0: true, 17: true, two: true, 32768: false, len(log): true,
		18: false} {
		if ends[at] != want {
			t.Errorf("record ends at %d: %v", at, ends[at])
		}
	}
	if got := lastRecord(log); got != two {
		t.Errorf("the last record begins at %d, not %d", got, two)
	}
}

// TestFollowers: a follower has a state of the writer before each of its calls.
func TestFollowers(t *testing.T) {
	for _, name := range append(Workloads(), upgradeWorkload.name, treeWorkload.name) {
		t.Run(name, func(t *testing.T) {
			eachFormatOf(t, name, func(t *testing.T, share int) {
				takeStates(t, 1, func(seed int64) (Result, error) {
					return Followers(name, seed, testkit.Scale(7, 1+3*share, 1))
				})
			})
		})
	}
}

// TestFollowerStates: a follower of what a crash left, and of the writer that recovers it.
func TestFollowerStates(t *testing.T) {
	for _, name := range Workloads() {
		t.Run(name, func(t *testing.T) {
			testkit.EachFormat(t, func(t *testing.T, share int) {
				takeStates(t, 1, func(seed int64) (Result, error) {
					return FollowerStates(name, seed, testkit.Scale(60, 60*share, 3))
				})
			})
		})
	}
}
