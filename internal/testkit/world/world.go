package world

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/backup"
)

// defaultLife is the life of the default keyspace.
const defaultLife = 1

// space is a name of a keyspace, and what its keyspaces have.
type space struct {
	name  string
	order *order
	merge *lsm.MergeOperator
	ttl   int64    // DefaultTTL in seconds; 0: none
	keys  []string // in order
	life  int      // of the keyspace that has the name now; 0: none has
	ks    *lsm.Keyspace
}

// find is the index of a key as a database spells it.
func (s *space) find(key []byte) (int, error) {
	i, ok := slices.BinarySearchFunc(s.keys, key, func(a string, b []byte) int {
		return s.order.cmp.Compare([]byte(a), b)
	})
	if !ok {
		return 0, fmt.Errorf("%s has key %q, which was never written", s.name, key)
	}
	return i, nil
}

// World is a database with its open snapshots, iterators and transactions, and its model.
type World struct {
	rng    *rand.Rand // of the step
	fs     *vfs.Mem
	dir    string
	made   int // copies, tables and the like, for their names
	format lsm.Format
	opts   lsm.Options
	db     *lsm.DB
	clock  *atomic.Int64 // in seconds

	spaces  []*space
	lives   int   // given out
	now     int64 // the newest time
	m       state
	durable state    // survives a power cut
	since   []commit // what was written after durable
	version int
	written map[int][]int // the version at which a key was written last

	snaps    []*snapshot
	cursors  []*cursor
	pinned   []pinned
	txns     []*txn
	feed     *feed
	follower *lsm.Follower
	folder   *backup.Folder
	backups  []saved
	paused   bool
	beside   bool // the database has other worlds, with keyspaces of their own: see Beside

	weights []int // of the steps
	queues  bool  // most writes put or delete the key behind that of the last one, in turns
	heads   map[int]int
	trace   []string
}

// Settings are the options of a history that its caller chooses.
type Settings struct {
	Format lsm.Format
	Keys   int // of each keyspace, at most
	// EmptyBetween has the empty key between others, in all keyspaces.
	EmptyBetween bool
}

// newWorld draws options and keyspaces.
func newWorld(seed uint64, o Settings) *World {
	rng := rand.New(rand.NewPCG(seed, 1))
	w := &World{rng: rng, fs: vfs.NewMem(), dir: "db", format: o.Format, clock: new(atomic.Int64),
		now:   1_000_000,
		lives: defaultLife, m: state{}, durable: state{}, written: map[int][]int{}}
	w.clock.Store(w.now)
	orders := orders
	if o.EmptyBetween {
		orders = []*order{emptyBetween}
	}
	for i, name := range []string{"default", "one", "two", "mortal"} {
		s := &space{name: name, order: orders[rng.IntN(len(orders))], merge: concat}
		if s.keys = s.order.keys(rng, 1+rng.IntN(o.Keys)); rng.IntN(2) == 0 {
			s.merge = lsm.MergeOperatorNamed("append")
		}
		if i == 0 && o.Format == lsm.FormatLevelDB && rng.IntN(2) == 0 {
			s.order = orders[0]
			s.keys = s.order.keys(rng, 1+rng.IntN(o.Keys))
		}
		if name == "mortal" {
			s.ttl = 1 + int64(rng.IntN(15))
		}
		w.spaces = append(w.spaces, s)
	}
	w.opts = lsm.Options{
		Format: o.Format, Comparer: w.spaces[0].order.cmp,
		Comparers: []*lsm.Comparer{folded, versioned, between}, Clock: func() time.Time {
			return time.Unix(w.clock.Load(), 0)
		},
		WriteBufferSize: choose(rng, int64(64<<10), 128<<10, 1<<20),
		MaxFileSize:     choose(rng, int64(64<<10), 1<<20),
		BlockSize:       choose(rng, 256, 1024, 4096), L0Compaction: 1 + rng.IntN(5),
		CacheSize: choose(rng, int64(-1), 64<<10, 1<<20), BloomBits: choose(rng, -1, 5, 10),
		Compression: choose(rng, lsm.NoCompression, lsm.SnappyCompression, lsm.ZstdCompression),
		MaxWALSize:  choose(rng, int64(0), 64<<10), MaxMergeOperands: choose(rng, 2, 5, 1000),
		MaxOpenFiles: choose(rng, 4, 1000), WALRetentionBytes: choose(rng, int64(0), 1<<30),
		BlockRestartInterval: choose(rng, 1, 3, 16), WALPreallocate: choose(rng, int64(-1), 4096,
			0), LevelDBFilter: rng.IntN(4) == 0, MaxSubcompactions: choose(rng, 1, 3),
		DisableCompaction: rng.IntN(8) == 0,
	}
	if o.Format == lsm.FormatNative {
		w.opts.MergeOperator, w.opts.MergeOperators =
			w.spaces[0].merge, []*lsm.MergeOperator{concat}
	}
	if w.spaces[0].order.bytes && rng.IntN(4) == 0 && w.opts.BloomBits > 0 {
		w.opts.PrefixLength = 1 + rng.IntN(3)
	}
	// Drawn apart, so that the histories of known seeds stay.
	apart := rand.New(rand.NewPCG(seed, 2))
	w.opts.LargeValue = choose(apart, int64(0), 0, 1, 5, 1000)
	if w.opts.LargeValue > 0 && apart.IntN(2) == 0 { // values are relocated soon
		w.opts.MaxSpaceAmplification, w.opts.L0Compaction, w.opts.WriteBufferSize = 1, 1, 64<<10
	}
	if apart.IntN(3) == 0 && o.Format == lsm.FormatNative {
		w.opts.Encryption = &ring{}
	}
	w.spaces[0].life = defaultLife
	w.begin(w.spaces[0])
	w.weights = make([]int, len(steps))
	rare := choose(rng, 0, 1, 1, 4) // some histories never end, some end all the time
	for i, s := range steps {
		if w.weights[i] = s.weight * choose(rng, 0, 1, 1, 3); i >= firstEnding && i < firstCare {
			w.weights[i] = s.weight * rare / 2
		}
	}
	w.weights[0] = max(w.weights[0], 1)
	w.queues, w.heads = rng.IntN(3) == 0, map[int]int{}
	return w
}

