package world

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/lsm"
)

// endings are the steps after which the database is opened again.
var endings = []step{
	{"close and open", 40, false, func(w *World) error { return w.reopen(false, nil) }},
	{"kill and open", 16, false, func(w *World) error { return w.reopen(true, nil) }},
	{"power cut", 16, false, (*World).powerCut},
	{"repair", 6, false, func(w *World) error {
		return w.reopen(w.rng.IntN(2) == 0, (*World).repair)
	}},
	{"repair a copy without its MANIFEST", 6, false, func(w *World) error {
		return w.reopen(false, (*World).lost)
	}},
	{"export", 6, false, func(w *World) error { return w.reopen(false, (*World).export) }},
	{"upgrade", 2, false, func(w *World) error { return w.reopen(false, (*World).upgrade) }},
}

// reopen ends the database, calls between, and opens it again. Nothing may be missing.
func (w *World) reopen(kill bool, between func(w *World) error) error {
	w.straighten()
	var from uint64
	var made state
	if w.feed != nil && w.opts.WALRetentionBytes > 0 && between == nil && w.rng.IntN(2) == 0 {
		if err := w.readFeed(); err != nil {
			return fmt.Errorf("feed: %w", err)
		}
		from, made = w.feed.c.Position(), w.feed.m
	}
	follower := w.follower
	if !kill && between == nil {
		w.follower = nil // goes on
	}
	w.release()
	if kill {
		fs := w.fs.CrashClone(vfs.KeepAll())
		_ = w.db.Close()
		w.fs = fs
	} else if err := w.db.Close(); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	if err := w.withoutKey(); err != nil {
		return err
	}
	if !kill && between == nil {
		w.follower = follower
	}
	if between != nil {
		if err := between(w); err != nil {
			return err
		}
	}
	if err := w.open(); err != nil {
		return err
	}
	if r := w.db.RecoveryReport(); !r.WasClean {
		return fmt.Errorf("dropped at open: %+v", r)
	}
	if from > 0 {
		if err := w.openFeed(from, made); err != nil {
			return fmt.Errorf("feed from %d: %w", from, err)
		}
	}
	return w.all("opened again")
}

func (w *World) powerCut() error {
	w.straighten()
	w.release()
	how := choose(w.rng, vfs.RandomBlocks(w.rng), vfs.DropAll(), vfs.KeepAll())
	fs := w.fs.CrashClone(how)
	_ = w.db.Close()
	w.fs = fs
	if w.rng.IntN(3) == 0 { // another one within the recovery
		if db, err := lsm.Open(w.dir, w.options(w.fs)); err == nil {
			fs := w.fs.CrashClone(vfs.RandomBlocks(w.rng))
			_ = db.Close()
			w.fs = fs
		}
	}
	if err := w.removeFolder(); err != nil { // which backups were being deleted is not known
		return err
	}
	if err := w.open(); err != nil {
		return err
	}
	got := state{}
	for _, s := range w.living() {
		values, err := w.contents(s)
		if err != nil {
			return err
		}
		got[s.life] = values
	}
	m := w.durable.clone()
	for i := 0; ; i++ {
		if differ(got, m, w.now) == "" {
			w.log("%d of %d commits are left", i, len(w.since))
			w.m = m
			w.rewrite()
			return w.all("after a power cut")
		}
		if i == len(w.since) {
			break
		}
		for _, o := range w.since[i].ops {
			m.apply(o, w.since[i].now)
		}
	}
	return fmt.Errorf("a power cut left the state of no prefix of %d commits; the durable one: "+
		"%s; all of it: %s",
		len(w.since), differ(got, w.durable, w.now), differ(got, w.m, w.now))
}

// contents reads a keyspace.
func (w *World) contents(s *space) ([]value, error) {
	values := make([]value, len(s.keys))
	var err error
	r := w.store(s)
	for k, v := range r.All(nil, nil, &err) {
		i, e := s.find(k)
		if e != nil {
			return nil, e
		}
		values[i] = value{ok: true, v: string(v)}
	}
	for i := range values {
		if !values[i].ok {
			continue
		}
		left, expires, e := w.ttl(s, i)
		if e != nil {
			return nil, e
		}
		if expires {
			values[i].due = w.now + int64(left/time.Second)
		}
	}
	return values, err
}

