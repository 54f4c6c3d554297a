package txn

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/feature/locks"
	"github.com/loamdb/loam/internal/format/batchrepr"
	"github.com/loamdb/loam/internal/tree"
)

// Test with errors.Is.
var (
	ErrConflict = errors.New("conflict")
	ErrDone     = errors.New("the transaction has ended")
)

// Conflict names a key that another write changed. errors.Is(c, ErrConflict) holds.
type Conflict struct {
	Keyspace string // its name
	Key      []byte // the first one that was found
}

// Error names the key.
func (c *Conflict) Error() string {
	in := ""
	if c.Keyspace != base.DefaultKeyspaceName {
		in = fmt.Sprintf(" of keyspace %q", c.Keyspace)
	}
	return fmt.Sprintf("conflict: key %q%s was written since the transaction began: try again",
		c.Key, in)
}

// Is makes errors.Is(c, ErrConflict) hold.
func (c *Conflict) Is(target error) bool { return target == ErrConflict }

// As makes errors.As find the public type, see base.AsPublic.
func (c *Conflict) As(target any) bool { return base.AsPublic(c, target) }

// Keyspace is a keyspace as transactions need it. Equal ones are the same keyspace.
type Keyspace interface {
	ID() base.KeyspaceID
	Comparer() *base.Comparer
	// Reads is the tree to read.
	Reads() *tree.Tree
	// Writable says why the keyspace takes no writes, or nil.
	Writable() error
	// CheckWrite says why the keyspace cannot hold a write, or nil.
	CheckWrite(kind base.Kind, key, value []byte) error
	// RangeDeleted is called after keys from start up to limit were deleted.
	RangeDeleted(start, limit []byte)
	// TTL is how many seconds its values live that say nothing else; 0: for ever.
	TTL() uint64
}

// Options says how a transaction works; see lsm.TxnOptions.
type Options struct {
	Serializable bool
	Lock         bool
	ReadOnly     bool
	Name         string        // in errors about locks
	LockTimeout  time.Duration // 0: fails at once; negative: none
}

// Txn is a transaction. It is safe for concurrent use: its calls come one after another,
// except that reads of the database run beside others.
type Txn struct {
	m *Manager
	o Options

	stop     chan struct{} // closed by Rollback: a wait for a lock ends; nil without Options.Lock
	stopping sync.Once

	mu      sync.Mutex // guards the rest; held while waiting for a lock or the commit
	over    error      // why there are no more calls, or nil
	begin   tree.Snapshot
	snap    *tree.Snapshot // to read at: begin, or a later one, see lock
	batch   *Batch         // nil: nothing was written
	reads   Reads
	blind   bool // batch is not the transaction's own: only reads are checked
	resolve bool // batch has times to live or merges
	pinned  bool // by GetForUpdate: Commit checks reads even if nothing was written
	// something was read, or a range deleted, without locks: the snapshot stays
	unlocked bool
	updating int              // calls of GetForUpdate that read at a snapshot of locks
	left     []*tree.Snapshot // earlier snapshots that such a call may read at
	spaces   []Keyspace
	marks    []savepoint
	owner    *locks.Owner
	check    check
	space    [1]Keyspace // for spaces
}

type savepoint struct {
	serial uint64
	mark   Mark
}

// serials numbers savepoints, so that one of another transaction is told apart.
var serials atomic.Uint64

// Begin makes tx, a zero Txn, one that reads the present state.
func (m *Manager) Begin(tx *Txn, o Options) {
	tx.m, tx.o = m, o
	if o.Lock {
		tx.stop = make(chan struct{})
	}
	tx.snap = &tx.begin
	tx.spaces = tx.space[:0]
	m.db.Sequences().WaitFresh()
	m.db.Sequences().Open(&tx.begin)
	m.begun.Add(1)
}

// Fail makes all calls fail with err, but for Rollback.
func (tx *Txn) Fail(err error) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	tx.over = err
}

// catch makes a panic, of the comparer for instance, the error of a call and the end of
// the transaction.
func (tx *Txn) catch(err *error) {
	if r := recover(); r != nil {
		*err = tx.m.db.Health().Fail(base.NewPanic(r))
		tx.over = *err
	}
}

