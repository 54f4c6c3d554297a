package manifest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/current"
	"github.com/loamdb/loam/internal/format/record"
)

// Apply writes an edit to the MANIFEST, makes it durable and installs the
// Version of the keyspace that it leads to, which is returned with a reference for
// the caller. CreateKeyspace and DropKeyspace are edits of their own.
// e is not changed; unset logs, numbers and sequence are filled in. A table that moves keeps the
// FileMeta that it has.
//
// A keyspace that was dropped meanwhile is base.ErrNoKeyspace; nothing is written then.
// After a shortage (base.IsShortage) the call may be made again: it begins a new
// MANIFEST first. After any other failure but base.ErrInvalidArgument, and after
// one of a sync, every later call fails with that cause (StartManifest can lift
// it). In both cases the edit may or may not be in the MANIFEST: the tables that
// it adds and those that it deletes must both be left in place, after a shortage
// until Apply or Mend has succeeded.
func (s *Set) Apply(e *Edit) (*Version, error) {
	var old *Version
	defer unref(&old)
	s.mu.Lock()
	defer s.mu.Unlock()
	k, full, next, err := s.prepare(e)
	if err != nil {
		return nil, err
	}
	if err := s.write(full); err != nil {
		return nil, err
	}
	old = s.install(k, full, next)
	return next, nil
}

// prepare checks and completes an edit, and derives the Version that it leads to. s.mu is held.
func (s *Set) prepare(e *Edit) (*keyspace, *Edit, *Version, error) {
	if err := s.writable(); err != nil {
		return nil, nil, nil, err
	}
	k, full, err := s.complete(e)
	if err != nil {
		return nil, nil, nil, err
	}
	next, err := s.derive(k, full)
	if err != nil {
		return nil, nil, nil, s.poison(err)
	}
	return k, full, next, nil
}

// unref gives back a reference, if there is one. It may call Options.Obsolete, so it is deferred
// before s.mu is locked.
func unref(old **Version) {
	if *old != nil {
		(*old).Unref()
	}
}

// write appends an edit to the MANIFEST and makes it durable. s.mu is held.
func (s *Set) write(full *Edit) (err error) {
	defer func() {
		if r := recover(); r != nil { // of the file system: a part of the edit may be written
			err = s.poison(base.NewPanic(r))
		}
	}()
	if s.log == nil || s.broken != nil || s.log.Size() > s.limit {
		if err := s.startManifest(); err != nil {
			return s.fail(err)
		}
	} else if s.spans {
		if err := s.sync(); err != nil {
			return err
		}
	}
	s.spans = false
	s.buf = full.Encode(s.buf[:0], s.format)
	if err := s.log.Append(s.buf); err != nil {
		return s.fail(s.writeError(err))
	}
	if err := s.sync(); err != nil {
		return err
	}
	s.keepBuf()
	if s.leavesNoTrace(full) {
		s.vouch()
	}
	return nil
}

// sync makes the edits durable. s.mu is held.
func (s *Set) sync() error {
	if err := s.log.Sync(); err != nil {
		return s.poison(s.writeError(fmt.Errorf("%w: %w", current.ErrUnsynced, err)))
	}
	return nil
}

// leavesNoTrace reports whether no file tells that an edit was made, before it is installed: a
// flush makes logs obsolete and a compaction deletes tables, but an ingest adds tables whose
// entries are in no log.
func (s *Set) leavesNoTrace(e *Edit) bool {
	adds := len(e.Added) > 0 && len(e.Deleted) == 0 && e.LogNum == s.logNum.Load()
	return adds || e.NewKeyspace != nil || e.DropKeyspace || e.MergeOperator != ""
}

