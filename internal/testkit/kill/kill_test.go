package kill

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"github.com/loamdb/loam/internal/testkit"
)

func TestMain(m *testing.M) {
	if code, child := Child(); child {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

func directories(t *testing.T) func() string {
	root, n := t.TempDir(), 0
	return func() string {
		n++
		return filepath.Join(root, strconv.Itoa(n))
	}
}

func TestKill(t *testing.T) {
	testkit.EachFormat(t, func(t *testing.T, share int) {
		if err := Kill(testkit.Seed(t), testkit.Scale(30, 80/share, 3000),
			directories(t)); err != nil {
			t.Fatal(err)
		}
	})
}

// TestKillKinds kills writers of every kind of write: operands, range deletes, transactions,
// several keyspaces, some of them dropped and made again, with a compaction filter.
func TestKillKinds(t *testing.T) {
	if err := KillKinds(testkit.Seed(t), testkit.Scale(15, 40, 1500), directories(t)); err != nil {
		t.Fatal(err)
	}
}

// TestKillFed kills writers whose changes are consumed.
func TestKillFed(t *testing.T) {
	testkit.EachFormat(t, func(t *testing.T, share int) {
		if err := KillFed(testkit.Seed(t), testkit.Scale(15, 30/share, 1500),
			filepath.Join(t.TempDir(), "db")); err != nil {
			t.Fatal(err)
		}
	})
}

// Environment variables that name what the bindings' writers need: a Python that has loamdb
// installed, the directory of the Node package, and a class path with programs/Writer.java
// compiled and the jar's contents.
const (
	pythonEnv = "LOAM_KILL_PYTHON"
	nodeEnv   = "LOAM_KILL_NODE"
	javaEnv   = "LOAM_KILL_JAVA"
)

// writers returns the commands of the writers by name; a test skips those that
// are nil.
func writers(t *testing.T) map[string][]string {
	self, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{"go": self, "python": nil, "node": nil, "java": nil}
	if python := os.Getenv(pythonEnv); python != "" {
		out["python"] = []string{python, "programs/writer.py"}
	}
	if pkg := os.Getenv(nodeEnv); pkg != "" {
		out["node"] = []string{"node", "programs/writer.js", pkg}
	}
	if path := os.Getenv(javaEnv); path != "" {
		out["java"] = []string{"java", "-XX:+UseSerialGC", "-Xmx64m", "-XX:TieredStopAtLevel=1",
			"-cp", path, "Writer"}
	}
	return out
}

// TestKillProgram kills writers that take their writes from a pipe, those of the bindings too.
func TestKillProgram(t *testing.T) {
	for name, command := range writers(t) {
		t.Run(name, func(t *testing.T) {
			if command == nil {
				t.Skipf("the binding is not named: %s, %s, %s", pythonEnv, nodeEnv, javaEnv)
			}
			testkit.EachFormat(t, func(t *testing.T, share int) {
				if err := KillProgram(testkit.Seed(t), testkit.Scale(10, 30/share, 300),
					directories(t), command...); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// TestPowerCut copies the disk of a writer at random moments; long runs only.
func TestPowerCut(t *testing.T) {
	if !testkit.Full() {
		t.Skipf("set %s=1: mounts file systems", testkit.FullEnv)
	}
	for name, command := range writers(t) {
		t.Run(name, func(t *testing.T) {
			if command == nil {
				t.Skipf("the binding is not named: %s, %s, %s", pythonEnv, nodeEnv, javaEnv)
			}
			testkit.EachFormat(t, func(t *testing.T, share int) {
				err := PowerCut(testkit.Seed(t), 30/share, t.TempDir(), command...)
				if errors.Is(err, ErrNoDisk) {
					t.Skip(err)
				}
				if err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

func TestFileSizeLimit(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no RLIMIT_FSIZE")
	}
	testkit.EachFormat(t, func(t *testing.T, share int) {
		if err := Limit(testkit.Seed(t), testkit.Scale(3, 10/share, 200),
			directories(t)); err != nil {
			t.Fatal(err)
		}
	})
}

// TestBounds holds the bookkeeping to what children may report.
func TestBounds(t *testing.T) {
	for _, c := range []struct {
		before  bounds
		reports []uint32
		after   bounds
		ok      bool
	}{
		{bounds{0, 0}, nil, bounds{0, 1}, true},
		{bounds{0, 0}, []uint32{1, 2, 3}, bounds{3, 4}, true},
		{bounds{3, 4}, []uint32{4}, bounds{4, 5}, true},
		{bounds{3, 4}, []uint32{5, 6}, bounds{6, 7}, true},
		{bounds{3, 4}, []uint32{6}, bounds{}, false},    // more than was begun
		{bounds{3, 4}, []uint32{3}, bounds{}, false},    // an acknowledged batch was lost
		{bounds{3, 4}, []uint32{4, 6}, bounds{}, false}, // a gap
	} {
		var in []byte
		for _, n := range c.reports {
			in = binary.LittleEndian.AppendUint32(in, n)
		}
		b := c.before
		err := b.follow(bytes.NewReader(in))
		if (err == nil) != c.ok || c.ok && b != c.after {
			t.Errorf("%v then %v: %v, %v", c.before, c.reports, b, err)
		}
	}
}
