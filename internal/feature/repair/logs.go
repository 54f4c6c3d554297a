package repair

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/batchrepr"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/record"
	"github.com/loamdb/loam/internal/os/seal"
	"github.com/loamdb/loam/internal/store/replay"
	"github.com/loamdb/loam/internal/store/wal"
	"github.com/loamdb/loam/internal/tree/memtable"
)

// logFile is a log that holds entries which may be in no table.
type logFile struct {
	name  string
	num   uint64
	spans map[*keyspace]*span
	seqs  []seqRange // of all entries
	// skip, unless nil, says which entries the database has, or had, of another file.
	skip func(base.SeqNum) bool
}

// seqRange has the sequence numbers from first up to, not including, end.
type seqRange struct{ first, end base.SeqNum }

// span is what a log holds of one keyspace.
type span struct {
	minSeq, maxSeq base.SeqNum
	ascending      bool // each entry is newer than the one before
}

// checkLogs reads the logs that are or may be needed, oldest first, and records their damage.
func (r *repair) checkLogs() ([]*logFile, error) {
	var logs []*logFile
	for _, name := range r.names {
		t, num := r.format.ParseFileName(name)
		if t != base.FileLog {
			continue
		}
		num, err := r.logNum(name, num)
		if err != nil {
			return nil, err
		}
		if l := newLogFile(name, num); r.needed(num) {
			logs = append(logs, l)
		} else {
			r.obsolete = append(r.obsolete, l)
		}
	}
	sortLogs(logs)
	for _, l := range logs {
		if err := r.checkLog(l); err != nil {
			return nil, err
		}
	}
	return logs, nil
}

func newLogFile(name string, num uint64) *logFile {
	return &logFile{name: name, num: num, spans: make(map[*keyspace]*span)}
}

func sortLogs(logs []*logFile) {
	slices.SortFunc(logs, func(a, b *logFile) int { return cmp.Compare(a.num, b.num) })
}

// needed reports whether a log may have entries that are in no table.
func (r *repair) needed(num uint64) bool {
	k := &r.known
	return k.from == "" || num >= k.st.LogNum || num == k.st.PrevLogNum
}

// logNum is the number of the log in a file. A native log that is needed says it itself, whatever
// the name of its file is; without a whole MANIFEST the name decides, as a file that becomes the
// next log begins with the obsolete one that it was.
func (r *repair) logNum(name string, num uint64) (uint64, error) {
	if r.format != base.Native || r.known.from == "" || r.known.editsMissing {
		return num, nil
	}
	f, ok, err := r.open(name)
	if !ok {
		return num, err
	}
	defer f.Close()
	b, begun, err := record.ReadBegin(f)
	if err != nil {
		return num, fmt.Errorf("reading %s: %w", name, err)
	}
	if begun && b.Num != num && b.Num < r.known.st.Reach() && r.needed(b.Num) {
		return b.Num, nil
	}
	return num, nil
}

func (r *repair) checkLog(l *logFile) error {
	if err := r.readLog(l, r.report.dropCorruption, l.note); err != nil {
		return err
	}
	for _, s := range l.spans {
		r.maxSeq = max(r.maxSeq, s.maxSeq)
	}
	return nil
}

// misplaced adds the logs of LevelDB's format whose names say that they are obsolete, where others
// are not what their names say: one of them may be the log that is needed, as LevelDB's repair
// takes it. Only entries count that are newer than the tables and in no log that is needed.
func (r *repair) misplaced(tables []*table, logs []*logFile) ([]*logFile, error) {
	if r.format != base.LevelDB {
		return logs, nil
	}
	last := r.spaces[base.DefaultKeyspace].lastOf(tables)
	var known []seqRange
	for _, l := range logs {
		known = append(known, l.seqs...)
	}
	for _, l := range r.obsolete {
		others := slices.Clip(known)
		l.skip = func(seq base.SeqNum) bool {
			return seq <= last || slices.ContainsFunc(others, func(r seqRange) bool {
				return r.first <= seq && seq < r.end
			})
		}
		if err := r.checkLog(l); err != nil {
			return nil, err
		}
		known = append(known, l.seqs...)
		logs = append(logs, l)
	}
	r.obsolete = nil
	sortLogs(logs)
	return logs, nil
}

// replayable replays the logs as Open does, which fails if something is missing that was
// durable: a log, its end, or what stood between two. A single log does not show that.
// inPlace is false if Open, without an error, leaves a log out, as one before it is not whole.
func (r *repair) replayable(s *manifest.Set) (inPlace bool, err error) {
	n := wal.Needs{ParseOwnName: s.ParseOwnName, LogNum: s.LogNum(), PrevLogNum: s.PrevLogNum(),
		LastSeq: s.LastSeq(), Synced: s.Durable()}
	if r.format == base.Native {
		n.Keyspaces = func(id base.KeyspaceID) bool { return id <= s.MaxKeyspace() }
	}
	report, _, err := wal.Judge(wal.TailOptions{FS: r.o.FS, Dir: r.o.Dir, Format: r.format}, n)
	for _, d := range report.Dropped {
		r.report.drop(d.File, d.Offset, 0, d.Reason+"; what it has is kept")
	}
	return len(report.Dropped) == 0, err
}

