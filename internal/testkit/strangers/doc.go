// Package strangers runs the long operations of a database on the real file system while another
// program, the stranger, is at work in the same directories: it removes, renames, truncates,
// replaces, reads or locks a file or folder, or does the same operation under the same name. It
// acts at the n-th file-system call of the operation at which the file is there, not at a time.
//
// Two kinds of places are attacked. Of a place outside of the database (the unfinished directory of
// a copy, a folder of backups, a table to be ingested) the operation may fail, with an error that
// has a type, and the database is unharmed: it takes writes, flushes, is guarded by its LOCK, and
// has its contents before and after another opening. Of the database's own directory, too, nothing
// hangs or panics; what opens afterwards holds no value that was never written.
package strangers
