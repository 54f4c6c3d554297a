package lsm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/fstest"
)

// contentsOf are the bytes of all files of a directory.
func contentsOf(t *testing.T, fsys vfs.FS, dir string) map[string][]byte {
	t.Helper()
	all, err := fstest.Tree(fsys, dir)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// sameContents fails if files of a directory were added, removed or changed.
func sameContents(t *testing.T, before, after map[string][]byte) {
	t.Helper()
	if !maps.EqualFunc(before, after, bytes.Equal) {
		t.Errorf("%d files of %v became %v", len(before), slices.Sorted(maps.Keys(before)),
			slices.Sorted(maps.Keys(after)))
	}
}

// TestExport: to the one format, and back to the other one.
func TestExport(t *testing.T) {
	fsys := vfs.NewMem()
	want := levelDBDirectory(t, fsys)
	o := &Options{FS: fsys, WriteBufferSize: 64 << 10}
	ctx := context.Background()
	from := "db"
	for i, format := range []Format{FormatNative, FormatLevelDB, FormatLevelDB} {
		before := contentsOf(t, fsys, from)
		to, calls := fmt.Sprintf("copy%d", i), 0
		err := Export(ctx, from, to, format, o, func(written, of uint64) {
			if calls++; written == 0 {
				t.Errorf("%d of %d bytes are written", written, of)
			}
		})
		if err != nil || calls == 0 {
			t.Fatalf("%v, %d calls of progress", err, calls)
		}
		sameContents(t, before, contentsOf(t, fsys, from))
		db := mustOpen(t, to, &Options{FS: fsys, ErrorIfMissing: true})
		if db.engine.Parts().Opts.Format != format.dir() || db.RecoveryReport().Entries != 0 {
			t.Errorf("%s is %v, %+v", to, db.engine.Parts().Opts.Format, db.RecoveryReport())
		}
		holds(t, db, want)
		mustClose(t, db)
		if err := Export(ctx, from, to, format, o, nil); !errors.Is(err, ErrExists) {
			t.Errorf("onto a database: %v", err)
		}
		from = to
	}
	if names, _ := fsys.List("/"); !slices.Equal(names, []string{"copy0", "copy1", "copy2", "db"}) {
		t.Errorf("left are %v", names)
	}
}

// TestExportRefuses: every obstacle is reported before a write.
func TestExportRefuses(t *testing.T) {
	fsys := vfs.NewMem()
	o := &Options{FS: fsys, Format: FormatNative}
	db := mustOpen(t, "db", o)
	putKeys(t, db, 10)
	mustFlush(t, db)
	users := mustSpace(t, db, "users")
	ctx := context.Background()
	if err := Export(ctx, "db", "to", FormatLevelDB, o, nil); !errors.Is(err, ErrLocked) {
		t.Errorf("an open database: %v", err)
	}
	mustClose(t, db)
	refused := func(want error, words string) {
		t.Helper()
		err := Export(ctx, "db", "to", FormatLevelDB, o, nil)
		if !errors.Is(err, want) || !strings.Contains(err.Error(), words) {
			t.Errorf("%v; want %v, %q", err, want, words)
		}
		if names, _ := fsys.List("/"); slices.Contains(names, "to") ||
			slices.Contains(names, "to.incomplete") {
			t.Errorf("left are %v", names)
		}
	}
	refused(ErrInvalidArgument, `"users"`)
	db = mustOpen(t, "db", o)
	if err := db.DropKeyspace(users.Name()); err != nil {
		t.Fatal(err)
	}
	v := db.engine.Parts().Manifest.Current(base.DefaultKeyspace)
	f := v.Levels[slices.IndexFunc(v.Levels[:], func(l manifest.Level) bool {
		return len(l.Files) > 0
	})].Files[0]
	f.Kinds |= 1 << base.KindMerge // a later version of Loam
	v.Unref()
	if err := db.engine.Parts().Manifest.StartManifest(); err != nil {
		t.Fatal(err)
	}
	mustClose(t, db)
	refused(ErrInvalidArgument, "kind 2")
	done, cancel := context.WithCancel(ctx)
	cancel()
	if err := Export(done, "db", "to", FormatNative, o, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	refused(ErrInvalidArgument, "kind 2")
	if err := Export(ctx, "none", "to", FormatNative, o, nil); !errors.Is(err, ErrDoesNotExist) {
		t.Errorf("no database: %v", err)
	}
	refused(ErrInvalidArgument, "kind 2")
}

// TestExportLeavesOthersAlone: what is in the way of an export is not its to replace.
func TestExportLeavesOthersAlone(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"db", "to.incomplete"} {
		db := mustOpen(t, at(name), nil)
		putKeys(t, db, 10)
		mustClose(t, db)
	}
	ctx := context.Background()
	if err := Export(ctx, at("db"), at("to"), FormatNative, nil, nil); !errors.Is(err, ErrExists) ||
		!strings.Contains(err.Error(), "to.incomplete") {
		t.Errorf("beside a database: %v", err)
	}
	db := mustOpen(t, at("to.incomplete"), &Options{ErrorIfMissing: true})
	if ok, err := db.Has(key(3)); !ok || err != nil {
		t.Errorf("the other database: %v, %v", ok, err)
	}
	mustClose(t, db)
	t.Chdir(dir)
	for _, to := range []string{at("db/sub"), "db/sub", at("db")} {
		if err := Export(ctx, at("db"), to, FormatNative, nil,
			nil); !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("to %s: %v", to, err)
		}
	}
}

