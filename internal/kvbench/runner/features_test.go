package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

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
		if got := strings.Join(left, " "); got != "0000000000000999 0000000000001999 0000000000002999" {
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

// TestCounters: the sum of what is read is that of what was added.
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
			t.Errorf("%s: the counters amount to %d, opened with %+v", name, sum, m.Table(r.Dir).Config)
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
	for _, name := range []string{"randomtransaction", "lockedtransaction", "randombatch", "writetransaction", "writebatch"} {
		r, m := newRunner(t)
		run(t, r, "fillseq")
		res := run(t, r, name)
		spec, _ := workload.Find(name)
		c := m.Table(r.Dir).Config
		if res.Threads != 2 || res.Ops != num/4*2 || c.Transactions == spec.Txn.Plain || c.Locks != spec.Txn.Locks {
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
func TestUnusable(t *testing.T) {
	r, m := newRunner(t)
	r.Driver = plainDriver{m}
	for name, want := range map[string]string{
		"mergerandom": "Model has no merges", "randomtransaction": "Model has no such transactions", "contendedlocked": "Model has no such transactions",
		"ttl": "Model has no values that expire",
	} {
		if res := run(t, r, name); res.Skipped != want {
			t.Errorf("%s", res.Line())
		}
	}
	if res := run(t, r, "fillseq", "randombatch"); res.Skipped != "" {
		t.Errorf("%s", res.Line())
	}
}
