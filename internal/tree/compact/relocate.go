package compact

import (
	"errors"
	"io/fs"

	"github.com/loamdb/loam/internal/base"
)

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
	if err != nil || !w.values.From(h.File()) {
		return codec, value, err
	}
	w.large, err = w.env.Value(w.large[:0], handle)
	w.work += len(w.large)
	var c *base.Corruption
	if errors.As(err, &c) || errors.Is(err, fs.ErrNotExist) {
		w.values.Damaged(h, err)
		return codec, value, nil
	}
	if err != nil {
		return codec, value, err
	}
	copied, err := w.values.add(w.large, h.Sum, &w.res)
	if err == nil {
		w.res.Relocated++
		w.res.RelocatedBytes += uint64(len(w.large))
	}
	return base.CodecRaw, append(copied, plain[len(handle):]...), err
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
