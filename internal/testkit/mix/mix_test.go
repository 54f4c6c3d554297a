// Package mix runs random histories of all kinds of writes and reads in one: keyspaces, range
// deletes, merges, batches, snapshots, iterators, transactions, power cuts, repair and export,
// against arrays of values.
package mix

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/lsm"
)

const dir = "db"

// state is the values of the keys of all keyspaces; "" is no value.
type state [][]string

func (s state) clone() state {
	c := make(state, len(s))
	for i := range s {
		c[i] = slices.Clone(s[i])
	}
	return c
}

func (s state) equal(t state) bool {
	for i := range s {
		if !slices.Equal(s[i], t[i]) {
			return false
		}
	}
	return true
}

const (
	put = iota
	del
	merge
	delRange
)

// write is one operation: on keys[from], or on keys[from:to].
type write struct {
	kind, space, from, to int
	value                 string
	ttl                   int64 // of a put, in seconds; 0: it stays
	at                    int64 // when it was written
}

func (w write) String() string {
	v := w.value
	if len(v) > 12 {
		v = fmt.Sprintf("%s..%d", v[:12], len(v))
	}
	return fmt.Sprintf("%s %d %d:%d %s", []string{"put", "del", "merge", "delrange"}[w.kind],
		w.space, w.from, w.to, v)
}

// deadlines are those of the keys of all keyspaces whose values expire.
type deadlines map[[2]int]int64

// apply applies a write at its time, before which some values may have expired.
func (d deadlines) apply(s state, w write) {
	d.expire(s, w.at)
	k := [2]int{w.space, w.from}
	switch w.kind {
	case put, del:
		if delete(d, k); w.ttl > 0 {
			d[k] = w.at + w.ttl
		}
	case delRange:
		for i := w.from; i < w.to; i++ {
			delete(d, [2]int{w.space, i})
		}
	}
	s.apply(w)
}

// expire removes what has expired by now.
func (d deadlines) expire(s state, now int64) {
	for k, deadline := range d {
		if deadline <= now {
			s[k[0]][k[1]] = ""
			delete(d, k)
		}
	}
}

func (s state) apply(w write) {
	values := s[w.space]
	switch w.kind {
	case put:
		values[w.from] = w.value
	case del:
		values[w.from] = ""
	case merge:
		if values[w.from] != "" {
			values[w.from] += ","
		}
		values[w.from] += w.value
	case delRange:
		for i := w.from; i < w.to; i++ {
			values[i] = ""
		}
	}
}

type cursor struct {
	it     *lsm.Iterator
	space  int
	values []string
	lo, hi int
	at     int // -1: nowhere
}

type snap struct {
	s *lsm.Snapshot
	m state
}

type world struct {
	rng     *rand.Rand
	prefix  string
	shared  bool
	fs      *vfs.Mem
	opts    lsm.Options
	db      *lsm.DB
	spaces  []*lsm.Keyspace
	keys    [][]string // in the order of each
	m       state
	version int
	written [][]int
	snaps   []*snap
	cursors []*cursor
	txns    []*txn
	synced  state
	since   [][]write
	expires bool // some values do
	now     *atomic.Int64
	due     deadlines // of m
	dueThen deadlines // of synced
	trace   []string
}

var names = []string{"default", "one", "reverse"}

func concat() *lsm.MergeOperator {
	return &lsm.MergeOperator{Name: "test.Concat",
		Full: func(dst, key, existing []byte, operands [][]byte) ([]byte, error) {
			dst = append(dst, existing...)
			for i, o := range operands {
				if i > 0 || existing != nil {
					dst = append(dst, ',')
				}
				dst = append(dst, o...)
			}
			return dst, nil
		}}
}

