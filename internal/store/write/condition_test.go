package write

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/batchrepr"
)

// conditional is a database of keys that counts what the pipeline does.
type conditional struct {
	keys    []string // applied
	visible base.SeqNum
	syncs   int
	appends int
	fail    func(appends int) error
	failed  error
}

func (c *conditional) env() Env {
	return Env{
		Room: func([][]byte, int64, int, Mode) (Target, error) { return target(c.apply), nil },
		Append: func(group [][]byte) error {
			c.appends++
			if c.fail != nil {
				return c.fail(c.appends)
			}
			return nil
		},
		Sync:    func() error { c.syncs++; return c.failed },
		Publish: func(seq base.SeqNum) { c.visible = seq },
	}
}

func (c *conditional) apply(batch []byte, _ base.SeqNum) error {
	for it := batchrepr.Read(batch); ; {
		_, _, key, _, ok := it.Next()
		if !ok {
			return nil
		}
		c.keys = append(c.keys, string(key))
	}
}

// unless is a condition: the key has not been applied.
type unless struct {
	c    *conditional
	key  string
	last base.SeqNum
}

var errThere = errors.New("it is there")

func (u *unless) Holds(last base.SeqNum) error {
	u.last = last
	if slices.Contains(u.c.keys, u.key) {
		return errThere
	}
	return nil
}

func keysBatch(keys ...string) []byte {
	b := batchrepr.Init(nil)
	for _, k := range keys {
		b = batchrepr.AppendEntry(b, base.DefaultKeyspace, base.KindSet, []byte(k), nil)
	}
	return b
}

// TestCondition: a condition sees all writes before its batch, including its own group's, and a
// batch whose condition does not hold writes nothing.
func TestCondition(t *testing.T) {
	c := &conditional{}
	p := New(c.env(), 0)
	if err := p.CommitIf(keysBatch("a", "b"), 0, &unless{c: c, key: "a"}); err != nil {
		t.Fatal(err)
	}
	u := &unless{c: c, key: "b"}
	if err := p.CommitIf(keysBatch("c"), Sync, u); !errors.Is(err, errThere) || u.last != 2 {
		t.Fatal(err, u.last)
	}
	if c.syncs != 0 || c.visible != 2 || !slices.Equal(c.keys, []string{"a", "b"}) {
		t.Fatalf("%+v", c)
	}
	// A group, in one step: the second of two with the same key fails.
	var list, last *writer
	conditions := []Condition{nil, &unless{c: c, key: "x"}, nil, &unless{c: c, key: "x"},
		&unless{c: c, key: "y"}}
	for i, cond := range conditions {
		w := &writer{batch: keysBatch([]string{"p", "x", "q", "x", "y"}[i]), condition: cond}
		if i == 0 {
			list = w
		} else {
			last.next = w
		}
		last = w
	}
	last.mode = Sync
	p.writeGroup(list)
	var errs []bool
	for w := list; w != nil; w = w.next {
		errs = append(errs, w.err != nil)
	}
	if !slices.Equal(errs, []bool{false, false, false, true, false}) ||
		!slices.Equal(c.keys, []string{"a", "b", "p", "x", "q", "y"}) {
		t.Fatal(errs, c.keys)
	}
	if c.visible != 6 || c.syncs != 1 || c.appends != 4 {
		t.Fatalf("%+v", c)
	}
}

// TestConditionFailures: a shortage fails its run alone, a failed sync all, and nothing of
// those becomes visible.
func TestConditionFailures(t *testing.T) {
	c := &conditional{}
	p := New(c.env(), 0)
	c.fail = func(n int) error {
		if n == 2 {
			return fmt.Errorf("%w: full", base.ErrNoSpace)
		}
		return nil
	}
	group := func(mode Mode, keys ...string) (errs []error) {
		var list *writer
		for i := len(keys) - 1; i >= 0; i-- {
			list = &writer{batch: keysBatch(keys[i]), condition: &unless{c: c, key: keys[i]},
				mode: mode, next: list}
		}
		p.writeGroup(list)
		for w := list; w != nil; w = w.next {
			errs = append(errs, w.err)
		}
		return errs
	}
	errs := group(0, "a", "b", "c")
	if errs[0] != nil || !errors.Is(errs[1], base.ErrNoSpace) || errs[2] != nil || c.visible != 2 ||
		!slices.Equal(c.keys, []string{"a", "c"}) {
		t.Fatal(errs, c.keys)
	}
	c.failed = errors.New("no sync")
	for _, err := range group(Sync, "d", "e") {
		if !errors.Is(err, base.ErrReadOnly) {
			t.Fatal(err)
		}
	}
	if c.visible != 2 {
		t.Fatal("what was not synced is visible")
	}
	if err := p.CommitIf(keysBatch("f"), 0, &unless{c: c, key: "f"}); !errors.Is(err,
		base.ErrReadOnly) {
		t.Fatal(err)
	}
}

