package mix

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/lsm"
)

func (w *world) all(what string) error {
	for s := range names {
		if err := w.scan(what, w.spaces[s], s, w.m[s]); err != nil {
			return err
		}
		for i := range w.m[s] {
			v, err := w.spaces[s].Get(w.bytes(s, i), nil)
			if err := check(what+": get "+w.keys[s][i], v, err, w.m[s][i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *world) release() {
	for _, t := range w.txns {
		for _, c := range t.cursors {
			c.it.Close()
		}
		t.tx.Rollback()
	}
	for _, c := range w.cursors {
		c.it.Close()
	}
	for _, s := range w.snaps {
		s.s.Close()
	}
	w.txns, w.cursors, w.snaps = nil, nil, nil
}

func (w *world) dump() (state, error) {
	m := make(state, len(names))
	for s := range names {
		m[s] = make([]string, len(w.keys[s]))
		i := 0
		var err error
		for k, v := range w.spaces[s].All(nil, nil, &err) {
			for i < len(m[s]) && w.keys[s][i] != string(k) {
				i++
			}
			if i == len(m[s]) {
				return nil, fmt.Errorf("keyspace %d has %q, out of order or invented", s, k)
			}
			m[s][i] = string(v)
		}
		if err != nil {
			return nil, err
		}
	}
	return m, nil
}

// recovered finds the state after a power cut: that of some prefix of the writes.
func (w *world) recovered() error {
	got, err := w.dump()
	if err != nil {
		return err
	}
	m, due := w.synced, w.dueThen
	for i := 0; ; i++ {
		now, dueNow := m.clone(), maps.Clone(due)
		dueNow.expire(now, w.now.Load())
		if now.equal(got) {
			w.log("power cut: %d of %d", i, len(w.since))
			w.m, w.due, w.synced, w.dueThen, w.since = now, dueNow, m, due, nil
			return w.all("after a power cut")
		}
		if i == len(w.since) {
			break
		}
		for _, x := range w.since[i] {
			due.apply(m, x)
		}
	}
	return fmt.Errorf("a power cut left the state of no prefix of %d writes", len(w.since))
}

func (w *world) reopen() error {
	w.release()
	kind := w.rng.IntN(5)
	w.log("reopen %d", kind)
	switch kind {
	case 0, 1: // killed
		fs := w.fs.CrashClone(vfs.KeepAll())
		w.db.Close()
		w.fs = fs
	case 2: // power cut
		fs := w.fs.CrashClone(vfs.RandomBlocks(w.rng))
		w.db.Close()
		w.fs = fs
		if err := w.open(); err != nil {
			return err
		}
		return w.recovered()
	default:
		if err := w.db.Close(); err != nil {
			return err
		}
	}
	if err := w.elsewhere(kind > 2); err != nil {
		return err
	}
	if err := w.open(); err != nil {
		return err
	}
	return w.all("reopened")
}

// elsewhere repairs and exports copies of the closed database; without its MANIFEST if MIX_LOST is
// set: what a compaction has read and not deleted yet may bring deleted keys back then.
func (w *world) elsewhere(clean bool) error {
	kind := w.rng.IntN(4)
	if kind == 3 || kind == 2 && (!clean || os.Getenv("MIX_LOST") == "") {
		return nil
	}
	c := *w
	c.fs = w.fs.CrashClone(vfs.KeepAll())
	o := w.opts
	o.FS = c.fs
	o.Comparers = nil
	switch kind {
	case 0:
		if _, err := lsm.Repair(dir, &o); err != nil {
			return fmt.Errorf("repair: %w", err)
		}
	case 1:
		o.MergeOperators = []*lsm.MergeOperator{concat()} // of "reverse"
		if err := lsm.Export(context.Background(), dir, "other", lsm.FormatNative, &o,
			nil); err != nil {
			return fmt.Errorf("export: %w", err)
		}
		if err := lsm.Destroy(dir, &o); err != nil {
			return fmt.Errorf("destroy: %w", err)
		}
		if err := c.fs.Rename("other", dir); err != nil { // logs that were set aside stay
			return nil
		}
	case 2:
		list, err := c.fs.List(dir)
		if err != nil {
			return err
		}
		for _, n := range list {
			if strings.HasSuffix(n, ".manifest") {
				if err := c.fs.Remove(path.Join(dir, n)); err != nil {
					return err
				}
			}
		}
		if _, err := lsm.Repair(dir, &o); err != nil {
			return fmt.Errorf("repair without manifest (%v): %w", list, err)
		}
		db, err := lsm.Open(dir, &o)
		if err != nil {
			return err
		}
		known := db.Keyspaces()
		if err := db.Close(); err != nil {
			return err
		}
		for _, n := range names { // one that no table names has another name now
			if !slices.Contains(known, n) {
				return nil
			}
		}
	}
	if err := c.open(); err != nil {
		return fmt.Errorf("elsewhere %d: %w", kind, err)
	}
	err := c.all(fmt.Sprintf("elsewhere %d", kind))
	return errors.Join(err, c.db.Close())
}

// TestRepairAppliesOperandsOnce repairs a database without its MANIFEST, where a log that one
// keyspace has flushed is kept for another one.
func TestRepairAppliesOperandsOnce(t *testing.T) {
	w := newWorld(1, "", 10)
	w.fs = vfs.NewMem()
	if err := w.open(); err != nil {
		t.Fatal(err)
	}
	err := errors.Join(w.db.Flush(), w.spaces[1].Put([]byte("k"), []byte("v"), lsm.NoSync),
		w.spaces[1].Flush(),
		w.spaces[1].Merge([]byte("k"), []byte("w"), lsm.NoSync),
		w.spaces[1].Merge([]byte("k"), []byte("x"), lsm.NoSync),
		w.db.Merge([]byte("k"), []byte("y"), lsm.NoSync), w.spaces[1].Flush(),
		w.spaces[1].Merge([]byte("k"), []byte("z"), lsm.NoSync))
	if err != nil {
		t.Fatal(err)
	}
	fs := w.fs.CrashClone(vfs.KeepAll())
	if err := w.db.Close(); err != nil {
		t.Fatal(err)
	}
	w.fs = fs
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if strings.HasSuffix(n, ".manifest") {
			if err := fs.Remove(path.Join(dir, n)); err != nil {
				t.Fatal(err)
			}
		}
	}
	o := w.opts
	o.FS = fs
	if _, err := lsm.Repair(dir, &o); err != nil {
		t.Fatal(err)
	}
	if err := w.open(); err != nil {
		t.Fatal(err)
	}
	defer w.db.Close()
	for i, want := range []string{"y", "v,w,x,z"} {
		if v, err := w.spaces[i].Get([]byte("k"), nil); string(v) != want {
			t.Errorf("keyspace %s: %q, %v; want %q", w.spaces[i].Name(), v, err, want)
		}
	}
}
