package feed

import (
	"iter"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/batchrepr"
)

// Change is what was committed together: a batch, or several batches of concurrent writers that
// share a record of the log, or that a recovery copied into one. A batch is never in two Changes.
type Change struct {
	// Seq is the sequence number of the first operation; operation i has Seq + i.
	Seq uint64
	// Batch is the operations in wire form, see docs/format-batch.md, valid until the next call on
	// the Changes.
	Batch []byte

	keyspace func(base.KeyspaceID) string
}

// The kinds of operations.
const (
	OpPut         = iota + 1 // Key gets Value, until Expires if that is not zero
	OpDelete                 // Key is deleted
	OpMerge                  // Value is an operand for Key
	OpDeleteRange            // the keys from Key up to Value, exclusive, are deleted
)

// Operation is lsm.Operation. Op is the type of the kinds there.
type Operation[Op ~uint8] struct {
	Seq        uint64
	Op         Op
	Key, Value []byte
	Expires    time.Time
	Keyspace   string
	KeyspaceID uint32
}

// Len is the number of operations. The zero Change has none.
func (c Change) Len() int {
	if len(c.Batch) < batchrepr.HeaderLen {
		return 0
	}
	return int(batchrepr.Count(c.Batch))
}

// Operations are those of a Change, in their order.
func Operations[Op ~uint8](c Change) iter.Seq[Operation[Op]] {
	return func(yield func(Operation[Op]) bool) {
		it := batchrepr.Read(c.Batch)
		for seq := c.Seq; ; seq++ {
			id, kind, key, value, ok := it.Next()
			if !ok {
				return
			}
			o := Operation[Op]{Seq: seq, Op: OpPut, Key: key, Value: value, KeyspaceID: uint32(id)}
			if c.keyspace != nil {
				o.Keyspace = c.keyspace(id)
			}
			switch kind {
			case base.KindDelete:
				o.Op = OpDelete
			case base.KindMerge:
				o.Op = OpMerge
			case base.KindRangeDelete:
				o.Op = OpDeleteRange
			case base.KindSetExpiring:
				var deadline uint64
				o.Value, deadline, _ = base.CutDeadline(value)
				o.Expires = time.Unix(int64(deadline), 0)
			}
			if !yield(o) {
				return
			}
		}
	}
}

// cut returns the operations of a batch that have sequence numbers from first up to limit,
// exclusive, as a batch in dst.
func cut(dst, batch []byte, first, limit base.SeqNum) []byte {
	dst = batchrepr.Init(dst)
	batchrepr.SetSeq(dst, max(first, batchrepr.Seq(batch)))
	it := batchrepr.Read(batch)
	for seq := batchrepr.Seq(batch); seq < limit; seq++ {
		id, kind, key, value, ok := it.Next()
		if !ok {
			break
		}
		if seq >= first {
			dst = batchrepr.AppendEntry(dst, id, kind, key, value)
		}
	}
	return dst
}
