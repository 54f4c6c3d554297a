package metamorphic

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/testkit/model"
	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/backup"
	"github.com/loamdb/loam/lsm/dump"
)

// Failure is an operation whose answer was not the model's.
type Failure struct {
	Index int // in the history
	Op    string
	Err   error
}

func (f *Failure) Error() string {
	return fmt.Sprintf("operation %d, %s: %v", f.Index, f.Op, f.Err)
}

func (f *Failure) Unwrap() error { return f.Err }

// world is a database beside the model that it must agree with.
type world struct {
	setup   Setup
	dir     string
	fs      lsm.FS
	cmp     *base.Comparer // of the default keyspace
	db      *lsm.DB
	spaces  []space // the default one first
	snaps   [slots]snapshot
	iters   [slots]iterator
	late    []*lsm.Iterator // that outlived their database
	batch   *lsm.Batch
	multi   lsm.MultiResult
	paused  int
	loading bool // the database that is opened is a new one
	options settings
	buf     []byte
	scratch []byte
}

type snapshot struct {
	s     *lsm.Snapshot
	seqs  [maxSpaces]base.SeqNum
	gone  []space // dropped while the snapshot was open
	atSeq []base.SeqNum
}

type iterator struct {
	it       *lsm.Iterator
	model    *model.Cursor
	prefix   []byte
	keysOnly bool
}

// run executes a history from an empty directory and stops at the first
// disagreement.
func run(ops []op, cmp *base.Comparer, s Setup) (failure error) {
	fs, dir, clean, err := s.place()
	if err != nil {
		return err
	}
	defer clean()
	w := &world{setup: s, dir: dir, fs: fs, cmp: cmp, spaces: s.spaces(cmp), batch: lsm.NewBatch()}
	if err := w.open(0); err != nil {
		return &Failure{Index: -1, Op: "open", Err: err}
	}
	for i := range ops {
		if s.step != nil {
			s.step()
		}
		if err := w.step(&ops[i]); err != nil {
			w.shut()
			w.closeLate()
			return &Failure{Index: i, Op: ops[i].String(), Err: err}
		}
	}
	if err := errors.Join(w.shut(), w.closeLate()); err != nil {
		return &Failure{Index: len(ops), Op: "close", Err: err}
	}
	return nil
}

func (w *world) open(n int) (err error) {
	o := w.setup.options(n)
	o.FS, o.Comparer, o.Cache, o.Resources =
		w.fs, (*lsm.Comparer)(w.cmp), w.setup.cache, w.setup.resources
	w.options = newSettings()
	if n%2 == 0 { // else the stored one is taken
		o.MergeOperator = w.spaces[0].merge
	}
	switch {
	case w.setup.Keyspaces:
		o.Format = lsm.FormatNative
	case w.loading:
		o.Format = w.setup.Format
	}
	if w.db, err = lsm.Open(w.dir, o); err != nil {
		return err
	}
	return w.openSpaces(n)
}

// shut closes everything, in the order that users forget to keep at times: some
// iterators, the database, snapshots. The other iterators are closed when the
// directory is another opening's already.
func (w *world) shut() error {
	errs := []error{w.closeLate()}
	for i := range w.iters {
		if it := w.iters[i].it; it != nil && i%2 == 1 {
			w.late = append(w.late, it)
			w.iters[i] = iterator{}
		}
		errs = append(errs, w.closeIter(i))
	}
	if w.db != nil { // an opening has failed
		errs = append(errs, w.db.Close())
	}
	for i := range w.snaps {
		errs = append(errs, w.closeSnapshot(i))
	}
	for _, it := range w.late {
		if it.First() || it.Next() || !errors.Is(it.Err(), lsm.ErrClosed) {
			errs = append(errs, fmt.Errorf("an iterator of a closed database: %w", it.Err()))
		}
	}
	w.paused = 0
	return errors.Join(errs...)
}

func (w *world) closeLate() error {
	var errs []error
	for _, it := range w.late {
		if err := it.Close(); !errors.Is(err, lsm.ErrClosed) {
			errs = append(errs, fmt.Errorf("closing an iterator of a closed database: %w", err))
		}
	}
	w.late = w.late[:0]
	return errors.Join(errs...)
}

func (w *world) closeIter(i int) error {
	it := w.iters[i].it
	w.iters[i] = iterator{}
	if it == nil {
		return nil
	}
	return it.Close()
}

func (w *world) closeSnapshot(i int) error {
	s := w.snaps[i].s
	w.snaps[i] = snapshot{}
	if s == nil {
		return nil
	}
	return s.Close()
}

