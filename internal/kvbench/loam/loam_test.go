package loam

import (
	"testing"

	"github.com/loamdb/loam/internal/workload/store"
	"github.com/loamdb/loam/internal/workload/store/storetest"
)

func TestDriver(t *testing.T) {
	for _, d := range Drivers() {
		t.Run(d.Name(), func(t *testing.T) { storetest.Run(t, d) })
	}
}

// TestMetricsOfKeyspaces: tables count in whichever keyspace they are.
func TestMetricsOfKeyspaces(t *testing.T) {
	db, err := Driver{"native"}.Open(t.TempDir(), store.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	n, ok := db.(*native)
	if !ok {
		t.Fatalf("%T", db)
	}
	if err := n.OpenKeyspaces(2); err != nil {
		t.Fatal(err)
	}
	b := db.NewBatch()
	for i := range n.spaces {
		n.PutIn(b, i, []byte("key"), []byte("value"))
	}
	if err := db.Write(b, false); err != nil {
		t.Fatal(err)
	}
	for _, k := range n.spaces {
		if err := k.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	m, sum := db.Metrics(), int64(0)
	for _, size := range m.Levels {
		sum += size
	}
	if m.Tables != 2 || m.DiskSize == 0 || sum != m.DiskSize {
		t.Errorf("%+v", m)
	}
}
