package lsm

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/fstest"
)

// TestCutEditOfAFlush cuts the MANIFEST within the last edit, of a flush that made several logs
// obsolete. The first of them stays for a while, to become the next log, or for its values. Open
// and followers fail, as another one is missing, and a repair has everything.
func TestCutEditOfAFlush(t *testing.T) {
	needsNative(t)
	for _, large := range []int64{0, 4 << 10} {
		mem := vfs.NewMem()
		o := Options{FS: mem, LargeValue: large, Compression: NoCompression,
			WriteBufferSize: 16 << 20}
		db := mustOpen(t, "db", &o)
		paths, err := fstest.Find(mem, "db", base.FileManifest)
		must(t, err)
		path := paths[0]
		var before []byte
		for i := range 3 { // each in a log of its own
			value := strings.Repeat("v", 2000) // of the second log, which goes
			if i != 1 {
				value = strings.Repeat("w", 5000)
			}
			for j := range 600 {
				must(t, db.Put(fmt.Appendf(nil, "%d %03d", i, j), []byte(value), NoSync))
			}
			must(t, db.Checkpoint(t.Context(), fmt.Sprintf("copy %d %d", large, i)))
			before, err = fstest.ReadFile(mem, path)
			must(t, err)
		}
		must(t, db.Flush())
		db.engine.Parts().Shared.Files.WaitDeleted()
		mustPut(t, db, 7)
		killed := mem.CrashClone(vfs.KeepAll())
		mustClose(t, db)
		after, err := fstest.ReadFile(killed, path)
		must(t, err)
		refused := 0
		for at := len(before); at < len(after); at += 7 {
			cut := killed.CrashClone(vfs.KeepAll())
			must(t, errors.Join(cut.Remove(path), fstest.WriteFile(cut, path, after[:at])))
			o.FS = cut
			db, err := Open("db", &o)
			if err == nil {
				t.Fatalf("cut at %d of %d: Open does not fail: %+v", at, len(after),
					db.RecoveryReport())
			}
			if refused++; refused > 2 {
				continue
			}
			_, ferr := OpenFollower("db", &o)
			var c *CorruptionError
			if !errors.As(err, &c) || filepath.Ext(c.File) == "" || !errors.Is(ferr,
				ErrCorruption) {
				t.Errorf("cut at %d: %v; a follower: %v", at, err, ferr)
			}
			report, err := Repair("db", &o)
			if must(t, err); !report.Changed() {
				t.Errorf("cut at %d: %+v", at, report)
			}
			db = mustOpen(t, "db", &o)
			it := db.Iter(nil)
			if n := countEntries(it); n != 3*600+1 {
				t.Errorf("cut at %d: %d entries after a repair that reports %+v", at, n, report)
			}
			must(t, it.Close())
			mustClose(t, db)
		}
	}
}
