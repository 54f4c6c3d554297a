//go:build race

package kvbench

const raceEnabled = true