func (w *World) ttl(s *space, i int) (time.Duration, bool, error) {
	if s.ks != nil {
		return s.ks.TTL(w.key(s, i))
	}
	return w.db.TTL(w.key(s, i))
}

// removeFolder removes the folder of backups.
func (w *World) removeFolder() error {
	w.backups = nil
	return removeAll(w.fs, "backups")
}

// removeAll removes a directory with all that is in it.
func removeAll(fs *vfs.Mem, dir string) error {
	list, err := fs.List(dir)
	if err != nil {
		return nil // there is none
	}
	for _, n := range list {
		if info, err := fs.Stat(join(dir, n)); err == nil && info.IsDir() {
			err = removeAll(fs, join(dir, n))
			if err != nil {
				return err
			}
		} else if err := fs.Remove(join(dir, n)); err != nil {
			return err
		}
	}
	return fs.Remove(dir)
}

func (w *World) repair() error {
	report, err := lsm.Repair(w.dir, w.options(w.fs))
	if err == nil && len(report.Dropped) > 0 {
		err = fmt.Errorf("nothing was damaged, dropped: %v", report.Dropped)
	}
	return err
}

// lost repairs a copy that has lost its MANIFEST or CURRENT, and compares what it has of the
// keyspaces whose names are left. What Repair cannot know then is in docs/guarantees.md: the
// copy may have older values of a key besides, but no invented ones.
func (w *World) lost() error {
	fs := w.fs.Clone()
	list, err := fs.List(w.dir)
	if err != nil {
		return err
	}
	for _, n := range list {
		if strings.HasSuffix(n, ".manifest") || strings.HasPrefix(n, "MANIFEST-") ||
			n == "CURRENT" && w.rng.IntN(2) == 0 {
			info, err := fs.Stat(join(w.dir, n))
			if err != nil || info.IsDir() {
				continue
			}
			if err := fs.Remove(join(w.dir, n)); err != nil {
				return err
			}
		}
	}
	o := w.options(fs)
	if _, err := lsm.Repair(w.dir, o); err != nil {
		return fmt.Errorf("of %q: %w", list, err)
	}
	db, err := lsm.Open(w.dir, o)
	if err != nil {
		return err
	}
	var e error
	for k := range db.All(nil, nil, &e) {
		if _, err := w.spaces[0].find(k); err != nil {
			e = errors.Join(e, err)
		}
	}
	if err := errors.Join(e, db.Verify(context.Background(), nil), db.Close()); err != nil {
		return fmt.Errorf("repaired: %w", err)
	}
	return nil
}

// export writes the closed database into another directory, opens that, and compares it.
func (w *World) export() error {
	dir := w.name("exported")
	o := w.options(w.fs)
	o.MergeOperators = []*lsm.MergeOperator{concat}
	format := choose(w.rng, lsm.FormatNative, w.format)
	if err := lsm.Export(context.Background(), w.dir, dir, format, o, nil); err != nil {
		return err
	}
	db, err := lsm.Open(dir, w.options(w.fs))
	if err != nil {
		return err
	}
	if err := errors.Join(w.compare("export", db, w.m), db.Close()); err != nil {
		return err
	}
	if w.rng.IntN(2) == 0 {
		w.dir = dir
		w.harden()
		if format == lsm.FormatNative {
			return w.becomeNative()
		}
	}
	return nil
}

func (w *World) upgrade() error {
	if err := lsm.Upgrade(w.dir, w.options(w.fs)); err != nil {
		return err
	}
	return w.becomeNative()
}

// becomeNative takes note that the database is in the native format now. Backups in the other
// format are given up.
func (w *World) becomeNative() error {
	w.opts.Format = lsm.FormatNative
	w.format, w.opts.MergeOperator, w.opts.MergeOperators =
		lsm.FormatNative, w.spaces[0].merge, []*lsm.MergeOperator{concat}
	return w.removeFolder()
}
