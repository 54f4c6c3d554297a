package dump_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/dump"
)

// TestDumpOfFollower dumps a follower while its writer creates and drops keyspaces: each dump has
// whole batches, over all keyspaces. The writer makes a few steps for each dump: the MANIFEST, and
// so the work of a dump, grows with every step.
func TestDumpOfFollower(t *testing.T) {
	during, stop := context.WithCancel(context.Background())
	defer stop()
	mem := vfs.NewMem()
	w, err := lsm.Open("db", &lsm.Options{FS: mem})
	must(t, err)
	f, err := lsm.OpenFollower("db", &lsm.Options{FS: mem})
	must(t, err)
	ended, steps := make(chan error, 2), make(chan int, 1)
	go func() {
		var err error
		i := 0
		for n := range steps {
			for end := i + n; i < end && err == nil; {
				i++
				err = nextKeyspace(w, i)
			}
		}
		ended <- err
	}()
	go func() {
		for during.Err() == nil {
			_ = f.CatchUp(during) // one that the writer outran is tried again
		}
		ended <- nil
	}()
	last := ""
	for round := range 150 {
		steps <- round % 30
		var b bytes.Buffer
		_, err := dump.Write(ctx, f.DB, &b, nil)
		must(t, err)
		copied, err := lsm.Open("copy", &lsm.Options{FS: vfs.NewMem()})
		must(t, err)
		_, err = dump.Load(ctx, copied, &b, nil)
		must(t, err)
		n, err := copied.Get([]byte("n"), nil)
		if err == nil {
			k, err := copied.Keyspace("k"+string(n), &lsm.KeyspaceOptions{ErrorIfMissing: true})
			must(t, err)
			v, err := k.Get([]byte("n"), nil)
			if must(t, err); string(v) != string(n) {
				t.Fatalf("the default keyspace is at batch %s, the other one at %s", n, v)
			}
			last = string(n)
		}
		must(t, copied.Close())
	}
	close(steps)
	stop()
	must(t, errors.Join(<-ended, <-ended, f.Close(), w.Close()))
	t.Logf("the last dump had batch %s", last)
}

// nextKeyspace creates keyspace i, writes a batch into it and the default one, and drops an older
// one.
func nextKeyspace(w *lsm.DB, i int) error {
	k, err := w.Keyspace(fmt.Sprint("k", i), nil)
	if err != nil {
		return err
	}
	b, n := lsm.NewBatch(), fmt.Append(nil, i)
	b.Put([]byte("n"), n)
	b.In(k).Put([]byte("n"), n)
	if err := w.Write(b, lsm.NoSync); err != nil || i <= 3 {
		return err
	}
	return w.DropKeyspace(fmt.Sprint("k", i-3))
}
