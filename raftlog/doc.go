// Package raftlog keeps the log of a node of hashicorp/raft, and its term and vote, in a Loam
// database: a Store is what raft.NewRaft takes as its LogStore and as its StableStore.
//
//	logs, err := raftlog.Open("/var/lib/node/raft", nil)
//	...
//	node, err := raft.NewRaft(config, fsm, logs, logs, snapshots, transport)
//
// StoreLogs appends all its entries to the database's write-ahead log as one record, and syncs that
// once. DeleteRange writes one range delete, however many entries go. The first and the last index
// are kept in memory, so that FirstIndex and LastIndex read nothing.
//
// A Store has the optional interfaces, too: MonotonicLogStore, by which raft removes the whole log
// after it installed a snapshot, and raft 1.8's CommitTrackingLogStore: a node with
// Config.RestoreCommittedLogs applies the entries up to its stored commit index before it knows a
// leader.
//
// It is a module of its own, so that programs which use Loam do not depend on hashicorp/raft. It
// needs raft 1.7.3, which raft-boltdb and raft-wal need as well, and goes with 1.8.
//
// # Promises
//
// Every change is on stable storage when the call returns nil: a power cut does not undo it. What a
// call did that returned an error, or that a crash interrupted, is there as a whole or not at all.
// A full disk fails calls with lsm.ErrNoSpace until there is room again; after any other failed
// write all changes fail with lsm.ErrReadOnly until the store is opened again, and reads go on.
// Damaged bytes are a *lsm.CorruptionError that names the file, never a missing entry.
//
// A read never returns an entry before it is on stable storage.
package raftlog