func (w *world) step(o *op) error {
	switch o.kind {
	case opPut, opDelete, opMerge, opDeleteRange, opBatch:
		return w.write(o)
	case opGet, opHas, opTryGet, opMultiGet:
		return w.read(o, nil, w.space(o).model.Now())
	case opSnapshotGet, opSnapshotMultiGet, opSnapshotScan:
		return w.readSnapshot(o)
	case opSnapshot:
		if err := w.closeSnapshot(o.slot); err != nil {
			return err
		}
		w.openSnapshot(o.slot)
	case opCloseSnapshot:
		return w.closeSnapshot(o.slot)
	case opIter:
		return w.openIter(o)
	case opCloseIter:
		return w.closeIter(o.slot)
	case opAll, opBackward, opPrefix:
		return w.scan(o)
	case opFlush:
		return w.flush(w.space(o))
	case opCompact:
		err := w.compact(w.space(o), o.key, o.limit)
		if o.key != nil && o.limit != nil && w.space(o).cmp.Compare(o.key, o.limit) > 0 {
			if !errors.Is(err, lsm.ErrInvalidArgument) {
				return fmt.Errorf("a range that ends before it starts: %v", err)
			}
			return nil
		}
		return err
	case opPause:
		if w.paused < 2 {
			w.paused++
			w.db.PauseCompaction()
		}
	case opResume:
		if w.paused > 0 {
			w.paused--
			w.db.ResumeCompaction()
		}
	case opReopen:
		if err := w.shut(); err != nil {
			return err
		}
		return w.open(o.n)
	case opOpenTwice:
		return w.openTwice()
	case opCheckpoint:
		return w.checkpoint(o.n)
	case opDump:
		return w.dump(o.n)
	case opIngest:
		return w.ingest(o)
	case opLoad:
		return w.load(o)
	case opSizes:
		return w.sizes(o)
	case opSetOption:
		return w.setOption(o)
	case opDrop:
		return w.drop(o)
	case opCheck:
		return w.check()
	default:
		return w.move(o)
	}
	return nil
}

func (w *world) write(o *op) error {
	mode := lsm.NoSync
	if o.sync {
		mode = lsm.Sync
	}
	w.scratch = o.value.append(w.scratch[:0])
	switch sp := w.space(o); {
	case o.kind == opBatch:
	case o.kind == opDeleteRange || sp.ks != nil && len(w.scratch)%3 == 0:
		w.batch.Clear()
		sp.fill(w.batch, o, w.scratch)
		return w.db.Write(w.batch, mode)
	case sp.ks != nil && len(w.scratch)%3 == 1: // a batch that names no keyspace
		w.batch.Clear()
		(&space{model: sp.model, merge: sp.merge}).fill(w.batch, o, w.scratch)
		return sp.ks.Write(w.batch, mode)
	case o.kind == opMerge && sp.ks != nil:
		sp.model.Merge(o.key, w.scratch)
		return sp.ks.Merge(o.key, w.scratch, mode)
	case o.kind == opMerge && sp.merge != nil:
		sp.model.Merge(o.key, w.scratch)
		return w.db.Merge(o.key, w.scratch, mode)
	case o.kind == opMerge:
		if err := w.db.Merge(o.key, w.scratch, mode); !errors.Is(err, lsm.ErrNeedsNative) {
			return fmt.Errorf("LevelDB's format takes a merge: %v", err)
		}
		return nil
	case o.kind == opPut:
		sp.model.Put(o.key, w.scratch)
		return w.store(sp).Put(o.key, w.scratch, mode)
	default:
		sp.model.Delete(o.key)
		return w.store(sp).Delete(o.key, mode)
	}
	b, err := w.fill(o)
	if err != nil {
		return err
	}
	if o.n == 2 && len(w.spaces) > 1 {
		return w.db.WriteBytes(b.Bytes(), mode)
	}
	return w.db.Write(b, mode)
}

