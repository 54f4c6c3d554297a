package values

import (
	"errors"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/lsm"
)

const unreadable, filtered = "key", "change me"

// badDisk is a database in which reads of one log fail.
type badDisk struct {
	*database
	bad  atomic.Pointer[string] // the log
	lost atomic.Int32           // reads of it that failed
}

// begin opens a database whose log is bad from breakLog on.
func begin(t *testing.T, change func(*lsm.Options)) *badDisk {
	l := &badDisk{}
	fsys := vfs.NewFault(vfs.NewMem(), func(op vfs.Op) vfs.Outcome {
		if bad := l.bad.Load(); op.Kind == vfs.OpRead && bad != nil && *bad == op.Name {
			l.lost.Add(1)
			return vfs.Outcome{Err: syscall.EIO}
		}
		return vfs.Outcome{}
	})
	l.database = open(t, fsys, nil, change)
	return l
}

func (l *badDisk) breakLog() {
	l.t.Helper()
	names := logs(l.t, l.fs, "db")
	bad := filepath.Join("db", names[0])
	l.bad.Store(&bad)
}

// rest checks that only the value of key cannot be read.
func (l *badDisk) rest(key string) {
	l.t.Helper()
	for k, v := range l.want {
		got, err := l.Get([]byte(k), nil)
		if k == key && !errors.Is(err, syscall.EIO) || k != key && (err != nil ||
			string(got) != string(v)) {
			l.t.Errorf("%s: %d bytes, %v", k, len(got), err)
		}
	}
	if l.lost.Load() < 2 {
		l.t.Errorf("%d reads of the log failed", l.lost.Load())
	}
}

// heal has the log readable again.
func (l *badDisk) heal() {
	l.t.Helper()
	l.bad.Store(nil)
	check(l.t, l, l.want)
	l.must(l.CompactRange(nil, nil))
	if _, ok := l.want[filtered]; ok {
		l.want[filtered] = append(l.want[filtered], "changed"...)
	}
	check(l.t, l, l.want)
	l.must(l.Verify(l.t.Context(), nil))
	l.must(l.Close())
}

// TestUnreadableValue has no read of a log succeed while operands are merged onto a value in it, a
// compaction filter is to see it, or its log is to be emptied. Flushes and compactions go on, other
// keys are as they were, and once the log can be read again nothing is missing.
func TestUnreadableValue(t *testing.T) {
	t.Run("merge", func(t *testing.T) {
		l := begin(t, merging)
		l.put(unreadable, valueOf(1, 5000))
		l.must(l.Flush())
		l.breakLog()
		l.merge(unreadable, []byte("+one"))
		l.put("other", valueOf(2, 3000))
		l.must(l.CompactRange(nil, nil))
		l.merge(unreadable, []byte("+two"))
		l.must(l.CompactRange(nil, nil))
		l.rest(unreadable)
		l.heal()
	})
	t.Run("filter", func(t *testing.T) {
		l := begin(t, merging)
		l.put(filtered, valueOf(1, 5000))
		l.must(l.Flush())
		l.breakLog()
		l.put("other", valueOf(2, 3000))
		l.must(l.CompactRange(nil, nil))
		l.rest(filtered)
		l.heal()
	})
	t.Run("relocation", func(t *testing.T) {
		l := begin(t, emptying)
		l.put(unreadable, valueOf(1, 1000))
		l.put("churn 0", valueOf(2, 60_000))
		l.must(l.Flush())
		l.breakLog()
		l.churn()
		for i := 0; i < 30 && l.lost.Load() == 0; i++ {
			l.put("churn 0", valueOf(900+i, 7000))
			l.must(l.CompactRange(nil, nil))
		}
		l.rest(unreadable)
		l.heal()
	})
}

// TestGarbageBesideUnreadable: the garbage in a log that cannot be emptied delays no writer for
// good.
func TestGarbageBesideUnreadable(t *testing.T) {
	l := begin(t, emptying)
	b := lsm.NewBatch() // one log has both
	l.want[unreadable], l.want["churn 0"] = valueOf(1, 1000), valueOf(2, 2_000_000)
	b.Put([]byte(unreadable), l.want[unreadable])
	b.Put([]byte("churn 0"), l.want["churn 0"])
	l.must(l.Write(b, lsm.NoSync))
	l.must(l.Flush())
	l.breakLog()
	for i := 0; i < 30 && l.lost.Load() == 0; i++ {
		l.put("churn 0", valueOf(900+i, 7000))
		l.must(l.CompactRange(nil, nil))
	}
	l.ResumeCompaction()
	for i := 0; ; i++ {
		l.put("churn 0", valueOf(1000+i, 7000))
		l.must(l.Flush())
		delay := l.Metrics().WriteDelayPerKiB
		if delay == 0 {
			break
		}
		if i == 30 {
			t.Fatalf("writers are delayed by %v a KiB, %+v", delay, l.Metrics().Values)
		}
		l.must(l.CompactRange(nil, nil))
	}
	l.rest(unreadable)
	l.heal()
}
