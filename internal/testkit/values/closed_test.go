package values

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/lsm"
)

// handles counts the open descriptors of logs, by their paths.
type handles struct {
	mu   sync.Mutex
	open map[string]int
}

func (h *handles) hook(op vfs.Op) vfs.Outcome {
	if filepath.Ext(op.Name) != ".wal" {
		return vfs.Outcome{}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch op.Kind {
	case vfs.OpOpen, vfs.OpCreateLog, vfs.OpReuseLog:
		h.open[op.Name]++
	case vfs.OpClose:
		h.open[op.Name]--
	}
	return vfs.Outcome{}
}

// wantClosed wants no descriptor of a log that is not in the directory.
func (h *handles) wantClosed(t *testing.T, fsys vfs.FS) {
	t.Helper()
	names := logs(t, fsys, "db")
	h.mu.Lock()
	defer h.mu.Unlock()
	for path, n := range h.open {
		if n > 0 && !slices.Contains(names, filepath.Base(path)) {
			t.Errorf("%d descriptors of %s, which is gone", n, path)
		}
	}
}

// TestDeletedLogsAreClosed: a log has no descriptor when it is deleted or becomes another one,
// although a flush read values of it to merge them, or tables that are gone referred to it before
// the other keyspace's entries of it were in tables.
func TestDeletedLogsAreClosed(t *testing.T) {
	for _, retained := range []int64{0, 1 << 20} {
		h := handles{open: map[string]int{}}
		fsys := vfs.NewFault(vfs.NewMem(), h.hook)
		d := open(t, fsys, nil, func(o *lsm.Options) {
			merging(o)
			o.WriteBufferSize, o.WALRetentionBytes = 64<<10, retained
		})
		for i := range 20 {
			d.put(fmt.Sprintf("key %02d", i), valueOf(i, 40_000))
			d.merge(fmt.Sprintf("key %02d", i), []byte("+"))
			d.must(d.Flush())
		}
		other, err := d.Keyspace("other", nil)
		d.must(err)
		for i := range 5 {
			d.must(other.Put([]byte("small"), []byte{byte(i)}, lsm.NoSync))
			d.put("large", valueOf(100+i, 40_000))
			d.must(d.Flush())
			check(t, d, d.want)
			d.put("large", []byte("small now"))
			d.must(d.Flush())
			d.must(d.CompactRange(nil, nil))
			d.must(other.Flush())
		}
		check(t, d, d.want)
		h.wantClosed(t, fsys)
		d.must(d.Close())
	}
}