// note remembers a keyspace, whose keys the commit may have to check.
func (tx *Txn) note(k Keyspace) {
	for _, s := range tx.spaces {
		if s == k { // half a nanosecond less than slices.Contains, at each write
			return
		}
	}
	tx.spaces = append(tx.spaces, k)
}

// own is the writes to a keyspace, or nil.
func (tx *Txn) own(k Keyspace) *Space {
	if tx.batch == nil {
		return nil
	}
	return tx.batch.Space(k.ID(), nil, false)
}

// Iter makes it, a zero Iterator, one over the keyspace with the own writes of this
// moment. o.Snapshot is ignored.
func (tx *Txn) Iter(k Keyspace, it *tree.Iterator, o tree.IterOptions) {
	if err := tx.beginIter(k, &o); err != nil {
		it.Fail(err)
		return
	}
	k.Reads().Init(it, &o)
	if err := it.Err(); err != nil {
		it.Fail(tx.ended(err))
	}
}

// beginIter adds to o what an iterator reads: the snapshot and the own writes.
func (tx *Txn) beginIter(k Keyspace, o *tree.IterOptions) (err error) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	defer tx.catch(&err) // the range deletes are ordered
	if tx.over != nil {
		return tx.over
	}
	o.Snapshot, tx.unlocked = tx.snap, true
	if tx.o.Serializable {
		tx.note(k)
		o.Watch = NewScan(&tx.reads, &tx.mu, k.ID(), k.Comparer())
	}
	if s := tx.own(k); s != nil {
		o.Own, o.OwnRangeDels = s.Sources(&tx.mu), s.rangeDels()
	}
	return nil
}

// Write adds a write of any kind. A range delete takes no locks.
func (tx *Txn) Write(k Keyspace, kind base.Kind, key, value []byte) error {
	if kind == base.KindSet && k.TTL() > 0 {
		return tx.PutTTL(k, key, value, k.TTL())
	}
	return tx.write(k, kind, key, value)
}

func (tx *Txn) write(k Keyspace, kind base.Kind, key, value []byte) (err error) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	defer tx.catch(&err)
	size := batchrepr.HeaderLen
	if tx.batch != nil {
		size = tx.batch.Size()
	}
	if room := batchrepr.MaxLen - size - 32; len(key) > room || len(value) > room-len(key) {
		return fmt.Errorf("%w: the transaction's writes with this one; a batch holds at most "+
			"%d bytes", base.ErrTooLarge, int64(batchrepr.MaxLen))
	}
	if err := tx.mayWrite(k); err != nil {
		return err
	}
	if kind != base.KindSet && kind != base.KindDelete {
		if err := k.CheckWrite(kind, key, value); err != nil {
			return err
		}
	}
	if kind.IsPoint() {
		if err := tx.depend(k, key); err != nil {
			return err
		}
	} else if k.Comparer().Cmp(key, value) == 0 {
		return nil // a range without keys
	} else {
		tx.note(k)
		tx.unlocked = true // the commit checks the range from the present snapshot on
	}
	if tx.batch == nil {
		tx.batch = NewBatch()
	}
	tx.batch.Space(k.ID(), k.Comparer(), true).Add(kind, key, value)
	tx.resolve = tx.resolve || kind == base.KindSetExpiring || kind == base.KindMerge
	return nil
}

// MayWrite says why the transaction takes no writes to a keyspace, or nil.
func (tx *Txn) MayWrite(k Keyspace) error {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	return tx.mayWrite(k)
}

// mayWrite says why the transaction takes no writes to a keyspace, or nil.
func (tx *Txn) mayWrite(k Keyspace) error {
	if tx.over != nil {
		return tx.over
	}
	if tx.o.ReadOnly {
		return base.Invalidf("the transaction is read-only: begin one that may write")
	}
	return k.Writable()
}

// depend notes the keyspace of a key that is written, or read for update, and takes its lock.
func (tx *Txn) depend(k Keyspace, key []byte) error {
	tx.note(k)
	if tx.o.Lock {
		return tx.lock(k, key)
	}
	return nil
}

