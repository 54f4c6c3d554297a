package repair

import (
	"bytes"
	"errors"
	"io/fs"
	"math"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/colblk"
	"github.com/loamdb/loam/internal/os/seal"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/store/files"
)

// A new state keeps no log and no value file. So tables with references to values in these are
// written anew, with the values, unless nothing is to be repaired at all.

// value is what the value of an entry of a kind that Refers is with the value in the place of the
// handle, and the file that it is in. It is valid until the next call. A log that is missing, or
// no regular file, is damage, too.
func (r *repair) value(kind base.Kind, codec base.Codec, packed []byte) (value []byte,
	in base.ValueFile, err error) {
	if codec != base.CodecRaw {
		if packed, err = colblk.AppendUnpacked(nil, packed, codec, nil, math.MaxInt64); err != nil {
			return nil, in, err
		}
	}
	handle := kind.Handle(packed)
	h, err := base.DecodeValueHandle(handle)
	if err != nil {
		return nil, in, err
	}
	if r.values == nil {
		r.values = files.New(files.Options{FS: r.o.FS, Dir: r.o.Dir, Format: r.format,
			Comparer: r.o.Comparer})
	}
	value, err = r.values.AppendValue(r.large[:0], handle)
	reason := ""
	switch {
	case errors.Is(err, fs.ErrNotExist):
		reason = "the file is missing"
	case errors.Is(err, vfs.ErrNotRegular):
		reason = "no regular file has its name"
	}
	if reason != "" {
		return nil, in, &base.Corruption{File: h.File().FileName(r.format), Offset: h.Offset,
			Length: int64(h.Len), Kind: "large value", Reason: reason}
	}
	r.large = append(value, packed[len(handle):]...)
	return r.large, h.File(), err
}

// headerDamage is the damage of the encryption header of a file of values: reads of the database
// fail by it, whatever a repair can read.
func (r *repair) headerDamage(in base.ValueFile) error {
	err, known := r.headers[in]
	if !known {
		err = seal.HeaderDamage(r.o.FS, r.path(in.FileName(r.format)))
		r.headers[in] = err
	}
	return err
}

// salvageValue writes an entry with its value, which lies in a log. One whose value cannot be read
// is reported and left out.
func (r *repair) salvageValue(out *output, t *table, key []byte, tr base.Trailer, codec base.Codec,
	packed []byte) error {
	value, _, err := r.value(tr.Kind(), codec, packed)
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
