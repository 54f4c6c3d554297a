// Beside measures how long reads and writes of a quiet database take, alone and beside one that is
// filled at full speed in the same process with the same Resources:
//
//	go run ./internal/testkit/beside -seconds 10 -rate 500
package main

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/loamdb/loam/lsm"
)

var (
	dir     = flag.String("dir", "", "where the databases are made; default: a temporary directory")
	seconds = flag.Int("seconds", 10, "how long each phase takes")
	rate    = flag.Int("rate", 500, "operations a second of each kind")
	keys    = flag.Int("keys", 200_000, "keys of the quiet database")
	memory  = flag.Int64("memory", 256, "MiB that both share")
	jobs    = flag.Int("jobs", 2, "background jobs")
	io      = flag.Int64("io", 0, "MiB a second of background work; 0: no bound")
	rounds  = flag.Int("rounds", 2, "how often each phase is run")
	spin    = flag.Bool("spin", false, "instead of a fill, a goroutine that only computes")
)

func main() {
	flag.Parse()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

const valueLen = 100

func run() error {
	top := *dir
	if top == "" {
		var err error
		if top, err = os.MkdirTemp("", "beside"); err != nil {
			return err
		}
		defer os.RemoveAll(top)
	}
	res := lsm.NewResources(lsm.ResourcesOptions{Memory: *memory << 20, BackgroundJobs: *jobs,
		IOBytesPerSecond: *io << 20})
	defer res.Close()
	quiet, err := lsm.Open(filepath.Join(top, "quiet"), &lsm.Options{Resources: res})
	if err != nil {
		return err
	}
	defer quiet.Close()
	value := make([]byte, valueLen)
	for i := range *keys {
		if err := quiet.Put(key(uint64(i)), value, lsm.NoSync); err != nil {
			return err
		}
	}
	if err := quiet.Flush(); err != nil {
		return err
	}
	for round := range *rounds {
		if err := phase("alone", quiet, nil); err != nil {
			return err
		}
		loading, err := lsm.Open(filepath.Join(top, fmt.Sprint("loading", round)),
			&lsm.Options{Resources: res})
		if err != nil {
			return err
		}
		err = phase("beside", quiet, loading)
		if err := errors.Join(err, loading.Close()); err != nil {
			return err
		}
	}
	return nil
}

func key(n uint64) []byte {
	var k [16]byte
	binary.BigEndian.PutUint64(k[:], n*0x9e3779b97f4a7c15)
	return k[:]
}

// phase does reads and writes at a rate, beside a fill of loading unless that is nil.
func phase(name string, quiet, loading *lsm.DB) error {
	var stop atomic.Bool
	var wg sync.WaitGroup
	var filled atomic.Int64
	var failed atomic.Pointer[error]
	fail := func(err error) { failed.CompareAndSwap(nil, &err) }
	end := time.Now().Add(time.Duration(*seconds) * time.Second)
	if loading != nil {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, 1))
			value := make([]byte, valueLen)
			for !stop.Load() {
				if *spin {
					filled.Add(int64(rng.Uint64() & 1))
					continue
				}
				for i := range value {
					value[i] = byte(rng.Uint32() >> (i % 2 * 8))
				}
				if err := loading.Put(key(rng.Uint64()), value, lsm.NoSync); err != nil {
					fail(err)
					return
				}
				filled.Add(1)
			}
		})
	}
	kinds := []struct {
		name string
		do   func(rng *rand.Rand) error
	}{
		{"get", func(rng *rand.Rand) error {
			_, err := quiet.Get(key(rng.Uint64N(uint64(*keys))), nil)
			return err
		}},
		{"seek", func(rng *rand.Rand) error {
			it := quiet.Iter(nil)
			it.SeekGE(key(rng.Uint64N(uint64(*keys))))
			return it.Close()
		}},
		{"put", func(rng *rand.Rand) error {
			return quiet.Put(key(rng.Uint64N(uint64(*keys))), make([]byte, valueLen), lsm.NoSync)
		}},
		{"nothing", func(*rand.Rand) error { return nil }},
	}
	times := make([][]time.Duration, len(kinds))
	all := make([][]time.Duration, len(kinds))
	late := make([][]time.Duration, len(kinds))
	for i, k := range kinds {
		wg.Go(func() {
			runtime.LockOSThread() // for preempted
			defer runtime.UnlockOSThread()
			rng := rand.New(rand.NewPCG(2, uint64(i)))
			every := time.Second / time.Duration(*rate)
			for at := time.Now(); at.Before(end); at = at.Add(every) {
				time.Sleep(time.Until(at))
				switches := preempted()
				begun := time.Now()
				late[i] = append(late[i], begun.Sub(at))
				if err := k.do(rng); err != nil {
					fail(err)
					return
				}
				took := time.Since(begun)
				all[i] = append(all[i], took)
				if preempted() == switches {
					times[i] = append(times[i], took)
				}
			}
		})
	}
	time.Sleep(time.Until(end))
	stop.Store(true)
	wg.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	fmt.Printf("%-7s %8d filled a second", name, filled.Load()/int64(*seconds))
	for i, k := range kinds {
		slices.Sort(times[i])
		slices.Sort(late[i])
		slices.Sort(all[i])
		at := func(t []time.Duration, part float64) time.Duration {
			return t[int(part*float64(len(t)-1))].Round(100 * time.Nanosecond)
		}
		fmt.Printf("\n  %-8s p50 %8v p99 %8v p99.9 %8v; preempted ones included p99 %8v p99.9 "+
			"%8v; woken late p50 %8v p99 %8v", k.name, at(times[i], .5), at(times[i], .99),
			at(times[i], .999), at(all[i], .99), at(all[i], .999), at(late[i], .5),
			at(late[i], .99))
	}
	fmt.Println()
	return nil
}
