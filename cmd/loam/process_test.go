//go:build linux || darwin || freebsd

package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loamdb/loam/lsm"
)

// TestCareOfOpenDatabase has the process that has a database open compact, flush, copy and back it
// up. Without Inspect the verbs fail and say how a process answers. Ctrl-C leaves nothing behind.
func TestCareOfOpenDatabase(t *testing.T) {
	dir := filled(t, nil)
	root := filepath.Dir(dir)
	ended, end := context.WithCancel(t.Context())
	end()
	for _, answers := range []bool{false, true} {
		db, err := lsm.Open(dir, &lsm.Options{Inspect: answers})
		must(t, err)
		second, err := db.Keyspace("second", nil)
		must(t, err)
		must(t, db.Put([]byte("k"), []byte("v"), lsm.NoSync))
		must(t, second.Put([]byte("k"), []byte("v"), lsm.NoSync))
		for _, args := range [][]string{{"flush", dir}, {"compact", dir},
			{"compact", "--json", "--keyspace", "second", dir},
			{"checkpoint", dir, filepath.Join(root, "copy")},
			{"backup", "--verify", "--keep", "1", dir, filepath.Join(root, "backups")}} {
			if args[0] != "flush" {
				_, errs, code := loam(ended, args...)
				if code != exitSignal && (answers || code != exitFailed) {
					t.Errorf("%v: exit %d: %s", args, code, errs)
				}
			}
			out, errs, code := loam(t.Context(), args...)
			switch {
			case answers && code != exitFine:
				t.Errorf("%v: exit %d: %s%s", args, code, out, errs)
			case !answers && (code != exitFailed || !strings.Contains(errs, "LOAM_INSPECT=1")):
				t.Errorf("%v: exit %d: %s%s", args, code, out, errs)
			}
		}
		if m := second.Metrics(); answers != (m.MemtableEntries == 0) {
			t.Errorf("%d entries in a memtable, asked to flush: %t", m.MemtableEntries, answers)
		}
		must(t, db.Close())
		if got := files(t, root); answers != (got == "backups\ncopy\ndb\n") {
			t.Errorf("answers %t: %s", answers, got)
		}
	}
	for _, args := range [][]string{{"restore", filepath.Join(root, "backups"),
		filepath.Join(root, "restored")}, {"diff", dir, filepath.Join(root, "copy")},
		{"diff", dir, filepath.Join(root, "restored")}} {
		if out, errs, code := loam(t.Context(), args...); code != exitFine {
			t.Errorf("%v: exit %d: %s%s", args, code, out, errs)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "INSPECT")); !os.IsNotExist(err) {
		t.Error(err)
	}
}
