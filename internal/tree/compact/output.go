package compact

import (
	"cmp"
	"errors"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/rangedel"
	"github.com/loamdb/loam/internal/format/sstable"
)

// sizeCheck is how many raw bytes go into a table between two looks at its size.
const sizeCheck = 16 << 10

// syncRound is how many tables are finished before they are synced, together and beside the
// merge: they have a descriptor each, and one commit of the file system's journal may serve them
// all. So what waits for the disk in the end is few tables.
const syncRound = 8

// output writes the surviving entries to tables of about fileSize bytes, never
// splitting a user key over two of them.
type output struct {
	env      *Env
	level    int
	fileSize uint64 // 0: one table

	num      uint64
	w        sstable.Writer   // nil: none begun
	values   uint64           // bytes that w refers to, see Env.MaxValues
	old      uint64           // the same of versions that newer ones hide, which operands do not
	hides    bool             // the last entry, or one before it of its key, hides older versions
	since    int              // raw bytes since the last look at the size
	full     bool             // w ends before the next user key
	older    bool             // w has a version that a newer one hides from all but snapshots
	unsynced []sstable.Writer // finished
	round    chan error       // gets the outcome of the sync that is under way; nil: none is
	dels     *rangedel.List   // to be written
	cut      []byte           // where the tombstones of the next table begin; nil: with the first
	created  []uint64
	res      *Result
}

// add appends an entry; first says that its user key is a new one.
func (o *output) add(key []byte, t base.Trailer, codec base.Codec, value []byte, first bool) error {
	if o.full && first {
		if err := o.finish(append([]byte{}, key...)); err != nil { // not nil for the empty key
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
	o.older = o.older || !first
	hidden := o.hides && !first
	o.hides = hidden || t.Kind().EndsLookup()
	if t.Kind().Refers() {
		n := valueLen(codec, t.Kind().Handle(value))
		if hidden {
			o.old += n
		}
		o.values += n
		o.full = o.full || o.env.MaxValues > 0 && o.fileSize > 0 && o.values >= o.env.MaxValues
	}
	if o.since += len(key) + len(value) + base.TrailerLen; o.since >= sizeCheck && o.fileSize > 0 {
		o.since = 0
		o.full = o.full || o.w.EstimatedSize() >= o.fileSize
	}
	return nil
}

// begin begins a table. Where there is no descriptor for it, those of tables that are
// finished are given up first. Any other shortage is the caller's to report.
func (o *output) begin() error {
	num, w, err := o.env.NewWriter()
	if (o.round != nil || len(o.unsynced) > 0) &&
		errors.Is(base.Classify(err), base.ErrTooManyFiles) {
		if err := o.sync(); err != nil {
			return err
		}
		num, w, err = o.env.NewWriter()
	}
	if err != nil {
		return err
	}
	o.num, o.w = num, w
	o.created = append(o.created, num)
	return nil
}

// sync makes the finished tables durable and closes them.
func (o *output) sync() error {
	err := o.endRound()
	if err != nil {
		closeAll(o.unsynced)
	} else {
		err = syncAll(o.unsynced)
	}
	o.unsynced = nil
	return err
}

// beginRound syncs the finished tables in the background, after those before them.
func (o *output) beginRound() error {
	if err := o.endRound(); err != nil {
		return err
	}
	tables, round := o.unsynced, make(chan error, 1)
	o.unsynced, o.round = nil, round
	go base.Always(func() error { return syncAll(tables) }, func(err error) { round <- err })
	return nil
}

// endRound waits for the sync that is under way, if any.
func (o *output) endRound() error {
	if o.round == nil {
		return nil
	}
	err := <-o.round
	o.round = nil
	return err
}

// syncAll syncs and closes tables. After a failure it closes the others.
func syncAll(tables []sstable.Writer) (err error) {
	for i, w := range tables {
		if err = cmp.Or(w.Sync(), w.Close()); err != nil {
			closeAll(tables[i+1:])
			return err
		}
	}
	return nil
}

// closeAll closes tables whose files are thrown away.
func closeAll(tables []sstable.Writer) {
	for _, w := range tables {
		_ = w.Close()
	}
}

// finish completes the table begun, if any. It is not yet durable. The next table begins with
// border; nil: there is none.
func (o *output) finish(border []byte) error {
	if o.w == nil && o.dels.Clip(o.cut, border) == nil {
		return nil
	}
	if o.w == nil {
		if err := o.begin(); err != nil {
			return err
		}
	}
	if o.env.Stop != nil { // the rest may take long
		if err := o.env.Stop(); err != nil {
			return err
		}
	}
	if err := o.addRangeDels(border); err != nil {
		return err
	}
	w := o.w
	entries := w.Entries()
	meta, err := w.Finish() // where the comparer may panic: abandon closes o.w
	o.w, o.full, o.since, o.values = nil, false, 0, 0
	if err != nil {
		_ = w.Close() // the file is thrown away
		return err
	}
	o.unsynced = append(o.unsynced, w)
	if entries != meta.Entries && meta.Entries != 0 {
		return countError("table %06d has %d entries, %d were added", o.num, meta.Entries, entries)
	}
	f := &manifest.FileMeta{Num: o.num, Naming: o.env.Naming, Size: meta.Size,
		Smallest: meta.Smallest, Largest: meta.Largest,
		Comparer: o.env.Comparer, Facts: FactsOf(meta, entries, o.older)}
	f.SetValueLogs(meta.ValueLogs)
	f.OldValues, o.old = o.old, 0
	f.Sample.Store(meta.Sample)
	o.older = false
	if err := o.checkEnds(f); err != nil {
		return err
	}
	if n := len(o.res.Added); n > 0 {
		if err := o.checkBorder(o.res.Added[n-1].Meta, f); err != nil {
			return err
		}
	}
	f.Level.Store(int32(o.level))
	o.res.Added = append(o.res.Added, manifest.AddedFile{Level: o.level, Meta: f})
	o.res.Tables = append(o.res.Tables, meta)
	o.res.EntriesOut += entries
	o.res.BytesWritten += meta.Size
	if len(o.unsynced) == syncRound {
		return o.beginRound()
	}
	return nil
}

// abandon closes what is unfinished and leaves the numbers of all files that
// were created for the caller to delete.
func (o *output) abandon() {
	if o.w != nil {
		_ = o.w.Close() // the file is thrown away
		o.w = nil
	}
	_ = o.endRound() // a failed sync is that of a file that no MANIFEST names
	closeAll(o.unsynced)
	o.unsynced = nil
	o.res.Added, o.res.Tables = nil, nil
	o.res.Abandoned = o.created
}

// FactsOf is what the MANIFEST says of a finished table with so many entries. older says that
// it has a version that a newer one hides.
func FactsOf(meta sstable.Meta, entries uint64, older bool) manifest.Facts {
	f := manifest.Facts{
		Leftovers: older || meta.Deletes > 0 || meta.RangeDels > 0, Entries: entries,
		Deletes: meta.Deletes, RangeDels: meta.RangeDels, Kinds: meta.Kinds,
		MinExpiry: meta.MinExpiry, MaxExpiry: meta.MaxExpiry,
	}
	if meta.Format == base.Native.String() {
		f.Format, f.Checksum, f.HasChecksum = base.Native, meta.Checksum, true
	}
	return f
}
