// Kvbench-peers is kvbench with Loam's peers built in: the same benchmarks, the
// same keys, matched settings, everything in one report.
package main

import (
	"os"

	"github.com/loamdb/loam/bench/peers/badger"
	"github.com/loamdb/loam/bench/peers/bbolt"
	"github.com/loamdb/loam/bench/peers/goleveldb"
	"github.com/loamdb/loam/bench/peers/pebble"
	"github.com/loamdb/loam/internal/kvbench"
	"github.com/loamdb/loam/internal/kvbench/loam"
)

// drivers are the engines; build tags add those that need a C++ library.
var drivers = append(loam.Drivers(), goleveldb.Driver{}, pebble.Driver{}, badger.Driver{},
	bbolt.Driver{})

func main() {
	os.Exit(kvbench.Main(os.Args[1:], os.Stdout, os.Stderr, drivers...))
}
