// Package versions opens what earlier versions of Loam wrote: databases, backups, dumps, tables
// and replicas. Each folder of testdata is what the version of its name wrote by maker. All of them
// stay readable.
package versions

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/backup"
	"github.com/loamdb/loam/lsm/dump"
	"github.com/loamdb/loam/lsm/replicate"
)

// written is a folder of testdata, or a copy of it.
type written struct {
	*testing.T
	dir  string
	want map[string][]string // what each of its contents has: lines for the keyspaces
}

// each calls test for every version that wrote something of a name.
func each(t *testing.T, name string, test func(w *written, path string)) {
	folders, err := filepath.Glob("testdata/0.*")
	if err != nil || len(folders) < 2 {
		t.Fatalf("%v %v", folders, err)
	}
	found := false
	for _, folder := range folders {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			continue
		}
		found = true
		t.Run(filepath.Base(folder), func(t *testing.T) {
			w := &written{T: t, dir: filepath.Join(t.TempDir(), "written")}
			w.must(os.CopyFS(w.dir, os.DirFS(folder)))
			w.want = map[string][]string{}
			expected, err := os.ReadFile(filepath.Join(folder, "expected"))
			w.must(err)
			for line := range strings.Lines(string(expected)) {
				what, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
				w.want[what] = append(w.want[what], rest)
			}
			test(w, filepath.Join(w.dir, name))
		})
	}
	if !found {
		t.Fatalf("no version wrote %s", name)
	}
}

func (w *written) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// reader is a database or a follower.
type reader interface {
	Keyspaces() []string
	Keyspace(name string, o *lsm.KeyspaceOptions) (*lsm.Keyspace, error)
	Close() error
}

// contains compares a database with the line of each keyspace of name.
func (w *written) contains(db reader, name string) {
	w.Helper()
	var got []string
	for _, name := range db.Keyspaces() {
		k, err := db.Keyspace(name, nil)
		w.must(err)
		h, n := sha256.New(), 0
		for key, value := range k.All(nil, nil, &err) {
			b := append(binary.AppendUvarint(nil, uint64(len(key))), key...)
			h.Write(append(binary.AppendUvarint(b, uint64(len(value))), value...))
			n++
		}
		w.must(err)
		got = append(got, fmt.Sprintf("%s %d %x", name, n, h.Sum(nil)))
	}
	if a, b := strings.Join(got, "\n"), strings.Join(w.want[name], "\n"); a != b {
		w.Fatalf("%s:\n%s\nwant\n%s", name, a, b)
	}
}

func (w *written) open(dir string, o *lsm.Options) *lsm.DB {
	w.Helper()
	db, err := lsm.Open(dir, o)
	w.must(err)
	if r := db.RecoveryReport(); len(r.Dropped) > 0 {
		w.Errorf("%s: recovery dropped %+v", dir, r.Dropped)
	}
	return db
}

// opens opens a database for a look at it.
func (w *written) opens(dir, name string, o *lsm.Options) {
	w.Helper()
	db := w.open(dir, o)
	w.contains(db, name)
	w.must(db.Verify(w.Context(), nil))
	w.must(db.Close())
}

// files are the contents of a directory's files.
func (w *written) files(dir string) string {
	w.Helper()
	var b strings.Builder
	w.must(filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		fmt.Fprintf(&b, "%s %x\n", path, sha256.Sum256(data))
		return err
	}))
	return b.String()
}

// encryption is what an encrypted database is opened with.
func (w *written) encryption() lsm.Options {
	keys, err := lsm.NewKeyProvider(bytes.Repeat([]byte("k"), 32))
	w.must(err)
	return lsm.Options{Encryption: keys}
}

// TestDatabases reads databases in each way, and goes on in them.
func TestDatabases(t *testing.T) {
	for _, name := range []string{"native", "leveldb", "values", "encrypted"} {
		t.Run(name, func(t *testing.T) {
			each(t, name, func(w *written, dir string) { w.database(dir, name) })
		})
	}
}

func (w *written) database(dir, name string) {
	o := lsm.Options{}
	if name == "encrypted" {
		o = w.encryption()
	}
	before := w.files(dir)
	readOnly := o
	readOnly.ReadOnly = true
	w.opens(dir, name, &readOnly)
	f, err := lsm.OpenFollower(dir, &o)
	w.must(err)
	w.contains(f, name)
	w.must(f.Close())
	report, err := lsm.Repair(dir, &o)
	w.must(err)
	if report.Changed() || w.files(dir) != before {
		w.Errorf("a reader changed the directory; the repair: %+v", report)
	}
	to := filepath.Join(w.TempDir(), "exported")
	w.must(lsm.Export(w.Context(), dir, to, lsm.FormatNative, &o, nil))
	w.opens(to, name, &o)
	db := w.open(dir, &o)
	w.contains(db, name)
	for _, space := range db.Keyspaces() {
		k, err := db.Keyspace(space, nil)
		w.must(err)
		w.must(k.CompactRange(nil, nil))
	}
	w.contains(db, name)
	w.must(db.Put([]byte("now"), nil, lsm.Sync))
	w.must(db.Close())
	db = w.open(dir, &o)
	w.must(db.Delete([]byte("now"), lsm.Sync))
	w.contains(db, name)
	w.must(db.Close())
	if name == "leveldb" {
		w.must(lsm.Upgrade(dir, &o))
		w.opens(dir, name, &o)
	}
}