// TestExportChdir: an export writes where it was told to, whatever becomes of the working
// directory.
func TestExportChdir(t *testing.T) {
	dir := t.TempDir()
	db := mustOpen(t, filepath.Join(dir, "db"), nil)
	putKeys(t, db, 100)
	mustFlush(t, db)
	mustClose(t, db)
	for _, format := range []Format{FormatLevelDB, FormatNative} {
		t.Chdir(dir)
		elsewhere := t.TempDir()
		gone := false
		fsys := vfs.NewFault(vfs.Default, func(op vfs.Op) vfs.Outcome {
			if op.Kind == vfs.OpLock && strings.Contains(op.Name, "incomplete") && !gone {
				gone = true
				t.Chdir(elsewhere)
			}
			return vfs.Outcome{}
		})
		if err := Export(context.Background(), "db", format.String(), format, &Options{FS: fsys},
			nil); err != nil {
			t.Errorf("%v: %v", format, err)
			continue
		}
		if names, _ := os.ReadDir(elsewhere); len(names) > 0 || !gone {
			t.Errorf("%v: the other directory has %v", format, names)
		}
		if _, err := os.Stat(filepath.Join(dir, format.String()+".incomplete")); err == nil {
			t.Errorf("%v: the directory in which the export was made is left", format)
		}
		copied := mustOpen(t, filepath.Join(dir, format.String()), nil)
		wantValues(t, copied, 100)
		mustClose(t, copied)
	}
}

// TestExportFaults: an export whose i-th call fails leaves nothing, or has succeeded; an export
// that a crash interrupts leaves no directory, and can be repeated.
func TestExportFaults(t *testing.T) {
	source := vfs.NewMem()
	want := levelDBDirectory(t, source)
	before := contentsOf(t, source, "db")
	ctx, failed := context.Background(), 0
	for i := int64(0); ; i++ {
		mem := source.Clone()
		at := &fstest.FailAt{At: i, Outcome: vfs.Outcome{Err: syscall.EIO}}
		o := &Options{FS: vfs.NewFault(mem, at.Hook), WriteBufferSize: 64 << 10}
		err := Export(ctx, "db", "to", FormatNative, o, nil)
		whole := exported(t, mem, want)
		switch {
		case err == nil && !whole:
			t.Fatalf("call %d: no error, no database", i)
		case err != nil && !errors.Is(err, syscall.EIO):
			t.Fatalf("call %d: %v", i, err)
		case err != nil:
			failed++
		}
		if !whole {
			if names, _ := mem.List("/"); slices.Contains(names, "to") ||
				slices.Contains(names, "to.incomplete") {
				t.Fatalf("call %d: %v; left are %v", i, err, names)
			}
		}
		sameContents(t, before, contentsOf(t, mem, "db"))
		if at.Failed() == 0 {
			break
		}
	}
	if failed < 50 {
		t.Errorf("only %d calls made an export fail", failed)
	}
}

// exported reports whether there is an export, which must be whole.
func exported(t *testing.T, fsys vfs.FS, want map[string]string) bool {
	t.Helper()
	if _, err := fsys.Stat("to"); err != nil {
		return false
	}
	db, err := Open("to", &Options{FS: fsys, ErrorIfMissing: true, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	holds(t, db, want)
	mustClose(t, db)
	return true
}

func TestExportCrashes(t *testing.T) {
	mem := vfs.NewMem()
	want := levelDBDirectory(t, mem)
	if err := mem.SyncDir("/"); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex // calls come from several goroutines
	var states []*vfs.Mem
	fsys := vfs.NewFault(mem, func(op vfs.Op) vfs.Outcome {
		mu.Lock()
		defer mu.Unlock()
		states = append(states, mem.CrashClone(vfs.DropAll()), mem.CrashClone(vfs.KeepAll()))
		return vfs.Outcome{}
	})
	o := &Options{FS: fsys, WriteBufferSize: 64 << 10}
	if err := Export(context.Background(), "db", "to", FormatLevelDB, o, nil); err != nil {
		t.Fatal(err)
	}
	states = append(states, mem.CrashClone(vfs.DropAll()))
	there, parts := 0, 0
	again := 5
	if testing.Short() {
		again = 20
	}
	for i, state := range states {
		if exported(t, state, want) {
			there++
			continue
		}
		if i%again == 0 {
			o := &Options{FS: state, WriteBufferSize: 64 << 10}
			if _, err := state.Stat("to.incomplete"); err == nil {
				parts++
			}
			err := Export(context.Background(), "db", "to", FormatLevelDB, o, nil)
			if names, _ := state.List("/"); slices.Contains(names, "to.incomplete") {
				t.Fatalf("state %d of %d: left are %v", i, len(states), names)
			}
			if err != nil || !exported(t, state, want) {
				t.Fatalf("state %d of %d: a second export: %v", i, len(states), err)
			}
		}
	}
	if parts == 0 {
		t.Error("no crash left a part of an export")
	}
	if there == 0 || there == len(states) || !exported(t, states[len(states)-1], want) {
		t.Errorf("%d of %d states have the export", there, len(states))
	}
}

// NeedsNative is needsNative for the tests outside of the package.
func NeedsNative(t testing.TB) { needsNative(t) }
