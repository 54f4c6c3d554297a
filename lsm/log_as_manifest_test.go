package lsm

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/feature/examine"
	"github.com/loamdb/loam/internal/format/current"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/fstest"
)

// withLog is a database that was closed or killed with logs in it that are not empty. The first
// batch of the newest has the sequence number first, whose lowest byte is the tag of the edit that
// the batch looks like.
func withLog(t *testing.T, format Format, closed bool, first int) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem()
	db := mustOpen(t, "db", &Options{FS: mem, Format: format, WALRetentionBytes: 1 << 40,
		WALPreallocate: -1})
	for i := 1; i < first; i++ {
		must(t, db.Put([]byte("k"), fmt.Append(nil, i), NoSync))
	}
	must(t, db.Flush())
	must(t, db.Put([]byte("a"), []byte("1"), Sync))
	must(t, db.Put([]byte("b"), []byte("2"), Sync))
	killed := mem.CrashClone(vfs.KeepAll())
	must(t, db.Close())
	if closed {
		return mem.CrashClone(vfs.KeepAll())
	}
	return killed
}

// TestLogAsManifest: where the MANIFEST in force is a log, every reader calls it damaged, names the
// file and says that it is a log, whatever its batches look like as edits, and changes nothing. A
// repair says it too, keeps the file aside, and brings back what other files have.
func TestLogAsManifest(t *testing.T) {
	for _, format := range []Format{FormatLevelDB, FormatNative} {
		// 1 is LevelDB's tag of an edit, 10 and 100 are RocksDB's, 64 is the native format's.
		for _, first := range []int{1, 2, 10, 64, 65, 100, 104, 255} {
			for _, closed := range []bool{false, true} {
				whole := withLog(t, format, closed, first)
				pointer, err := current.Read(whole, "db")
				must(t, err)
				logs, err := fstest.Find(whole, "db", base.FileLog)
				must(t, err)
				for _, log := range logs {
					b, err := fstest.ReadFile(whole, log)
					must(t, err)
					if len(bytes.Trim(b, "\x00")) == 0 {
						continue // it was not begun, and could be any file
					}
					name := fmt.Sprintf("%v, first %d, closed %v, %s", format, first, closed, log)
					mem := whole.CrashClone(vfs.KeepAll())
					must(t, mem.Remove("db/"+pointer.Manifest))
					must(t, mem.Link(log, "db/"+pointer.Manifest))
					checkLogAsManifest(t, name, mem, pointer)
				}
			}
		}
	}
}

func checkLogAsManifest(t *testing.T, name string, mem *vfs.Mem,
	pointer current.Pointer) {
	t.Helper()
	manifest := pointer.Manifest
	before, err := fstest.Tree(mem, "db")
	must(t, err)
	o := func() *Options { return &Options{FS: mem, ErrorIfMissing: true} }
	tells := func(who string, err error) {
		t.Helper()
		var c *CorruptionError
		if !errors.As(err, &c) || c.File != manifest || c.Offset != 0 ||
			!strings.HasPrefix(c.Reason, "the file is ") ||
			!strings.HasSuffix(c.Reason, "not a MANIFEST") {
			t.Errorf("%s: %s: %v", name, who, err)
		}
	}
	_, err = Open("db", o())
	tells("Open", err)
	readOnly := o()
	readOnly.ReadOnly = true
	_, err = Open("db", readOnly)
	tells("read-only", err)
	_, err = OpenFollower("db", o())
	tells("follower", err)
	tells("Upgrade", errorUnless(Upgrade("db", o())))
	_, err = examine.Open(mem, "db")
	tells("examine", err)
	edits := 0
	must(t, examine.ReadManifest(mem, filepath.Join("db", manifest), pointer.Format,
		func(e examine.ManifestEdit) error {
			if edits++; e.Damage != nil {
				tells("loam manifest", e.Damage)
			}
			return nil
		}))
	if edits != 1 {
		t.Errorf("%s: %d edits", name, edits)
	}
	after, err := fstest.Tree(mem, "db")
	must(t, err)
	if !maps.EqualFunc(after, before, bytes.Equal) {
		t.Errorf("%s: files before %q, after %q", name, slices.Sorted(maps.Keys(before)),
			slices.Sorted(maps.Keys(after)))
	}
	report, err := Repair("db", o())
	must(t, err)
	if !slices.ContainsFunc(report.Dropped, func(l RepairDrop) bool {
		return l.File == manifest && strings.Contains(l.Reason, "not a MANIFEST")
	}) || !slices.Contains(report.SetAside, manifest) {
		t.Errorf("%s: repair: %+v", name, report)
	}
	db := mustOpen(t, "db", o())
	for key, value := range map[string]string{"a": "1", "b": "2"} {
		if v, err := db.Get([]byte(key), nil); err != nil || string(v) != value {
			t.Errorf("%s: %s is %q after the repair, %v", name, key, v, err)
		}
	}
	mustClose(t, db)
}

// errorUnless returns an error for nil: the call has to fail.
func errorUnless(err error) error {
	if err == nil {
		return errors.New("succeeded")
	}
	return err
}

// TestCurrentNamesLog: CURRENT that names a log is damage which says so.
func TestCurrentNamesLog(t *testing.T) {
	for _, format := range []Format{FormatLevelDB, FormatNative} {
		mem := withLog(t, format, false, 1)
		logs, err := fstest.Find(mem, "db", base.FileLog)
		must(t, err)
		pointer, err := current.Read(mem, "db")
		must(t, err)
		file := filepath.Join("db", pointer.File)
		contents := filepath.Base(logs[0])
		if format == FormatNative {
			contents += fmt.Sprintf(" %08x", crc32.Checksum([]byte(contents),
				crc32.MakeTable(crc32.Castagnoli)))
		}
		must(t, mem.Remove(file))
		must(t, fstest.WriteFile(mem, file, []byte(contents+"\n")))
		_, err = Open("db", &Options{FS: mem})
		if !errors.Is(err, ErrCorruption) || !strings.Contains(err.Error(), "names a log") {
			t.Errorf("%v: %v", format, err)
		}
		_, err = OpenFollower("db", &Options{FS: mem})
		if !errors.Is(err, ErrCorruption) || !strings.Contains(err.Error(), "names a log") {
			t.Errorf("%v: follower: %v", format, err)
		}
	}
}
