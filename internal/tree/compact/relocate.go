package compact

import (
	"errors"
	"io/fs"

	"github.com/loamdb/loam/internal/base"
)

// Relocation is what a run needs to copy values out of logs and value files that have few live ones
// left.
type Relocation struct {
	// From reports whether values are copied out of a log or value file.
	From func(base.ValueFile) bool
	// Create begins a value file. The number counts as created even when the run fails later.
	Create func() (num uint64, w ValueWriter, err error)
	// Damaged takes a value that cannot be copied. Its reference stays as it is.
	Damaged func(h base.ValueHandle, err error)
	// FileSize is where value files are split, in bytes.
	FileSize int64
}

// ValueWriter writes a value file.
type ValueWriter interface {
	// Append adds a value, and returns the offset of its first byte.
	Append(value []byte) (offset int64, err error)
	Size() int64
	// Finish makes the contents durable; Close follows.
	Finish() error
	Close() error
}

// relocating is a Relocation at work in one piece of a compaction. The values that it copies are in
// the order of their keys.
type relocating struct {
	*Relocation
	num    uint64
	w      ValueWriter // nil: none begun
	handle []byte      // scratch
}

// relocated returns what the value of an entry of a kind that Refers becomes: a reference to a
// copy, if its log is one to be emptied. Key, sequence number, kind and deadline of the entry
// stay: a newer entry of the key hides it as before.
func (w *work) relocated(kind base.Kind, codec base.Codec, value []byte) (base.Codec, []byte,
	error) {
	plain, err := w.unpack(codec, value)
	if err != nil {
		return codec, value, err
	}
	handle := kind.Handle(plain)
	h, err := base.DecodeValueHandle(handle)
	if err != nil || !w.relocating.From(h.File()) {
		return codec, value, err
	}
	w.large, err = w.env.Value(w.large[:0], handle)
	w.work += len(w.large)
	var c *base.Corruption
	if errors.As(err, &c) || errors.Is(err, fs.ErrNotExist) {
		w.relocating.Damaged(h, err)
		return codec, value, nil
	}
	if err != nil {
		return codec, value, err
	}
	copied, err := w.relocating.add(w.large, h.Sum, &w.res)
	return base.CodecRaw, append(copied, plain[len(handle):]...), err
}

// add copies a value with this checksum, and returns the reference to it, which is valid until the
// next call.
func (r *relocating) add(value []byte, sum uint32, res *Result) ([]byte, error) {
	if r.w != nil && r.w.Size() >= r.FileSize {
		if err := r.finish(); err != nil {
			return nil, err
		}
	}
	if r.w == nil {
		num, w, err := r.Create()
		if err != nil {
			return nil, err
		}
		r.num, r.w = num, w
		res.Values = append(res.Values, num)
	}
	offset, err := r.w.Append(value)
	if err != nil {
		return nil, err
	}
	res.Relocated++
	res.RelocatedBytes += uint64(len(value))
	r.handle = base.AppendValueHandle(r.handle[:0], base.ValueHandle{Log: r.num, Offset: offset,
		Len: uint32(len(value)), Sum: sum, InFile: true})
	return r.handle, nil
}

// finish makes the value file durable that was begun, if any.
func (r *relocating) finish() error {
	if r == nil || r.w == nil {
		return nil
	}
	w := r.w
	r.w = nil
	err := w.Finish()
	return errors.Join(err, w.Close())
}

// abandon closes the value file that was begun, if any; the caller of Run deletes it.
func (r *relocating) abandon() {
	if r != nil && r.w != nil {
		_ = r.w.Close()
		r.w = nil
	}
}

// valueLen is how many bytes a handle refers to; 0 for one that is packed, which no writer does to
// so few bytes.
func valueLen(codec base.Codec, handle []byte) uint64 {
	if codec != base.CodecRaw {
		return 0
	}
	h, _ := base.DecodeValueHandle(handle)
	return uint64(h.Len)
}
