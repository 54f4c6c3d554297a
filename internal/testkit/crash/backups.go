package crash

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/backup"
)

// backupsDir is the folder of backups.
const backupsDir = "backups"

// backedUp is a backup of a session's database.
type backedUp struct {
	ended   bool   // and succeeded
	id      uint64 // once it has ended
	lo, hi  int    // batches that must be in it, that may be; hi counts once it has ended
	drops   drops
	deleted bool // a deletion has begun
}

// restored is a database that was restored.
type restored struct {
	dir   string
	ended bool
	of    backedUp
}

// backups are the backups of a session, in the order of their numbers.
type backups struct {
	folder *backup.Folder // used by the workload alone

	mu       sync.Mutex
	list     []backedUp
	restores []restored
}

// all lists the backups and the restores that have begun.
func (b *backups) all() ([]backedUp, []restored) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.list), slices.Clone(b.restores)
}

// backupsAt completes the expected backups in a state for which before was taken first, and p
// later.
func (p *progress) backupsAt(before []backedUp,
	restoresBefore []restored) ([]backedUp, []restored) {
	after, restores := p.backups.all()
	for i := range after {
		if !after[i].ended {
			after[i].hi, after[i].drops.begun = int(p.begun.Load()), int(p.dropsBegun.Load())
		}
		if i >= len(before) || !before[i].ended {
			after[i].ended = false // the state may be one without it
		}
	}
	for i := range restores {
		if i >= len(restoresBefore) || !restoresBefore[i].ended {
			restores[i].ended = false
		}
	}
	return after, restores
}

// openFolder opens the folder, anew if it is open.
func (s *session) openFolder() (err error) {
	if err := s.closeFolder(); err != nil {
		return err
	}
	s.backups.folder, err = backup.Open(backupsDir, &backup.Options{FS: s.fs})
	if err != nil {
		return s.fail("open folder", 0, err)
	}
	list, err := s.backups.folder.List()
	for _, info := range list {
		err = errors.Join(err, info.Err)
	}
	return s.fail("list", 0, err)
}

func (s *session) closeFolder() error {
	if s.backups.folder == nil {
		return nil
	}
	err := s.backups.folder.Close()
	s.backups.folder = nil
	return s.fail("close folder", 0, err)
}

// backUp makes a backup while beside runs.
func (s *session) backUp(beside func() error) error {
	if s.backups.folder == nil { // it could not be opened
		return beside()
	}
	b := &s.backups
	b.mu.Lock()
	i := len(b.list)
	b.list = append(b.list, backedUp{lo: s.last, drops: drops{ended: int(s.dropsEnded.Load())}})
	b.mu.Unlock()
	done := make(chan error, 1)
	go func() {
		info, err := b.folder.Create(context.Background(), s.db, nil)
		b.mu.Lock()
		if c := &b.list[i]; err == nil {
			c.ended, c.id, c.hi, c.drops.begun = true, info.ID, int(s.begun.Load()), int(
				s.dropsBegun.Load())
		}
		b.mu.Unlock()
		done <- err
	}()
	err := beside()
	return errors.Join(err, s.fail("back up", 0, <-done))
}

// keep deletes all backups but the newest n.
func (s *session) keep(n int) error {
	b := &s.backups
	if b.folder == nil {
		return nil
	}
	b.mu.Lock()
	left := 0
	for i := len(b.list) - 1; i >= 0; i-- {
		if c := &b.list[i]; c.ended && !c.deleted {
			left++
			c.deleted = left > n
		}
	}
	b.mu.Unlock()
	return s.fail("keep", 0, b.folder.Keep(n))
}

// remove deletes the oldest backup.
func (s *session) remove() error {
	b := &s.backups
	b.mu.Lock()
	i := slices.IndexFunc(b.list, func(c backedUp) bool { return c.ended && !c.deleted })
	if i >= 0 {
		b.list[i].deleted = true
	}
	b.mu.Unlock()
	if b.folder == nil || i < 0 {
		return nil
	}
	return s.fail("delete", 0, b.folder.Delete(b.list[i].id))
}

// restore restores the newest backup.
func (s *session) restore(dir string) error {
	b := &s.backups
	list, _ := b.all()
	slices.Reverse(list)
	i := slices.IndexFunc(list, func(c backedUp) bool { return c.ended && !c.deleted })
	if b.folder == nil || i < 0 {
		return nil
	}
	b.mu.Lock()
	at := len(b.restores)
	b.restores = append(b.restores, restored{dir: dir, of: list[i]})
	b.mu.Unlock()
	err := b.folder.Restore(context.Background(), list[i].id, dir, nil)
	if err == nil {
		b.mu.Lock()
		b.restores[at].ended = true
		b.mu.Unlock()
	}
	return s.fail("restore", 0, err)
}

func quiet() error { return nil }

