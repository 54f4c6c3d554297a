package mix

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/loamdb/loam/lsm"
)

type txn struct {
	tx           *lsm.Txn
	m, base      state
	begun        int // version
	serial, lock bool
	moves        bool // no plain read or range delete yet, with lock
	writes       []write
	saves        []lsm.SavePoint
	saved        []int
	forUpdate    [][2]int
	locked       map[[2]int]int // the version at which a key was locked first
	reads        [][3]int
	cursors      []*cursor
}

func (w *world) begin() {
	t := &txn{begun: w.version, serial: w.rng.IntN(3) == 0, lock: w.rng.IntN(4) == 0 &&
		len(w.txns) == 0}
	o := &lsm.TxnOptions{Lock: t.lock}
	if t.serial {
		o.Isolation = lsm.Serializable
	}
	t.tx, t.m, t.base = w.db.Begin(o), w.m.clone(), w.m.clone()
	t.moves = t.lock
	w.log("begin %p serial %v lock %v", t, t.serial, t.lock)
	w.txns = append(w.txns, t)
}

// depend notes the version that a key has when it is written or locked first.
func (t *txn) depend(k [2]int) {
	if t.locked == nil {
		t.locked = make(map[[2]int]int)
	}
	if _, known := t.locked[k]; !known {
		t.locked[k] = t.begun
	}
}

func (t *txn) rebase(w *world) {
	if !t.moves {
		return
	}
	t.base, t.begun = w.m.clone(), w.version
	t.m = w.m.clone()
	for _, x := range t.writes {
		t.m.apply(x)
	}
}

func (w *world) inTxn(n int) error {
	t := w.txns[n]
	drop := func() { w.txns = slices.Delete(w.txns, n, n+1) }
	switch r := w.rng.IntN(40); {
	case r < 14:
		return w.writeTxn(t, drop)
	case r < 20:
		s := w.rng.IntN(3)
		// a read of an own write leaves the snapshot free to move: a scan does not
		if len(t.writes) > 0 && t.moves {
			return w.scanTxn(t, s)
		}
		t.moves = false
		return w.reads(fmt.Sprintf("txn %p", t), t.tx.In(w.spaces[s]), s, t.m[s], t)
	case r < 23:
		s, i := w.rng.IntN(3), w.rng.IntN(len(w.keys[0]))
		w.log("txn %p getforupdate %d %d", t, s, i)
		v, err := t.tx.In(w.spaces[s]).GetForUpdate(w.bytes(s, i), nil)
		if t.lock && errors.Is(err, lsm.ErrConflict) {
			if t.moves || w.written[s][i] <= t.begun {
				return fmt.Errorf("lock of a key not written: %w", err)
			}
			t.tx.Rollback()
			drop()
			return nil
		}
		t.rebase(w)
		t.depend([2]int{s, i})
		t.forUpdate = append(t.forUpdate, [2]int{s, i})
		return check("getforupdate", v, err, t.m[s][i])
	case r < 25:
		t.saves = append(t.saves, t.tx.SavePoint())
		t.saved = append(t.saved, len(t.writes))
		w.log("txn %p save", t)
	case r < 27 && len(t.saves) > 0:
		i := w.rng.IntN(len(t.saves))
		w.log("txn %p rollback to %d", t, i)
		if err := t.tx.RollbackTo(t.saves[i]); err != nil {
			return err
		}
		for _, c := range t.cursors {
			c.it.Close()
		}
		t.cursors = nil

		t.writes = t.writes[:t.saved[i]:t.saved[i]]
		t.saves, t.saved = t.saves[:i+1], t.saved[:i+1]
		t.m = t.base.clone()
		for _, x := range t.writes {
			t.m.apply(x)
		}
	case r < 30:
		return w.scanTxn(t, w.rng.IntN(3))
	case r < 33:
		s := w.rng.IntN(3)
		t.moves = false
		c := w.newCursor(t.tx.In(w.spaces[s]), s, t.m[s])
		t.cursors = append(t.cursors, c)
		if len(t.cursors) > 3 {
			t.cursors[0].it.Close()
			t.cursors = t.cursors[1:]
		}
	case r < 37 && len(t.cursors) > 0:
		return w.move(t.cursors[w.rng.IntN(len(t.cursors))])
	case r == 38:
		w.log("txn %p commit", t)
		drop()
		return w.commit(t)
	case r == 39 && w.rng.IntN(3) == 0:
		w.log("txn %p rollback", t)
		for _, c := range t.cursors {
			c.it.Close()
		}
		drop()
		return t.tx.Rollback()
	}
	return nil
}

