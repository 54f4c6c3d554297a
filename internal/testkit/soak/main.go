// Soak runs the randomized tests for as long as one likes:
//
//	go run ./internal/testkit/soak SUITE -duration 1h -seed 1
//
// SUITE is meta, crash, repair, fault, corrupt, damage, kill, killkinds, powercut, full, bank,
// history, several, lifetimes, leak, callbacks, world, beside or strangers.
//
// Every round has a seed of its own, which a failure names.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"github.com/loamdb/loam/internal/testkit"
	"github.com/loamdb/loam/internal/testkit/alike"
	"github.com/loamdb/loam/internal/testkit/callbacks"
	"github.com/loamdb/loam/internal/testkit/crash"
	"github.com/loamdb/loam/internal/testkit/history"
	"github.com/loamdb/loam/internal/testkit/kill"
	"github.com/loamdb/loam/internal/testkit/leak"
	"github.com/loamdb/loam/internal/testkit/lifetimes"
	"github.com/loamdb/loam/internal/testkit/metamorphic"
	"github.com/loamdb/loam/internal/testkit/strangers"
	"github.com/loamdb/loam/internal/testkit/world"
)

// round runs a test once, in directories below dir, and returns a description of its work.
type round func(seed int64, dir string) (did string, err error)

var tests = map[string]round{
	"meta": func(seed int64, _ string) (string, error) {
		return "20000 operations under 8 option sets", metamorphic.Run(seed, 20_000, 8, time.Minute)
	},
	"crash": func(seed int64, _ string) (string, error) {
		names := append(append(crash.Workloads(), crash.CopyWorkloads()...), "kinds")
		name := names[int(seed%int64(len(names)))]
		r, err := crash.States(name, seed, 1)
		return fmt.Sprintf("%d crash states of %s", r.States, name), err
	},
	"repair": func(seed int64, _ string) (string, error) {
		n, err := crash.Repairs(seed, 100, 10)
		return fmt.Sprintf("%d repairs", n), err
	},
	"fault": func(seed int64, _ string) (string, error) {
		n, err := crash.Faults(seed, append(crash.Workloads(), "copy", "kinds"), 1)
		return fmt.Sprintf("%d faults", n), err
	},
	"corrupt": func(seed int64, _ string) (string, error) {
		n, err := crash.Corruption(seed, 1, seed%2 == 0)
		return fmt.Sprintf("%d damages", n), err
	},
	"damage": func(seed int64, _ string) (string, error) {
		shape := alike.Shapes[int(seed%int64(len(alike.Shapes)))]
		n, err := alike.All(shape, seed, 1+int(seed/4%7))
		return fmt.Sprintf("%d damages of a database (%v)", n, shape), err
	},
	"full": func(seed int64, _ string) (string, error) {
		return "100 full disks", crash.FullDisk(seed, 100)
	},
	"kill": func(seed int64, dir string) (string, error) {
		n := 0
		return "30 kills", kill.Kill(seed, 30, func() string {
			n++
			return filepath.Join(dir, fmt.Sprint(n))
		})
	},
	"killkinds": func(seed int64, dir string) (string, error) {
		n := 0
		return "30 kills of writers of all kinds", kill.KillKinds(seed, 30, func() string {
			n++
			return filepath.Join(dir, fmt.Sprint(n))
		})
	},
	"powercut": func(seed int64, dir string) (string, error) {
		self, err := kill.Self()
		if err != nil {
			return "", err
		}
		return "12 power cuts", kill.PowerCut(seed, 12, dir, self...)
	},
	"bank": func(seed int64, _ string) (string, error) {
		return "a bank of 20,000 sums", history.Bank(seed, 200, 20_000)
	},
	"history": func(seed int64, _ string) (string, error) {
		return "a history", history.Run(seed, history.Shape{Clients: 8, Keys: 64, Ops: 1000})
	},
	"several": func(seed int64, _ string) (string, error) {
		n, err := metamorphic.Several(seed, 20_000)
		return fmt.Sprintf("60000 operations on three databases, one disk blocked %d times", n), err
	},
	"strangers": func(seed int64, dir string) (string, error) {
		r, err := strangers.NewRunner(dir)
		if err == nil {
			err = r.One(seed, 100)
		}
		return "100 operations beside a stranger", err
	},
	"lifetimes": func(seed int64, _ string) (string, error) {
		n, err := lifetimes.Run(uint64(seed))
		return fmt.Sprintf("calls on closed objects, and beside Close stopped at %d points", n), err
	},
	"callbacks": func(seed int64, _ string) (string, error) {
		n, err := callbacks.All(seed, 100)
		return fmt.Sprintf("%d lives with a bad plug", n), err
	},
	"world": func(seed int64, _ string) (string, error) {
		o := world.Settings{Format: testkit.Format(seed), Keys: 4 + int(seed%4)*12}
		return fmt.Sprintf("1000 steps of every operation, %v", o.Format), world.Run(seed, o, 1000)
	},
	"beside": func(seed int64, _ string) (string, error) {
		keys := 10 + int(seed%4)*60
		return "4 histories of 4000 steps side by side", world.Beside(seed, keys, 4, 4000)
	},
	"leak": func(seed int64, dir string) (string, error) {
		before, after, err := leak.Openings(filepath.Join(dir, "db"), seed, 1000)
		if err == nil && (after.Descriptors > before.Descriptors ||
			after.Goroutines > before.Goroutines || after.OffHeap > before.OffHeap) {
			err = fmt.Errorf("before: %v; after: %v", before, after)
		}
		return fmt.Sprintf("1000 openings; %v", after), err
	},
}

func names() string {
	var out []string
	for name := range tests {
		out = append(out, name)
	}
	sort.Strings(out)
	return strings.Join(out, "|")
}

func main() {
	if code, child := kill.Child(); child {
		os.Exit(code)
	}
	if len(os.Args) < 2 || tests[os.Args[1]] == nil {
		fmt.Fprintf(os.Stderr, "usage: soak %s [-duration D] [-seed N]\n", names())
		os.Exit(2)
	}
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	duration := flags.Duration("duration", time.Minute, "how long to go on")
	seed := flags.Int64("seed", time.Now().UnixNano()&(1<<40-1),
		"of the first round; each further one adds 1")
	flags.Parse(os.Args[2:])
	if err := soak(tests[os.Args[1]], *seed, *duration); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// soak repeats f until the time is over or it fails, which leaves the
// directory for inspection.
func soak(f round, seed int64, d time.Duration) error {
	for start, n := time.Now(), 1; ; n++ {
		dir, err := os.MkdirTemp("", "soak")
		if err != nil {
			return err
		}
		began := time.Now()
		did, err := f(seed, dir)
		if err != nil {
			return fmt.Errorf("round %d, %s=%d, files in %s: %w", n, testkit.SeedEnv, seed, dir,
				err)
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
		fmt.Printf("round %d, seed %d: %s in %v\n", n, seed, did,
			time.Since(began).Round(time.Millisecond))
		if time.Since(start) >= d {
			return nil
		}
		seed++
	}
}
