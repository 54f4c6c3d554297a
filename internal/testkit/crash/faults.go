package crash

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/fstest"
	"github.com/loamdb/loam/internal/testkit/hang"
	"github.com/loamdb/loam/lsm"
)

// fault is a way in which file-system calls fail.
type fault struct {
	name    string
	err     error
	short   bool // a part is written first
	stuck   bool // the log cannot be cut back either
	hits    func(vfs.OpKind) bool
	forever bool
}

func writes(k vfs.OpKind) bool {
	switch k {
	case vfs.OpCreate, vfs.OpCreateLog, vfs.OpWrite, vfs.OpAppend, vfs.OpMkdir, vfs.OpSync:
		return true
	}
	return false
}

func reads(k vfs.OpKind) bool {
	switch k {
	case vfs.OpOpen, vfs.OpRead, vfs.OpList, vfs.OpStat:
		return true
	}
	return false
}

func opens(k vfs.OpKind) bool {
	switch k {
	case vfs.OpCreate, vfs.OpCreateLog, vfs.OpOpen, vfs.OpSyncDir, vfs.OpList:
		return true
	}
	return false
}

func pieces(k vfs.OpKind) bool { return k == vfs.OpWrite || k == vfs.OpAppend }

func faults() []fault {
	var out []fault
	for _, forever := range []bool{false, true} {
		out = append(out,
			fault{name: "EIO", err: syscall.EIO, hits: func(k vfs.OpKind) bool {
				return !reads(k)
			}, forever: forever},
			fault{name: "ENOSPC", err: syscall.ENOSPC, hits: writes, forever: forever},
			fault{name: "short write", err: syscall.ENOSPC, short: true, hits: pieces,
				forever: forever},
			fault{name: "short write that stays", err: syscall.ENOSPC, short: true, stuck: true,
				hits: pieces, forever: forever},
			fault{name: "EMFILE", err: syscall.EMFILE, hits: opens, forever: forever},
			fault{name: "EIO on read", err: syscall.EIO, hits: reads, forever: forever})
	}
	return out
}

func (f fault) String() string {
	if f.forever {
		return f.name + " for ever"
	}
	return f.name + " once"
}

// shortage reports whether the fault is one that passes.
func (f fault) shortage() bool { return base.IsShortage(f.err) }

// trial is one run of a workload with a fault at one call.
type trial struct {
	w     *workload
	f     fault
	at    int64 // which of the calls that the fault can hit, from 1
	seed  int64
	calls atomic.Int64
	said  atomic.Int64 // errors that came out in events or messages
	loud  bool         // an operation returned an error

	mu      sync.Mutex
	hit     *vfs.Op  // the first call that failed
	callers []string // of the first failed call, then of the first that is not early
	// all that failed were for logs made, or tables opened, ahead of time, vouched for a durable
	// edit, or spared a checkpoint the copy of a log
	early    bool
	repeated bool // all that failed were such calls, or ones that files.MakeRoom makes again
	log      bool // a log failed for good
	appended bool // of these, at an append or at the cut after it
	other    bool // the manifest, or a sync, failed
	free     bool // nothing fails for now
	healed   bool // free was set at some time
	session  *session
	dead     *lsm.DB // whose log failed
	broken   error
	last     error        // of the last failed write
	okay     map[int]bool // acknowledged batches
	bad      map[int]bool // batches whose write failed
	limbo    map[int]bool // of these, batches that may be in the log all the same
	durable  int          // newest batch acknowledged with sync
}

// hook counts calls and makes the right one, or all from there on, fail.
func (t *trial) hook(op vfs.Op) vfs.Outcome {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.free {
		return vfs.Outcome{}
	}
	isLog := fstest.TypeOf(op.Name) == base.FileLog
	if op.Kind == vfs.OpTruncate && t.f.stuck {
		t.log, t.appended = t.log || isLog, t.appended || isLog
		return vfs.Outcome{Err: syscall.EIO}
	}
	if !t.f.hits(op.Kind) {
		return vfs.Outcome{}
	}
	n := t.calls.Add(1)
	if n < t.at || n > t.at && !t.f.forever {
		return vfs.Outcome{}
	}
	from := callers()
	first := t.hit == nil
	early := slices.ContainsFunc(from,
		func(name string) bool { return slices.Contains(aheadOfTime, name) })
	if first || t.early && !early {
		t.callers = from
	}
	if first {
		t.hit = &op
	}
	t.early = (t.early || first) && early
	again := errors.Is(t.f.err, syscall.EMFILE) && slices.Contains(from, "files.(*pool).retry")
	t.repeated = (t.repeated || first) && (early || again)
	if isLog && (op.Kind == vfs.OpSync || op.Kind == vfs.OpAppend && !t.f.shortage()) {
		t.log, t.appended = true, t.appended || op.Kind == vfs.OpAppend
	}
	if op.Kind == vfs.OpSync || fstest.TypeOf(op.Name) == base.FileManifest ||
		fstest.TypeOf(op.Name) == base.FileTemp {
		t.other = true
	}
	out := vfs.Outcome{Err: t.f.err}
	if t.f.short {
		out.Short = int(op.N / 2)
	}
	return out
}

