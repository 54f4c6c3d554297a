//go:build unix && !linux && !darwin

package vfs

// countsLinks assumes what holds for the file systems of these systems. Tests replace it.
var countsLinks = func(int) bool { return true }
