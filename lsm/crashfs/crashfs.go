package crashfs

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/loamdb/loam/internal/os/vfs"
)

// ErrPowerCut is the cause with which every call fails behind a power cut. What a program is
// told then does not matter: it would not run any more.
var ErrPowerCut = errors.New("crashfs: the power was cut")

// Loss says what a crash takes of that which was not synced.
type Loss uint8

const (
	// DropUnsynced loses everything that was not synced, as a power cut does at the worst.
	DropUnsynced Loss = iota
	// KeepAll loses nothing: the process dies, the machine goes on.
	KeepAll
	// RandomBlocks keeps each block of 4 KiB and each change of a directory, or loses it, and
	// tears half of the last appends somewhere.
	RandomBlocks
	// TornWrite keeps everything but the end of the last append to each file.
	TornWrite

	losses
)

var lossNames = [losses]string{"unsynced data dropped", "nothing lost", "random blocks lost",
	"last write torn"}

// String says it in words.
func (l Loss) String() string {
	if l < losses {
		return lossNames[l]
	}
	return fmt.Sprintf("loss %d", uint8(l))
}

// options returns what is kept, with choices that depend on the seed.
func (l Loss) options(seed uint64) vfs.CrashOptions {
	rng := rand.New(rand.NewPCG(seed, 0))
	switch l {
	case KeepAll:
		return vfs.KeepAll()
	case RandomBlocks:
		return vfs.RandomBlocks(rng)
	case TornWrite:
		o := vfs.KeepAll()
		o.Torn = func(_ string, n int) int { return rng.IntN(n) }
		return o
	}
	return vfs.DropAll()
}

// FS is a file system in memory. It is an lsm.FS, for Options.FS, with the methods of that
// interface. All paths are below a root of its own, which exists. It is safe for concurrent use.
type FS struct {
	*disk // asks before each call
	mem   *vfs.Mem

	mu      sync.Mutex // a leaf
	calls   int        // of any kind
	changes int        // calls that may change what a crash leaves
	last    string     // the call at which something was done
	fault   fault
	cutAt   int // the power is cut before this one of changes; 0: never
	off     bool
}

// disk is the methods of an FS.
type disk = vfs.Fault

// fault is what fails.
type fault struct {
	at      int // of calls; 0: none
	err     error
	forever bool
	hit     bool
}

// New returns an empty file system.
func New() *FS { return over(vfs.NewMem()) }

func over(mem *vfs.Mem) *FS {
	fs := &FS{mem: mem}
	fs.disk = vfs.NewFault(mem, fs.before)
	return fs
}

// before is asked before each call.
func (fs *FS) before(op vfs.Op) vfs.Outcome {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.off {
		return vfs.Outcome{Err: ErrPowerCut}
	}
	fs.calls++
	if changes(op.Kind) {
		if fs.changes++; fs.changes == fs.cutAt {
			fs.off, fs.last = true, op.String()
			return vfs.Outcome{Err: ErrPowerCut}
		}
	}
	if f := &fs.fault; f.at > 0 && (fs.calls == f.at || fs.calls > f.at && f.forever) {
		if !f.hit {
			f.hit, fs.last = true, op.String()
		}
		return vfs.Outcome{Err: f.err}
	}
	return vfs.Outcome{}
}

// changes reports whether a call can change what a crash leaves.
func changes(k vfs.OpKind) bool {
	switch k {
	case vfs.OpOpen, vfs.OpRead, vfs.OpList, vfs.OpStat, vfs.OpMap, vfs.OpTouch:
		return false
	}
	return true
}

// Calls counts the calls so far, of all kinds, and those among them that may change what a crash
// leaves: these are the calls before which CutAt cuts.
func (fs *FS) Calls() (all, changes int) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return fs.calls, fs.changes
}

// CutAt cuts the power before the n-th call, from 1, of those that may change what a crash leaves.
// That call and all behind it fail with ErrPowerCut, reads too. 0 means never.
func (fs *FS) CutAt(n int) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.cutAt = n
}

// FailAt fails the n-th call, from 1, of all kinds with err as the cause, and with forever all
// behind it, too. syscall.EIO and syscall.ENOSPC are the usual causes. The last FailAt counts; 0
// means that nothing fails any more.
func (fs *FS) FailAt(n int, err error, forever bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.fault = fault{at: n, err: err, forever: forever}
}

// Crash returns another file system, with what a crash now leaves on the disk; its own power is on,
// nothing in it fails, and all of it is synced. seed draws for RandomBlocks and TornWrite. fs goes
// on.
func (fs *FS) Crash(l Loss, seed uint64) *FS { return over(fs.mem.CrashClone(l.options(seed))) }

// stopped describes the call at which the power was cut or a call failed first; ok is false if
// neither happened.
func (fs *FS) stopped() (call string, ok bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return fs.last, fs.off || fs.fault.hit
}
