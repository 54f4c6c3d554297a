package equalkeys

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/model"
	"github.com/loamdb/loam/internal/testkit/seed"
	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/dump"
)

var ctx = context.Background()

// run is a history.
type run struct {
	t      *testing.T
	rng    *rand.Rand
	fs     *vfs.Mem
	o      *lsm.Options
	now    int64
	db     *lsm.DB
	orders [2]order
	names  [2]string
	spaces [2]*lsm.Keyspace
	want   [2]*space
	files  int
	pad    int // values are shorter
	snaps  []snapshot
	log    []string
}

type snapshot struct {
	*lsm.Snapshot
	at moment
}

// TestEqualKeys does random operations and compares all reads with the model.
func TestEqualKeys(t *testing.T) {
	histories := seed.Scale(40, 40, 2000)
	first := uint64(seed.Of(t))
	for i := range histories {
		history(t, first+uint64(i))
		if t.Failed() {
			return
		}
	}
}

func history(t *testing.T, number uint64) {
	rng := rand.New(rand.NewPCG(number, 11))
	r := &run{t: t, rng: rng, fs: vfs.NewMem(), now: 1_000_000, pad: 1 + rng.IntN(2)*8000,
		names: [2]string{"default", "other"}}
	for i := range r.orders {
		r.orders[i] = orders[rng.IntN(len(orders))]
		r.want[i] = &space{Model: model.New((*base.Comparer)(r.orders[i].cmp))}
	}
	r.o = &lsm.Options{
		FS: r.fs, Comparer: r.orders[0].cmp, Comparers: []*lsm.Comparer{r.orders[1].cmp},
		MergeOperator: lsm.MergeOperatorNamed("append"), Clock: func() time.Time {
			return time.Unix(r.now, 0)
		},
		WriteBufferSize: 64 << 10, MaxFileSize: 64 << 10, BlockSize: 256, BlockRestartInterval: 1 +
			rng.IntN(3),
		DisableCompaction: rng.IntN(2) == 0,
	}
	r.open()
	defer func() {
		if t.Failed() {
			t.Logf("history %d, %s, %s:\n%s", number, r.orders[0].cmp.Name, r.orders[1].cmp.Name,
				strings.Join(r.log, "\n"))
		}
	}()
	for step := 0; step < 120 && !t.Failed(); step++ {
		r.step()
	}
	r.check()
	r.copies()
	r.close()
}

func (r *run) ok(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatalf("%v, after:\n%s", err, strings.Join(r.log, "\n"))
	}
}

func (r *run) say(format string, args ...any) {
	r.log = append(r.log, fmt.Sprintf(format, args...))
}

func (r *run) open() {
	db, err := lsm.Open("db", r.o)
	r.ok(err)
	r.db = db
	for i, name := range r.names {
		k, err := db.Keyspace(name, &lsm.KeyspaceOptions{Comparer: r.orders[i].cmp,
			MergeOperator: r.o.MergeOperator})
		r.ok(err)
		r.spaces[i] = k
		r.want[i].ttl = 0
	}
}

func (r *run) close() {
	for _, s := range r.snaps {
		r.ok(s.Close())
	}
	r.snaps = nil
	r.ok(r.db.Close())
}

func (r *run) present() moment {
	return moment{[]base.SeqNum{r.want[0].Now(), r.want[1].Now()}, r.now}
}

func (r *run) op() op {
	o := op{space: r.rng.IntN(2), kind: kind(r.rng.IntN(int(kinds)))}
	o.key = string(r.orders[o.space].spell(r.rng))
	o.value = fmt.Sprint(len(r.log), r.rng.IntN(1000))
	switch o.kind {
	case clear:
		o.value = string(r.orders[o.space].spell(r.rng))
		if r.orders[o.space].cmp.Compare([]byte(o.key), []byte(o.value)) > 0 {
			o.key, o.value = o.value, o.key
		}
	case putTTL:
		o.ttl = int64(1 + r.rng.IntN(40))
	}
	if o.kind == put || o.kind == putTTL {
		o.pad = r.rng.IntN(2) * r.rng.IntN(r.pad)
	}
	return o
}

func (r *run) ops() (ops []op) {
	for range 1 + r.rng.IntN(7) {
		ops = append(ops, r.op())
	}
	return ops
}

func (r *run) apply(ops ...op) {
	for _, o := range ops {
		r.want[o.space].apply(o, r.now)
	}
}

