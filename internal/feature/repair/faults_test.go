package repair

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"path"
	"syscall"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
)

// TestFaults fails each call in turn: the error comes back, no file's contents
// are lost, and a repair without faults then works as if it were the first.
func TestFaults(t *testing.T) {
	b := build(t, 2)
	check(t, b.m.Remove("db/CURRENT"))
	name := path.Join(dir, base.LevelDB.FileName(base.FileLog, b.logNum))
	replace(t, b.m, name, contents(t, b.m, name)+"torn")
	for at := 0; ; at++ {
		m := b.m.Clone()
		before := tree(t, m, dir)
		n := 0
		var op vfs.Op
		_, err := Run(repairOptions(vfs.NewFault(m, func(o vfs.Op) vfs.Outcome {
			if n++; n == at+1 {
				op = o
				return vfs.Outcome{Err: syscall.EIO, Short: int(o.N) / 2}
			}
			return vfs.Outcome{}
		})))
		if n <= at {
			check(t, err)
			break
		}
		if err == nil && op.Kind != vfs.OpClose {
			t.Errorf("%v: not reported", op)
		}
		if err != nil && !errors.Is(err, syscall.EIO) {
			t.Errorf("%v: %v", op, err)
		}
		rep, err := Run(repairOptions(m))
		if err != nil {
			t.Errorf("%v: again: %v", op, err)
			continue
		}
		b.checkRepaired(m, before, rep, verdict{})
	}
}

// TestCrashes cuts the power at each call of a repair.
func TestCrashes(t *testing.T) {
	b := build(t, 4)
	check(t, b.m.SyncDir("."))
	check(t, b.m.SyncDir(dir))
	for name, data := range tree(t, b.m, dir) {
		if name == "db/CURRENT" {
			check(t, b.m.Remove(name))
			continue
		}
		if bytes.HasSuffix([]byte(name), []byte(".log")) {
			data += "torn"
		}
		replace(t, b.m, name, data)
	}
	check(t, b.m.SyncDir(dir))
	rng := rand.New(rand.NewPCG(9, 9))
	for at := 0; ; at++ {
		m := b.m.Clone()
		before := tree(t, m, dir)
		n := 0
		var crashed []*vfs.Mem
		_, err := Run(repairOptions(vfs.NewFault(m, func(vfs.Op) vfs.Outcome {
			if n++; n == at+1 {
				crashed = append(crashed, m.CrashClone(vfs.DropAll()), m.CrashClone(vfs.KeepAll()),
					m.CrashClone(vfs.RandomBlocks(rng)))
			}
			if n > at {
				return vfs.Outcome{Err: syscall.EIO}
			}
			return vfs.Outcome{}
		})))
		if err == nil {
			break
		}
		for _, c := range crashed {
			rep, err := Run(repairOptions(c))
			if err != nil {
				t.Errorf("call %d: %v", at, err)
				continue
			}
			if rep.Manifest == "" {
				continue // complete but for the moving
			}
			b.checkRepaired(c, before, rep, verdict{})
		}
	}
}
