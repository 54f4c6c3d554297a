package vfs

import (
	"path/filepath"
	"testing"
)

func TestLogAllocatesAhead(t *testing.T) {
	const ahead = 64 << 10
	name := filepath.Join(t.TempDir(), "log")
	f, err := Default.CreateLog(name, ahead)
	must(t, err)
	l := f.(*osLog)
	if l.alloc.Load() == 0 {
		t.Skip("no fallocate here, or no space")
	}
	for i := range 3000 {
		must(t, l.Append(make([]byte, 141)))
		l.grow.Wait()
		st, err := Default.Stat(name)
		must(t, err)
		if left := st.Size() - l.off; left < ahead/2-141-pageSize || left > 3*ahead/2+141 {
			t.Fatalf("after %d appends %d bytes are left of the allocation", i+1, left)
		}
	}
	must(t, l.Close())
	st, err := Default.Stat(name)
	must(t, err)
	if st.Size() != 3000*141 {
		t.Errorf("closed with %d bytes", st.Size())
	}
}