func newWorld(seed uint64, prefix string, n int) *world {
	rng := rand.New(rand.NewPCG(seed, 77))
	w := &world{rng: rng, prefix: prefix}
	for s := range names {
		var keys []string
		for i := range n {
			keys = append(keys, fmt.Sprintf("%sk%05d", prefix, i*7))
		}
		if s == 2 {
			slices.Reverse(keys)
		}
		w.keys = append(w.keys, keys)
		w.m = append(w.m, make([]string, n))
		w.written = append(w.written, make([]int, n))
	}
	w.synced = w.m.clone()
	w.due, w.dueThen = deadlines{}, deadlines{}
	w.now = new(atomic.Int64)
	w.now.Store(1_000_000)
	w.opts = lsm.Options{Clock: func() time.Time {
		return time.Unix(w.now.Load(), 0)
	}, Format: lsm.FormatNative, WriteBufferSize: []int64{64 << 10, 128 << 10, 1 << 20}[rng.IntN(
		3)], MaxFileSize: []int64{64 << 10, 128 << 10, 1 << 20}[rng.IntN(3)],
		BlockSize: []int{512, 4096}[rng.IntN(2)], L0Compaction: 2 + rng.IntN(4),
		MergeOperator: lsm.MergeOperatorNamed("append"), CacheSize: 1 << 20}
	if rng.IntN(3) == 0 {
		w.opts.MaxMergeOperands = 3
	}
	return w
}

func (w *world) open() error {
	o := w.opts
	o.FS = w.fs
	db, err := lsm.Open(dir, &o)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	w.db = db
	return w.openSpaces()
}

func (w *world) openSpaces() error {
	w.spaces = nil
	for i, n := range names {
		o := &lsm.KeyspaceOptions{MergeOperator: lsm.MergeOperatorNamed("append")}
		if i == 2 {
			o.MergeOperator, o.Comparer = concat(), lsm.ReverseBytewiseComparer
		}
		k, err := w.db.Keyspace(n, o)
		if err != nil {
			return fmt.Errorf("keyspace %s: %w", n, err)
		}
		w.spaces = append(w.spaces, k)
	}
	return nil
}

func (w *world) log(f string, a ...any) { w.trace = append(w.trace, fmt.Sprintf(f, a...)) }

func (w *world) bytes(space, i int) []byte {
	if i == len(w.keys[space]) {
		if space == 2 {
			return []byte(w.prefix + "a")
		}
		return []byte(w.prefix + "z")
	}
	return []byte(w.keys[space][i])
}

func (w *world) draw() write {
	n := len(w.keys[0])
	x := write{space: w.rng.IntN(3), from: w.rng.IntN(n)}
	switch r := w.rng.IntN(100); {
	case r < 50:
		x.kind = put
	case r < 62:
		x.kind = del
	case r < 94:
		x.kind = merge
	default:
		x.kind = delRange
		x.to = min(n, x.from+w.rng.IntN(1<<w.rng.IntN(9)))
	}
	if x.kind == put || x.kind == merge {
		x.value = strconv.Itoa(w.rng.IntN(1e6))
		if w.rng.IntN(8) == 0 {
			x.value = strings.Repeat(x.value, 1+w.rng.IntN(400))
		}
		if x.kind == merge && len(w.m[x.space][x.from]) > 20000 {
			x.kind = put
		}
		if x.kind == put && w.expires && w.rng.IntN(4) == 0 {
			x.ttl = 1 + int64(w.rng.IntN(20))
		}
	}
	return x
}

// wrote puts writes that succeeded together into the model.
func (w *world) wrote(ws []write, sync bool) {
	w.version++
	for i := range ws {
		ws[i].at = w.now.Load()
		x := ws[i]
		w.due.apply(w.m, x)
		if x.kind == delRange {
			for i := x.from; i < x.to; i++ {
				w.written[x.space][i] = w.version
			}
		} else {
			w.written[x.space][x.from] = w.version
		}
	}
	if sync {
		w.synced, w.dueThen, w.since = w.m.clone(), maps.Clone(w.due), nil
	} else {
		w.since = append(w.since, ws)
	}
}

