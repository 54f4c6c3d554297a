// Package transfer moves the entries of all keyspaces of a database, at one state, to somewhere
// else: into another database, or a stream of bytes, and from that into a database.
//
// State reads, a Sink takes. A Writer is the Sink that writes into a database, an Encoder the one
// that writes a dump; a Decoder reads that. So Export is State to Writer, Dump is State to Encoder,
// Load is Decoder to Writer.
package transfer
