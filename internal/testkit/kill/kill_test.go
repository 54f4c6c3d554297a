package kill

import (
	"bytes"
	"encoding/binary"
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
	if err := Kill(testkit.Seed(t), testkit.Scale(30, 300, 3000), directories(t)); err != nil {
		t.Fatal(err)
	}
}

func TestFileSizeLimit(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no RLIMIT_FSIZE")
	}
	if err := Limit(testkit.Seed(t), testkit.Scale(3, 10, 200), directories(t)); err != nil {
		t.Fatal(err)
	}
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
