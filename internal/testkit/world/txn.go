package world

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/loamdb/loam/lsm"
)

// txn is a transaction with the state that it sees.
type txn struct {
	tx     *lsm.Txn
	m      state
	now    int64
	began  int // the version that it reads
	serial bool
	lock   bool           // it locks the keys that it writes
	moves  bool           // with lock: its snapshot moves on with each lock, as nothing is read yet
	first  map[[2]int]int // began when a key was written or locked first, by life and key
	ops    []op
	reads  [][3]int // life, from, to: Serializable checks them
	locked [][2]int // what GetForUpdate read, life and key: each isolation checks them
	undone []op     // by RollbackTo: whether the commit checks them is left open
	near   [][3]int // around what was read by Serializable: left open, too
	saves  []lsm.SavePoint
	saved  []savedTxn
	cursor *cursor
}

type savedTxn struct {
	ops int
	m   state
}

var transactions = []step{
	{"begin", 12, false, (*World).beginTxn},
	{"write in a transaction", 40, false, (*World).writeTxn},
	{"read in a transaction", 40, false, (*World).readTxn},
	{"savepoint", 10, false, (*World).savePoint},
	{"end a transaction", 12, false, (*World).endTxn},
	{"update", 6, false, (*World).update},
}

func (w *World) beginTxn() error {
	if len(w.txns) == 3 {
		return nil
	}
	t := &txn{m: w.m.clone(), now: w.now, began: w.version, serial: w.rng.IntN(2) == 0,
		lock: !w.locking() && w.rng.IntN(4) == 0, first: map[[2]int]int{}}
	t.moves = t.lock
	o := &lsm.TxnOptions{Name: "t", Lock: t.lock}
	if t.serial {
		o.Isolation = lsm.Serializable
	}
	t.tx = w.db.Begin(o)
	w.txns = append(w.txns, t)
	w.log("begin %p serializable %v, locks %v", t, t.serial, t.lock)
	return nil
}

// locking reports whether a transaction that locks is open. A second one could wait for the
// first for ever, as one goroutine takes the steps of both.
func (w *World) locking() bool {
	return slices.ContainsFunc(w.txns, func(t *txn) bool { return t.lock })
}

// touch notes that a key is written or locked. Before that, the snapshot may move to the newest
// version.
func (w *World) touch(t *txn, life, i int) {
	if t.moves {
		t.began, t.now, t.m = w.version, w.now, w.m.clone()
		for n, o := range t.ops {
			t.restore(n)
			t.m.apply(o, t.now)
		}
		t.restore(len(t.ops))
	}
	if _, ok := t.first[[2]int{life, i}]; !ok {
		t.first[[2]int{life, i}] = t.began
	}
}

// restore sets the state of the savepoints that were made after n ops.
func (t *txn) restore(n int) {
	for i := range t.saved {
		if t.saved[i].ops == n {
			t.saved[i].m = t.m.clone()
		}
	}
}

// refused reports whether a lock may be refused because of a newer write. The transaction is
// over then.
func (w *World) refused(t *txn, life, i int, err error) bool {
	if !t.lock || !errors.Is(err, lsm.ErrConflict) || t.moves || !w.newer(t, life, i, i+1) {
		return false
	}
	w.log("%p: a lock is refused", t)
	w.forget(t)
	return true
}

// forget rolls a transaction back.
func (w *World) forget(t *txn) {
	w.txns = slices.DeleteFunc(w.txns, func(o *txn) bool { return o == t })
	if t.cursor != nil {
		_ = t.cursor.it.Close()
	}
	_ = t.tx.Rollback()
}

func (w *World) txn() *txn {
	if len(w.txns) == 0 {
		return nil
	}
	return choose(w.rng, w.txns...)
}

// in is the transaction in a space, one that there was when it began.
func (w *World) in(t *txn) (*lsm.Txn, *space) {
	var list []*space
	for _, s := range w.living() {
		if _, ok := t.m[s.life]; ok {
			list = append(list, s)
		}
	}
	s := choose(w.rng, list...)
	return t.tx.In(s.ks), s
}

