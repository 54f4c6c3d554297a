// Package files owns the table files of a database: it opens each once, in the
// format that its magic names, and keeps the parsed reader, shares a bounded
// number of descriptors among all databases of the process, and deletes files
// that are no longer needed.
//
// # Lifetimes
//
// A FileMeta lives as long as some Version has it. Its reader is made by the
// first Set.Reader, is kept in FileMeta.Opened, and stays until the last Version
// with the file is gone: the manifest then calls Set.Obsolete, which waits until
// every guard of the database (Options.Reads) that could have found the file has
// exited, closes the reader, and queues the file for deletion. So a reader may be
// used inside a guard that was entered before the Version was loaded, or with a
// reference on a Version that has the file; nothing counts readers per table.
//
// Iterators may outlive their database. Set.Leave ends what the Set does in the
// directory, which may soon be another database's: no file is deleted or opened
// by its name any more. Set.Close, after the last holder has gone, frees memory
// and descriptors only.
//
// A Pin keeps files from deletion whatever the Versions say: for checkpoints,
// backups and others that link, copy or read files of the directory by name.
//
// A descriptor may be closed while its reader is kept. Every read pins the table's
// descriptor for the time of the system call; when the process has as many open
// as the limit allows (SetMaxOpen), a CLOCK hand closes one that is not pinned,
// and the next read of that table opens it again. The parsed index, the filter
// and the cached blocks are not touched by that.
//
// A failure to open is not remembered: the next read tries again, as an I/O error may
// be gone by then. Damage under a right checksum is remembered: it is not going to
// change, and finding it may mean unpacking a huge block.
//
// # Locks, outermost first
//
// Set.opening (by file number), file.mu, Set.mu, pool.mu. No lock is held while
// a table is read; file.mu alone while a descriptor is opened.
//
// All of a Set's methods are safe for concurrent use, but Close may run beside
// no use of a reader.
package files
