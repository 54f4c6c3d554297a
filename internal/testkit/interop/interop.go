// Package interop hands one directory back and forth between Loam and real
// LevelDBs: LevelDB 1.22 in plyvel, LevelDB 1.20 in classic-level, goleveldb.
// It is a module of its own, so that none of them weighs on Loam's users.
//
// A Peer is used by one goroutine.
package interop

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/filter"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/util"

	"github.com/loamdb/loam/lsm"
)

// Op is one operation: put, del, compact or reopen; or, for Loam only, ingest and bulkload, of
// Entries of the prefix Key.
type Op struct {
	Name       string
	Key, Value []byte
}

// Entries are what an ingest or a bulkload adds, ascending; nil: it is another operation.
func (o Op) Entries() []Pair {
	if o.Name != "ingest" && o.Name != "bulkload" {
		return nil
	}
	pairs := make([]Pair, 300)
	for i := range pairs {
		pairs[i] = Pair{fmt.Appendf(bytes.Clone(o.Key), "%04d", i),
			fmt.Appendf(bytes.Clone(o.Value), "%d", i)}
	}
	return pairs
}

// Pair is one entry of a database.
type Pair struct{ Key, Value []byte }

// Peer plays operations on the database in dir and returns what is then in it.
// With kill it ends like a process that dies: nothing is closed.
type Peer interface {
	Name() string
	Play(dir string, ops []Op, kill bool) ([]Pair, error)
}

// script is a peer in another language that reads operations as lines.
type script struct {
	name string
	argv []string
}

func (s script) Name() string { return s.name }

