package world

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/loamdb/loam/lsm"
)

// reader is what databases, keyspaces, snapshots and transactions have for reading.
type reader interface {
	Get(key, dst []byte) ([]byte, error)
	GetNoFill(key, dst []byte) ([]byte, error)
	TryGet(key, dst []byte) ([]byte, error)
	GetPinned(key []byte, v *lsm.PinnedValue) error
	Has(key []byte) (bool, error)
	MultiGet(keys [][]byte, result *lsm.MultiResult) error
	Iter(o *lsm.IterOptions) *lsm.Iterator
	All(lower, upper []byte, err *error) iter.Seq2[[]byte, []byte]
	Backward(lower, upper []byte, err *error) iter.Seq2[[]byte, []byte]
	Prefix(prefix []byte, err *error) iter.Seq2[[]byte, []byte]
}

// ttlReader is a reader but for transactions.
type ttlReader interface {
	TTL(key []byte) (left time.Duration, expires bool, err error)
}

var reads = []step{
	{"read", 60, false, func(w *World) error {
		s := w.space()
		return w.read(w.store(s), s, w.m[s.life], w.now, nil)
	}},
	{"scan", 12, false, func(w *World) error {
		s := w.space()
		return w.scan(w.store(s), s, w.m[s.life], w.now, nil)
	}},
	{"open a snapshot", 12, false, (*World).openSnapshot},
	{"read a snapshot", 30, false, (*World).readSnapshot},
	{"open an iterator", 12, false, (*World).openCursor},
	{"move an iterator", 60, false, (*World).moveCursor},
	{"time", 12, true, (*World).passTime},
	{"feed", 25, false, (*World).readFeed},
	{"follow", 12, false, (*World).follow},
}

func same2(got []byte, err error, want value) error {
	if err != nil && !absent(err) || (err == nil) != want.ok || err == nil &&
		string(got) != want.v {
		return fmt.Errorf("%.60q, %w; want %v", got, err, want)
	}
	return nil
}

// read makes one point read of a keyspace that has values at a time. note, unless nil, is told
// which keys were read.
func (w *World) read(r reader, s *space, values []value, now int64, note func(from, to int)) error {
	i := w.rng.IntN(len(values))
	key, want := w.key(s, i), values[i].at(now)
	if note == nil {
		note = func(int, int) {}
	}
	how := w.rng.IntN(7)
	w.log("read %d of %s %q", how, s.name, key)
	if how < 6 {
		note(i, i+1)
	}
	switch how {
	case 0:
		v, err := r.Get(key, nil)
		return same2(v, err, want)
	case 1:
		v, err := r.GetNoFill(key, []byte("x"))
		return same2(bytes.TrimPrefix(v, []byte("x")), err, want)
	case 2:
		v, err := r.TryGet(key, nil)
		if errors.Is(err, lsm.ErrWouldBlock) {
			return nil
		}
		return same2(v, err, want)
	case 3:
		if ok, err := r.Has(key); err != nil || ok != want.ok {
			return fmt.Errorf("has %q: %v, %w; want %v", key, ok, err, want)
		}
	case 4:
		if t, ok := r.(ttlReader); ok {
			return sameTTL(t, key, values[i], now, w.now)
		}
		v, err := r.Get(key, nil) // of a transaction
		return same2(v, err, want)
	case 5:
		return w.pin(r, key, want)
	default:
		return w.multiGet(r, s, values, now, note)
	}
	return nil
}

// pinned is a value that is kept, and what it was.
type pinned struct {
	v    *lsm.PinnedValue
	want string
}

// pin reads a value by GetPinned and keeps some of them: they stay as they were, whatever becomes
// of the database.
func (w *World) pin(r reader, key []byte, want value) error {
	p := pinned{new(lsm.PinnedValue), want.v}
	err := r.GetPinned(key, p.v)
	if (err != nil) != (p.v.Bytes() == nil) {
		return fmt.Errorf("a pinned value of %q is %q, %w", key, p.v.Bytes(), err)
	}
	if err := same2(p.v.Bytes(), err, want); err != nil || !want.ok {
		return err
	}
	w.pinned = append(w.pinned, p)
	if len(w.pinned) > 3 {
		i := w.rng.IntN(len(w.pinned))
		err = w.pinned[i].release()
		w.pinned = slices.Delete(w.pinned, i, i+1)
	}
	return err
}

func (p pinned) release() error {
	if got := string(p.v.Bytes()); got != p.want {
		return fmt.Errorf("a pinned value has become %.60q, want %.60q", got, p.want)
	}
	p.v.Release()
	return nil
}