func (r *run) step() {
	i := r.rng.IntN(2)
	k := r.spaces[i]
	switch r.rng.IntN(20) {
	case 0, 1, 2, 3:
		o := r.op()
		r.say("%+v", o)
		r.ok(o.single(r.spaces[o.space]))
		r.apply(o)
	case 4, 5, 6, 7:
		r.batch()
	case 8, 9:
		r.txn()
	case 10:
		r.say("flush %d", i)
		r.ok(k.Flush())
	case 11:
		r.say("compact %d", i)
		r.ok(k.CompactRange(nil, nil))
	case 12, 13:
		r.ingest(i)
	case 14:
		r.now += int64(r.rng.IntN(15))
		r.say("now %d", r.now)
	case 15:
		r.swap(i)
	case 16:
		if len(r.snaps) > 2 {
			r.ok(r.snaps[0].Close())
			r.snaps = r.snaps[1:]
		}
		r.snaps = append(r.snaps, snapshot{r.db.Snapshot(), r.present()})
		r.say("snapshot")
	case 17:
		r.want[i].ttl = int64(r.rng.IntN(2) * (1 + r.rng.IntN(30)))
		r.say("default ttl of %d %d", i, r.want[i].ttl)
		r.ok(k.SetOption("default_ttl", fmt.Sprint(r.want[i].ttl)))
	case 18:
		if r.rng.IntN(3) == 0 {
			r.say("reopen")
			r.close()
			r.open()
		}
	default:
		r.check()
	}
}

// batch writes a batch to either keyspace, as it is or by its bytes.
func (r *run) batch() {
	ops, to, bytes := r.ops(), r.rng.IntN(2), r.rng.IntN(2) == 0
	r.say("batch to %d, bytes %v: %+v", to, bytes, ops)
	b := lsm.NewBatch()
	if r.rng.IntN(4) == 0 && !bytes {
		b = r.spaces[to].NewBatch()
	}
	for _, o := range ops {
		switch {
		case o.space == to && r.rng.IntN(2) == 0:
			o.write(b)
		case o.space == 0 && r.rng.IntN(2) == 0:
			o.write(b.In(nil))
		default:
			o.write(b.In(r.spaces[o.space]))
		}
	}
	if bytes {
		r.ok(r.spaces[to].WriteBytes(b.Bytes(), lsm.NoSync))
	} else {
		r.ok(r.spaces[to].Write(b, lsm.NoSync))
	}
	r.apply(ops...)
}

// txn writes in a transaction, which sees its writes.
func (r *run) txn() {
	ops, lock := r.ops(), r.rng.IntN(2) == 0
	r.say("transaction, lock %v: %+v", lock, ops)
	tx := r.db.Begin(&lsm.TxnOptions{Lock: lock})
	defer tx.Rollback()
	for _, o := range ops {
		in := tx.In(r.spaces[o.space])
		if o.kind == clear && lock {
			o.kind = del
		}
		r.ok(o.inTxn(in))
		if s := r.want[o.space]; s.ttl == 0 {
			r.apply(o)
			key := r.orders[o.space].spell(r.rng)
			got, err := in.Get(key, nil)
			r.same("own write", o.space, key, got, err, r.present())
			continue
		}
		r.apply(o)
	}
	r.ok(tx.Commit(lsm.NoSync))
}

// swap compares and swaps.
func (r *run) swap(i int) {
	key, value := r.orders[i].spell(r.rng), fmt.Sprint("swap", len(r.log))
	s := r.want[i]
	old, _, there := s.get(s.Now(), key, r.now)
	r.say("swap %d %q %q", i, key, value)
	var done bool
	var err error
	switch was := []byte(old); {
	case r.rng.IntN(4) == 0:
		done, err = r.spaces[i].CompareAndSwap(key, []byte(old+"x"), []byte(value), lsm.NoSync)
		if done {
			r.t.Errorf("swapped %q", key)
		}
		r.ok(err)
		return
	case there:
		done, err = r.spaces[i].CompareAndSwap(key, was, []byte(value), lsm.NoSync)
	default:
		done, err = r.spaces[i].PutIfAbsent(key, []byte(value), lsm.NoSync)
	}
	r.ok(err)
	if !done {
		r.t.Errorf("keyspace %d: %q was not swapped: there %v", i, key, there)
	}
	r.apply(op{space: i, kind: put, key: string(key), value: value})
}