func (s script) Play(dir string, ops []Op, kill bool) ([]Pair, error) {
	var in, out, errs bytes.Buffer
	for _, op := range ops {
		fmt.Fprintln(&in,
			strings.TrimRight(fmt.Sprintf("%s %s %s", op.Name,
				enhex(op.Key, op.Name != "compact" && op.Name != "reopen"),
				enhex(op.Value, op.Name == "put" || op.Entries() != nil)), " "))
	}
	fmt.Fprintln(&in, "dump")
	argv := append(append([]string{}, s.argv...), dir)
	if kill {
		argv = append(argv, "--kill")
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = &in, &out, &errs
	err := cmd.Run()
	text, complete := strings.CutSuffix(out.String(), "end\n")
	if !complete || err != nil && !kill {
		return nil, fmt.Errorf("%s: %v: %s", s.name, err, errs.String())
	}
	var pairs []Pair
	for line := range strings.Lines(text) {
		k, v, _ := strings.Cut(strings.TrimSpace(line), " ")
		pairs = append(pairs, Pair{unhex(k), unhex(v)})
	}
	return pairs, nil
}

func enhex(b []byte, wanted bool) string {
	switch {
	case !wanted:
		return ""
	case len(b) == 0:
		return "-"
	}
	return hex.EncodeToString(b)
}

func unhex(s string) []byte {
	b, _ := hex.DecodeString(strings.TrimPrefix(s, "-"))
	return b
}

// goLevelDB is goleveldb, in this process.
type goLevelDB struct{}

func (goLevelDB) Name() string { return "goleveldb" }

func (goLevelDB) Play(dir string, ops []Op, kill bool) ([]Pair, error) {
	o := &opt.Options{WriteBuffer: 64 << 10, CompactionTableSize: 64 << 10,
		Filter: filter.NewBloomFilter(10)}
	db, err := leveldb.OpenFile(dir, o)
	if err != nil {
		return nil, err
	}
	for _, op := range ops {
		switch op.Name {
		case "put":
			err = db.Put(op.Key, op.Value, nil)
		case "del":
			err = db.Delete(op.Key, nil)
		case "compact":
			err = db.CompactRange(util.Range{})
		case "reopen":
			db.Close()
			db, err = leveldb.OpenFile(dir, o)
		}
		if err != nil {
			return nil, err
		}
	}
	var pairs []Pair
	it := db.NewIterator(nil, nil)
	for it.Next() {
		pairs = append(pairs, Pair{bytes.Clone(it.Key()), bytes.Clone(it.Value())})
	}
	it.Release()
	if err := it.Error(); err != nil {
		return nil, err
	}
	// goleveldb cannot be killed inside a living process: it closes.
	return pairs, db.Close()
}

// loam is the engine under test. To be killed it runs in a process of its own:
// this program again, with Options.
type loam struct {
	name string // of its options, in Options
}

// Options are the settings that loam is tested with, beside those of Native.
var Options = map[string]lsm.Options{
	"default": {Format: lsm.FormatLevelDB},
	"small": {Format: lsm.FormatLevelDB, WriteBufferSize: 64 << 10, MaxFileSize: 64 << 10,
		LevelDBFilter: true, BlockSize: 1024, BlockRestartInterval: 3},
	"plain": {Format: lsm.FormatLevelDB, WriteBufferSize: 100 << 10,
		Compression: lsm.NoCompression, BloomBits: -1, L0Compaction: 2},
	"levels": {Format: lsm.FormatLevelDB, WriteBufferSize: 100 << 10,
		Compression:  lsm.CompressionByLevel(lsm.NoCompression, lsm.SnappyCompression),
		PrefixLength: 3, L0Compaction: 2, CompactionDirectIO: true},
}

// Native is Loam in its own format, which no other peer can go on with.
func Native() Peer { return loam{native} }

const native = "native"

func (l loam) options() lsm.Options {
	if l.name == native {
		return lsm.Options{Format: lsm.FormatNative, WriteBufferSize: 64 << 10,
			MaxFileSize: 64 << 10, WALPreallocate: -1}
	}
	return Options[l.name]
}

func (l loam) Name() string { return "loam, " + l.name }

func (l loam) Play(dir string, ops []Op, kill bool) ([]Pair, error) {
	if kill {
		return script{l.Name(), []string{os.Args[0], "loam-peer", l.name}}.Play(dir, ops, true)
	}
	var pairs []Pair
	db, err := l.play(dir, ops, func(k, v []byte) {
		pairs = append(pairs, Pair{bytes.Clone(k), bytes.Clone(v)})
	})
	if err != nil {
		return nil, err
	}
	return pairs, db.Close()
}

func (l loam) play(dir string, ops []Op, pair func(k, v []byte)) (*lsm.DB, error) {
	o := l.options()
	db, err := lsm.Open(dir, &o)
	if err != nil {
		return nil, err
	}
	if r := db.RecoveryReport(); !r.WasClean {
		return nil, fmt.Errorf("recovery dropped something: %+v", r)
	}
	for _, op := range ops {
		switch op.Name {
		case "put":
			err = db.Put(op.Key, op.Value, lsm.NoSync)
		case "del":
			err = db.Delete(op.Key, lsm.NoSync)
		case "compact":
			err = db.CompactRange(nil, nil)
		case "reopen":
			if err = db.Close(); err == nil {
				db, err = lsm.Open(dir, &o)
			}
		case "ingest":
			err = ingest(db, dir+"-table", o, op.Entries())
		case "bulkload":
			err = bulkLoad(db, op.Entries())
		}
		if err != nil {
			return nil, err
		}
	}
	for k, v := range db.All(nil, nil, &err) {
		pair(k, v)
	}
	return db, err
}

func ingest(db *lsm.DB, table string, o lsm.Options, entries []Pair) error {
	w, err := lsm.NewTableWriter(table, &o)
	if err != nil {
		return err
	}
	for _, e := range entries {
		err = errors.Join(err, w.Put(e.Key, e.Value))
	}
	if err := errors.Join(err, w.Finish(), w.Close()); err != nil {
		return err
	}
	return db.Ingest(context.Background(), &lsm.IngestOptions{Move: true}, table)
}

func bulkLoad(db *lsm.DB, entries []Pair) error {
	return db.BulkLoad(context.Background(), func(yield func(key, value []byte) bool) {
		for i := range entries { // in another order
			if e := entries[i*7%len(entries)]; !yield(e.Key, e.Value) {
				return
			}
		}
	}, nil)
}

// LoamMain is the program that is killed: argv is "loam-peer", the options'
// name and the directory; the operations come as lines. It does not close the
// database.
func LoamMain(argv []string, in io.Reader, out io.Writer) error {
	var ops []Op
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		words := append(strings.Fields(lines.Text()), "", "")
		if words[0] != "dump" {
			ops = append(ops, Op{words[0], unhex(words[1]), unhex(words[2])})
		}
	}
	w := bufio.NewWriter(out)
	if _, err := (loam{argv[1]}).play(argv[2], ops, func(k, v []byte) {
		fmt.Fprintln(w, enhex(k, true), enhex(v, true))
	}); err != nil {
		return err
	}
	fmt.Fprintln(w, "end")
	return w.Flush()
}

// Peers lists the peers that can run: python is an interpreter that has
// plyvel, node one beside which classic-level is installed in the folder peers.
func Peers(python, node string) []Peer {
	peers := []Peer{goLevelDB{}}
	if python != "" {
		peers = append(peers,
			script{"plyvel", []string{python, filepath.Join("peers", "plyvel_peer.py")}})
	}
	if node != "" {
		peers = append(peers,
			script{"classic-level",
				[]string{node, filepath.Join("peers", "classic_level_peer.js")}})
	}
	return peers
}
