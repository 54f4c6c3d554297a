package replicate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/lsm"
)

var ctx = context.Background()

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// clock is a time that stands still until add.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Unix(1_700_000_000, 0)} }

func (c *clock) time() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// memTarget is a Target in memory. fail, unless nil, is asked before and after each call.
type memTarget struct {
	mu      sync.Mutex
	objects map[string][]byte
	fail    func(op, name string, done bool) error
}

func newMem() *memTarget { return &memTarget{objects: map[string][]byte{}} }

func (m *memTarget) call(op, name string, do func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		if err := m.fail(op, name, false); err != nil {
			return err
		}
	}
	err := do()
	if m.fail != nil && err == nil {
		err = m.fail(op, name, true)
	}
	return err
}

func (m *memTarget) Put(ctx context.Context, name string, data []byte) error {
	return m.call("put", name, func() error {
		m.objects[name] = slices.Clone(data)
		return ctx.Err()
	})
}

func (m *memTarget) Get(ctx context.Context, name string) (b []byte, err error) {
	err = m.call("get", name, func() error {
		found, ok := m.objects[name]
		if !ok {
			return fmt.Errorf("%s: %w", name, fs.ErrNotExist)
		}
		b = slices.Clone(found)
		return ctx.Err()
	})
	return b, err
}

func (m *memTarget) List(ctx context.Context, prefix string) (names []string, err error) {
	err = m.call("list", prefix, func() error {
		for name := range m.objects {
			if strings.HasPrefix(name, prefix) {
				names = append(names, name)
			}
		}
		return ctx.Err()
	})
	return names, err
}

func (m *memTarget) Delete(ctx context.Context, name string) error {
	return m.call("delete", name, func() error {
		delete(m.objects, name)
		return ctx.Err()
	})
}

// names are the objects with part in their names, sorted.
func (m *memTarget) names(part string) (names []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range m.objects {
		if strings.Contains(name, part) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// instant is a clock of pauses that are over at once.
func instant(time.Duration) <-chan time.Time {
	c := make(chan time.Time, 1)
	c <- time.Time{}
	return c
}

func runnerOf(t testing.TB, db *lsm.DB, target Target, o Options) *runner {
	t.Helper()
	o.after = instant
	r, err := newRunner(ctx, db, target, &o)
	must(t, err)
	return r
}

// settle takes a step, and waits for the job that it began.
func settle(r *runner) error {
	return errors.Join(r.step(ctx), endJob(r))
}

// endJob waits for the job, if there is one, and returns its error.
func endJob(r *runner) error {
	if r.job == nil {
		return nil
	}
	r.jobEnded(<-r.job.ended)
	return r.jobErr
}

// contents is what a database has: by keyspace and key, values and what is left of their lives.
type contents map[string]map[string]string

func contentsOf(t testing.TB, db *lsm.DB) contents {
	t.Helper()
	all := contents{}
	for _, name := range db.Keyspaces() {
		k, err := db.Keyspace(name, &lsm.KeyspaceOptions{ErrorIfMissing: true})
		must(t, err)
		in := map[string]string{}
		it := k.Iter(nil)
		for ok := it.First(); ok; ok = it.Next() {
			left, _, err := k.TTL(it.Key())
			must(t, err)
			in[string(it.Key())] = fmt.Sprint(left, " ", string(it.Value()))
		}
		must(t, it.Close())
		all[name] = in
	}
	return all
}

func (c contents) diff(o contents) string {
	if a, b := slices.Sorted(maps.Keys(c)), slices.Sorted(maps.Keys(o)); !slices.Equal(a, b) {
		return fmt.Sprintf("keyspaces %q, want %q", a, b)
	}
	for name, in := range c {
		for key, value := range in {
			if other, ok := o[name][key]; !ok || other != value {
				return fmt.Sprintf("%s: key %q has %q, want %q (%t)", name, key, value, other, ok)
			}
		}
		if len(in) != len(o[name]) {
			return fmt.Sprintf("%s: %d keys, want %d", name, len(in), len(o[name]))
		}
	}
	return ""
}

// restored restores a moment into memory, and returns what the database has.
func restoredAt(t testing.TB, target Target, at, now time.Time) (contents, Restored) {
	t.Helper()
	o := &lsm.Options{FS: vfs.NewMem(), Clock: func() time.Time { return now }}
	made, err := Restore(ctx, target, "new", &RestoreOptions{At: at, Open: o})
	must(t, err)
	db, err := lsm.Open("new", o)
	must(t, err)
	defer db.Close()
	return contentsOf(t, db), made
}
