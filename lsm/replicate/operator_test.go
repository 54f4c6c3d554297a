package replicate

import (
	"errors"
	"testing"
	"time"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/lsm"
)

// TestOtherOperator: a keyspace whose operands were folded gets another merge operator, beside a
// replicator or between two. The newest state is restored as it is. Where the operands of both
// operators would be sent together, another generation begins.
func TestOtherOperator(t *testing.T) {
	for name, c := range map[string]struct {
		sent, alone, reopened bool // the operands of the first operator; the list; the database
		generations           int
	}{
		"together":                {false, false, false, 2},
		"unsent behind the list":  {true, false, false, 2},
		"list alone":              {true, true, false, 1},
		"reopened":                {true, false, true, 2},
		"reopened, unsent before": {false, false, true, 2},
		"reopened, list alone":    {true, true, true, 1},
	} {
		clock, target := newClock(), newMem()
		o := &lsm.Options{FS: vfs.NewMem(), WALRetentionBytes: 1 << 20,
			MergeOperator: lsm.MergeOperatorNamed("append:")}
		db, err := lsm.Open("db", o)
		must(t, err)
		r := runnerOf(t, db, target, Options{Clock: clock.time})
		send := func() {
			clock.add(time.Second)
			must(t, settle(r))
		}
		merge := func(operands ...string) {
			for _, o := range operands {
				must(t, db.Merge([]byte("key"), []byte(o), lsm.NoSync))
			}
		}
		must(t, db.Put([]byte("other"), nil, lsm.NoSync))
		send()
		merge("1", "2")
		if c.sent {
			send()
		}
		must(t, db.CompactRange(nil, nil))
		o.MergeOperator = lsm.MergeOperatorNamed("append:,")
		if c.reopened {
			r.close()
			must(t, db.Close())
			db, err = lsm.Open("db", o)
			must(t, err)
			r = runnerOf(t, db, target, Options{Clock: clock.time})
		} else {
			_, err = db.Keyspace("default",
				&lsm.KeyspaceOptions{MergeOperator: o.MergeOperator})
			must(t, err)
		}
		if c.alone {
			send()
		}
		merge("3")
		send()
		want := contentsOf(t, db)
		if got, _ := restoredAt(t, target, time.Time{}, clock.time()); got.diff(want) != "" {
			t.Errorf("%s: %s", name, got.diff(want))
		}
		if all, err := List(ctx, target); err != nil || len(all) != c.generations {
			t.Errorf("%s: %d generations, want %d; %v", name, len(all), c.generations, err)
		}
		r.close()
		must(t, db.Close())
	}
}

// TestUnknownOperator: a restore does not fold operands of an operator that its options lack with
// the operator that they name.
func TestUnknownOperator(t *testing.T) {
	joining := func(name string) *lsm.MergeOperator {
		return &lsm.MergeOperator{Name: name,
			Full: func(dst, _, existing []byte, operands [][]byte) ([]byte, error) {
				dst = append(dst, existing...)
				for _, o := range operands {
					dst = append(append(dst, name...), o...)
				}
				return dst, nil
			}}
	}
	clock, target := newClock(), newMem()
	db, err := lsm.Open("db", &lsm.Options{FS: vfs.NewMem(), MergeOperator: joining("a")})
	must(t, err)
	r := runnerOf(t, db, target, Options{Clock: clock.time})
	must(t, db.Put([]byte("key"), []byte("0"), lsm.NoSync))
	must(t, settle(r))
	must(t, db.Merge([]byte("key"), []byte("1"), lsm.NoSync))
	clock.add(time.Second)
	must(t, settle(r))
	r.close()
	must(t, db.Close())
	for name, known := range map[string]bool{"a": true, "b": false} {
		o := &lsm.Options{FS: vfs.NewMem(), MergeOperator: joining(name)}
		_, err := Restore(ctx, target, "new", &RestoreOptions{Open: o})
		if !known && !errors.Is(err, lsm.ErrNoMergeOperator) || known && err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
