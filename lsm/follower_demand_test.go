package lsm

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/loamdb/loam/internal/base"
)

// longInterval is one that does not end while a test runs.
const longInterval = 24 * time.Hour

// TestFollowerReadsCatchUp lets the state of a follower grow old. A read of the present waits for
// the next one, whichever call it is; what does not read the present does not.
func TestFollowerReadsCatchUp(t *testing.T) {
	needsNative(t)
	dir := t.TempDir()
	db, err := Open(dir, nil)
	must(t, err)
	f, err := OpenFollower(dir, &Options{FollowInterval: longInterval})
	must(t, err)
	demand := f.engine.Parts().Shared.Seqs.Demand
	key := []byte("key")
	value := func(v []byte, err error) string {
		if err != nil {
			return err.Error()
		}
		return string(v)
	}
	reads := map[string]func() string{
		"Get": func() string { return value(f.Get(key, nil)) },
		"MultiGet": func() string {
			var r MultiResult
			must(t, f.MultiGet([][]byte{key}, &r))
			v, _ := r.Value(0)
			return string(v)
		},
		"Iter": func() string {
			it := f.Iter(nil)
			defer it.Close()
			it.First()
			return string(it.Value())
		},
		"Snapshot": func() string {
			s := f.Snapshot()
			defer s.Close()
			return value(s.Get(key, nil))
		},
		"Begin": func() string {
			tx := f.Begin(nil)
			defer tx.Rollback()
			return value(tx.Get(key, nil))
		},
		"Lag": func() string {
			l, err := f.Lag(context.Background())
			if err != nil || l != (Lag{}) {
				t.Errorf("Lag: %v, %v", l, err)
			}
			return value(f.Get(key, nil))
		},
	}
	for _, name := range []string{"Get", "MultiGet", "Iter", "Snapshot", "Begin", "Lag"} {
		s := f.Snapshot()
		before := value(f.Get(key, nil))
		demand.Expire()
		must(t, db.Put(key, []byte(name), NoSync))
		if got := value(s.Get(key, nil)); got != before {
			t.Errorf("a snapshot has %q, and had %q", got, before)
		}
		if _, err := f.TryGet(key, nil); !errors.Is(err, ErrWouldBlock) {
			t.Errorf("TryGet: %v", err)
		}
		if got := reads[name](); got != name {
			t.Errorf("%s: %q", name, got)
		}
		must(t, s.Close())
	}
	must(t, f.Close())

	f, err = OpenFollower(dir, &Options{FollowInterval: longInterval})
	must(t, err)
	for name, list := range map[string]func() bool{
		"one":   func() bool { return slices.Contains(f.Keyspaces(), "one") },
		"other": func() bool { _, err := f.Keyspace("other", nil); return err == nil },
	} {
		f.engine.Parts().Shared.Seqs.Demand.Expire()
		_, err := db.Keyspace(name, nil)
		must(t, err)
		if !list() {
			t.Errorf("keyspace %s is not there", name)
		}
	}
	must(t, errors.Join(f.Close(), db.Close()))
}

// TestFollowerReadsDespiteFailure: a read that waits for a catch-up goes on with the state that
// there is when the catch-up fails, and when the follower is closed.
func TestFollowerReadsDespiteFailure(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	db, err := Open(dir, nil)
	must(t, err)
	must(t, db.Put([]byte("key"), []byte("value"), Sync))
	f, err := OpenFollower(dir, &Options{FollowInterval: longInterval})
	must(t, err)
	must(t, db.Close())
	must(t, os.Rename(dir, dir+"2"))
	for range 3 {
		f.engine.Parts().Shared.Seqs.Demand.Expire()
		if v, err := f.Get([]byte("key"), nil); err != nil || string(v) != "value" {
			t.Errorf("%q, %v", v, err)
		}
		if _, err := f.Lag(context.Background()); !errors.Is(err, base.ErrDirectoryChanged) {
			t.Error(err)
		}
	}
	f.engine.Parts().Shared.Seqs.Demand.Expire()
	read, closed := make(chan error), make(chan error)
	go func() { _, err := f.Get([]byte("key"), nil); read <- err }()
	go func() { closed <- f.Close() }()
	if err := <-read; err != nil && !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	must(t, <-closed)
	if _, err := f.Get([]byte("key"), nil); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}