// TestBackups restores backups, before another one is added and behind that.
func TestBackups(t *testing.T) {
	each(t, "backups", func(w *written, dir string) {
		f, err := backup.Open(dir, nil)
		w.must(err)
		defer f.Close()
		restore := func() {
			w.Helper()
			for id, name := range map[uint64]string{1: "backup-1", 2: "native"} {
				to := filepath.Join(w.TempDir(), "restored")
				w.must(f.Verify(w.Context(), id, nil))
				w.must(f.Restore(w.Context(), id, to, nil))
				w.opens(to, name, nil)
			}
		}
		restore()
		db := w.open(filepath.Join(w.dir, "native"), nil)
		defer db.Close()
		if _, err := f.Create(w.Context(), db, nil); err != nil {
			w.Fatal(err)
		}
		restore()
		w.must(f.Delete(1))
		to := filepath.Join(w.TempDir(), "restored")
		w.must(f.Restore(w.Context(), 2, to, nil))
		w.opens(to, "native", nil)
	})
}

// TestDumps loads dumps.
func TestDumps(t *testing.T) {
	for name, of := range map[string]string{"dump": "native", "dump-encrypted": "encrypted"} {
		each(t, name, func(w *written, path string) {
			o := lsm.Options{}
			if of == "encrypted" {
				o = w.encryption()
			}
			data, err := os.ReadFile(path)
			w.must(err)
			to := filepath.Join(w.TempDir(), "loaded")
			db := w.open(to, &o)
			_, err = dump.Load(w.Context(), db, bytes.NewReader(data), nil)
			w.must(err)
			w.contains(db, of)
			w.must(db.Close())
		})
	}
}

// TestTables ingests tables of TableWriters.
func TestTables(t *testing.T) {
	for name, format := range map[string]lsm.Format{"table.loam": lsm.FormatNative,
		"table.ldb": lsm.FormatLevelDB} {
		each(t, name, func(w *written, path string) {
			db := w.open(filepath.Join(w.TempDir(), "db"), &lsm.Options{Format: format})
			w.must(db.Ingest(w.Context(), nil, path))
			w.contains(db, name)
			w.must(db.CompactRange(nil, nil))
			w.contains(db, name)
			w.must(db.Close())
		})
	}
}

// TestReplicas restores a replica, continues it with the restored database, and restores it again.
func TestReplicas(t *testing.T) {
	each(t, "replica", func(w *written, dir string) {
		target, err := replicate.Dir(dir, nil)
		w.must(err)
		restore := func() string {
			to := filepath.Join(w.TempDir(), "restored")
			_, err := replicate.Restore(w.Context(), target, to, nil)
			w.must(err)
			w.opens(to, "replica", nil)
			return to
		}
		db := w.open(restore(), nil)
		ended := make(chan struct{})
		close(ended)
		w.must(replicate.Run(w.Context(), db, target, &replicate.Options{TakeOver: true,
			Until: ended}))
		w.must(db.Close())
		restore()
	})
}

// TestRepairedByEarlierVersion refuses tables with references of which no log is recorded, as long
// as the logs can be moved back.
func TestRepairedByEarlierVersion(t *testing.T) {
	each(t, "repaired", func(w *written, dir string) {
		before := w.files(dir)
		_, err := lsm.Open(dir, nil)
		_, readOnly := lsm.Open(dir, &lsm.Options{ReadOnly: true})
		_, follower := lsm.OpenFollower(dir, nil)
		for _, err := range []error{err, readOnly, follower} {
			if !errors.Is(err, lsm.ErrCorruption) || !strings.Contains(err.Error(), "folder lost") {
				w.Errorf("an opening: %v", err)
			}
		}
		if w.files(dir) != before {
			w.Fatal("an opening changed the directory")
		}
		logs, err := filepath.Glob(filepath.Join(dir, "lost", "*.wal"))
		w.must(err)
		for _, log := range logs {
			w.must(os.Rename(log, filepath.Join(dir, filepath.Base(log))))
		}
		_, err = lsm.Repair(dir, nil)
		w.must(err)
		w.opens(dir, "repaired", nil)
	})
}
