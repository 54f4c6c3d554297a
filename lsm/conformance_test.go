package lsm

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loamdb/loam/internal/feature/backup"
	"github.com/loamdb/loam/internal/feature/transfer"
	"github.com/loamdb/loam/internal/format/block"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/script"
)

// TestConformance runs the script that the C, Python and Node tests run too,
// and compares with, or with -rewrite makes, what they must print.
func TestConformance(t *testing.T) { conform(t, "script", "expected", nil) }

// TestNativeConformance is TestConformance with what needs the native format.
func TestNativeConformance(t *testing.T) {
	needsNative(t)
	conform(t, "native", "native.expected", &Options{Format: FormatNative})
}

// TestTransactionConformance is TestConformance for transactions, in both formats.
func TestTransactionConformance(t *testing.T) {
	conform(t, "transactions", "transactions.expected", &Options{Format: FormatLevelDB})
	conform(t, "transactions", "transactions.expected", &Options{Format: FormatNative})
}

// TestChangesConformance is TestConformance for feeds of changes.
func TestChangesConformance(t *testing.T) {
	conform(t, "changes", "changes.expected", &Options{Format: FormatNative})
}

func conform(t *testing.T, name, expected string, o *Options) {
	synctest.Test(t, func(t *testing.T) {
		steps, err := os.ReadFile("../testdata/conformance/" + name)
		if err != nil {
			t.Fatal(err)
		}
		c := conformer{t: t, dir: t.TempDir(), options: o, snaps: map[string]*Snapshot{},
			txns: map[string]*Txn{}, points: map[string]SavePoint{}}
		c.open()
		for line := range strings.Lines(string(steps)) {
			line = strings.TrimSpace(line)
			if line == "" || line[0] == '#' {
				continue
			}
			fmt.Fprintf(&c.out, "> %s\n", line)
			words := strings.Fields(line)
			c.run(words[0], words[1:])
		}
		mustClose(t, c.db)
		script.Golden(t, "../testdata/conformance/"+expected, c.out.String())
	})
}

type conformer struct {
	t       *testing.T
	dir     string
	options *Options
	db      *DB
	space   *Keyspace // that operations work in
	snaps   map[string]*Snapshot
	txns    map[string]*Txn
	points  map[string]SavePoint
	feed    *Changes
	out     bytes.Buffer
}

func (c *conformer) open() {
	c.db = mustOpen(c.t, c.dir, c.options)
	c.space = c.keyspace("default", "")
}

// dump goes on in a database in dir, into which a dump is loaded. Package lsm/dump imports this
// one.
func (c *conformer) dump(dir string) error {
	o := Options{}
	if c.options != nil {
		o = *c.options
	}
	o.Format = FormatNative
	if !c.db.engine.Native() {
		o.Format = FormatLevelDB
	}
	to := mustOpen(c.t, dir, &o)
	var b bytes.Buffer
	_, err := transfer.Dump(context.Background(), c.db.engine, &b,
		transfer.DumpOptions{Codec: block.Snappy, BlockBytes: 100})
	if err == nil {
		_, err = transfer.Load(context.Background(), to.engine, &b,
			transfer.LoadOptions{SyncBytes: 100})
	}
	mustClose(c.t, c.db)
	c.db, c.dir = to, dir
	c.space = c.keyspace("default", "")
	return err
}

// keyspace opens a keyspace; operator is the merge operator of a new one, "" if it has none.
func (c *conformer) keyspace(name, operator string) *Keyspace {
	o := &KeyspaceOptions{}
	if operator != "" {
		o.MergeOperator = MergeOperatorNamed(operator)
	}
	k, err := c.db.Keyspace(name, o)
	if err != nil {
		c.t.Fatal(err)
	}
	return k
}

func percentDecode(s string) []byte {
	out := []byte{}
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			out = append(out, s[i])
		} else if i+2 < len(s) {
			b, _ := strconv.ParseUint(s[i+1:i+3], 16, 8)
			out = append(out, byte(b))
			i += 2
		}
	}
	return out
}

func percentEncode(b []byte) string {
	if len(b) == 0 {
		return "%"
	}
	var s strings.Builder
	for _, c := range b {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' ||
			c == '_' || c == '.' {
			s.WriteByte(c)
		} else {
			fmt.Fprintf(&s, "%%%02x", c)
		}
	}
	return s.String()
}

func (c *conformer) print(format string, args ...any) { fmt.Fprintf(&c.out, format+"\n", args...) }

func (c *conformer) ok(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
	c.print("ok")
}

func (c *conformer) value(v []byte, err error) {
	switch {
	case err == nil:
		c.print("= %s", percentEncode(v))
	case errors.Is(err, ErrNotFound):
		c.print("none")
	default:
		c.t.Fatal(err)
	}
}

