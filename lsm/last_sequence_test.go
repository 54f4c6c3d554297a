package lsm

import (
	"errors"
	"io"
	"path/filepath"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/batchrepr"
	"github.com/loamdb/loam/internal/format/current"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/record"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/fstest"
)

// TestManifestCoversNoLog: a LevelDB that is killed may leave a MANIFEST whose last sequence number
// covers entries that only the log has. goleveldb passes over such entries, so that an opening
// moves them into tables.
func TestManifestCoversNoLog(t *testing.T) {
	mem := vfs.NewMem()
	o := &Options{FS: mem, Format: FormatLevelDB}
	db := mustOpen(t, "db", o)
	for _, key := range []string{"a", "b", "c", "d"} {
		must(t, db.Put([]byte(key), []byte("1"), NoSync))
	}
	edit := &manifest.Edit{}
	edit.SetLastSeq(3)
	v, err := db.engine.Parts().Manifest.Apply(edit)
	must(t, err)
	v.Unref()
	left := mem.CrashClone(vfs.KeepAll())
	mustClose(t, db)
	o.FS = left
	for range 2 { // the second opening carries what is written in the first
		db = mustOpen(t, "db", o)
		for _, key := range []string{"a", "b", "c", "d"} {
			wantIs(t, db, key, "1")
		}
		checkLastSeq(t, left)
		must(t, db.Put([]byte("e"), nil, NoSync))
		mustClose(t, db)
		checkLastSeq(t, left)
	}
}

// checkLastSeq fails if the MANIFEST's last sequence number covers a batch of a log that it needs.
func checkLastSeq(t *testing.T, fs vfs.FS) {
	t.Helper()
	cur, err := current.Read(fs, "db")
	must(t, err)
	res, err := manifest.ReadManifest(fs, "db", cur.Manifest, base.LevelDB)
	must(t, err)
	logs, err := fstest.Find(fs, "db", base.FileLog)
	must(t, err)
	for _, path := range logs {
		if _, num := base.LevelDB.ParseFileName(filepath.Base(path)); num < res.State.LogNum {
			continue
		}
		f, err := fs.Open(path)
		must(t, err)
		for r := record.NewReader(f, f.Size(), path); ; {
			batch, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			must(t, err)
			if seq := batchrepr.Seq(batch); batchrepr.Count(batch) > 0 && seq <= res.State.LastSeq {
				t.Errorf("%s: batch %d is covered by %d", path, seq, res.State.LastSeq)
			}
		}
		must(t, f.Close())
	}
}

// TestLastSequenceNumber opens a directory again and again whose MANIFEST has the largest sequence
// number, or one shortly before it: what it has stays readable, and writes are refused when no
// number is left.
func TestLastSequenceNumber(t *testing.T) {
	for _, format := range []Format{FormatNative, FormatLevelDB} {
		for left := range base.SeqNum(4) {
			o := &Options{FS: vfs.NewMem(), Format: format}
			db := mustOpen(t, "db", o)
			must(t, db.Put([]byte("a"), []byte("1"), Sync))
			db.engine.Parts().Manifest.SetLastSeq(base.MaxSeqNum - left)
			mustFlush(t, db)
			mustClose(t, db)
			for n := range base.SeqNum(4) {
				db := mustOpen(t, "db", o)
				if r := db.RecoveryReport(); len(r.Dropped) > 0 {
					t.Errorf("%v, %d left, opening %d: %+v", format, left, n, r)
				}
				wantIs(t, db, "a", "1")
				err := db.Put([]byte("b"), []byte("1"), Sync)
				if n+1 < left && err != nil || n+1 >= left && !errors.Is(err, ErrTooLarge) {
					t.Errorf("%v, %d left, opening %d: Put returns %v", format, left, n, err)
				}
				if left > 1 {
					wantIs(t, db, "b", "1")
				}
				mustClose(t, db)
			}
		}
	}
}