// vouch appends an edit without a sync; its loss is harmless: what comes before it is
// damaged, not torn, if it cannot be read. Other edits do without, see leavesNoTrace. If the append
// fails, the next edit begins a new MANIFEST. s.mu is held.
//
// Where it reaches into another page of the file, it is synced before the next edit: a power cut
// may keep that page, with the next edit, and lose the one before it, which would be damage.
func (s *Set) vouch() {
	var e Edit
	s.fill(&e)
	begin := s.log.Size()
	s.broken = s.log.Append(e.Encode(s.buf[:0], s.format))
	s.spans = begin/pageSize != s.log.Size()/pageSize
}

// pageSize is how many bytes of a file a power cut keeps or loses together.
const pageSize = 4096

// Stage installs the Version that an edit leads to and writes nothing: all staged
// edits become durable together, with StartManifest. It is only for a Set that
// has not started a MANIFEST.
func (s *Set) Stage(e *Edit) error {
	var old *Version
	defer unref(&old)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.log != nil && s.writable() == nil {
		return base.Invalidf("the MANIFEST has been started")
	}
	k, full, next, err := s.prepare(e)
	if err == nil {
		old = s.install(k, full, next)
		next.Unref() // the caller's reference; the Set has its own
	}
	return err
}

func (s *Set) writable() error {
	if s.readOnly {
		return base.ErrReadOnly
	}
	return s.err
}

func (s *Set) writeError(err error) error {
	return fmt.Errorf("writing %s: %w", s.format.FileName(base.FileManifest, s.num), err)
}

// complete finds the keyspace of e, and returns a copy of e with everything filled
// in that LevelDB writes into each edit. s.mu is held.
func (s *Set) complete(e *Edit) (*keyspace, *Edit, error) {
	k, err := s.check(e)
	if err != nil {
		return nil, nil, err
	}
	full := *e
	for _, a := range e.Added {
		s.MarkFileNumUsed(a.Meta.Num)
	}
	s.fill(&full)
	return k, &full, nil
}

// check refuses malformed edits, and finds the keyspace of e. s.mu is held.
func (s *Set) check(e *Edit) (*keyspace, error) {
	for _, d := range e.Deleted {
		if uint(d.Level) >= NumLevels {
			return nil, base.Invalidf("level %d", d.Level)
		}
	}
	for _, a := range e.Added {
		if uint(a.Level) >= NumLevels || a.Meta == nil {
			return nil, base.Invalidf("table in level %d", a.Level)
		}
	}
	for _, c := range e.CompactPointers {
		if uint(c.Level) >= NumLevels {
			return nil, base.Invalidf("level %d", c.Level)
		}
	}
	if e.HasComparer && e.Comparer != s.opts.Comparer.Name {
		return nil, base.Invalidf("comparer %q", e.Comparer)
	}
	if e.HasLogNum && e.LogNum < s.logNum.Load() {
		return nil, base.Invalidf("log number goes back from %d to %d", s.logNum.Load(), e.LogNum)
	}
	return s.checkKeyspace(e)
}

// fill adds to an edit what LevelDB writes into each. s.mu is held.
func (s *Set) fill(full *Edit) {
	e := *full
	if !e.HasLogNum {
		full.SetLogNum(s.logNum.Load())
	}
	if !e.HasPrevLogNum {
		full.SetPrevLogNum(s.prevLogNum.Load())
	}
	s.MarkFileNumUsed(full.LogNum)
	if e.HasNextFile {
		raise(&s.nextFile, e.NextFile)
	}
	if e.HasLastSeq {
		s.SetLastSeq(e.LastSeq)
	}
	if s.format == base.Native && s.opts.Durable != nil {
		full.Durable = s.opts.Durable()
	}
	if s.format == base.Native {
		full.Clock = s.clockNow()
	}
	full.SetNextFile(s.nextFile.Load())
	full.SetLastSeq(s.LastSeq())
}

