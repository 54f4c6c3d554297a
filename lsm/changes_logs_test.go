package lsm

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
)

// openCounter counts the files that are opened.
type openCounter struct {
	FS
	opens atomic.Int64
}

func (f *openCounter) Open(name string) (ReadFile, error) {
	f.opens.Add(1)
	return f.FS.Open(name)
}

// A feed that goes from one kept log to the next does not read the beginnings of all others.
func TestChangesOverManyLogs(t *testing.T) {
	for _, format := range []Format{FormatLevelDB, FormatNative} {
		fs := &openCounter{FS: vfs.NewMem()}
		db := opened(t, "db", &Options{FS: fs, Format: format, WALRetentionBytes: 1 << 30,
			DisableCompaction: true})
		const logs = 40
		for i := range logs {
			if err := db.Put(fmt.Appendf(nil, "%02d", i), nil, NoSync); err != nil {
				t.Fatal(err)
			}
			if err := db.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		if kept := db.Metrics().Changes.Logs; kept < logs/2 {
			t.Fatalf("%d logs are kept", kept)
		}
		fs.opens.Store(0)
		if ops := drain(t, mustChanges(t, db, 1, nil)); len(ops) != logs {
			t.Fatalf("%d operations, want %d", len(ops), logs)
		}
		if n := fs.opens.Load(); n > 8*logs {
			t.Errorf("%v: %d files were opened for %d logs", format, n, logs)
		}
	}
}
