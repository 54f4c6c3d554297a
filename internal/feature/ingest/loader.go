package ingest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"runtime"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/prefix"
	"github.com/loamdb/loam/internal/format/batchrepr"
	"github.com/loamdb/loam/internal/format/colblk"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/store"
	"github.com/loamdb/loam/internal/store/files"
)

const (
	// maxRuns is how many runs are merged at a time. When there are as many, they become one.
	maxRuns = 200
	// checkEvery is how many entries pass between two looks at whether to go on.
	checkEvery = 1024
	// maxSample is the largest block by whose values is decided whether runs have values packed.
	maxSample = 64 << 10
)

// BulkLoader makes tables of entries that come in any order, and ingests them. It is used by one
// goroutine at a time.
//
// Entries are gathered in chunks of memory. A chunk that is full is sorted, and written as a run,
// in the background; by the caller where the comparer is on its thread (base.Comparer.Serial). In
// the end the runs and the last chunk are merged, in as many ranges of keys at a time as there are
// processors, into the tables of the database to be. What fits into one chunk needs no runs.
type BulkLoader struct {
	k    *store.Keyspace
	free chan *chunk // those that nobody uses
	cur  *chunk
	size int // of a chunk

	pending sync.WaitGroup // runs that are being written
	givenUp atomic.Bool    // nobody waits for them

	mu    sync.Mutex // guards what follows
	runs  []*run     // by age; nil: not yet written
	err   error      // why it cannot be finished
	ended bool
	stats Stats
}

// MaxMemory is the most that a BulkLoader holds in memory.
const MaxMemory = 1<<31 - 1

// Memory is how many bytes of entries a BulkLoader of a database holds in memory, unless told
// otherwise.
func Memory(db store.Host) int { return int(min(4*db.Place().WriteBuffer, MaxMemory)) }

// NewBulkLoader begins a load with about so many bytes of memory.
func NewBulkLoader(k *store.Keyspace, memory int) (*BulkLoader, error) {
	if err := k.Writable(); err != nil {
		return nil, err
	}
	chunks := min(runtime.GOMAXPROCS(0), 4) + 1
	l := &BulkLoader{k: k, free: make(chan *chunk, chunks), size: max(memory/chunks, 4<<10)}
	for range chunks {
		l.free <- nil // made when it is needed
	}
	return l, nil
}

// Put adds an entry. Of entries with the same key the last one counts.
func (l *BulkLoader) Put(key, value []byte) error {
	if l.cur != nil && l.cur.add(key, value) {
		return nil
	}
	return l.putSlow(key, value)
}

func (l *BulkLoader) putSlow(key, value []byte) (err error) {
	defer l.k.Host().Health().CatchPanic(&err)
	if err := l.usable(); err != nil {
		return err
	}
	if len(key) > batchrepr.MaxLen/2 || len(value) > batchrepr.MaxLen-len(key)-64 {
		return fmt.Errorf("%w: a key and value of %d bytes", base.ErrTooLarge, len(key)+len(value))
	}
	if l.cur != nil {
		if err := l.spill(); err != nil {
			return err
		}
	}
	if l.cur, err = l.take(bytesOf(key, value)); err != nil {
		return l.fail(err)
	}
	l.cur.add(key, value)
	return nil
}

func (l *BulkLoader) usable() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.ended:
		return fmt.Errorf("%w: the load was finished or given up", base.ErrClosed)
	case l.err != nil:
		return l.err
	}
	return l.k.Writable()
}

// fail keeps the first error, and returns it; nil is none.
func (l *BulkLoader) fail(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
	}
	return l.err
}

// take returns an empty chunk with room for an entry of so many bytes, as soon as one is free.
func (l *BulkLoader) take(need int) (*chunk, error) {
	c := <-l.free
	if c == nil {
		var err error
		if c, err = newChunk(l.k.Comparer(), max(l.size, need/3*4+16)); err != nil {
			l.free <- nil
			return nil, err
		}
	}
	if need > len(c.arena) {
		if err := c.resize(need, 16); err != nil {
			l.free <- nil
			return nil, err
		}
	}
	return c, nil
}

