package crash

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/memory/offheap"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit"
	"github.com/loamdb/loam/internal/testkit/fstest"
	"github.com/loamdb/loam/internal/testkit/hang"
	"github.com/loamdb/loam/internal/testkit/model"
	"github.com/loamdb/loam/lsm"
)

// golden is a small database with tables on several levels, a manifest, and a
// log that was not replayed yet.
type golden struct {
	fs     *vfs.Mem
	ledger *testkit.Ledger
	last   int
	synced int // the newest batch that was synced
	files  []string
	native bool
	bytes  map[string][]byte
	pairs  []model.Pair
	wrote  map[model.Pair]bool // by a batch
	// unsealed means that a file without a header of the encryption stands in the place of one that
	// must have it: that is lsm.ErrEncryption.
	unsealed bool
}

// makeGolden writes a database of about 20 KiB.
func makeGolden(seed int64, format lsm.Format) (*golden, error) {
	w := &workload{name: "golden", maxValue: 120}
	mem := vfs.NewMem()
	var full atomic.Bool // for tables
	s := newSession(w, seed, vfs.NewFault(mem, func(op vfs.Op) (out vfs.Outcome) {
		if full.Load() && op.Kind == vfs.OpCreate && fstest.TypeOf(op.Name) == base.FileTable {
			out.Err = syscall.ENOSPC
		}
		return out
	}), false)
	s.opts.Format, s.opts.Compression = format, lsm.NoCompression
	s.opts.WALPreallocate = -1
	var left *vfs.Mem
	err := steps(s.open,
		func() error { return s.write(60, 0) }, s.flush, s.compact,
		func() error { return s.write(30, 0) }, s.flush,
		func() error { s.opts.Compression = lsm.SnappyCompression; return s.reopen() },
		func() error { return s.write(30, 0) }, s.flush,
		func() error { return s.write(30, 7) },
		func() error {
			if _, err := mem.Stat(dir + "/CURRENT/manifest"); err != nil {
				return nil
			}
			full.Store(true) // a native database has two logs
			if err := s.db.Flush(); !errors.Is(err, lsm.ErrNoSpace) {
				return fmt.Errorf("a flush with a full disk: %w", err)
			}
			return s.write(20, 7)
		},
		func() error { left = mem.CrashClone(vfs.KeepAll()); return nil },
		func() error { full.Store(false); return s.close() })
	if err != nil {
		return nil, err
	}
	g := &golden{fs: left, ledger: s.ledger, last: s.last, synced: s.last / 7 * 7,
		pairs: s.ledger.State(s.last), wrote: map[model.Pair]bool{}}
	for i := 1; i <= g.last; i++ {
		for _, w := range g.ledger.Batch(i) {
			if !w.Delete {
				g.wrote[model.Pair{Key: w.Key, Value: w.Value}] = true
			}
		}
	}
	if g.bytes, err = fstest.Tree(left, dir); err != nil {
		return nil, err
	}
	_, g.native = g.bytes[base.CurrentName+"/manifest"]
	g.files = slices.Sorted(maps.Keys(g.bytes))
	return g, nil
}

// replace returns a copy of the database in which a file has other bytes.
func (g *golden) replace(name string, b []byte) (*vfs.Mem, error) {
	fs := g.fs.Clone()
	if err := fs.Remove(dir + "/" + name); err != nil {
		return nil, err
	}
	f, err := fs.Create(dir + "/" + name)
	if err != nil {
		return nil, err
	}
	_, err = f.Write(b)
	return fs, errors.Join(err, f.Sync(), f.Close(), fs.SyncDir(path.Dir(dir+"/"+name)))
}

// damage is one change of one file.
type damage struct {
	file     string
	at       int
	flip     byte // 0: cut the file at at
	original []byte
}

func (d damage) String() string {
	if d.flip == 0 {
		return fmt.Sprintf("%s cut at %d of %d", d.file, d.at, len(d.original))
	}
	return fmt.Sprintf("%s byte %d of %d flipped by %#02x", d.file, d.at, len(d.original), d.flip)
}

func (d damage) apply() []byte {
	if d.flip == 0 {
		return d.original[:d.at]
	}
	b := bytes.Clone(d.original)
	b[d.at] ^= d.flip
	return b
}

