// Soak kills, stops and restarts nodes of loamd under load, round after round, and checks what
// clients were told, what was acknowledged, and that all nodes hold the same:
//
//	go build -o loamd ./cmd/loamd && go run ./internal/soak -loamd ./loamd -duration 30m
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/loamdb/loam/replica/internal/faults"
)

func main() {
	if err := soak(); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

func soak() error {
	program := flag.String("loamd", "loamd", "the `program`")
	duration := flag.Duration("duration", 30*time.Minute, "how long rounds are begun")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "of the first round")
	count := flag.Int("faults", 12, "of a round")
	spaces := flag.Bool("spaces", false, "each node has a network namespace, and is cut off, too")
	flag.Parse()
	const inSpace = "LOAM_SPACE"
	if *spaces && os.Getenv(inSpace) == "" {
		return faults.InSpace(inSpace+"=1", os.Args[1:]...)
	}
	for end := time.Now().Add(*duration); time.Now().Before(end); *seed++ {
		dir, err := os.MkdirTemp("", "loamd-soak")
		if err != nil {
			return err
		}
		report, err := faults.Run(context.Background(), faults.Options{Program: *program, Dir: dir,
			Spaces: *spaces, Seed: *seed, Faults: *count, Answers: 300, Limit: 20 * time.Minute,
			Log: func(string, ...any) {}})
		if err != nil {
			return fmt.Errorf("%w; what is left is in %s", err, dir)
		}
		fmt.Printf("seed %d: %d operations, %d writes kept, %d faults\n", *seed, report.Operations,
			report.Kept, report.Faults)
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return nil
}
