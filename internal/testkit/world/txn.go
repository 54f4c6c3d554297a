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
	began  int // the version at which it began
	serial bool
	ops    []op
	reads  [][3]int // life, from, to: Serializable checks them
	locked [][3]int // what GetForUpdate read: each isolation checks them
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
	t := &txn{m: w.m.clone(), now: w.now, began: w.version, serial: w.rng.IntN(2) == 0}
	o := &lsm.TxnOptions{Name: "t"}
	if t.serial {
		o.Isolation = lsm.Serializable
	}
	t.tx = w.db.Begin(o)
	w.txns = append(w.txns, t)
	w.log("begin %p serializable %v", t, t.serial)
	return nil
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
	switch w.rng.IntN(8) {
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
		t.locked = append(t.locked, [3]int{s.life, i, i + 1})
		w.log("get for update %d of %s", i, s.name)
		v, err := tx.GetForUpdate(w.key(s, i), nil)
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

// newer reports whether one of the keys was written after the transaction began.
func (w *World) newer(t *txn, life, from, to int) bool {
	for i := from; i < to; i++ {
		if w.written[life][i] > t.began {
			return true
		}
	}
	return false
}

// newerThan reports whether a key that the ops write was written after the transaction began.
func (w *World) newerThan(t *txn, ops []op) bool {
	for _, o := range ops {
		from, to := o.from, o.from+1
		if o.kind == delRange {
			to = o.to
		}
		if w.newer(t, o.life, from, to) {
			return true
		}
	}
	return false
}

// conflicts reports whether the transaction must not commit.
func (w *World) conflicts(t *txn) bool {
	if w.newerThan(t, t.ops) {
		return true
	}
	checked := t.locked
	if t.serial {
		checked = append(checked[:len(checked):len(checked)], t.reads...)
	}
	return w.newerIn(t, checked)
}

// newerIn is newerThan for ranges of keys.
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
	switch {
	case len(t.ops) == 0:
		if err != nil && !(errors.Is(err, lsm.ErrConflict) && conflict) {
			return err
		}
		return nil
	case conflict:
		if !errors.Is(err, lsm.ErrConflict) {
			return fmt.Errorf("commit: %w; want a conflict", err)
		}
		return nil
	case errors.Is(err, lsm.ErrConflict) && (w.newerThan(t, t.undone) || t.serial &&
		w.newerIn(t, t.near)):
		return nil
	case err != nil:
		return err
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
	switch w.rng.IntN(3) {
	case 0:
		err = w.db.Update(context.Background(), f)
	case 1:
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