// sameTTL compares the time that a value of a state has left at present.
func sameTTL(r ttlReader, key []byte, v value, now, present int64) error {
	left, expires, err := r.TTL(key)
	want := v.at(now)
	switch {
	case !want.ok && absent(err):
	case err != nil || !want.ok || expires != (want.due != 0):
		return fmt.Errorf("ttl of %q: %v, %v, %w; want %v", key, left, expires, err, want)
	case expires && int64(left/time.Second) != max(0, want.due-present):
		return fmt.Errorf("ttl of %q: %v left at %d; want %v", key, left, now, want)
	}
	return nil
}

func (w *World) multiGet(r reader, s *space, values []value, now int64,
	note func(from, to int)) error {
	var keys [][]byte
	var at []int
	for range w.rng.IntN(30) {
		i := w.rng.IntN(len(values))
		note(i, i+1)
		at, keys = append(at, i), append(keys, w.key(s, i))
	}
	var result lsm.MultiResult
	if err := r.MultiGet(keys, &result); err != nil {
		return fmt.Errorf("multi get: %w", err)
	}
	if result.Len() != len(keys) {
		return fmt.Errorf("multi get of %d keys has %d values", len(keys), result.Len())
	}
	for n, i := range at {
		v, ok := result.Value(n)
		if want := values[i].at(now); ok != want.ok || string(v) != want.v {
			return fmt.Errorf("multi get of %q: %.60q, %v; want %v", keys[n], v, ok, want)
		}
	}
	return nil
}

// scan walks over a keyspace in both directions, or over a part, and over a prefix. note, unless
// nil, gets the positions of each walk.
func (w *World) scan(r reader, s *space, values []value, now int64, note func(from, to int)) error {
	if note == nil {
		note = func(int, int) {}
	}
	from, to := 0, len(values)
	var lower, upper []byte
	if w.rng.IntN(2) == 0 {
		from, to = w.stretch(s)
		lower, upper = w.key(s, from), w.key(s, to)
		if s.order.top == "" && to == len(values) {
			upper = nil
		}
	}
	note(from, to)
	var want []int
	for i := from; i < to; i++ {
		if values[i].at(now).ok {
			want = append(want, i)
		}
	}
	var err error
	if e := w.walk("all", r.All(lower, upper, &err), s, values, want); e != nil || err != nil {
		return fmt.Errorf("%s from %q to %q: %w", s.name, lower, upper, errors.Join(e, err))
	}
	slices.Reverse(want)
	if e := w.walk("backward", r.Backward(lower, upper, &err), s, values, want); e != nil ||
		err != nil {
		return fmt.Errorf("%s from %q to %q: %w", s.name, lower, upper, errors.Join(e, err))
	}
	if s.order.bytes {
		prefix := []byte(s.keys[w.rng.IntN(len(s.keys))])
		prefix = prefix[:w.rng.IntN(len(prefix)+1)]
		want = want[:0]
		for i := range values {
			if !bytes.HasPrefix([]byte(s.keys[i]), prefix) {
				continue
			}
			if note(i, i+1); values[i].at(now).ok {
				want = append(want, i)
			}
		}
		if e := w.walk("prefix", r.Prefix(prefix, &err), s, values, want); e != nil || err != nil {
			return fmt.Errorf("%s prefix %q: %w", s.name, prefix, errors.Join(e, err))
		}
	}
	return nil
}

// walk compares the entries of a sequence with those of the keys want.
func (w *World) walk(what string, entries iter.Seq2[[]byte, []byte], s *space, values []value,
	want []int) error {
	n := 0
	for k, v := range entries {
		i, err := s.find(k)
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if n >= len(want) || i != want[n] || string(v) != values[i].v {
			return fmt.Errorf("%s: entry %d is %q = %.60q, key %d; want %v of which %v", what, n, k,
				v, i, want, values[i])
		}
		n++
	}
	if n < len(want) {
		return fmt.Errorf("%s: %d entries of %d, key %q is missing: %v", what, n, len(want),
			s.keys[want[n]], values[want[n]])
	}
	return nil
}

// view compares all of a keyspace: each key by each kind of read, scans.
func (w *World) view(r reader, s *space, values []value, now int64) error {
	for i := range values {
		key, want := w.key(s, i), values[i].at(now)
		v, err := r.Get(key, nil)
		if err := same2(v, err, want); err != nil {
			return fmt.Errorf("%s: get %q: %w", s.name, key, err)
		}
		if t, ok := r.(ttlReader); ok && i%4 == 0 {
			if err := sameTTL(t, key, values[i], now, w.now); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
		}
	}
	if err := w.multiGet(r, s, values, now, func(int, int) {}); err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	return w.scan(r, s, values, now, nil)
}

