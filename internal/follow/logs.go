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
	pending *wal.Tailed // a record that could not be taken
	end     bool        // there was no more
}

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

// firstLog is the oldest log with entries of a keyspace that are not in tables.
func (l *logs) firstLog(st *manifest.State, k *manifest.KeyspaceState) uint64 {
	first := st.LogNum
	if st.PrevLogNum != 0 {
		first = min(first, st.PrevLogNum)
	}
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
	first := st.LogNum
	if st.PrevLogNum != 0 {
		first = min(first, st.PrevLogNum)
	}
	l.tail = wal.NewTail(wal.TailOptions{FS: f.o.FS, Dir: f.o.Dir, Format: l.format}, wal.Place{Log: first})
	for _, k := range st.Keyspaces() {
		if f.trees[k.ID] == nil {
			f.trees[k.ID] = f.o.Tree(k.ID)
		}
		l.add(k.ID, f.trees[k.ID], l.firstLog(st, k))
	}
	for least := max(st.LastSeq, f.o.Seqs.Visible()); !l.end && (l.seq < least || f.logs == nil); {
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

// add adds a keyspace.
func (l *logs) add(id base.KeyspaceID, t *tree.Tree, firstLog uint64) {
	l.spaces[id] = &space{tree: t, firstLog: firstLog, dirty: true}
	l.spaces[id].drop(firstLog)
}

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
		mem, _ := s.tree.NewMemTable(nil, 0, 0) // for nothing there always is memory
		s.tables, s.dirty = []*tree.Sealed{{Mem: mem, FirstLog: s.firstLog}}, true
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
	for n := 0; limit > 0; n++ {
		if n%256 == 255 && ctx.Err() != nil {
			return false, nil
		}
		r := l.pending
		if r == nil {
			next, err := l.tail.Next()
			switch {
			case errors.Is(err, wal.ErrNotYet):
				l.end = true
				return true, nil
			case errors.Is(err, wal.ErrLogGone):
				c := base.Corruptf("log record", "the log is missing, which the MANIFEST needs")
				c.File = l.format.FileName(base.FileLog, l.tail.Place().Log)
				return false, gap{c, false}
			case err != nil:
				return false, err
			}
			r = &next
		}
		if err := l.take(r); err != nil {
			if l.pending == nil {
				kept := *r
				kept.Batch = bytes.Clone(r.Batch)
				l.pending = &kept
			}
			return false, err
		}
		l.pending = nil
		limit -= r.End - r.Begin
	}
	return false, nil
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