// fill makes the batch in one of three ways: directly, from two parts, or by
// way of its wire form.
func (w *world) fill(o *op) (*lsm.Batch, error) {
	w.batch.Clear()
	b, part := w.batch, lsm.NewBatch()
	for i := range o.sub {
		s := &o.sub[i]
		dst := b
		if o.n == 1 && i >= len(o.sub)/2 {
			dst = part
		}
		w.scratch = s.value.append(w.scratch[:0])
		w.space(s).fill(dst, s, w.scratch)
	}
	b.Append(part)
	if b.Count() != len(o.sub) {
		return nil, fmt.Errorf("batch of %d operations counts %d", len(o.sub), b.Count())
	}
	ranges := slices.ContainsFunc(o.sub, func(s op) bool { return s.kind == opDeleteRange })
	// a batch of LevelDB's form names no keyspace and has no merges
	if o.n != 2 || w.spaces[0].merge != nil || ranges {
		return b, nil
	}
	wire := bytes.Clone(b.Bytes())
	binary.LittleEndian.PutUint32(wire[8:], uint32(len(o.sub)+1))
	if _, err := lsm.BatchFromBytes(wire); err == nil {
		return nil, fmt.Errorf("a batch of %d operations that says %d is accepted", len(o.sub),
			len(o.sub)+1)
	}
	binary.LittleEndian.PutUint32(wire[8:], uint32(len(o.sub)))
	return lsm.BatchFromBytes(wire)
}

// openTwice wants the open database to stay locked, also after the attempt.
func (w *world) openTwice() error {
	for range 2 {
		if db, err := lsm.Open(w.dir,
			&lsm.Options{FS: w.fs, Comparer: (*lsm.Comparer)(w.cmp)}); !errors.Is(err,
			lsm.ErrLocked) {
			if err == nil {
				db.Close()
			}
			return fmt.Errorf("a second opening gives %v", err)
		}
	}
	return nil
}

// dump goes on in a new database into which a dump is loaded, with options that name its merge
// operator, and destroys the database that was open.
func (w *world) dump(n int) error {
	from, to := w.dir, w.dir+"-copy"
	if dir, was := strings.CutSuffix(from, "-copy"); was {
		to = dir
	}
	var b bytes.Buffer
	if _, err := dump.Write(context.Background(), w.db, &b, nil); err != nil {
		return err
	}
	w.dir = to
	if err := errors.Join(w.shut(), lsm.Destroy(from, &lsm.Options{FS: w.fs})); err != nil {
		return err
	}
	w.loading = true
	err := w.open(n - n%2)
	w.loading = false
	if err != nil {
		return err
	}
	_, err = dump.Load(context.Background(), w.db, &b, nil)
	return err
}

// checkpoint continues in a checkpoint, or in a restored backup, with the nth options, and destroys
// the original database.
func (w *world) checkpoint(n int) error {
	from, to := w.dir, w.dir+"-copy"
	if dir, was := strings.CutSuffix(from, "-copy"); was {
		to = dir
	}
	copied := w.backUp
	if n%3 != 0 {
		copied = func(to string) error { return w.db.Checkpoint(context.Background(), to) }
	}
	if err := copied(to); err != nil {
		return err
	}
	w.dir = to
	if err := errors.Join(w.shut(), lsm.Destroy(from, &lsm.Options{FS: w.fs})); err != nil {
		return err
	}
	return w.open(n)
}

// backUp makes a backup in a folder that has those of the history so far, and restores it.
func (w *world) backUp(to string) error {
	f, err := backup.Open(strings.TrimSuffix(w.dir, "-copy")+"-backups", &backup.Options{FS: w.fs})
	if err != nil {
		return err
	}
	ctx := context.Background()
	info, err := f.Create(ctx, w.db, nil)
	if err == nil {
		err = f.Verify(ctx, info.ID, nil)
	}
	if err == nil {
		err = f.Restore(ctx, info.ID, to, nil)
	}
	if err == nil {
		err = f.Keep(2)
	}
	return errors.Join(err, f.Close())
}

// reader is what DB and Snapshot share.
type reader interface {
	Get(key, dst []byte) ([]byte, error)
	TryGet(key, dst []byte) ([]byte, error)
	Has(key []byte) (bool, error)
	MultiGet(keys [][]byte, r *lsm.MultiResult) error
}

func (w *world) readSnapshot(o *op) error {
	s := w.snaps[o.slot]
	if s.s == nil {
		return nil
	}
	if o.kind == opSnapshotScan {
		return w.scanSnapshot(o, s)
	}
	seq := s.seqs[w.index(o)]
	if err := w.read(o, s.s, seq); err != nil {
		return err
	}
	if o.kind != opSnapshotGet {
		return nil
	}
	has := op{kind: opHas, key: o.key, space: o.space}
	return w.read(&has, s.s, seq)
}

