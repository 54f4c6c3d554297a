package crash

import (
	"path"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit"
	"github.com/loamdb/loam/internal/testkit/fstest"
	"github.com/loamdb/loam/internal/testkit/script"
	"github.com/loamdb/loam/lsm"
)

// tracer runs the commands of a trace script and notes the file-system calls
// that each makes, in their order.
type tracer struct {
	fs     vfs.FS
	format lsm.Format
	trace  *fstest.Trace
	seen   int
	db     *lsm.DB
	l      testkit.Ledger
	last   int
}

// run executes one command, waits until its background work is done, and
// returns the calls.
func (tr *tracer) run(c *script.Command) string {
	var err error
	switch c.Name {
	case "open":
		o := options()
		o.FS, o.Format, o.WALPreallocate, o.DisableCompaction = tr.fs, tr.format, -1, true
		tr.db, err = lsm.Open(dir, &o)
	case "write":
		mode := lsm.NoSync
		if c.Has("sync") {
			mode = lsm.Sync
		}
		b := lsm.NewBatch()
		for range c.Int("n", 1) {
			tr.last++
			tr.l.Fill(b, tr.last)
			if err = tr.db.Write(b, mode); err != nil {
				break
			}
		}
	case "flush":
		err = tr.db.Flush()
	case "compact":
		err = tr.db.CompactRange(nil, nil)
	case "close":
		err = tr.db.Close()
	default:
		return c.Unknown()
	}
	failure := ""
	if err != nil {
		failure = "error: " + err.Error() + "\n"
	}
	time.Sleep(10 * time.Second) // of the bubble's clock
	synctest.Wait()
	ops := tr.trace.Ops()
	out := lines(ops[tr.seen:]) + failure
	tr.seen = len(ops)
	return out
}

// lines prints the calls that durability hangs on. Left out is what changes
// nothing, and what goes on beside, in no fixed order: removals, and the
// sync of a log that is full. Repeated writes are one line.
func lines(ops []vfs.Op) string {
	var b strings.Builder
	last := ""
	for _, op := range ops {
		log := fstest.TypeOf(op.Name) == base.FileLog
		if !changes(op.Kind) || op.Kind == vfs.OpRemove || op.Kind == vfs.OpClose ||
			log && op.Kind == vfs.OpSync {
			continue
		}
		line := op.Kind.String() + " " + path.Base(op.Name)
		if line != last {
			b.WriteString(line + "\n")
		}
		last = line
	}
	return b.String()
}

// TestTraces holds the order of file-system calls against what was thought
// through once: testdata/trace and testdata/trace-native.
func TestTraces(t *testing.T) {
	for name, format := range map[string]lsm.Format{"trace": lsm.FormatLevelDB,
		"trace-native": lsm.FormatNative} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := &tracer{format: format, trace: &fstest.Trace{}, l: testkit.Ledger{Seed: 1}}
				tr.fs = vfs.NewFault(vfs.NewMem(), tr.trace.Hook(func(vfs.Op) vfs.Outcome {
					return vfs.Outcome{}
				}))
				script.Run(t, "testdata/"+name, tr.run)
			})
		})
	}
}
