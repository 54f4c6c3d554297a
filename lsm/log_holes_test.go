package lsm

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/batchrepr"
	"github.com/loamdb/loam/internal/format/record"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/fstest"
	"github.com/loamdb/loam/internal/testkit/seed"
)

// holes is a database with sequence numbers that are in no log, and what it has.
type holes struct {
	t    *testing.T
	mem  *vfs.Mem
	db   *DB
	mode WriteMode
	want map[string]map[string]string // by keyspace
	n    int
}

func (h *holes) open() {
	h.t.Helper()
	h.db = mustOpen(h.t, "db", &Options{FS: h.mem, WALPreallocate: -1})
	h.clean("open", h.db)
}

// put writes an entry into a keyspace.
func (h *holes) put(space string) {
	h.t.Helper()
	h.n++
	key := fmt.Sprintf("key%03d", h.n)
	must(h.t, mustSpace(h.t, h.db, space).Put([]byte(key), []byte("put"), h.mode))
	h.wrote(space, key, "put")
}

func (h *holes) wrote(space, key, value string) {
	if h.want[space] == nil {
		h.want[space] = map[string]string{}
	}
	h.want[space][key] = value
}

// ingest takes a table into the default keyspace, and with excise a range without entries out of
// it.
func (h *holes) ingest(excise, table bool) {
	h.t.Helper()
	h.n++
	o, key := &IngestOptions{}, fmt.Sprintf("key%03d", h.n)
	if excise {
		o.Excise = &Range{Start: []byte(key), Limit: []byte(key + "\xff")}
	}
	if !table {
		must(h.t, h.db.Ingest(context.Background(), o))
		return
	}
	path := fmt.Sprintf("table%03d", h.n)
	must(h.t, h.db.Ingest(context.Background(), o, writeTable(h.t, path, &Options{FS: h.mem}, key,
		"ingested")))
	h.wrote("default", key, "ingested")
}

func (h *holes) flush(space string) {
	h.t.Helper()
	must(h.t, mustSpace(h.t, h.db, space).Flush())
}

// end closes the database, or kills its process, and compares what each kind of reader sees.
func (h *holes) end(kill bool) {
	h.t.Helper()
	if left := h.mem.CrashClone(vfs.KeepAll()); kill {
		h.db.Close()
		h.mem = left
	} else {
		mustClose(h.t, h.db)
	}
	f, err := OpenFollower("db", &Options{FS: h.mem})
	must(h.t, err)
	h.compare("follower", f)
	must(h.t, f.Close())
	h.marked()
	db := mustOpen(h.t, "db", &Options{FS: h.mem, ReadOnly: true})
	h.clean("read-only", db)
	h.compare("read-only", db)
	must(h.t, db.Checkpoint(context.Background(), "copy"))
	mustClose(h.t, db)
	h.copied("copy")
	h.open()
	h.compare("open", h.db)
	must(h.t, h.db.Checkpoint(context.Background(), "copy"))
	h.copied("copy")
}

// marked compares the sequence numbers of the logs as versions do that do not know how logs are
// chained: each record begins after the previous record, or after a marker. A log that recovery has
// written begins anew with entries of those before it, which may not be deleted yet.
func (h *holes) marked() {
	h.t.Helper()
	logs, err := fstest.Find(h.mem, "db", base.FileLog)
	must(h.t, err)
	next := base.SeqNum(0)
	for _, path := range logs {
		f, err := h.mem.Open(path)
		must(h.t, err)
		_, num := base.Native.ParseFileName(filepath.Base(path))
		r := record.NewChainReader(f, f.Size(), path, num, 0)
		for first := true; ; {
			batch, err := r.Next()
			if err != nil {
				break // the end, or a log that was not begun
			}
			seq, n := batchrepr.Seq(batch), batchrepr.Count(batch)
			if first && seq < next {
				next = seq // a log carries what others have that a kill has left
			}
			first = false
			if n > 0 && seq != next || next > 0 && r.End() < 100 && seq > next {
				h.t.Fatalf("%s: %d follows %d", path, seq, next-1)
			}
			next = max(next, seq+base.SeqNum(n))
		}
		must(h.t, f.Close())
	}
}

// copied compares a copy of the database, and removes it.
func (h *holes) copied(dir string) {
	h.t.Helper()
	for range 2 { // the second opening reads what the first one has carried
		db := mustOpen(h.t, dir, &Options{FS: h.mem, WALPreallocate: -1})
		h.clean("copy", db)
		h.compare("copy", db)
		mustClose(h.t, db)
	}
	must(h.t, Destroy(dir, &Options{FS: h.mem}))
}

