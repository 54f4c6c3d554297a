package tree

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/mergeop"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/memory/arena"
	"github.com/loamdb/loam/internal/memory/budget"
	"github.com/loamdb/loam/internal/memory/epoch"
	"github.com/loamdb/loam/internal/store/files"
	"github.com/loamdb/loam/internal/tree/empties"
	"github.com/loamdb/loam/internal/tree/memtable"
)

// Shared is what the trees of one database have in common. All fields but Spare are
// required.
type Shared struct {
	Seqs    *Sequences
	Reads   *epoch.Domain // guards of reads; what they may see is freed through it
	Files   *files.Set
	Holders *Holders
	Folds   *Folds
	Ops     *Operations
	Spare   *arena.Spare // memory for memtables; nil: none is kept
	// Late is a tree for which a writer is to call ScoutNow, after its commit.
	Late *atomic.Pointer[Tree]
	// Fail makes the database read-only with err as the cause, and returns the
	// error that later writes get.
	Fail func(err error) error
}

// Options configures a Tree.
type Options struct {
	ID       base.KeyspaceID
	Name     string
	Comparer *base.Comparer
	Tables   sstable.WriterOptions // for new tables
	// MemTableSize is how many bytes a memtable takes. SetMemTableSize replaces it.
	MemTableSize int64
	Account      *budget.Account // told of the memory of memtables; nil: nobody is
	// Merge makes values of operands; nil: reads of keys that have some fail. SetMerge
	// replaces it.
	Merge *mergeop.Operator
	// Filter decides in compactions what becomes of entries; nil: they are kept.
	Filter *base.CompactionFilter
	// MaxUnpacked bounds the bytes of a packed value that Filter is shown.
	MaxUnpacked int64
	// MaxOperands is how many operands a read may fold without consequences. Reads that
	// fold more call LongChains when they have cost as much as a flush would.
	MaxOperands int
	LongChains  func()
	// ManyDeletes is memtable.Options.ManyDeletes of the memtables.
	ManyDeletes func()
	// RunsSought takes every soughtStep extra sorted runs that reads of the tree searched.
	RunsSought func()
}

// Tree is one keyspace. It is safe for concurrent use, but for the methods of the
// commit leader.
type Tree struct {
	shared Shared
	opts   Options
	cmp    *base.Comparer

	demand *Demand // of Sequences
	// state is empty before Start and after Close. Its lock is not held during I/O.
	state epoch.Pointer[ReadState]
	lead  writer                        // of the commit leader; changed by the owner of state
	hint  atomic.Pointer[memtable.Hint] // of lead.mem

	memSize atomic.Int64 // of new memtables, in bytes
	tables  atomic.Pointer[sstable.WriterOptions]
	filter  atomic.Pointer[base.CompactionFilter] // nil: none
	refused atomic.Uint64                         // 0, or the turn of Sequences.Refuse
	states  atomic.Int64                          // how many exist

	merge      atomic.Pointer[mergeop.Operator]
	runsSought epoch.Tally
	expires    atomic.Bool   // see Expires
	ingested   atomic.Uint64 // see NoteIngested
	overlong   atomic.Int64  // operands of long chains that reads folded since LongChains

	ordinal uint64      // of the newest state; guarded by state's lock, as is flushed
	flushed base.SeqNum // see ReadState
	empties empties.Set
	scouts  atomic.Pointer[scouts] // nil: there was no use for them yet
}

// writer is what the commit leader writes to. It has a reference on the memtable, so that the
// leader needs no guard.
type writer struct {
	mem *memtable.MemTable // that of the state; nil: there is none
	log uint64             // ReadState.FirstLog
}

// New makes a Tree. Start begins its service.
func New(o Options, s Shared) *Tree {
	t := &Tree{shared: s, opts: o, cmp: o.Comparer, demand: s.Seqs.Demand}
	t.tables.Store(&t.opts.Tables)
	t.memSize.Store(o.MemTableSize)
	t.filter.Store(o.Filter)
	t.runsSought.Init(tallyStep)
	t.merge.Store(o.Merge)
	return t
}