func (w *World) writeTxn() error {
	t := w.txn()
	if t == nil {
		return nil
	}
	tx, s := w.in(t)
	x := w.draw(s)
	if x.kind == put && (x.ttl != 0 || s.ttl != 0) {
		return w.expiringTxn(t, tx, s, x)
	}
	switch {
	case x.kind != delRange:
		w.touch(t, s.life, x.from)
	case x.from < x.to: // takes no lock, but reads the snapshot
		t.moves = false
	}
	if x.kind == merge && t.m[s.life][x.from].at(t.now).due != 0 {
		x = op{kind: del, life: s.life, from: x.from} // the deadline is that of the commit's moment
	}
	w.log("%p %v", t, x)
	key := w.key(s, x.from)
	var err error
	switch x.kind {
	case put:
		err = tx.Put(key, []byte(x.v))
	case del:
		err = tx.Delete(key)
	case merge:
		err = tx.Merge(key, []byte(x.v))
	case delRange:
		err = tx.DeleteRange(key, w.key(s, x.to))
	}
	if err != nil {
		if x.kind != delRange && w.refused(t, s.life, x.from, err) {
			return nil
		}
		return err
	}
	t.ops = append(t.ops, x)
	t.m.apply(x, t.now)
	return nil
}

// expiringTxn commits a value that expires in a transaction at once: its time begins with the
// commit.
func (w *World) expiringTxn(t *txn, tx *lsm.Txn, s *space, x op) error {
	if len(t.ops) > 0 || len(t.reads)+len(t.locked)+len(t.near)+len(t.undone) > 0 ||
		w.newerThan(t, []op{x}) || w.clock.Load() != w.now {
		return nil
	}
	w.log("%p %v, committed", t, x)
	err := tx.PutTTL(w.key(s, x.from), []byte(x.v), time.Duration(x.ttl)*time.Second)
	if x.ttl == s.ttl {
		err = tx.Put(w.key(s, x.from), []byte(x.v))
	}
	if err != nil {
		return err
	}
	if err := t.tx.Commit(lsm.NoSync); err != nil {
		return err
	}
	w.txns = slices.DeleteFunc(w.txns, func(o *txn) bool { return o == t })
	w.wrote(false, x)
	return nil
}

func (w *World) readTxn() error {
	t := w.txn()
	if t == nil {
		return nil
	}
	tx, s := w.in(t)
	note := func(from, to int) { t.reads = append(t.reads, [3]int{s.life, from, to}) }
	w.log("%p reads", t)
	how := w.rng.IntN(8)
	if t.moves && how != 0 {
		t.near = append(t.near, [3]int{s.life, 0, len(s.keys)})
		it := tx.Iter(nil) // a read of a key that it wrote leaves its snapshot free to move
		it.First()
		if err := it.Close(); err != nil {
			return err
		}
		t.moves = false
	}
	switch how {
	case 2, 3:
		if t.cursor == nil || t.cursor.s.life != s.life {
			if t.cursor != nil {
				_ = t.cursor.it.Close()
			}
			t.cursor = w.newCursor(tx, s, t.m[s.life], t.now)
			t.cursor.note = note
		}
		t.near = append(t.near, [3]int{s.life, 0, len(s.keys)})
		if err := w.move(t.cursor); !errors.Is(err, lsm.ErrInvalidArgument) {
			return err
		}
		return nil // RollbackTo took back what it had seen
	case 0:
		i := w.rng.IntN(len(s.keys))
		t.locked = append(t.locked, [2]int{s.life, i})
		w.log("get for update %d of %s", i, s.name)
		w.touch(t, s.life, i)
		v, err := tx.GetForUpdate(w.key(s, i), nil)
		if w.refused(t, s.life, i, err) {
			return nil
		}
		if errors.Is(err, lsm.ErrConflict) && w.conflicts(t) {
			return nil // the commit fails, too
		}
		return same2(v, err, t.m[s.life][i].at(t.now))
	case 1:
		return w.scan(tx, s, t.m[s.life], t.now, note)
	}
	return w.read(tx, s, t.m[s.life], t.now, note)
}

func (w *World) savePoint() error {
	t := w.txn()
	if t == nil {
		return nil
	}
	if n := len(t.saves); n > 0 && w.rng.IntN(2) == 0 {
		i := w.rng.IntN(n)
		w.log("%p back to %d", t, i)
		if err := t.tx.RollbackTo(lsm.SavePointOf(t.saves[i].Number())); err != nil {
			return err
		}
		t.undone = append(t.undone, t.ops[t.saved[i].ops:]...)
		t.ops, t.m = t.ops[:t.saved[i].ops:t.saved[i].ops], t.saved[i].m.clone()
		t.saves, t.saved = t.saves[:i+1], t.saved[:i+1]
		return nil
	}
	t.saves = append(t.saves, t.tx.SavePoint())
	t.saved = append(t.saved, savedTxn{len(t.ops), t.m.clone()})
	w.log("%p savepoint %d", t, len(t.saves)-1)
	return nil
}

