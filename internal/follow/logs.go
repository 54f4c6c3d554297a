package follow

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/batchrepr"
	"github.com/loamdb/loam/internal/manifest"
	"github.com/loamdb/loam/internal/memtable"
	"github.com/loamdb/loam/internal/tree"
	"github.com/loamdb/loam/internal/wal"
)

// logs is what was read of the logs.
type logs struct {
	tail   *wal.Tail
	format base.Format
	begun  int // the MANIFEST that they belong to, see Edits.Begun
	spaces map[base.KeyspaceID]*space
	known  base.KeyspaceID // no keyspace has a larger ID, as far as the MANIFEST was read

	seq     base.SeqNum // all up to here was read
	covered base.SeqNum // tables have what is up to here and in no log
	applied base.SeqNum // all up to here is in memtables: more than seq after a record that failed in the middle
	log     uint64      // of the last record
	place   wal.Place   // behind the last record
	end     bool        // there was no more

	queue []wal.Tailed // records to be taken next
	batch []byte       // their batches, but for that of the last one, see fill
	room  [ahead]wal.Tailed
}

// ahead is how many records are read before the first of them is taken: so long their places
// in the index of the memtable have to come into the processor's cache, side by side.
const ahead = 16

// A record of more than ownBytes, or of more than ownEntries, is the last one of a queue.
const (
	ownBytes   = 4 << 10
	ownEntries = 4
)

// space is what was read of one keyspace.
type space struct {
	tree     *tree.Tree
	firstLog uint64 // entries of older logs are in tables
	// tables are memtables with a reference each, oldest first, each with entries of one log. There is
	// one at least.
	tables []*tree.Sealed
	dirty  bool // tables are others than those of the tree's state
}

// gap says that the logs do not go on where those that were read end.
type gap struct {
	error
	within bool // in the middle of a log
}

func (g gap) Unwrap() error { return g.error }

// whole is the sequence number at which the entries are a whole state.
func (l *logs) whole() base.SeqNum { return max(l.seq, l.covered) }

// oldestLog is the oldest log with entries that are not in tables.
func oldestLog(st *manifest.State) uint64 {
	if st.PrevLogNum != 0 {
		return min(st.LogNum, st.PrevLogNum)
	}
	return st.LogNum
}

// firstLog is the oldest log with entries of a keyspace that are not in tables.
func (l *logs) firstLog(st *manifest.State, k *manifest.KeyspaceState) uint64 {
	first := oldestLog(st)
	if l.format == base.Native {
		first = max(first, k.FirstLog)
	}
	return first
}

// start starts the tree with a version, whose reference it takes over.
func (s *space) start(v *manifest.Version) {
	tables := s.newestFirst()
	s.tree.StartWith(tables[0].Mem, tables[0].FirstLog, tables[1:], v)
	s.dirty = false
}

// readAnew reads the logs that a MANIFEST needs, up to a state that is whole with its tables.
func (f *Follower) readAnew(ctx context.Context, st *manifest.State) (_ *logs, err error) {
	l := &logs{format: f.o.Edits.Format(), begun: f.o.Edits.Begun(), spaces: map[base.KeyspaceID]*space{}, known: st.MaxKeyspace, covered: st.LastSeq}
	defer func() {
		if err != nil {
			l.free()
		}
	}()
	l.place = wal.Place{Log: oldestLog(st)}
	l.tail = wal.NewTail(wal.TailOptions{FS: f.o.FS, Dir: f.o.Dir, Format: l.format}, l.place)
	for _, k := range st.Keyspaces() {
		if f.trees[k.ID] == nil {
			f.trees[k.ID] = f.o.Tree(k.ID)
		}
		var like *memtable.MemTable
		if f.logs != nil && f.logs.spaces[k.ID] != nil {
			like = f.logs.spaces[k.ID].newest().Mem
		}
		l.add(k.ID, f.trees[k.ID], l.firstLog(st, k), like)
	}
	var until horizon
	for least := max(st.LastSeq, f.o.Seqs.Visible()); !l.end && (l.seq < least || f.logs == nil && !until.reached(l)); {
		if err := f.overtaken(l); err != nil {
			return nil, err
		}
		_, err := l.read(ctx, sliceBytes)
		var gone gap
		if errors.As(err, &gone) {
			err = f.gap(l, gone)
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, err
		}
	}
	return l, nil
}

