package replicate

import (
	"errors"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/lsm"
)

// TestNumberOfParts: a number of parts that are not there is damage, and takes no memory.
func TestNumberOfParts(t *testing.T) {
	s := newScript(t)
	s.put("a")
	must(t, s.send())
	name := s.target.names(wholeName)[0]
	for _, n := range []int{-1, 0, 2, 1 << 45} {
		var w whole
		must(t, getJSON(ctx, s.target, name, &w))
		w.Parts = n
		must(t, putJSON(ctx, s.target, name, w))
		_, err := Restore(ctx, s.target, "new", &RestoreOptions{
			Open: &lsm.Options{FS: vfs.NewMem()}})
		if !errors.Is(err, lsm.ErrCorruption) {
			t.Errorf("%d parts: %v", n, err)
		}
	}
}