// ingest writes a table and takes it in, sometimes instead of a range.
func (r *run) ingest(i int) {
	cmp := r.orders[i].cmp.Compare
	var ops []op
	for range 1 + r.rng.IntN(6) {
		o := r.op()
		if o.space == i && o.kind != merge {
			ops = append(ops, o)
		}
	}
	slices.SortStableFunc(ops, func(a, b op) int { return cmp([]byte(a.key), []byte(b.key)) })
	ops = slices.CompactFunc(ops, func(a, b op) bool {
		return cmp([]byte(a.key), []byte(b.key)) == 0 && a.kind != clear && b.kind != clear
	})
	keep := ops[:0]
	var last *op
	for _, o := range ops { // points ascend, and ranges cover something
		if o.kind == clear {
			if cmp([]byte(o.key), []byte(o.value)) < 0 {
				keep = append(keep, o)
			}
			continue
		}
		if last != nil && cmp([]byte(last.key), []byte(o.key)) == 0 {
			continue
		}
		last = &o
		keep = append(keep, o)
	}
	ops = keep
	if len(ops) == 0 {
		return
	}
	r.files++
	path := fmt.Sprint("table", r.files)
	o := *r.o
	o.Comparer = r.orders[i].cmp
	w, err := lsm.NewTableWriter(path, &o)
	r.ok(err)
	var io lsm.IngestOptions
	lower, upper := []byte(ops[0].key), []byte(nil)
	for _, o := range ops {
		key, value := []byte(o.key), []byte(o.data())
		end := append(bytes.Clone(key), 0)
		switch o.kind {
		case put:
			err = w.Put(key, value)
		case putTTL:
			err = w.PutTTL(key, value, time.Duration(o.ttl)*time.Second)
		case del:
			err = w.Delete(key)
		case clear:
			err, end = w.DeleteRange(key, value), value
		}
		r.ok(err)
		if upper == nil || cmp(upper, end) < 0 {
			upper = end
		}
	}
	r.ok(w.Finish())
	if r.rng.IntN(3) == 0 {
		a, b := r.orders[i].spell(r.rng), r.orders[i].spell(r.rng)
		for _, key := range [][]byte{a, b} {
			if cmp(key, lower) < 0 {
				lower = key
			}
			if cmp(upper, key) < 0 {
				upper = key
			}
		}
		inside := true
		for _, o := range ops {
			inside = inside && cmp([]byte(o.key), upper) < 0
		}
		if inside {
			io.Excise = &lsm.Range{Start: lower, Limit: upper}
		}
	}
	r.say("ingest into %d, excise %q: %+v", i, io.Excise, ops)
	r.ok(r.spaces[i].Ingest(ctx, &io, path))
	s := r.want[i]
	ttl := s.ttl
	s.ttl = 0 // a table has what it was given
	if io.Excise != nil {
		r.apply(op{space: i, kind: clear, key: string(lower), value: string(upper)})
	}
	for _, ranges := range []bool{true, false} {
		for _, o := range ops {
			if (o.kind == clear) == ranges {
				r.apply(o)
			}
		}
	}
	s.ttl = ttl
}

// reader is a keyspace or a snapshot of it.
type reader interface {
	Get(key, dst []byte) ([]byte, error)
	Has(key []byte) (bool, error)
	MultiGet(keys [][]byte, result *lsm.MultiResult) error
	TTL(key []byte) (left time.Duration, expires bool, err error)
	Iter(o *lsm.IterOptions) *lsm.Iterator
}

// same compares what a read of a key found.
func (r *run) same(what string, i int, key, got []byte, err error, at moment) {
	r.t.Helper()
	want, _, there := r.want[i].get(at.at[i], key, at.now)
	if there != (err == nil) || there && string(got) != want || err != nil &&
		!errors.Is(err, lsm.ErrNotFound) {
		r.t.Errorf("%s: keyspace %d: %q has %.40q, %v; want %.40q, %v", what, i, key, got, err,
			want, there)
	}
}

// check compares present reads and those of snapshots.
func (r *run) check() {
	r.say("check")
	for i := range r.spaces {
		at := r.present()
		r.read(fmt.Sprint("at ", r.now), i, r.spaces[i], at)
		for _, s := range r.snaps {
			r.read(fmt.Sprint("snapshot of ", s.at.now), i, s.In(r.spaces[i]), s.at)
		}
	}
	r.ok(r.db.Verify(ctx, nil))
}