// ID is the number of the keyspace.
func (t *Tree) ID() base.KeyspaceID { return t.opts.ID }

// Name is the name of the keyspace.
func (t *Tree) Name() string { return t.opts.Name }

// Comparer orders the keys.
func (t *Tree) Comparer() *base.Comparer { return t.cmp }

// Merge is the keyspace's merge operator, or nil. Reads go by that of their state.
func (t *Tree) Merge() *mergeop.Operator { return t.merge.Load() }

// SetMerge replaces the merge operator for the states to come. If now returns true for the operator
// of the current state, later reads of that state have the new operator, too; a nil now is false.
func (t *Tree) SetMerge(op *mergeop.Operator, now func(was *mergeop.Operator) bool) {
	o := t.state.Lock()
	defer o.Unlock()
	t.merge.Store(op)
	if s := o.Load(); s != nil && now != nil && now(s.merge) {
		s.Version.Ref()
		t.replace(o, t.newState(s.Mem, s.FirstLog, s.Sealed, s.Version))
	}
}

// Tables says how new tables are written.
func (t *Tree) Tables() sstable.WriterOptions { return *t.tables.Load() }

// SetTables changes how new tables are written.
func (t *Tree) SetTables(o sstable.WriterOptions) { t.tables.Store(&o) }

// SetMemTableSize changes how many bytes the next memtables take.
func (t *Tree) SetMemTableSize(n int64) {
	t.memSize.Store(n)
	memtable.SetSpareSize(t.shared.Spare, n)
}

// Filter is the compaction filter, nil for none, and the bound on packed values that it is
// shown.
func (t *Tree) Filter() (f *base.CompactionFilter, maxUnpacked int64) {
	return t.filter.Load(), t.opts.MaxUnpacked
}

// SetFilter changes the filter of compactions that begin from now on.
func (t *Tree) SetFilter(f *base.CompactionFilter) { t.filter.Store(f) }

// Start makes the first state: an empty memtable whose entries will go to log firstLog or later
// ones, the memtables sealed, newest first, and version, whose reference it takes over.
func (t *Tree) Start(firstLog uint64, sealed []*Sealed, version *manifest.Version) {
	mem := memtable.New(t.memOptions())
	defer mem.Unref() // the state has its own reference
	t.StartWith(mem, firstLog, sealed, version)
}

// StartWith is Start with a memtable that may have entries, which are in log firstLog. The
// caller keeps its reference.
func (t *Tree) StartWith(mem *memtable.MemTable, firstLog uint64, sealed []*Sealed,
	version *manifest.Version) {
	noteNewest(version, max(t.shared.Seqs.Visible(), 1))
	if hasExpiring(mem, sealed, version) {
		t.NoteExpiring()
	}
	o := t.state.Lock()
	defer o.Unlock()
	t.replace(o, t.newState(mem, firstLog, sealed, version))
}

// noteNewest records that the tables of a version, as far as they are of an earlier opening, have
// no entry above seq.
func noteNewest(version *manifest.Version, seq base.SeqNum) {
	for _, m := range version.Tables() {
		if m.Newest == 0 {
			m.Newest = seq
		}
	}
}

func hasExpiring(mem *memtable.MemTable, sealed []*Sealed, version *manifest.Version) bool {
	if slices.ContainsFunc(sealed, func(s *Sealed) bool { return s.Mem.HasExpiring() }) {
		return true
	}
	for _, m := range version.Tables() {
		if m.Kinds&base.ExpiringKinds != 0 {
			return true
		}
	}
	return mem.HasExpiring()
}

// replace makes s current, nil for none. The old state goes when the reads that may be
// using it have ended. Only the commit leader changes the memtable and its log, but for Close, Drop
// and Switch, beside which it does not write to the tree.
func (t *Tree) replace(o epoch.Owner[ReadState], s *ReadState) {
	next := writer{}
	if s != nil {
		next = writer{s.Mem, s.FirstLog}
	}
	if was := t.lead; was != next {
		t.hint.Store(nil)
		if next.mem != nil {
			next.mem.Ref()
			t.hint.Store(next.mem.Hint())
		}
		t.lead = next
		if was.mem != nil {
			was.mem.Unref()
		}
	}
	if old := o.Swap(s); old != nil {
		old.retire()
	}
}