// option sets an option, if there is a value, and prints the one in force.
func (c *conformer) option(args []string) {
	if len(args) > 1 {
		if err := c.space.SetOption(args[0], args[1]); err != nil {
			c.t.Fatal(err)
		}
	}
	value, err := c.space.Option(args[0])
	c.value([]byte(value), err)
}

func (c *conformer) run(op string, args []string) {
	switch op {
	case "put":
		c.ok(c.space.Put(percentDecode(args[0]), percentDecode(args[1]), NoSync))
	case "del":
		c.ok(c.space.Delete(percentDecode(args[0]), NoSync))
	case "delrange":
		c.deleteRange(percentDecode(args[0]), percentDecode(args[1]))
	case "batch":
		c.ok(c.space.Write(c.batch(args), NoSync))
	case "get":
		if len(args) > 1 {
			c.value(c.snaps[args[1][1:]].In(c.space).Get(percentDecode(args[0]), nil))
		} else {
			c.value(c.space.Get(percentDecode(args[0]), nil))
		}
	case "follow":
		c.follow(percentDecode(args[0]))
	case "has":
		found, err := c.space.Has(percentDecode(args[0]))
		if err != nil {
			c.t.Fatal(err)
		}
		c.print("%v", found)
	case "multiget":
		c.multiGet(args)
	case "snapshot":
		c.snaps[args[0]] = c.space.Snapshot()
		c.ok(nil)
	case "release":
		c.ok(c.snaps[args[0]].Close())
	case "iter":
		c.iter(c.space, args)
	case "seek", "seeklt":
		it := c.space.Iter(nil)
		ok := op == "seek" && it.SeekGE(percentDecode(args[0])) || op == "seeklt" &&
			it.SeekLT(percentDecode(args[0]))
		if ok {
			c.print("%s %s", percentEncode(it.Key()), percentEncode(it.Value()))
		} else {
			c.print("none")
		}
		it.Close()
	case "flush":
		c.ok(c.space.Flush())
	case "compact":
		c.ok(c.space.CompactRange(nil, nil))
	case "verify":
		c.ok(c.db.Verify(context.Background(), nil))
	case "reopen":
		mustClose(c.t, c.db)
		c.open()
		c.ok(nil)
	case "filter":
		mustClose(c.t, c.db)
		var o Options
		if err := o.Set("compaction_filter", args[0]); err != nil {
			c.t.Fatal(err)
		}
		c.db = mustOpen(c.t, c.dir, &o)
		if err := c.db.CompactRange(nil, nil); err != nil {
			c.t.Fatal(err)
		}
		mustClose(c.t, c.db)
		c.open()
		c.ok(nil)
	case "tables":
		c.tables(percentDecode(args[0]), args[1:])
	case "checkpoint", "backup", "dump":
		c.copied(op, args[0])
	case "option":
		c.option(args)
	case "drop":
		c.ok(c.db.DropKeyspace(args[0]))
	case "spaces":
		c.print("%s", strings.Join(c.db.Keyspaces(), " "))
	default:
		c.native(op, args)
	}
}

// native runs the operations that the scripts of the native format have besides.
func (c *conformer) native(op string, args []string) {
	switch op {
	case "use":
		c.space = c.keyspace(args[0], append(args, "")[1])
		c.ok(nil)
	case "merge":
		c.ok(c.space.Merge(percentDecode(args[0]), percentDecode(args[1]), NoSync))
	case "expire":
		c.ok(c.space.PutTTL(percentDecode(args[0]), percentDecode(args[1]), seconds(c.t, args[2]),
			NoSync))
	case "left":
		c.left(percentDecode(args[0]))
	case "gone":
		for has := true; has; has, _ = c.space.Has(percentDecode(args[0])) {
			time.Sleep(10 * time.Millisecond)
		}
		c.ok(nil)
	case "cas", "putnew":
		c.swap(op, args)
	case "begin", "commit", "rollback":
		c.transaction(op, args)
	case "tx":
		c.within(c.txns[args[0]], args[1:])
	case "listen", "changes":
		c.changes(op)
	default:
		c.bulk(op, args)
	}
}

// changes begins a feed behind all that was committed, or prints what has come since.
func (c *conformer) changes(op string) {
	if op == "listen" {
		c.feed = mustChanges(c.t, c.db, 0, nil)
	}
	for {
		change, ok, err := c.feed.TryNext()
		if err != nil {
			c.t.Fatal(err)
		}
		if !ok {
			break
		}
		for o := range change.Operations() {
			line := fmt.Sprintf("%v %s %s %s", o.Op, cmp.Or(o.Keyspace, "-"), percentEncode(o.Key),
				percentEncode(o.Value))
			if !o.Expires.IsZero() {
				line += " expires"
			}
			if op == "changes" {
				c.print("%s", line)
			}
		}
	}
	c.print("end")
}

