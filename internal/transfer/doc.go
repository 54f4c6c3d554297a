// Package transfer moves the entries of all keyspaces of a database, at one state, to somewhere
// else: into another database.
//
// State reads, a Sink takes. A Writer is the Sink that writes into a database.
package transfer