// Close takes the state away: later reads, and moves of iterators, fail with
// base.ErrClosed. Iterators and reads under way keep what they use.
func (t *Tree) Close() {
	t.endScouts()
	o := t.state.Lock()
	defer o.Unlock()
	t.refused.Store(0)
	t.replace(o, nil)
	t.shared.Seqs.unpinTree(t)
}

// Refused reports whether there was a Sequences.Refuse, and no Close since.
func (t *Tree) Refused() bool { return t.refused.Load() != 0 }

// serves reports whether a snapshot may be read that was opened at this turn.
func (t *Tree) serves(turn uint64) bool {
	r := t.refused.Load()
	return r == 0 || turn < r
}

// Drop takes the state away after Sequences.Refuse, when no snapshot may be read. Open iterators go
// on until Close.
func (t *Tree) Drop() {
	t.endScouts()
	o := t.state.Lock()
	defer o.Unlock()
	t.replace(o, nil)
	t.shared.Seqs.unpinTree(t)
}

// NoteIngested says that tables with entries of sequence numbers up to seq are about to be
// installed: what a memtable has is no longer newer than all tables. Commit leader only.
func (t *Tree) NoteIngested(seq base.SeqNum) { t.ingested.Store(uint64(seq)) }

// mayHaveIngested reports whether tables may have entries that were ingested behind since.
func (t *Tree) mayHaveIngested(since base.SeqNum) bool {
	return base.SeqNum(t.ingested.Load()) > since
}

// Closed reports whether the Tree was closed, or not started.
func (t *Tree) Closed() bool { return t.state.Empty() && !t.Refused() }

// Gone is why a Tree takes no call: base.ErrNoKeyspace after Sequences.Refuse, or base.ErrClosed.
func (t *Tree) Gone() error {
	if t.Refused() {
		return fmt.Errorf("%w any more: %q was dropped", base.ErrNoKeyspace, t.opts.Name)
	}
	return base.ErrDatabaseClosed
}

// Unused reports whether no read and no iterator has a state.
func (t *Tree) Unused() bool { return t.states.Load() == 0 }

// current is the state to read at present; nil after Sequences.Refuse, and once closed.
func (t *Tree) current(g epoch.Guard) *ReadState {
	if t.Refused() {
		return nil
	}
	return t.state.Load(g)
}

// acquireAt returns the state and the sequence number to read at snap, or at present if
// that is nil, with a reference on the state.
func (t *Tree) acquireAt(snap *Snapshot) (*ReadState, base.SeqNum, error) {
	if err := t.present(snap, 0); err != nil {
		return nil, 0, err
	}
	return t.acquireShown(snap)
}

// acquireShown is acquireAt without a wait for a follower's catch-up.
func (t *Tree) acquireShown(snap *Snapshot) (*ReadState, base.SeqNum, error) {
	g := t.shared.Reads.Enter()
	s, seq, err := t.stateFor(g, snap)
	if err == nil {
		s.ref()
	}
	g.Exit()
	return s, seq, err
}

// Acquire returns the current state with a reference, or nil once closed.
func (t *Tree) Acquire() *ReadState {
	g := t.shared.Reads.Enter()
	s := t.state.Load(g)
	if s != nil {
		s.ref()
	}
	g.Exit()
	return s
}

// OldestLog is that of the current state; ok is false once closed.
func (t *Tree) OldestLog(flushed *Sealed) (num uint64, any, ok bool) {
	g := t.shared.Reads.Enter()
	defer g.Exit()
	if s := t.state.Load(g); s != nil {
		num, any = s.OldestLog(flushed)
		ok = true
	}
	return num, any, ok
}

// Sealed lists the memtables that wait for their flush, newest first; they may go meanwhile.
func (t *Tree) Sealed() []*Sealed {
	g := t.shared.Reads.Enter()
	defer g.Exit()
	if s := t.state.Load(g); s != nil {
		return s.Sealed
	}
	return nil
}

