package values

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/lsm"
)

// merging are options with a merge operator, and a compaction filter that makes values longer whose
// key begins with "change".
func merging(o *lsm.Options) {
	o.MergeOperator = lsm.MergeOperatorNamed("append:")
	o.CompactionFilter = &lsm.CompactionFilter{Name: "test",
		Filter: func(_ int, key, value []byte) (lsm.FilterDecision, error) {
			if !bytes.HasPrefix(key, []byte("change")) ||
				bytes.HasSuffix(value, []byte("changed")) {
				return lsm.FilterKeep, nil
			}
			return lsm.FilterChange(append(bytes.Clone(value), "changed"...)), nil
		}}
}

// merge adds an operand to a key.
func (d *database) merge(key string, operand []byte) {
	d.t.Helper()
	d.must(d.Merge([]byte(key), operand, lsm.NoSync))
	d.want[key] = append(bytes.Clone(d.want[key]), operand...)
}

// tableBytes are those of all tables.
func (d *database) tableBytes() (n uint64) {
	for _, l := range d.Metrics().Levels {
		n += l.Bytes
	}
	return n
}

// TestMerged folds operands onto values of each size, in flushes and in compactions: large results
// lie in value files, and later compactions do not move them.
func TestMerged(t *testing.T) {
	fsys := vfs.NewMem()
	d := open(t, fsys, nil, merging)
	for i, n := range sizes {
		key := fmt.Sprintf("key %02d", i)
		d.put(key, valueOf(i, n)) // folded by the flush
		d.merge(key, []byte("+first"))
	}
	d.merge("alone", valueOf(50, 3000))
	d.merge("alone", valueOf(51, 3000))
	d.must(d.Flush())
	check(t, d, d.want)
	m := d.Metrics().Values
	if m.Files != 1 || m.Bytes < uint64(d.wantBytes())-1000 || d.tableBytes() > 20_000 {
		t.Errorf("after a flush: %+v, %d bytes of tables", m, d.tableBytes())
	}
	snap, old := d.Snapshot(), maps.Clone(d.want)
	for i := range sizes {
		d.merge(fmt.Sprintf("key %02d", i), valueOf(100+i, 500))
	}
	d.must(d.Flush())
	d.must(d.CompactRange(nil, nil))
	check(t, d, d.want)
	check(t, snap, old)
	d.must(snap.Close())
	d.merge("key 03", []byte("+last"))
	const ttl = time.Hour
	d.must(d.PutTTL([]byte("change it"), valueOf(80, 5000), ttl, lsm.NoSync))
	d.want["change it"] = valueOf(80, 5000)
	d.must(d.Flush())
	d.must(d.CompactRange(nil, nil))
	d.want["change it"] = append(bytes.Clone(d.want["change it"]), "changed"...)
	check(t, d, d.want)
	if n := d.tableBytes(); n > 20_000 {
		t.Errorf("%d bytes of tables", n)
	}
	if left, expires, err := d.TTL([]byte("change it")); err != nil || !expires ||
		left > ttl+time.Second {
		t.Errorf("the changed value expires: %v, %v, %v", expires, left, err)
	}
	before := d.Metrics().Values
	d.must(d.CompactRange(nil, nil))
	if now := d.Metrics().Values; now.Bytes != before.Bytes || now.Relocated != 0 {
		t.Errorf("another compaction: %+v, before %+v", now, before)
	}
	for range 2 {
		check(t, d, d.want)
		d.must(d.Verify(t.Context(), nil))
		d.must(d.Close())
		d = open(t, fsys, d.want, merging)
	}
	d.must(d.DeleteRange([]byte("a"), []byte("z"), lsm.NoSync))
	d.must(d.CompactRange(nil, nil))
	d.must(d.Close())
	if names := valueFiles(t, fsys); len(names) > 0 {
		t.Errorf("value files without a value: %v", names)
	}
}