// give gives a chunk back. One that was made for a large entry goes.
func (l *BulkLoader) give(c *chunk) {
	if len(c.arena) > 2*l.size {
		c.free()
		c = nil
	} else {
		c.clear()
	}
	l.free <- c
}

// spill has the chunk written as a run, unless the load has failed.
func (l *BulkLoader) spill() error {
	c := l.cur
	l.cur = nil
	l.mu.Lock()
	if len(l.runs) >= maxRuns {
		l.mu.Unlock()
		l.pending.Wait()
		if l.err == nil { // else a run may be missing
			l.fail(l.joinRuns())
		}
		l.mu.Lock()
	}
	if err := l.err; err != nil {
		l.mu.Unlock()
		l.give(c)
		return err
	}
	at := len(l.runs)
	l.runs = append(l.runs, nil)
	l.stats.Runs++
	l.mu.Unlock()
	write := func() error {
		defer l.give(c)
		return l.fail(store.Long(context.Background(), l.k.Host(), func(stop func() error) error {
			r, err := l.write(c, l.until(stop))
			l.mu.Lock()
			l.runs[at] = r
			l.mu.Unlock()
			return err
		}))
	}
	if l.k.Comparer().Serial() {
		return write()
	}
	l.pending.Go(func() { base.Always(write, func(err error) { _ = l.fail(err) }) })
	return nil
}

// until is stop, and the end of a load that was given up or interrupted.
func (l *BulkLoader) until(stop func() error) func() error {
	_ = l.k.Comparer().CheckInterrupted() // of an earlier call
	return func() error {
		if l.givenUp.Load() {
			return errGivenUp
		}
		return errors.Join(stop(), l.k.Comparer().CheckInterrupted())
	}
}

var errGivenUp = fmt.Errorf("%w: the load was given up", base.ErrClosed)

// write sorts a chunk and writes it as a run, which is returned with an error, too, if its file was
// made.
func (l *BulkLoader) write(c *chunk, stop func() error) (*run, error) {
	if err := c.sort(stop); err != nil {
		return nil, err
	}
	s := &stream{cmp: c.cmp, c: c, to: c.n}
	return l.writeRun(c.prefix, stop, func(w *runWriter) (err error) {
		if w.pack, err = l.packer(c); err != nil {
			return err
		}
		for {
			ok, err := s.next()
			if !ok || err != nil {
				return err
			}
			if err := w.add(s.key, s.codec, s.value); err != nil {
				return err
			}
		}
	})
}

// packer returns what packs the values of a sorted chunk, as far as the tables would pack them in
// the same way; nil if they would not.
func (l *BulkLoader) packer(c *chunk) (*colblk.Packer, error) {
	tables := l.k.Tree.Tables()
	tables.Format = l.k.Host().Place().Format
	o, ok := files.Packing(tables)
	if !ok {
		return nil, nil
	}
	p := new(colblk.Packer)
	return p, p.Sample(o, c.sample(min(tables.BlockSize, maxSample)))
}

func (l *BulkLoader) writeRun(p prefix.Prefix, stop func() error,
	fill func(w *runWriter) error) (*run, error) {
	w, err := newRun(l.k.Host(), stop)
	if err != nil {
		return nil, err
	}
	w.r.prefix = slices.Clone(p)
	// the file is closed, and deleted, after a panic or a Goexit of the comparer, too
	err = l.k.Comparer().Guard(func() error { return fill(w) })
	r, ferr := w.finish()
	return r, errors.Join(err, ferr)
}

// joinRuns merges all runs into one. None is being written.
func (l *BulkLoader) joinRuns() error {
	return store.Long(context.Background(), l.k.Host(), func(stop func() error) error {
		old := l.runs
		var streams []*stream
		defer func() { closeAll(streams) }()
		m, err := l.open(&streams, nil, nil)
		if err != nil {
			return err
		}
		r, err := l.writeRun(l.sharedPrefix(nil), stop, func(w *runWriter) error {
			return m.each(nil, w.add)
		})
		l.runs = []*run{r}
		l.remove(old)
		return err
	})
}