func (l *logFile) note(space *keyspace, seq base.SeqNum, _ base.Kind, _, _ []byte) error {
	s := l.spans[space]
	if s == nil {
		s = &span{minSeq: seq, ascending: true}
		l.spans[space] = s
	} else if seq <= s.maxSeq {
		s.ascending = false
	}
	s.minSeq, s.maxSeq = min(s.minSeq, seq), max(s.maxSeq, seq)
	if n := len(l.seqs); n > 0 && l.seqs[n-1].end == seq {
		l.seqs[n-1].end++
	} else {
		l.seqs = append(l.seqs, seqRange{seq, seq + 1})
	}
	return nil
}

// readLog hands out the entries of the batches of a log that are whole, without those
// that are in tables already or of keyspaces that were dropped.
func (r *repair) readLog(l *logFile, drop func(file string, c *base.Corruption, off, n int64),
	use entryFunc) error {
	f, ok, err := r.open(l.name)
	if !ok {
		return err
	}
	defer f.Close()
	var c *base.Corruption
	if err := seal.HeaderDamage(r.o.FS, r.path(l.name)); errors.As(err, &c) {
		drop(l.name, c, 0, 0)
	} else if err != nil {
		return fmt.Errorf("reading %s: %w", l.name, err)
	}
	var known func(base.KeyspaceID) bool
	var reader interface {
		Next() ([]byte, error)
		Offset() int64
		Resume() bool
	} = record.NewReader(f, f.Size(), l.name)
	if r.format == base.Native {
		known = func(base.KeyspaceID) bool { return true }
		reader = record.NewChainReader(f, f.Size(), l.name, l.num, 0)
	}
	for {
		batch, err := reader.Next()
		switch {
		case err == io.EOF:
			return nil
		case errors.As(err, &c):
			drop(l.name, c, reader.Offset(), 0)
			if !reader.Resume() {
				return nil
			}
			continue
		case err != nil:
			return fmt.Errorf("reading %s: %w", l.name, err)
		}
		if err := batchrepr.Validate(batch, known); err != nil {
			if !errors.As(err, &c) {
				return err
			}
			// The whole record: a batch takes effect as a whole or not at all.
			drop(l.name, &base.Corruption{Offset: reader.Offset(), Length: int64(len(batch)),
				Kind: c.Kind, Reason: c.Reason}, 0, 0)
			continue
		}
		if err := r.eachEntry(l, batch, use); err != nil {
			return err
		}
	}
}

// entryFunc takes an entry of a log.
type entryFunc func(space *keyspace, seq base.SeqNum, kind base.Kind, key, value []byte) error

// eachEntry is readLog of one batch.
func (r *repair) eachEntry(l *logFile, batch []byte, use entryFunc) error {
	seq := batchrepr.Seq(batch)
	if batchrepr.Count(batch) == 0 { // a marker: in LevelDB's format nothing else has these numbers
		r.maxSeq = max(r.maxSeq, max(seq, 1)-1)
	}
	for it := batchrepr.Read(batch); ; seq++ {
		id, kind, key, value, ok := it.Next()
		if !ok {
			return nil
		}
		if s := r.spaceOf(id, l.num); s != nil && (l.skip == nil || !l.skip(seq)) {
			if err := use(s, seq, kind, key, value); err != nil {
				return err
			}
		}
	}
}

// convertLogs writes the entries of the logs to tables of level 0, oldest
// first, without operands that are stored.
func (r *repair) convertLogs(logs []*logFile, stored *operands) ([]*table, error) {
	ignore := func(string, *base.Corruption, int64, int64) {} // recorded by checkLogs
	var out []*table
	spaces := make(map[*keyspace]*replay.Space)
	defer func() {
		for _, to := range spaces {
			to.Free()
		}
	}()
	// flush writes the memtable of a keyspace, if it has one.
	flush := func(s *keyspace) error {
		to := spaces[s]
		if to == nil || len(to.Tables) == 0 {
			return nil
		}
		tables, err := r.writeMemtable(s, to.Tables[0].Mem)
		to.DropOldest(1)
		out = append(out, tables...)
		return err
	}
	var mems replay.Tables
	for _, l := range logs {
		err := r.readLog(l, ignore, func(s *keyspace, seq base.SeqNum, kind base.Kind, key,
			value []byte) error {
			if twice, err := stored.twice(s, l, kind, seq, key); twice || err != nil {
				return err
			}
			if spaces[s] == nil {
				spaces[s] = &replay.Space{New: r.newMemtable(s),
					Full: func() error { return flush(s) }}
			}
			return mems.AddEntry(spaces[s], l.num, seq, kind, key, value)
		})
		if err != nil {
			return nil, err
		}
		r.report.Logs++
	}
	for _, s := range r.sorted() {
		if err := flush(s); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// newMemtable makes memtables of a keyspace.
func (r *repair) newMemtable(s *keyspace) func(*memtable.MemTable, int64,
	int) (*memtable.MemTable, error) {
	return func(*memtable.MemTable, int64, int) (*memtable.MemTable, error) {
		return memtable.New(memtable.Options{Comparer: s.cmp, Size: r.o.WriteBuffer}), nil
	}
}

func (r *repair) writeMemtable(s *keyspace, mem *memtable.MemTable) ([]*table, error) {
	mem.Seal()
	o := output{r: r, space: s}
	defer o.close()
	src := mem.NewSource()
	defer src.Close()
	read := 0
	err := base.Scan(src, func(e *base.Chunk) error {
		read += e.Len()
		for i := range e.Len() {
			if err := o.add(e.Key(i), e.Trailers[i], e.Codec(i), e.Value(i)); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && read != mem.Points() {
		err = fmt.Errorf("%d of %d entries of a log were written", read, mem.Points())
	}
	o.dels.lists = slices.Clone(mem.RangeDels())
	return o.finish(err)
}
