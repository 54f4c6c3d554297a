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
)

// copied is a checkpoint of a session's database.
type copied struct {
	dir    string
	ended  bool // and succeeded
	lo, hi int  // batches that must be in it, that may be; hi counts once it has ended
	drops  drops
}

// copies are the checkpoints of a session.
type copies struct {
	mu   sync.Mutex
	list []copied
}

// all lists the checkpoints that have begun.
func (c *copies) all() []copied {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.list)
}

// copiesAt completes the expected checkpoints in a state for which before was taken first, and p
// later.
func (p *progress) copiesAt(before []copied) []copied {
	after := p.copies.all()
	for i := range after {
		if !after[i].ended {
			after[i].hi, after[i].drops.begun = int(p.begun.Load()), int(p.dropsBegun.Load())
		}
		if i >= len(before) || !before[i].ended {
			after[i].ended = false // the state may be one without it
		}
	}
	return after
}

// checkpoint makes a checkpoint while beside runs.
func (s *session) checkpoint(name string, beside func() error) error {
	s.copies.mu.Lock()
	i := len(s.copies.list)
	c := copied{dir: name, lo: s.last, drops: drops{ended: int(s.dropsEnded.Load())}}
	s.copies.list = append(s.copies.list, c)
	s.copies.mu.Unlock()
	done := make(chan error, 1)
	go func() {
		err := s.db.Checkpoint(context.Background(), name)
		if err == nil {
			s.copies.mu.Lock()
			c := &s.copies.list[i]
			c.ended, c.hi, c.drops.begun = true, int(s.begun.Load()), int(s.dropsBegun.Load())
			s.copies.mu.Unlock()
		}
		done <- err
	}()
	err := beside()
	return errors.Join(err, s.fail("checkpoint", 0, <-done))
}

// copyWorkloads make checkpoints: of a database that is quiet, is written, flushed and compacted,
// has just been recovered, and, in the second one, has keyspaces, one of which is dropped.
var copyWorkloads = []workload{
	{name: "copy", maxValue: 4000, run: func(s *session) error {
		return steps(s.open,
			func() error { return s.checkpoint("empty", func() error { return nil }) },
			func() error { return s.write(15, 0) },
			func() error { return s.checkpoint("log", func() error { return nil }) },
			func() error { return s.checkpoint("written", func() error { return s.write(12, 3) }) },
			s.flush,
			func() error { return s.write(10, 0) },
			func() error {
				return s.checkpoint("flushed", func() error {
					return steps(s.flush, func() error { return s.write(20, 0) })
				})
			},
			s.reopen,
			func() error { return s.write(10, 4) },
			func() error { return s.checkpoint("compacted", s.compact) },
			func() error { return s.write(5, 0) }, s.compact, s.close)
	}},
	{name: "tree-copy", maxValue: 2500, run: func(s *session) error {
		return steps(s.open,
			func() error { return s.write(20, 3) },
			func() error {
				return s.checkpoint("written", func() error {
					return steps(func() error {
						return s.write(20, 0)
					}, func() error { return s.flushSpace(sameSpace) })
				})
			},
			s.drop,
			func() error { return s.write(10, 0) },
			func() error { return s.checkpoint("dropped", s.drop) },
			func() error { return s.write(8, 0) }, s.compact,
			func() error { return s.checkpoint("quiet", func() error { return nil }) },
			s.close)
	}},
}

// CopyWorkloads names the workloads that make checkpoints.
func CopyWorkloads() (names []string) {
	for i := range copyWorkloads {
		names = append(names, copyWorkloads[i].name)
	}
	return names
}

