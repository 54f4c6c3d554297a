package testkit

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/loamdb/loam/internal/testkit/model"
	"github.com/loamdb/loam/lsm"
)

// eachOperation hands out what a feed has from the first operation on.
func eachOperation(db *lsm.DB, o *lsm.ChangesOptions, f func(lsm.Operation) error) error {
	feed, err := db.Changes(1, o)
	if err != nil {
		return err
	}
	defer feed.Close()
	for {
		change, ok, err := feed.TryNext()
		if err != nil || !ok {
			return err
		}
		for o := range change.Operations() {
			if err := f(o); err != nil {
				return err
			}
		}
	}
}

// LastDurable is the newest batch of a ledger that a feed says is durable.
func LastDurable(db *lsm.DB) (last int, err error) {
	err = eachOperation(db, &lsm.ChangesOptions{Durable: true}, func(o lsm.Operation) (err error) {
		if string(o.Key) == lastKey {
			last, err = strconv.Atoi(string(o.Value))
		}
		return err
	})
	return last, err
}

// CheckChanges wants a feed of the whole history of db: batches 1 to the newest that db has, which
// is no Sparse ledger's.
func (l *Ledger) CheckChanges(db *lsm.DB) error {
	last, err := Last(db)
	if err != nil {
		return err
	}
	i, n := 1, 0 // operation n of batch i comes next
	err = eachOperation(db, nil, func(got lsm.Operation) error {
		batch := l.Batch(i)
		want := batch[n]
		if string(got.Key) != want.Key || (got.Op == lsm.OpDelete) != want.Delete ||
			string(got.Value) != want.Value {
			return fmt.Errorf("operation %d is %v %q, want %q of batch %d", got.Seq, got.Op,
				got.Key, want.Key, i)
		}
		if n++; n == len(batch) {
			i, n = i+1, 0
		}
		return nil
	})
	if err == nil && (i != last+1 || n != 0) {
		err = fmt.Errorf("the feed ends with operation %d of batch %d, the database with batch %d",
			n, i, last)
	}
	return err
}

// CheckRebuilt wants puts and deletes of a feed of the whole history of db to make what db has.
func CheckRebuilt(db *lsm.DB) error {
	pairs := map[string]string{}
	err := eachOperation(db, nil, func(o lsm.Operation) error {
		if delete(pairs, string(o.Key)); o.Op != lsm.OpDelete {
			pairs[string(o.Key)] = string(o.Value)
		}
		return nil
	})
	if err != nil {
		return err
	}
	want := make([]model.Pair, 0, len(pairs))
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		want = append(want, model.Pair{Key: key, Value: pairs[key]})
	}
	return Same(db, want)
}
