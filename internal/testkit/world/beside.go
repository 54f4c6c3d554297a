package world

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/lsm"
)

// alone are steps that concern the whole database: worlds that share one do not take them.
var alone = map[string]bool{"time": true, "feed": true, "follow": true, "set an option": true,
	"look": true}

// Beside runs several histories of n steps side by side in one database of the native format,
// each in keyspaces of its own. In the end the process is killed, and all histories compare
// their keyspaces once more.
func Beside(seed int64, keys, worlds, n int) error {
	base := newWorld(uint64(seed), Settings{Format: lsm.FormatNative, Keys: keys})
	base.opts.DisableCompaction = false
	if err := base.open(); err != nil {
		return err
	}
	errs := make([]error, worlds)
	list := make([]*World, worlds)
	var wg sync.WaitGroup
	for i := range list {
		w := base.neighbour(seed, i, keys)
		list[i] = w
		wg.Go(func() {
			if err := w.live(n); err != nil {
				errs[i] = fmt.Errorf("world %d: %w\n%s", i, err, strings.Join(w.trace, "\n"))
			}
		})
	}
	wg.Wait()
	fs := base.fs.CrashClone(vfs.KeepAll())
	for _, w := range list {
		w.release()
	}
	err := errors.Join(append(errs, base.db.Close())...)
	if err != nil {
		return err
	}
	db, err := lsm.Open(base.dir, base.options(fs))
	if err != nil {
		return err
	}
	for _, w := range list {
		errs = append(errs, w.compare("after a kill", db, w.m))
	}
	return errors.Join(append(errs, db.Close())...)
}

// neighbour makes a world in the database of w, with keyspaces and files of its own.
func (w *World) neighbour(seed int64, i, keys int) *World {
	n := newWorld(uint64(seed)*100+uint64(i), Settings{Format: w.format, Keys: keys})
	n.fs, n.dir, n.opts, n.db, n.clock, n.beside = w.fs, w.dir, w.opts, w.db, w.clock, true
	n.made = (i + 1) * 1_000_000
	n.spaces = n.spaces[1:]
	delete(n.m, defaultLife)
	delete(n.durable, defaultLife)
	delete(n.written, defaultLife)
	for _, s := range n.spaces {
		s.name = fmt.Sprintf("%s of world %d", s.name, i)
	}
	shared := map[string]bool{}
	for _, list := range [][]step{writes, reads, transactions, spaces, bulk, care} {
		for _, s := range list {
			shared[s.name] = !alone[s.name]
		}
	}
	for i, s := range steps {
		if !shared[s.name] {
			n.weights[i] = 0
		}
	}
	return n
}

// live makes the keyspaces and runs n steps in them.
func (w *World) live(n int) error {
	for _, s := range w.spaces {
		if err := w.make(s); err != nil {
			return err
		}
	}
	rng := rand.New(rand.NewPCG(w.rng.Uint64(), 3))
	for range n {
		if err := w.do(rng.Uint64()); err != nil {
			return err
		}
	}
	return w.all("at the end")
}