// TestMergedRecovery folds operands in a recovery, which has more than it carries into its log.
func TestMergedRecovery(t *testing.T) {
	fsys := vfs.NewMem()
	d := open(t, fsys, nil, merging)
	for i := range 4 {
		d.put(fmt.Sprintf("key %d", i), valueOf(i, 60_000))
		d.merge(fmt.Sprintf("key %d", i), valueOf(10+i, 100))
	}
	killed := open(t, fsys.Clone(), maps.Clone(d.want), merging)
	check(t, killed, killed.want)
	if m := killed.Metrics().Values; m.Files == 0 {
		t.Errorf("merged values are whole: %+v", m)
	}
	killed.must(killed.Verify(t.Context(), nil))
	killed.must(killed.Close())
	d.must(d.Close())
}

// TestMergedFails fails calls on value files of a flush and of a compaction. Nothing is lost, and
// what the failed ones made is deleted.
func TestMergedFails(t *testing.T) {
	for _, kind := range []vfs.OpKind{vfs.OpCreate, vfs.OpWrite, vfs.OpSync} {
		t.Run(fmt.Sprint(kind), func(t *testing.T) {
			mem := vfs.NewMem()
			var fails atomic.Bool
			failed := make(chan struct{}, 1)
			d := open(t, vfs.NewFault(mem, func(op vfs.Op) vfs.Outcome {
				if op.Kind == kind && filepath.Ext(op.Name) == ".val" && fails.CompareAndSwap(true,
					false) {
					failed <- struct{}{}
					return vfs.Outcome{Err: syscall.ENOSPC}
				}
				return vfs.Outcome{}
			}), nil, merging)
			for round := range 3 {
				for i := range 3 {
					d.merge(fmt.Sprintf("key %d", i), valueOf(10*round+i, 2000))
				}
				if round < 2 {
					fails.Store(round == 0)
					if err := d.Flush(); err != nil { // tried again by itself
						d.must(d.Flush())
					}
				}
				check(t, d, d.want)
			}
			<-failed
			d.must(d.Flush())
			fails.Store(true)
			if err := d.CompactRange(nil, nil); !errors.Is(err, lsm.ErrNoSpace) {
				t.Errorf("the compaction: %v", err)
			}
			<-failed
			check(t, d, d.want)
			d.must(d.CompactRange(nil, nil))
			check(t, d, d.want)
			files := d.Metrics().Values.Files
			d.must(d.Close())
			if left := valueFiles(t, mem); len(left) != files || files == 0 {
				t.Errorf("value files %v, tables refer to %d", left, files)
			}
			d = open(t, mem, d.want, merging)
			check(t, d, d.want)
			d.must(d.Close())
		})
	}
}

// TestOperandsThatStay: the values below operands that cannot be folded are no values of past
// snapshots. A table is not rewritten for their sake, again and again.
func TestOperandsThatStay(t *testing.T) {
	var mu sync.Mutex
	reasons := map[string]int{}
	change := func(o *lsm.Options) {
		o.WriteBufferSize, o.WALPreallocate = 1<<20, -1
		o.MergeOperator = &lsm.MergeOperator{Name: "fails", Full: func(_, _, _ []byte,
			_ [][]byte) ([]byte, error) {
			return nil, errors.New("not today")
		}}
		o.Events = &lsm.EventListener{CompactionBegin: func(c lsm.CompactionInfo) {
			mu.Lock()
			defer mu.Unlock()
			reasons[c.Reason]++
		}}
	}
	fsys := vfs.NewMem()
	d := open(t, fsys, nil, change)
	const n = 1000
	for i := range n {
		d.must(d.Put(fmt.Appendf(nil, "%04d", i), valueOf(i, 4000), lsm.NoSync))
	}
	d.must(d.Flush())
	for i := range n {
		d.must(d.Merge(fmt.Appendf(nil, "%04d", i), []byte("a"), lsm.NoSync))
	}
	d.must(d.CompactRange(nil, nil))
	if d.Metrics().Values.Bytes != 4000*n {
		t.Errorf("values were folded: %+v", d.Metrics().Values)
	}
	d.must(d.Close())
	d = open(t, fsys, nil, change)
	d.ResumeCompaction()
	d.PauseCompaction() // what could begin has begun
	d.must(d.Close())
	mu.Lock()
	defer mu.Unlock()
	if reasons["values of past snapshots"] > 0 {
		t.Errorf("compactions by their reasons: %v", reasons)
	}
}
