package compact

import (
	"runtime"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/mergeop"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/rangedel"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/tree/iters"
	"github.com/loamdb/loam/internal/tree/picker"
)

// A yield comes after yieldWork units of work, which take about 200 us: a unit is
// a byte of a key or value, and an entry as such costs as much as entryWork bytes.
const (
	yieldWork = 96 << 10
	entryWork = 64
)

// Env is what a run needs of the database.
type Env struct {
	Comparer *base.Comparer
	Merge    *mergeop.Operator // nil: operands are not folded
	Naming   base.TableNaming  // of new tables
	// SettleSeqs lets merges into the deepest level write 0 for sequence numbers that no
	// snapshot tells apart. See collapse.
	SettleSeqs bool
	// Open opens a table for one pass from front to back.
	Open func(m *manifest.FileMeta, flags sstable.ReadFlags) (base.Source, error)
	// Value appends the value that a handle refers to; for inputs that have such entries.
	Value func(dst, handle []byte) ([]byte, error)
	// Unreadable takes a value that cannot be read, whose reference stays as it is. It is there if
	// Value is.
	Unreadable func(h base.ValueHandle, err error)
	// RangeDels are the range tombstones of an input; for tables whose manifest entry counts some.
	RangeDels func(m *manifest.FileMeta) (*rangedel.List, error)
	// NewWriter begins a new table. The number counts as created even when the
	// run fails later; it is then in Result.Abandoned.
	NewWriter func() (num uint64, w sstable.Writer, err error)
	// Stop is asked every 200 us or so of work; an error ends the run with it.
	// nil: never.
	Stop func() error
	// MayHold reports whether a file that is no input, and whose range includes the key, may have
	// entries of it: false lets a deletion of the key go. nil: each may.
	MayHold func(m *manifest.FileMeta, key []byte) bool
	// Filter decides in compactions what becomes of the newest versions of keys. nil: they
	// are kept.
	Filter *base.CompactionFilter
	// MaxUnpacked bounds the bytes of a packed value that Filter is shown.
	MaxUnpacked int64
	Clock       Clock // of expiry
	// ValueFiles writes large values; nil: references stay as they are, and other values whole.
	ValueFiles *ValueFiles
	// MaxValues is how many bytes of values in logs and value files a table refers to, about: then
	// the next one is begun. 0: no bound.
	MaxValues uint64
	// Progress, if it is not nil, gets the number of entries read after each 200 us or so of work.
	Progress func(entries uint64)
}

// Result is what a run made.
type Result struct {
	Added  []manifest.AddedFile
	Tables []sstable.Meta // of Added, in the same order
	// Abandoned are the numbers of the files created by a run that failed: they
	// are in no version, and the caller deletes them.
	Abandoned []uint64

	// EntriesIn = EntriesOut + Dropped when the run succeeded.
	EntriesIn, EntriesOut, Dropped uint64
	BytesWritten                   uint64 // sizes of the tables
	// entries that became tombstones, which are among EntriesOut or Dropped
	Expired uint64
	// operands that became values, or were joined; Dropped counts all but one of each
	Folded       uint64
	FoldFailures uint64 // folds that the merge operator failed
	FoldErr      error  // why the first of them failed
	// FilterRemoved and FilterChanged are the entries that Env.Filter removed, as tombstones
	// that are among EntriesOut or Dropped, and those that it gave another value. If there
	// are any, snapshots newer than Snapshots, those given to Run, must not see the result.
	FilterRemoved, FilterChanged uint64
	Snapshots                    []base.SeqNum
	// Values are the numbers of the value files that were created. Those of a run that failed are
	// in no version, and the caller deletes them.
	Values []uint64
	// ValueBytes are the bytes of values in them. Relocated are those that were copied out of logs
	// or other value files, and RelocatedBytes their bytes.
	ValueBytes, Relocated, RelocatedBytes uint64

	reads []inputRead
}