// NewMemTable makes an empty memtable with room for a group of so many bytes and
// entries, to follow prev if that is not nil. It returns the memtable with an error
// too when there is no memory for the group.
func (t *Tree) NewMemTable(prev *memtable.MemTable, bytes int64,
	entries int) (*memtable.MemTable, error) {
	o := t.memOptions()
	if prev != nil {
		o.Follow(prev)
	}
	mem := memtable.New(o)
	return mem, mem.Room(bytes, entries)
}

func (t *Tree) memOptions() memtable.Options {
	return memtable.Options{Comparer: t.cmp, Spare: t.shared.Spare, ManyDeletes: t.opts.ManyDeletes,
		Size: t.memSize.Load(), Account: t.opts.Account, Small: t.opts.ID != base.DefaultKeyspace}
}

// HasRoom reports whether the memtable takes a group of so many bytes and entries;
// if it does not, Rotate makes room. Commit leader only.
func (t *Tree) HasRoom(bytes int64, entries int) (bool, error) {
	mem := t.lead.mem
	err := mem.Room(bytes, entries)
	if mem.WantsFlush() || errors.Is(err, memtable.ErrFull) || mem.HalfFull() && t.appends() {
		return false, nil
	}
	return err == nil, err
}

// appends reports whether the entries of the memtable come in the order of their keys, where the
// tables have none, and nothing would make the writer wait for a new one. Commit leader only.
func (t *Tree) appends() bool {
	first, last := t.lead.mem.Ascending()
	g := t.shared.Reads.Enter()
	defer g.Exit()
	s := t.state.Load(g)
	return first != nil && s != nil && len(s.Sealed) == 0 && len(s.Version.Levels[0].Files) < 2 &&
		!s.Version.Overlapped(t.cmp, first, last)
}

// BeginLog tells the tree that its next entries go to log num: an empty memtable
// has none in older logs. Commit leader only, before it appends them.
func (t *Tree) BeginLog(num uint64) {
	if t.lead.log < num && t.lead.mem.Len() == 0 {
		t.beginLog(num)
	}
}

func (t *Tree) beginLog(num uint64) {
	o := t.state.Lock()
	defer o.Unlock()
	s := o.Load()
	s.Version.Ref()
	t.replace(o, t.newState(s.Mem, num, s.Sealed, s.Version))
}

// PrefetchWrite says that key is going to be written. The memtable's first access is then usually a
// cache miss, which overlaps with the write to the log. No guard is needed: nothing is read.
func (t *Tree) PrefetchWrite(key []byte) {
	if m := t.hint.Load(); m != nil {
		m.PrefetchWrite(key)
	}
}

// Apply inserts a batch, whose first entry has sequence number seq, into the
// memtable. Commit leader only.
func (t *Tree) Apply(batch []byte, seq base.SeqNum) error {
	err := t.lead.mem.Apply(batch, seq)
	if err == nil && t.empties.Any() {
		err = base.Guarded(t.cmp, (*Tree).cutEmpties, t, batch)
	}
	if t.wantsScout() {
		t.sendScout(lastDeleted(batch))
	}
	return err
}

// Order adds what was written to the order of the memtable; see memtable.MemTable.Order.
func (t *Tree) Order() error {
	s := t.Acquire()
	if s == nil {
		return nil
	}
	defer s.Unref()
	return s.Mem.Order()
}

// Add inserts one entry of a batch. Commit leader only.
func (t *Tree) Add(seq base.SeqNum, kind base.Kind, key, value []byte) error {
	err := t.lead.mem.Add(seq, kind, key, value)
	if err == nil && kind.GivesValue() && t.empties.Any() {
		err = base.Guarded(t.cmp, (*Tree).cutEmpty, t, key)
	}
	if kind == base.KindDelete && t.wantsScout() {
		t.sendScout(key)
	}
	return err
}

