package values

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/lsm"
)

// clock is what values expire by.
type clock struct{ now time.Time }

func (c *clock) set(o *lsm.Options) { o.Clock = func() time.Time { return c.now } }

// putTTL puts a value that expires in an hour.
func (d *database) putTTL(key string, value []byte) {
	d.t.Helper()
	d.must(d.PutTTL([]byte(key), value, time.Hour, lsm.NoSync))
	d.want[key] = value
}

// expiring puts values of each size that expire, and some that do not.
func (d *database) expiring(seed int) {
	d.t.Helper()
	for i, n := range sizes {
		d.putTTL(fmt.Sprintf("goes %02d", i), valueOf(seed+i, n))
		d.put(fmt.Sprintf("stays %02d", i), valueOf(seed+50+i, n))
	}
}

// expire lets the hour pass.
func (d *database) expire(c *clock) {
	c.now = c.now.Add(2 * time.Hour)
	maps.DeleteFunc(d.want, func(key string, _ []byte) bool { return key[:4] == "goes" })
}

// checkExpiry verifies the database, and compares it with want after the hour, before and after a
// compaction. It closes it.
func (d *database) checkExpiry(c *clock) {
	d.t.Helper()
	d.must(d.Verify(d.t.Context(), nil))
	d.expire(c)
	check(d.t, d, d.want)
	d.must(d.CompactRange(nil, nil))
	check(d.t, d, d.want)
	d.must(d.Close())
}

// checkOver looks for the keys that expire, whose time is over.
func (d *database) checkOver(keys ...[]byte) {
	d.t.Helper()
	var m lsm.MultiResult
	d.must(d.MultiGet(keys, &m))
	for i, key := range keys {
		_, err := d.Get(key, nil)
		has, errHas := d.Has(key)
		if _, found := m.Value(i); found || has || errHas != nil ||
			!errors.Is(err, lsm.ErrNotFound) {
			d.t.Errorf("%s is over: MultiGet %v, Has %v, %v, Get %v", key, found, has, errHas, err)
		}
	}
}

// checkTTL compares the time to live of each key.
func (d *database) checkTTL() {
	d.t.Helper()
	for key := range d.want {
		left, expires, err := d.TTL([]byte(key))
		if goes := key[:4] == "goes"; err != nil || expires != goes ||
			goes && (left > time.Hour+time.Second || left < 59*time.Minute) {
			d.t.Errorf("TTL of %s: %v, %v, %v", key, left, expires, err)
		}
	}
}

// TestExpiring has references that expire in tables of each kind, in copies of the database that
// were killed, and in repaired ones; then their time is over.
func TestExpiring(t *testing.T) {
	c := &clock{time.Unix(1_000_000, 0)}
	mem := vfs.NewMem()
	d := open(t, mem, nil, c.set)
	d.expiring(100)
	killed := mem.Clone() // before a flush
	all := uint64(d.wantBytes())
	d.must(d.Flush())
	if m := d.Metrics(); m.Values.Bytes < all-1000 || m.Values.Bytes > all {
		t.Errorf("%d bytes of %d lie in logs", m.Values.Bytes, all)
	}
	snap := d.Snapshot()
	old := maps.Clone(d.want)
	d.expiring(200)
	d.must(d.Flush())
	for _, fsys := range []*vfs.Mem{mem.Clone(), killed} {
		want := d.want
		if fsys == killed {
			want = old
		}
		k := open(t, fsys, maps.Clone(want), func(o *lsm.Options) { c.set(o); recovering(o) })
		check(t, k, k.want)
		k.checkTTL()
		k.must(k.Verify(t.Context(), nil))
		k.must(k.Close())
		if fsys == killed {
			k.must(fsys.Remove("db/CURRENT/manifest"))
			if _, err := lsm.Repair("db", &lsm.Options{FS: fsys}); err != nil {
				t.Fatal(err)
			}
			k = open(t, fsys, k.want, c.set)
			check(t, k, k.want)
			k.checkTTL()
			k.must(k.Close())
		}
	}
	check(t, d, d.want)
	d.checkTTL()
	d.must(d.CompactRange(nil, nil))
	check(t, d, d.want)
	check(t, snap, old)
	d.checkTTL()

	d.expire(c)
	check(t, d, d.want)
	d.checkOver([]byte("goes 05"), []byte("goes 07"))
	check(t, snap, old) // as it was then
	d.must(snap.Close())
	check(t, d, d.want)
	d.must(d.CompactRange(nil, nil))
	check(t, d, d.want)
	if m := d.Metrics(); m.Values.Bytes > uint64(d.wantBytes()) {
		t.Errorf("%d bytes of %d are referred to when the others are over", m.Values.Bytes,
			d.wantBytes())
	}
	d.must(d.Verify(t.Context(), nil))
	d.must(d.Close())
}

// TestExpiringLogsGo: when all of a table has expired, its log goes with it.
func TestExpiringLogsGo(t *testing.T) {
	c := &clock{time.Unix(1_000_000, 0)}
	d := open(t, vfs.NewMem(), nil, c.set)
	for i := range 20 {
		d.putTTL(fmt.Sprintf("goes %02d", i), valueOf(i, 5000))
	}
	d.must(d.Flush())
	if d.Metrics().Values.Logs != 1 {
		t.Fatalf("%+v", d.Metrics().Values)
	}
	d.expire(c)
	d.must(d.CompactRange(nil, nil))
	if m := d.Metrics(); m.Values.Logs != 0 || m.Values.Reads != 0 {
		t.Errorf("expired: %+v", m.Values)
	}
	check(t, d, d.want)
	d.must(d.Close())
}

// TestExpiringMeets has references that expire beside merges, filters and relocation.
func TestExpiringMeets(t *testing.T) {
	c := &clock{time.Unix(1_000_000, 0)}
	seen := map[string][]byte{}
	d := open(t, vfs.NewMem(), nil, func(o *lsm.Options) {
		c.set(o)
		emptying(o)
		o.MergeOperator = lsm.MergeOperatorNamed("append:")
		o.CompactionFilter = &lsm.CompactionFilter{Name: "test",
			Filter: func(_ int, key, value []byte) (lsm.FilterDecision, error) {
				seen[string(key)] = bytes.Clone(value)
				if string(key) == "goes change" {
					return lsm.FilterChange([]byte("changed")), nil
				}
				return lsm.FilterKeep, nil
			}}
	})
	for i, key := range []string{"goes", "goes change", "goes merged"} {
		d.putTTL(key, valueOf(i, 20_000))
	}
	for i := range 20 {
		d.putTTL(fmt.Sprintf("goes %02d", i), valueOf(400+i, 1000))
		for j := range 8 {
			d.put(fmt.Sprintf("churn %d", j), valueOf(1000+8*i+j, 7000))
		}
	}
	d.must(d.Flush())
	d.must(d.Merge([]byte("goes merged"), []byte("!"), lsm.NoSync))
	d.want["goes merged"] = append(bytes.Clone(d.want["goes merged"]), '!')
	check(t, d, d.want)
	d.checkTTL()
	d.relocate()
	if !bytes.Equal(seen["goes"], d.want["goes"]) {
		t.Errorf("the filter saw %d bytes", len(seen["goes"]))
	}
	d.want["goes change"] = []byte("changed")
	check(t, d, d.want)
	d.checkTTL()
	d.checkExpiry(c)
}
