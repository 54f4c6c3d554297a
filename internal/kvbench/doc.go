// Package kvbench is the command line of the benchmark: flags, experiments,
// progress, reports. It runs the benchmarks of package workload through package
// runner, on the engine whose driver it is given.
//
// Main is called once in a process.
package kvbench