// Enabled, Handle, WithAttrs and WithGroup make the trial a slog.Handler that
// counts warnings.
func (t *trial) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }

// Handle counts a message.
func (t *trial) Handle(context.Context, slog.Record) error { t.said.Add(1); return nil }

// WithAttrs returns t.
func (t *trial) WithAttrs([]slog.Attr) slog.Handler { return t }

// WithGroup returns t.
func (t *trial) WithGroup(string) slog.Handler { return t }

// run executes the workload as far as it gets and checks what is left.
// done says that the fault's call was never reached.
func (t *trial) run() (done bool, err error) {
	mem := vfs.NewMem()
	t.okay, t.bad, t.limbo = map[int]bool{}, map[int]bool{}, map[int]bool{}
	s := newSession(t.w, t.seed, vfs.NewFault(mem, t.hook), true)
	t.session = s
	s.opts.Logger = slog.New(t)
	s.opts.Events = &lsm.EventListener{
		BackgroundError: func(error) { t.said.Add(1) },
		ReadOnly:        func(error) { t.said.Add(1) },
	}
	s.failed = t.failed
	s.acked = t.acked
	s.closing = t.heals
	err = hang.InTime(func() error {
		err := t.w.run(s)
		if errors.Is(err, errNoDatabase) {
			err = nil
		}
		if s.db != nil {
			s.db.Close()
		}
		return errors.Join(err, t.broken)
	})
	if t.hit == nil {
		return true, err
	}
	if err == nil {
		err = t.verify(mem)
	}
	if err != nil {
		return false, fmt.Errorf("seed %d, workload %s, %v at call %d, %v: %w", t.seed, t.w.name,
			t.f, t.at, *t.hit, err)
	}
	return false, nil
}

// failed takes an operation's error. A failed write must not be visible.
func (t *trial) failed(op string, batch int, err error) error {
	t.loud = true
	if strings.Contains(err.Error(), "panic") {
		t.broken = err
	}
	if t.w.failed != nil {
		t.w.failed(t, op, batch, err)
	}
	if op != "write" {
		if db := t.session.db; db != nil && t.f.shortage() {
			_ = db.Resume() // the next try need not wait
		}
		return nil
	}
	t.bad[batch], t.last = true, err
	readOnly := errors.Is(err, lsm.ErrReadOnly)
	appended, log := t.logHit()
	if (appended || t.dead == t.session.db) && !readOnly {
		t.broken = fmt.Errorf("a write after the log had failed gave %w, not ErrReadOnly", err)
	}
	if log && t.dead != t.session.db {
		t.limbo[batch] = true
		if readOnly { // a log that fails in the background may not have told yet
			t.dead = t.session.db
			t.mu.Lock()
			t.appended = false
			t.mu.Unlock()
		}
	}
	if t.f.forever && t.f.name == "EIO on read" {
		return nil
	}
	if t.f.shortage() && !base.IsShortage(err) {
		t.broken = fmt.Errorf("batch %d failed for %v, but with %w", batch, t.f, err)
	}
	if v, getErr := t.session.db.Has([]byte(fmt.Sprintf("n%06d", batch))); getErr == nil && v {
		t.broken = fmt.Errorf("batch %d was reported failed (%w) and is visible", batch, err)
	}
	return nil
}

func (t *trial) acked(batch int, sync bool) {
	t.okay[batch] = true
	if sync {
		t.durable = batch
	}
	if t.dead != nil && t.dead == t.session.db {
		t.broken = fmt.Errorf("batch %d was acknowledged after the log had failed", batch)
	}
}

// heals wants a database that met nothing but a shortage to work again, without
// being reopened, when that is over. Then the shortage goes on.
func (t *trial) heals() error {
	t.mu.Lock()
	met := t.hit != nil && t.f.shortage() && !t.log && !t.other
	t.free, t.healed = met, t.healed || met
	t.mu.Unlock()
	if !met {
		return nil
	}
	s := t.session
	if err := s.db.Resume(); err != nil {
		return fmt.Errorf("resume after %v: %w", t.f, err)
	}
	before := len(t.bad)
	if err := s.write(2, 2); err != nil || len(t.bad) != before {
		return fmt.Errorf("writing after %v is over fails: %w", t.f, errors.Join(err, t.last))
	}
	if err := s.db.Flush(); err != nil {
		return fmt.Errorf("flushing after %v is over: %w", t.f, err)
	}
	t.mu.Lock()
	t.free = false
	t.mu.Unlock()
	return nil
}

// logHit reports whether a log has failed for good, and whether that was while
// a write was being appended to it.
func (t *trial) logHit() (appended, ever bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.appended, t.log
}

// callers are the functions that the caller's caller is called from, without the directories of
// their packages.
func callers() (names []string) {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		names = append(names, path.Base(f.Function))
	}
	return names
}