// lock takes the lock of a key. As long as the transaction has read nothing but keys that it has
// locked, and deleted no range, it reads the present state from then on: no transaction with locks
// can have changed what it read, and what it waited for is no conflict. Otherwise the key must not
// have changed since the snapshot. Commit looks at the key again, for the sake of writers that take
// no locks. The first snapshot stays open, so that their writes can be told.
func (tx *Txn) lock(k Keyspace, key []byte) error {
	if tx.owner == nil {
		tx.owner = &locks.Owner{Name: tx.o.Name, Stop: tx.stop}
		if tx.o.Name == "" {
			tx.owner.Name = "transaction " + strconv.FormatUint(tx.m.lastID.Add(1), 10)
		}
	}
	if _, err := tx.m.lockTable().Acquire(tx.owner, k.ID(), k.Comparer(), key,
		tx.o.LockTimeout); err != nil {
		if errors.Is(err, locks.ErrStopped) {
			return ErrDone
		}
		return err
	}
	if !tx.unlocked {
		if seqs := tx.m.db.Sequences(); tx.snap.Seq() != seqs.Visible() || seqs.Clock.InUse() {
			later := new(tree.Snapshot)
			seqs.Open(later)
			switch {
			case tx.snap == &tx.begin:
			case tx.updating > 0:
				tx.left = append(tx.left, tx.snap)
			default:
				tx.m.db.CloseSnapshot(tx.snap)
			}
			tx.snap = later
		}
	} else if newer, err := k.Reads().Newer(key, tx.snap.Seq(), 0); err != nil || newer {
		if err == nil {
			tx.m.conflicts.Add(1)
			err = tx.conflict(k, key)
		}
		return err
	}
	tx.reads.AddKey(k.ID(), key, tx.snap.Seq())
	return nil
}

func (tx *Txn) conflict(k Keyspace, key []byte) error {
	return &Conflict{Keyspace: k.Reads().Name(), Key: clone(key)}
}

// SavePoint returns the number of a savepoint, for RollbackTo.
func (tx *Txn) SavePoint() (uint64, error) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if tx.over != nil {
		return 0, tx.over
	}
	mark := Mark{size: batchrepr.HeaderLen}
	if tx.batch != nil {
		mark = tx.batch.Mark()
	}
	serial := serials.Add(1)
	tx.marks = append(tx.marks, savepoint{serial, mark})
	return serial, nil
}

// RollbackTo takes back the writes since a savepoint, and the savepoints after it.
func (tx *Txn) RollbackTo(serial uint64) (err error) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	defer tx.catch(&err)
	if tx.over != nil {
		return tx.over
	}
	for i, m := range slices.Backward(tx.marks) {
		if m.serial != serial {
			continue
		}
		if tx.batch != nil {
			tx.batch.RollBack(m.mark)
		}
		tx.marks = tx.marks[:i+1]
		return nil
	}
	return base.Invalidf("not a savepoint of this transaction, or one that a rollback to an " +
		"older one took back")
}

// Rollback ends the transaction without a trace, and a wait of another call for a lock, which has
// tx.mu. After the end it does nothing.
func (tx *Txn) Rollback() {
	if tx.stop != nil {
		tx.stopping.Do(func() { close(tx.stop) })
	}
	tx.mu.Lock()
	defer tx.mu.Unlock()
	tx.end()
}

// end gives everything back. tx.mu is held.
func (tx *Txn) end() {
	if tx.snap == nil {
		return
	}
	if tx.over == nil {
		tx.over = ErrDone
	}
	for _, s := range tx.left {
		tx.m.db.CloseSnapshot(s)
	}
	if tx.snap != &tx.begin {
		tx.m.db.CloseSnapshot(tx.snap)
	}
	tx.m.db.CloseSnapshot(&tx.begin)
	tx.snap, tx.left = nil, nil
	if tx.owner != nil {
		tx.m.lockTable().ReleaseAll(tx.owner)
	}
	if tx.batch != nil {
		tx.batch.Release()
	}
	tx.batch, tx.reads, tx.marks, tx.check = nil, Reads{}, nil, check{}
}