// sharedPrefix is what all keys begin with, those of c, unless nil, among them.
func (l *BulkLoader) sharedPrefix(c *chunk) (p prefix.Prefix) {
	first := true
	add := func(q prefix.Prefix) {
		if first {
			p, first = slices.Clone(q), false
		} else {
			p = slices.Clone(p.With(q))
		}
	}
	for _, r := range l.runs {
		add(r.prefix)
	}
	if c != nil && c.n > 0 {
		add(c.prefix)
	}
	return p
}

// open begins a merge of all runs, and of c, unless nil, from lower on. The streams are to be
// closed, also after an error, and when the comparer panics.
func (l *BulkLoader) open(streams *[]*stream, lower []byte, c *chunk) (*merge, error) {
	cmp, place := l.k.Comparer(), l.k.Host().Place()
	m := &merge{cmp: cmp}
	p := l.sharedPrefix(c)
	add := func(s *stream) error {
		s.cmp, s.prefix, s.newer = cmp, p, len(*streams)
		*streams = append(*streams, s)
		ok, err := s.begin(lower)
		if ok && err == nil {
			m.push(s)
		}
		return err
	}
	for _, r := range l.runs {
		f, err := place.FS.Open(filepath.Join(place.Dir, r.name))
		if err != nil {
			return nil, err
		}
		if err := add(&stream{run: r, f: f}); err != nil {
			return nil, err
		}
	}
	if c != nil {
		return m, add(&stream{c: c})
	}
	return m, nil
}

func closeAll(streams []*stream) {
	for _, s := range streams {
		if s.f != nil {
			_ = s.f.Close() // it was read
		}
	}
}

// remove deletes runs.
func (l *BulkLoader) remove(runs []*run) {
	for _, r := range runs {
		if r != nil {
			l.k.Host().Files().DeleteFile(r.name)
		}
	}
}

// Finish makes the entries durable in the database, all at once; see lsm.DB.BulkLoad. Whether it
// fails or not, it ends the load.
func (l *BulkLoader) Finish(ctx context.Context) error {
	err := l.usable()
	if err == nil && ctx == nil {
		err = base.Invalidf("Finish needs a context")
	}
	if err != nil {
		return errors.Join(err, l.Close())
	}
	defer l.Close()
	return store.Long(ctx, l.k.Host(), func(stop func() error) (err error) {
		j := newJob(l.k, stop)
		defer func() {
			j.stats.Runs = l.stats.Runs
			note(l.k.Host(), &j.stats, err)
		}()
		defer j.cleanUp()
		l.pending.Wait()
		if l.err != nil {
			return l.err
		}
		if l.cur != nil {
			if err := l.cur.sort(l.until(stop)); err != nil {
				return err
			}
		}
		l.freeChunks() // memory for the writers
		if err := l.build(j); err != nil {
			return err
		}
		return j.install()
	})
}

// Close gives up a load that was not finished, and frees what it holds. After Finish, and a second
// time, it does nothing.
func (l *BulkLoader) Close() error {
	l.mu.Lock()
	ended := l.ended
	l.ended = true
	l.mu.Unlock()
	if ended {
		return nil
	}
	l.givenUp.Store(true)
	l.pending.Wait()
	if l.cur != nil {
		l.cur.free()
		l.cur = nil
	}
	l.freeChunks()
	l.remove(l.runs)
	l.runs = nil
	return nil
}

// freeChunks gives back the memory of the chunks that nobody uses.
func (l *BulkLoader) freeChunks() {
	for range len(l.free) {
		if c := <-l.free; c != nil {
			c.free()
		}
		l.free <- nil
	}
}

// BulkLoad loads all entries of a sequence; see lsm.DB.BulkLoad.
func BulkLoad(ctx context.Context, k *store.Keyspace, seq iter.Seq2[[]byte, []byte],
	memory int) error {
	l, err := NewBulkLoader(k, memory)
	if err != nil {
		return err
	}
	defer l.Close()
	n := 0
	for key, value := range seq {
		if n++; n%checkEvery == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		if err := l.Put(key, value); err != nil {
			return err
		}
	}
	return l.Finish(ctx)
}

