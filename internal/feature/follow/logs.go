package follow

import (
	"context"
	"errors"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/batchrepr"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/store/replay"
	"github.com/loamdb/loam/internal/store/wal"
	"github.com/loamdb/loam/internal/tree"
	"github.com/loamdb/loam/internal/tree/memtable"
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
	// tables.Applied is more than seq after a record that failed in the middle
	tables replay.Tables
	place  wal.Place // behind the last record
	end    bool      // there was no more
	paused bool      // the trees learn no known-empty ranges: there are entries that no state shows

	group wal.Tailed // records to be taken next, as one; no Batch: none
	held  wal.Tailed // the next record after the group; its Batch is nil before it is read
	joint []byte     // memory for group.Batch
}

// Records are joined until they have groupBytes: few enough to stay in the processor's cache, and
// many enough for the memtable to look up their places in its index side by side. A record of more
// than aloneBytes is taken alone, without a copy.
const (
	groupBytes = 16 << 10
	aloneBytes = 4 << 10
)

// space is what was read of one keyspace. There is one memtable at least.
type space struct {
	replay.Space
	tree *tree.Tree
	// the newest memtable of the tree's state; nil: the state has others
	shown *tree.Sealed

	deletes int64  // read since the last scout
	deleted []byte // the last key that they delete
}

// changed reports whether the memtables are others than those of the tree's state.
func (s *space) changed() bool { return s.shown != s.Newest() }

// gap says that the logs do not go on at l.place: sequence numbers, records or a log are missing.
type gap struct {
	error
	// the end of the record behind missing sequence numbers; zero: there is no such record
	next  wal.Place
	first base.SeqNum // the number of that record, or the one that a marker says is next
}

func (g gap) Unwrap() error { return g.error }

// gapHere is a gap at l.place without a record behind it.
func (l *logs) gapHere(format string, args ...any) gap {
	return gap{error: base.Corruptf("log record", format, args...).At(
		l.format.FileName(base.FileLog, l.place.Log), l.place.Offset, 0)}
}

// hole is a gap of sequence numbers before first, which a record from at to next has, or a marker
// before next.
func (l *logs) hole(first base.SeqNum, at, next wal.Place) gap {
	return gap{base.Corruptf("log record", "sequence number %d follows %d", first, l.whole()).At(
		l.format.FileName(base.FileLog, at.Log), at.Offset, 0), next, first}
}

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
	tables := s.NewestFirst()
	s.tree.StartWith(tables[0].Mem, tables[0].FirstLog, tables[1:], v)
	s.shown = s.Newest()
}

