// Package replay makes memtables of the batches of logs. What recovery, a follower and a repair do
// differs in how they read logs, and in what damage and holes mean to them: packages wal and record
// judge these, before a batch comes here. What becomes of its entries is the same for all.
package replay

import (
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/batchrepr"
	"github.com/loamdb/loam/internal/tree"
	"github.com/loamdb/loam/internal/tree/memtable"
)

// Tables are the memtables that logs are read into. Batches come in the order of the logs.
type Tables struct {
	// Find returns where the entries of a keyspace go, or nil for one that was dropped.
	Find func(base.KeyspaceID) (*Space, error)
	// PerLog: a memtable has entries of one log only.
	PerLog bool

	// Refer, if it is not nil, returns the handle that a memtable has in the place of a value that
	// ends at offset end of its batch, without its deadline; nil: the value.
	Refer func(end int, value []byte) (handle []byte)

	// Skipped counts entries that are in tables already, or of keyspaces that were dropped.
	Skipped uint64
	// Applied is the sequence number up to which entries came: those are passed over, so that a
	// batch may come again after an error.
	Applied base.SeqNum
}

// Space is what was read of one keyspace.
type Space struct {
	// New makes a memtable with room for so many bytes and entries. like, which may be nil, tells
	// what to expect of them. Without memory for them it returns the memtable and an error.
	New func(like *memtable.MemTable, bytes int64, entries int) (*memtable.MemTable, error)
	// Full, unless nil, is called before a memtable is begun beside Tables, and may take some of
	// them away.
	Full     func() error
	FirstLog uint64 // entries of older logs are in tables
	// Tables are oldest first, each with a reference.
	Tables []*tree.Sealed
}

// Add takes a batch of a log, whose first entry has sequence number seq.
func (t *Tables) Add(log uint64, batch []byte, seq base.SeqNum) error {
	for it := batchrepr.Read(batch); ; seq++ {
		id, kind, key, value, ok := it.Next()
		if !ok {
			return it.Err()
		}
		if seq <= t.Applied {
			continue
		}
		s, err := t.Find(id)
		if err != nil {
			return err
		}
		if t.Refer != nil && kind.IsValue() {
			kind, value = t.referred(it.Pos(), kind, value)
		}
		if err := t.AddEntry(s, log, seq, kind, key, value); err != nil {
			return err
		}
		t.Applied = seq
	}
}

// referred returns what becomes of an entry whose value ends at offset end of its batch.
func (t *Tables) referred(end int, kind base.Kind, value []byte) (base.Kind, []byte) {
	user := len(value)
	if kind.Expires() {
		user = max(user-base.DeadlineLen, 0) // a batch has none without, see batchrepr
	}
	handle := t.Refer(end-(len(value)-user), value[:user])
	if handle == nil {
		return kind, value
	}
	return kind.Referring(), append(handle, value[user:]...)
}

// AddEntry takes one entry of a keyspace, which may be nil.
func (t *Tables) AddEntry(s *Space, log uint64, seq base.SeqNum, kind base.Kind,
	key, value []byte) error {
	if s == nil || log < s.FirstLog {
		t.Skipped++
		return nil
	}
	mem, err := t.memTableFor(s, log, int64(len(key)+len(value)), 1)
	if err == nil {
		err = mem.Mem.Add(seq, kind, key, value)
	}
	if err == nil {
		mem.Last = seq
	}
	return err
}

// AddWhole is Add of a batch that has entries of one keyspace only, up to sequence number last.
func (t *Tables) AddWhole(s *Space, log uint64, batch []byte, seq, last base.SeqNum) error {
	if log < s.FirstLog {
		t.Skipped += uint64(last - seq + 1)
		t.Applied = last
		return nil
	}
	mem, err := t.memTableFor(s, log, int64(len(batch)), int(last-seq)+1)
	if err == nil {
		err = mem.Mem.Apply(batch, seq)
	}
	if err == nil {
		mem.Last, t.Applied = last, last
	}
	return err
}

// memTableFor returns a memtable with room for so many bytes and entries of a log.
func (t *Tables) memTableFor(s *Space, log uint64, bytes int64, entries int) (*tree.Sealed,
	error) {
	var fullest *memtable.MemTable
	if newest := s.Newest(); newest != nil {
		empty := newest.Mem.Len() == 0
		if empty {
			newest.FirstLog = log
		}
		if newest.FirstLog == log || !t.PerLog {
			if err := newest.Mem.Room(bytes, entries); err == nil || empty {
				return newest, err
			}
		}
		fullest = newest.Mem
		for _, m := range s.Tables {
			if m.Mem.Bytes() > fullest.Bytes() {
				fullest = m.Mem
			}
		}
		fullest.Ref() // beyond Full
		defer fullest.Unref()
		if s.Full != nil {
			if err := s.Full(); err != nil {
				return nil, err
			}
		}
	}
	mem, err := s.New(fullest, bytes, entries)
	if err != nil {
		mem.Unref()
		return nil, err
	}
	m := &tree.Sealed{Mem: mem, FirstLog: log}
	s.Tables = append(s.Tables, m)
	return m, nil
}

// Newest is the memtable that takes entries; nil: none was begun.
func (s *Space) Newest() *tree.Sealed {
	if len(s.Tables) == 0 {
		return nil
	}
	return s.Tables[len(s.Tables)-1]
}

// NewestFirst is the memtables as a tree has them.
func (s *Space) NewestFirst() []*tree.Sealed {
	var tables []*tree.Sealed
	for i := len(s.Tables) - 1; i >= 0; i-- {
		tables = append(tables, s.Tables[i])
	}
	return tables
}

// DropOldest gives up the n oldest memtables.
func (s *Space) DropOldest(n int) {
	for _, m := range s.Tables[:n] {
		m.Mem.Unref()
	}
	s.Tables = s.Tables[n:]
}

// Free gives up the memtables.
func (s *Space) Free() { s.DropOldest(len(s.Tables)) }
