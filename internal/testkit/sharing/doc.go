// Package sharing tests which cache lines several readers of a database write. It builds a program
// with the engine whose atomic types and locks record their callers (testdata/counted, put in place
// of sync and sync/atomic by an overlay), runs each operation on several goroutines, one after
// another, and compares the lines that more than one of them wrote with the list in
// docs/locking.md.
package sharing