// writeTxn makes one write in a transaction; drop forgets it.
func (w *world) writeTxn(t *txn, drop func()) error {
	x := w.draw()
	in := t.tx.In(w.spaces[x.space])
	w.log("txn %p %v", t, x)
	var err error
	key := w.bytes(x.space, x.from)
	switch x.kind {
	case put:
		if x.ttl > 0 {
			err = in.PutTTL(key, []byte(x.value), time.Duration(x.ttl)*time.Second)
		} else {
			err = in.Put(key, []byte(x.value))
		}
	case del:
		err = in.Delete(key)
	case merge:
		err = in.Merge(key, []byte(x.value))
	case delRange: // takes no lock
		if err := in.DeleteRange(key, w.bytes(x.space, x.to)); err != nil {
			return err
		}
		t.m.apply(x)
		t.writes = append(t.writes, x)
		t.moves = false
		return nil
	}
	if t.lock && errors.Is(err, lsm.ErrConflict) {
		if t.moves || w.written[x.space][x.from] <= t.begun {
			return fmt.Errorf("lock of a key not written: %w", err)
		}
		t.tx.Rollback()
		drop()
		return nil
	}
	if err != nil {
		return err
	}
	t.rebase(w)
	t.depend([2]int{x.space, x.from})
	t.m.apply(x)
	t.writes = append(t.writes, x)
	return nil
}

// scanTxn reads a whole keyspace in a transaction.
func (w *world) scanTxn(t *txn, s int) error {
	t.moves = false
	t.reads = append(t.reads, [3]int{s, 0, len(w.keys[s])})
	return w.scan(fmt.Sprintf("txn %p", t), t.tx.In(w.spaces[s]), s, t.m[s])
}

func (w *world) commit(t *txn) error {
	for _, c := range t.cursors {
		c.it.Close()
	}
	must := false
	for _, x := range t.writes {
		if x.kind == delRange {
			must = must || x.from < x.to && slices.Max(w.written[x.space][x.from:x.to]) > t.begun
			continue
		}
		must = must || w.written[x.space][x.from] > t.locked[[2]int{x.space, x.from}]
	}
	for _, k := range t.forUpdate {
		must = must || w.written[k[0]][k[1]] > t.locked[k]
	}
	stale := false // a key that was written, or locked, and rolled back
	for k, version := range t.locked {
		stale = stale || w.written[k[0]][k[1]] > version
	}
	// A range without keys is no write, and a transaction without writes always commits.
	if t.serial && slices.ContainsFunc(t.writes, func(x write) bool {
		return x.kind != delRange || x.from < x.to
	}) {
		for _, r := range t.reads {
			for i := r[1]; i < r[2]; i++ {
				must = must || w.written[r[0]][i] > t.begun && t.base[r[0]][i] != w.m[r[0]][i]
			}
		}
	}
	may := must || stale || t.serial && w.version > t.begun
	mode, sync := w.mode()
	err := t.tx.Commit(mode)
	w.log("commit %p: %v (must %v may %v)", t, err, must, may)
	if errors.Is(err, lsm.ErrConflict) {
		if !may {
			return fmt.Errorf("commit: %w: nothing was written", err)
		}
		return nil
	}
	if err != nil {
		return err
	}
	if must {
		return fmt.Errorf("a commit with a conflict succeeded: writes %v, for update %v, begun %d",
			t.writes, t.forUpdate, t.begun)
	}
	if len(t.writes) > 0 {
		w.wrote(t.writes, sync)
	}
	return nil
}
