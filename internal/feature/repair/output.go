package repair

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/store/files"
	"github.com/loamdb/loam/internal/tree/compact"
)

// output writes ascending entries to new tables. An entry that comes twice, as when the input and
// the output of a compaction were both found, is written once.
type output struct {
	r     *repair
	space *keyspace
	level int
	w     sstable.Writer
	t     *table
	done  []*table
	dels  rangeDels

	any     bool // key, trailer and value are those of the last entry
	key     []byte
	trailer base.Trailer
	value   []byte
}

func (o *output) add(key []byte, t base.Trailer, codec base.Codec, value []byte) error {
	if t.Kind() == base.KindRangeDelete {
		o.addRangeDel(key, value, t.Seq())
		return nil
	}
	newKey := !o.any || o.space.cmp.Cmp(key, o.key) != 0
	if !newKey && t == o.trailer {
		if !bytes.Equal(value, o.value) {
			o.r.report.Dropped = append(o.r.report.Dropped,
				Drop{File: o.t.name, Smallest: bytes.Clone(key), Largest: bytes.Clone(key),
					Reason: fmt.Sprintf("a second value with sequence number %d", t.Seq())})
		}
		return nil
	}
	if o.w != nil && newKey && o.w.EstimatedSize() >= o.r.o.FileSize {
		if err := o.finishTable(append([]byte{}, key...)); err != nil { // not nil for the empty key
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
	name := o.r.format.FileName(base.FileTable, num)
	f, err := o.r.o.FS.Create(o.r.path(name))
	if err != nil {
		return err
	}
	o.r.made = append(o.r.made, num)
	tables := o.r.o.Tables
	tables.Comparer, tables.Format, tables.FileNum = o.space.cmp, o.r.format, num
	tables.Keyspace, tables.KeyspaceName = o.space.id, o.space.names.Name
	o.w = files.NewTableWriter(f, tables)
	o.t = &table{name: name, space: o.space,
		meta:  &manifest.FileMeta{Num: num, Naming: naming(name), Comparer: o.space.cmp},
		level: o.level, made: true}
	return nil
}

// finishTable ends the table begun. The next one begins with border; nil: there is none.
func (o *output) finishTable(border []byte) error {
	err := o.writeRangeDels(border)
	var meta sstable.Meta
	if err == nil {
		meta, err = o.w.Finish()
	}
	if err == nil {
		err = o.w.Sync()
	}
	if err = errors.Join(err, o.close()); err != nil {
		return fmt.Errorf("writing %s: %w", o.t.name, err)
	}
	o.t.meta.Size, o.t.meta.Smallest, o.t.meta.Largest =
		meta.Size, meta.Smallest.Clone(), meta.Largest.Clone()
	o.t.meta.Facts = compact.FactsOf(meta, o.t.entries, true) // versions are kept
	o.done = append(o.done, o.t)
	return nil
}

// finish ends the last table and returns all. After an error of add it only cleans up.
func (o *output) finish(err error) ([]*table, error) {
	if o.w == nil && err == nil && o.dels.next(o.space.cmp, nil) == nil {
		return o.done, nil
	}
	if o.w == nil && err == nil {
		err = o.begin()
	}
	if o.w == nil {
		return o.done, err
	}
	if err != nil {
		return nil, errors.Join(err, o.close())
	}
	if err := o.finishTable(nil); err != nil {
		return nil, err
	}
	return o.done, nil
}

// close closes the table begun, if any: also, by a defer of the output's owner, when the comparer
// panics.
func (o *output) close() error {
	if o.w == nil {
		return nil
	}
	w := o.w
	o.w = nil
	return w.Close()
}
