package tikv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/kv"
	"github.com/tikv/client-go/v2/tikvrpc"
)

var errLost = errors.New("connection lost")

// TestUnknown loses the answer of the request that commits: in the end the change is there, and the
// writer does not know.
func TestUnknown(t *testing.T) {
	c, db := newCluster(t, "k10")
	defer db.Close()
	ctx, cancel := context.WithCancel(t.Context())
	c.on(func(r call) (*tikvrpc.Response, error) {
		answer, err := r.send()
		if r.req.Type == tikvrpc.CmdCommit && ctx.Err() == nil {
			cancel()
			return nil, errLost
		}
		return answer, err
	})
	err := db.Put(ctx, []byte("a"), []byte("1"))
	if !errors.Is(err, ErrUnknown) || errors.Is(err, ErrNotApplied) {
		t.Errorf("a commit without an answer: %v", err)
	}
	c.on(nil)
	if v, err := db.Get(t.Context(), []byte("a")); err != nil || string(v) != "1" {
		t.Errorf("afterwards: %q, %v", v, err)
	}
}

// TestNotApplied loses a request of the first phase: nothing happens.
func TestNotApplied(t *testing.T) {
	c, db := newCluster(t, "k10")
	defer db.Close()
	ctx, cancel := context.WithCancel(t.Context())
	c.on(func(r call) (*tikvrpc.Response, error) {
		if r.req.Type == tikvrpc.CmdPrewrite {
			cancel()
			return nil, errLost
		}
		return r.send()
	})
	err := db.Put(ctx, []byte("a"), []byte("1"))
	if !errors.Is(err, ErrNotApplied) || errors.Is(err, ErrUnknown) {
		t.Errorf("a first phase without an answer: %v", err)
	}
	c.on(nil)
	if _, err := db.Get(t.Context(), []byte("a")); !errors.Is(err, lsm.ErrNotFound) {
		t.Errorf("afterwards: %v", err)
	}
}

// TestConflicts has another writer of the same key commit within each of a writer's transactions:
// three times, and then for as long as the writer tries.
func TestConflicts(t *testing.T) {
	c, db := newCluster(t)
	defer db.Close()
	ctx, cancel := context.WithCancel(t.Context())
	var tries, limit int
	inside := false
	c.on(func(r call) (*tikvrpc.Response, error) {
		if r.req.Type == tikvrpc.CmdPrewrite && !inside && tries < limit {
			inside = true
			must(t, db.Put(t.Context(), []byte("a"), []byte("other")))
			inside = false
			if tries++; tries == 10 {
				cancel()
			}
		}
		return r.send()
	})
	limit = 3
	if err := db.Put(ctx, []byte("a"), []byte("mine")); err != nil || tries != 3 {
		t.Errorf("%d conflicts, and then none: %v", tries, err)
	}
	limit = 100
	err := db.Put(ctx, []byte("a"), []byte("mine again"))
	if !errors.Is(err, ErrNotApplied) || tries != 10 {
		t.Errorf("%d conflicts: %v", tries, err)
	}
	if v, err := db.Get(t.Context(), []byte("a")); err != nil || string(v) != "other" {
		t.Errorf("afterwards: %q, %v", v, err)
	}
}

// TestConflictIsNamed fixes the error of a transaction that met a conflict.
func TestConflictIsNamed(t *testing.T) {
	_, db := newCluster(t)
	defer db.Close()
	again, err := db.try(t.Context(), func(tx *Txn) error {
		tx.Put([]byte("a"), nil)
		return db.Put(t.Context(), []byte("a"), nil)
	})
	if !again || !errors.Is(err, ErrConflict) || !errors.Is(err, ErrNotApplied) {
		t.Errorf("%v, %v", again, err)
	}
}

// TestUpdateSeesItsReads has two transactions read both of two keys and delete one each, which
// would leave none: one of them is run again, and then finds that it may not.
func TestUpdateSeesItsReads(t *testing.T) {
	_, db := newCluster(t, "b")
	defer db.Close()
	keys := [][]byte{[]byte("a"), []byte("b")}
	for _, k := range keys {
		must(t, db.Put(t.Context(), k, nil))
	}
	var read, both sync.WaitGroup
	read.Add(2)
	var runs, deleted atomic.Int64
	for i := range keys {
		both.Go(func() {
			first := true
			must(t, db.Update(t.Context(), func(tx *Txn) error {
				there := 0
				for _, k := range keys {
					if _, err := tx.Get(t.Context(), k); err == nil {
						there++
					} else if !errors.Is(err, lsm.ErrNotFound) {
						return err
					}
				}
				if runs.Add(1); first {
					first = false
					read.Done()
					read.Wait()
				}
				if there == 2 {
					tx.Delete(keys[i])
				}
				return nil
			}))
		})
	}
	both.Wait()
	for _, k := range keys {
		if has, err := db.Has(t.Context(), k); err != nil {
			t.Error(err)
		} else if !has {
			deleted.Add(1)
		}
	}
	if deleted.Load() != 1 || runs.Load() < 3 {
		t.Errorf("%d keys were deleted in %d runs", deleted.Load(), runs.Load())
	}
}

