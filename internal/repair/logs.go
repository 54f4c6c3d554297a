package repair

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/batchrepr"
	"github.com/loamdb/loam/internal/memtable"
	"github.com/loamdb/loam/internal/record"
)

// logFile is a log that holds entries which may be in no table.
type logFile struct {
	name      string
	num       uint64
	entries   uint64
	minSeq    base.SeqNum
	maxSeq    base.SeqNum
	ascending bool // each batch begins after the one before
}

// checkLogs reads the logs that are or may be needed, oldest first, and
// records their damage.
func (r *repair) checkLogs() ([]*logFile, error) {
	k := &r.known
	var logs []*logFile
	for _, name := range r.names {
		t, num := base.ParseFileName(name)
		if t != base.FileLog {
			continue
		}
		if k.from == "" || num >= k.st.LogNum || num == k.st.PrevLogNum {
			logs = append(logs, &logFile{name: name, num: num, ascending: true})
		}
	}
	slices.SortFunc(logs, func(a, b *logFile) int {
		if a.num < b.num {
			return -1
		}
		return 1
	})
	for _, l := range logs {
		if err := r.readLog(l.name, r.report.dropCorruption, l.note); err != nil {
			return nil, err
		}
		r.maxSeq = max(r.maxSeq, l.maxSeq)
	}
	return logs, nil
}

func (l *logFile) note(batch []byte) error {
	seq, n := batchrepr.Seq(batch), batchrepr.Count(batch)
	if l.entries == 0 {
		l.minSeq = seq
	} else if seq <= l.maxSeq {
		l.ascending = false
	}
	l.entries += uint64(n)
	l.minSeq = min(l.minSeq, seq)
	l.maxSeq = max(l.maxSeq, seq+base.SeqNum(n)-1)
	return nil
}

// readLog hands out the batches of a log that are whole, but for empty ones.
func (r *repair) readLog(name string, drop func(file string, c *base.Corruption, off, n int64), use func(batch []byte) error) error {
	f, ok, err := r.open(name)
	if !ok {
		return err
	}
	defer f.Close()
	reader := record.NewReader(f, f.Size(), name)
	for {
		batch, err := reader.Next()
		var c *base.Corruption
		switch {
		case err == io.EOF:
			return nil
		case errors.As(err, &c):
			drop(name, c, reader.Offset(), 0)
			if !reader.Resume() {
				return nil
			}
			continue
		case err != nil:
			return fmt.Errorf("reading %s: %w", name, err)
		}
		if err := batchrepr.Validate(batch, nil); err != nil {
			if !errors.As(err, &c) {
				return err
			}
			// The whole record: a batch takes effect as a whole or not at all.
			drop(name, &base.Corruption{Offset: reader.Offset(), Length: int64(len(batch)), Kind: c.Kind, Reason: c.Reason}, 0, 0)
			continue
		}
		if batchrepr.Count(batch) == 0 {
			continue
		}
		if err := use(batch); err != nil {
			return err
		}
	}
}

// convertLogs writes the entries of the logs to tables of level 0, oldest
// first.
func (r *repair) convertLogs(logs []*logFile) ([]*table, error) {
	ignore := func(string, *base.Corruption, int64, int64) {} // recorded by checkLogs
	var out []*table
	var mem *memtable.MemTable
	flush := func() error {
		if mem == nil {
			return nil
		}
		tables, err := r.writeMemtable(mem)
		mem.Unref()
		mem = nil
		out = append(out, tables...)
		return err
	}
	for _, l := range logs {
		err := r.readLog(l.name, ignore, func(batch []byte) error {
			bytes, n := int64(len(batch)), int(batchrepr.Count(batch))
			if mem != nil && mem.Room(bytes, n) != nil {
				if err := flush(); err != nil {
					return err
				}
			}
			if mem == nil {
				mem = memtable.New(memtable.Options{Comparer: r.o.Comparer, Size: r.o.WriteBuffer})
			}
			return mem.Apply(batch, batchrepr.Seq(batch))
		})
		if err != nil {
			if mem != nil {
				mem.Unref()
			}
			return nil, err
		}
		r.report.Logs++
	}
	return out, flush()
}

func (r *repair) writeMemtable(mem *memtable.MemTable) ([]*table, error) {
	mem.Seal()
	o := output{r: r}
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
	if err == nil && read != mem.Len() {
		err = fmt.Errorf("%d of %d entries of a log were written", read, mem.Len())
	}
	return o.finish(err)
}