// Run does one piece of a plan. snapshots are the sequence numbers, ascending,
// that reads may still ask for besides the newest; they must have been listed
// after the plan was picked, and every input entry must be visible to new reads.
//
// The tables are finished and synced, the directory is not.
func Run(p *picker.Plan, piece int, env *Env, snapshots []base.SeqNum) (Result, error) {
	lower, upper := p.Bounds(piece)
	dels, err := rangeDels(p, env, lower, upper)
	if err != nil {
		return Result{}, err
	}
	var reads []inputRead
	sources, err := openInputs(p, env, &reads)
	if err != nil {
		return Result{}, err
	}
	merge := iters.NewMerge(env.Comparer, sources, lower, upper)
	defer merge.Close() // also when the comparer panics
	w := work{
		env: env, merge: merge,
		collapse: collapse{cmp: env.Comparer, snapshots: snapshots,
			deeper: newDeeper(env, p.Version, p.OutputLevel+1)},
		out:     output{env: env, level: p.OutputLevel, fileSize: p.FileSize},
		folding: folding{op: env.Merge},
		values:  newValueFiles(env),
	}
	w.takeRangeDels(dels, p.Version, p.OutputLevel+1)
	if env.SettleSeqs && p.IsDeepest(env.Comparer) {
		w.collapse.zeroSeqs()
	}
	if env.Filter != nil {
		w.filter = &filtering{env: env, level: p.OutputLevel}
	}
	result, err := w.execute()
	result.reads, result.Snapshots = reads, snapshots
	return result, err
}

// Edit joins the results of all pieces of a plan, in any order, into the change to
// install. For a trivial move, or a Drop, there are no results. It is an error when entries
// of the inputs were not read.
func Edit(p *picker.Plan, results ...Result) (*manifest.Edit, error) {
	if !p.TrivialMove && !p.Drop {
		if err := checkReads(p, results); err != nil {
			return nil, err
		}
	}
	var added []manifest.AddedFile
	for _, r := range results {
		added = append(added, r.Added...)
	}
	return p.Edit(added), nil
}

// Flush writes a memtable, which has so many entries and these range tombstones, to the level that
// picker.FlushLevel chose, as one run of tables of fileSize bytes (0: one table). v is a version
// that has all older data, that is: older memtables are in it. Result.Added is
// empty when nothing survives.
func Flush(src base.Source, entries uint64, dels []*rangedel.List, v *manifest.Version, level int,
	fileSize uint64, env *Env, snapshots []base.SeqNum) (Result, error) {
	merge := iters.NewMerge(env.Comparer, []base.Source{src}, nil, nil)
	defer merge.Close() // also when the comparer panics
	w := work{
		env: env, merge: merge,
		collapse: collapse{cmp: env.Comparer, snapshots: snapshots,
			deeper: newDeeper(env, v, 0)},
		out:     output{env: env, level: level, fileSize: fileSize},
		folding: folding{op: env.Merge},
		values:  newValueFiles(env),
		exactly: &entries,
	}
	w.takeRangeDels(dels, v, 0)
	return w.execute()
}

// openInputs opens the inputs of a plan, newest first.
func openInputs(p *picker.Plan, env *Env, reads *[]inputRead) (sources []base.Source, err error) {
	opened := false
	defer func() { // also when the comparer panics
		for i := 0; i < len(sources) && !opened; i++ {
			sources[i].Close()
		}
	}()
	open := func(f *manifest.FileMeta) (base.Source, error) {
		src, err := env.Open(f, sstable.Private|sstable.Scan)
		if err != nil {
			return nil, err
		}
		return &countedSource{src, f.Num, reads}, nil
	}
	for level, files := range p.Inputs {
		switch {
		case len(files) == 0:
		case level == 0:
			for _, f := range files {
				src, err := open(f)
				if err != nil {
					return sources, err
				}
				sources = append(sources, src)
			}
		default:
			sources = append(sources, iters.NewLevel(env.Comparer, files, open))
		}
	}
	opened = true
	return sources, nil
}

// work is one merge -> collapse -> output.
type work struct {
	env      *Env
	merge    *iters.Merge
	collapse collapse
	dels     tombstones
	out      output
	res      Result
	exactly  *uint64 // how many entries there are; nil: not known here
	folding  folding
	unpacked []byte      // scratch
	large    []byte      // scratch: a value that lies in a log
	filter   *filtering  // nil: none
	values   *valueFiles // nil: none are written

	work int // since the last yield
}

func (w *work) execute() (res Result, err error) {
	w.out.res = &w.res
	done := false
	defer func() { // also when the comparer panics
		w.merge.Close()
		if !done {
			w.out.abandon()
			w.values.abandon()
		}
		res = w.res
	}()
	err = w.mergeAll()
	if err == nil {
		err = w.out.finish(nil)
	}
	if err == nil {
		err = w.values.finish()
	}
	if err == nil {
		err = w.out.sync()
	}
	if err == nil {
		err = w.check()
	}
	done = err == nil
	return w.res, err
}

