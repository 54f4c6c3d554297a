// Package follow keeps the trees of a database up to date with a directory that another process
// writes. It changes nothing there and takes no lock.
//
// A state is the tables of a MANIFEST, and of each keyspace the entries of the logs from its
// FirstLog on, as in a recovery. It is whole at a sequence number up to which the logs were read,
// and which is no smaller than the MANIFEST's: compactions of the writer drop what only older
// states need. So the MANIFEST is read first, then the logs, and only then its tables and the
// sequence number replace what was there before, in one step (tree.Switch).
//
//  1. Usually the logs lead on from the last state: their entries come into the memtables that the
//     trees have. When the MANIFEST says that entries are in tables, the memtables of these logs
//     go.
//  2. Where logs were deleted, or have become other ones, before they were read to their ends, the
//     entries are in tables by then: the memtables are made anew, from the logs that the MANIFEST
//     needs. So they are where another MANIFEST was begun.
//
// Whatever vanishes while it is read, a log, a table or a MANIFEST, is obsolete by a newer edit:
// then that is read, and all begins again.
package follow

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/record"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/store"
	"github.com/loamdb/loam/internal/store/files"
	"github.com/loamdb/loam/internal/store/wal"
	"github.com/loamdb/loam/internal/tree"
)

// options is what a Follower needs of its database.
type options struct {
	FS    vfs.FS // the directory is held through it
	Dir   string
	Files *files.Set
	Seqs  *tree.Sequences
	Edits *Edits
	Warn  func(what string, err error)
	store.Followed
}

// Follower keeps a database up to date. It is safe for concurrent use.
type Follower struct {
	o    options
	id   identity      // of the directory
	busy chan struct{} // holds one element, which CatchUp takes

	// Of the goroutine that has busy.
	logs    *logs
	change  *manifest.Change // read and not carried out yet; nil: none
	since   horizon          // not before the logs' end when the MANIFEST was read; see ready
	behind  bool             // the last Poll has edits that Manifest lacks
	loaded  bool             // change has tables of an ingest in LevelDB's format
	tries   int              // left for states without a change of keyspaces, see unmoved
	trees   map[base.KeyspaceID]*tree.Tree
	created map[base.KeyspaceID]func() // starts a new tree and adds it to the keyspaces
	gapAt   gapPlace                   // see gap
	judged  wal.Place                  // see gap
	severed wal.Place                  // see judge
	closed  bool

	report wal.Report // of the first state
	opened bool       // Open has succeeded

	at    atomic.Pointer[standing] // of the visible state
	begun time.Time                // of Open
	// when the last catch-up began that reached the end, in ns since begun
	level  atomic.Int64
	failed atomic.Pointer[error] // of the last catch-up; nil: none

	peek peek
	stop context.CancelFunc // ends the catch-ups in the background; nil: there are none
	done chan struct{}
}

// standing is up to where the logs were read.
type standing struct {
	wal.Place
	format  base.Format
	severed wal.Place // see judge
	durable record.LogEnd
}

// New returns a Follower, for store.Options.
func New() *Follower {
	return &Follower{
		busy: make(chan struct{}, 1), trees: map[base.KeyspaceID]*tree.Tree{},
		created: map[base.KeyspaceID]func(){},
	}
}

// Begin is for store.Follower.
func (f *Follower) Begin(fsys vfs.FS, dir string) (*manifest.State, base.Format, error) {
	f.o.Edits = NewEdits(fsys, dir)
	if _, err := f.o.Edits.Poll(); err != nil {
		return nil, 0, err
	}
	return f.o.Edits.State(), f.o.Edits.Format(), nil
}

// Open is for store.Follower: it reads the present state, and starts the trees.
func (f *Follower) Open(db store.Followed) (wal.Report, error) {
	place := db.Host.Place()
	f.o = options{
		FS: place.FS, Dir: place.Dir, Files: db.Host.Files(), Seqs: db.Host.Sequences(),
		Edits: f.o.Edits, Warn: db.Host.Health().Warn, Followed: db,
	}
	var err error
	if f.id, err = identify(db.Path, place.Dir); err != nil {
		return wal.Report{}, err
	}
	f.begun = time.Now()
	if err := f.first(); err != nil {
		return wal.Report{}, err
	}
	f.busy <- struct{}{}
	f.opened = true
	return f.report, nil
}

// patience is for what vanishes because of a newer edit that cannot be read yet.
type patience struct{ left int }

const (
	maxPatience = 40
	waitFor     = 5 * time.Millisecond
)

