package runner

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/loamdb/loam/internal/kvbench/machine"
	"github.com/loamdb/loam/internal/workload"
	"github.com/loamdb/loam/internal/workload/store"
)

// runShared runs a benchmark on databases of its own that share memory.
func (r *Runner) runShared(ctx context.Context, spec *workload.Spec,
	res Result) (_ Result, rerr error) {
	d, ok := r.Driver.(store.Sharing)
	if !ok {
		res.Skipped = r.Driver.Title() + " has no databases that share memory"
		return res, nil
	}
	if err := r.Close(); err != nil { // its memory would count
		return res, fmt.Errorf("close: %w", err)
	}
	dirs := make([]string, spec.Share.Databases)
	destroy := func() (err error) {
		for _, dir := range dirs {
			err = errors.Join(err, r.Driver.Destroy(dir))
		}
		return err
	}
	for i := range dirs {
		dirs[i] = fmt.Sprintf("%s-kvbench-shared%d", r.Dir, i)
	}
	if err := destroy(); err != nil {
		return res, err
	}
	defer func() { rerr = errors.Join(rerr, destroy()) }()
	debug.FreeOSMemory() // what was used before goes on no account
	watch := machine.WatchResident()
	all, err := d.OpenShared(dirs, spec.Share.Memory, r.Config)
	if err == nil {
		r.shared = all
		res, err = r.measure(ctx, spec, res)
		r.shared = nil
	}
	if most, ok := watch.Finish(); ok {
		res.Resident = &most
	}
	for _, db := range all {
		err = errors.Join(err, db.Close())
	}
	if errors.Is(err, errors.ErrUnsupported) {
		return Result{Name: spec.Name, Skipped: err.Error()}, nil
	}
	res.Shared = spec.Share.Memory
	if res.Resident != nil {
		res.Message = fmt.Sprintf("(resident: %d of %d MiB at most)", *res.Resident>>20,
			res.Shared>>20)
	}
	return res, err
}

// share writes and reads in turn. The quiet database has a tenth of the entries when the clock
// starts.
func (t *thread) share(spec *workload.Spec) {
	pick, db := t.picker(spec.Order), t.own
	put := func() error {
		n := pick.next(&t.rand)
		key, value := t.keys.Present(n), t.value(n)
		t.bytes += int64(len(key) + len(value))
		return db.Put(key, value, t.durable())
	}
	if spec.Share.Rate > 0 && !t.away(func() error {
		for range t.r.Params.Num / 10 {
			if err := put(); err != nil || t.stop.Load() {
				return err
			}
		}
		return nil
	}) {
		return
	}
	t.bytes = 0
	for i := range t.ops {
		err := error(nil)
		if i%2 == 0 {
			err = put()
		} else {
			t.buf, _, err = db.Get(t.keys.Present(pick.next(&t.rand)), t.buf[:0])
		}
		if err != nil {
			t.fail(err)
			return
		}
		if !t.tick() {
			return
		}
		t.keepRate()
	}
}