// build writes the tables of a load.
func (l *BulkLoader) build(j *job) error {
	bounds := slices.Concat([][]byte{nil}, l.cut(), [][]byte{nil})
	parts := make([]*builder, len(bounds)-1)
	var syncs syncing
	workers := runtime.GOMAXPROCS(0)
	if l.k.Comparer().Serial() {
		workers = 1
	}
	for i := range parts {
		parts[i] = &builder{l: l, j: j, syncs: &syncs, lower: bounds[i], upper: bounds[i+1]}
	}
	err := store.Share(len(parts), workers, func(numbers iter.Seq[int]) error {
		var spare sstable.Spare
		defer spare.Free()
		for i := range numbers {
			parts[i].spare = &spare
			if err := parts[i].build(); err != nil {
				return err
			}
		}
		return nil
	})
	for _, b := range parts {
		j.tables = append(j.tables, b.tables...)
		j.stats.Loaded += b.entries
	}
	return errors.Join(err, syncs.wait())
}

// cut chooses keys that divide the load into parts of about the same size.
func (l *BulkLoader) cut() (bounds [][]byte) {
	workers := runtime.GOMAXPROCS(0)
	var keys [][]byte
	for _, r := range l.runs {
		for _, m := range r.marks {
			keys = append(keys, m.key)
		}
	}
	if c := l.cur; c != nil {
		const every = 2048
		for i := 0; i < c.n; i += every {
			keys = append(keys, c.key(c.pairs[i].Off))
		}
	}
	cmp := l.k.Comparer()
	sort.Slice(keys, func(i, j int) bool { return cmp.Cmp(keys[i], keys[j]) < 0 })
	n := min(2*workers, len(keys)/8)
	for i := 1; i < n; i++ {
		key := keys[len(keys)*i/n]
		if len(bounds) == 0 || cmp.Cmp(bounds[len(bounds)-1], key) < 0 {
			bounds = append(bounds, key)
		}
	}
	return bounds
}

// syncing makes finished tables durable, beside the work on others.
type syncing struct {
	wg   sync.WaitGroup
	turn sync.Mutex // one at a time
	mu   sync.Mutex
	err  error
}

func (s *syncing) add(w sstable.Writer) {
	s.wg.Go(func() {
		s.turn.Lock()
		defer s.turn.Unlock()
		base.Always(func() error {
			err := w.Sync()
			return errors.Join(err, w.Close())
		}, func(err error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.err == nil {
				s.err = err
			}
		})
	})
}

func (s *syncing) wait() error {
	s.wg.Wait()
	return s.err
}

// builder writes the tables of a part of a load: the keys from lower up to upper.
type builder struct {
	l            *BulkLoader
	j            *job
	syncs        *syncing
	spare        *sstable.Spare
	lower, upper []byte

	w       sstable.Writer
	tables  []*table
	since   int // bytes since the last look at the size
	full    bool
	entries uint64
}

// sizeCheck is how many bytes go into a table between two looks at its size.
const sizeCheck = 16 << 10

func (b *builder) build() error {
	var streams []*stream
	defer func() { // also when the comparer panics
		closeAll(streams)
		if b.w != nil {
			_ = b.w.Close() // the file goes
		}
	}()
	m, err := b.l.open(&streams, b.lower, b.l.cur)
	if err == nil {
		err = m.each(b.upper, b.add)
	}
	if err == nil && b.w != nil {
		err = b.finish()
	}
	return err
}

func (b *builder) add(key []byte, codec base.Codec, value []byte) error {
	if b.full {
		if err := b.finish(); err != nil {
			return err
		}
	}
	if b.w == nil {
		if err := b.begin(); err != nil {
			return err
		}
	}
	if err := b.w.Add(key, base.MakeTrailer(0, base.KindSet), codec, value); err != nil {
		return err
	}
	b.entries++
	if b.since += len(key) + len(value); b.since >= sizeCheck {
		b.since = 0
		b.full = b.w.EstimatedSize() >= uint64(b.j.place.FileSize)
		return b.j.stop()
	}
	return nil
}

func (b *builder) begin() error {
	w, t, err := b.j.create(b.spare)
	if t != nil {
		b.tables = append(b.tables, t)
	}
	b.w = w
	return err
}

func (b *builder) finish() error {
	w := b.w
	meta, err := w.Finish()
	if err != nil {
		return err
	}
	b.w, b.full, b.since = nil, false, 0
	b.j.describe(b.tables[len(b.tables)-1], &meta)
	b.syncs.add(w)
	return nil
}