func choose[T any](rng *rand.Rand, of ...T) T { return of[rng.IntN(len(of))] }

func (w *World) native() bool { return w.format == lsm.FormatNative }

// begin makes the model of a keyspace that exists from now on, durably.
func (w *World) begin(s *space) {
	w.m[s.life] = make([]value, len(s.keys))
	w.durable[s.life] = make([]value, len(s.keys))
	w.written[s.life] = make([]int, len(s.keys))
}

func (w *World) log(format string, a ...any) {
	w.trace = append(w.trace, fmt.Sprintf(format, a...))
}

// name returns a path that was not used before.
func (w *World) name(what string) string {
	w.made++
	return fmt.Sprintf("%s%d", what, w.made)
}

// options are those of an opening of the world's database on a file system.
func (w *World) options(fs lsm.FS) *lsm.Options {
	o := w.opts
	o.FS = fs
	return &o
}

// keyspaceOptions are those of an opening of a keyspace.
func (s *space) keyspaceOptions() *lsm.KeyspaceOptions {
	return &lsm.KeyspaceOptions{Comparer: s.order.cmp, MergeOperator: s.merge,
		DefaultTTL: time.Duration(s.ttl) * time.Second}
}

// open opens the world's database and its keyspaces.
func (w *World) open() error {
	db, err := lsm.Open(w.dir, w.options(w.fs))
	if err != nil {
		return fmt.Errorf("open %s: %w", w.dir, err)
	}
	w.db, w.paused = db, w.opts.DisableCompaction
	for _, s := range w.spaces {
		if s.ks, err = w.handle(db, s); err != nil {
			return err
		}
	}
	return w.names(db)
}

// handle opens the keyspace of a space in a database: w.db, or a copy.
func (w *World) handle(db *lsm.DB, s *space) (*lsm.Keyspace, error) {
	if s.life == 0 || !w.native() {
		return nil, nil
	}
	o := s.keyspaceOptions()
	o.ErrorIfMissing = true
	k, err := db.Keyspace(s.name, o)
	if err != nil {
		return nil, fmt.Errorf("keyspace %s: %w", s.name, err)
	}
	return k, nil
}

// names checks which keyspaces a database has.
func (w *World) names(db *lsm.DB) error {
	if w.beside {
		return nil
	}
	got := db.Keyspaces()
	slices.Sort(got)
	var want []string
	for _, s := range w.living() {
		want = append(want, s.name)
	}
	if slices.Sort(want); !slices.Equal(got, want) {
		return fmt.Errorf("keyspaces %q, want %q", got, want)
	}
	return nil
}

// living are the spaces whose names have keyspaces now.
func (w *World) living() []*space {
	var out []*space
	for _, s := range w.spaces {
		if s.life != 0 {
			out = append(out, s)
		}
	}
	return out
}

func (w *World) space() *space { return choose(w.rng, w.living()...) }

// store is the data of a space in w.db.
func (w *World) store(s *space) store {
	if s.ks == nil || s.life == defaultLife && w.rng.IntN(2) == 0 {
		return w.db
	}
	return s.ks
}

// key is a spelling of key i of a space; behind the last, its top.
func (w *World) key(s *space, i int) []byte {
	if i == len(s.keys) {
		return []byte(s.order.top)
	}
	return s.order.spell(w.rng, s.keys[i])
}

// stretch draws a range of keys of a space: from <= to.
func (w *World) stretch(s *space) (from, to int) {
	from = w.rng.IntN(len(s.keys) + 1)
	return from, from + w.rng.IntN(len(s.keys)-from+1)
}

// wrote puts ops that succeeded together into the model. sync says that they and all earlier
// writes survive a power cut.
func (w *World) wrote(sync bool, ops ...op) {
	w.version++
	for _, o := range ops {
		for i := range w.written[o.life] {
			if o.covers(i) {
				w.written[o.life][i] = w.version
			}
		}
		w.m.apply(o, w.now)
	}
	w.since = append(w.since, commit{ops, w.now})
	if sync {
		w.harden()
	}
}