// unprotected reports whether LevelDB's format has no means to show this
// damage, so that data may be missing, or old, without an error.
//
//   - A log or manifest cut at the end of a record is a log or manifest that
//     was not written further: nothing after the cut says otherwise. Zeros
//     behind that end look like space that was allocated ahead.
//   - A manifest's torn tail looks like an interrupted write, which it usually is, whether the file
//     was cut or the last record's bytes are damaged.
//
// In the native format every changed byte shows. A log that is cut where nothing was
// synced is what a crash may leave: then the database is an earlier state of itself.
func (g *golden) unprotected(d damage) bool {
	if g.native {
		return d.flip == 0 && fstest.TypeOf(d.file) == base.FileLog
	}
	manifest, log := fstest.TypeOf(d.file) == base.FileManifest, fstest.TypeOf(d.file) ==
		base.FileLog
	if d.flip == 0 {
		return manifest || log && endsInZeros(d.original[:d.at])
	}
	return manifest && d.at >= lastRecord(d.original)
}

// endsInZeros reports whether a cut log ends with a whole record, or zeros
// behind one.
func endsInZeros(b []byte) bool {
	last := 0
	for end := range recordEnds(b) {
		if end <= len(b) {
			last = max(last, end)
		}
	}
	return len(bytes.Trim(b[last:], "\x00")) == 0
}

// recordEnds finds where the records of a log end, from its own headers.
func recordEnds(b []byte) map[int]bool {
	ends := map[int]bool{0: true}
	for at := 0; at+7 <= len(b); {
		n := int(b[at+4]) | int(b[at+5])<<8
		kind := b[at+6]
		if at += 7 + n; kind == 1 || kind == 4 {
			ends[at] = true
		}
		if left := 32768 - at%32768; left < 7 {
			at += left
		}
	}
	return ends
}

// lastRecord is where the last record of a log begins.
func lastRecord(b []byte) int {
	last := 0
	for end := range recordEnds(b) {
		if end < len(b) {
			last = max(last, end)
		}
	}
	return last
}

// damages lists every flip and every cut of the golden database. A flip
// changes one bit, which of them goes around with the offset, or with all the
// whole byte.
func (g *golden) damages(all bool) []damage {
	var out []damage
	for _, name := range g.files {
		b := g.bytes[name]
		for i := range b {
			flip := byte(1) << (i % 8)
			if all {
				flip = 0xff
			}
			out = append(out, damage{name, i, flip, b}, damage{name, i, 0, b})
		}
	}
	return out
}

// verify opens the damaged database and reads it in all ways. silent says that
// data was missing without a word.
func (g *golden) verify(fs vfs.FS, unprotected bool) error {
	o := options()
	o.FS = fs
	db, err := lsm.Open(dir, &o)
	if err != nil {
		if strings.Contains(err.Error(), "panic") {
			return err
		}
		if !g.typed(err) {
			return fmt.Errorf("open gives an error of no kind: %w", err)
		}
		return nil
	}
	defer db.Close()
	want := g.pairs
	if report := db.RecoveryReport(); !report.WasClean || unprotected {
		// What the report names is missing: then this is an earlier state.
		i, err := testkit.Last(db)
		if err != nil {
			return g.plain(err)
		}
		if i < g.synced && g.native && !unprotected {
			return fmt.Errorf("batch %d was synced, the newest is %d, and Open says no more "+
				"than %+v", g.synced, i, report)
		}
		want = g.ledger.State(i)
	}
	if err := g.scan(db, want); err != nil {
		return err
	}
	for _, p := range want {
		v, err := db.Get([]byte(p.Key), nil)
		if errors.Is(err, lsm.ErrNotFound) || err == nil && string(v) != p.Value {
			return fmt.Errorf("get %q: %q, %v", p.Key, v, err)
		}
		if err := g.plain(err); err != nil {
			return err
		}
	}
	return nil
}

// typed reports whether an error is one of those that damage may give. lsm.ErrEncryption is not one
// of them: the keys are the right ones.
func (g *golden) typed(err error) bool {
	for _, kind := range []error{lsm.ErrCorruption, lsm.ErrNotADatabase, lsm.ErrComparerMismatch,
		lsm.ErrDoesNotExist, lsm.ErrTooLarge} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return g.unsealed && errors.Is(err, lsm.ErrEncryption)
}

// plain passes on errors that a read of a damaged database must not give.
func (g *golden) plain(err error) error {
	if err == nil || g.typed(err) && !strings.Contains(err.Error(), "panic") {
		return nil
	}
	return fmt.Errorf("a read gives an error of no kind: %w", err)
}

// scan wants the pairs in order, up to the end or an error.
func (g *golden) scan(db *lsm.DB, want []model.Pair) error {
	for _, back := range []bool{false, true} {
		it := db.Iter(nil)
		n, ok, move := 0, false, it.Next
		if back {
			move, ok = it.Prev, it.Last()
		} else {
			ok = it.First()
		}
		for ; ok; ok = move() {
			i := n
			if back {
				i = len(want) - 1 - n
			}
			if n >= len(want) || string(it.Key()) != want[i].Key ||
				string(it.Value()) != want[i].Value {
				err := fmt.Errorf("scan, back %v: entry %d of %d is %q=%.30q", back, i, len(want),
					it.Key(), it.Value())
				it.Close()
				return err
			}
			n++
		}
		err := it.Close()
		if err == nil && n != len(want) {
			return fmt.Errorf("scan, back %v: ends after %d of %d without an error", back, n,
				len(want))
		}
		if err := g.plain(err); err != nil {
			return err
		}
	}
	return nil
}