// horizon is where a catch-up ends that began before the writer had written what is behind it.
type horizon struct{ wal.Place }

// reached is called after some of the logs was read, but not to their end.
func (h *horizon) reached(l *logs) bool {
	if h.Log == 0 {
		at, err := l.tail.Horizon()
		if err != nil || l.place.Log == 0 {
			return false
		}
		h.Place = at
	}
	return !l.place.Before(h.Place)
}

// overtaken fails when the MANIFEST has all that was read of the logs in tables.
func (f *Follower) overtaken(l *logs) error {
	changed, err := f.o.Edits.Poll()
	if err != nil {
		return err
	}
	f.behind = f.behind || changed
	if f.behind && l.place.Log < f.o.Edits.oldestLog() {
		c := base.Corruptf("log record", "the MANIFEST needs it no more")
		c.File = l.format.FileName(base.FileLog, l.place.Log)
		return stale{c}
	}
	return nil
}

// add adds a keyspace, whose memtable is to be one like another one, if that is not nil.
func (l *logs) add(id base.KeyspaceID, t *tree.Tree, firstLog uint64, like *memtable.MemTable) {
	l.spaces[id] = &space{tree: t, firstLog: firstLog}
	l.spaces[id].begin(like)
}

// begin begins a memtable where there is none.
func (s *space) begin(like *memtable.MemTable) {
	mem, _ := s.tree.NewMemTable(like, 0, 0) // for nothing there always is memory
	s.tables, s.dirty = []*tree.Sealed{{Mem: mem, FirstLog: s.firstLog}}, true
}

// newest is the memtable that takes entries.
func (s *space) newest() *tree.Sealed { return s.tables[len(s.tables)-1] }

// remove forgets a keyspace.
func (l *logs) remove(id base.KeyspaceID) {
	if s := l.spaces[id]; s != nil {
		s.free()
		delete(l.spaces, id)
	}
}

// free gives back what the logs hold.
func (l *logs) free() {
	for _, s := range l.spaces {
		s.free()
	}
	_ = l.tail.Close() // of files that were read: nothing is lost
}

func (s *space) free() {
	for _, t := range s.tables {
		t.Mem.Unref()
	}
	s.tables = nil
}

// drop gives up the memtables of logs before firstLog.
func (s *space) drop(firstLog uint64) {
	s.firstLog = max(s.firstLog, firstLog)
	n := 0
	for ; n < len(s.tables) && s.tables[n].FirstLog < s.firstLog; n++ {
		s.tables[n].Mem.Unref()
	}
	if n > 0 {
		s.tables, s.dirty = slices.Delete(s.tables, 0, n), true
	}
	if len(s.tables) == 0 {
		s.begin(nil)
	}
}

// newestFirst is the memtables as a tree has them.
func (s *space) newestFirst() []*tree.Sealed {
	tables := slices.Clone(s.tables)
	slices.Reverse(tables)
	return tables
}

// read puts the next bytes of the logs into memtables, whole records, at least limit unless
// they end before. After an error it goes on where it was.
func (l *logs) read(ctx context.Context, limit int64) (end bool, err error) {
	l.end = false
	for limit > 0 && ctx.Err() == nil {
		var why error
		if len(l.queue) == 0 {
			why = l.fill()
		}
		for len(l.queue) > 0 {
			r := &l.queue[0]
			if err := l.take(r); err != nil {
				last := &l.queue[len(l.queue)-1]
				last.Batch = bytes.Clone(last.Batch)
				return false, err
			}
			l.place = wal.Place{Log: r.Log, Offset: r.End}
			limit -= r.End - r.Begin
			l.queue = l.queue[1:]
		}
		switch {
		case errors.Is(why, wal.ErrNotYet):
			l.place, l.end = l.tail.Place(), true
			return true, nil
		case errors.Is(why, wal.ErrLogGone):
			c := base.Corruptf("log record", "the log is missing, which the MANIFEST needs")
			c.File = l.format.FileName(base.FileLog, l.tail.Place().Log)
			return false, gap{c, false}
		case why != nil:
			return false, why
		}
	}
	return false, nil
}

