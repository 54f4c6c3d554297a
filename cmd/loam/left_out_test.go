package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/loamdb/loam/lsm"
)

// closedWithLog makes a database with 20 keys in its log, and returns the log.
func closedWithLog(t *testing.T, dir string, format lsm.Format) (log string) {
	t.Helper()
	db, err := lsm.Open(dir, &lsm.Options{Format: format})
	must(t, err)
	for i := range 20 {
		must(t, db.Put(fmt.Appendf(nil, "k%02d", i), []byte("value"), lsm.NoSync))
	}
	must(t, db.Close())
	logs, err := filepath.Glob(filepath.Join(dir, "*."+map[lsm.Format]string{
		lsm.FormatNative: "wal", lsm.FormatLevelDB: "log"}[format]))
	must(t, err)
	logs = slices.DeleteFunc(logs, func(log string) bool {
		info, err := os.Stat(log)
		must(t, err)
		return info.Size() == 0
	})
	if len(logs) != 1 {
		t.Fatalf("%q", logs)
	}
	return logs[0]
}

// TestTornEndIsSound: check calls a database sound whose log has a torn end, which a crash leaves,
// and verbs that read say nothing of it.
func TestTornEndIsSound(t *testing.T) {
	for _, format := range []lsm.Format{lsm.FormatNative, lsm.FormatLevelDB} {
		dir := filepath.Join(t.TempDir(), "db")
		f, err := os.OpenFile(closedWithLog(t, dir, format), os.O_APPEND|os.O_WRONLY, 0)
		must(t, err)
		_, err = f.WriteString("torn")
		must(t, err)
		must(t, f.Close())
		out, errs, code := loam(t.Context(), "check", dir)
		if code != exitFine || !strings.Contains(out, "torn end of ") {
			t.Errorf("%v: check: exit %d: %s%s", format, code, out, errs)
		}
		out, errs, code = loam(t.Context(), "count", dir)
		if code != exitFine || errs != "" || !strings.HasPrefix(out, "20 keys") {
			t.Errorf("%v: count: exit %d: %s%s", format, code, out, errs)
		}
	}
}

// TestLeftOutIsTold: a verb that reads, copies or changes a database in LevelDB's format tells the
// part of a log that the opening left out, and has exit code 1.
func TestLeftOutIsTold(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "db")
	log := closedWithLog(t, dir, lsm.FormatLevelDB)
	b, err := os.ReadFile(log)
	must(t, err)
	b[len(b)/2] ^= 1
	must(t, os.WriteFile(log, b, 0o600))
	at := func(name string) string { return filepath.Join(root, name) }
	for _, args := range [][]string{
		{"scan", dir}, {"count", "--json", dir}, {"get", dir, "k00"}, {"export", dir},
		{"dump", dir, "-o", at("dump")}, {"convert", dir, at("native")},
		{"checkpoint", dir, at("checkpoint")}, {"backup", dir, at("backups")},
		{"diff", "--brief", dir, dir}, {"put", dir, "k00", "new"},
	} {
		out, errs, code := loam(t.Context(), args...)
		if code != exitProblems || !strings.Contains(errs, filepath.Base(log)) {
			t.Errorf("%v: exit %d: %s%s", args, code, out, errs)
		}
	}
	// The put set the log aside.
	if out, errs, code := loam(t.Context(), "upgrade", dir); code != exitFine {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
}
