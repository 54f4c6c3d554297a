//go:build !linux

package main

// preempted is not known.
func preempted() int64 { return 0 }