func (w *world) read(o *op, snap *lsm.Snapshot, seq base.SeqNum) error {
	sp := w.space(o)
	r := w.reader(sp, snap)
	switch o.kind {
	case opMultiGet, opSnapshotMultiGet:
		return w.multiGet(r, sp.model, seq, o)
	case opHas:
		_, want := sp.model.Get(seq, o.key)
		if got, err := r.Has(o.key); err != nil || got != want {
			return fmt.Errorf("%v, %v; want %v", got, err, want)
		}
		return nil
	}
	// The buffer has something in front that must stay.
	w.buf = append(w.buf[:0], "front"...)
	var err error
	if o.kind == opTryGet {
		if w.buf, err = r.TryGet(o.key, w.buf); errors.Is(err, lsm.ErrWouldBlock) {
			w.buf = w.buf[:0]
			return nil
		}
	} else {
		w.buf, err = r.Get(o.key, w.buf)
	}
	want, found := sp.model.Get(seq, o.key)
	if !found {
		if !errors.Is(err, lsm.ErrNotFound) || string(w.buf) != "front" {
			return fmt.Errorf("%q, %v; want not found", clip(w.buf), err)
		}
		return nil
	}
	if err != nil || string(w.buf) != "front"+want {
		return fmt.Errorf("%q, %v; want front%q", clip(w.buf), err, clip(want))
	}
	return nil
}

func (w *world) multiGet(r reader, m *model.Model, seq base.SeqNum, o *op) error {
	keys := make([][]byte, len(o.sub))
	for i := range o.sub {
		keys[i] = o.sub[i].key
	}
	if err := r.MultiGet(keys, &w.multi); err != nil {
		return err
	}
	if w.multi.Len() != len(keys) {
		return fmt.Errorf("%d results for %d keys", w.multi.Len(), len(keys))
	}
	for i, k := range keys {
		got, ok := w.multi.Value(i)
		if want, found := m.Get(seq, k); ok != found || string(got) != want {
			return fmt.Errorf("key %d %q: %q, %v; want %q, %v", i, k, clip(got), ok, clip(want),
				found)
		}
	}
	return nil
}

func (w *world) scan(o *op) error {
	var err error
	lower, upper := o.key, o.limit
	sp := w.space(o)
	if o.kind == opPrefix {
		if sp.cmp != base.Bytewise {
			return nil
		}
		lower, upper = prefixBounds(o.prefix, nil, nil)
	}
	seq := w.all(sp, o, &err)
	want := sp.model.Scan(sp.model.Now(), lower, upper)
	i := 0
	for k, v := range seq {
		j := i
		if o.kind == opBackward {
			j = len(want) - 1 - i
		}
		if i >= len(want) || string(k) != want[j].Key || string(v) != want[j].Value {
			return fmt.Errorf("entry %d of %d is %q=%q", i, len(want), clip(k), clip(v))
		}
		i++
	}
	if err != nil || i != len(want) {
		return fmt.Errorf("%d entries, %v; want %d", i, err, len(want))
	}
	return nil
}

// sizes asks for the size of a range, which has no exact answer: it must not
// be more than the whole.
func (w *world) sizes(o *op) error {
	got, err := w.db.ApproximateSizes([]lsm.Range{{Start: o.key, Limit: o.limit}, {}})
	if err != nil {
		return err
	}
	if len(got) != 2 || got[0] > got[1] {
		return fmt.Errorf("sizes %v of a range and of everything", got)
	}
	return nil
}

// check compares the whole database with the model, in both directions.
func (w *world) check() error {
	for i := range w.spaces {
		sp := &w.spaces[i]
		if err := compareScan(w.iter(sp, nil), sp.model, sp.model.Now()); err != nil {
			return fmt.Errorf("keyspace %d: %w", i, err)
		}
		if err := w.scan(&op{kind: opBackward, space: i}); err != nil {
			return fmt.Errorf("keyspace %d: %w", i, err)
		}
	}
	return nil
}

func compareScan(it *lsm.Iterator, m *model.Model, seq base.SeqNum) error {
	want := m.Scan(seq, nil, nil)
	i := 0
	for ok := it.First(); ok; ok = it.Next() {
		if i >= len(want) || string(it.Key()) != want[i].Key ||
			string(it.Value()) != want[i].Value {
			err := fmt.Errorf("entry %d of %d is %q=%q", i, len(want), clip(it.Key()),
				clip(it.Value()))
			it.Close()
			return err
		}
		i++
	}
	if err := it.Close(); err != nil || i != len(want) {
		return fmt.Errorf("%d entries, %v; want %d", i, err, len(want))
	}
	return nil
}

// clip shortens what is printed.
func clip[T string | []byte](v T) string {
	if len(v) > 60 {
		return fmt.Sprintf("%s…(%d)", v[:60], len(v))
	}
	return string(v)
}
