// Package feed hands out what a database committed, in the order of the sequence numbers, from its
// logs.
//
// A Changes reads the logs while the writer goes on; the writer only knows whether any feed waits
// (Hub.Waiting): where nobody does, a commit pays one load. What is shown is what is visible: the
// sequence number that readers go by says which records of a log count. So a write whose sync
// failed, or which was cut off after a shortage, never appears, although its bytes may be in a log.
//
// The markers at the beginnings of logs show which log has a sequence number. A recovery copies
// entries into its new log, or drops the end of an old one, and the log's marker says so: it has
// everything from its marker on, whatever older logs have there. So the log of a sequence number is
// the newest one whose marker is not above it, and an older log counts up to the least marker of
// those after it. That also holds for logs that a recovery left which was cut off itself.
package feed
