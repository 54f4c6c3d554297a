// Package replicate keeps a copy of a database in a directory or an object store while the database
// is written. It sends snapshots and, about every second, the changes that were committed since;
// from them the database can be restored as it was at any moment that is kept.
//
//	target, err := replicate.Dir("/mnt/replica", nil)
//	err = replicate.Run(ctx, db, target, &replicate.Options{Keep: 7 * 24 * time.Hour})
//
//	made, err := replicate.Restore(ctx, target, "/data/restored", nil)
//
// The database is an open one, or a follower (lsm.Follower.DB) beside the process that writes.
// docs/replicate.md describes its use and the objects.
package replicate
