package facts

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/feature/examine"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/lsm"
)

// TestTablesBesideWriter has a writer make and delete tables at each single file-system call of
// examine.Open: no table is taken for missing. One that is missing is, also then.
func TestTablesBesideWriter(t *testing.T) {
	for _, format := range []lsm.Format{lsm.FormatNative, lsm.FormatLevelDB} {
		t.Run(fmt.Sprint(format), func(t *testing.T) {
			mem := vfs.NewMem()
			db, err := lsm.Open("/db", &lsm.Options{FS: mem, Format: format,
				DisableCompaction: true})
			must(t, err)
			defer db.Close()
			flushed := 0
			flush := func() {
				must(t, db.Put([]byte("k"), fmt.Append(nil, flushed), lsm.NoSync))
				must(t, db.Flush())
				flushed++
			}
			flush()
			compact := func() {
				flush()
				before := tables(t, mem)
				must(t, db.CompactRange(nil, nil))
				for _, name := range before { // which the database does in background
					err := mem.Remove(filepath.Join("/db", name))
					if err != nil && !errors.Is(err, fs.ErrNotExist) {
						t.Fatal(err)
					}
				}
			}
			for _, write := range []func(){flush, compact} {
				at, calls := 0, 1
				for ; at < calls; at++ {
					calls = 0
					d, err := examine.Open(vfs.NewFault(mem, func(vfs.Op) vfs.Outcome {
						if calls == at {
							write()
						}
						calls++
						return vfs.Outcome{}
					}), "/db")
					must(t, err)
					if got := missing(d); len(got) > 0 {
						t.Errorf("written at call %d of %d: %v", at, calls, got)
					}
				}
				if at < 5 {
					t.Errorf("%d calls", at)
				}
			}
			flush()
			d, err := examine.Open(mem, "/db")
			must(t, err)
			for num := range d.State.Files {
				name, _ := d.TableName(num)
				must(t, mem.Remove(filepath.Join("/db", name)))
				d, err := examine.Open(vfs.NewFault(mem, func(vfs.Op) vfs.Outcome {
					flush()
					return vfs.Outcome{}
				}), "/db")
				must(t, err)
				var c *base.Corruption
				err = d.CheckTable(num)
				if !errors.As(err, &c) || c.File != name ||
					!strings.Contains(c.Reason, fmt.Sprintf("table %d is missing", num)) {
					t.Errorf("%s is removed: %v", name, err)
				}
				if got := missing(d); len(got) != 1 {
					t.Errorf("%s is removed: %v", name, got)
				}
				break
			}
		})
	}
}

// missing are the names of the tables that have no file.
func missing(d *examine.Directory) (names []string) {
	for _, f := range Tables(d) {
		if f.Missing {
			names = append(names, f.File)
		}
	}
	return names
}

// tables are the names of the table files that are there.
func tables(t *testing.T, fsys vfs.FS) (names []string) {
	t.Helper()
	all, err := fsys.List("/db")
	must(t, err)
	for _, name := range all {
		if _, _, ok := base.ParseTableName(name); ok {
			names = append(names, name)
		}
	}
	return names
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
