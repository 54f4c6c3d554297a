package repair

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/files"
	"github.com/loamdb/loam/internal/manifest"
	"github.com/loamdb/loam/internal/sstable"
)

// output writes ascending entries to new tables. An entry that comes twice, as
// when the input and the output of a compaction were both found, is written
// once.
type output struct {
	r     *repair
	level int
	w     sstable.Writer
	t     *table
	done  []*table

	any     bool // key, trailer and value are those of the last entry
	key     []byte
	trailer base.Trailer
	value   []byte
}

func (o *output) add(key []byte, t base.Trailer, codec base.Codec, value []byte) error {
	if o.any && bytes.Equal(key, o.key) && t == o.trailer {
		if !bytes.Equal(value, o.value) {
			o.r.report.Dropped = append(o.r.report.Dropped, Drop{File: o.t.name, Smallest: bytes.Clone(key), Largest: bytes.Clone(key),
				Reason: fmt.Sprintf("a second value with sequence number %d", t.Seq())})
		}
		return nil
	}
	newKey := !o.any || o.r.o.Comparer.Cmp(key, o.key) != 0
	if o.w != nil && newKey && o.w.EstimatedSize() >= o.r.o.FileSize {
		if err := o.finishTable(); err != nil {
			return err
		}
	}
	if o.w == nil {
		if err := o.begin(); err != nil {
			return err
		}
	}
	if err := o.w.Add(key, t, codec, value); err != nil {
		return err
	}
	o.t.note(key, t)
	o.any = true
	o.key, o.trailer, o.value = append(o.key[:0], key...), t, append(o.value[:0], value...)
	return nil
}

func (o *output) begin() error {
	num := o.r.newNum()
	name := base.FileName(base.FileTable, num)
	f, err := o.r.o.FS.Create(o.r.path(name))
	if err != nil {
		return err
	}
	o.r.made = append(o.r.made, num)
	o.w = files.NewTableWriter(f, o.r.o.Tables)
	o.t = &table{name: name, meta: &manifest.FileMeta{Num: num}, level: o.level, made: true}
	return nil
}

func (o *output) finishTable() error {
	w := o.w
	o.w = nil
	meta, err := w.Finish()
	if err = errors.Join(err, w.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", o.t.name, err)
	}
	o.t.meta.Size, o.t.meta.Smallest, o.t.meta.Largest = meta.Size, meta.Smallest.Clone(), meta.Largest.Clone()
	o.done = append(o.done, o.t)
	return nil
}

// finish ends the last table and returns all. After an error of add it only
// cleans up.
func (o *output) finish(err error) ([]*table, error) {
	if o.w == nil {
		return o.done, err
	}
	if err != nil {
		return nil, errors.Join(err, o.w.Close())
	}
	if err := o.finishTable(); err != nil {
		return nil, err
	}
	return o.done, nil
}
