package lsm

import (
	"bytes"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
)

// TestRepairOfDamagedHeaders has files that Open or its reads refuse, for one of the two copies of
// their encryption headers, and a repair can read: it makes of them what Open takes, and says so.
func TestRepairOfDamagedHeaders(t *testing.T) {
	needsNative(t)
	large := bytes.Repeat([]byte("large"), 100)
	last := func(names []string) string { return names[len(names)-1] }
	first := func(names []string) string { return names[0] }
	for name, c := range map[string]struct {
		from string                     // suffix of the files of which the first one is damaged
		to   func(logs []string) string // the file that it replaces
	}{
		"values in a log":                 {".wal", first},
		"a table in the place of the log": {".loam", last},
	} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem()
			db := mustOpen(t, "db", &Options{FS: mem, LargeValue: 100, WALPreallocate: -1})
			must(t, db.Put([]byte("k"), large, NoSync))
			must(t, db.Flush())
			mustClose(t, db)
			o := &Options{FS: mem, Encryption: provider(t, 1), AllowClear: true,
				ErrorIfMissing: true, WALPreallocate: -1}
			db = mustOpen(t, "db", o)
			must(t, db.Rekey(t.Context()))
			mustClose(t, db)
			db = mustOpen(t, "db", o)
			killed := mem.CrashClone(vfs.KeepAll()) // its last log is empty
			mustClose(t, db)

			files := contentsOf(t, killed, "db")
			names := func(suffix string) (some []string) {
				for _, name := range slices.Sorted(maps.Keys(files)) {
					if strings.HasSuffix(name, suffix) {
						some = append(some, name)
					}
				}
				return some
			}
			b := bytes.Clone(files[first(names(c.from))])
			if !bytes.HasPrefix(b, []byte("LoamSeal")) {
				t.Fatal("the file is not encrypted in chunks")
			}
			b[30]++
			putFile(t, killed, filepath.Join("db", c.to(names(".wal"))), b)

			o.FS = killed
			report, err := Repair("db", o)
			if err != nil || !report.Changed() {
				t.Fatalf("Repair: %+v, %v", report, err)
			}
			db = mustOpen(t, "db", o)
			if v, err := db.Get([]byte("k"), nil); !bytes.Equal(v, large) {
				t.Errorf("after the repair: %.20q, %v", v, err)
			}
			must(t, errors.Join(db.Verify(t.Context(), nil), db.Close()))
		})
	}
}