func (h *holes) clean(what string, db *DB) {
	h.t.Helper()
	if r := db.RecoveryReport(); !r.WasClean {
		h.t.Fatalf("%s: %+v", what, r)
	}
}

func (h *holes) compare(what string, r interface {
	Keyspace(string, *KeyspaceOptions) (*Keyspace, error)
}) {
	h.t.Helper()
	for space, want := range h.want {
		k, err := r.Keyspace(space, &KeyspaceOptions{ErrorIfMissing: true})
		must(h.t, err)
		n := 0
		for key, value := range k.All(nil, nil, &err) {
			if want[string(key)] != string(value) {
				h.t.Errorf("%s: %s %s is %q", what, space, key, value)
			}
			n++
		}
		if must(h.t, err); n != len(want) {
			h.t.Fatalf("%s: %s has %d entries of %d", what, space, n, len(want))
		}
	}
}

// TestNumbersInNoLog: an ingest takes sequence numbers that no log has. Whatever is flushed behind
// it, and however often the database is opened, no reader of the logs takes them for entries that
// are missing.
func TestNumbersInNoLog(t *testing.T) {
	needsNative(t)
	for i := 0; i < 1<<5; i += seed.Scale(5, 1, 1) {
		several, excise, table, kill := i&1 != 0, i&2 != 0, i&4 != 0, i&8 != 0
		mode := []WriteMode{NoSync, Sync}[i>>4]
		t.Run(fmt.Sprintf("several=%v,excise=%v,table=%v,kill=%v,%v", several, excise, table, kill,
			mode), func(t *testing.T) {
			h := &holes{t: t, mem: vfs.NewMem(), mode: mode, want: map[string]map[string]string{}}
			h.open()
			other := "default"
			if several {
				other = "other"
			}
			h.put(other)
			h.put("default")
			h.ingest(excise, table)
			h.end(kill)
			h.flush("default") // with several keyspaces the log before is still needed
			h.put(other)
			h.put("default")
			h.end(kill)
			h.put("default")
			h.ingest(excise, table)
			h.flush("default")
			h.flush("default")
			h.put(other)
			h.end(kill)
			h.ingest(excise, table)
			h.end(kill)
			h.put(other)
			h.flush("default")
			h.put("default")
			h.end(kill)
			mustClose(t, h.db)
			report, err := Repair("db", &Options{FS: h.mem})
			must(t, err)
			if len(report.Dropped) != 0 {
				t.Errorf("%+v", report)
			}
			h.open()
			h.compare("repaired", h.db)
			mustClose(t, h.db)
		})
	}
}

// TestKilledBesideFlush: a process is killed between the rotation of a log and the edit of the
// flush, behind a carried log with a number that is in no log.
func TestKilledBesideFlush(t *testing.T) {
	h := &holes{t: t, mem: vfs.NewMem(), want: map[string]map[string]string{}}
	h.open()
	h.put("default")
	h.ingest(false, true)
	h.end(false)
	e := h.db.engine.Parts()
	must(t, e.Pipeline.Exclusive(func() error {
		_, err := e.WAL.Rotate(e.Shared.Seqs.Visible())
		return err
	}))
	h.put("default")
	h.end(true)
	mustClose(t, h.db)
}

// TestNothingIngestedTakesNoNumber: an empty ingest, load or excise uses no sequence number, and
// makes all earlier writes durable.
func TestNothingIngestedTakesNoNumber(t *testing.T) {
	onBothFormats(t, func(t *testing.T, o Options) {
		ctx := context.Background()
		for name, nothing := range map[string]func(*DB) error{
			"ingest": func(db *DB) error { return db.Ingest(ctx, nil) },
			"load": func(db *DB) error {
				return db.BulkLoad(ctx, func(func(k, v []byte) bool) {}, nil)
			},
			"excise": func(db *DB) error {
				return db.Ingest(ctx,
					&IngestOptions{Excise: &Range{Start: []byte("m"), Limit: []byte("n")}})
			},
		} {
			if name == "excise" && o.Format != FormatNative {
				continue
			}
			mem := vfs.NewMem()
			o.FS = mem
			db := mustOpen(t, "db", &o)
			must(t, db.Put([]byte("a"), []byte("1"), NoSync))
			must(t, nothing(db))
			left := mem.CrashClone(vfs.DropAll())
			if last := db.Metrics().LastSequence; last != 1 {
				t.Errorf("%s: the last sequence number is %d", name, last)
			}
			mustClose(t, db)
			o.FS = left
			db = mustOpen(t, "db", &o)
			wantIs(t, db, "a", "1")
			mustClose(t, db)
		}
	})
}
