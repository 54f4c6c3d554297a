package repair

import (
	"bytes"
	"errors"
	"io/fs"
	"math"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/colblk"
	"github.com/loamdb/loam/internal/store/files"
)

// A new state keeps no log and no value file. So tables with references to values in these are
// written anew, with the values, unless nothing is to be repaired at all.

// value is what the value of an entry of a kind that Refers is with the value in the place of the
// handle. It is valid until the next call. A log that is missing is damage, too.
func (r *repair) value(kind base.Kind, codec base.Codec, packed []byte) (value []byte, err error) {
	if codec != base.CodecRaw {
		if packed, err = colblk.AppendUnpacked(nil, packed, codec, nil, math.MaxInt64); err != nil {
			return nil, err
		}
	}
	handle := kind.Handle(packed)
	if r.values == nil {
		r.values = files.New(files.Options{FS: r.o.FS, Dir: r.o.Dir, Format: r.format,
			Comparer: r.o.Comparer})
	}
	value, err = r.values.AppendValue(r.large[:0], handle)
	if errors.Is(err, fs.ErrNotExist) {
		h, _ := base.DecodeValueHandle(handle)
		return nil, &base.Corruption{File: h.File().FileName(r.format), Offset: h.Offset,
			Length: int64(h.Len), Kind: "large value", Reason: "the file is missing"}
	}
	r.large = append(value, packed[len(handle):]...)
	return r.large, err
}

// salvageValue writes an entry with its value, which lies in a log. One whose value cannot be read
// is reported and left out.
func (r *repair) salvageValue(out *output, t *table, key []byte, tr base.Trailer, codec base.Codec,
	packed []byte) error {
	value, err := r.value(tr.Kind(), codec, packed)
	var c *base.Corruption
	if errors.As(err, &c) {
		if c.File == "" {
			c.File = t.name
		}
		r.report.Dropped = append(r.report.Dropped, Drop{File: c.File, Offset: max(c.Offset, 0),
			Length: c.Length, Reason: c.Kind + ": " + c.Reason, Smallest: bytes.Clone(key),
			Largest: bytes.Clone(key)})
		return nil
	}
	if err != nil {
		return err
	}
	return out.add(key, base.MakeTrailer(tr.Seq(), tr.Kind().Whole()), base.CodecRaw, value)
}
