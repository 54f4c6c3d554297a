// Manykeys makes a database of very many small entries from ingested tables, and reads it with
// little memory:
//
//	go run ./internal/testkit/manykeys -dir D -write -keys 1000000000
//	go run ./internal/testkit/manykeys -dir D -keys 1000000000 -memory 240
//
// The second prints how long the database takes to open, how long gets of keys that are there, of
// keys that are not, and seeks take, and what the process has resident meanwhile.
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/loamdb/loam/lsm"
)

var (
	dir    = flag.String("dir", "", "the database")
	write  = flag.Bool("write", false, "make it")
	keys   = flag.Uint64("keys", 100_000_000, "how many keys it has")
	each   = flag.Uint64("each", 4_000_000, "keys of a table")
	memory = flag.Int64("memory", 240, "MiB of Resources, with which tables are made and read")
	ops    = flag.Int("ops", 200_000, "how many reads of each kind")
	seed   = flag.Uint64("seed", 1, "of the reads")
)

func main() {
	flag.Parse()
	run := read
	if *write {
		run = fill
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Keys are even numbers; odd ones are not there.
const keyLen = 16

func appendKey(dst []byte, n uint64) []byte {
	var b [keyLen]byte
	for i := keyLen - 1; i >= 0; i-- {
		b[i] = byte('0' + n%10)
		n /= 10
	}
	return append(dst, b[:]...)
}

func valueOf(n uint64) uint32 { return uint32(n / 1000) }

func options(res *lsm.Resources) *lsm.Options { return &lsm.Options{Resources: res} }

// fill writes tables, as many at a time as there are processors, and ingests them.
func fill() error {
	res := lsm.NewResources(lsm.ResourcesOptions{Memory: *memory << 20})
	defer res.Close()
	db, err := lsm.Open(*dir, options(res))
	if err != nil {
		return err
	}
	begun := time.Now()
	var wg sync.WaitGroup
	places, failed := make(chan struct{}, runtime.GOMAXPROCS(0)), make(chan error, 1)
	for first := uint64(0); first < *keys && len(failed) == 0; first += *each {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			path := filepath.Join(filepath.Dir(*dir), fmt.Sprintf("manykeys-%012d", first))
			err := table(path, res, first, min(first+*each, *keys))
			if err == nil {
				err = db.Ingest(context.Background(), &lsm.IngestOptions{Move: true}, path)
			}
			if err != nil {
				select {
				case failed <- err:
				default:
				}
			}
		})
	}
	wg.Wait()
	select {
	case err = <-failed:
	default:
	}
	err = errors.Join(err, db.Close())
	fmt.Printf("%d keys written in %v\n", *keys, time.Since(begun).Round(time.Millisecond))
	return err
}

func table(path string, res *lsm.Resources, first, end uint64) error {
	w, err := lsm.NewTableWriter(path, options(res))
	if err != nil {
		return err
	}
	defer w.Close()
	var key, value []byte
	for n := first; n < end; n++ {
		key, value = appendKey(key[:0], 2*n), binary.BigEndian.AppendUint32(value[:0], valueOf(n))
		if err := w.Put(key, value); err != nil {
			return err
		}
	}
	return w.Finish()
}

// read opens the database and reads it.
func read() error {
	before, _ := resident()
	begun := time.Now()
	res := lsm.NewResources(lsm.ResourcesOptions{Memory: *memory << 20})
	defer res.Close()
	db, err := lsm.Open(*dir, options(res))
	if err != nil {
		return err
	}
	report := func(what string, times []time.Duration) {
		now, most := resident()
		fmt.Printf("%-12s", what)
		if len(times) > 0 {
			slices.Sort(times)
			at := func(part float64) time.Duration { return times[int(part*float64(len(times)-1))] }
			fmt.Printf(" p50 %v p99 %v p99.9 %v", at(.5), at(.99), at(.999))
		}
		u := res.Metrics()
		fmt.Printf(" resident %d MiB (%d before, %d at most); blocks %d, tables %d, buffers "+
			"%d MiB\n", now>>20, before>>20, most>>20, u.CacheBytes>>20, u.TableBytes>>20,
			u.BufferBytes>>20)
	}
	fmt.Printf("opened in %v\n", time.Since(begun).Round(10*time.Microsecond))
	report("open", nil)
	rng := rand.New(rand.NewPCG(*seed, 1))
	var key, value []byte
	for _, kind := range []string{"first gets", "gets", "misses", "gets", "misses", "seeks"} {
		times := make([]time.Duration, *ops)
		for i := range times {
			n := rng.Uint64N(*keys)
			key = appendKey(key[:0], 2*n)
			if kind == "misses" {
				key[keyLen-1]++
			}
			start := time.Now()
			switch kind {
			case "seeks":
				if err := seek(db, key, n); err != nil {
					return err
				}
			default:
				value, err = db.Get(key, value[:0])
			}
			times[i] = time.Since(start)
			switch {
			case kind == "misses" && errors.Is(err, lsm.ErrNotFound):
				err = nil
			case kind == "misses" && err == nil:
				return fmt.Errorf("seed %d: %s is there", *seed, key)
			case err != nil:
				return fmt.Errorf("seed %d: %s: %w", *seed, key, err)
			case strings.HasSuffix(kind, "gets") && binary.BigEndian.Uint32(value) != valueOf(n):
				return fmt.Errorf("seed %d: %s has %x", *seed, key, value)
			}
		}
		report(kind, times)
	}
	return db.Close()
}

// seek seeks key and reads ten entries from there.
func seek(db *lsm.DB, key []byte, n uint64) error {
	it := db.Iter(nil)
	ok := it.SeekGE(key)
	for i := uint64(0); i < 10 && n+i < *keys; i++ {
		if !ok || binary.BigEndian.Uint32(it.Value()) != valueOf(n+i) {
			return errors.Join(fmt.Errorf("seed %d: a seek of %s: entry %d is not there", *seed,
				key, i), it.Close())
		}
		ok = it.Next()
	}
	return it.Close()
}

// resident is what the process has in memory now and had at most, in bytes; 0 where the system does
// not say.
func resident() (now, most int64) {
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		var n int64
		if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &n); err == nil {
			now = n << 10
		}
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &n); err == nil {
			most = n << 10
		}
	}
	return now, most
}