func (w *work) check() error {
	r := &w.res
	switch {
	case w.exactly != nil && *w.exactly != r.EntriesIn:
		return countError("the memtable has %d entries, %d were read", *w.exactly, r.EntriesIn)
	case r.EntriesIn != r.EntriesOut+r.Dropped:
		return countError("%d entries in, %d out, %d dropped", r.EntriesIn, r.EntriesOut, r.Dropped)
	}
	return nil
}

func (w *work) mergeAll() error {
	m := w.merge
	err := m.First()
	for err == nil && m.Valid() {
		e, i, end := m.NextSpan()
		w.res.EntriesIn += uint64(end - i)
		if err := w.copySpan(e, i, end); err != nil {
			return err
		}
		if end == e.Len() {
			w.collapse.leave()
		}
		err = m.Advance(end)
	}
	if err == nil {
		err = w.endFold(w.folding.bottom)
	}
	return err
}

// copySpan hands the survivors of entries [i, end) to the output.
//
// Five parts of work may drop or change an entry, in this order: a range tombstone hides it
// (dels); it has expired (expiring); no reader sees it (collapse); it is an operand, or the value
// below operands (fold); the compaction filter removes it (filter). collapse comes before fold
// and filter, which must not see versions that are hidden already.
//
// In a chunk of live sets no key occurs twice. So only the first entry of the span that no range
// tombstone hides can be an older version of the key before it, or lie below waiting operands:
// collapse and fold check entries until one survives, and the others survive without a check.
// collapse learns of the last of these at the end (pass), for the span that follows.
func (w *work) copySpan(e *base.Chunk, i, end int) error {
	// In a plain chunk, only the first key can be that of the entry before.
	plain := e.AllLiveSets
	passed := -1 // the last entry that survives without a check
	for check := true; i < end; i++ {
		key, value, t, codec := e.Key(i), e.Value(i), e.Trailers[i], e.Codec(i)
		if w.work += len(key) + len(value) + entryWork; w.work >= yieldWork {
			if err := w.yield(); err != nil {
				return err
			}
		}
		if w.dels.list != nil && w.dels.hides(&w.collapse, key, t) {
			w.res.Dropped++
			continue
		}
		first := true
		if check {
			if !t.Kind().Known() || !t.Kind().IsPoint() {
				return base.Corruptf("internal key", "unknown kind %d", t.Kind())
			}
			if t.Kind().Expires() {
				var err error
				if t, value, err = w.expiring(t, codec, value); err != nil {
					return err
				}
				codec = base.CodecRaw
			}
			var keep bool
			keep, first = w.collapse.keep(key, t)
			if w.folding.n > 0 || t.Kind() == base.KindMerge {
				if done, err := w.fold(key, t, codec, value, keep, first); err != nil {
					return err
				} else if done {
					check = !plain
					continue
				}
			}
			if !keep {
				w.res.Dropped++
				continue
			}
			check = !plain
		} else {
			passed = i
		}
		if w.filter != nil && first && t.Kind().IsValue() &&
			w.collapse.aboveSnapshots(t.Seq()) {
			var err error
			if t, codec, value, err = w.filtered(key, t, codec, value); err != nil {
				return err
			}
			if w.collapse.elides(key, t) {
				w.res.Dropped++
				continue
			}
		}
		if w.values != nil && w.values.From != nil && t.Kind().Refers() {
			var err error
			if codec, value, err = w.relocated(t.Kind(), codec, value); err != nil {
				return err
			}
		}
		if err := w.out.add(key, w.collapse.withZeroSeq(t), codec, value, first); err != nil {
			return err
		}
	}
	// collapse does not see entries that a range tombstone hides: an
	// older version of their key that survives is the first of it.
	if passed >= 0 {
		w.collapse.pass(e.Key(passed), e.Trailers[passed])
	}
	return nil
}

func (w *work) yield() error {
	w.work = 0
	runtime.Gosched()
	if w.env.Progress != nil {
		w.env.Progress(w.res.EntriesIn)
	}
	if w.env.Stop != nil {
		return w.env.Stop()
	}
	return nil
}