// backupWorkloads make backups: of a database that is empty, quiet, written, flushed and compacted,
// and has just been recovered; they delete and restore some; the second one has keyspaces, one of
// which is dropped.
var backupWorkloads = []workload{
	{name: "backup", maxValue: 3000, run: func(s *session) error {
		defer s.closeFolder() //nolint:errcheck // after a failure, of which the workload tells
		return steps(s.open, s.openFolder,
			func() error { return s.backUp(quiet) },
			func() error { return s.write(15, 0) },
			func() error { return s.backUp(quiet) }, // incremental
			func() error { return s.backUp(func() error { return s.write(10, 3) }) },
			s.flush,
			func() error { return s.restore("first") },
			s.remove,
			func() error {
				return s.backUp(func() error {
					return steps(s.flush, func() error { return s.write(15, 0) })
				})
			},
			s.openFolder, s.reopen,
			func() error { return s.write(10, 4) },
			func() error { return s.keep(2) },
			func() error { return s.backUp(s.compact) },
			func() error { return s.restore("second") },
			func() error { return s.keep(1) }, s.closeFolder,
			func() error { return s.write(5, 0) }, s.compact, s.close)
	}},
	{name: "tree-backup", maxValue: 2500, run: func(s *session) error {
		defer s.closeFolder() //nolint:errcheck // as above
		return steps(s.open, s.openFolder,
			func() error { return s.write(20, 3) },
			func() error {
				return s.backUp(func() error {
					return steps(func() error {
						return s.write(15, 0)
					}, func() error { return s.flushSpace(sameSpace) })
				})
			},
			s.drop,
			func() error { return s.write(10, 0) },
			func() error { return s.backUp(s.drop) },
			func() error { return s.restore("first") },
			func() error { return s.write(8, 0) }, s.compact, s.remove,
			func() error { return s.backUp(quiet) },
			s.closeFolder, s.close)
	}},
}

// BackupWorkloads names the workloads that make backups.
func BackupWorkloads() (names []string) {
	for i := range backupWorkloads {
		names = append(names, backupWorkloads[i].name)
	}
	return names
}

// checkBackups opens the folder of a state. Each backup that is there is whole, those that are
// known to be there are; so are the restored databases. Then the folder is used.
func (x *explorer) checkBackups(s state) error {
	if len(s.backups) == 0 && len(s.restores) == 0 {
		return nil
	}
	before := s.fs.Clone() // for an opening that is only read
	f, err := backup.Open(backupsDir, &backup.Options{FS: s.fs})
	if err != nil {
		return fmt.Errorf("opening the folder: %w", err)
	}
	defer f.Close()
	list, err := f.List()
	if err != nil {
		return err
	}
	there := map[uint64]bool{}
	for _, info := range list {
		if info.Err != nil {
			return info.Err
		}
		there[info.ID] = true
		i := slices.IndexFunc(s.backups, func(b backedUp) bool { return b.id == info.ID })
		if i < 0 { // it ended when the crash came: the first of those that have not
			i = slices.IndexFunc(s.backups, func(b backedUp) bool { return b.id == 0 })
		}
		if i < 0 {
			return fmt.Errorf("there is a backup %d that nobody made", info.ID)
		}
		to := fmt.Sprintf("check%d", info.ID)
		err := f.Verify(context.Background(), info.ID, nil)
		if err == nil {
			err = f.Restore(context.Background(), info.ID, to, nil)
		}
		if err == nil {
			err = x.checkCopy(copied{lo: s.backups[i].lo, hi: s.backups[i].hi,
				drops: s.backups[i].drops, dir: to}, x.options(s.fs), false)
		}
		if err != nil {
			return fmt.Errorf("backup %d: %w", info.ID, err)
		}
	}
	for _, b := range s.backups {
		if b.ended && !b.deleted && !there[b.id] {
			return fmt.Errorf("backup %d is gone", b.id)
		}
	}
	if err := errors.Join(x.checkRestored(s, f), x.checkReader(before, list)); err != nil {
		return err
	}
	if s.pick%4 == 0 {
		return x.backUpAgain(s, f)
	}
	return f.Close()
}

// checkReader wants an opening that is only read to see the same as one that cleans up.
func (x *explorer) checkReader(fsys *vfs.Mem, list []backup.Info) error {
	f, err := backup.Open(backupsDir, &backup.Options{FS: fsys, ReadOnly: true})
	if errors.Is(err, lsm.ErrDoesNotExist) && len(list) == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening the folder for reading: %w", err)
	}
	same, err := f.List()
	if err == nil && !slices.Equal(list, same) {
		err = fmt.Errorf("a reader sees %v, not %v", same, list)
	}
	return errors.Join(err, f.Close())
}

