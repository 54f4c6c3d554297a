package feed

import (
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/batchrepr"
	"github.com/loamdb/loam/internal/os/vfs"
)

// TestCommitBesideBegin: an operation that is committed after the logs were listed, and before New
// has returned, is no gap, and the first one if the feed begins with the oldest.
func TestCommitBesideBegin(t *testing.T) {
	fsys := vfs.NewMem()
	if err := fsys.MkdirAll("db"); err != nil {
		t.Fatal(err)
	}
	for _, from := range []uint64{0, 1} {
		listed := false
		var h Hub
		h.Init(Env{
			FS: fsys, Dir: "db",
			Format: func() base.Format { return base.Native },
			Oldest: func() uint64 { listed = true; return 0 }, // asked for when the logs are listed
			Visible: func() base.SeqNum {
				if listed {
					return 1
				}
				return 0
			},
		})
		c, err := h.New(from, Options{})
		if err != nil {
			t.Errorf("from %d: %v", from, err)
			continue
		}
		if c.Position() != 1 {
			t.Errorf("from %d: the feed begins at %d", from, c.Position())
		}
	}
}

// TestZeroChange: the zero Change, and bytes that are no batch, have no operations.
func TestZeroChange(t *testing.T) {
	for _, c := range []Change{{}, {Batch: []byte("short")}, {Seq: 7, Batch: make([]byte, 12)}} {
		for o := range Operations[uint8](c) {
			t.Errorf("%+v", o)
		}
		if c.Len() != 0 {
			t.Errorf("%d operations", c.Len())
		}
	}
	b := batchrepr.AppendEntry(batchrepr.Init(nil), 5, base.KindSet, []byte("k"), nil)
	for o := range Operations[uint8](Change{Batch: b}) {
		if o.KeyspaceID != 5 || o.Keyspace != "" || string(o.Key) != "k" {
			t.Errorf("%+v", o)
		}
	}
}
