package mutants

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/loamdb/loam/internal/invariants/planted"
	"github.com/loamdb/loam/internal/testkit"
)

// allEnv set to 1 tries every bug instead of four in rotation.
const allEnv = "LOAM_MUTANTS"

const (
	metamorphic = "metamorphic TestHistories"
	states      = "crash TestCrashStates"
	faults      = "crash TestFaults"
	corruption  = "crash TestCorruption"
	rotation    = "crash TestCrashStates/rotate"
	snapshots   = "history TestBank"
	readers     = "../memtable TestReadersBesideInserts"
)

// bugs are the planted ones with the test that must find each.
var bugs = []struct{ name, found, what string }{
	{"skip-dir-fsync", states, "the directory is not synced after CURRENT was renamed"},
	{"current-before-manifest", states, "CURRENT names a MANIFEST that is not synced"},
	{"unlink-early", states, "old files go before the rename of CURRENT is durable"},
	{"no-sync-at-rotation", rotation, "the next log is written to before the last one is synced"},
	{"append-error-ignored", faults, "writes go on after a failed append"},
	{"sync-error-ignored", faults, "writes go on after a failed sync"},
	{"eio-is-eof", faults, "a failure to read the log counts as its end"},
	{"skip-crc", corruption, "block checksums are not looked at"},
	{"skip-log-damage", corruption, "the log is read on behind a damaged record"},
	{"drop-tombstone", metamorphic, "a tombstone goes while a deeper level holds its key"},
	{"drop-snapshot-key", metamorphic, "an entry goes that a snapshot needs"},
	{"direction-change", metamorphic, "an iterator that turns round skips an entry"},
	{"bloom-miss", metamorphic, "the filter denies a key that is there"},
	{"reuse-file-number", states, "a file number is given out twice"},
	{"publish-early", snapshots, "a sequence number is visible before its entries"},
	{"split-batch", states, "a batch is appended to the log in two records"},
	{"forget-l0-input", metamorphic, "a compaction leaves out an overlapping table of level 0"},
	{"free-block-early", metamorphic, "an iterator's block is released while it is read"},
	{"torn-leaf", readers, "a memtable's reader copies a leaf while it changes"},
	{"torn-branch", readers, "a memtable's reader goes down while branches change"},
	{"batch-count", metamorphic, "a batch whose count is wrong is accepted"},
	{"unlock-on-failure", metamorphic, "a failed opening gives up the lock of the open database"},
}

// TestMutants builds the tests with the planted bugs and runs them, first with
// none switched on.
func TestMutants(t *testing.T) {
	all := os.Getenv(allEnv) == "1"
	if !testkit.Full() && !all {
		t.Skipf("set %s=1 (four bugs) or %s=1 (all)", testkit.FullEnv, allEnv)
	}
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(uint64(testkit.Seed(t)), 14))
	order := rng.Perm(len(bugs))
	if !all {
		order = order[:4]
	}
	for _, i := range order {
		bug := bugs[i]
		t.Run(bug.name, func(t *testing.T) {
			pkg, test, _ := strings.Cut(bug.found, " ")
			binary := build(t, dir, pkg)
			if out, failed := run(binary, test, ""); failed {
				t.Fatalf("%s fails without a bug:\n%s", bug.found, out)
			}
			for end := time.Now().Add(time.Minute); time.Now().Before(end); {
				if out, failed := run(binary, test, bug.name); failed {
					t.Logf("%s: found: %.300s", bug.what, out)
					return
				}
			}
			t.Errorf("%s: %s does not find it within a minute", bug.what, bug.found)
		})
	}
}

// build compiles the tests of a package, named as seen from testkit, once.
func build(t *testing.T, dir, pkg string) string {
	binary := filepath.Join(dir, filepath.Base(pkg)+".test")
	if _, err := os.Stat(binary); err == nil {
		return binary
	}
	cmd := exec.Command("go", "test", "-c", "-tags", "planted", "-o", binary, "../"+pkg)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return binary
}

// run runs the short version of a test and reports whether it failed; a test
// that takes longer than a minute has not.
func run(binary, test, bug string) (out string, failed bool) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "-test.short", "-test.run", "^"+test+"$")
	cmd.Env = append(os.Environ(), planted.Env+"="+bug, testkit.FullEnv+"=0")
	b, err := cmd.CombinedOutput()
	return string(b), err != nil && ctx.Err() == nil
}

// TestEveryBugHasAHook looks for the call that switches each bug on.
func TestEveryBugHasAHook(t *testing.T) {
	root := "../../.."
	var source strings.Builder
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		b, err := os.ReadFile(path)
		source.Write(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, bug := range bugs {
		if !strings.Contains(source.String(), `planted.Bug("`+bug.name+`")`) {
			t.Errorf("%s (%s): no planted.Bug(%q) in the engine", bug.name, bug.what, bug.name)
		}
	}
	if !strings.Contains(source.String(), "package planted") {
		t.Error("the walk does not see the engine's source")
	}
}
