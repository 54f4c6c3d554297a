package replicate

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/seed"
	"github.com/loamdb/loam/lsm"
)

// TestDirHistories sends a database to a directory, deletes what is older than some seconds, and
// begins anew at random, while calls of the directory's file system fail with and without effect,
// and the power goes away under it. Each state that is kept is restored as it was sent.
func TestDirHistories(t *testing.T) {
	for i := range seed.Scale(2, 6, 60) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			from := uint64(seed.Of(t))
			d := &dirHistory{t: t, r: rand.New(rand.NewPCG(from, 3)), mem: vfs.NewMem(),
				faults: rand.New(rand.NewPCG(from, 4)), count: map[string]int{}}
			d.live()
			t.Log(d.count)
		})
	}
}

type dirHistory struct {
	t      *testing.T
	r      *rand.Rand
	mem    *vfs.Mem // of the target
	script *script

	mu     sync.Mutex
	faulty int
	faults *rand.Rand
	count  map[string]int
}

const dirKeep = 8 * time.Second

func (d *dirHistory) hook(op vfs.Op) (out vfs.Outcome) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.faulty == 0 || d.faults.IntN(d.faulty) != 0 {
		return out
	}
	out.Err = []error{syscall.EIO, syscall.ENOSPC}[d.faults.IntN(2)]
	out.Done = d.faults.IntN(2) == 0
	if op.N > 0 {
		out.Short = d.faults.IntN(int(op.N) + 1)
	}
	return out
}

func (d *dirHistory) fail(faulty int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faulty = faulty
}

// begin makes a replicator.
func (d *dirHistory) begin() {
	target, err := Dir("disk/replica", vfs.NewFault(d.mem, d.hook))
	must(d.t, err)
	d.script.run = runnerOf(d.t, d.script.db, target, d.script.o)
}

func (d *dirHistory) live() {
	must(d.t, d.mem.MkdirAll("disk"))
	must(d.t, d.mem.SyncDir("."))
	s := newScript(d.t)
	d.script = s
	s.run.close()
	s.o = Options{Clock: s.clock.time, SnapshotEvery: 3 * time.Second, Keep: dirKeep,
		SegmentBytes: 1 + d.r.IntN(200)}
	d.begin()
	for range 50 {
		d.write()
		switch d.r.IntN(12) {
		case 0:
			s.run.close()
			d.begin()
			d.count["begun"]++
		case 1:
			keep := []vfs.CrashOptions{vfs.KeepAll(), vfs.DropAll(),
				vfs.RandomBlocks(d.r)}[d.r.IntN(3)]
			after := d.mem.CrashClone(keep)
			s.run.close()
			d.mem = after
			d.begin()
			d.count["cut"]++
		}
		if d.r.IntN(3) == 0 {
			d.fail(1 + d.r.IntN(30))
			err := s.send()
			d.fail(0)
			if err != nil {
				d.count["failed"]++
				continue
			}
		} else {
			must(d.t, s.send())
		}
		d.count["sent"]++
		if d.r.IntN(8) == 0 {
			d.check()
		}
	}
	s.run.close()
	d.check()
}

func (d *dirHistory) write() {
	s := d.script
	s.clock.add(time.Duration(d.r.IntN(2000)) * time.Millisecond)
	s.n++
	for range d.r.IntN(5) {
		s.put(fmt.Sprint("k", d.r.IntN(20)))
	}
	var err error
	switch d.r.IntN(20) {
	case 0:
		_, err = s.db.Keyspace(fmt.Sprint("s", d.r.IntN(3)), nil)
	case 1:
		if all := s.db.Keyspaces(); len(all) > 1 {
			err = s.db.DropKeyspace(all[len(all)-1])
		}
	case 2:
		err = s.db.BulkLoad(ctx, func(yield func(k, v []byte) bool) {
			yield([]byte("loaded"), fmt.Append(nil, s.n))
		}, nil)
	}
	must(d.t, err)
}

func (d *dirHistory) check() {
	target, err := Dir("disk/replica", d.mem)
	must(d.t, err)
	now := d.script.clock.time()
	for i, m := range d.script.states {
		if now.Sub(m.at) > dirKeep {
			continue
		}
		o := &lsm.Options{FS: vfs.NewMem(), Clock: func() time.Time { return m.now }}
		made, err := Restore(ctx, target, "new", &RestoreOptions{At: m.at, Open: o})
		if err != nil {
			d.t.Fatalf("state %d of %d: %v", i, len(d.script.states), err)
		}
		db, err := lsm.Open("new", o)
		must(d.t, err)
		if diff := contentsOf(d.t, db).diff(m.want); diff != "" {
			d.t.Errorf("state %d of %d, %+v: %s", i, len(d.script.states), made, diff)
		}
		must(d.t, db.Close())
		d.count["restored"]++
	}
}
