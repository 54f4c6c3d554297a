// Package replicate keeps a copy of a database elsewhere while it is written: in a directory, or in
// an object store. It sends snapshots and, about every second, what was committed since; from them
// the database can be restored as it was at any moment that is kept.
//
//	target, err := replicate.Dir("/mnt/replica", nil)
//	err = replicate.Run(ctx, db, target, &replicate.Options{Keep: 7 * 24 * time.Hour})
//
//	made, err := replicate.Restore(ctx, target, "/data/restored", nil)
//
// The database is an open one, or a follower (lsm.Follower.DB) beside the process that writes.
// docs/replicate.md tells how to use it and describes the objects.
package replicate
