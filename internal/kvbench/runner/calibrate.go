package runner

import (
	"context"
	"math"

	"github.com/loamdb/loam/internal/workload"
	"github.com/loamdb/loam/internal/workload/store"
)

// Calibrate measures what the benchmark itself costs, in nanoseconds per
// operation: the same loops over a store that does nothing. The best of a few
// short runs is taken.
func Calibrate() map[string]float64 {
	const ops, tries = 50_000, 5
	cost := map[string]float64{}
	r := &Runner{Params: Params{Num: ops, Reads: -1, ValueSize: 100, CompressionRatio: 0.5},
		db: nothing{}}
	for _, name := range []string{"fillseq", "fillrandom", "readrandom", "readseq", "seekordered"} {
		spec, ok := workload.Find(name)
		if !ok {
			continue
		}
		best := math.Inf(1)
		for range tries {
			res, err := r.measure(context.Background(), &spec, Result{Name: name, Threads: 1})
			if err == nil {
				best = min(best, res.MicrosPerOp()*1e3)
			}
		}
		if !math.IsInf(best, 1) {
			cost[name] = math.Round(best*100) / 100
		}
	}
	return cost
}

// nothing is a store and an endless iterator that do nothing.
type nothing struct{ store.Store }

func (nothing) Put(_, _ []byte, _ bool) error                    { return nil }
func (nothing) Get(_, dst []byte) (v []byte, ok bool, err error) { return dst, true, nil }
func (nothing) NewIterator() (store.Iterator, error)             { return nowhere{}, nil }
func (nothing) Metrics() store.Metrics                           { return store.UnknownMetrics() }

type nowhere struct{ store.Iterator }

func (nowhere) First() bool          { return true }
func (nowhere) Next() bool           { return true }
func (nowhere) SeekGE(_ []byte) bool { return true }
func (nowhere) Key() []byte          { return nil }
func (nowhere) Value() []byte        { return nil }
func (nowhere) Err() error           { return nil }
func (nowhere) Close() error         { return nil }