// aheadOfTime are the functions whose failed calls are made good without a word, see harmless.
var aheadOfTime = []string{
	"wal.(*Set).Prepare", "wal.(*Set).reuse", "wal.(*Set).KeepObsolete", "wal.(*Set).Installed",
	"work.(*Scheduler).openDense", "work.(*Scheduler).splitKeys", "manifest.(*Set).vouch",
	"store.Logs.Parts", "backup.(*Folder).known", "backup.(*Folder).shareLocked",
	"backup.(*Stage).discard", "files.(*Set).ObsoleteLog", "files.(*Set).readNeighbours",
	"directio.Durable", "store.(*DB).NewTable",
}

// harmless reports whether nobody needs to hear of the failed call: what is closed was synced
// before, or only read; a log that could not be made ready ahead of time is made when it is needed,
// a table opened; an obsolete log that cannot be the next one is followed by a new one; a MANIFEST
// whose end was torn is replaced by the next edit; a log that a checkpoint cannot end is copied,
// and so is a table that an earlier backup seems not to have; a retained log whose age is unknown
// is kept for the next opening; what an ingest writes into the log comes with the next record; the
// empty directory of a failed restore is removed by the next one of the name; the size of an
// obsolete log only slows writers while it waits for its deletion; a value that cannot be read
// ahead is read again when it is needed; what is not read in place is read by a call; values of a
// log that cannot be synced or compared with the disk are copied; a number of a new table under
// which there may be a file is passed over; and an open for which idle descriptors were closed is
// made again, which a shortage that is over lets succeed.
func (t *trial) harmless() bool {
	return t.hit.Kind == vfs.OpClose || t.hit.Kind == vfs.OpMap || t.hit.Kind == vfs.OpTouch ||
		t.early || t.repeated && (!t.f.forever || t.healed)
}

// verify reopens without faults, as the files are and after a power cut.
func (t *trial) verify(mem *vfs.Mem) error {
	if !t.loud && t.said.Load() == 0 && !t.harmless() {
		return fmt.Errorf("the failure showed nowhere; called from %s",
			strings.Join(t.callers, ", "))
	}
	// The batch whose append or sync failed may turn up after a reopening.
	may := func(i int) bool { return t.okay[i] || t.limbo[i] }
	cut := mem.CrashClone(vfs.DropAll())
	if err := t.verifyCopies(mem); err != nil {
		return err
	}
	if t.w.verify != nil {
		if err := t.w.verify(t, mem); err != nil {
			return err
		}
	}
	if err := t.verifyBackups(mem); err != nil {
		return err
	}
	if err := t.verifyChanges(mem); err != nil {
		return err
	}
	if err := t.reopen(mem, func(i int) bool { return t.okay[i] }, may); err != nil {
		return fmt.Errorf("reopened: %w", err)
	}
	if err := t.reopen(cut, func(i int) bool {
		return t.okay[i] && i <= t.durable
	}, may); err != nil {
		return fmt.Errorf("after a power cut: %w", err)
	}
	return nil
}

func (t *trial) reopen(fs vfs.FS, must, may func(int) bool) error {
	return t.reopenIn(dir, fs, must, may)
}

func (t *trial) reopenIn(dir string, fs vfs.FS, must, may func(int) bool) error {
	s := t.session
	o := options()
	s.trees.enable(&o)
	o.FS = fs
	db, err := lsm.Open(dir, &o)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := s.ledger.CheckSparse(db, s.last, must, may); err != nil {
		return err
	}
	has, err := s.ledger.Present(db, s.last)
	if err != nil {
		return err
	}
	d := drops{ended: int(s.dropsEnded.Load()), begun: int(s.dropsBegun.Load())}
	if err := s.trees.check(db, s.last, has, d); err != nil {
		return err
	}
	return db.Close()
}

// Faults fails every call of the given workloads in every way, once and for
// ever, and returns how many trials that was. stride > 1 takes only every
// stride-th call; the seed says from which on.
func Faults(seed int64, names []string, stride int) (int64, error) {
	type job struct {
		w *workload
		f fault
	}
	jobs := make(chan job)
	var trials atomic.Int64
	var mu sync.Mutex
	var first error
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for j := range jobs {
				for at := 1 + seed%int64(stride); ; at += int64(stride) {
					done, err := (&trial{w: j.w, f: j.f, at: at, seed: seed}).run()
					trials.Add(1)
					mu.Lock()
					first = errors.Join(first, err)
					stop := first != nil
					mu.Unlock()
					if done || stop {
						break
					}
				}
			}
		})
	}
	for _, name := range names {
		w := find(name)
		if w == nil {
			mu.Lock()
			first = errors.Join(first, fmt.Errorf("no workload %q", name))
			mu.Unlock()
			break
		}
		for _, f := range faults() {
			jobs <- job{w, f}
		}
	}
	close(jobs)
	wg.Wait()
	return trials.Load(), first
}
