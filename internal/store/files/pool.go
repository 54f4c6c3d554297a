package files

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
)

// pool is the process-wide bound on open descriptors of tables.
type pool struct {
	waiting atomic.Int32 // goroutines in reserve that found all pinned

	mu    sync.Mutex
	freed sync.Cond // a descriptor was unpinned or closed; its L is &mu
	max   int
	open  int     // descriptors open or about to be
	held  int     // more of them, which stay open; see Set.Hold
	ring  []*file // files with an open descriptor
	hand  int     // index in ring
}

var descriptors = newPool(defaultMaxOpen())

func newPool(n int) *pool {
	p := &pool{max: max(n, 1)}
	p.freed.L = &p.mu
	return p
}

// maxOpenFor is the bound for a process that may open limit descriptors.
func maxOpenFor(limit uint64) int {
	const ceiling = 16384
	if limit > 2*ceiling {
		return ceiling
	}
	return max(int(limit/2)-11, 4)
}

// reserve takes the right to open one descriptor for a file of set o. At the bound it closes the
// descriptor of another file, on a goroutine if that is another set's; while all of these are
// pinned it waits. A pin lasts for one read, and its holder waits for nothing here.
func (p *pool) reserve(o *owner) {
	p.mu.Lock()
	for {
		full := o.reached(1)
		if full == nil && p.open < p.max {
			p.open++
			o.add(1)
			p.mu.Unlock()
			return
		}
		p.waiting.Add(1) // before looking, so that no unpin is overlooked
		if f, victim := p.take(full); victim != nil {
			p.waiting.Add(-1)
			// a bound was lowered: give up one more
			over := p.open > p.max || full != nil && full.open > full.max
			f.owner.add(-1)
			if over {
				p.open--
			} else {
				o.add(1)
			}
			p.mu.Unlock()
			if f.owner == o {
				o.close(victim)
			} else { // its disk may be blocked, which is nothing to o
				go f.owner.close(victim)
			}
			if !over {
				return
			}
			p.mu.Lock()
			continue
		}
		p.freed.Wait()
		p.waiting.Add(-1)
	}
}

// reserveSpare is reserve for a descriptor that stays open for long and cannot be taken back.
// It never waits: it reports false unless half of what each bound allows is free.
func (p *pool) reserveSpare(o *owner) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open >= p.max/2 || o.reached(2) != nil {
		return false
	}
	p.open++
	o.add(1)
	return true
}

// unreserve gives back what reserve took.
func (p *pool) unreserve(o *owner) {
	p.mu.Lock()
	p.open--
	o.add(-1)
	p.freed.Broadcast()
	p.mu.Unlock()
}

// MakeRoom calls open, which opens some file. While that fails because the process or
// the system has too many files open, it closes the idle descriptor of a table and
// calls open again.
func MakeRoom(open func() error) error { return descriptors.retry(open) }

func (p *pool) retry(open func() error) error {
	for {
		err := open()
		if err == nil || !tooMany(err) || !p.closeIdle() {
			return err
		}
	}
}

// closeIdle closes one descriptor that is not in use, for when the system says
// that there are too many. It reports whether there was one.
func (p *pool) closeIdle() bool {
	p.mu.Lock()
	f, victim := p.take(nil)
	if victim != nil {
		p.open--
		f.owner.add(-1)
		p.freed.Broadcast()
	}
	p.mu.Unlock()
	if victim == nil {
		return false
	}
	f.owner.close(victim)
	return true
}

// take detaches the descriptor that the hand chooses, among those that count for only unless
// that is nil. The caller holds mu, closes the descriptor and adjusts the counts.
func (p *pool) take(only *bound) (*file, vfs.ReadFile) {
	for range 2 * len(p.ring) {
		p.hand++
		if p.hand >= len(p.ring) {
			p.hand = 0
		}
		f := p.ring[p.hand]
		if only != nil && only != &f.owner.bound &&
			(f.owner.group == nil || only != &f.owner.group.bound) {
			continue
		}
		w := f.state.Load()
		if w >= filePin {
			continue
		}
		if w&fileUsed != 0 {
			f.state.And(^uint64(fileUsed))
			continue
		}
		if f.state.CompareAndSwap(w, w&^fileOpen) {
			return f, p.remove(f)
		}
	}
	return nil, nil
}