// checkRestored wants each restored database whole or not there, and a next one of the same name to
// succeed where it is not.
func (x *explorer) checkRestored(s state, f *backup.Folder) error {
	for _, r := range s.restores {
		_, err := s.fs.Stat(r.dir)
		if errors.Is(err, fs.ErrNotExist) && !r.ended {
			// The backup may have ended, and the restore begun, after the state was taken.
			gone := func(b backedUp) bool { return b.id == r.of.id && (b.deleted || !b.ended) }
			err = f.Restore(context.Background(), r.of.id, r.dir, nil)
			if errors.Is(err, lsm.ErrDoesNotExist) && slices.ContainsFunc(s.backups, gone) {
				continue
			}
		}
		if err == nil {
			err = x.checkCopy(copied{dir: r.dir, lo: r.of.lo, hi: r.of.hi, drops: r.of.drops},
				x.options(s.fs), false)
		}
		if err != nil {
			return fmt.Errorf("restored %s, ended %v: %w", r.dir, r.ended, err)
		}
	}
	return nil
}

// backUpAgain makes a backup of the recovered database, and wants nothing left when all are
// deleted.
func (x *explorer) backUpAgain(s state, f *backup.Folder) error {
	db, err := lsm.Open(dir, x.options(s.fs))
	if errors.Is(err, lsm.ErrDoesNotExist) && s.lo == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	defer db.Close()
	info, err := f.Create(context.Background(), db, nil)
	if err == nil {
		err = f.Verify(context.Background(), info.ID, nil)
	}
	for _, b := range s.backups {
		if err == nil && b.ended && b.id == info.ID { // an unfinished one may be absent
			err = fmt.Errorf("backup %d has the number of an earlier one", info.ID)
		}
	}
	if err == nil {
		err = f.Keep(0)
	}
	if err = errors.Join(err, f.Close(), db.Close()); err != nil {
		return fmt.Errorf("another backup: %w", err)
	}
	names, err := s.fs.List(backupsDir + "/data")
	if err == nil && len(names) > 0 {
		err = fmt.Errorf("of no backup is left: %v", names)
	}
	return err
}

// options are those with which the explorer opens a database.
func (x *explorer) options(fsys vfs.FS) *lsm.Options {
	o := options()
	x.trees.enable(&o)
	o.FS, o.ErrorIfMissing = fsys, true
	return &o
}

// verifyBackups is verify of the backups: successful ones are whole, and the others leave no files.
func (t *trial) verifyBackups(mem *vfs.Mem) error {
	list, restores := t.session.backups.all()
	if len(list) == 0 {
		return nil
	}
	f, err := backup.Open(backupsDir, &backup.Options{FS: mem})
	if err != nil {
		return fmt.Errorf("opening the folder: %w", err)
	}
	defer f.Close()
	infos, err := f.List()
	if err != nil {
		return err
	}
	may := func(hi int) func(int) bool {
		return func(i int) bool { return i <= hi && (t.okay[i] || t.limbo[i]) }
	}
	for _, info := range infos {
		i := slices.IndexFunc(list, func(b backedUp) bool { return b.id == info.ID })
		to := fmt.Sprintf("check%d", info.ID)
		err := errors.Join(info.Err, f.Verify(context.Background(), info.ID, nil),
			f.Restore(context.Background(), info.ID, to, nil))
		if err == nil && i >= 0 {
			must := func(n int) bool { return n <= list[i].lo && t.okay[n] }
			err = t.reopenIn(to, mem, must, may(list[i].hi))
		}
		if err != nil {
			return fmt.Errorf("backup %d: %w", info.ID, err)
		}
	}
	for _, b := range list {
		if b.ended && !b.deleted && !slices.ContainsFunc(infos, func(i backup.Info) bool {
			return i.ID == b.id
		}) {
			return fmt.Errorf("backup %d is gone", b.id)
		}
	}
	for _, r := range restores {
		_, err := mem.Stat(r.dir)
		_, left := mem.Stat(r.dir + ".incomplete")
		must := func(n int) bool { return n <= r.of.lo && t.okay[n] }
		switch {
		case r.ended && left == nil && !t.f.forever &&
			!strings.HasPrefix(t.hit.Name, r.dir+".incomplete"):
			return fmt.Errorf("restored %s, and its first directory is left", r.dir)
		case r.ended:
			if err := t.reopenIn(r.dir, mem, must, may(r.of.hi)); err != nil {
				return fmt.Errorf("restored %s: %w", r.dir, err)
			}
		case (err == nil || left == nil) && !t.f.forever:
			return fmt.Errorf("restoring %s failed and left something", r.dir)
		}
	}
	if err := errors.Join(f.Keep(0), f.Close()); err != nil {
		return err
	}
	names, err := mem.List(backupsDir + "/data")
	if err == nil && len(names) > 0 {
		err = fmt.Errorf("of no backup is left: %v", names)
	}
	return err
}
