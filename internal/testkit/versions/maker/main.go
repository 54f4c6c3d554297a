// Command maker writes what a version of Loam writes: databases, copies of them and tables. Run it
// once in the tree of a version, into testdata of the present one, for instance
//
//	go run ./internal/testkit/versions/maker testdata/0.2
//
// In the tree of version 0.2 it has no file newer.go. What a version wrote stays as it is.
// 0.2/repaired is what Repair of 0.2 made of 0.3/values without its MANIFEST.
//
// All but the tables and the database in LevelDB's format have the same contents. The file
// "expected" has a line for each keyspace: what has it, its name, the number of pairs and their
// digest, two hours after everything was written.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/backup"
	"github.com/loamdb/loam/lsm/dump"
)

// maker writes into a directory. The first failure stays.
type maker struct {
	to       string
	now      time.Time
	expected strings.Builder
	err      error
}

// newer writes what the versions after 0.2 have.
var newer = func(*maker) {}

func main() {
	m := &maker{to: os.Args[1], now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	m.must(os.MkdirAll(m.to, 0o755))
	m.native()
	m.leveldb()
	m.table("table.loam", lsm.FormatNative)
	m.table("table.ldb", lsm.FormatLevelDB)
	newer(m)
	m.must(os.WriteFile(m.path("expected"), []byte(m.expected.String()), 0o644))
	if m.err != nil {
		log.Fatal(m.err)
	}
}

func (m *maker) must(err error) { m.err = errors.Join(m.err, err) }

func (m *maker) path(name string) string { return filepath.Join(m.to, name) }

// scratch is the directory in which the databases are. Their copies name it.
func (m *maker) scratch(name string) string {
	dir := filepath.Join(os.TempDir(), "golden", name)
	m.must(os.RemoveAll(dir))
	m.must(os.MkdirAll(filepath.Dir(dir), 0o755))
	return dir
}

func (m *maker) open(name string, o lsm.Options) *lsm.DB {
	o.WALPreallocate, o.PlainWAL = -1, true
	o.Clock = func() time.Time { return m.now }
	db, err := lsm.Open(m.scratch(name), &o)
	if err != nil {
		log.Fatal(err)
	}
	return db
}

// keep copies the files of a database that is open and at rest, as a killed process leaves them.
func (m *maker) keep(name string) {
	m.must(os.CopyFS(m.path(name), os.DirFS(filepath.Join(os.TempDir(), "golden", name))))
}

// note records what a database has two hours later.
func (m *maker) note(what string, db *lsm.DB) {
	before := m.now
	m.now = m.now.Add(2 * time.Hour)
	for _, name := range db.Keyspaces() {
		k, err := db.Keyspace(name, nil)
		m.must(err)
		h, n := sha256.New(), 0
		for key, value := range k.All(nil, nil, &err) {
			b := append(binary.AppendUvarint(nil, uint64(len(key))), key...)
			h.Write(append(binary.AppendUvarint(b, uint64(len(value))), value...))
			n++
		}
		m.must(err)
		fmt.Fprintf(&m.expected, "%s %s %d %x\n", what, name, n, h.Sum(nil))
	}
	m.now = before
}

func key(i int) []byte { return fmt.Appendf(nil, "key%03d", i) }

func value(i, n int) []byte { return bytes.Repeat(fmt.Appendf(nil, "value %d ", i), n) }

// writer is a keyspace, or a database.
type writer interface {
	Put(key, value []byte, mode lsm.WriteMode) error
	Delete(key []byte, mode lsm.WriteMode) error
}

func (m *maker) fill(s writer, from, n int) {
	for i := from; i < from+n; i++ {
		m.must(s.Put(key(i*7%100), value(i, 1+i%4), lsm.NoSync))
		if i%5 == 0 {
			m.must(s.Delete(key(i*3%100), lsm.NoSync))
		}
	}
}

// native writes a database with all that the native format has, two backups, and a dump.
func (m *maker) native() {
	db := m.open("native", lsm.Options{Format: lsm.FormatNative})
	m.contents(db, m.scratch("to ingest"))
	folder, err := backup.Open(m.path("backups"), nil)
	if err != nil {
		log.Fatal(err)
	}
	_, err = folder.Create(context.Background(), db, nil)
	m.must(err)
	m.note("backup-1", db)
	m.more(db)
	_, err = folder.Create(context.Background(), db, nil)
	m.must(errors.Join(err, folder.Close()))
	var dumped bytes.Buffer
	_, err = dump.Write(context.Background(), db, &dumped, nil)
	m.must(err)
	m.must(os.WriteFile(m.path("dump"), dumped.Bytes(), 0o644))
	m.keep("native")
	m.note("native", db)
	m.must(db.Close())
}

// contents writes several tables, and leaves the last part in the log.
func (m *maker) contents(db *lsm.DB, table string) {
	space := func(name string, o *lsm.KeyspaceOptions) *lsm.Keyspace {
		k, err := db.Keyspace(name, o)
		if err != nil {
			log.Fatal(err)
		}
		return k
	}
	lines := space("lines", &lsm.KeyspaceOptions{
		MergeOperator: lsm.MergeOperatorNamed("append:,")})
	down := space("down", &lsm.KeyspaceOptions{Comparer: lsm.ReverseBytewiseComparer})
	m.fill(db, 0, 60)
	m.fill(down, 0, 30)
	for i := range 20 {
		m.must(lines.Merge(key(i%6), fmt.Appendf(nil, "line %d", i), lsm.NoSync))
	}
	m.must(db.PutTTL(key(200), value(200, 1), time.Hour, lsm.NoSync))
	m.must(db.PutTTL(key(201), value(201, 1), 200*365*24*time.Hour, lsm.NoSync))
	m.must(errors.Join(db.Flush(), down.Flush(), lines.Flush()))
	m.must(db.DeleteRange(key(20), key(25), lsm.NoSync))
	m.must(down.CompactRange(nil, nil))
	w, err := lsm.NewTableWriter(table, &lsm.Options{Format: lsm.FormatNative})
	if err != nil {
		log.Fatal(err)
	}
	m.must(errors.Join(w.DeleteRange(key(40), key(45)), w.Put(key(41), value(41, 2)),
		w.Delete(key(50)), w.Put(key(300), value(300, 1)), w.Finish()))
	m.must(db.Ingest(context.Background(), nil, table))
	m.must(down.BulkLoad(context.Background(), func(yield func(k, v []byte) bool) {
		_ = yield(key(400), value(400, 1)) && yield(key(10), value(401, 1))
	}, nil))
	m.fill(db, 60, 20)
}

// more writes again, behind the first backup.
func (m *maker) more(db *lsm.DB) {
	down, err := db.Keyspace("down", nil)
	m.must(err)
	lines, err := db.Keyspace("lines", nil)
	m.must(err)
	b := db.NewBatch()
	b.Put(key(500), value(500, 1))
	b.In(down).Put(key(501), value(501, 1))
	b.In(lines).Merge(key(0), []byte("last"))
	m.must(db.Write(b, lsm.NoSync))
	m.must(down.DeleteRange(key(30), key(20), lsm.NoSync))
}

// leveldb writes a database in LevelDB's format, whose last part is in the log.
func (m *maker) leveldb() {
	db := m.open("leveldb", lsm.Options{Format: lsm.FormatLevelDB})
	m.fill(db, 0, 80)
	m.must(db.Flush())
	table := m.scratch("to ingest")
	w, err := lsm.NewTableWriter(table, &lsm.Options{Format: lsm.FormatLevelDB})
	if err != nil {
		log.Fatal(err)
	}
	m.must(errors.Join(w.Put(key(600), value(600, 1)), w.Put(key(601), nil), w.Finish()))
	m.must(db.Ingest(context.Background(), nil, table))
	m.fill(db, 80, 40)
	m.keep("leveldb")
	m.note("leveldb", db)
	m.must(db.Close())
}

// table writes a table to be ingested.
func (m *maker) table(name string, format lsm.Format) {
	w, err := lsm.NewTableWriter(m.path(name), &lsm.Options{Format: format})
	if err != nil {
		log.Fatal(err)
	}
	for i := range 60 {
		m.must(w.Put(key(i), value(i, 1+i%3)))
	}
	m.must(w.Finish())
	db := m.open("taken", lsm.Options{Format: format})
	m.must(db.Ingest(context.Background(), nil, m.path(name)))
	m.note(name, db)
	m.must(db.Close())
}
