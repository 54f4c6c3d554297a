// Package mutants proves that the large tests find what they are for. Each row
// of its table (table_test.go) changes one thing in the engine's source, as a
// build overlay, and names the test that must then fail within a minute.
//
// The package has no code of its own to call.
package mutants
