package runner

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/loamdb/loam/internal/workload"
	"github.com/loamdb/loam/internal/workload/store"
	"github.com/loamdb/loam/internal/workload/store/storetest"
)

// plainDriver has stores with nothing that is optional.
type plainDriver struct{ *storetest.Model }

type plainStore struct{ store.Store }

func (d plainDriver) Open(dir string, c store.Config) (store.Store, error) {
	db, err := d.Model.Open(dir, c)
	return plainStore{db}, err
}

// TestDeleteRange: the last key of each thousand stays, whether the engine has range deletes
// or not, and scans are told of every one.
func TestDeleteRange(t *testing.T) {
	for _, plain := range []bool{false, true} {
		r, m := newRunner(t)
		if plain {
			r.Driver = plainDriver{m}
		}
		if res := run(t, r, "fillseq", "deleterange"); res.Ops != num/1000 {
			t.Errorf("%d range deletes", res.Ops)
		}
		var left []string
		for k := range m.Table(r.Dir).Contents() {
			left = append(left, k)
		}
		slices.Sort(left)
		if got := strings.Join(left, " "); got != "0000000000000999 0000000000001999 "+
			"0000000000002999" {
			t.Errorf("left: %s", got)
		}
		res := run(t, r, "scandeleted")
		rnd, want := workload.NewRand(1000+3), int64(0)
		for range num / 100 {
			want += 3 - int64(rnd.Uniform(num))/1000
		}
		if res.Found != want || res.Asked != num/100*10 {
			t.Errorf("plain %v: found %d of %d, want %d", plain, res.Found, res.Asked, want)
		}
		m.Table(r.Dir).Empty()
		spec, _ := workload.Find("scandeleted")
		if _, err := r.Run(context.Background(), spec); !errors.Is(err, ErrWrong) {
			t.Errorf("a scan that found nothing: %v", err)
		}
	}
}

// TestDeleteHalf: one range, or batches that are bounded; the oracle knows what is left.
func TestDeleteHalf(t *testing.T) {
	for _, plain := range []bool{false, true} {
		r, m := newRunner(t)
		r.Params.Num = 2*mostDeleted + 1001
		if plain {
			r.Driver = plainDriver{m}
		}
		half, all := (r.Params.Num)/2, r.Params.Num
		res := run(t, r, "fillseq", "deletehalf")
		if left := all - half + 1; res.Ops != 1 || int64(len(m.Table(r.Dir).Contents())) != left ||
			*res.Live != left*int64(r.Params.Keys.Len()+r.Params.ValueSize) {
			t.Errorf("%d operations leave %d entries and %d bytes, want %d", res.Ops,
				len(m.Table(r.Dir).Contents()), *res.Live, left)
		}
		for _, name := range []string{"scan1000cold", "scan1000warm"} {
			if res := run(t, r, name); res.Asked < 1000 || res.Found == 0 {
				t.Errorf("%s", res.Line())
			}
		}
	}
}

