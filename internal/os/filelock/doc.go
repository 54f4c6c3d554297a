// Package filelock locks open files against other processes, in all the ways in which
// engines of LevelDB's kind do, and tells files and file systems apart. The functions of locks are
// for one goroutine at a time a file.
package filelock
