// Package tikv is kv.Store on TiKV, for data and writes beyond one machine: TiKV cuts the keys into
// regions, replicates each by Raft, and moves them between machines. The package is experimental.
//
//	db, err := tikv.Open(ctx, tikv.Config{PD: []string{"10.0.0.1:2379", "10.0.0.2:2379"}})
//	...
//	err = db.Put(ctx, key, value)
//
// # Promises
//
// A change that returned nil is on stable storage of a majority of each region that it wrote to.
// Every other one fails with ErrNotApplied, which is safe to try again, or with ErrUnknown, which
// may have happened. A batch is one optimistic transaction in two phases.
//
// Reads are linearizable: they see every change that had returned when they began. Iterators and
// snapshots are one state of all regions. Their versions are kept from garbage collection as long
// as they are open, see Config.SafePointTTL.
//
// # How it works
//
// A key in TiKV is Config.Prefix and the key; a value is a byte, 1, and the value, since TiKV has
// no empty keys and no empty values. The transactional API of github.com/tikv/client-go does the
// rest: it finds regions, follows their leaders and splits, resolves the locks of writers that
// died, and tries again what a region refused, for up to 40 seconds.
//
// What TiKV cannot do as a database in one process does is absent: merges, values that expire,
// deletions of ranges, keyspaces, checkpoints.
//
// It is a module of its own, so that programs which use Loam do not depend on TiKV's client.
package tikv
