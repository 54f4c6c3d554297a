// Package replica keeps one data set on several nodes, for availability and for more reads: each
// node has a Loam database, and hashicorp/raft agrees on the changes. A data set fits a machine,
// and every change goes through one leader.
//
//	node, err := replica.Open("/var/lib/node", replica.Config{
//		ID: "a", Addr: "10.0.0.1:7070",
//		Peers: map[string]string{"a": "10.0.0.1:7070", "b": "10.0.0.2:7070",
//			"c": "10.0.0.3:7070"},
//	})
//	...
//	err = node.Put(ctx, key, value)
//
// Every node takes reads and changes, and forwards to the leader what it cannot do itself. A Node
// is a kv.Store.
//
// # Promises
//
// A change that returned nil is on stable storage of a majority of the voters, and applied. Every
// other one is ErrNotApplied, which is safe to try again, or ErrUnknown, which may have happened:
// Node.Once makes a change with an idempotency key, which takes effect once however often it is
// tried.
//
// Reads are linearizable: they see every change that had returned when they began, on every node.
// View with Local reads the node's own state without asking anybody, which may be old; it is always
// one state of the history.
//
// A node whose disk fails halts: it takes no part in the cluster, and calls fail with ErrHalted,
// until Rejoin, which it tries by itself from time to time. The program goes on, and so do the
// other nodes.
//
// # How it works
//
// A node's directory has the Raft log (package raftlog) and the database, see disk. A change is one
// entry of the log and one batch of the database, which has the index of the entry in it: so the
// database is written without syncs, and entries that a power cut took are applied again from the
// log. A snapshot is a checkpoint of the database, made of hard links. A node that is too far
// behind gets the files of the leader's snapshot, and fills a new directory of them, which takes
// the place of the old one when it is whole and synced.
//
// It is a module of its own, so that programs which use Loam do not depend on hashicorp/raft.
package replica
