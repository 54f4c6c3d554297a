package values

import (
	"fmt"
	"maps"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/lsm"
)

// TestReads has values in memtables, tables of level 0, a compacted table, and another opening.
func TestReads(t *testing.T) {
	fsys := vfs.NewMem()
	d := open(t, fsys, nil, nil)
	check(t, d, d.want)
	d.fill(100)
	if st := d.Metrics(); st.Values.Logs == 0 {
		t.Error("no value log after a flush")
	}
	check(t, d, d.want)
	snap := d.Snapshot()
	old := map[string][]byte{}
	for k, v := range d.want {
		old[k] = v
	}
	d.fill(200)
	d.put("key 07", valueOf(300, 40_000)) // in the memtable
	check(t, d, d.want)
	check(t, snap, old)
	d.must(d.CompactRange(nil, nil))
	check(t, d, d.want)
	check(t, snap, old)
	d.must(snap.Close())
	d.must(d.CompactRange(nil, nil))
	check(t, d, d.want)
	d.must(d.Verify(t.Context(), nil))
	for range 2 {
		d.must(d.Close())
		d = open(t, fsys, d.want, nil)
		check(t, d, d.want)
		d.must(d.Verify(t.Context(), nil))
	}
	d.must(d.Close())
}

// TestLogsGo overwrites and deletes values: their logs go with the last reference.
func TestLogsGo(t *testing.T) {
	for _, how := range []string{"overwritten", "deleted", "range", "reopened"} {
		t.Run(how, func(t *testing.T) {
			fsys := vfs.NewMem()
			d := open(t, fsys, nil, nil)
			d.fill(100)
			d.must(d.CompactRange(nil, nil))
			before := d.Metrics().Values.Logs
			if before == 0 {
				t.Fatal("no value log")
			}
			switch how {
			case "overwritten", "reopened":
				d.fill(200)
			case "deleted":
				for key := range d.want {
					d.must(d.Delete([]byte(key), lsm.NoSync))
				}
				clear(d.want)
			case "range":
				d.must(d.DeleteRange([]byte("a"), []byte("z"), lsm.NoSync))
				clear(d.want)
			}
			if how == "reopened" {
				d.must(d.Close())
				d = open(t, fsys, d.want, nil)
			}
			it := d.Iter(nil) // keeps the tables, and so the logs
			it.First()
			d.must(d.CompactRange(nil, nil))
			d.must(it.Close())
			check(t, d, d.want)
			want := 0
			if len(d.want) > 0 {
				want = before
			}
			d.must(d.Close())
			if names := logs(t, fsys, "db"); len(names) != want+1 {
				t.Errorf("logs %v, want %d", names, want+1)
			}
			d = open(t, fsys, d.want, nil)
			check(t, d, d.want)
			if now := d.Metrics().Values.Logs; now != want {
				t.Errorf("%d value logs, want %d", now, want)
			}
			d.must(d.Close())
			if names := logs(t, fsys, "db"); len(names) != want+1 {
				t.Errorf("logs %v, want %d", names, want+1)
			}
		})
	}
}

// TestSharedLog drops one of several tables that refer to the same log.
func TestSharedLog(t *testing.T) {
	fsys := vfs.NewMem()
	small := func(o *lsm.Options) { o.MaxFileSize = 64 << 10 }
	d := open(t, fsys, nil, small)
	for i := range 60 {
		i = i*2%60 + i/30
		key := fmt.Sprintf("%02d %s", i, valueOf(i, 30_000)) // so that tables are full soon
		d.put(key, valueOf(i, 1000))
		if i == 58 || i == 59 {
			d.must(d.Flush())
		}
	}
	d.must(d.CompactRange(nil, nil))
	if m := d.Metrics(); m.Values.Logs != 2 || m.Levels[6].Files < 3 {
		t.Fatalf("%d value logs, levels %+v", m.Values.Logs, m.Levels)
	}
	for _, until := range []string{"20", "40", "59"} {
		d.must(d.DeleteRange([]byte("0"), []byte(until), lsm.NoSync))
		maps.DeleteFunc(d.want, func(key string, _ []byte) bool { return key < until })
		d.must(d.CompactRange(nil, nil))
		check(t, d, d.want)
		d.must(d.Close())
		d = open(t, fsys, d.want, small)
		check(t, d, d.want)
	}
	if n := d.Metrics().Values.Logs; n != 1 {
		t.Errorf("%d value logs", n)
	}
	d.must(d.Close())
}