// harden says that all that was written survives a power cut.
func (w *World) harden() { w.durable, w.since = w.m.clone(), nil }

func (w *World) mode() (lsm.WriteMode, bool) {
	if w.rng.IntN(12) == 0 {
		return lsm.Sync, true
	}
	return lsm.NoSync, false
}

// step is one step of a history.
type step struct {
	name   string
	weight int
	native bool // needs the native format
	run    func(w *World) error
}

var (
	steps                  []step
	firstEnding, firstCare int
)

func init() {
	for _, list := range [][]step{writes, reads, transactions, spaces, bulk, copies, endings,
		care} {
		steps = append(steps, list...)
	}
	firstCare = len(steps) - len(care)
	firstEnding = firstCare - len(endings)
}

// do draws and runs a step.
func (w *World) do(seed uint64) (err error) {
	w.rng = rand.New(rand.NewPCG(seed, 2))
	all := 0
	for _, n := range w.weights {
		all += n
	}
	n := w.rng.IntN(all)
	for i, s := range steps {
		if n -= w.weights[i]; n >= 0 {
			continue
		}
		if s.native && !w.native() {
			return nil
		}
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("%s: panic: %v\n%s", s.name, p, debug.Stack())
			}
		}()
		w.log("-- %s", s.name)
		if err := s.run(w); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		return nil
	}
	return nil
}

// history is what Run runs: the seeds of the world and of its steps.
type history struct {
	seed  uint64
	o     Settings
	steps []uint64
}

// failure is a history that went wrong, its last step, and the trace.
type failure struct {
	at    int
	err   error
	trace []string
}

// run runs a history to its end or its first fault.
func (h history) run() *failure {
	w := newWorld(h.seed, h.o)
	if err := w.open(); err != nil {
		return &failure{0, err, w.trace}
	}
	at, err := 0, error(nil)
	for at = range h.steps {
		if err = w.do(h.steps[at]); err != nil {
			break
		}
	}
	if err == nil {
		err = w.all("at the end")
	}
	w.release()
	if e := w.db.Close(); err == nil && e != nil {
		err = fmt.Errorf("close: %w", e)
	}
	for _, p := range w.pinned {
		if e := p.release(); err == nil {
			err = e
		}
	}
	if err == nil {
		return nil
	}
	return &failure{at, err, w.trace}
}

// Run runs a history of n steps. A failure is shrunk: the error has the shortest history that
// was found to fail.
func Run(seed int64, o Settings, n int) error {
	h := history{seed: uint64(seed), o: o}
	rng := rand.New(rand.NewPCG(uint64(seed), 3))
	for range n {
		h.steps = append(h.steps, rng.Uint64())
	}
	f := h.run()
	if f == nil {
		return nil
	}
	first := f.err
	h.steps = h.steps[:min(len(h.steps), f.at+1)]
	h, f = shrink(h, f)
	return fmt.Errorf("%w\n%s\nafter %d of %d steps, shrunk to %d:\n%s", first, f.err, f.at+1, n,
		len(h.steps), strings.Join(f.trace, "\n"))
}

// shrinkRuns bounds the runs of a shrinking.
const shrinkRuns = 400

// shrink leaves out steps as long as the history fails.
func shrink(h history, f *failure) (history, *failure) {
	runs := 0
	for size := (len(h.steps) + 1) / 2; size > 0 && runs < shrinkRuns; size /= 2 {
		for from := 0; from < len(h.steps) && runs < shrinkRuns; {
			less := h
			less.steps = slices.Delete(slices.Clone(h.steps), from, min(from+size, len(h.steps)))
			runs++
			if g := less.run(); g != nil {
				less.steps = less.steps[:min(len(less.steps), g.at+1)]
				h, f = less, g
			} else {
				from += size
			}
		}
	}
	return h, f
}

// release closes what is open in the database, but not the pinned values, which outlive it.
func (w *World) release() {
	for _, t := range w.txns {
		_ = t.tx.Rollback()
		if t.cursor != nil {
			_ = t.cursor.it.Close()
		}
	}
	for _, c := range w.cursors {
		_ = c.it.Close()
	}
	for _, s := range w.snaps {
		_ = s.s.Close()
	}
	w.dropFeed()
	w.dropFollower()
	if w.folder != nil {
		_ = w.folder.Close()
	}
	w.txns, w.cursors, w.snaps, w.folder = nil, nil, nil, nil
}

func (w *World) dropFeed() {
	if w.feed != nil {
		_ = w.feed.c.Close()
		w.feed = nil
	}
}

func (w *World) dropFollower() {
	if w.follower != nil {
		_ = w.follower.Close()
		w.follower = nil
	}
}

// absent reports whether a read found nothing, as an error.
func absent(err error) bool { return errors.Is(err, lsm.ErrNotFound) }

func join(dir, name string) string { return path.Join(dir, name) }