// TestConditionsTogether: of many that want the same key at the same time one gets it, beside
// writers without conditions.
func TestConditionsTogether(t *testing.T) {
	c := &conditional{}
	p := New(c.env(), 0)
	const rounds, clients = 300, 8
	won := make([]int, clients)
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			for r := range rounds {
				key := fmt.Sprint("k", r)
				mode := Mode(0)
				if (i+r)%3 == 0 {
					mode = Sync
				}
				switch err := p.CommitIf(keysBatch(key), mode, &unless{c: c, key: key}); {
				case err == nil:
					won[i]++
				case !errors.Is(err, errThere):
					t.Error(err)
				}
				if err := p.Commit(keysBatch(fmt.Sprintf("own %d %d", i, r)), 0); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	sum := 0
	for _, n := range won {
		sum += n
	}
	if sum != rounds || len(c.keys) != rounds+rounds*clients || int(c.visible) != len(c.keys) {
		t.Fatalf("%d won, %d keys, visible %d", sum, len(c.keys), c.visible)
	}
}

// TestPutIf asks the condition of an entry by its leader, alone and in a queue: what was queued
// before it is applied then.
func TestPutIf(t *testing.T) {
	synctest.Test(t, testPutIf)
}

func testPutIf(t *testing.T) {
	c := &conditional{}
	p := New(c.env(), 0)
	put := func(key string) error {
		return p.PutIf(base.DefaultKeyspace, base.KindMerge, []byte(key), nil, 0,
			&unless{c: c, key: "b"})
	}
	if err := put("a"); err != nil {
		t.Fatal(err)
	}
	if err := p.Put(base.DefaultKeyspace, base.KindSet, []byte("b"), nil, 0); err != nil {
		t.Fatal(err)
	}
	if err := put("c"); !errors.Is(err, errThere) {
		t.Error(err)
	}
	c.keys = c.keys[:0]
	errs := blocked(t, p, nil,
		func() error { return put("d") },
		func() error { return put("e") },
		func() error { return p.Put(base.DefaultKeyspace, base.KindSet, []byte("b"), nil, 0) },
		func() error { return put("f") })
	if fmt.Sprint(errs) != fmt.Sprint([]error{nil, nil, nil, errThere}) ||
		fmt.Sprint(c.keys) != "[d e b]" {
		t.Errorf("%v, applied %v", errs, c.keys)
	}
}

// asks is a condition that calls a callback of the program.
type asks func()

func (f asks) Holds(base.SeqNum) error { f(); return nil }

// TestGoexitOfALeader: a condition or an Exclusive whose callback ends its goroutine fails, and so
// does every other write: none waits for the lead.
func TestGoexitOfALeader(t *testing.T) {
	env := (&conditional{}).env()
	env.LeaderAsks, env.Guard = func() bool { return true }, base.Alone
	ends := map[string]func(p *Pipeline) error{
		"condition": func(p *Pipeline) error {
			return p.CommitIf(keysBatch("a"), 0, asks(runtime.Goexit))
		},
		"exclusive": func(p *Pipeline) error {
			return p.Exclusive(func() error { runtime.Goexit(); return nil })
		},
	}
	for name, call := range ends {
		synctest.Test(t, func(t *testing.T) {
			p := New(env, 0)
			errs := blocked(t, p, nil,
				func() error { return call(p) },
				func() error { return p.CommitIf(keysBatch("b"), 0, asks(func() {})) },
				func() error { return p.Commit(keysBatch("c"), 0) })
			errs = append(errs, p.Commit(keysBatch("d"), 0))
			for i, err := range errs {
				if !errors.Is(err, base.ErrReadOnly) || !errors.Is(err, base.ErrGoexit) {
					t.Errorf("%s, write %d: %v", name, i, err)
				}
			}
		})
	}
}

// TestGoexitInAStep: the file system ends the goroutine of a leader, which is alone, leads a group
// or runs an Exclusive. Its own call does not return; all others fail, and none waits for the lead.
func TestGoexitInAStep(t *testing.T) {
	db := &conditional{}
	steps := map[string]func(env *Env){
		"room": func(env *Env) {
			env.Room = func([][]byte, int64, int, Mode) (Target, error) {
				runtime.Goexit()
				return nil, nil
			}
		},
		"append": func(env *Env) {
			env.Append = func([][]byte) error { runtime.Goexit(); return nil }
		},
		"sync": func(env *Env) { env.Sync = func() error { runtime.Goexit(); return nil } },
	}
	calls := map[string]func(p *Pipeline) error{
		"commit": func(p *Pipeline) error { return p.Commit(keysBatch("a"), Sync) },
		"put": func(p *Pipeline) error {
			return p.Put(base.DefaultKeyspace, base.KindSet, []byte("a"), nil, Sync)
		},
		"condition": func(p *Pipeline) error {
			return p.CommitIf(keysBatch("a"), Sync, asks(func() {}))
		},
		"exclusive": func(p *Pipeline) error {
			return p.Exclusive(func() error { return p.env.Append(nil) })
		},
	}
	for step, end := range steps {
		env := db.env()
		end(&env)
		for name, call := range calls {
			if name == "exclusive" && step != "append" {
				continue
			}
			check := func(t *testing.T, p *Pipeline, errs ...error) {
				errs = append(errs, p.Commit(keysBatch("d"), 0))
				for i, err := range errs {
					if !errors.Is(err, base.ErrReadOnly) || !errors.Is(err, base.ErrGoexit) {
						t.Errorf("%s, %s, write %d: %v", step, name, i, err)
					}
				}
			}
			synctest.Test(t, func(t *testing.T) { // it is alone
				p := New(env, 0)
				var wg sync.WaitGroup
				wg.Go(func() { t.Errorf("%s, %s: it returns %v", step, name, call(p)) })
				wg.Wait()
				check(t, p)
			})
			synctest.Test(t, func(t *testing.T) {
				p := New(env, 0)
				errs := blocked(t, p, nil,
					func() error { return call(p) },
					func() error { return p.Commit(keysBatch("b"), Sync) },
					func() error { return p.Exclusive(func() error { return p.Err() }) })
				check(t, p, errs[1:]...)
			})
		}
	}
}