// wait is called with the reason for another try. It returns the reason when there have been
// enough, or the context's error.
func (p *patience) wait(ctx context.Context, why error) error {
	if p.left--; p.left < 0 {
		return why
	}
	if p.left >= maxPatience-3 {
		return ctx.Err() // at once
	}
	t := time.NewTimer(waitFor)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// stale is set when the directory is newer than the state read.
type stale struct{ error }

func (s stale) Unwrap() error { return s.error }

// first makes the first states of the trees.
func (f *Follower) first() error {
	p := patience{maxPatience}
	f.tries = maxTries
	for {
		err := f.firstState()
		var again stale
		if err == nil || !errors.As(err, &again) {
			return err
		}
		if err := p.wait(context.Background(), again.error); err != nil {
			return err
		}
		if err := f.poll(); err != nil {
			return err
		}
	}
}

// poll reads on in the MANIFEST.
func (f *Follower) poll() error {
	changed, err := f.o.Edits.Poll()
	if err == nil {
		f.behind = f.behind || changed
	}
	return err
}

func (f *Follower) firstState() error {
	o := &f.o
	st, spaces := o.Edits.State(), o.Edits.spaces()
	if f.behind { // since LoadFollowed
		c, err := o.Manifest.Diff(st)
		if err != nil {
			return err
		}
		f.make(c.Created)
		versions, release := o.Manifest.Follow(c)
		for _, v := range versions {
			v.Unref() // the Set has a reference
		}
		release()
		f.together(func() { f.drop(c.Dropped) })
		f.behind = false
	}
	var tables []*manifest.FileMeta
	for _, k := range o.Manifest.Keyspaces() {
		v := o.Manifest.Current(k.ID)
		for level := range v.Levels {
			tables = append(tables, v.Levels[level].Files...)
		}
		v.Unref()
	}
	if err := f.hold(st, tables); err != nil {
		return err
	}
	o.Files.Placed(tables)
	l, err := f.readAnew(context.Background(), st)
	if err != nil {
		return err
	}
	if l.end {
		err = f.judgeFirst(l)
	}
	if err == nil {
		err = f.unmoved(spaces)
	}
	if err == nil {
		err = f.inForce(l)
	}
	if err != nil {
		l.free()
		return err
	}
	f.logs = l
	o.Seqs.Clock.Raise(st.Clock)
	f.together(func() {
		o.Seqs.Publish(l.whole())
		for _, k := range o.Manifest.Keyspaces() {
			o.Merge(l.spaces[k.ID].tree, k.MergeOperator) // another one, since LoadFollowed
			l.spaces[k.ID].start(o.Manifest.Current(k.ID))
			f.known(k.ID)
		}
	})
	l.resume()
	f.note()
	return nil
}

// make makes the trees of keyspaces that the writer has created.
func (f *Follower) make(created []manifest.Keyspace) {
	for _, k := range created {
		if f.trees[k.ID] == nil {
			f.trees[k.ID], f.created[k.ID] = f.o.Make(k)
		}
		if f.logs != nil && f.logs.spaces[k.ID] == nil {
			f.logs.add(k.ID, f.trees[k.ID], k.FirstLog, nil)
		}
	}
}

// known makes a keyspace known that was created.
func (f *Follower) known(id base.KeyspaceID) {
	if add := f.created[id]; add != nil {
		add()
		delete(f.created, id)
	}
}

// drop takes away the keyspaces that the writer has dropped.
func (f *Follower) drop(ids []base.KeyspaceID) {
	for _, id := range ids {
		f.o.Drop(id)
		delete(f.trees, id)
		if f.logs != nil {
			f.logs.remove(id)
		}
	}
}

// hold opens the files of tables. One that is not there is obsolete.
func (f *Follower) hold(st *manifest.State, tables []*manifest.FileMeta) error {
	err := f.o.Files.Hold(tables, func(num uint64) []base.TableNaming {
		return st.Namings(f.o.Edits.Format(), num)
	})
	if errors.Is(err, fs.ErrNotExist) {
		c := base.Corruptf("manifest", "a table that it lists is missing: %v", err)
		var p *fs.PathError
		if errors.As(err, &p) {
			c.File = filepath.Base(p.Path)
		}
		return stale{c}
	}
	return err
}

var errNoContext = base.Invalidf("no context")

// CatchUp reads to the end of the directory's logs. A state that has been read counts also
// if CatchUp fails later, and the next call goes on from there.
func (f *Follower) CatchUp(ctx context.Context) (err error) {
	if ctx == nil {
		return errNoContext
	}
	select {
	case <-f.busy:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { f.busy <- struct{}{} }()
	if f.closed {
		return base.ErrDatabaseClosed
	}
	defer func() {
		if r := recover(); r != nil {
			err = base.NewPanic(r)
		}
		f.failed.Store(nil)
		if err != nil && ctx.Err() == nil {
			f.failed.Store(&err)
		}
		// After a failure, too: reads have what there is. Not after a CatchUp that ctx ended.
		if err == nil || ctx.Err() == nil {
			f.o.Seqs.Demand.Renew()
		}
		f.o.Moved()
	}()
	err = base.ErrGoexit // unless a return replaces it
	began := time.Since(f.begun)
	if err := f.id.check(f.o.Path, f.o.Dir); err != nil {
		return err
	}
	if err := f.catchUp(ctx); err != nil {
		return err
	}
	f.level.Store(int64(began))
	return nil
}

// sliceBytes is how many bytes of logs are read before they become visible.
const sliceBytes = 4 << 20

func (f *Follower) catchUp(ctx context.Context) error {
	p, again := patience{maxPatience}, 3
	f.tries = maxTries
	var until horizon
	for {
		end, err := f.step(ctx)
		var why stale
		switch {
		case errors.As(err, &why):
			if err := p.wait(ctx, why.error); err != nil {
				return err
			}
			continue
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case !end && (f.change != nil || !until.reached(f.logs)):
			p = patience{maxPatience}
			continue
		}
		if again--; !f.behind || again == 0 {
			return nil
		}
	}
}

// step reads some of the new records, and makes them visible. end says that there is no more.
func (f *Follower) step(ctx context.Context) (end bool, err error) {
	if err := f.poll(); err != nil {
		return false, err
	}
	if f.behind {
		if err := f.prepare(); err != nil {
			return false, err
		}
	}
	spaces := f.o.Edits.spaces()
	if f.change != nil && (f.logs.begun != f.o.Edits.Begun() ||
		f.logs.place.Log < oldestLog(f.change.State)) {
		// A recovery may have carried entries into its first log, which are in memtables of older
		// logs here. And what is in tables need not be read in logs.
		return f.rebuild(ctx, spaces)
	}
	end, err = f.readOn(ctx, f.logs)
	var g gap
	if errors.As(err, &g) && f.change == nil {
		end, err = f.gap(f.logs, g)
	}
	switch {
	case errors.As(err, &g):
		return f.rebuild(ctx, spaces)
	case err != nil:
		return false, err
	case f.change != nil && !f.ready(f.logs, f.change.State.LastSeq):
		if end && f.logs.seq < f.change.State.LastSeq {
			return f.rebuild(ctx, spaces)
		}
		return end, nil
	}
	if err := f.unmoved(spaces); err != nil {
		return false, err
	}
	if f.change == nil {
		f.publish()
	} else {
		f.install(f.logs)
	}
	return end, nil
}

// ready reports whether what was read of the logs, up to least, is a state of the writer together
// with f.change, or the first state if that is nil. An edit that creates or drops a keyspace is no
// flush, nor is that of an ingest in LevelDB's format: its last sequence number leaves out batches
// that come before it. All that the logs have when the MANIFEST is read comes before it here.
func (f *Follower) ready(l *logs, least base.SeqNum) bool {
	c := f.change
	same := c != nil && len(c.Created)+len(c.Dropped) == 0 && !f.loaded
	return l.seq >= least && (same || l.end || f.since.reached(l))
}

// prepare makes the Change that leads to what Edits has read, and opens its tables.
func (f *Follower) prepare() error {
	st := f.o.Edits.State()
	c, err := f.o.Manifest.Diff(st)
	if err != nil {
		return err
	}
	if err := f.hold(st, c.Added); err != nil {
		return err
	}
	if f.change != nil { // not carried out
		f.forget(f.change, c)
	}
	f.change, f.since, f.behind = c, horizon{}, false
	f.loaded = f.o.Edits.takeLoaded() || f.loaded
	f.make(c.Created)
	f.logs.known = max(f.logs.known, st.MaxKeyspace)
	return nil
}

// forget closes the tables of a Change that another one has not.
func (f *Follower) forget(old, next *manifest.Change) {
	keep, logs := map[uint64]bool{}, map[base.ValueFile]bool{}
	for _, m := range next.Added {
		keep[m.Num] = true
		for _, l := range m.ValueLogs {
			logs[l.File()] = true
		}
	}
	for _, m := range old.Added {
		if !keep[m.Num] {
			f.o.Files.Forget(m.Num)
		}
		for _, l := range m.ValueLogs {
			if !logs[l.File()] {
				f.o.Files.GiveUp(l.File())
			}
		}
	}
}

// rebuild makes the memtables anew, where the logs do not lead from the last state to the next.
func (f *Follower) rebuild(ctx context.Context, then spaces) (end bool, err error) {
	next, err := f.readAnew(ctx, f.change.State)
	if err != nil {
		return false, err
	}
	if err = f.unmoved(then); err == nil {
		err = f.inForce(next)
	}
	if err != nil {
		next.free()
		return false, err
	}
	if next.whole() < f.o.Seqs.Visible() {
		next.free()
		return false, fmt.Errorf("%w: it has sequence numbers up to %d, and had %d",
			base.ErrDirectoryChanged, next.whole(), f.o.Seqs.Visible())
	}
	old := f.logs
	f.install(next)
	f.logs = next
	old.free()
	return next.end, nil
}

// publish makes what was read of the logs visible.
func (f *Follower) publish() {
	var nexts []tree.Next
	for _, s := range f.logs.spaces {
		if s.changed() && f.created[s.tree.ID()] == nil {
			nexts = append(nexts, tree.Next{Tree: s.tree, Tables: s.NewestFirst()})
			s.shown = s.Newest()
		}
	}
	noteExpiring(f.logs)
	tree.Switch(f.o.Seqs, nexts, f.logs.whole())
	if f.logs.paused {
		f.logs.resume()
	}
	f.note()
}

// noteExpiring tells trees of the first values in their memtables that expire, before reads see
// them. Switch does so for those whose memtables or tables are others than before.
func noteExpiring(l *logs) {
	for _, s := range l.spaces {
		if !s.tree.Expires() && s.Newest().Mem.HasExpiring() {
			s.tree.NoteExpiring()
		}
	}
}

// install makes f.change visible together with the log records read so far.
func (f *Follower) install(l *logs) {
	o, c := &f.o, f.change
	versions, release := o.Manifest.Follow(c)
	o.Files.Placed(c.Added)
	f.change, f.loaded = nil, false
	o.Seqs.Clock.Raise(c.State.Clock)
	f.together(func() {
		var nexts []tree.Next
		for _, k := range c.State.Keyspaces() {
			s := l.spaces[k.ID]
			s.drop(l.firstLog(c.State, k))
			changed := o.Merge(s.tree, k.MergeOperator) || s.changed()
			v := versions[k.ID]
			if f.created[k.ID] != nil {
				// Without tables, which may have entries without sequence numbers: to the snapshots
				// that are open now, which Switch pins to this state, the keyspace is empty.
				s.start(manifest.NoTables())
			}
			if v != nil || changed || l != f.logs {
				nexts = append(nexts,
					tree.Next{Tree: s.tree, Tables: s.NewestFirst(), Version: v})
			}
			s.shown = s.Newest()
		}
		l.covered = max(l.covered, c.State.LastSeq)
		noteExpiring(l)
		tree.Switch(o.Seqs, nexts, l.whole())
		f.logs = l
		f.drop(c.Dropped) // first: a new one may have the name
		for _, k := range c.Created {
			f.known(k.ID)
		}
	})
	l.resume()
	release()
	f.note()
}

// together calls g, which changes the visible sequence number and the keyspaces. A read that sees
// the one finds the other: it looks keyspaces up after g.
func (f *Follower) together(g func()) {
	_ = f.o.Host.Keyspaces().Keep(func() error { g(); return nil })
}

// Still calls g between two states: the visible sequence number and the keyspaces belong together
// meanwhile.
func (f *Follower) Still(g func()) {
	<-f.busy
	defer func() { f.busy <- struct{}{} }()
	g()
}

// Format is that of the logs of the visible state.
func (f *Follower) Format() base.Format { return f.at.Load().format }

// Synced is how many bytes of a log the MANIFEST of the visible state calls durable.
func (f *Follower) Synced(log uint64) int64 {
	if d := f.at.Load().durable; d.Num == log {
		return d.End
	}
	return 0
}

// Lost is base.ErrDirectoryChanged if the last catch-up failed with that, else nil.
func (f *Follower) Lost() error {
	if err := f.failed.Load(); err != nil && errors.Is(*err, base.ErrDirectoryChanged) {
		return *err
	}
	return nil
}

// note tells Lag where the visible state stands.
func (f *Follower) note() {
	f.at.Store(&standing{f.logs.place, f.logs.format, f.severed, f.o.Edits.state.Durable})
	f.o.Moved()
}

// Close ends the catch-ups, and gives back what they hold. The trees are closed by their database.
func (f *Follower) Close() {
	if !f.opened {
		if f.o.Edits != nil {
			_ = f.o.Edits.Close() // the failure of the opening is the one to report
		}
		return
	}
	f.o.Seqs.Demand.End()
	if f.stop != nil {
		f.stop()
		<-f.done
	}
	<-f.busy
	defer func() { f.busy <- struct{}{} }() // also when the file system panics
	if !f.closed {
		f.closed = true
		defer f.peek.close()
		defer func() { _ = f.o.Edits.Close() }() // of a file that was read: nothing is lost
		f.logs.free()
	}
}
