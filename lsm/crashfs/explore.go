package crashfs

import (
	"fmt"
	"iter"
	"syscall"
)

// Plan says what is tried. The zero Plan tries all losses at every call.
type Plan struct {
	// Losses are tried at each call; nil: all.
	Losses []Loss
	// Errors fail calls; nil: syscall.EIO and syscall.ENOSPC.
	Errors []error
	// Every is the distance of the calls that are tried, for programs with many; 0: 1, every call.
	Every int
	// Seed draws for RandomBlocks and TornWrite, and, where Every is more than 1, the first call.
	Seed uint64
}

// Crash is one power cut.
type Crash struct {
	FS   *FS    // what is left of the disk; nothing fails there
	Call int    // the power was cut before this call, counted from 1; 0: the program had ended
	Op   string // the call, with the name of its file
	Loss Loss   // what was lost
	Seed uint64 // that of the Plan
}

// String says when the power was cut, and what was lost.
func (c *Crash) String() string {
	when := "after the end"
	if c.Call > 0 {
		when = fmt.Sprintf("before call %d (%s)", c.Call, c.Op)
	}
	return fmt.Sprintf("power cut %s, %v, seed %d", when, c.Loss, c.Seed)
}

// Crashes runs a program again and again, see Plan.Crashes.
func Crashes(run func(*FS)) iter.Seq[*Crash] { return (&Plan{}).Crashes(run) }

// Crashes runs a program on an empty file system and cuts the power before the first call that may
// change what a crash leaves, runs it anew and cuts before the second one, and so on, until it ends
// by itself. After each run it hands out what each of the losses leaves.
//
// run has to end when the file system fails, and to begin anew each time. It does not have to close
// its database. A program that uses several goroutines may make its calls in another order each
// time, which is no harm. The number of runs is the number of calls, so a program for a test is
// short.
func (p *Plan) Crashes(run func(*FS)) iter.Seq[*Crash] {
	return func(yield func(*Crash) bool) {
		for call := p.first(); ; call += p.step() {
			fs := New()
			fs.CutAt(call)
			run(fs)
			op, cut := fs.stopped()
			if !cut {
				call = 0
			}
			for _, l := range p.losses() {
				c := &Crash{FS: fs.Crash(l, p.Seed+uint64(call)), Call: call, Op: op, Loss: l,
					Seed: p.Seed}
				if !yield(c) {
					return
				}
			}
			if !cut {
				return
			}
		}
	}
}

// Fault is one failure.
type Fault struct {
	FS      *FS    // the disk after the end of the process, without faults
	Call    int    // the call that failed, counted from 1
	Op      string // the call, with the name of its file
	Err     error  // the cause
	Forever bool   // all later calls failed, too
}

// String says what failed, and how.
func (f *Fault) String() string {
	often := "once"
	if f.Forever {
		often = "for ever"
	}
	return fmt.Sprintf("call %d (%s) failed %s: %v", f.Call, f.Op, often, f.Err)
}

// Faults runs a program again and again, see Plan.Faults.
func Faults(run func(*FS)) iter.Seq[*Fault] { return (&Plan{}).Faults(run) }

// Faults runs a program on an empty file system whose first call fails, of any kind, anew with the
// second one failing, and so on, until the program has fewer calls, with each of the errors, once
// and for ever. After each run it hands out the disk as the end of the process leaves it: nothing
// is lost that was written.
func (p *Plan) Faults(run func(*FS)) iter.Seq[*Fault] {
	return func(yield func(*Fault) bool) {
		for call := p.first(); ; call += p.step() {
			any := false
			for _, f := range p.faults() {
				fs := New()
				fs.FailAt(call, f.Err, f.Forever)
				run(fs)
				op, hit := fs.stopped()
				if !hit {
					continue
				}
				any = true
				f.FS, f.Call, f.Op = fs.Crash(KeepAll, 0), call, op
				if !yield(&f) {
					return
				}
			}
			if !any {
				return
			}
		}
	}
}

func (p *Plan) step() int { return max(p.Every, 1) }

// first is the first call that is tried.
func (p *Plan) first() int { return 1 + int(p.Seed%uint64(p.step())) }

func (p *Plan) losses() (all []Loss) {
	if p.Losses != nil {
		return p.Losses
	}
	for l := range losses {
		all = append(all, l)
	}
	return all
}

func (p *Plan) faults() (all []Fault) {
	errs := p.Errors
	if errs == nil {
		errs = []error{syscall.EIO, syscall.ENOSPC}
	}
	for _, err := range errs {
		all = append(all, Fault{Err: err}, Fault{Err: err, Forever: true})
	}
	return all
}