func seconds(t *testing.T, word string) time.Duration {
	n, err := strconv.Atoi(word)
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(n) * time.Second
}

func (c *conformer) left(key []byte) {
	switch _, expires, err := c.space.TTL(key); {
	case errors.Is(err, ErrNotFound):
		c.print("none")
	case err != nil:
		c.t.Fatal(err)
	case expires:
		c.print("expires")
	default:
		c.print("never")
	}
}

func (c *conformer) swap(op string, args []string) {
	value := func(word string) []byte {
		if word == "-" {
			return nil
		}
		return percentDecode(word)
	}
	var done bool
	var err error
	if op == "cas" {
		done, err = c.space.CompareAndSwap(percentDecode(args[0]), value(args[1]), value(args[2]),
			NoSync)
	} else {
		done, err = c.space.PutIfAbsent(percentDecode(args[0]), percentDecode(args[1]), NoSync)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	c.print("%v", done)
}

func (c *conformer) transaction(op string, args []string) {
	tx := c.txns[args[0]]
	switch op {
	case "begin":
		o := &TxnOptions{Lock: slices.Contains(args, "lock")}
		if slices.Contains(args, "serializable") {
			o.Isolation = Serializable
		}
		c.txns[args[0]] = c.db.Begin(o)
		c.ok(nil)
	case "commit":
		c.orConflict(tx.Commit(NoSync))
	case "rollback":
		c.ok(tx.Rollback())
	}
}

func (c *conformer) orConflict(err error) {
	if errors.Is(err, ErrConflict) {
		c.print("conflict")
		return
	}
	c.ok(err)
}

// within does an operation in a transaction.
func (c *conformer) within(tx *Txn, args []string) {
	if args[0] == "in" {
		tx, args = tx.In(c.keyspace(args[1], "")), args[2:]
	}
	switch key := percentDecode(append(args, "")[1]); args[0] {
	case "get":
		c.value(tx.Get(key, nil))
	case "update":
		v, err := tx.GetForUpdate(key, nil)
		if errors.Is(err, ErrConflict) {
			c.orConflict(err)
		} else {
			c.value(v, err)
		}
	case "put":
		c.orConflict(tx.Put(key, percentDecode(args[2])))
	case "del":
		c.orConflict(tx.Delete(key))
	case "iter":
		c.iter(tx, args[1:])
	case "save":
		c.points[args[1]] = tx.SavePoint()
		c.ok(nil)
	case "back":
		c.ok(tx.RollbackTo(c.points[args[1]]))
	default:
		c.t.Fatalf("no operation %q of a transaction", args[0])
	}
}

func (c *conformer) deleteRange(start, limit []byte) {
	err := c.space.DeleteRange(start, limit, NoSync)
	if errors.Is(err, ErrNeedsNative) {
		for k := range c.space.All(start, limit, &err) {
			c.space.Delete(k, NoSync)
		}
	}
	c.ok(err)
}

func (c *conformer) batch(args []string) *Batch {
	b := NewBatch()
	var to interface {
		Put(key, value []byte)
		Merge(key, operand []byte)
		PutTTL(key, value []byte, ttl time.Duration)
		Delete(key []byte)
	} = b
	for i := 0; i < len(args); {
		switch args[i] {
		case "put":
			to.Put(percentDecode(args[i+1]), percentDecode(args[i+2]))
			i += 3
		case "merge":
			to.Merge(percentDecode(args[i+1]), percentDecode(args[i+2]))
			i += 3
		case "expire":
			to.PutTTL(percentDecode(args[i+1]), percentDecode(args[i+2]), seconds(c.t, args[i+3]))
			i += 4
		case "in":
			to = b.In(c.keyspace(args[i+1], ""))
			i += 2
		default:
			to.Delete(percentDecode(args[i+1]))
			i += 2
		}
	}
	return b
}

func (c *conformer) multiGet(args []string) {
	var keys [][]byte
	for _, a := range args {
		keys = append(keys, percentDecode(a))
	}
	var r MultiResult
	if err := c.space.MultiGet(keys, &r); err != nil {
		c.t.Fatal(err)
	}
	for i := range keys {
		v, found := r.Value(i)
		if !found {
			c.value(nil, ErrNotFound)
		} else {
			c.value(v, nil)
		}
	}
}

func (c *conformer) iter(r Reader, args []string) {
	var o IterOptions
	reverse, limit := false, -1
	for _, a := range args {
		name, v, _ := strings.Cut(a, "=")
		switch {
		case name == "lower":
			o.Lower = percentDecode(v)
		case name == "upper":
			o.Upper = percentDecode(v)
		case name == "prefix":
			o.Prefix = percentDecode(v)
		case name == "reverse":
			reverse = true
		case name == "limit":
			limit, _ = strconv.Atoi(v)
		case name[0] == '@':
			o.Snapshot = c.snaps[name[1:]]
		}
	}
	it := r.Iter(&o)
	start, move := it.First, it.Next
	if reverse {
		start, move = it.Last, it.Prev
	}
	for ok := start(); ok && limit != 0; ok = move() {
		c.print("%s %s", percentEncode(it.Key()), percentEncode(it.Value()))
		limit--
	}
	if err := it.Close(); err != nil {
		c.t.Fatal(err)
	}
	c.print("end")
}

// follow prints what a follower gets.
func (c *conformer) follow(key []byte) {
	f, err := OpenFollower(c.dir, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := f.CatchUp(context.Background()); err != nil {
		c.t.Fatal(err)
	}
	c.value(f.Get(key, nil))
	if err := f.Close(); err != nil {
		c.t.Fatal(err)
	}
}

// bulk ingests or loads.
func (c *conformer) bulk(op string, args []string) {
	switch op {
	case "ingest":
		c.ok(c.ingest(args))
	case "bulkload":
		c.ok(c.space.BulkLoad(context.Background(), pairs(args), nil))
	default:
		c.t.Fatalf("no operation %q", op)
	}
}

// ingest writes a table of operations and takes it into the keyspace.
func (c *conformer) ingest(args []string) error {
	name := filepath.Join(c.t.TempDir(), "table")
	w, err := NewTableWriter(name, nil)
	if err != nil {
		return err
	}
	for len(args) > 0 {
		key := percentDecode(args[1])
		switch args[0] {
		case "put":
			err = w.Put(key, percentDecode(args[2]))
		case "expire":
			err = w.PutTTL(key, percentDecode(args[2]), seconds(c.t, args[3]))
		case "del":
			err = w.Delete(key)
		case "delrange":
			err = w.DeleteRange(key, percentDecode(args[2]))
		}
		if err != nil {
			return errors.Join(err, w.Close())
		}
		args = args[map[string]int{"put": 3, "expire": 4, "del": 2, "delrange": 3}[args[0]]:]
	}
	if err := w.Finish(); err != nil {
		return err
	}
	return c.space.Ingest(context.Background(), &IngestOptions{Move: true}, name)
}

// pairs are keys and values.
func pairs(args []string) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		for i := 0; i < len(args) &&
			yield(percentDecode(args[i]), percentDecode(args[i+1])); i += 2 {
		}
	}
}