func (w *world) mode() (lsm.WriteMode, bool) {
	if w.rng.IntN(60) == 0 {
		return lsm.Sync, true
	}
	return lsm.NoSync, false
}

func (w *world) single() error {
	x := w.draw()
	mode, sync := w.mode()
	w.log("%v sync %v", x, sync)
	k := w.spaces[x.space]
	key := w.bytes(x.space, x.from)
	var err error
	switch x.kind {
	case put:
		if x.ttl > 0 {
			err = k.PutTTL(key, []byte(x.value), time.Duration(x.ttl)*time.Second, mode)
		} else {
			err = k.Put(key, []byte(x.value), mode)
		}
	case del:
		err = k.Delete(key, mode)
	case merge:
		err = k.Merge(key, []byte(x.value), mode)
	case delRange:
		err = k.DeleteRange(key, w.bytes(x.space, x.to), mode)
	}
	if err != nil {
		return err
	}
	w.wrote([]write{x}, sync)
	return nil
}

func (w *world) batch() error {
	b := lsm.NewBatch()
	var ws []write
	for range 1 + w.rng.IntN(1<<w.rng.IntN(8)) {
		x := w.draw()
		ws = append(ws, x)
		in := b.In(w.spaces[x.space])
		key := w.bytes(x.space, x.from)
		switch x.kind {
		case put:
			if x.ttl > 0 {
				in.PutTTL(key, []byte(x.value), time.Duration(x.ttl)*time.Second)
			} else {
				in.Put(key, []byte(x.value))
			}
		case del:
			in.Delete(key)
		case merge:
			in.Merge(key, []byte(x.value))
		case delRange:
			in.DeleteRange(key, w.bytes(x.space, x.to))
		}
	}
	mode, sync := w.mode()
	w.log("batch %v sync %v", ws, sync)
	var err error
	if w.rng.IntN(2) == 0 {
		err = w.db.Write(b, mode)
	} else {
		err = w.db.WriteBytes(slices.Clone(b.Bytes()), mode)
	}
	if err != nil {
		return err
	}
	w.wrote(ws, sync)
	return nil
}

func check(what string, got []byte, err error, want string) error {
	if err != nil && !errors.Is(err, lsm.ErrNotFound) || (err != nil) != (want == "") ||
		string(got) != want {
		return fmt.Errorf("%s: %.60q, %v; want %.60q", what, got, err, want)
	}
	return nil
}

// reader is what databases, keyspaces, snapshots and transactions have.
type reader interface {
	Get(key, dst []byte) ([]byte, error)
	Has(key []byte) (bool, error)
	MultiGet(keys [][]byte, result *lsm.MultiResult) error
	Iter(o *lsm.IterOptions) *lsm.Iterator
}

func (w *world) reads(what string, r reader, space int, m []string, t *txn) error {
	i := w.rng.IntN(len(m))
	key := w.bytes(space, i)
	w.log("read %s %d %d", what, space, i)
	how := w.rng.IntN(4)
	if t != nil && how < 3 {
		t.reads = append(t.reads, [3]int{space, i, i + 1})
	}
	switch how {
	case 0, 1:
		v, err := r.Get(key, nil)
		return check(what+" get "+string(key), v, err, m[i])
	case 2:
		ok, err := r.Has(key)
		if err != nil || ok != (m[i] != "") {
			return fmt.Errorf("%s has %s: %v, %v, want %.40q", what, key, ok, err, m[i])
		}
	default:
		var keys [][]byte
		var at []int
		for range 1 + w.rng.IntN(40) {
			j := w.rng.IntN(len(m))
			at = append(at, j)
			keys = append(keys, w.bytes(space, j))
			if t != nil {
				t.reads = append(t.reads, [3]int{space, j, j + 1})
			}
		}
		var res lsm.MultiResult
		if err := r.MultiGet(keys, &res); err != nil {
			return err
		}
		for n, j := range at {
			v, ok := res.Value(n)
			if ok != (m[j] != "") || string(v) != m[j] {
				return fmt.Errorf("%s multiget %s: %.60q %v, want %.60q", what, keys[n], v, ok,
					m[j])
			}
		}
	}
	return nil
}

