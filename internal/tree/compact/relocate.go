package compact

import (
	"errors"

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
	if ok, err := w.readLarge(h, handle); !ok {
		return codec, value, err
	}
	copied, err := w.values.add(w.large, h.Sum, &w.res)
	if err == nil {
		w.res.Relocated++
		w.res.RelocatedBytes += uint64(len(w.large))
	}
	return base.CodecRaw, append(copied, plain[len(handle):]...), err
}

// readLarge reads the value that a handle refers to into w.large. ok is false without an error for
// a value that cannot be read, be it damaged, on a bad sector or in a file that is missing: a run
// goes on without it, as one value must not stop the compactions of a database. What passes by
// itself, a shortage for instance, is an error: the run is tried again.
func (w *work) readLarge(h base.ValueHandle, handle []byte) (ok bool, err error) {
	w.large, err = w.env.Value(w.large[:0], handle)
	w.work += len(w.large)
	if err == nil || base.IsShortage(err) || base.Transient(err) || errors.Is(err, base.ErrClosed) {
		return err == nil, err
	}
	w.env.Unreadable(h, err)
	return false, nil
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