// derive checks e against the current version of k and returns the next one, not
// yet installed.
func (s *Set) derive(k *keyspace, e *Edit) (*Version, error) {
	if err := checkEdit(e, func(num uint64) (int, bool) {
		f, ok := k.placed[num]
		return f.Level, ok
	}); err != nil {
		return nil, err
	}
	var removed, added [NumLevels][]*FileMeta
	moved := make(map[uint64]*FileMeta)
	for _, d := range e.Deleted {
		f := k.placed[d.Num].Meta
		removed[d.Level] = append(removed[d.Level], f)
		moved[d.Num] = f
	}
	s.versions.Lock()
	cur := k.current
	for _, a := range e.Added {
		// A number that is in use can only be that of a table that moves.
		if have := s.versions.live[a.Meta.Num]; have != nil &&
			(have != a.Meta || moved[a.Meta.Num] != have) {
			s.versions.Unlock()
			return nil, base.Corruptf(kindManifest, "%v is added, but %v is in use", a.Meta, have)
		}
		added[a.Level] = append(added[a.Level], a.Meta)
	}
	s.versions.Unlock()
	// cur stays: only Apply, under s.mu, replaces and releases it.
	return cur.derive(k.cmp, removed, added)
}

// install makes next current in k, with a reference more for Apply's caller, and
// returns the version that it replaces, whose reference is now the caller's.
func (s *Set) install(k *keyspace, e *Edit, next *Version) *Version {
	dropped := make(map[uint64]*FileMeta, len(e.Deleted))
	for _, d := range e.Deleted {
		dropped[d.Num] = k.placed[d.Num].Meta
		delete(k.placed, d.Num)
	}
	k.place(e)
	s.logNum.Store(e.LogNum)
	s.prevLogNum.Store(e.PrevLogNum)

	next.refs.Store(2)
	next.set = s
	s.versions.Lock()
	defer s.versions.Unlock()
	old := k.current
	next.id, next.prev, old.next = old.id+1, old, next
	k.current = next
	for _, a := range e.Added {
		if _, moves := dropped[a.Meta.Num]; moves {
			delete(dropped, a.Meta.Num)
			continue
		}
		a.Meta.born = next.id
		s.versions.live[a.Meta.Num] = a.Meta
		s.versions.values.add(a.Meta, s.readOnly) // a follower needs no log for more
	}
	for _, d := range e.Deleted {
		if f := dropped[d.Num]; f != nil {
			old.dropped = append(old.dropped, f)
		}
	}
	return old
}

// NoteDurable writes to a native MANIFEST what Options.Durable and Options.Clock say, without a
// sync: nothing is lost with it, and it is left out behind an edit that needs one, see vouch. Only
// Close may follow.
func (s *Set) NoteDurable() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.log != nil && s.format == base.Native && s.broken == nil && !s.spans &&
		s.writable() == nil {
		s.vouch()
	}
}

// clockNow is the newest time by which entries had expired.
func (s *Set) clockNow() uint64 {
	if s.opts.Clock == nil {
		return s.clock
	}
	return max(s.clock, s.opts.Clock())
}

// keepBuf drops the encoding buffer after an unusually large edit.
func (s *Set) keepBuf() {
	if cap(s.buf) > 1<<20 {
		s.buf = nil
	}
}

// Mend begins a new MANIFEST if the last edit failed for a shortage. After Mend that
// edit is not in the MANIFEST in force.
func (s *Set) Mend() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.writable(); err != nil || s.broken == nil {
		return err
	}
	if err := s.startManifest(); err != nil {
		return s.fail(err)
	}
	return nil
}

// StartManifest begins a new MANIFEST with a snapshot of the current version
// and makes CURRENT name it. It is also the way out of a failed write: when it
// succeeds on a Set that is poisoned by an error of the file system, the Set
// can be written again and stands where it stood before the failed edit.
// beside are calls that make durable what the snapshot says: all end before CURRENT
// names it.
func (s *Set) StartManifest(beside ...func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.writable(); err != nil && (s.readOnly || !liftable(err)) {
		return err
	}
	if err := s.startManifest(beside...); err != nil {
		return s.fail(err)
	}
	s.err = nil
	return nil
}

