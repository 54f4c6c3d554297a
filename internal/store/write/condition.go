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
		p.writeGroup(w)
		p.release()
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
		err := c.Holds(p.last)
		if err == nil {
			err = p.entryAlone(in, kind, key, value, mode)
		}
		p.release()
		return err
	}
	w := p.newWriter()
	w.own = encode(w.own, in, kind, key, value)
	w.batch, w.mode, w.condition = w.own, mode, c
	return p.submit(w, lead)
}

// writeIf writes the batches of the list, whose writers have the flags of mode. Room for all
// is made first, as p.batches. A batch with a condition is logged alone or before batches without
// one, so that the memtable has everything that the condition reads. What is applied
// is published at the end, after the sync: as in write, nothing is visible whose sync
// fails. A writer whose condition does not hold, or whose append met a shortage, has its
// error afterwards; the one returned is of the others.
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
			if w.err = w.condition.Holds(p.last); w.err != nil {
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

func (p *Pipeline) logAndApply() error {
	if len(p.batches) == 0 {
		return nil
	}
	if err := p.log(); err != nil {
		return err
	}
	return p.apply()
}
