// Package inspect answers other processes about an open database, on a Unix socket in its
// directory. docs/observe.md describes the requests and their answers.
//
// A connection carries lines of JSON: a request, then its answer, in turn. The package has the
// socket, the bounds and the framing; what an answer says is the affair of an Answerer.
//
// No client holds the database up. An answer is made in memory, with every iterator closed, before
// its first byte is sent; its size is bounded, and so are requests, connections, the time of a send
// and the time that a connection is idle. Close ends the connections without waiting for a client.
package inspect
