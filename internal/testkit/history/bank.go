package history

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/loamdb/loam/lsm"
)

// bank is a set of accounts whose sum never changes.
type bank struct {
	db       *lsm.DB
	locks    []sync.Mutex // one for each account: transfers read, then write
	stop     atomic.Bool
	reads    atomic.Int64
	sums     int64 // how many reads there are to be
	accounts int
}

const opening = 1000

func account(i int) []byte { return fmt.Appendf(nil, "account%04d", i) }

func amount(n int64) []byte {
	// A large value makes memtables and tables turn over.
	return binary.LittleEndian.AppendUint64(make([]byte, 0, 128), uint64(n))[:128]
}

func balance(v []byte) int64 { return int64(binary.LittleEndian.Uint64(v)) }

// Bank lets writers move money between accounts and readers sum them up, in
// snapshots and iterators, until there are so many sums. Every one must be the same.
func Bank(seed int64, accounts int, sums int64) error {
	db, err := lsm.Open("db", small())
	if err != nil {
		return err
	}
	defer db.Close()
	b := &bank{db: db, sums: sums, locks: make([]sync.Mutex, accounts), accounts: accounts}
	first := lsm.NewBatch()
	for i := range accounts {
		first.Put(account(i), amount(opening))
	}
	if err := db.Write(first, lsm.NoSync); err != nil {
		return err
	}
	work := []func(*rand.Rand) error{b.transfer, b.transfer, b.transfer, b.sumIterator,
		b.sumSnapshot, b.sumMultiGet, b.maintain}
	errs := make([]error, len(work))
	var wg sync.WaitGroup
	for i, f := range work {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(seed), uint64(i)))
			for errs[i] == nil && !b.stop.Load() {
				errs[i] = f(rng)
			}
			b.stop.Store(true)
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("seed %d: %w", seed, err)
	}
	return nil
}

func (b *bank) transfer(rng *rand.Rand) error {
	from, to := rng.IntN(b.accounts), rng.IntN(b.accounts)
	if from == to {
		return nil
	}
	lo, hi := min(from, to), max(from, to)
	b.locks[lo].Lock()
	defer b.locks[lo].Unlock()
	b.locks[hi].Lock()
	defer b.locks[hi].Unlock()
	x, err := b.db.Get(account(from), nil)
	if err != nil {
		return err
	}
	y, err := b.db.Get(account(to), nil)
	if err != nil {
		return err
	}
	n := int64(rng.IntN(100))
	batch := lsm.NewBatch()
	batch.Put(account(from), amount(int64(binary.LittleEndian.Uint64(x))-n))
	batch.Put(account(to), amount(int64(binary.LittleEndian.Uint64(y))+n))
	return b.db.Write(batch, lsm.NoSync)
}

func (b *bank) check(sum int64, n int, how string) error {
	if b.reads.Add(1) >= b.sums {
		b.stop.Store(true)
	}
	if n != b.accounts || sum != int64(opening*b.accounts) {
		return fmt.Errorf("%s: %d accounts hold %d, want %d and %d", how, n, sum, b.accounts,
			opening*b.accounts)
	}
	return nil
}

func (b *bank) sumIterator(rng *rand.Rand) error {
	it := b.db.Iter(nil)
	defer it.Close()
	var sum int64
	n := 0
	move, ok := it.Next, it.First()
	if rng.IntN(2) == 0 {
		move, ok = it.Prev, it.Last()
	}
	for ; ok; ok = move() {
		sum += int64(binary.LittleEndian.Uint64(it.Value()))
		n++
	}
	if err := it.Err(); err != nil {
		return err
	}
	return b.check(sum, n, "iterator")
}

func (b *bank) sumSnapshot(*rand.Rand) error {
	s := b.db.Snapshot()
	defer s.Close()
	var sum int64
	var buf []byte
	for i := range b.accounts {
		var err error
		if buf, err = s.Get(account(i), buf[:0]); err != nil {
			return err
		}
		sum += int64(binary.LittleEndian.Uint64(buf))
	}
	return b.check(sum, b.accounts, "snapshot")
}

func (b *bank) sumMultiGet(*rand.Rand) error {
	keys := make([][]byte, b.accounts)
	for i := range keys {
		keys[i] = account(i)
	}
	var m lsm.MultiResult
	if err := b.db.MultiGet(keys, &m); err != nil {
		return err
	}
	var sum int64
	n := 0
	for i := range keys {
		if v, ok := m.Value(i); ok {
			sum += int64(binary.LittleEndian.Uint64(v))
			n++
		}
	}
	return b.check(sum, n, "multiget")
}

// maintain flushes and compacts, between transfers.
func (b *bank) maintain(rng *rand.Rand) error {
	for range rng.IntN(2000) {
		if err := b.transfer(rng); err != nil || b.stop.Load() {
			return err
		}
	}
	if rng.IntN(3) == 0 {
		return b.db.CompactRange(nil, nil)
	}
	return b.db.Flush()
}