// Rotate seals the memtable and starts another one, with room for a group of so
// many bytes and entries. rotateLog starts the log for the entries after last and
// returns its number. When Rotate fails all stays as it was, and it may be tried
// again; on a closed Tree it fails with Gone. Commit leader only.
func (t *Tree) Rotate(bytes int64, entries int, rotateLog func(last base.SeqNum) (uint64,
	error)) error {
	was := t.Acquire() // Close may come from a keyspace's drop, beside the commit leader
	if was == nil {
		return t.Gone()
	}
	defer was.Unref()
	old := was.Mem
	last := t.shared.Seqs.Visible()
	fresh, err := t.NewMemTable(old, bytes, entries)
	defer fresh.Unref() // the state has its own reference
	if err != nil {
		return err
	}
	log, err := rotateLog(last)
	if err != nil {
		return err
	}
	o := t.state.Lock()
	defer o.Unlock()
	s := o.Load()
	if s == nil {
		return t.Gone()
	}
	sealed := append([]*Sealed{{Mem: old, FirstLog: s.FirstLog, Last: last}}, s.Sealed...)
	s.Version.Ref()
	t.replace(o, t.newState(fresh, log, sealed, s.Version))
	return nil
}

// Install makes the version of a manifest edit current, without the memtable
// flushed if that is not nil. It takes over the caller's reference on version. On a
// closed Tree the edit is durable all the same, and there is nothing to do.
//
// ingested, unless 0, is up to which sequence number the version has tables with entries that are
// newer than all others: it becomes visible in the same step. So a compaction that takes these
// tables lists every snapshot that does not see them. Commit leader only.
func (t *Tree) Install(version *manifest.Version, flushed *Sealed, ingested base.SeqNum) {
	o := t.state.Lock()
	defer o.Unlock()
	s := o.Load()
	if s == nil {
		version.Unref()
		return
	}
	sealed := s.Sealed
	if flushed != nil {
		t.flushed = max(t.flushed, flushed.Last)
		sealed = slices.DeleteFunc(slices.Clone(sealed),
			func(m *Sealed) bool { return m == flushed })
	}
	if seqs := t.shared.Seqs; ingested > 0 {
		seqs.mu.Lock()
		defer seqs.mu.Unlock()
		defer seqs.Publish(ingested)
	}
	t.replace(o, t.newState(s.Mem, s.FirstLog, sealed, version))
}

// soughtStep is how many extra sorted runs pass between two calls of
// Options.RunsSought.
const soughtStep = 1 << 15

// tallyStep is how many of them are counted in a stripe before the total changes.
const tallyStep = soughtStep / 64

// addRunsSought counts extra sorted runs that reads searched.
func (t *Tree) addRunsSought(n uint64) {
	before, after, moved := t.runsSought.Add(int64(n))
	if moved && before/soughtStep != after/soughtStep && t.opts.RunsSought != nil {
		t.opts.RunsSought()
	}
}

// soughtSample: of the Gets that searched a run in vain, one in soughtSample adds to the
// counter: an atomic addition costs more than the decision.
const soughtSample = 16

// soughtInVain counts what a Get spent on runs that do not have its key.
func (t *Tree) soughtInVain(n uint32) {
	if n > 0 && rand.Uint32()%soughtSample == 0 {
		t.addRunsSought(soughtSample * uint64(n))
	}
}

// RunsSought is the count of sorted runs that reads searched beyond one, less what
// SpendRunsSought took.
func (t *Tree) RunsSought() uint64 { return uint64(max(t.runsSought.Sum(), 0)) }

// SpendRunsSought takes n off the count, or all that there is.
func (t *Tree) SpendRunsSought(n uint64) { t.runsSought.Take(int64(min(n, math.MaxInt64))) }

// catch is deferred: a panic of the engine, or of what the user plugged in, becomes err and makes
// the database read-only.
func (t *Tree) catch(err *error) {
	if r := recover(); r != nil {
		*err = t.shared.Fail(base.NewPanic(r))
	}
}

// failOnPanic makes the database read-only if err stands for a panic that a
// package below recovered.
func (t *Tree) failOnPanic(err error) {
	var p *base.Panic
	if err != nil && errors.As(err, &p) {
		t.shared.Fail(err)
	}
}
