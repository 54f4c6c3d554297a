// Package backup copies an open database into a directory of its own.
//
// What is copied is one state of the database: the tables and keyspaces that the MANIFEST
// names at one time (capture), and the logs up to where the last commit before a later time
// ended. Between the two times no keyspace is created or dropped, and no log becomes obsolete
// that the MANIFEST of the first one needs. So the copy recovers to the state of the second time, as
// the database would after the death of its process.
//
// A copy shares tables with its source, as second names of their files, because no file of a table is ever
// written again. The MANIFEST, CURRENT and the logs are files of its own: a log is written
// by its database, or becomes another one.
package backup
