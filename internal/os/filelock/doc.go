// Package filelock locks open files against other processes, in all the ways in which
// engines of LevelDB's kind do. The functions are for one goroutine at a time a file.
package filelock
