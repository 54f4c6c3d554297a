// Package manifest keeps which tables a database consists of: LevelDB's
// MANIFEST (a log of Edits), which CURRENT names (package current), and
// Version, the immutable picture that the edits add up to. It stores metadata
// only and never opens a table.
//
// A Set and a Version are safe for concurrent use; an Edit, a State and a Level
// under construction belong to one goroutine. A FileMeta's exported plain
// fields are constant once the file has been handed to Set.Apply.
package manifest