// fill reads records into an empty queue, and returns why there are no more. The last one's batch
// is the Tail's.
func (l *logs) fill() error {
	l.queue, l.batch = l.room[:0], l.batch[:0]
	var mem *memtable.MemTable
	if s := l.spaces[base.DefaultKeyspace]; s != nil {
		mem = s.newest().Mem
	}
	for {
		r, err := l.tail.Next()
		if err != nil {
			return err
		}
		own := len(r.Batch) > ownBytes || batchrepr.Count(r.Batch) > ownEntries
		if !own && mem != nil {
			for it := batchrepr.Read(r.Batch); ; {
				id, _, key, _, ok := it.Next()
				if !ok {
					break
				}
				if id == base.DefaultKeyspace {
					mem.PrefetchWrite(key)
				}
			}
		}
		if own || len(l.queue) == ahead-1 {
			l.queue = append(l.queue, r)
			return nil
		}
		n := len(l.batch)
		l.batch = append(l.batch, r.Batch...)
		r.Batch = l.batch[n:len(l.batch):len(l.batch)]
		l.queue = append(l.queue, r)
	}
}

// take puts a record into memtables. It may be called again after an error.
func (l *logs) take(r *wal.Tailed) error {
	if r.First > l.whole()+1 {
		c := base.Corruptf("log record", "sequence number %d follows %d", r.First, l.whole())
		c.Offset = r.Begin
		return gap{base.LocateCorruption(c, l.format.FileName(base.FileLog, r.Log), 0, 0), r.Log == l.log}
	}
	var err error
	if s := l.spaces[base.DefaultKeyspace]; l.known == base.DefaultKeyspace && r.First > max(l.applied, l.seq) {
		err = l.takeWhole(s, r)
	} else {
		err = l.takeEntries(r)
	}
	if err != nil {
		return err
	}
	l.seq, l.applied, l.log = r.Last, r.Last, r.Log
	return nil
}

// takeWhole takes a record of the default keyspace.
func (l *logs) takeWhole(s *space, r *wal.Tailed) error {
	if r.Log < s.firstLog {
		return nil
	}
	mem, err := s.memTableFor(r.Log, int64(len(r.Batch)), int(r.Last-r.First)+1)
	if err != nil {
		return err
	}
	mem.Last = r.Last
	return mem.Mem.Apply(r.Batch, r.First)
}

// takeEntries takes a record by its entries, without those that were taken before, are in tables,
// or are of keyspaces that were dropped.
func (l *logs) takeEntries(r *wal.Tailed) error {
	seq := r.First
	for it := batchrepr.Read(r.Batch); ; seq++ {
		id, kind, key, value, ok := it.Next()
		if !ok {
			return it.Err()
		}
		if seq <= l.applied {
			continue
		}
		s := l.spaces[id]
		switch {
		case s == nil && id > l.known:
			return stale{base.LocateCorruption(base.Corruptf("log record", "unknown keyspace %d", id), l.format.FileName(base.FileLog, r.Log), r.Begin, r.End-r.Begin)}
		case s == nil || r.Log < s.firstLog:
			l.applied = seq
			continue
		}
		mem, err := s.memTableFor(r.Log, int64(len(key)+len(value)), 1)
		if err == nil {
			err = mem.Mem.Add(seq, kind, key, value)
		}
		if err != nil {
			return err
		}
		mem.Last, l.applied = seq, seq
	}
}

// memTableFor returns a memtable with room for so many bytes and entries of a log.
func (s *space) memTableFor(log uint64, bytes int64, entries int) (*tree.Sealed, error) {
	var prev *memtable.MemTable
	if n := len(s.tables); n > 0 {
		newest := s.tables[n-1]
		if newest.Mem.Len() == 0 && newest.FirstLog != log {
			newest.FirstLog = log
		}
		if newest.FirstLog == log {
			if err := newest.Mem.Room(bytes, entries); err == nil || newest.Mem.Len() == 0 {
				return newest, err
			}
		}
		prev = newest.Mem
	}
	mem, err := s.tree.NewMemTable(prev, bytes, entries)
	if err != nil {
		mem.Unref()
		return nil, err
	}
	t := &tree.Sealed{Mem: mem, FirstLog: log}
	s.tables, s.dirty = append(s.tables, t), true
	return t, nil
}
