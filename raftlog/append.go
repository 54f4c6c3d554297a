package raftlog

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/hashicorp/raft"
	"github.com/loamdb/loam/lsm"
)

// keptBuffer is the largest buffer in bytes that a Store keeps between two batches.
const keptBuffer = 4 << 20

// The wire form of a batch, see docs/format-batch.md: the count follows the sequence number,
// which the write fills in.
const (
	countOffset = 8
	putKind     = 1
)

// StoreLog is StoreLogs of one entry.
func (s *Store) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

// StoreLogs stores entries by one append and one sync, all of them or none. Nothing of them is
// retained.
//
// The entries have to be in ascending order. One of an index that is there replaces it, and leaves
// all others, as in raft.InmemStore: raft removes the end of a log that conflicts by DeleteRange
// before. A gap between the log and the batch is allowed, as a crash between a snapshot and the
// removal of older entries may leave one; GetLog of an index in it fails with raft.ErrLogNotFound.
//
// It fails with ErrEntryTooLarge, with lsm.ErrInvalidArgument for a nil entry, index 0 or another
// order, with lsm.ErrTooLarge for a batch of nearly 4 GiB, and as a write of lsm does.
func (s *Store) StoreLogs(logs []*raft.Log) error {
	size, err := s.check(logs)
	if err != nil || len(logs) == 0 {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before, err := s.present()
	if err != nil {
		return err
	}
	after := bounds{logs[0].Index, logs[len(logs)-1].Index}
	if before.last != 0 {
		after = bounds{min(before.first, after.first), max(before.last, after.last)}
	}
	repr := s.appendPuts(s.begin(size), logs)
	if err := s.db.WriteBytes(repr, lsm.Sync); err != nil {
		return fmt.Errorf("raftlog: entries %d to %d: %w", logs[0].Index,
			logs[len(logs)-1].Index, err)
	}
	s.bounds.Store(&after)
	return nil
}

// check refuses what cannot be stored, and returns a bound on the size of the batch in bytes.
func (s *Store) check(logs []*raft.Log) (size int, err error) {
	last := uint64(0)
	for i, l := range logs {
		switch {
		case l == nil:
			return 0, fmt.Errorf("raftlog: entry %d of the batch is nil: %w", i,
				lsm.ErrInvalidArgument)
		case l.Index <= last:
			return 0, fmt.Errorf("raftlog: entry %d of the batch has index %d, which has to be "+
				"above %d: %w", i, l.Index, last, lsm.ErrInvalidArgument)
		case len(l.Data)+len(l.Extensions) > s.maxEntrySize:
			return 0, fmt.Errorf("raftlog: entry %d has %d bytes, and Options.MaxEntrySize is "+
				"%d: %w", l.Index, len(l.Data)+len(l.Extensions), s.maxEntrySize, ErrEntryTooLarge)
		}
		last = l.Index
		size += putOverhead + len(l.Data) + len(l.Extensions)
	}
	if size > math.MaxUint32 {
		return 0, fmt.Errorf("raftlog: entries %d to %d have %d bytes, store fewer at once: %w",
			logs[0].Index, last, size, lsm.ErrTooLarge)
	}
	return size, nil
}

// putOverhead bounds what an operation has besides Data and Extensions.
const putOverhead = 1 + 1 + keyLen + binary.MaxVarintLen64 + maxHeader

// begin returns an empty batch with room for size bytes of operations.
// REQUIRES: s.mu is held.
func (s *Store) begin(size int) []byte {
	repr := s.buf
	if size += len(lsm.NewBatch().Bytes()); cap(repr) < size {
		repr = make([]byte, 0, size)
	}
	if s.buf = nil; cap(repr) <= keptBuffer {
		s.buf = repr
	}
	return append(repr[:0], lsm.NewBatch().Bytes()...)
}

// appendPuts appends a put for each entry to a batch. Data is copied once, to where the database
// appends it to its log from.
// REQUIRES: s.mu is held.
func (s *Store) appendPuts(repr []byte, logs []*raft.Log) []byte {
	var header []byte
	for _, l := range logs {
		repr = append(repr, putKind, keyLen)
		repr = appendKey(repr, l.Index)
		header = appendHeader(header[:0], l, s.staged)
		repr = binary.AppendUvarint(repr, uint64(len(header)+len(l.Data)))
		repr = append(append(repr, header...), l.Data...)
	}
	count := repr[countOffset : countOffset+4]
	n := binary.LittleEndian.Uint32(count) + uint32(len(logs))
	binary.LittleEndian.PutUint32(count, n)
	return repr
}

// DeleteRange removes the entries from low to high, both included, by one write, and syncs it. It
// removes what is there: bounds outside of the log are no error, nor is a low above high.
//
// It fails as a write of lsm does, or with the error of a read for the neighbors of the range;
// nothing is removed then.
func (s *Store) DeleteRange(low, high uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, err := s.present()
	if err != nil {
		return err
	}
	if low > high || b.last == 0 || low > b.last || high < b.first {
		return nil
	}
	after, err := s.without(b, low, high)
	if err == nil {
		if low <= b.first {
			// Ranges that begin at the same key merge into one, whatever was removed before.
			low = 0
		}
		err = s.db.DeleteRange(keyOf(low), behind(high), lsm.Sync)
	}
	if err != nil {
		return fmt.Errorf("raftlog: removing entries %d to %d: %w", low, high, err)
	}
	s.bounds.Store(&after)
	s.staged = min(s.staged, after.last)
	return nil
}

// without returns the bounds when the entries from low to high are gone. It looks for neighbors, as
// there may be gaps.
func (s *Store) without(b bounds, low, high uint64) (bounds, error) {
	if low <= b.first && high >= b.last {
		return bounds{}, nil
	}
	if low <= b.first {
		rest, err := s.find(high+1, b.last)
		return bounds{rest.first, b.last}, err
	}
	if high >= b.last {
		rest, err := s.find(b.first, low-1)
		return bounds{b.first, rest.last}, err
	}
	return b, nil
}
