// Package picker decides which tables to compact: a compaction picker.
//
// Deciding is pure: Pick, PickRange, FlushLevel and Debt read a
// manifest.Version and a Config, and answer with a Plan or a number. Package
// compact runs plans, and the caller installs the Edit that comes of that.
//
// # Concurrency
//
// Everything is a function of its arguments and safe for concurrent use, with
// one rule for the caller: a plan is picked, and its inputs are marked in progress,
// under one lock together with every other pick, FlushLevel and install, so
// that no decision is taken on a Version that lacks what another has decided.
//
// # The rules that keep reads right
//
// A read looks at level 0 from the newest file to the oldest, then at levels 1
// to 6, and takes the first entry of the key that it may see. So for every user
// key, the data of a level must be newer than that of all deeper levels. A plan
// that takes files of levels a to b and writes to level o >= b therefore also
// takes every file of the levels from its first input down to o that shares a
// user key with them, and every older file of level 0 that does. Of unordered files
// of level 0 (FileMeta.Unordered) each counts as older than each. While it runs,
// nothing else may put such keys into those levels: see InProgress.
package picker
