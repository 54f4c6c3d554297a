package replicate

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/lsm"
)

func snapshotPart(name string) bool {
	m := objectName.FindStringSubmatch(name)
	return m != nil && m[10] != "" && m[10] != wholeName[1:]
}

// dead is a target whose program ends before a part of a snapshot is stored.
type dead struct {
	*memTarget
	again func() // called by the second part
	parts int
}

func (d *dead) Put(ctx context.Context, name string, data []byte) error {
	if snapshotPart(name) {
		if d.parts++; d.parts > 1 {
			d.again()
		}
		return fmt.Errorf("%w: %w", errEnded, context.Canceled)
	}
	return d.memTarget.Put(ctx, name, data)
}

// TestProgramEndsInASnapshot ends Run, although nothing else is to be sent.
func TestProgramEndsInASnapshot(t *testing.T) {
	s := newScript(t)
	s.put("a")
	o := s.o
	o.after = instant
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	target := &dead{memTarget: s.target, again: cancel}
	if err := Run(ctx, s.db, target, &o); !errors.Is(err, errEnded) {
		t.Error(err)
	}
}

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
