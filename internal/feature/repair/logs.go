package repair

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/batchrepr"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/record"
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
	k := &r.known
	var logs []*logFile
	for _, name := range r.names {
		t, num := r.format.ParseFileName(name)
		if t != base.FileLog {
			continue
		}
		if k.from == "" || num >= k.st.LogNum || num == k.st.PrevLogNum {
			logs = append(logs, &logFile{name: name, num: num, spans: make(map[*keyspace]*span)})
		}
	}
	slices.SortFunc(logs, func(a, b *logFile) int {
		if a.num < b.num {
			return -1
		}
		return 1
	})
	for _, l := range logs {
		if err := r.readLog(l, r.report.dropCorruption, l.note); err != nil {
			return nil, err
		}
		for _, s := range l.spans {
			r.maxSeq = max(r.maxSeq, s.maxSeq)
		}
	}
	return logs, nil
}

// replayable replays the logs as Open does, which fails if something is missing that was
// durable: a log, its end, or what stood between two. A single log does not show that.
func (r *repair) replayable(s *manifest.Set) error {
	n := wal.Needs{Knows: s.Knows, LogNum: s.LogNum(), PrevLogNum: s.PrevLogNum(),
		LastSeq: s.LastSeq(), Synced: s.Durable()}
	if r.format == base.Native {
		n.Keyspaces = func(id base.KeyspaceID) bool { return id <= s.MaxKeyspace() }
	}
	_, _, err := wal.Judge(wal.TailOptions{FS: r.o.FS, Dir: r.o.Dir, Format: r.format}, n)
	return err
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
	use func(space *keyspace, seq base.SeqNum, kind base.Kind, key, value []byte) error) error {
	f, ok, err := r.open(l.name)
	if !ok {
		return err
	}
	defer f.Close()
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
		var c *base.Corruption
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
		it, seq := batchrepr.Read(batch), batchrepr.Seq(batch)
		for ; ; seq++ {
			id, kind, key, value, ok := it.Next()
			if !ok {
				break
			}
			if s := r.spaceOf(id, l.num); s != nil {
				if err := use(s, seq, kind, key, value); err != nil {
					return err
				}
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