func (w *world) scan(what string, r reader, space int, m []string) error {
	w.log("scan %s %d", what, space)
	it := r.Iter(&lsm.IterOptions{Lower: w.bytes(space, 0), Upper: w.bytes(space, len(m))})
	i := -1
	next := func(d int) string {
		for i += d; i >= 0 && i < len(m); i += d {
			if m[i] != "" {
				return w.keys[space][i]
			}
		}
		return ""
	}
	for ok := it.First(); ; ok = it.Next() {
		want := next(1)
		if ok != (want != "") || ok && (string(it.Key()) != want || string(it.Value()) != m[i]) {
			return fmt.Errorf("%s scan %d: %q=%.80q, want %q=%.80q", what, space, it.Key(),
				it.Value(), want, m[max(0, min(i, len(m)-1))])
		}
		if !ok {
			break
		}
	}
	i = len(m)
	for ok := it.Last(); ; ok = it.Prev() {
		want := next(-1)
		if ok != (want != "") || ok && (string(it.Key()) != want || string(it.Value()) != m[i]) {
			return fmt.Errorf("%s scan %d back: %q=%.80q, want %q=%.80q", what, space, it.Key(),
				it.Value(), want, m[max(0, min(i, len(m)-1))])
		}
		if !ok {
			break
		}
	}
	return it.Close()
}

func (w *world) newCursor(r reader, space int, m []string) *cursor {
	c := &cursor{space: space, values: slices.Clone(m), hi: len(m), at: -1}
	if w.rng.IntN(2) == 0 {
		c.lo = w.rng.IntN(len(m))
		c.hi = c.lo + w.rng.IntN(len(m)-c.lo+1)
	}
	c.it = r.Iter(&lsm.IterOptions{Lower: w.bytes(space, c.lo), Upper: w.bytes(space, c.hi)})
	w.log("cursor %p of %d, %d:%d", c, space, c.lo, c.hi)
	return c
}

func (c *cursor) find(i, d int) {
	c.at = -1
	for i = max(min(i, c.hi), c.lo-1); i >= c.lo-1 && i <= c.hi; i += d {
		if i >= c.lo && i < c.hi && c.values[i] != "" {
			c.at = i
			return
		}
	}
}

func (w *world) move(c *cursor) error {
	for range 1 + w.rng.IntN(6) {
		var ok bool
		n := w.rng.IntN(len(c.values) + 1)
		what := ""
		switch r := w.rng.IntN(12); {
		case r == 0:
			what, ok = "first", c.it.First()
			c.find(c.lo, 1)
		case r == 1:
			what, ok = "last", c.it.Last()
			c.find(c.hi-1, -1)
		case r < 4:
			what, ok = "seekge", c.it.SeekGE(w.bytes(c.space, n))
			c.find(max(n, c.lo), 1)
		case r < 6:
			what, ok = "seeklt", c.it.SeekLT(w.bytes(c.space, n))
			c.find(min(n, c.hi)-1, -1)
		case r < 9:
			what, ok = "next", c.it.Next()
			if c.at >= 0 {
				c.find(c.at+1, 1)
			}
		case r == 9 && w.rng.IntN(4) == 0:
			c.lo = w.rng.IntN(len(c.values))
			c.hi = c.lo + w.rng.IntN(len(c.values)-c.lo+1)
			c.it.SetBounds(w.bytes(c.space, c.lo), w.bytes(c.space, c.hi))
			c.at, what = -1, "bounds"
		default:
			what, ok = "prev", c.it.Prev()
			if c.at >= 0 {
				c.find(c.at-1, -1)
			}
		}
		w.log("%p %s %d -> %d", c, what, n, c.at)
		if ok != (c.at >= 0) || ok && (string(c.it.Key()) != w.keys[c.space][c.at] ||
			string(c.it.Value()) != c.values[c.at]) {
			return fmt.Errorf("cursor %p in %d %s %d: %v %q=%.50q %v; want %d (bounds %d %d)", c,
				c.space, what, n, ok, c.it.Key(), c.it.Value(), c.it.Err(), c.at, c.lo, c.hi)
		}
	}
	return nil
}

