package crash

import (
	"encoding/binary"
	"path"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit"
	"github.com/loamdb/loam/internal/testkit/fstest"
	"github.com/loamdb/loam/lsm"
)

// encrypted makes the databases of a test encrypted ones, in the native format.
func encrypted(t *testing.T) {
	t.Helper()
	t.Setenv(testkit.FormatEnv, lsm.FormatNative.String())
	restore, err := encrypt()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(restore)
	t.Cleanup(testkit.UseFormat(lsm.FormatNative))
}

// TestEncryptedStates is TestCrashStates of encrypted databases.
func TestEncryptedStates(t *testing.T) {
	encrypted(t)
	for _, name := range Workloads() {
		takeStates(t, 1, func(seed int64) (Result, error) {
			return States(name, seed, testkit.Scale(400, 250, 5))
		})
	}
	takeStates(t, 1, func(seed int64) (Result, error) {
		return explore(&kindsWorkload, seed, int64(testkit.Scale(2000, 1500, 24)), nil)
	})
}

// TestEncryptedCopies is TestCopyStates and TestBackupStates of encrypted databases.
func TestEncryptedCopies(t *testing.T) {
	encrypted(t)
	for _, name := range append(CopyWorkloads(), BackupWorkloads()...) {
		takeStates(t, 1, func(seed int64) (Result, error) {
			return States(name, seed, testkit.Scale(3000, 2000, 30))
		})
	}
}

// TestEncryptedFaults is TestFaults of encrypted databases.
func TestEncryptedFaults(t *testing.T) {
	encrypted(t)
	takeFaults(t, testkit.Scale(500, 250, 8), "create", "flush", "compact", "kinds")
}

// TestEncryptedCorruption is TestCorruption of an encrypted database.
func TestEncryptedCorruption(t *testing.T) {
	encrypted(t)
	testCorruption(t, 40)
}

// TestEncryptedRepair is TestRepair of an encrypted database.
func TestEncryptedRepair(t *testing.T) {
	encrypted(t)
	testRepair(t, 6)
}

// TestNothingInClear searches the files of each workload, as they are when they are renamed, closed
// or removed and at the end, for the keys and values that were written.
func TestNothingInClear(t *testing.T) {
	encrypted(t)
	all := []*workload{&kindsWorkload, &treeWorkload}
	for i := range workloads {
		all = append(all, &workloads[i])
	}
	for _, w := range all {
		mem := vfs.NewMem()
		s := newSession(w, 1, mem, true)
		s.opts.Compression = lsm.NoCompression
		plain := windows(s.ledger)
		found, seen := map[string]bool{}, 0
		search := func(name string) {
			b, err := read(mem, name)
			if err != nil {
				return // it has gone
			}
			seen++
			for i := 0; i+8 <= len(b); i++ {
				if plain[binary.LittleEndian.Uint64(b[i:])] && !found[name] {
					found[name] = true
					t.Errorf("%s: %s has a key or value in clear at %d: %q", w.name, name, i,
						b[i:i+8])
				}
			}
		}
		s.fs = vfs.NewFault(mem, func(op vfs.Op) vfs.Outcome {
			switch op.Kind {
			case vfs.OpClose, vfs.OpRename, vfs.OpRemove:
				search(op.Name)
			}
			return vfs.Outcome{}
		})
		if err := w.run(s); err != nil {
			t.Fatalf("%s: %v", w.name, err)
		}
		tree, err := fstest.Tree(mem, ".")
		if err != nil {
			t.Fatal(err)
		}
		for name := range tree {
			search(name)
		}
		if seen < 5 {
			t.Errorf("%s: %d files were searched", w.name, seen)
		}
	}
}

// windows are all pieces of 8 bytes of the values of a ledger, and its longer keys.
func windows(l *testkit.Ledger) map[uint64]bool {
	plain := map[uint64]bool{}
	for i := 1; i <= 200; i++ {
		for _, w := range l.Batch(i) {
			for _, s := range []string{w.Key, w.Value} {
				for j := 0; j+8 <= min(len(s), 400); j++ {
					plain[binary.LittleEndian.Uint64([]byte(s[j:]))] = true
				}
			}
		}
	}
	return plain
}

// read reads a regular file whole.
func read(fsys vfs.FS, name string) ([]byte, error) {
	f, err := fsys.Open(path.Clean(name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, f.Size())
	return b, base.ReadFull(f, b, 0)
}
