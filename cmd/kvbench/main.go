// Kvbench measures Loam with LevelDB's benchmarks; kvbench --help tells more.
package main

import (
	"os"

	"github.com/loamdb/loam/internal/kvbench"
	"github.com/loamdb/loam/internal/kvbench/loam"
)

func main() {
	os.Exit(kvbench.Main(os.Args[1:], os.Stdout, os.Stderr, loam.Drivers()...))
}
