package world

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/loamdb/loam/lsm"
)

// store is what a database and its keyspaces have.
type store interface {
	lsm.Store
	reader
	Put(key, value []byte, mode lsm.WriteMode) error
	PutTTL(key, value []byte, ttl time.Duration, mode lsm.WriteMode) error
	Delete(key []byte, mode lsm.WriteMode) error
	DeleteRange(start, limit []byte, mode lsm.WriteMode) error
	Merge(key, operand []byte, mode lsm.WriteMode) error
	WriteBytes(repr []byte, mode lsm.WriteMode) error
	CompareAndSwap(key, old, value []byte, mode lsm.WriteMode) (bool, error)
	PutIfAbsent(key, value []byte, mode lsm.WriteMode) (bool, error)
	NewBatch() *lsm.Batch
	Flush() error
	CompactRange(start, limit []byte) error
	CompactRangeContext(ctx context.Context, start, limit []byte) error
	Ingest(ctx context.Context, o *lsm.IngestOptions, paths ...string) error
	BulkLoad(ctx context.Context, entries iter.Seq2[[]byte, []byte], o *lsm.BulkLoadOptions) error
	BulkLoader(o *lsm.BulkLoadOptions) (*lsm.BulkLoader, error)
	ApproximateSizes(ranges []lsm.Range) ([]uint64, error)
	Property(name string) (string, bool)
	Metrics() lsm.Metrics
}

var writes = []step{
	{"write", 300, false, (*World).single},
	{"batch", 80, false, (*World).batch},
	{"compare and swap", 25, false, (*World).swap},
}

func (w *World) value() string {
	switch w.rng.IntN(12) {
	case 0:
		return ""
	case 1:
		return strings.Repeat(strconv.Itoa(w.rng.IntN(1e6)), 1+w.rng.IntN(900))
	}
	return strconv.Itoa(w.rng.IntN(1e6))
}

// draw draws a write that the database's format and the keyspace allow.
func (w *World) draw(s *space) op {
	x := op{life: s.life, from: w.rng.IntN(len(s.keys))}
	if w.queues && w.rng.IntN(4) > 0 {
		return w.drawQueued(s, x)
	}
	switch r := w.rng.IntN(100); {
	case r < 50 || !w.native() && r >= 66:
		x.kind = put
	case r < 66:
		x.kind = del
	case r < 90:
		x.kind = merge
	default:
		x.kind = delRange
		x.from, x.to = w.stretch(s)
		return x
	}
	if x.kind == merge && (s.ttl != 0 || len(w.m[s.life][x.from].v) > 20_000) {
		x.kind = put
	}
	if x.kind != del {
		x.v = w.value()
	}
	if x.kind == put {
		x.ttl = s.ttl
		if w.native() && w.rng.IntN(5) == 0 && w.clock.Load() == w.now {
			x.ttl = 1 + int64(w.rng.IntN(20))
		}
		if s.ttl != 0 && w.clock.Load() != w.now {
			x.kind, x.ttl = del, 0 // the time that it gets is not known
		}
	}
	return x
}

// drawQueued draws a put or a deletion of the key behind the last one. Many deletions follow each
// other, so that there are ranges without a value.
func (w *World) drawQueued(s *space, x op) op {
	const run = 24
	n := w.heads[s.life]
	w.heads[s.life]++
	x.from, x.kind = n%len(s.keys), del
	if n/run%3 == 0 && w.clock.Load() == w.now {
		x.kind, x.v, x.ttl = put, w.value(), s.ttl
	}
	return x
}

func (w *World) single() error {
	s := w.space()
	x := w.draw(s)
	mode, sync := w.mode()
	w.log("%v sync %v", x, sync)
	to, key := w.store(s), w.key(s, x.from)
	var err error
	switch {
	case x.kind == put && x.ttl != s.ttl:
		err = to.PutTTL(key, []byte(x.v), time.Duration(x.ttl)*time.Second, mode)
	case x.kind == put:
		err = to.Put(key, []byte(x.v), mode)
	case x.kind == del:
		err = to.Delete(key, mode)
	case x.kind == merge:
		err = to.Merge(key, []byte(x.v), mode)
	case x.kind == delRange:
		err = to.DeleteRange(key, w.key(s, x.to), mode)
	}
	if err != nil {
		return err
	}
	w.wrote(sync, x)
	return nil
}

// adder is what a batch has for one keyspace.
type adder interface {
	Put(key, value []byte)
	PutTTL(key, value []byte, ttl time.Duration)
	Delete(key []byte)
	DeleteRange(start, limit []byte)
	Merge(key, operand []byte)
}

func (w *World) add(to adder, s *space, x op) {
	key := w.key(s, x.from)
	switch {
	case x.kind == put && x.ttl != s.ttl:
		to.PutTTL(key, []byte(x.v), time.Duration(x.ttl)*time.Second)
	case x.kind == put:
		to.Put(key, []byte(x.v))
	case x.kind == del:
		to.Delete(key)
	case x.kind == merge:
		to.Merge(key, []byte(x.v))
	case x.kind == delRange:
		to.DeleteRange(key, w.key(s, x.to))
	}
}

