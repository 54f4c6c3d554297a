// Loam looks at databases, takes care of them and moves their data; loam --help lists its verbs.
//
// It works on directories of Loam and of any LevelDB. Each verb is in a file of its own that is
// named after it, or after the first verb of its family; main.go has the table of verbs, and the
// other files have what verbs share:
//
//	open.go        a directory for reading or writing, with the comparer that its MANIFEST names
//	encode.go      keys and values as text, hex, base64 or JSON
//	encryption.go  the keys of encrypted databases
//	output.go      standard output, which may be a closed pipe; tables for the terminal; sizes
//	progress.go    how far a long verb has come, on a terminal
//
// Verbs use the public packages (lsm, lsm/backup, lsm/dump). What looks into single files goes by
// internal/feature/examine, which opens no database, and what asks a running one by
// internal/feature/inspect. Nothing else of internal/ is imported, but the names of formats and
// kinds in internal/base and internal/format, and internal/os/seal, which opens encrypted files.
//
// A verb that reads opens the directory with ReadOnly, or as a follower where another process has
// it open. Nothing is written by it. While it has the directory open with ReadOnly, no process can
// open that for writing. A verb that writes opens the directory as any program does, and fails
// where another process has it.
//
// The libraries are cobra, for verbs, flags and completions, and golang.org/x/term, for the prompt
// and the width of the terminal. Package lsm needs neither, so a program that imports it builds
// without them; internal/arch holds them to this directory.
package main