// TestBank moves amounts between accounts in three regions while requests are refused and regions
// split: the sum stays, in every snapshot.
func TestBank(t *testing.T) {
	c, db := newCluster(t, "3", "6")
	defer db.Close()
	const accounts, workers, moves = 9, 4, 15
	all := kv.NewBatch()
	var keys [][]byte
	for i := range accounts {
		keys = append(keys, []byte(strconv.Itoa(i)))
		all.Put(keys[i], []byte("100"))
	}
	must(t, db.Write(t.Context(), all))
	var n atomic.Int64
	c.on(func(r call) (*tikvrpc.Response, error) {
		switch at := int(n.Add(1)); {
		case at%11 == 0:
			return r.refuse(at / 11)
		case at%17 == 0 && at < 600:
			c.split(fmt.Sprintf("%d%d", at%9, at))
		}
		return r.send()
	})
	sum := func(r kv.Reader) (sum int) {
		values, err := r.MultiGet(t.Context(), keys)
		must(t, err)
		for _, v := range values {
			one, err := strconv.Atoi(string(v))
			must(t, err)
			sum += one
		}
		return sum
	}
	var writers sync.WaitGroup
	for w := range workers {
		writers.Go(func() {
			for i := range moves {
				from, to := keys[(w+i)%accounts], keys[(w*3+i*2+1)%accounts]
				if err := db.Update(t.Context(), func(tx *Txn) error {
					return move(t, tx, from, to)
				}); err != nil {
					t.Error(err)
				}
			}
		})
		writers.Go(func() {
			for range moves {
				snap, err := db.Snapshot(t.Context())
				must(t, err)
				if s := sum(snap); s != 100*accounts {
					t.Errorf("a snapshot has %d", s)
				}
				must(t, snap.Close())
			}
		})
	}
	writers.Wait()
	if s := sum(db); s != 100*accounts {
		t.Errorf("in the end there are %d", s)
	}
}

func move(t *testing.T, tx *Txn, from, to []byte) error {
	if bytes.Equal(from, to) {
		return nil
	}
	for key, by := range map[*[]byte]int{&from: -1, &to: 1} {
		v, err := tx.Get(t.Context(), *key)
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(string(v))
		if err != nil {
			return err
		}
		tx.Put(*key, strconv.AppendInt(nil, int64(n+by), 10))
	}
	return nil
}

// TestTimeout has a time-out that is over at once: it bounds what comes behind a conflict, and no
// transaction by itself.
func TestTimeout(t *testing.T) {
	_, db := newCluster(t)
	defer db.Close()
	db.cfg.Timeout = 1
	must(t, db.Put(t.Context(), []byte("a"), []byte("1")))
	err := db.Update(t.Context(), func(tx *Txn) error {
		tx.Put([]byte("a"), []byte("2"))
		return db.Put(t.Context(), []byte("a"), []byte("other"))
	})
	if !errors.Is(err, ErrConflict) || !errors.Is(err, ErrNotApplied) {
		t.Errorf("a conflict: %v", err)
	}
}

// TestCloseBesideUpdate closes the DB while f of an Update is about to make a call of its own.
func TestCloseBesideUpdate(t *testing.T) {
	_, db := newCluster(t)
	closed := make(chan error)
	err := db.Update(t.Context(), func(tx *Txn) error {
		go func() { closed <- db.Close() }()
		for { // until Close has begun
			if _, err := db.Get(t.Context(), []byte("a")); !errors.Is(err, lsm.ErrNotFound) {
				return err
			}
		}
	})
	if must(t, <-closed); !errors.Is(err, ErrClosed) {
		t.Errorf("a call beside Close: %v", err)
	}
}

// TestUpdateReturnsErrors has f fail, with an error that looks like a conflict, too.
func TestUpdateReturnsErrors(t *testing.T) {
	_, db := newCluster(t)
	defer db.Close()
	for _, want := range []error{errLost, lsm.ErrConflict} {
		runs := 0
		err := db.Update(t.Context(), func(tx *Txn) error {
			runs++
			tx.Put([]byte("a"), nil)
			return want
		})
		if err != want || runs != 1 {
			t.Errorf("%v after %d runs, not %v", err, runs, want)
		}
	}
	if has, err := db.Has(t.Context(), []byte("a")); has || err != nil {
		t.Errorf("it is there: %v, %v", has, err)
	}
}

func TestLimits(t *testing.T) {
	_, db := newCluster(t)
	defer db.Close()
	write := func(key, value int) error {
		return db.Put(t.Context(), make([]byte, key), make([]byte, value))
	}
	must(t, write(MaxKey, 10), write(10, MaxEntry-10))
	for _, err := range []error{write(MaxKey+1, 0), write(10, MaxEntry-9),
		db.Update(t.Context(), func(tx *Txn) error {
			for i := range MaxBatch/MaxEntry + 1 {
				tx.Put([]byte(fmt.Sprint(i)), make([]byte, MaxEntry-10))
			}
			return nil
		}), db.Delete(t.Context(), make([]byte, MaxKey+1))} {
		if !errors.Is(err, ErrTooLarge) || !errors.Is(err, ErrNotApplied) {
			t.Errorf("above a limit: %v", err)
		}
	}
	if err := db.Write(t.Context(), nil); !errors.Is(err, lsm.ErrInvalidArgument) {
		t.Errorf("no batch: %v", err)
	}
}