// remove takes f off the ring and returns its descriptor. The caller holds mu
// and has cleared fileOpen.
func (p *pool) remove(f *file) vfs.ReadFile {
	last := len(p.ring) - 1
	p.ring[f.index] = p.ring[last]
	p.ring[f.index].index = f.index
	p.ring[last] = nil
	p.ring = p.ring[:last]
	d := f.descriptor
	f.descriptor = nil
	return d
}

// bound is a number of descriptors; guarded by pool.mu.
type bound struct {
	max  int // 0: none
	open int
}

// owner is a Set's share of the pool; guarded by pool.mu.
type owner struct {
	bound
	group  *Group      // nil: none
	fail   func(error) // gets errors that no call returns; constant, may be nil
	held   int         // descriptors besides
	closed bool        // no descriptor is opened any more
}

// reached is a bound of the owner of which one part in so many is open, or nil.
func (o *owner) reached(parts int) *bound {
	for _, b := range []*bound{&o.bound, o.group.bounded()} {
		if b != nil && b.max > 0 && b.open >= b.max/parts {
			return b
		}
	}
	return nil
}

// close closes a descriptor. A panic is told.
func (o *owner) close(d vfs.ReadFile) {
	defer func() {
		if r := recover(); r != nil && o.fail != nil {
			o.fail(fmt.Errorf("closing a table: %w", base.NewPanic(r)))
		}
	}()
	_ = d.Close() // it was only read
}

func (o *owner) add(n int) {
	o.open += n
	if o.group != nil {
		o.group.open += n
	}
}

// Group is databases that together have no more than so many descriptors of tables. A nil one
// is no group.
type Group struct{ bound }

// NewGroup makes a Group; most is 0 for no bound but that of the process.
func NewGroup(most int) *Group {
	g := &Group{}
	g.SetMax(most)
	return g
}

func (g *Group) bounded() *bound {
	if g == nil {
		return nil
	}
	return &g.bound
}

// SetMax changes the bound, 0 for none. Descriptors above it are closed as others are opened.
func (g *Group) SetMax(most int) { g.set(descriptors, most) }

// Open is how many descriptors the group has, and may have.
func (g *Group) Open() (open, most int) {
	descriptors.mu.Lock()
	defer descriptors.mu.Unlock()
	return g.open, g.max
}

func (b *bound) set(p *pool, most int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b.max = max(most, 0)
	p.freed.Broadcast()
}

// The state word of a file: flags, then the count of reads under way.
const (
	fileOpen = 1 << iota // descriptor is there
	fileUsed             // CLOCK: read since the hand came by
	filePin              // one read
)

// file is a table's bytes: a vfs.ReadFile whose descriptor comes and goes. Its
// size is the one that the manifest recorded.
type file struct {
	fs    vfs.FS
	pool  *pool
	owner *owner
	path  string
	size  int64

	mappable bool
	mapped   int64            // bytes; constant once the table is open
	held     bool             // the descriptor stays open until Close, outside of the ring
	naming   base.TableNaming // if held

	state  atomic.Uint64
	stored atomic.Int64 // of the descriptor opened last, see vfs.Sparse

	mu sync.Mutex // held while opening

	descriptor vfs.ReadFile // constant while fileOpen is set and pinned
	index      int          // in pool.ring; guarded by pool.mu
}

// Size is the size in the manifest.
func (f *file) Size() int64 { return f.size }

// Stored bounds the bytes that are not holes. The descriptor was open before: Set
// sees to that.
func (f *file) Stored() int64 { return f.stored.Load() }

// NextData knows no holes.
func (f *file) NextData(off int64) int64 { return off }

// ReadAt reads at off, opening the descriptor if need be.
func (f *file) ReadAt(p []byte, off int64) (int, error) {
	if err := f.acquire(); err != nil {
		return 0, err
	}
	defer f.release() // also when the file system panics
	return f.descriptor.ReadAt(p, off)
}