func (w *world) swap() error {
	x := w.draw()
	x.kind, x.ttl = put, 0
	if x.value == "" {
		x.value = "s"
	}
	k, key, old := w.spaces[x.space], w.bytes(x.space, x.from), w.m[x.space][x.from]
	w.log("cas %v", x)
	if w.rng.IntN(3) == 0 {
		done, err := k.PutIfAbsent(key, []byte(x.value), lsm.NoSync)
		if err != nil || done != (old == "") {
			return fmt.Errorf("put if absent: %v, %v, there was %.40q", done, err, old)
		}
		if done {
			w.wrote([]write{x}, false)
		}
		return nil
	}
	var was []byte
	if old != "" {
		was = []byte(old)
	}
	wrong := w.rng.IntN(3) == 0
	if wrong {
		was = append(was, 'x')
	}
	var value []byte
	if w.rng.IntN(4) == 0 {
		x.kind = del
	} else {
		value = []byte(x.value)
	}
	done, err := k.CompareAndSwap(key, was, value, lsm.NoSync)
	if err != nil || done == wrong {
		return fmt.Errorf("compare and swap: %v, %v, wrong %v", done, err, wrong)
	}
	if done {
		w.wrote([]write{x}, false)
	}
	return nil
}

func (w *world) step() error {
	switch r := w.rng.IntN(200); {
	case r < 70:
		return w.single()
	case r < 85:
		return w.batch()
	case r < 92:
		return w.swap()
	case r < 110:
		s := w.rng.IntN(3)
		return w.reads("get", w.spaces[s], s, w.m[s], nil)
	case r < 112:
		s := w.rng.IntN(3)
		return w.scan("now", w.spaces[s], s, w.m[s])
	case r < 116:
		w.log("snapshot")
		w.snaps = append(w.snaps, &snap{w.db.Snapshot(), w.m.clone()})
		if len(w.snaps) > 5 {
			i := w.rng.IntN(len(w.snaps))
			w.snaps[i].s.Close()
			w.snaps = slices.Delete(w.snaps, i, i+1)
		}
	case r < 126 && len(w.snaps) > 0:
		s, k := w.snaps[w.rng.IntN(len(w.snaps))], w.rng.IntN(3)
		if w.rng.IntN(5) == 0 {
			return w.scan("snapshot", s.s.In(w.spaces[k]), k, s.m[k])
		}
		return w.reads("snapshot", s.s.In(w.spaces[k]), k, s.m[k], nil)
	case r < 130:
		k := w.rng.IntN(3)
		var c *cursor
		if len(w.snaps) > 0 && w.rng.IntN(2) == 0 {
			s := w.snaps[w.rng.IntN(len(w.snaps))]
			c = w.newCursor(s.s.In(w.spaces[k]), k, s.m[k])
		} else {
			c = w.newCursor(w.spaces[k], k, w.m[k])
		}
		w.cursors = append(w.cursors, c)
		if len(w.cursors) > 5 {
			if err := w.cursors[0].it.Close(); err != nil {
				return err
			}
			w.cursors = w.cursors[1:]
		}
	case r < 155 && len(w.cursors) > 0:
		return w.move(w.cursors[w.rng.IntN(len(w.cursors))])
	case r < 157 && len(w.txns) < 3:
		w.begin()
	case r < 195 && len(w.txns) > 0:
		return w.inTxn(w.rng.IntN(len(w.txns)))
	case r == 198 && w.expires:
		w.now.Add(int64(w.rng.IntN(5)))
		w.due.expire(w.m, w.now.Load())
		w.log("time %d", w.now.Load())
	case r == 195 && w.rng.IntN(3) == 0:
		w.log("flush")
		return w.spaces[w.rng.IntN(3)].Flush()
	case r == 196 && w.rng.IntN(4) == 0:
		k := w.rng.IntN(3)
		if w.rng.IntN(2) == 0 {
			return w.spaces[k].CompactRange(nil, nil)
		}
		i := w.rng.IntN(len(w.keys[k]))
		j := i + w.rng.IntN(len(w.keys[k])-i)
		w.log("compact %d %d:%d", k, i, j)
		return w.spaces[k].CompactRange(w.bytes(k, i), w.bytes(k, j))
	case r == 197 && !w.shared && w.rng.IntN(6) == 0:
		return w.reopen()
	}
	return nil
}