// TestCounters: the sum of the values read equals the sum of the operands.
func TestCounters(t *testing.T) {
	for _, name := range []string{"mergerandom", "mergehot"} {
		r, m := newRunner(t)
		r.Params.Threads = 2
		run(t, r, name)
		var sum uint64
		for _, v := range m.Table(r.Dir).Contents() {
			sum += uint64(v[0]) + uint64(v[1])<<8
		}
		if sum != 2*num || !m.Table(r.Dir).Config.Counters {
			t.Errorf("%s: the counters amount to %d, opened with %+v", name, sum,
				m.Table(r.Dir).Config)
		}
		if res := run(t, r, "readcounters"); res.Asked != 2*num {
			t.Errorf("%s", res.Line())
		}
		db, err := m.Open(r.Dir, store.Config{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range num / 100 {
			if err := db.(store.Counters).Add(fmt.Appendf(nil, "%016d", i), 1, false); err != nil {
				t.Fatal(err)
			}
		}
		spec, _ := workload.Find("readcounters")
		if _, err := r.Run(context.Background(), spec); !errors.Is(err, ErrWrong) {
			t.Errorf("%s: more was added than told: %v", name, err)
		}
		if res := run(t, r, "fillseq", "readcounters"); res.Skipped == "" {
			t.Errorf("counters in a new database: %s", res.Line())
		}
	}
}

// TestTransactions: two threads, each with keys of its own, in a store that was opened for it.
func TestTransactions(t *testing.T) {
	for _, name := range []string{"randomtransaction", "lockedtransaction", "randombatch",
		"writetransaction", "writebatch"} {
		r, m := newRunner(t)
		run(t, r, "fillseq")
		res := run(t, r, name)
		spec, _ := workload.Find(name)
		c := m.Table(r.Dir).Config
		if res.Threads != 2 || res.Ops != num/4*2 || c.Transactions == spec.Txn.Plain ||
			c.Locks != spec.Txn.Locks {
			t.Errorf("%s, opened with %+v", res.Line(), c.Needs)
		}
		if spec.Txn.Update && (res.Found != num || res.Asked != num) {
			t.Errorf("%s", res.Line())
		}
		if !spec.Txn.Update {
			continue
		}
		m.Table(r.Dir).Empty()
		if _, err := r.Run(context.Background(), spec); !errors.Is(err, ErrWrong) {
			t.Errorf("%s did not notice that keys are gone: %v", name, err)
		}
	}
}

// TestContendedTransactions: after a conflict a transaction is begun again.
func TestContendedTransactions(t *testing.T) {
	r, m := newRunner(t)
	run(t, r, "fillseq")
	commits := 0
	m.Fail = func(op string) error {
		if op == "commit" {
			if commits++; commits%3 == 0 {
				return store.ErrConflict
			}
		}
		return nil
	}
	spec, _ := workload.Find("contendedtransaction")
	spec.Threads = 1
	res, err := r.Run(context.Background(), spec)
	if err != nil || res.Conflicts == 0 || res.Ops != num/40 || res.Found != 2*res.Ops {
		t.Errorf("%s: %d conflicts, %v", res.Line(), res.Conflicts, err)
	}
	if !strings.Contains(res.Message, fmt.Sprintf("%d conflicts", res.Conflicts)) {
		t.Error(res.Line())
	}
}

// TestUnusable: what an engine does not have is skipped.
// TestNamedKeys: benchmarks of ranges and queues, which go by the order of the numbers, leave out
// keys whose order is another one, and what is there; the reads of all others are as foretold.
func TestNamedKeys(t *testing.T) {
	r, _ := newRunner(t)
	r.Params.Keys.Style = workload.Named
	run(t, r, "fillseq")
	for _, spec := range workload.Specs {
		byOrder := spec.Kind == workload.Stretch || spec.Kind == workload.DeleteRange ||
			spec.Kind == workload.Queue || spec.Kind == workload.PrefixScan ||
			spec.Subject == workload.IntoTables
		if !byOrder {
			continue
		}
		res, err := r.Run(context.Background(), spec)
		if err != nil || !strings.Contains(res.Skipped, "numbers of 16 digits") {
			t.Errorf("%s: %v", res.Line(), err)
		}
	}
	if res := run(t, r, "holditerators", "ycsbe", "overwrite", "release",
		"readrandom"); res.Found != num {
		t.Error(res.Line())
	}
}

func TestUnusable(t *testing.T) {
	r, m := newRunner(t)
	r.Driver = plainDriver{m}
	for name, want := range map[string]string{
		"mergerandom": "Model has no merges", "randomtransaction": "Model has no such transactions",
		"contendedlocked": "Model has no such transactions",
		"ttl":             "Model has no values that expire",
		"checkpoint":      "Model has no checkpoints", "backup2": "Model has no backups",
		"dump": "Model has no dumps", "load": "Model has no dumps",
		"ingest":       "Model has no ingestion of tables",
		"ingestrandom": "Model has no bulk load that sorts",
		"changes":      "Model has no feed of changes",
	} {
		if res := run(t, r, name); res.Skipped != want {
			t.Errorf("%s", res.Line())
		}
	}
	// A benchmark that is skipped takes nothing away, though it would begin with an empty database.
	if res := run(t, r, "fillseq", "ingestrandom", "keyspaces", "changes",
		"readrandom"); res.Found != num {
		t.Errorf("%s", res.Line())
	}
	if res := run(t, r, "fillseq", "randombatch"); res.Skipped != "" {
		t.Errorf("%s", res.Line())
	}
}

// TestCopies: the bytes of dumps count, and nothing is left of any copy.
func TestCopies(t *testing.T) {
	r, m := newRunner(t)
	r.Params.Num = 2_000_000 // two dumps
	r.Params.UseExisting = true
	db, err := m.Open(r.Dir, store.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		if err := db.Put(fmt.Appendf(nil, "%016d", i), make([]byte, 50), false); err != nil {
			t.Fatal(err)
		}
	}
	for name, ops := range map[string]int64{"checkpoint": 20, "backup": 2, "backup2": 20,
		"restore": 2, "dump": 2, "load": 2} {
		res := run(t, r, name)
		if counted := res.Bytes >= ops*100*(16+50); res.Ops != ops ||
			counted != (name == "dump" || name == "load") {
			t.Errorf("%s: %d operations, %d bytes", name, res.Ops, res.Bytes)
		}
		for _, dir := range m.Dirs() {
			// which the model has no file of
			if dir != r.Dir && !strings.HasSuffix(dir, "-kvbench-backups") {
				t.Errorf("%s left %s", name, dir)
			}
		}
		if left, err := filepath.Glob(r.Dir + "-*"); len(left) > 0 || err != nil {
			t.Errorf("%s left %v %v", name, left, err)
		}
	}
}

// TestLostChanges: a feed that misses batches is found out.
func TestLostChanges(t *testing.T) {
	r, m := newRunner(t)
	m.Fail = func(op string) error {
		if op == "changes" {
			m.Table(r.Dir).Forget(1)
		}
		return nil
	}
	spec, _ := workload.Find("changes")
	if res, err := r.Run(context.Background(), spec); !errors.Is(err, ErrWrong) || res.Found == 0 ||
		res.Found >= num {
		t.Errorf("%s: %v", res.Line(), err)
	}
}

// TestTables: what does not fit into one table goes into the next, and no file is left, nor after a
// failure.
func TestTables(t *testing.T) {
	r, m := newRunner(t)
	r.Params.ValueSize = 100_000
	r.Params.Num = 700
	if res := run(t, r, "ingest"); res.Bytes <= tableBytes ||
		len(m.Table(r.Dir).Contents()) != 700 {
		t.Errorf("%s: %d entries", res.Line(), len(m.Table(r.Dir).Contents()))
	}
	broken := errors.New("disk on fire")
	puts := 0
	m.Fail = func(op string) error {
		if op == "sink" {
			if puts++; puts > 100 {
				return broken
			}
		}
		return nil
	}
	spec, _ := workload.Find("ingest")
	if _, err := r.Run(context.Background(), spec); !errors.Is(err, broken) ||
		len(m.Table(r.Dir).Contents()) != 0 {
		t.Errorf("%v, %d entries", err, len(m.Table(r.Dir).Contents()))
	}
	if left, err := filepath.Glob(r.Dir + "-*"); len(left) > 0 || err != nil {
		t.Errorf("left %v %v", left, err)
	}
}

// TestFollower: it is started before the writes and stopped after them, and its lags are the
// result's. The key that it reads is gone.
func TestFollower(t *testing.T) {
	r, m := newRunner(t)
	run(t, r, "fillseq")
	if res := run(t, r, "overwritefollowed"); res.Skipped != "there is no program that "+
		"could follow" {
		t.Errorf("%s", res.Line())
	}
	var puts atomic.Int64
	m.Fail = func(op string) error {
		if op == "put" {
			puts.Add(1)
		}
		return nil
	}
	var trace []string
	r.Follow = func(dir string, c store.Config) (func() ([]time.Duration, error), error) {
		trace = append(trace, fmt.Sprintf("start %v", dir == r.Dir))
		return func() ([]time.Duration, error) {
			trace = append(trace, "stop")
			return []time.Duration{2e6, 3e6, 3e6}, nil
		}, nil
	}
	res := run(t, r, "overwritefollowed")
	if got := strings.Join(trace, ", "); got != "start true, stop" || res.Lag.Count() != 3 ||
		res.Lag.Max() != 3e6 || res.Ops != num || puts.Load() <= num {
		t.Errorf("%s: %s, %d puts", res.Line(), got, puts.Load())
	}
	if !strings.HasSuffix(res.Line(), "max: 3.0 ms)") || len(m.Table(r.Dir).Contents()) != num {
		t.Errorf("%s, %d entries", res.Line(), len(m.Table(r.Dir).Contents()))
	}
	broken := errors.New("cannot read")
	r.Follow = func(string, store.Config) (func() ([]time.Duration, error), error) {
		return func() ([]time.Duration, error) { return nil, broken }, nil
	}
	spec, _ := workload.Find("overwritefollowed")
	if _, err := r.Run(context.Background(), spec); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	r.Follow = func(string, store.Config) (func() ([]time.Duration, error), error) {
		return nil, broken
	}
	if _, err := r.Run(context.Background(), spec); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}

// TestShared: each thread has a database of its own, a loader another one than the quiet thread;
// they are closed and destroyed, and the run's own database is as it was.
func TestShared(t *testing.T) {
	r, m := newRunner(t)
	run(t, r, "fillseq")
	d := &countingDriver{Model: m}
	r.Driver = d
	for _, c := range []struct {
		name    string
		threads int
		written string // whether each database was
	}{{"budget", 4, "[true true true true]"}, {"quietshared", 1,
		"[true false false false]"}, {"quietwhileloading", 1, "[true true false false]"}} {
		spec, _ := workload.Find(c.name)
		res := run(t, r, c.name)
		if res.Threads != c.threads || res.Ops != int64(c.threads)*spec.Ops(num, num) ||
			res.Shared != 256<<20 {
			t.Errorf("%s: %d threads", res.Line(), res.Threads)
		}
		written := make([]bool, len(d.puts))
		var puts int64
		for i := range d.puts {
			written[i] = d.puts[i].Load() > 0
			puts += d.puts[i].Load()
		}
		if fmt.Sprint(written) != c.written || d.memory != 256<<20 {
			t.Errorf("%s wrote to %v of %d bytes", c.name, written, d.memory)
		}
		if c.threads == 1 && puts-res.BackgroundOps != num/10+res.Ops/2 {
			t.Errorf("%s: %d puts, %d of them in the background", res.Line(), puts,
				res.BackgroundOps)
		}
		if timed := res.Latency != nil; timed != (c.threads == 1) || timed &&
			res.Latency.Count() != res.Ops {
			t.Errorf("%s", res.Line())
		}
		if (c.name == "quietwhileloading") != (res.BackgroundOps > 0) {
			t.Errorf("%s: %d loaded", res.Line(), res.BackgroundOps)
		}
		if res.Resident != nil && !strings.Contains(res.Line(), "of 256 MiB at most)") {
			t.Errorf("%s", res.Line())
		}
		if dirs := m.Dirs(); len(dirs) != 1 || dirs[0] != r.Dir {
			t.Errorf("%s left %v", c.name, dirs)
		}
	}
	m.Fail = nil
	if res := run(t, r, "readrandom"); res.Found != num {
		t.Errorf("%s", res.Line())
	}
	broken := errors.New("no memory")
	opens := 0
	m.Fail = func(op string) error {
		if op == "open" {
			if opens++; opens == 3 {
				return broken
			}
		}
		return nil
	}
	spec, _ := workload.Find("budget")
	if _, err := r.Run(context.Background(), spec); !errors.Is(err, broken) || len(m.Dirs()) != 1 {
		t.Errorf("%v, left %v", err, m.Dirs())
	}
	r.Driver = plain{m}
	if res, err := r.Run(context.Background(), spec); err != nil ||
		res.Skipped != "Model has no databases that share memory" {
		t.Errorf("%s, %v", res.Line(), err)
	}
}

// countingDriver counts the puts of each database that shares memory.
type countingDriver struct {
	*storetest.Model
	memory int64
	puts   []atomic.Int64
}

type countingStore struct {
	store.Store
	puts *atomic.Int64
}

func (s countingStore) Put(key, value []byte, sync bool) error {
	s.puts.Add(1)
	return s.Store.Put(key, value, sync)
}

func (d *countingDriver) OpenShared(dirs []string, memory int64,
	c store.Config) ([]store.Store, error) {
	all, err := d.Model.OpenShared(dirs, memory, c)
	d.memory, d.puts = memory, make([]atomic.Int64, len(all))
	for i := range all {
		all[i] = countingStore{all[i], &d.puts[i]}
	}
	return all, err
}

// plain is a driver of what every engine has.
type plain struct{ store.Driver }