// Map maps the file where the Set lets it. The descriptor may be closed afterwards.
func (f *file) Map(n int64) (*vfs.Mapping, error) {
	if !f.mappable {
		return nil, errors.ErrUnsupported
	}
	if err := f.acquire(); err != nil {
		return nil, err
	}
	defer f.release()
	m, err := vfs.Map(f.descriptor, n)
	if err == nil {
		f.mapped = n
	}
	return m, err
}

// Prefetch passes the hint on if the descriptor is open.
func (f *file) Prefetch(off, n int64) {
	defer f.release()
	if f.state.Add(filePin)&fileOpen != 0 {
		f.descriptor.Prefetch(off, n)
	}
}

// acquire pins the descriptor, opening it if it is not there.
func (f *file) acquire() error {
	w := f.state.Add(filePin)
	if w&fileOpen == 0 {
		if err := f.reopen(); err != nil {
			return err
		}
	}
	if w&fileUsed == 0 {
		f.state.Or(fileUsed)
	}
	return nil
}

func (f *file) release() {
	if f.state.Add(^uint64(filePin-1)) < filePin && f.pool.waiting.Load() != 0 {
		f.pool.mu.Lock()
		f.pool.freed.Broadcast()
		f.pool.mu.Unlock()
	}
}

// reopen opens the descriptor. The caller has a pin, so take leaves it open. After a failure, a
// panic of the file system included, the pin is given back, and so is what was reserved: other
// databases would wait for it.
func (f *file) reopen() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	open, reserved := f.state.Load()&fileOpen != 0, false
	defer func() {
		if reserved && !open {
			f.pool.unreserve(f.owner)
		}
		if !open {
			f.release()
		}
	}()
	if open {
		return nil
	}
	if f.held || f.left() { // a held one has been closed
		return base.ErrDatabaseClosed
	}
	p := f.pool
	p.reserve(f.owner)
	reserved = true
	d, err := f.openPath()
	if err != nil {
		if f.left() {
			return base.ErrDatabaseClosed
		}
		return err
	}
	stored := vfs.Stored(d, f.size)
	p.mu.Lock()
	if f.owner.closed { // the path may lead to another database's file now
		p.mu.Unlock()
		_ = d.Close()
		return base.ErrDatabaseClosed
	}
	open = true
	f.stored.Store(stored)
	f.descriptor = d
	f.index = len(p.ring)
	p.ring = append(p.ring, f)
	f.state.Or(fileOpen)
	p.mu.Unlock()
	return nil
}

// openPath opens the path, and compares the sizes.
func (f *file) openPath() (d vfs.ReadFile, err error) {
	err = f.pool.retry(func() (err error) {
		d, err = f.fs.Open(f.path)
		return err
	})
	if err == nil && d.Size() < f.size {
		err = base.Corruptf("table file", "the file has %d bytes, the manifest says %d", d.Size(),
			f.size).At(filepath.Base(f.path), d.Size(), 0)
		_ = d.Close()
	}
	return d, err
}

// openDescriptor opens the descriptor of a file that is held.
func (f *file) openDescriptor() error {
	d, err := f.openPath()
	if err != nil {
		return err
	}
	f.stored.Store(vfs.Stored(d, f.size))
	f.descriptor = d
	f.state.Or(fileOpen)
	return nil
}

// left reports whether the file's Set has left the directory.
func (f *file) left() bool {
	f.pool.mu.Lock()
	defer f.pool.mu.Unlock()
	return f.owner.closed
}

// Close closes the descriptor. No read is under way.
func (f *file) Close() error {
	p := f.pool
	p.mu.Lock()
	var d vfs.ReadFile
	if f.state.And(^uint64(fileOpen))&fileOpen != 0 && !f.held {
		d = p.remove(f)
	} else if f.held {
		d, f.descriptor = f.descriptor, nil
	}
	p.mu.Unlock()
	if d == nil {
		return nil
	}
	err := d.Close()
	if f.held {
		p.hold(f.owner, -1)
	} else {
		p.unreserve(f.owner)
	}
	return err
}

// tooMany reports whether the process or the system is out of descriptors.
func tooMany(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// missing reports whether there is no such file.
func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
