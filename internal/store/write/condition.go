package write

import (
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/hist"
	"github.com/loamdb/loam/internal/format/batchrepr"
)

// Condition decides at the last moment whether a batch is written.
type Condition interface {
	// The leader calls Holds when all writes before the batch are in the memtable, the last one
	// with sequence number last, and no later ones. If it fails,
	// the batch is not written and CommitIf returns its error. It must not take long:
	// all writers wait for it.
	Holds(last base.SeqNum) error
}

// CommitIf is Commit of a batch that is written only if the condition holds then. The
// batch may be empty.
func (p *Pipeline) CommitIf(batch []byte, mode Mode, c Condition) error {
	if p.measures() {
		defer p.times.Since(hist.Now())
	}
	lead := p.lead.CompareAndSwap(0, 1)
	w := p.newWriter()
	w.batch, w.mode, w.condition = batch, mode, c
	if lead && p.expectsNobody(mode) {
		defer p.release()
		p.writeGroup(w)
		err := w.err
		p.free(w)
		return err
	}
	return p.submit(w, lead)
}

// PutIf is Put of an entry that is written only if the condition holds then. The condition must
// not fail by a panic.
func (p *Pipeline) PutIf(
	in base.KeyspaceID, kind base.Kind, key, value []byte, mode Mode, c Condition,
) error {
	if p.measures() {
		defer p.times.Since(hist.Now())
	}
	lead := p.lead.CompareAndSwap(0, 1)
	if lead && p.expectsNobody(mode) {
		defer p.release()
		if err := c.Holds(p.last); err != nil {
			return err
		}
		return p.entryAlone(in, kind, key, value, mode)
	}
	w := p.newWriter()
	w.own = encode(w.own, in, kind, key, value)
	w.batch, w.mode, w.condition = w.own, mode, c
	return p.submit(w, lead)
}

// writeIf writes the batches of the list, whose writers have the flags of mode, and skips those
// whose conditions fail.
//
// A condition asks what the memtable has: whether a key was written since a sequence number, for
// instance. So it must see all earlier batches, also those of its group, and no batch may
// be written between its answer and its batch. That holds because
//
//  1. only the leader writes, and it leads until the list ends;
//  2. the list is cut into pieces (run): a batch with a condition begins one, and batches without
//     one follow it. Each piece is logged and applied before the next condition is asked. Readers
//     do not see it yet, conditions do: they get p.last, the last number that was applied;
//  3. room for the whole list is made first, when p.batches has all of it. After an answer no step
//     waits, rotates the memtable, or fails for lack of room. A batch that is skipped leaves its
//     part of the room unused.
//
// One sync, for the pieces that were written, and one Publish end the list, in this order, as in
// write: no batch is visible whose sync fails. A skipped writer has the error of its condition, and
// the writers of a piece whose append met a shortage have that; both are set here, and the list
// goes on. The error that writeIf returns is that of all other writers.
func (p *Pipeline) writeIf(w *writer, mode Mode) (err error) {
	defer p.catchPanic(&err)
	if cause := p.cause.Load(); cause != nil {
		return *cause
	}
	if len(p.batches) > 0 {
		if err := p.makeRoom(mode); err != nil {
			return err
		}
	}
	defer func() { clear(p.batches[:cap(p.batches)]) }() // the caller clears what run leaves
	before, sync := p.last, false
	for w != nil {
		if w.condition != nil {
			if w.err = p.holds(w.condition); w.err != nil {
				if cause := p.cause.Load(); cause != nil {
					return *cause
				}
				w = w.next
				continue
			}
		}
		end := p.run(w)
		err := p.logAndApply()
		if err != nil && p.cause.Load() != nil {
			return err
		}
		for ; w != end; w = w.next {
			w.err = err
			sync = sync || err == nil && w.mode&Sync != 0
		}
	}
	if sync {
		if err := p.env.Sync(); err != nil {
			return p.fail(err)
		}
	}
	if p.last != before {
		p.env.Publish(p.last)
	}
	return nil
}

// holds asks a condition.
func (p *Pipeline) holds(c Condition) error {
	if p.env.LeaderAsks() {
		return p.guarded(func() error { return c.Holds(p.last) })
	}
	return c.Holds(p.last)
}

// run sets p.batches to those of w and of the following writers up to the next one with a
// condition, which it returns.
func (p *Pipeline) run(w *writer) (end *writer) {
	p.batches = p.batches[:0]
	for end = w; end == w || end != nil && end.condition == nil; end = end.next {
		if batchrepr.Count(end.batch) > 0 {
			p.batches = append(p.batches, end.batch)
		}
	}
	return end
}

// logAndApply writes p.batches, a piece of the list, unless it is empty.
func (p *Pipeline) logAndApply() error {
	if len(p.batches) == 0 {
		return nil
	}
	if err := p.assignAndLog(); err != nil {
		return err
	}
	return p.apply()
}