// copied goes on in a copy of the database.
func (c *conformer) copied(op, name string) {
	if op == "dump" {
		c.ok(c.dump(filepath.Join(c.t.TempDir(), name)))
		return
	}
	dir := filepath.Join(c.t.TempDir(), name)
	make := c.backUp
	if op == "checkpoint" {
		make = func(dir string) error { return c.db.Checkpoint(context.Background(), dir) }
	}
	if err := make(dir); err != nil {
		c.t.Fatal(err)
	}
	mustClose(c.t, c.db)
	c.dir = dir
	c.open()
	c.ok(nil)
}

// backUp makes a backup as package lsm/backup does, and restores it.
func (c *conformer) backUp(dir string) error {
	f, err := backup.Open(filepath.Join(c.t.TempDir(), "backups"), backup.Options{FS: vfs.Default})
	if err != nil {
		return err
	}
	r := backup.NewRun(context.Background(), 0, nil)
	info, err := c.db.engine.Copies.Backup(c.db.engine, f, r)
	if err == nil {
		err = f.Verify(info.ID, r)
	}
	if err == nil {
		err = f.Restore(info.ID, dir, r)
	}
	return errors.Join(r.End(err), f.Close())
}

// tables opens the database with options, compacts it, and prints how many keys there are with
// a prefix.
func (c *conformer) tables(prefix []byte, pairs []string) {
	mustClose(c.t, c.db)
	var o Options
	for i := 0; i < len(pairs); i += 2 {
		if err := o.Set(pairs[i], pairs[i+1]); err != nil {
			c.t.Fatal(err)
		}
	}
	db := mustOpen(c.t, c.dir, &o)
	mustCompact(c.t, db)
	n := 0
	var err error
	for range db.Prefix(prefix, &err) {
		n++
	}
	if err != nil {
		c.t.Fatal(err)
	}
	mustClose(c.t, db)
	c.open()
	c.print("%d", n)
}