func (w *world) fail(t *testing.T, seed uint64, step int, err error) {
	tail := w.trace
	if n := amount("MIX_TRACE", 60); len(tail) > n {
		tail = tail[len(tail)-n:]
	}
	if os.Getenv("MIX_TRACE") == "" {
		tail = nil
	}
	t.Errorf("seed %d, step %d: %.600v\n%s", seed, step, err, strings.Join(tail, "\n"))
}

func single(t *testing.T, seed uint64, steps int) {
	w := newWorld(seed, "", []int{10, 60, 400}[seed%3])
	w.expires = seed%2 == 0
	w.fs = vfs.NewMem()
	if err := w.open(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		w.release()
		w.db.Close()
	}()
	for i := range steps {
		if err := w.step(); err != nil {
			w.fail(t, seed, i, err)
			return
		}
	}
	if err := w.all("end"); err != nil {
		w.fail(t, seed, steps, err)
	}
}

func several(t *testing.T, seed uint64, steps int) {
	base := newWorld(seed, "", 10)
	base.fs = vfs.NewMem()
	if err := base.open(); err != nil {
		t.Fatal(err)
	}
	defer base.db.Close()
	var wg sync.WaitGroup
	var ws []*world
	for g := range 4 {
		w := newWorld(seed*100+uint64(g), fmt.Sprintf("g%d", g), 100)
		w.shared, w.db, w.spaces = true, base.db, base.spaces
		ws = append(ws, w)
		wg.Add(1)
		go func() {
			defer wg.Done()
			defer w.release()
			for i := range steps {
				if err := w.step(); err != nil {
					w.fail(t, seed, i, fmt.Errorf("goroutine %d: %w", g, err))
					return
				}
			}
			if err := w.all("end"); err != nil {
				w.fail(t, seed, steps, err)
			}
		}()
	}
	wg.Wait()
	fs := base.fs.CrashClone(vfs.KeepAll())
	c := *base
	c.fs = fs
	if err := c.open(); err != nil {
		t.Fatal(err)
	}
	defer c.db.Close()
	for _, w := range ws {
		w.db, w.spaces = c.db, c.spaces
		if err := w.all("killed"); err != nil {
			w.fail(t, seed, steps, err)
		}
	}
}

func amount(name string, n int) int {
	if v, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return v
	}
	return n
}

func TestMix(t *testing.T) {
	start := uint64(amount("MIX_SEED", rand.IntN(1e9)))
	n := amount("MIX_N", 3)
	t.Logf("MIX_SEED=%d MIX_N=%d", start, n)
	for seed := start; seed < start+uint64(n); seed++ {
		single(t, seed, amount("MIX_STEPS", 4000))
	}
}

func TestMixSeveral(t *testing.T) {
	start := uint64(amount("MIX_SEED", rand.IntN(1e9)))
	n := amount("MIX_N", 1)
	t.Logf("MIX_SEED=%d MIX_N=%d", start, n)
	for seed := start; seed < start+uint64(n); seed++ {
		several(t, seed, amount("MIX_STEPS", 4000))
	}
}
