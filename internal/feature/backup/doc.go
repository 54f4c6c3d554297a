// Package backup copies an open database into a directory of its own.
//
// What is copied is one state of the database: the tables and keyspaces that the MANIFEST names at
// one time (capture), and the logs up to where the last commit before a later time ended. Between
// the two times no keyspace is created or dropped, and no log becomes obsolete that the MANIFEST of
// the first one needs. So the copy recovers to the state of the second time, as the database would
// after the death of its process.
//
// A copy shares with its source, as second names of them, the files that are never written again:
// tables, and full logs that were synced and closed. A log with a second name does not become
// another log. The MANIFEST, CURRENT and the current log are files of the copy's own.
package backup