// all compares all keyspaces of the database with the model.
func (w *World) all(what string) error { return w.compare(what, w.db, w.m) }

// compare compares all keyspaces of a database, which may be a copy, with a state.
func (w *World) compare(what string, db *lsm.DB, m state) error {
	if err := w.names(db); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	for _, s := range w.living() {
		var r reader = db
		if s.life != defaultLife {
			k, err := db.Keyspace(s.name, &lsm.KeyspaceOptions{ErrorIfMissing: true,
				MergeOperator: s.merge})
			if err != nil {
				return fmt.Errorf("%s: %w", what, err)
			}
			r = k
		}
		if err := w.view(r, s, m[s.life], w.now); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	return nil
}

// snapshot is a snapshot, what it has, and the keyspaces that there were.
type snapshot struct {
	s       *lsm.Snapshot
	m       state
	now     int64
	handles map[int]*lsm.Keyspace
	spaces  map[int]*space
}

func (w *World) openSnapshot() error {
	sn := &snapshot{w.db.Snapshot(), w.m.clone(), w.now, map[int]*lsm.Keyspace{}, map[int]*space{}}
	for _, s := range w.living() {
		sn.handles[s.life], sn.spaces[s.life] = s.ks, s
	}
	if w.snaps = append(w.snaps, sn); len(w.snaps) > 4 {
		i := w.rng.IntN(len(w.snaps))
		if err := w.snaps[i].s.Close(); err != nil {
			return err
		}
		w.snaps = slices.Delete(w.snaps, i, i+1)
	}
	return nil
}

// life draws a keyspace of a snapshot. It may be dropped since.
func (w *World) lifeOf(sn *snapshot) int {
	var lives []int
	for life := range sn.m {
		lives = append(lives, life)
	}
	slices.Sort(lives)
	return choose(w.rng, lives...)
}

func (w *World) readSnapshot() error {
	if len(w.snaps) == 0 {
		return nil
	}
	sn := choose(w.rng, w.snaps...)
	life := w.lifeOf(sn)
	r, s := sn.s.In(sn.handles[life]), sn.spaces[life]
	w.log("life %d of a snapshot", life)
	if w.rng.IntN(4) == 0 {
		return w.scan(r, s, sn.m[life], sn.now, nil)
	}
	return w.read(r, s, sn.m[life], sn.now, nil)
}

// cursor is an iterator and the part of the model that it walks over.
type cursor struct {
	it     *lsm.Iterator
	s      *space
	values []value // those that are there at its time
	lo, hi int
	at     int // -1: nowhere
	note   func(from, to int)
}

// newCursor opens an iterator over a keyspace that has values at a time.
func (w *World) newCursor(r reader, s *space, values []value, now int64) *cursor {
	c := &cursor{s: s, hi: len(values), at: -1}
	for _, v := range values {
		c.values = append(c.values, v.at(now))
	}
	o := &lsm.IterOptions{NoFillCache: w.rng.IntN(3) == 0}
	if w.rng.IntN(2) == 0 {
		c.lo, c.hi = w.stretch(s)
		o.Lower, o.Upper = w.key(s, c.lo), w.bound(s, c.hi)
	}
	c.it = r.Iter(o)
	w.log("iterator %p of %s, %d:%d", c, s.name, c.lo, c.hi)
	return c
}

// bound is key i as a bound; nil behind the last key.
func (w *World) bound(s *space, i int) []byte {
	if i == len(s.keys) {
		return nil
	}
	return w.key(s, i)
}

func (w *World) openCursor() error {
	if len(w.snaps) > 0 && w.rng.IntN(3) == 0 {
		sn := choose(w.rng, w.snaps...)
		life := w.lifeOf(sn)
		w.cursors = append(w.cursors, w.newCursor(sn.s.In(sn.handles[life]), sn.spaces[life],
			sn.m[life], sn.now))
	} else {
		s := w.space()
		w.cursors = append(w.cursors, w.newCursor(w.store(s), s, w.m[s.life], w.now))
	}
	if len(w.cursors) > 4 {
		c := w.cursors[0]
		w.cursors = w.cursors[1:]
		return c.it.Close()
	}
	return nil
}

func (w *World) moveCursor() error {
	if len(w.cursors) == 0 {
		return nil
	}
	return w.move(choose(w.rng, w.cursors...))
}

// find sets where the cursor is: at the first key from i on in a direction that has a value.
func (c *cursor) find(i, d int) {
	c.at = -1
	for ; i >= c.lo && i < c.hi; i += d {
		if c.note != nil {
			c.note(i, i+1)
		}
		if c.values[i].ok {
			c.at = i
			return
		}
	}
}

func (w *World) move(c *cursor) error {
	for range 1 + w.rng.IntN(6) {
		n := w.rng.IntN(len(c.s.keys) + 1)
		if n == len(c.s.keys) && c.s.order.top == "" {
			n--
		}
		var what string
		var ok bool
		switch r := w.rng.IntN(14); {
		case r == 0:
			what, ok = "first", c.it.First()
			c.find(c.lo, 1)
		case r == 1:
			what, ok = "last", c.it.Last()
			c.find(c.hi-1, -1)
		case r < 4:
			what, ok = "seek ge", c.it.SeekGE(w.key(c.s, n))
			c.find(max(n, c.lo), 1)
		case r < 6:
			what, ok = "seek lt", c.it.SeekLT(w.key(c.s, n))
			c.find(min(n, c.hi)-1, -1)
		case r < 10:
			what, ok = "next", c.it.Next()
			if c.at >= 0 {
				c.find(c.at+1, 1)
			}
		case r == 10 && w.rng.IntN(3) == 0 && c.note == nil:
			c.lo, c.hi = w.stretch(c.s)
			c.it.SetBounds(w.key(c.s, c.lo), w.bound(c.s, c.hi))
			what, c.at = "bounds", -1
		case r == 11 && w.rng.IntN(3) == 0 && c.note == nil:
			return w.blocks(c)
		default:
			what, ok = "prev", c.it.Prev()
			if c.at >= 0 {
				c.find(c.at-1, -1)
			}
		}
		w.log("%p %s %d: at %d", c, what, n, c.at)
		if err := c.check(ok); err != nil {
			return fmt.Errorf("%s: iterator %p of %s, bounds %d:%d: %w", what, c, c.s.name, c.lo,
				c.hi, err)
		}
	}
	return nil
}

func (c *cursor) check(ok bool) error {
	if ok != (c.at >= 0) || c.it.Valid() != ok {
		return fmt.Errorf("at an entry: %v, %w; want key %d", ok, c.it.Err(), c.at)
	}
	if !ok {
		return c.it.Err()
	}
	i, err := c.s.find(c.it.Key())
	if err != nil || i != c.at || string(c.it.Value()) != c.values[i].v {
		return fmt.Errorf("%q = %.60q, %w; want key %d, %v", c.it.Key(), c.it.Value(), err, c.at,
			c.values[c.at])
	}
	return nil
}

// blocks walks to the end by blocks of entries.
func (w *World) blocks(c *cursor) error {
	d, next := 1, c.it.NextBlock
	ok := c.it.First()
	c.find(c.lo, 1)
	if w.rng.IntN(2) == 0 {
		d, next = -1, c.it.PrevBlock
		ok = c.it.Last()
		c.find(c.hi-1, -1)
	}
	if err := c.check(ok); err != nil {
		return err
	}
	if ok {
		for {
			_, n := next(nil, 1+w.rng.IntN(9), 1<<20)
			if n == 0 {
				break
			}
			for range n {
				if c.at < 0 {
					return errors.New("blocks have more entries than the keyspace")
				}
				c.find(c.at+d, d)
			}
		}
	}
	c.at = -1
	return c.it.Err()
}

// passTime sets the clock ahead, sometimes far, or back. What expires is read, so that a clock
// that goes back brings nothing back.
func (w *World) passTime() error {
	switch w.rng.IntN(8) {
	case 0:
		w.clock.Store(choose(w.rng, 0, w.now-1, w.now-100, -1<<40))
		w.log("clock back to %d", w.clock.Load())
		return w.all("after the clock was set back")
	case 1:
		w.now += int64(w.rng.IntN(1000))
	default:
		w.now += int64(w.rng.IntN(5))
	}
	w.clock.Store(w.now)
	w.log("time %d", w.now)
	return w.all("after a while")
}

// straighten puts a clock right that was set back: what was merely read as expired is not
// stored.
func (w *World) straighten() { w.clock.Store(w.now) }

// deadline is a moment in seconds.
func deadline(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return min(t.Unix(), math.MaxInt64)
}
