package crash

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit"
	"github.com/loamdb/loam/internal/testkit/hang"
	"github.com/loamdb/loam/lsm"
)

// disk is a file system that can be full.
type disk struct {
	*vfs.Mem
	full   atomic.Bool // nothing can be allocated
	tables atomic.Bool // only logs can be
}

func (d *disk) hook(op vfs.Op) vfs.Outcome {
	switch op.Kind {
	case vfs.OpCreate, vfs.OpCreateLog, vfs.OpWrite, vfs.OpAppend:
	default:
		return vfs.Outcome{}
	}
	if d.full.Load() || d.tables.Load() && op.Kind != vfs.OpAppend && op.Kind != vfs.OpCreateLog {
		return vfs.Outcome{Err: syscall.ENOSPC, Short: int(op.N / 3)}
	}
	return vfs.Outcome{}
}

// FullDisk fills and frees a disk a number of times. Within a cycle it is
// first full for tables only: flushes fail with ErrNoSpace, reads and some
// writes go on, and all is well when there is space again. Then nothing can be
// written: writes and flushes fail with ErrNoSpace, and are not visible; when
// there is space again they succeed, without a reopening.
func FullDisk(seed int64, cycles int) error {
	d := &disk{Mem: vfs.NewMem()}
	l := &testkit.Ledger{Seed: seed, MaxValue: 500}
	o := options()
	o.FS = vfs.NewFault(d.Mem, d.hook)
	last := 0
	for cycle := range cycles {
		next, err := d.cycle(&o, l, last)
		if err != nil {
			return fmt.Errorf("seed %d, cycle %d: %w", seed, cycle, err)
		}
		last = next
	}
	return nil
}

func (d *disk) cycle(o *lsm.Options, l *testkit.Ledger, last int) (int, error) {
	db, err := lsm.Open(dir, o)
	if err != nil {
		return last, err
	}
	defer db.Close()
	b := lsm.NewBatch()
	write := func() error {
		l.Fill(b, last+1)
		err := db.Write(b, lsm.NoSync)
		if err == nil {
			last++
		}
		return err
	}
	for range 10 {
		if err := write(); err != nil {
			return last, err
		}
	}
	d.tables.Store(true)
	if err := db.Flush(); !errors.Is(err, lsm.ErrNoSpace) {
		return last, fmt.Errorf("flush on a full disk: %v", err)
	}
	if _, err := l.Check(db, last, last); err != nil {
		return last, fmt.Errorf("reading on a full disk: %w", err)
	}
	if err := write(); err != nil {
		return last, fmt.Errorf("a write that fits the log and the memtable: %w", err)
	}
	d.tables.Store(false)
	if err := d.recovers(db); err != nil {
		return last, err
	}
	if err := write(); err != nil {
		return last, fmt.Errorf("a write after space has returned: %w", err)
	}
	d.full.Store(true)
	defer d.full.Store(false)
	for range 3 {
		if err := write(); !errors.Is(err, lsm.ErrNoSpace) || errors.Is(err, lsm.ErrReadOnly) {
			return last, fmt.Errorf("a write on a full disk: %v", err)
		}
	}
	if err := db.Flush(); !errors.Is(err, lsm.ErrNoSpace) || errors.Is(err, lsm.ErrReadOnly) {
		return last, fmt.Errorf("a flush that needs a log on a full disk: %v", err)
	}
	if _, err := l.Check(db, last, last); err != nil {
		return last, fmt.Errorf("reading after failed writes: %w", err)
	}
	d.full.Store(false)
	for range 3 {
		if err := write(); err != nil {
			return last, fmt.Errorf("a write after space has returned: %w", err)
		}
	}
	if err := db.Flush(); err != nil {
		return last, fmt.Errorf("a flush after space has returned: %w", err)
	}
	if err := write(); err != nil {
		return last, err
	}
	if err := db.Close(); err != nil {
		return last, err
	}
	if db, err = lsm.Open(dir, o); err != nil {
		return last, fmt.Errorf("reopening: %w", err)
	}
	defer db.Close()
	if r := db.RecoveryReport(); !r.WasClean {
		return last, fmt.Errorf("recovery found the failed writes: %+v", r)
	}
	return l.Check(db, last, last)
}

// recovers waits until flushes work again, by themselves or after Resume.
func (d *disk) recovers(db *lsm.DB) error {
	if err := db.Resume(); err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	var err error
	if hang.Until(func() bool { err = db.Flush(); return err == nil }) {
		return nil
	}
	return fmt.Errorf("space has returned, but flushes fail: %w", err)
}
