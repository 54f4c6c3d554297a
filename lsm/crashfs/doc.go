// Package crashfs tests that a program survives a power cut: it is a file system in memory that
// knows which of its contents a crash may take.
//
// A program writes through it, with Options.FS of package lsm. Crashes runs the program again and
// again, cuts the power before another call of the file system each time, and hands out what
// several kinds of losses leave of the disk. The caller opens that and checks what its program
// promises:
//
//	for crash := range crashfs.Crashes(program) {
//		db, err := lsm.Open("/db", &lsm.Options{FS: crash.FS})
//		... is everything there that the program had been told is saved?
//	}
//
// Faults does the same with calls that fail, once or for ever, on a system that goes on.
//
// # What a crash takes
//
// As on a real disk, bytes of a file last when the file was synced after they were written, and the
// names in a directory, new, changed or removed ones, when the directory was synced. Of the rest a
// crash may keep any part: any blocks of 4 KiB, any changes of a directory, any piece of the last
// append. A Loss says which.
//
// # Tests that find something
//
// Crashes reports the moment of the power cut, and the program the results that it had by then: it
// notes each write
// that was acknowledged, in memory, where the check finds it. A check that all of these are there,
// and that every key found was written, finds lost and invented data; a check of a relation between
// values (a sum, an index and its targets) finds writes that should have been one batch.
//
// It is Go only: the file systems of programs in C, Python and Node are not the database's to
// replace.
package crashfs
