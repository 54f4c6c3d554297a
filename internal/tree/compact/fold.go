package compact

import (
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/mergeop"
	"github.com/loamdb/loam/internal/format/colblk"
)

// folding folds the operands of one user key and stripe, which come newest first, as far as
// all readers see the same before and after:
//
//   - Where a set or a deletion of the stripe follows, or where nothing older of the key can
//     exist, they become one set: the operator's Full.
//   - Else neighbours become one operand where the operator has a Partial for them.
//
// What comes of operands has the sequence number of the newest. Where the operator fails,
// operands and what follows them stay as they were, and Result.FoldErr says why; so they do above a
// value that cannot be read.
type folding struct {
	op *mergeop.Operator

	n      int // of operands; 0: none wait
	stripe int
	first  bool // the newest of them is the first entry of its user key
	bottom bool // nothing older of the key exists in deeper levels
	key    []byte
	ops    mergeop.Run
}

// Operands wait in memory up to these limits. If another one follows then, those that wait are
// written, joined where they can be; a value that follows is folded all the same.
const (
	maxFolding      = 64 << 10
	maxFoldingBytes = 4 << 20
)

// fold takes an entry of which collapse said keep and first, while operands wait or if it is
// one. done is false if the entry is still to be written or dropped.
func (w *work) fold(key []byte, t base.Trailer, codec base.Codec, value []byte, keep,
	first bool) (done bool, err error) {
	f := &w.folding
	if f.n > 0 && (first || w.collapse.stripe(t.Seq()) != f.stripe) {
		if err := w.endFold(first && f.bottom); err != nil {
			return false, err
		}
	}
	isOperand := t.Kind() == base.KindMerge
	if isOperand && (f.n >= maxFolding || f.ops.Size() >= maxFoldingBytes) {
		if err := w.endFold(false); err != nil {
			return false, err
		}
	}
	switch {
	case f.n > 0 && !isOperand:
		return w.foldInto(t, codec, value)
	case !isOperand || !keep:
		return false, nil
	case f.n == 0:
		f.stripe, f.first, f.bottom = w.collapse.stripe(t.Seq()), first, !w.collapse.deeper.mayHold(
			key)
		f.key = append(f.key[:0], key...)
	}
	if value, err = w.unpack(codec, value); err != nil {
		return false, err
	}
	f.n++
	f.ops.Older(value, t)
	return true, nil
}

// foldInto makes a set of the operands that wait and of the entry below them, which is a set
// or a deletion. If the operator fails, the entry is still to be written.
func (w *work) foldInto(t base.Trailer, codec base.Codec, value []byte) (done bool, err error) {
	var existing []byte
	if t.Kind().Expires() {
		return false, w.writeOperands() // they stay when it expires
	}
	if !t.Kind().IsTombstone() {
		var ok bool
		if existing, ok, err = w.whole(t, codec, value); err != nil {
			return false, err
		}
		if !ok {
			return false, w.writeOperands()
		}
		if existing == nil {
			existing = []byte{}
		}
	}
	if done, err = w.writeFull(existing); done {
		w.res.Dropped++ // the entry itself
		return true, err
	}
	return false, w.writeOperands()
}

// writeFull writes what the operands that wait make of the existing value, as the filter leaves it.
// It reports false if the operator fails.
func (w *work) writeFull(existing []byte) (bool, error) {
	f := &w.folding
	if f.op == nil {
		return false, nil
	}
	value, err := f.ops.Full(f.op, f.key, existing)
	if err != nil {
		w.foldFailed(err)
		return false, nil
	}
	w.res.Folded += uint64(f.n)
	w.res.Dropped += uint64(f.n - 1)
	f.n = 0
	t := base.MakeTrailer(f.ops.Newest().Seq(), base.KindSet)
	f.ops.Reset()
	if w.filter != nil && f.first && w.collapse.aboveSnapshots(t.Seq()) {
		t, _, value, err = w.filtered(f.key, t, base.CodecRaw, value)
		if t.Kind().IsTombstone() && f.stripe == 0 && f.bottom { // as in collapse.elides
			w.res.Dropped++
			return true, nil
		}
	}
	if err == nil && t.Kind() == base.KindSet {
		t, value, err = w.apart(t, value)
	}
	if err != nil {
		return true, err
	}
	return true, w.out.add(f.key, w.collapse.withZeroSeq(t), base.CodecRaw, value, f.first)
}

func (w *work) foldFailed(err error) {
	w.res.FoldFailures++
	if w.res.FoldErr == nil {
		w.res.FoldErr = err
	}
}

// endFold writes the operands that wait: as one set where they are all that there is of the
// key, else joined.
func (w *work) endFold(whole bool) error {
	f := &w.folding
	switch {
	case f.n == 0:
		return nil
	case whole:
		if done, err := w.writeFull(nil); done {
			return err
		}
	case f.op != nil:
		if err := f.ops.Join(f.op, f.key); err != nil {
			w.foldFailed(err)
		}
		joined := uint64(f.n - f.ops.Len())
		w.res.Folded += joined
		w.res.Dropped += joined
	}
	return w.writeOperands()
}

// writeOperands writes the operands that wait as they are.
func (w *work) writeOperands() error {
	f := &w.folding
	first := f.first
	for value, t := range f.ops.All() {
		if err := w.out.add(f.key, t, base.CodecRaw, value, first); err != nil {
			return err
		}
		first = false
	}
	f.n = 0
	f.ops.Reset()
	return nil
}

// unpack returns a value as it was before it was packed.
func (w *work) unpack(codec base.Codec, value []byte) ([]byte, error) {
	if codec == base.CodecRaw {
		return value, nil
	}
	var err error
	w.unpacked, err = colblk.AppendUnpacked(w.unpacked[:0], value, codec, nil, maxUnpacked)
	return w.unpacked, err
}

// whole returns the value of an entry that does not expire. ok is false without an error for one
// that cannot be read, see readLarge.
func (w *work) whole(t base.Trailer, codec base.Codec, value []byte) (whole []byte, ok bool,
	err error) {
	value, err = w.unpack(codec, value)
	if err != nil || t.Kind() != base.KindValueHandle {
		return value, err == nil, err
	}
	h, err := base.DecodeValueHandle(value)
	if err == nil {
		ok, err = w.readLarge(h, value)
	}
	return w.large, ok, err
}

// maxUnpacked bounds a value that is unpacked, in bytes.
const maxUnpacked = 4<<30 - 1
