package values

import (
	"strings"
	"testing"
	"time"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/lsm"
)

// TestHasMerged: the merge operator gets the value that lies in a log below the operands of a key,
// also where its caller asks only whether there is a value. A batch whose other merges read adds an
// operand to such a key.
func TestHasMerged(t *testing.T) {
	patches := lsm.MergeOperatorNamed("json_merge")
	d := open(t, vfs.NewMem(), nil, func(o *lsm.Options) { o.MergeOperator = patches })
	defer d.Close()
	other, err := d.Keyspace("other", &lsm.KeyspaceOptions{MergeOperator: patches})
	d.must(err)
	key, large := []byte("key"), []byte(`{"a":"`+strings.Repeat("a", least)+`"}`)
	d.must(d.Put(key, large, lsm.NoSync))
	d.must(other.Put(key, large, lsm.NoSync))
	d.must(d.Flush())
	d.must(other.Flush())
	if d.Metrics().Values.Bytes != 2*uint64(len(large)) {
		t.Fatalf("the values do not lie in logs: %+v", d.Metrics().Values)
	}
	d.must(d.Merge(key, []byte(`{"b":1}`), lsm.NoSync))
	d.must(other.Merge(key, []byte(`{"b":1}`), lsm.NoSync))
	snap, tx := d.Snapshot(), d.Begin(nil)
	defer snap.Close()
	defer tx.Rollback()
	for name, r := range map[string]lsm.Reader{"database": d.DB, "keyspace": other,
		"snapshot": snap, "transaction": tx} {
		if has, err := r.Has(key); !has || err != nil {
			t.Errorf("Has of a %s: %t, %v", name, has, err)
		}
	}
	b := lsm.NewBatch()
	b.PutTTL([]byte("expires"), []byte(`{}`), time.Hour)
	b.Merge([]byte("expires"), []byte(`{"c":2}`))
	b.In(other).Merge(key, []byte(`{"c":2}`))
	d.must(d.Write(b, lsm.NoSync))
	want := strings.TrimSuffix(string(large), "}") + `,"b":1,"c":2}`
	if got, err := other.Get(key, nil); err != nil || string(got) != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}