// try checks one damage, which takes no more than 5 seconds of processor time. Other goroutines of
// each use as much meanwhile.
func (g *golden) try(d damage, check func(fs *vfs.Mem, d damage) error) error {
	fs, err := g.replace(d.file, d.apply())
	if err != nil {
		return err
	}
	start := hang.ProcessorTime()
	if err := check(fs, d); err != nil {
		return fmt.Errorf("%v: %w", d, err)
	}
	if took := hang.ProcessorTime() -
		start; took > time.Duration(runtime.GOMAXPROCS(0))*5*time.Second {
		return fmt.Errorf("%v: took %v of processor time", d, took)
	}
	return nil
}

// each runs check over damages on all processors and stops at the first error.
func (g *golden) each(list []damage, check func(fs *vfs.Mem, d damage) error) error {
	var next atomic.Int64
	var mu sync.Mutex
	var first error
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for {
				i := next.Add(1) - 1
				if i >= int64(len(list)) {
					return
				}
				if err := g.try(list[i], check); err != nil {
					next.Store(int64(len(list)))
					mu.Lock()
					first = errors.Join(first, err)
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	return first
}

// Corruption changes every byte and cuts at every length, takes every
// stride-th of these, and returns how many that was.
func Corruption(seed int64, stride int, all bool) (int, error) {
	g, err := makeGolden(seed, lsm.DefaultFormat)
	if err != nil {
		return 0, err
	}
	if err := g.verify(g.fs.Clone(), false); err != nil {
		return 0, fmt.Errorf("undamaged: %w", err)
	}
	if err := g.swaps(); err != nil {
		return 0, fmt.Errorf("seed %d: %w", seed, err)
	}
	list := thin(g.damages(all), stride, seed)
	var most atomic.Int64
	before := memory()
	err = g.each(list, func(fs *vfs.Mem, d damage) error {
		found := fs.Clone() // verify may repair by its recovery
		err := g.verify(fs, g.unprotected(d))
		if err == nil {
			err = g.seen(found, d)
		}
		if now := offheap.InUse(); now > most.Load() {
			most.Store(now)
		}
		return err
	})
	if err != nil {
		return len(list), fmt.Errorf("seed %d: %w", seed, err)
	}
	if grown := max(most.Load(), memory()) - before; grown > 64<<20*int64(runtime.GOMAXPROCS(0)) {
		return len(list), fmt.Errorf("seed %d: %d bytes above the baseline", seed, grown)
	}
	return len(list), nil
}

// swaps exchanges each two files of a native database, and puts each in the place of
// each other one: that shows. LevelDB's format does not link records to places.
func (g *golden) swaps() error {
	if !g.native {
		return nil
	}
	// A log that was lost whole leaves no proof of its syncs: that is reported.
	lost := *g
	lost.synced = 0
	for _, a := range g.files {
		for _, b := range g.files {
			// an empty one is a cut
			if len(g.bytes[a]) == 0 || len(g.bytes[b]) == 0 || bytes.Equal(g.bytes[a], g.bytes[b]) {
				continue
			}
			fs, err := g.replace(a, g.bytes[b])
			if err != nil {
				return err
			}
			// A newer log that begins like an older one was not begun.
			logs := fstest.TypeOf(a) == base.FileLog && fstest.TypeOf(b) == base.FileLog
			lost.unsealed = encryption != nil && !sealed(g.bytes[b])
			if err := lost.verify(fs.Clone(), logs); err != nil {
				return fmt.Errorf("%s in the place of %s: %w", b, a, err)
			}
			other := &golden{fs: fs}
			if fs, err = other.replace(b, g.bytes[a]); err != nil {
				return err
			}
			lost.unsealed = lost.unsealed || encryption != nil && !sealed(g.bytes[a])
			if err := lost.verify(fs, false); err != nil {
				return fmt.Errorf("%s and %s exchanged: %w", a, b, err)
			}
		}
	}
	return nil
}

// thin takes every stride-th element; the seed says from which on.
func thin(list []damage, stride int, seed int64) []damage {
	out := list[:0:0]
	for i := int(seed % int64(stride)); i < len(list); i += stride {
		out = append(out, list[i])
	}
	return out
}

// memory is what the process uses, on and off the heap.
func memory() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) + offheap.InUse()
}