// batch writes a batch: to its home directly, or to any keyspace by In.
func (w *World) batch() error {
	home := w.space()
	target := w.store(home)
	b := target.NewBatch()
	if w.rng.IntN(2) == 0 {
		b = lsm.NewBatch() // has no home until it is written
	}
	var parts []*lsm.Batch
	var ops []op
	for range 1 + w.rng.IntN(1<<w.rng.IntN(6)) {
		s := home
		if w.native() && w.rng.IntN(2) == 0 {
			s = w.space()
		}
		x := w.draw(s)
		ops = append(ops, x)
		switch {
		case s.life == defaultLife && home.life != defaultLife && w.rng.IntN(2) == 0,
			s.life == defaultLife && w.native() && w.rng.IntN(4) == 0:
			w.add(b.In(nil), s, x)
		case s != home, s.ks != nil && w.rng.IntN(4) == 0:
			w.add(b.In(s.ks), s, x)
		default:
			w.add(b, s, x)
		}
		if w.rng.IntN(12) == 0 {
			parts, b = append(parts, b), target.NewBatch()
		}
	}
	if len(parts) > 0 {
		whole := target.NewBatch()
		for _, p := range append(parts, b) {
			whole.Append(p)
		}
		b = whole
	}
	if b.Count() != len(ops) || b.Size() != len(b.Bytes()) {
		return fmt.Errorf("a batch of %d operations has %d, and %d bytes of %d", len(ops),
			b.Count(), b.Size(), len(b.Bytes()))
	}
	mode, sync := w.mode()
	w.log("to %s: %v sync %v", home.name, ops, sync)
	var err error
	switch {
	case home.life != defaultLife || w.rng.IntN(3) > 0:
		err = target.Write(b, mode)
	case w.rng.IntN(2) == 0 || w.native(): // BatchFromBytes takes puts and deletes alone
		err = target.WriteBytes(slices.Clone(b.Bytes()), mode)
	default:
		if b, err = lsm.BatchFromBytes(slices.Clone(b.Bytes())); err == nil {
			err = w.db.Write(b, mode)
		}
	}
	if err != nil {
		return err
	}
	w.wrote(sync, ops...)
	b.Clear()
	return nil
}

func (w *World) swap() error {
	s := w.space()
	if s.ttl != 0 && w.clock.Load() != w.now {
		return nil
	}
	x := op{kind: put, life: s.life, from: w.rng.IntN(len(s.keys)), v: w.value(), ttl: s.ttl}
	old := w.m[s.life][x.from].at(w.now)
	key, mode, sync := w.key(s, x.from), lsm.NoSync, false
	w.log("%v, there is %v", x, old)
	if w.rng.IntN(3) == 0 {
		done, err := w.store(s).PutIfAbsent(key, []byte(x.v), mode)
		if err != nil || done == old.ok {
			return fmt.Errorf("put if absent: %v, %w; there is %v", done, err, old)
		}
		if done {
			w.wrote(sync, x)
		}
		return nil
	}
	var was, next []byte
	if old.ok {
		was = []byte(old.v)
	}
	wrong := w.rng.IntN(3) == 0
	if wrong {
		was = append(was, 'x')
	}
	if w.rng.IntN(4) > 0 {
		next = []byte(x.v)
	} else {
		x.kind, x.ttl = del, 0
	}
	done, err := w.store(s).CompareAndSwap(key, was, next, mode)
	if err != nil || done == wrong {
		return fmt.Errorf("compare and swap: %v, %w; wrong %v", done, err, wrong)
	}
	if done {
		w.wrote(sync, x)
	}
	return nil
}

// spaces are the steps that create and drop keyspaces.
var spaces = []step{
	{"create keyspace", 12, true, (*World).create},
	{"drop keyspace", 6, true, (*World).drop},
}

func (w *World) create() error {
	s := choose(w.rng, w.spaces...)
	if s.life != 0 {
		k, err := w.db.Keyspace(s.name, nil)
		if err == nil && (k.Name() != s.name || k.Comparer().Name != s.order.cmp.Name ||
			k.ID() != s.ks.ID()) {
			err = fmt.Errorf("keyspace %q, order %q, number %d", k.Name(), k.Comparer().Name,
				k.ID())
		}
		return err
	}
	return w.make(s)
}

// make creates the keyspace of a space.
func (w *World) make(s *space) error {
	w.log("create %s, order %s", s.name, s.order.cmp.Name)
	k, err := w.db.Keyspace(s.name, s.keyspaceOptions())
	if err != nil {
		return err
	}
	w.lives++
	s.life, s.ks = w.lives, k
	w.begin(s)
	return w.names(w.db)
}

func (w *World) drop() error {
	s := w.space()
	if w.beside && len(w.living()) == 1 {
		return nil
	}
	if s.life == defaultLife {
		if err := w.db.DropKeyspace(s.name); !errors.Is(err, lsm.ErrInvalidArgument) {
			return fmt.Errorf("dropping the default keyspace: %w", err)
		}
		return nil
	}
	w.log("drop %s, life %d", s.name, s.life)
	if err := w.db.DropKeyspace(s.name); err != nil {
		return err
	}
	for _, t := range w.txns {
		_ = t.tx.Rollback()
	}
	w.txns = nil
	old := s.ks
	delete(w.m, s.life)
	delete(w.durable, s.life)
	delete(w.written, s.life)
	s.life, s.ks = 0, nil
	if _, err := old.Get(nil, nil); !errors.Is(err, lsm.ErrNoKeyspace) {
		return fmt.Errorf("get in a dropped keyspace: %w", err)
	}
	if err := old.Put([]byte("k"), nil, lsm.NoSync); !errors.Is(err, lsm.ErrNoKeyspace) {
		return fmt.Errorf("put in a dropped keyspace: %w", err)
	}
	return w.names(w.db)
}