// readAnew reads the logs that a MANIFEST needs, up to a state that is whole with its tables.
func (f *Follower) readAnew(ctx context.Context, st *manifest.State) (_ *logs, err error) {
	l := &logs{format: f.o.Edits.Format(), begun: f.o.Edits.Begun(),
		spaces: map[base.KeyspaceID]*space{}, known: st.MaxKeyspace, covered: st.LastSeq}
	l.tables = replay.Tables{Find: l.find, PerLog: true}
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
			like = f.logs.spaces[k.ID].Newest().Mem
		}
		l.add(k.ID, f.trees[k.ID], l.firstLog(st, k), like)
	}
	f.since = horizon{}
	if err := l.cover(f.o.FS, f.o.Dir); err != nil {
		return nil, err
	}
	for least := max(st.LastSeq, f.o.Seqs.Visible()); !l.end && !f.ready(l, least); {
		if err := f.overtaken(l); err != nil {
			return nil, err
		}
		_, err := f.readOn(ctx, l)
		var g gap
		if errors.As(err, &g) {
			l.end, err = f.gap(l, g)
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

// cover raises l.covered to the last sequence number before the first log: what older logs had is
// in tables, or was of keyspaces that were dropped, whose numbers the MANIFEST may lack. LevelDB's
// format has no keyspaces.
func (l *logs) cover(fsys vfs.FS, dir string) error {
	if l.format != base.Native {
		return nil
	}
	first, err := wal.FirstSeq(wal.TailOptions{FS: fsys, Dir: dir, Format: l.format}, l.place.Log)
	switch {
	case err == nil:
		l.covered = max(l.covered, max(first, 1)-1)
	case !errors.Is(err, wal.ErrNotYet) && !errors.Is(err, wal.ErrLogGone) &&
		!errors.Is(err, base.ErrCorruption): // of which the Tail tells
		return err
	}
	return nil
}

// readOn is logs.read, and compares the end of the logs with the MANIFEST: its edits say up to
// where the logs are durable.
func (f *Follower) readOn(ctx context.Context, l *logs) (end bool, err error) {
	durable := f.o.Edits.state.Durable // of a Poll before the logs are read: see judge.go
	end, err = l.read(ctx, sliceBytes)
	if d := (wal.Place{Log: durable.Num, Offset: durable.End}); end && err == nil &&
		l.place.Before(d) {
		return false, l.gapHere("the log ends here, but the logs are durable up to log %06d at %d",
			d.Log, d.Offset)
	}
	return end, err
}

// horizon is a place in the logs that is not before their end when reached is first called: what
// is written later is left to the next catch-up.
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
	if err := f.poll(); err != nil {
		return err
	}
	if f.behind && l.place.Log < f.o.Edits.oldestLog() {
		return stale{base.Corruptf("log record", "the MANIFEST needs it no more").At(
			l.format.FileName(base.FileLog, l.place.Log), -1, 0)}
	}
	return nil
}

// maxTries is how often a state is given up because keyspaces were created or dropped meanwhile: a
// writer that never ceases to do so does not stop its followers.
const maxTries = 10

var errMoved = errors.New("keyspaces are created and dropped all the time")

// unmoved is called before records become visible that were read after the MANIFEST, which had
// these keyspaces then. If it has others now, the records may be later than the change, and the
// state none that the writer had.
func (f *Follower) unmoved(then spaces) error {
	if err := f.poll(); err != nil {
		return err
	}
	if f.o.Edits.spaces() != then && f.tries > 0 {
		f.tries--
		return stale{errMoved}
	}
	return nil
}

// add adds a keyspace, whose memtable is to be one like another one, if that is not nil.
func (l *logs) add(id base.KeyspaceID, t *tree.Tree, firstLog uint64, like *memtable.MemTable) {
	s := &space{tree: t, Space: replay.Space{New: t.NewMemTable, FirstLog: firstLog}}
	l.spaces[id] = s
	s.begin(like)
}

// begin begins a memtable where there is none.
func (s *space) begin(like *memtable.MemTable) {
	mem, _ := s.New(like, 0, 0) // for nothing there always is memory
	s.Tables, s.shown = []*tree.Sealed{{Mem: mem, FirstLog: s.FirstLog}}, nil
}

// find is for replay.Tables: the keyspace of an entry of l.group.
func (l *logs) find(id base.KeyspaceID) (*replay.Space, error) {
	if s := l.spaces[id]; s != nil {
		return &s.Space, nil
	}
	if r := &l.group; id > l.known {
		return nil, gap{error: base.Corruptf("log record", "unknown keyspace %d", id).At(
			l.format.FileName(base.FileLog, r.Log), r.Begin, r.End-r.Begin)}
	}
	return nil, nil // it was dropped
}

// remove forgets a keyspace.
func (l *logs) remove(id base.KeyspaceID) {
	if s := l.spaces[id]; s != nil {
		s.Free()
		delete(l.spaces, id)
	}
}

// free gives back what the logs hold.
func (l *logs) free() {
	for _, s := range l.spaces {
		s.Free()
	}
	_ = l.tail.Close() // of files that were read: nothing is lost
}

// drop gives up the memtables of logs before firstLog.
func (s *space) drop(firstLog uint64) {
	s.FirstLog = max(s.FirstLog, firstLog)
	n := 0
	for ; n < len(s.Tables) && s.Tables[n].FirstLog < s.FirstLog; n++ {
	}
	if n > 0 {
		s.DropOldest(n)
		s.shown = nil
	}
	if len(s.Tables) == 0 {
		s.begin(nil)
	}
}

// read puts the next bytes of the logs into memtables, whole records, at least limit unless
// they end before. After an error it goes on where it was.
func (l *logs) read(ctx context.Context, limit int64) (end bool, err error) {
	l.end = false
	for limit > 0 && ctx.Err() == nil {
		var why error
		if len(l.group.Batch) == 0 {
			why = l.fill()
		}
		if r := &l.group; len(r.Batch) > 0 {
			if err := l.take(r); err != nil {
				return false, err
			}
			l.place = wal.Place{Log: r.Log, Offset: r.End}
			limit -= r.End - r.Begin
			r.Batch = nil
		}
		switch {
		case errors.Is(why, wal.ErrNotYet):
			l.place = l.tail.Place()
			if next := l.tail.Settled(); next > l.whole()+1 {
				return false, l.hole(next, l.place, l.place)
			}
			l.end = true
			return true, nil
		case errors.Is(why, wal.ErrLogGone):
			l.place = l.tail.Place()
			return false, l.gapHere("the log is missing, which the MANIFEST needs")
		case errors.Is(why, base.ErrCorruption):
			l.place = l.tail.Place()
			return false, gap{error: why}
		case why != nil:
			return false, why
		}
	}
	return false, nil
}

// fill reads records into the group, which is empty, and returns why there are no more. They are of
// one log, and their sequence numbers follow each other.
func (l *logs) fill() error {
	for g := &l.group; ; {
		if len(l.held.Batch) == 0 {
			r, err := l.tail.Next()
			if err != nil {
				return err
			}
			l.held = r
		}
		r := &l.held
		switch {
		case len(g.Batch) == 0:
			if *g = *r; len(r.Batch) > aloneBytes {
				r.Batch = nil
				return nil // the batch is the Tail's, and valid until the record behind it is read
			}
			g.Batch = append(l.joint[:0], r.Batch...)
		case r.Log != g.Log || r.First != g.Last+1 || r.Marked > r.First ||
			len(g.Batch)+len(r.Batch) > groupBytes || len(r.Batch) > aloneBytes:
			return nil
		default:
			g.Batch, _ = batchrepr.AppendBatch(g.Batch, r.Batch) // the count is that of a few bytes
			g.Last, g.End, g.Keyspaces = r.Last, r.End, g.Keyspaces || r.Keyspaces
		}
		l.joint, r.Batch = g.Batch, nil
	}
}

// take puts records into memtables. It may be called again after an error.
func (l *logs) take(r *wal.Tailed) error {
	if first := max(r.First, r.Marked); first > l.whole()+1 {
		return l.hole(first, wal.Place{Log: r.Log, Offset: r.Begin},
			wal.Place{Log: r.Log, Offset: r.End})
	}
	l.cutEmpties(r.Batch)
	whole := false
	if s := l.spaces[base.DefaultKeyspace]; !r.Keyspaces && r.First > max(l.tables.Applied, l.seq) {
		whole = s.takesWhole(r)
	}
	var err error
	if whole {
		home := &l.spaces[base.DefaultKeyspace].Space
		err = l.tables.AddWhole(home, r.Log, r.Batch, r.First, r.Last)
	} else {
		l.prefetch(r.Batch)
		err = l.tables.Add(r.Log, r.Batch, r.First)
	}
	if err == nil {
		l.seq = r.Last
	}
	return err
}

// cutEmpties comes before entries are in a memtable: it takes their keys out of the known-empty
// ranges of trees, which learn no others until resume, and notes the deletions for resume's scouts.
func (l *logs) cutEmpties(batch []byte) {
	if !l.paused {
		l.paused = true
		for _, s := range l.spaces {
			s.tree.PauseLearning()
		}
	}
	for it := batchrepr.Read(batch); ; {
		id, kind, key, _, ok := it.Next()
		if !ok {
			return
		}
		s := l.spaces[id]
		if s == nil {
			continue
		}
		s.tree.Replayed(kind, key)
		if kind == base.KindDelete {
			s.deletes++
			s.deleted = append(s.deleted[:0], key...)
		}
	}
}

// resume is called when all entries that were read are shown.
func (l *logs) resume() {
	l.paused = false
	for _, s := range l.spaces {
		s.tree.ResumeLearning()
		if s.tree.ScoutReplayed(s.deletes, s.deleted) {
			s.deletes = 0
		}
	}
}

// takesWhole reports whether records that are in no memtable, and have entries of this keyspace
// only, are taken as one. They are not where their log has a memtable that has no room for all of
// them: entry by entry it is filled as far as the writer's, so that a log usually has one.
func (s *space) takesWhole(r *wal.Tailed) bool {
	n, newest := int(r.Last-r.First)+1, s.Newest()
	return r.Log < s.FirstLog || n == 1 || len(r.Batch) > groupBytes || newest.FirstLog != r.Log ||
		newest.Mem.Len() == 0 || newest.Mem.Room(int64(len(r.Batch)), n) == nil
}

// prefetch loads the places of entries in the indexes of memtables into the processor's cache, side
// by side.
func (l *logs) prefetch(batch []byte) {
	if len(batch) > groupBytes {
		return // the first ones would be gone when they are needed
	}
	for it := batchrepr.Read(batch); ; {
		id, _, key, _, ok := it.Next()
		if !ok {
			return
		}
		if s := l.spaces[id]; s != nil {
			s.Newest().Mem.Hint().PrefetchWrite(key)
		}
	}
}

var errReplaced = errors.New("the MANIFEST is replaced all the time")

// inForce is called behind unmoved, with logs that were read from their beginning. If another
// MANIFEST was begun meanwhile, that opening may have deleted a log before it was read. An upgrade
// leaves no log of LevelDB's format, so that no later one shows that a log is missing.
func (f *Follower) inForce(l *logs) error {
	if f.o.Edits.Begun() != l.begun {
		return stale{errReplaced}
	}
	return nil
}