func (r *run) read(what string, i int, from reader, at moment) {
	r.t.Helper()
	s, cmp := r.want[i], r.orders[i]
	var keys [][]byte
	for range 12 {
		keys = append(keys, cmp.spell(r.rng))
	}
	var many lsm.MultiResult
	r.ok(from.MultiGet(keys, &many))
	for n, key := range keys {
		got, err := from.Get(key, nil)
		r.same(what, i, key, got, err, at)
		value, found := many.Value(n)
		if found != (err == nil) || string(value) != string(got) {
			r.t.Errorf("%s: keyspace %d: MultiGet of %q has %.40q, %v; Get %.40q, %v", what, i, key,
				value, found, got, err)
		}
		if has, e := from.Has(key); e != nil || has != (err == nil) {
			r.t.Errorf("%s: keyspace %d: has %q: %v, %v", what, i, key, has, e)
		}
		_, deadline, there := s.get(at.at[i], key, at.now)
		left, expires, err := from.TTL(key)
		if want := max(deadline-r.now, 0); there && (err != nil || expires != (deadline > 0) ||
			expires && left != time.Duration(want)*time.Second) {
			r.t.Errorf("%s: keyspace %d: %q lives %v, %v, %v; want %d s", what, i, key, left,
				expires, err, want)
		}
	}
	for _, bounded := range []bool{false, true} {
		var o lsm.IterOptions
		if bounded {
			o.Lower, o.Upper = cmp.spell(r.rng), cmp.spell(r.rng)
		}
		r.scan(what, i, from.Iter(&o), s.scan(at.at[i], o.Lower, o.Upper, at.now), o)
	}
}

func (r *run) scan(what string, i int, it *lsm.Iterator, want []model.Pair, o lsm.IterOptions) {
	r.t.Helper()
	pair := func() model.Pair {
		return model.Pair{Key: string(it.Key()), Value: string(it.Value())}
	}
	var up, down []model.Pair
	for ok := it.First(); ok; ok = it.Next() {
		up = append(up, pair())
	}
	for ok := it.Last(); ok; ok = it.Prev() {
		down = append(down, pair())
	}
	slices.Reverse(down)
	if !slices.Equal(up, want) || !slices.Equal(down, want) {
		r.t.Errorf("%s: keyspace %d from %q to %q:\nforward  %.40q\nbackward %.40q\nwant     %.40q",
			what, i, o.Lower, o.Upper, up, down, want)
	}
	cmp := r.orders[i].cmp.Compare
	for range 5 {
		key := r.orders[i].spell(r.rng)
		n := slices.IndexFunc(want, func(p model.Pair) bool { return cmp([]byte(p.Key), key) >= 0 })
		if n < 0 {
			n = len(want)
		}
		if ok := it.SeekGE(key); ok != (n < len(want)) || ok && pair() != want[n] {
			r.t.Errorf("%s: keyspace %d: SeekGE %q: %v", what, i, key, ok)
		}
		if ok := it.SeekLT(key); ok != (n > 0) || ok && pair() != want[n-1] {
			r.t.Errorf("%s: keyspace %d: SeekLT %q: %v", what, i, key, ok)
		}
		if n > 0 && n < len(want) && (!it.Next() || pair() != want[n]) {
			r.t.Errorf("%s: keyspace %d: Next after SeekLT %q", what, i, key)
		}
	}
	r.ok(errors.Join(it.Err(), it.Close()))
}

// copies compares a checkpoint, a dump that was loaded, and what a repair makes of a closed
// database.
func (r *run) copies() {
	if r.t.Failed() {
		return
	}
	r.ok(r.db.Checkpoint(ctx, "checkpoint"))
	r.compare("checkpoint")
	var b bytes.Buffer
	_, err := dump.Write(ctx, r.db, &b, nil)
	r.ok(err)
	o := *r.o
	db, err := lsm.Open("loaded", &o)
	r.ok(err)
	_, err = dump.Load(ctx, db, &b, nil)
	r.ok(err)
	r.ok(db.Close())
	r.compare("loaded")
	_, err = lsm.Repair("checkpoint", &o)
	r.ok(err)
	r.compare("checkpoint")
}

// compare opens a copy of the present state.
func (r *run) compare(dir string) {
	db, err := lsm.Open(dir, r.o)
	r.ok(err)
	for i, name := range r.names {
		k, err := db.Keyspace(name, &lsm.KeyspaceOptions{MergeOperator: r.o.MergeOperator})
		r.ok(err)
		r.read(dir, i, k, r.present())
	}
	r.ok(errors.Join(db.Verify(ctx, nil), db.Close()))
}
