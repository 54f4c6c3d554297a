package crash

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync/atomic"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit"
	"github.com/loamdb/loam/internal/testkit/fstest"
	"github.com/loamdb/loam/lsm"
)

// Repairs repairs crash states of every workload, and then the golden database
// with each of the damages that stride leaves, and returns how many that was.
// Of the crash states of a workload it takes those at each every-th call.
func Repairs(seed int64, every, stride int) (int64, error) {
	var n atomic.Int64
	for i := range workloads {
		w := &workloads[i]
		l := newSession(w, seed, nil, false).ledger
		repairs := func(s state) error {
			n.Add(1)
			return repairState(s, l)
		}
		if _, err := explore(w, seed, int64(every), repairs); err != nil {
			return n.Load(), err
		}
	}
	g, err := makeGolden(seed, lsm.DefaultFormat)
	if err != nil {
		return n.Load(), err
	}
	err = g.each(thin(g.damages(false), stride, seed), func(fs *vfs.Mem, d damage) error {
		n.Add(1)
		return g.repairDamage(fs, g.unprotected(d))
	})
	if err != nil {
		err = fmt.Errorf("seed %d: %w", seed, err)
	}
	return n.Load(), err
}

// repairState repairs what a power cut left. A log of which later parts have
// reached the disk and earlier ones not looks damaged; then the repaired
// database holds more than an opening finds, but all that was synced.
func repairState(s state, l *testkit.Ledger) error {
	report, err := repairTwice(s.fs)
	if errors.Is(err, lsm.ErrDoesNotExist) && s.lo == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	o := options()
	o.FS = s.fs
	db, err := lsm.Open(dir, &o)
	if err != nil {
		return fmt.Errorf("open after repair: %w", err)
	}
	defer db.Close()
	if len(report.Dropped) == 0 {
		_, err = l.Check(db, s.lo, s.hi)
	} else {
		err = within(db, l, s.lo, s.hi)
	}
	if err != nil {
		return fmt.Errorf("after repair, which says %+v: %w", *report, err)
	}
	return db.Close()
}

// within wants each key to be as some batch from lo to hi left it, or as it
// was before.
func within(db *lsm.DB, l *testkit.Ledger, lo, hi int) error {
	may := map[string]map[string]bool{} // key -> values; "" is none
	for i := 1; i <= hi; i++ {
		for _, w := range l.Batch(i) {
			if may[w.Key] == nil {
				may[w.Key] = map[string]bool{"": true}
			}
			if i <= lo {
				clear(may[w.Key])
			}
			may[w.Key][w.Value] = true
		}
	}
	pairs, err := testkit.Dump(db)
	if err != nil {
		return err
	}
	for _, p := range pairs {
		if p.Value == "" || !may[p.Key][p.Value] {
			return fmt.Errorf("%q=%.40q, which it was not between batches %d and %d", p.Key,
				p.Value, lo, hi)
		}
		delete(may, p.Key)
	}
	for key, values := range may {
		if !values[""] {
			return fmt.Errorf("%q is missing between batches %d and %d", key, lo, hi)
		}
	}
	return nil
}

// repairDamage repairs a damaged golden database. What it holds then was
// written at some time; what it does not hold is in the report.
func (g *golden) repairDamage(fs *vfs.Mem, unprotected bool) error {
	report, err := repairTwice(fs)
	if err != nil {
		return err
	}
	o := options()
	o.FS = fs
	db, err := lsm.Open(dir, &o)
	if err != nil {
		return fmt.Errorf("open after repair: %w", err)
	}
	defer db.Close()
	pairs, err := testkit.Dump(db)
	if err != nil {
		return fmt.Errorf("after repair: %w", err)
	}
	for _, p := range pairs {
		if !g.wrote[p] {
			return fmt.Errorf("after repair: %q=%.40q was never written", p.Key, p.Value)
		}
	}
	if len(report.Dropped) > 0 || report.LevelsLost {
		return db.Close()
	}
	last := g.last
	if unprotected {
		if last, err = testkit.Last(db); err != nil {
			return err
		}
	}
	if err := testkit.Same(db, g.ledger.State(last)); err != nil {
		return fmt.Errorf("after repair, which reports no drop: %w", err)
	}
	return db.Close()
}

// repairTwice repairs, wants the originals kept, and wants a second repair to
// find nothing to do.
func repairTwice(fs *vfs.Mem) (*lsm.RepairReport, error) {
	before, err := contents(fs, dir)
	if err != nil {
		if list, _ := fs.List("."); len(list) == 0 {
			return nil, lsm.ErrDoesNotExist // the directory itself was lost
		}
		return nil, err
	}
	o := options()
	o.FS = fs
	report, err := lsm.Repair(dir, &o)
	if err != nil {
		return nil, fmt.Errorf("repair: %w", err)
	}
	after, err := contents(fs, dir)
	if err != nil {
		return nil, err
	}
	if err := kept(fs, before, after, report); err != nil {
		return nil, err
	}
	second, err := lsm.Repair(dir, &o)
	if err != nil {
		return nil, fmt.Errorf("second repair: %w", err)
	}
	if second.Changed() {
		return nil, fmt.Errorf("the second repair was not the last: first %+v, second %+v", *report,
			*second)
	}
	again, err := contents(fs, dir)
	if err != nil {
		return nil, err
	}
	return report, same(after, again)
}

// kept wants every original still to be in its place, or set aside.
func kept(fs *vfs.Mem, before, after map[string][]byte, report *lsm.RepairReport) error {
	if !report.Changed() {
		return same(before, after)
	}
	aside, err := contents(fs, path.Join(dir, "lost"))
	if err != nil && len(report.SetAside) > 0 {
		return err
	}
	for name, b := range before {
		switch fstest.TypeOf(name) {
		case base.FileTable, base.FileLog, base.FileManifest:
		default:
			continue
		}
		found := bytes.Equal(after[name], b)
		for other, copied := range aside {
			found = found || strings.HasPrefix(other, name) && bytes.Equal(copied, b)
		}
		if !found {
			return fmt.Errorf("the original %s is neither in its place nor set aside: %+v", name,
				*report)
		}
	}
	return nil
}

// same wants two directories to be equal, but for the lock file.
func same(before, after map[string][]byte) error {
	for name, b := range before {
		if got, ok := after[name]; !ok || !bytes.Equal(got, b) {
			return fmt.Errorf("%s was changed by a repair with nothing to do", name)
		}
	}
	for name := range after {
		if _, ok := before[name]; !ok && name != base.LockName {
			return fmt.Errorf("%s was made by a repair with nothing to do", name)
		}
	}
	return nil
}

// contents reads the regular files of a directory.
func contents(fs *vfs.Mem, dir string) (map[string][]byte, error) {
	files, err := fstest.Tree(fs, dir)
	for name := range files {
		if strings.HasPrefix(name, "lost/") {
			delete(files, name)
		}
	}
	return files, err
}