// checkCopies wants each checkpoint in a state whole or not there, and a next one of the same name
// to succeed where it is not. The copies are written to. What the database itself then has is
// checked afterwards.
func (x *explorer) checkCopies(s state) error {
	for i, c := range s.copies {
		o := options()
		x.trees.enable(&o)
		o.FS, o.ErrorIfMissing = s.fs, true
		_, err := s.fs.Stat(c.dir)
		switch {
		case errors.Is(err, fs.ErrNotExist) && c.ended:
			return fmt.Errorf("checkpoint %s is gone", c.dir)
		case errors.Is(err, fs.ErrNotExist):
			if err := x.copyAgain(s, c.dir, &o); err != nil {
				return fmt.Errorf("checkpoint %s, which is not there: %w", c.dir, err)
			}
		case err != nil:
			return err
		default:
			if err := x.checkCopy(c, &o, (s.pick+uint64(i))%3 == 0); err != nil {
				return fmt.Errorf("checkpoint %s, ended %v: %w", c.dir, c.ended, err)
			}
		}
	}
	return nil
}

// checkCopy opens a checkpoint; with on it is written, compacted and repaired.
func (x *explorer) checkCopy(c copied, o *lsm.Options, on bool) error {
	db, err := lsm.Open(c.dir, o)
	if err != nil {
		return err
	}
	defer db.Close()
	if report := db.RecoveryReport(); !report.WasClean {
		return fmt.Errorf("parts of its logs were dropped: %v", report.Dropped)
	}
	i, err := x.ledger.Check(db, c.lo, c.hi)
	if err == nil {
		err = x.trees.check(db, i, nil, c.drops)
	}
	if err != nil || !on {
		return errors.Join(err, db.Close())
	}
	b := lsm.NewBatch()
	x.ledger.Fill(b, i+1)
	if err := errors.Join(db.Write(b, lsm.Sync), db.CompactRange(nil, nil),
		db.Close()); err != nil {
		return err
	}
	if x.trees == nil {
		if _, err := lsm.Repair(c.dir, o); err != nil {
			return fmt.Errorf("repair: %w", err)
		}
	}
	db, err = lsm.Open(c.dir, o)
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = x.ledger.Check(db, i+1, i+1)
	return errors.Join(err, db.Close())
}

// copyAgain makes the checkpoint anew that a crash cut short, and wants nothing left of the
// first.
func (x *explorer) copyAgain(s state, name string, o *lsm.Options) error {
	db, err := lsm.Open(dir, o)
	if errors.Is(err, lsm.ErrDoesNotExist) && s.lo == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.Checkpoint(context.Background(), name); err != nil {
		return err
	}
	names, err := s.fs.List("/")
	if err == nil && slices.Contains(names, name+".incomplete") {
		err = errors.New("the directory of the one before is left")
	}
	i, err2 := x.ledger.Check(db, s.lo, s.hi)
	if err := errors.Join(err, err2, db.Close()); err != nil {
		return err
	}
	return x.checkCopy(copied{dir: name, lo: i, hi: i, drops: s.drops}, o, false)
}

// verifyCopies is verify of the checkpoints: successful ones have all writes acknowledged before,
// and the others leave no files.
func (t *trial) verifyCopies(mem *vfs.Mem) error {
	for _, c := range t.session.copies.all() {
		_, err := mem.Stat(c.dir)
		_, left := mem.Stat(c.dir + ".incomplete")
		switch {
		case c.ended && left == nil && !t.f.forever &&
			!strings.HasPrefix(t.hit.Name, c.dir+".incomplete"):
			// Otherwise it may be the removal that failed.
			return fmt.Errorf("checkpoint %s succeeded, and its first directory is left", c.dir)
		case c.ended:
			must := func(i int) bool { return i <= c.lo && t.okay[i] }
			may := func(i int) bool { return i <= c.hi && (t.okay[i] || t.limbo[i]) }
			if err := t.reopenIn(c.dir, mem, must, may); err != nil {
				return fmt.Errorf("checkpoint %s: %w", c.dir, err)
			}
		case (err == nil || left == nil) && !t.f.forever:
			return fmt.Errorf("checkpoint %s failed and left something", c.dir)
		}
	}
	return nil
}
