package history

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/lsm"
)

// Transactions are checked as Elle does it: a key's value is a list, a write appends the
// number of its transaction. The lists tell in which order transactions wrote a key, and
// what each read saw; so all dependencies between committed transactions are known, and
// the history is serializable if they have no cycle (Adya's graph).

// action is a committed transaction.
type action struct {
	id int
	// what it saw of each key, own appends left out; an empty list was absent
	reads      map[int][]int
	appends    []int // keys
	call, done int64 // on the clock of all clients
	synced     bool
}

// SerialShape is the size of a history of transactions.
type SerialShape struct {
	Clients, Keys, Txns int // Txns of each client, before and after the crash
	Options             lsm.TxnOptions
	// Weak leaves out the edges from a reader to the transaction that overwrote the value read:
	// snapshot isolation allows two of these in a cycle.
	Weak bool
	// Spaces puts every second key into a keyspace of its own.
	Spaces bool

	odd *lsm.Keyspace // nil: the default one
}

// open opens the database of a life.
func (s *SerialShape) open(o *lsm.Options) (*lsm.DB, error) {
	db, err := lsm.Open("db", o)
	if err != nil || !s.Spaces {
		return db, err
	}
	if s.odd, err = db.Keyspace("odd", nil); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// spaceOf is the keyspace of a key; nil is the default one.
func (s *SerialShape) spaceOf(key int) *lsm.Keyspace {
	if key%2 == 0 {
		return nil
	}
	return s.odd
}

// Serial lets clients run transactions on a fresh database, crashes it, lets them go on,
// and checks both histories and what the crash left of the first one.
func Serial(seed int64, s SerialShape) error {
	fs := vfs.NewMem()
	o := small()
	o.FS = fs
	if s.Spaces {
		o.Format = lsm.FormatNative
	}
	var clock, ids atomic.Int64
	var before [][]int
	for life := range 2 {
		db, err := s.open(o)
		if err != nil {
			return err
		}
		begin, err := lists(db, s)
		if err == nil && life == 1 {
			err = survived(before, begin)
		}
		if err != nil {
			return errors.Join(fmt.Errorf("seed %d: %w", seed, err), db.Close())
		}
		actions, err := serialClients(db, s, rand.New(rand.NewPCG(uint64(seed), uint64(life))),
			&clock, &ids)
		var end [][]int
		if err == nil {
			end, err = lists(db, s)
		}
		if err == nil {
			err = serializable(actions, begin, end, s.Weak)
		}
		if err == nil && life == 0 {
			rng := rand.New(rand.NewPCG(uint64(seed), 77))
			crashed := fs.CrashClone(vfs.RandomBlocks(rng))
			before = end
			o.FS = crashed
			after, e := lostWhole(crashed, actions, s)
			err = errors.Join(e, after)
		}
		if err != nil {
			return errors.Join(fmt.Errorf("seed %d, life %d: %w", seed, life, err), db.Close())
		}
		if err := db.Close(); err != nil {
			return err
		}
	}
	return nil
}

// lostWhole opens a copy of the database after a crash: transactions are whole or absent, and the
// synced ones are present, with all that they depend on.
func lostWhole(fs *vfs.Mem, actions []action, s SerialShape) (found, err error) {
	o := small()
	o.FS = fs.CrashClone(vfs.KeepAll())
	db, err := s.open(o)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	now, err := lists(db, s)
	if err != nil {
		return nil, err
	}
	there := map[int]int{}
	for _, l := range now {
		for _, id := range l {
			there[id]++
		}
	}
	for _, a := range actions {
		n := there[a.id]
		if n != 0 && n != len(a.appends) || n == 0 && a.synced && len(a.appends) > 0 {
			return fmt.Errorf("after the crash %d of %d writes of transaction %d are there, "+
				"synced %v", n, len(a.appends), a.id, a.synced), nil
		}
		if n == 0 {
			continue
		}
		for k, l := range a.reads {
			if len(l) > len(now[k]) || !slices.Equal(l, now[k][:len(l)]) {
				return fmt.Errorf("after the crash transaction %d is there, but not what it read "+
					"of key %d: %v of %v", a.id, k, l, now[k]), nil
			}
		}
	}
	return nil, nil
}

// survived reports what a crash did besides cutting lists.
func survived(before, now [][]int) error {
	for k := range now {
		if len(now[k]) > len(before[k]) || !slices.Equal(now[k], before[k][:len(now[k])]) {
			return fmt.Errorf("key %d was %v before the crash and is %v", k, before[k], now[k])
		}
	}
	return nil
}

func lists(db *lsm.DB, s SerialShape) ([][]int, error) {
	all := make([][]int, s.Keys)
	snap := db.Snapshot()
	defer snap.Close()
	for k := range all {
		v, err := snap.In(s.spaceOf(k)).Get(name(k), nil)
		if err := found(err); err != nil {
			return nil, err
		}
		all[k] = parseList(v)
	}
	return all, nil
}

// parseList reads a value: numbers, and padding that makes memtables turn over.
func parseList(v []byte) (l []int) {
	text, _, _ := strings.Cut(string(v), "#")
	for f := range strings.FieldsSeq(text) {
		n, err := strconv.Atoi(f)
		if err != nil {
			return []int{-1}
		}
		l = append(l, n)
	}
	return l
}

func serialClients(db *lsm.DB, s SerialShape, rng *rand.Rand, clock,
	ids *atomic.Int64) ([]action, error) {
	results := make([][]action, s.Clients)
	errs := make([]error, s.Clients)
	var wg sync.WaitGroup
	for c := range results {
		own := rand.New(rand.NewPCG(rng.Uint64(), uint64(c)))
		wg.Go(func() {
			for i := 0; i < s.Txns && errs[c] == nil; i++ {
				o := s.Options
				if own.IntN(6) == 0 {
					o.Mode = lsm.Sync
				}
				a := action{id: int(ids.Add(1)), call: clock.Add(1), synced: o.Mode == lsm.Sync}
				errs[c] = db.UpdateWith(context.Background(), &o, func(tx *lsm.Txn) error {
					a.reads, a.appends = map[int][]int{}, nil
					return a.run(tx, own, s)
				})
				a.done = clock.Add(1)
				results[c] = append(results[c], a)
				if own.IntN(40) == 0 {
					errs[c] = errors.Join(errs[c], db.Flush())
				}
			}
		})
	}
	wg.Wait()
	return slices.Concat(results...), errors.Join(errs...)
}

// run does a few random things in a transaction.
func (a *action) run(tx *lsm.Txn, rng *rand.Rand, s SerialShape) error {
	for range 1 + rng.IntN(4) {
		k := rng.IntN(s.Keys)
		switch op := rng.IntN(10); {
		case op < 3:
			v, err := tx.In(s.spaceOf(k)).Get(name(k), nil)
			if err := found(err); err != nil {
				return err
			}
			a.saw(k, v)
		case op < 8:
			if err := a.append(tx.In(s.spaceOf(k)), k, rng); err != nil {
				return err
			}
		default:
			if err := a.scan(tx, s, k, k+1+rng.IntN(s.Keys-k), rng.IntN(2) == 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// saw notes what a read saw of a key. Own appends stand at the end.
func (a *action) saw(k int, v []byte) {
	l := parseList(v)
	for len(l) > 0 && l[len(l)-1] == a.id {
		l = l[:len(l)-1]
	}
	if before, ok := a.reads[k]; ok && !slices.Equal(before, l) {
		l = []int{-2} // not repeatable: no list has this
	}
	a.reads[k] = l
}

func (a *action) append(tx *lsm.Txn, k int, rng *rand.Rand) error {
	v, err := tx.GetForUpdate(name(k), nil)
	if err := found(err); err != nil {
		return err
	}
	a.saw(k, v)
	text, _, _ := bytes.Cut(v, []byte("#"))
	a.appends = append(a.appends, k)
	return tx.Put(name(k), fmt.Appendf(slices.Clone(text), "%d #%0*d", a.id, 1+rng.IntN(400), 0))
}

func (a *action) scan(tx *lsm.Txn, s SerialShape, from, to int, backward bool) error {
	got := map[string][]byte{}
	for i := range 2 {
		if i > 0 && s.odd == nil {
			break
		}
		it := tx.In(s.spaceOf(i)).Iter(&lsm.IterOptions{Lower: name(from), Upper: name(to)})
		move, ok := it.Next, it.First()
		if backward {
			move, ok = it.Prev, it.Last()
		}
		for ; ok; ok = move() {
			got[string(it.Key())] = slices.Clone(it.Value())
		}
		if err := it.Close(); err != nil {
			return err
		}
	}
	for k := from; k < to; k++ {
		a.saw(k, got[string(name(k))])
	}
	return nil
}

// serializable looks for cycles, which no serial order explains. begin and end are the lists
// before and after the actions.
func serializable(actions []action, begin, end [][]int, weak bool) error {
	index := map[int]int{}
	for i, a := range actions {
		index[a.id] = i
	}
	g := make([][]int, len(actions))
	edge := func(from, to int) {
		f, okFrom := index[from]
		t, okTo := index[to]
		if okFrom && okTo && f != t {
			g[f] = append(g[f], t)
		}
	}
	count := map[[2]int]int{}
	for k, l := range end {
		if len(l) < len(begin[k]) || !slices.Equal(l[:len(begin[k])], begin[k]) {
			return fmt.Errorf("key %d lost what it began with: %v, %v", k, begin[k], l)
		}
		for i, id := range l[len(begin[k]):] {
			if _, ok := index[id]; !ok {
				return fmt.Errorf("key %d has a write of transaction %d, which did not commit", k,
					id)
			}
			count[[2]int{id, k}]++
			if at := len(begin[k]) + i; at > 0 {
				edge(l[at-1], id)
			}
		}
	}
	for _, a := range actions {
		for _, k := range a.appends {
			count[[2]int{a.id, k}]--
		}
		for k, l := range a.reads {
			if len(l) > len(end[k]) || !slices.Equal(l, end[k][:len(l)]) {
				return fmt.Errorf("transaction %d read %v of key %d, which became %v", a.id, l, k,
					end[k])
			}
			if len(l) > 0 {
				edge(l[len(l)-1], a.id)
			}
			if next := behindOwn(end[k], len(l), a.id); next != 0 && !weak {
				edge(a.id, next)
			}
		}
	}
	for at, n := range count {
		if n != 0 {
			return fmt.Errorf("transaction %d: %d writes to key %d are missing, or there too often",
				at[0], -n, at[1])
		}
	}
	for i := range actions { // real time
		for j := range actions {
			if actions[i].done < actions[j].call && !weak && len(actions[j].appends) > 0 {
				g[i] = append(g[i], j)
			}
		}
	}
	return cycle(actions, g)
}

// behindOwn is the next writer after the value read, except the reader itself; 0 for nobody.
func behindOwn(l []int, read, reader int) int {
	for _, id := range l[read:] {
		if id != reader {
			return id
		}
	}
	return 0
}

// cycle reports a cycle in the graph.
func cycle(actions []action, g [][]int) error {
	const fresh, open, done = 0, 1, 2
	state := make([]int, len(g))
	var path []int
	var visit func(i int) []int
	visit = func(i int) []int {
		state[i] = open
		path = append(path, i)
		for _, j := range g[i] {
			if state[j] == open {
				return path[slices.Index(path, j):]
			}
			if state[j] == fresh {
				if c := visit(j); c != nil {
					return c
				}
			}
		}
		state[i] = done
		path = path[:len(path)-1]
		return nil
	}
	for i := range g {
		if state[i] != fresh {
			continue
		}
		if c := visit(i); c != nil {
			var b strings.Builder
			for _, n := range c {
				fmt.Fprintf(&b, "\n  transaction %d read %v and appended to %v", actions[n].id,
					actions[n].reads, actions[n].appends)
			}
			return fmt.Errorf("no serial order:%s", b.String())
		}
	}
	return nil
}

// TxnBank moves money between accounts in transactions of a kind, beside transactions that sum
// them up, and wants every sum to be the same. It returns how many transfers there were.
func TxnBank(seed int64, accounts, transfers int, o lsm.TxnOptions) error {
	db, err := lsm.Open("db", small())
	if err != nil {
		return err
	}
	defer db.Close()
	ctx := context.Background()
	for i := range accounts {
		if err := db.Put(account(i), amount(opening), lsm.NoSync); err != nil {
			return err
		}
	}
	b := &bank{db: db, accounts: accounts}
	const clients = 8
	errs := make([]error, clients)
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(seed), uint64(c)))
			for i := 0; i < transfers && errs[c] == nil; i++ {
				switch {
				case c < 2:
					errs[c] = db.View(b.sumTxn)
				case i%50 == 0:
					errs[c] = db.Flush()
				default:
					errs[c] = db.UpdateWith(ctx, &o, func(tx *lsm.Txn) error {
						return transferTxn(tx, rng, accounts)
					})
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errors.Join(errs...), db.View(b.sumTxn))
}

func (b *bank) sumTxn(tx *lsm.Txn) error {
	var sum int64
	n := 0
	var err error
	for _, v := range tx.All(nil, nil, &err) {
		sum += balance(v)
		n++
	}
	if err != nil {
		return err
	}
	return b.check(sum, n, "transaction")
}

func transferTxn(tx *lsm.Txn, rng *rand.Rand, accounts int) error {
	from, to := rng.IntN(accounts), rng.IntN(accounts)
	if from == to {
		return nil
	}
	n := int64(rng.IntN(100))
	for i, k := range []int{from, to} {
		v, err := tx.GetForUpdate(account(k), nil)
		if err != nil {
			return err
		}
		if err := tx.Put(account(k), amount(balance(v)-n+2*n*int64(i))); err != nil {
			return err
		}
	}
	return nil
}
