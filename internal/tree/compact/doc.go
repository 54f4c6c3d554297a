// Package compact runs what package picker plans, and flushes.
//
// Run (or Flush, for a memtable) merges the inputs, collapses versions that nobody
// can see, and writes tables. It does not know the database: what it needs comes in
// an Env, and the caller turns the Results into one manifest.Edit (Edit) and
// installs it. The pieces of a plan may run at the same time.
package compact
