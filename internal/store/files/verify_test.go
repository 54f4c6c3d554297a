package files

import (
	"errors"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/sstable/ldb"
	"github.com/loamdb/loam/internal/os/vfs"
)

func nothing(int) error { return nil }

// TestVerifyComparesWithTheManifest gives a healthy table facts that are not its own.
func TestVerifyComparesWithTheManifest(t *testing.T) {
	s, c := tableSet(t, vfs.NewMem(), "/db")
	m := writeTable(t, s, 7)
	read := 0
	if err := s.Verify(m, func(n int) error {
		read += n
		return nil
	}); err != nil || read != int(m.Size) {
		t.Errorf("%d bytes read of %d, %v", read, m.Size, err)
	}
	if st := s.Stats(); st.Readers != 0 || st.Descriptors != 0 {
		t.Errorf("open after Verify: %+v", st)
	}
	if st := c.Stats(); st.Used != 0 {
		t.Errorf("Verify used the cache: %+v", st)
	}
	first, last := m.Smallest, m.Largest
	for _, lie := range []struct {
		want string
		f    manifest.Facts
		b    [2]base.InternalKey
	}{
		{"", manifest.Facts{Entries: tableEntries}, [2]base.InternalKey{first, last}},
		{"entries, the manifest: 299", manifest.Facts{Entries: tableEntries - 1},
			[2]base.InternalKey{first, last}},
		{"deletions, the manifest: 1", manifest.Facts{Entries: tableEntries, Deletes: 1},
			[2]base.InternalKey{first, last}},
		{"the manifest says 00000001", manifest.Facts{Checksum: 1, HasChecksum: true},
			[2]base.InternalKey{first, last}},
		{"before the smallest", manifest.Facts{}, [2]base.InternalKey{last, last}},
		{"behind the largest", manifest.Facts{}, [2]base.InternalKey{first, first}},
	} {
		other := &manifest.FileMeta{Num: 7, Size: m.Size, Smallest: lie.b[0], Largest: lie.b[1],
			Facts: lie.f}
		err := s.Verify(other, nothing)
		if lie.want == "" {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		var damage *base.Corruption
		if !errors.As(err, &damage) || damage.File != m.Name() ||
			!strings.Contains(damage.Reason, lie.want) {
			t.Errorf("%v; want %q", err, lie.want)
		}
	}
	closeSet(t, s, c)
}

// TestVerifyReadsEveryByte flips a bit of each byte of a table in LevelDB's format, which has no
// checksum of the whole file: all but the footer is found, the filter that Loam does not use too.
func TestVerifyReadsEveryByte(t *testing.T) {
	fsys := vfs.NewMem()
	s, c := tableSet(t, fsys, "/db")
	tableOptions := tableOptions
	tableOptions.LevelDBFilter = true
	m := writeTableWith(t, s, 7, tableOptions)
	f, err := fsys.Open("/db/" + m.Name())
	if err != nil {
		t.Fatal(err)
	}
	content := make([]byte, m.Size)
	if _, err := f.ReadAt(content, 0); err != nil {
		t.Fatal(err)
	}
	for at := range content[:len(content)-ldb.FooterLen] {
		content[at] ^= 1 << (at % 8)
		if err := fsys.Remove("/db/" + m.Name()); err != nil {
			t.Fatal(err)
		}
		w, err := fsys.Create("/db/" + m.Name())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
		_ = w.Close()
		var damage *base.Corruption
		if err := s.Verify(m, nothing); !errors.As(err, &damage) || int64(at) < damage.Offset ||
			damage.File != m.Name() {
			t.Errorf("byte %d of %d: %v", at, m.Size, err)
		}
		content[at] ^= 1 << (at % 8)
	}
	_ = f.Close()
	closeSet(t, s, c)
}

// TestVerifyFaults fails every call of the file system, and each step.
func TestVerifyFaults(t *testing.T) {
	broken := errors.New("the disk is broken")
	calls, fail := 0, 0
	fsys := vfs.NewFault(vfs.NewMem(), func(op vfs.Op) vfs.Outcome {
		if op.Kind != vfs.OpOpen && op.Kind != vfs.OpRead {
			return vfs.Outcome{}
		}
		if calls++; calls == fail {
			return vfs.Outcome{Err: broken}
		}
		return vfs.Outcome{}
	})
	s, c := tableSet(t, fsys, "/db")
	m := writeTable(t, s, 7)
	for fail = 1; ; fail++ {
		calls = 0
		err := s.Verify(m, nothing)
		if calls < fail {
			if err != nil {
				t.Error(err)
			}
			break
		}
		if !errors.Is(err, broken) || errors.Is(err, base.ErrCorruption) {
			t.Errorf("call %d: %v", fail, err)
		}
	}
	if fail < 5 {
		t.Errorf("%d calls only", fail)
	}
	fail = 0 // none
	steps := 0
	if err := s.Verify(m, func(int) error { steps++; return nil }); err != nil {
		t.Fatal(err)
	}
	for end := range steps {
		n := 0
		err := s.Verify(m, func(int) error {
			if n++; n > end {
				return broken
			}
			return nil
		})
		if err != broken || n != end+1 {
			t.Errorf("step %d of %d: %v after %d", end, steps, err, n)
		}
	}
	s.Leave()
	if err := s.Verify(m, nothing); !errors.Is(err, base.ErrClosed) {
		t.Errorf("after Leave: %v", err)
	}
	closeSet(t, s, c)
}
