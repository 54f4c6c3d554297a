package locks

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/testkit/script"
)

// TestScripts runs testdata/scripts, each with a table of its own and a clock that moves
// only by pass. The commands:
//
//	lock OWNER KEY      begins to lock, in=N keyspace N, timeout=2s
//	release OWNER       gives back all locks of the owner
//	pass for=3s         time passes
//	stop OWNER, close   ends waits
//	stats
//
// Each prints what became of calls of lock since the command before.
func TestScripts(t *testing.T) {
	script.RunDir(t, "testdata/scripts", func(t *testing.T) func(*script.Command) string {
		x := &lockScript{table: New(), owners: map[string]*owner{},
			done: make(chan string, 100), pass: func(d time.Duration) {
				synctest.Wait()
				time.Sleep(d) // of the bubble that RunDir makes
			}}
		t.Cleanup(func() {
			if !x.closed {
				x.table.Close()
			}
		})
		return x.run
	})
}

type owner struct {
	Owner
	stop chan struct{}
}

type lockScript struct {
	table  *Table
	owners map[string]*owner
	done   chan string // what ended calls of lock
	pass   func(time.Duration)
	closed bool
}

func (x *lockScript) run(c *script.Command) string {
	var args []string
	for _, a := range c.Args() {
		if len(a.Values) == 0 {
			args = append(args, a.Key)
		}
	}
	switch c.Name {
	case "lock":
		x.lock(c, x.owner(args[0]), args[1])
	case "release":
		x.table.ReleaseAll(&x.owner(args[0]).Owner)
	case "stop":
		close(x.owner(args[0]).stop)
	case "close":
		x.closed = true
		x.table.Close()
	case "pass":
		x.pass(duration(c, "for"))
	case "stats":
		s := x.table.Stats()
		return fmt.Sprintf("%d held, %d waits, %d deadlocks, %d timeouts", s.Held, s.Waits,
			s.Deadlocks, s.Timeouts)
	default:
		return c.Unknown()
	}
	synctest.Wait()
	var out []string
	for len(x.done) > 0 {
		out = append(out, <-x.done)
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

func (x *lockScript) owner(name string) *owner {
	o := x.owners[name]
	if o == nil {
		o = &owner{stop: make(chan struct{})}
		o.Name, o.Stop = name, o.stop
		x.owners[name] = o
	}
	return o
}

func (x *lockScript) lock(c *script.Command, o *owner, key string) {
	timeout, id := duration(c, "timeout"), base.KeyspaceID(c.Int("in", 0))
	go func() {
		waited, err := x.table.Acquire(&o.Owner, id, base.Bytewise, []byte(key), timeout)
		said := fmt.Sprintf("%s has %s", o.Name, key)
		var d *Deadlock
		switch {
		case errors.As(err, &d):
			said = fmt.Sprintf("%s fails: %s", o.Name, d)
		case err != nil:
			said = fmt.Sprintf("%s fails: %s", o.Name, err)
		}
		if waited {
			said += " after a wait"
		}
		x.done <- said
	}()
}

// duration is an argument, negative where it is missing.
func duration(c *script.Command, key string) time.Duration {
	d, err := time.ParseDuration(c.Arg(key, "-1s"))
	if err != nil {
		c.Fail("%v", err)
	}
	return d
}