// newer reports whether one of the keys was written after the version that the transaction reads.
func (w *World) newer(t *txn, life, from, to int) bool {
	for i := from; i < to; i++ {
		if w.written[life][i] > t.began {
			return true
		}
	}
	return false
}

// newerKey reports whether a key was written after the transaction wrote or locked it first.
func (w *World) newerKey(t *txn, life, i int) bool {
	at, ok := t.first[[2]int{life, i}]
	if !ok {
		at = t.began
	}
	return w.written[life][i] > at
}

// newerThan reports whether a key that the ops write is newer, see newerKey. Of a range delete,
// the version that the transaction reads counts.
func (w *World) newerThan(t *txn, ops []op) bool {
	return slices.ContainsFunc(ops, func(o op) bool {
		if o.kind == delRange {
			return w.newer(t, o.life, o.from, o.to)
		}
		return w.newerKey(t, o.life, o.from)
	})
}

// conflicts reports whether the transaction must not commit.
func (w *World) conflicts(t *txn) bool {
	if w.newerThan(t, t.ops) {
		return true
	}
	return t.serial && w.newerIn(t, t.reads) || slices.ContainsFunc(t.locked, func(r [2]int) bool {
		return w.newerKey(t, r[0], r[1])
	})
}

// newerIn is newer for several ranges of keys.
func (w *World) newerIn(t *txn, ranges [][3]int) bool {
	for _, r := range ranges {
		if w.newer(t, r[0], r[1], r[2]) {
			return true
		}
	}
	return false
}

func (w *World) endTxn() error {
	t := w.txn()
	if t == nil {
		return nil
	}
	w.txns = slices.DeleteFunc(w.txns, func(o *txn) bool { return o == t })
	if t.cursor != nil {
		defer t.cursor.it.Close()
	}
	switch w.rng.IntN(10) {
	case 0:
		w.log("%p rollback", t)
		return t.tx.Rollback()
	case 1:
		w.log("%p close", t)
		return t.tx.Close()
	}
	mode, sync := w.mode()
	conflict := w.conflicts(t)
	w.log("%p commit of %v, sync %v, conflict %v", t, t.ops, sync, conflict)
	err := t.tx.Commit(mode)
	refused := errors.Is(err, lsm.ErrConflict)
	open := w.newerThan(t, t.undone) || t.serial && w.newerIn(t, t.near)
	writes := slices.ContainsFunc(t.ops, op.writes)
	switch {
	case writes && conflict && !refused:
		return fmt.Errorf("commit: %w; want a conflict", err)
	case refused && (conflict || open):
		return nil
	case err != nil:
		return err
	case !writes: // checks nothing, or what it locked and read
		return nil
	}
	w.wrote(sync, t.ops...)
	return nil
}

// update reads and writes a key in Update, UpdateWith or View.
func (w *World) update() error {
	s := w.space()
	i := w.rng.IntN(len(s.keys))
	want := w.m[s.life][i].at(w.now)
	x := op{kind: put, life: s.life, from: i, v: w.value()}
	if s.ttl != 0 {
		x = op{kind: del, life: s.life, from: i}
	}
	f := func(tx *lsm.Txn) error {
		tx = tx.In(s.ks)
		v, err := tx.Get(w.key(s, i), nil)
		if err := same2(v, err, want); err != nil {
			return err
		}
		if x.kind == del {
			return tx.Delete(w.key(s, i))
		}
		return tx.Put(w.key(s, i), []byte(x.v))
	}
	w.log("update %v", x)
	var err error
	switch how := w.rng.IntN(3); {
	case how == 0 || how == 1 && w.locking():
		err = w.db.Update(context.Background(), f)
	case how == 1:
		err = w.db.UpdateWith(context.Background(), &lsm.TxnOptions{Lock: true}, f)
	default:
		return w.db.View(func(tx *lsm.Txn) error {
			v, err := tx.In(s.ks).Get(w.key(s, i), nil)
			return same2(v, err, want)
		})
	}
	if err != nil {
		return err
	}
	w.wrote(false, x)
	return nil
}