// liftable says whether a new MANIFEST cures the error.
func liftable(err error) bool {
	return !errors.Is(err, base.ErrClosed) && !errors.Is(err, base.ErrCorruption)
}

// startManifest does the work of StartManifest. Five things become durable before the new MANIFEST
// is in force, which is one rename: what beside syncs, because the snapshot relies on it; the
// MANIFEST's contents and its name, and the file that names it, because a power cut could keep the
// rename and lose them. Among these five there is no order, as nothing reads them before the
// rename. Only when the rename is durable, too, may the old MANIFEST go, and the files that it
// names.
func (s *Set) startManifest(beside ...func() error) error {
	num := s.NewFileNum()
	name := s.format.FileName(base.FileManifest, num)
	edits := s.snapshot()
	log, err := s.opts.FS.CreateLog(s.path(name), 0)
	if err != nil {
		return fmt.Errorf("creating %s: %w", name, err)
	}
	w := record.NewWriter(log)
	for i := 0; i < len(edits) && err == nil; i++ {
		s.buf = edits[i].Encode(s.buf[:0], s.format)
		err = w.Append(s.buf)
	}
	undo := func() error { return errors.Join(w.Close(), s.opts.FS.Remove(s.path(name))) }
	if err != nil {
		// CURRENT does not name the new file, so it may be removed or stay.
		return errors.Join(fmt.Errorf("writing %s: %w", name, err), undo())
	}
	next, err := current.Begin(s.opts.FS, s.opts.Dir, s.format, num)
	if err != nil {
		return errors.Join(err, undo())
	}
	if err := s.syncAll(name, w, next.Syncs(), beside); err != nil {
		return errors.Join(err, undo(), next.Discard())
	}
	if renamed, err := next.Commit(); err != nil {
		err = errors.Join(err, w.Close())
		if renamed {
			s.obsolete = append(s.obsolete, name) // once another one is in force
			return err
		}
		return errors.Join(err, s.opts.FS.Remove(s.path(name)))
	}
	if s.log != nil {
		// Nothing depends on the old file any more, not even its errors.
		_ = s.log.Close()
		s.obsolete = append(s.obsolete, s.format.FileName(base.FileManifest, s.num))
	}
	s.log, s.num, s.broken, s.found = w, num, nil, s.format
	s.limit = max(s.opts.MaxManifestSize, 2*w.Size())
	s.manifest.Store(num)
	s.keepBuf()
	return nil
}

// syncAll makes the new MANIFEST name durable, and its name, and makes more calls that need no
// order: those of the change of CURRENT, and what goes beside. Two are made at a time, because a
// third thread starts others, and glibc reserves 64 MiB of addresses for each that does.
//
// The new files come first. A journaling file system (ext4) commits the creation of both with one
// write of its journal, the names in the directory too; the sync of the directory then has nothing
// to wait for. With the directory's in the place of the second file's there are two such writes.
func (s *Set) syncAll(name string, w *record.Writer, pointer, beside []func() error) error {
	calls := []func() error{w.Sync, func() error { return s.opts.FS.SyncDir(s.opts.Dir) }}
	for i, call := range calls {
		calls[i] = func() error {
			if err := call(); err != nil {
				return fmt.Errorf("writing %s: %w", name, err)
			}
			return nil
		}
	}
	calls = slices.Concat(calls[:1], pointer, calls[1:], beside)
	errs := make([]error, len(calls)+1)
	var next atomic.Int64
	work := func() {
		for i := next.Add(1) - 1; int(i) < len(calls); i = next.Add(1) - 1 {
			if errs[i] = calls[i](); errs[i] != nil {
				return
			}
		}
	}
	var wg sync.WaitGroup
	if s.opts.SideBySide {
		wg.Go(func() {
			defer base.CatchPanic(&errs[len(calls)])
			work()
		})
	}
	work()
	wg.Wait()
	return errors.Join(errs...)
}
