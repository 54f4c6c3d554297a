package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/loamdb/loam/cmd/loam/internal/remote"
	"github.com/loamdb/loam/cmd/loam/internal/text"
	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/replicate"
)

// targetOf opens the target that an argument names. The caller calls end.
func targetOf(name string) (t replicate.Target, end func(), err error) {
	t, end, err = remote.Open(name)
	if errors.Is(err, remote.ErrNoProgram) {
		err = &usageError{err.Error()}
	}
	return t, end, err
}

// statusLine is how far a replicator is, in JSON.
type statusLine struct {
	Generation string  `json:"generation"`
	Sequence   uint64  `json:"sequence"`
	Pending    uint64  `json:"pending"`
	Lag        float64 `json:"lag_seconds"`
	Snapshot   string  `json:"snapshot,omitempty"`
	Sending    int64   `json:"sending_bytes,omitempty"`
	Verified   string  `json:"verified,omitempty"`
	Error      string  `json:"error,omitempty"`
}

// momentText is a time to the millisecond, as --at takes it; "" if it is zero.
func momentText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

func lineOfStatus(s replicate.Status) statusLine {
	l := statusLine{Generation: s.Generation, Sequence: s.Sequence, Pending: s.Pending,
		Lag: s.Lag.Seconds(), Snapshot: momentText(s.Snapshot), Sending: s.Sending,
		Verified: momentText(s.Verified)}
	if s.Err != nil {
		l.Error = s.Err.Error()
	}
	return l
}

// replication tells what changes between two statuses: lines of JSON, errors, and a line on a
// terminal.
type replication struct {
	a    *app
	p    *progress
	last statusLine
}

func (r *replication) told(s replicate.Status) {
	l := lineOfStatus(s)
	changed := l.Error != r.last.Error || l.Sequence != r.last.Sequence ||
		l.Generation != r.last.Generation || l.Snapshot != r.last.Snapshot ||
		l.Verified != r.last.Verified
	if changed && r.a.json {
		_ = r.a.printJSON(l) // a closed pipe ends the verb at its end
		_ = r.a.out.Flush()
	}
	if l.Error != r.last.Error && l.Error != "" && !r.a.json {
		r.p.end()
		fmt.Fprintln(r.a.err, "loam: tried again:", firstLines(l.Error))
	}
	r.last = l
	line := fmt.Sprintf("sequence %d sent, lag %.1f s", l.Sequence, l.Lag)
	switch {
	case l.Sending > 0:
		line += ", snapshot: " + text.Bytes(uint64(l.Sending)) + " sent"
	case l.Snapshot != "":
		line += ", snapshot of " + l.Snapshot
	}
	if l.Error != "" {
		line += ", failing"
	}
	r.p.tell(line)
}

func (a *app) replicateVerb() *cobra.Command {
	o := replicate.Options{}
	var once bool
	c := &cobra.Command{
		Use:   "replicate DIR TARGET",
		Short: "Keep a replica of a database elsewhere, while it is written",
		Long: "Send a snapshot of a database to a directory or an object store, and then about " +
			"every second what\nwas written since, until Ctrl-C. Any moment that is kept can be " +
			"restored: \"loam restore --at\". The\nprocess that has the database open goes on " +
			"meanwhile and knows nothing of it. Failures of the target\nare tried again. The " +
			"verb goes on where it ended, if the database's logs reach back that far (option\n" +
			"wal_retention_bytes), and otherwise begins with a snapshot. See docs/replicate.md.",
		Example: "  loam replicate trees /mnt/replica --keep 7d\n" +
			"  loam replicate trees s3://bucket/trees --keep 7d\n" +
			"  loam replicate trees /mnt/replica --verify-every 24h --verify-dir /var/tmp\n" +
			"  loam replicas /mnt/replica\n  loam restore --at 2026-11-23T08:00 /mnt/replica new",
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			target, end, err := targetOf(args[1])
			if err != nil {
				return err
			}
			defer end()
			ctx, stop := interruptible(cmd)
			defer stop()
			o.Until = ctx.Done() // what is there by then is sent; a second Ctrl-C ends at once
			if once {
				now := make(chan struct{})
				close(now)
				o.Until = now
			}
			told := &replication{a: a, p: a.progress("", 0)}
			o.Status = told.told
			err = a.replicate(context.WithoutCancel(ctx), args[0], target, o)
			told.p.end()
			return err
		},
	}
	c.Flags().Var((*remote.Duration)(&o.Keep), "keep",
		"how far back states can be restored, as 7d or 36h; default: all are kept")
	c.Flags().Var((*remote.Duration)(&o.Interval), "interval",
		"time between two looks; default: 1s")
	c.Flags().Var((*remote.Duration)(&o.SnapshotEvery), "snapshot-every",
		"time between two snapshots; default: 24h")
	c.Flags().Var((*remote.Duration)(&o.VerifyEvery), "verify-every",
		"time between two restores that are tried and compared; default: never")
	c.Flags().StringVar(&o.VerifyDir, "verify-dir", "", "directory for these restores")
	c.Flags().BoolVar(&o.TakeOver, "take-over", false,
		"go on in the target of a database that was in another directory")
	c.Flags().BoolVar(&o.AllowClear, "clear", false,
		"of an encrypted database: the replica is not encrypted")
	c.Flags().BoolVar(&once, "once", false, "end when everything is sent, and what is due is made")
	return c
}

// replicate runs a replicator beside the process that writes dir, as long as dir is the same
// database, and again when another one has taken its place.
func (a *app) replicate(ctx context.Context, dir string, t replicate.Target,
	o replicate.Options) error {
	for {
		open, err := a.options(dir)
		if err != nil {
			return err
		}
		o.Restore = &lsm.Options{CacheSize: readCache, Comparer: open.Comparer,
			Comparers: open.Comparers, Encryption: open.Encryption}
		f, err := lsm.OpenFollower(dir, open)
		if err != nil {
			return err
		}
		err = replicate.Run(ctx, f.DB, t, &o)
		if err = errors.Join(err, f.Close()); !errors.Is(err, lsm.ErrDirectoryChanged) {
			return err
		}
	}
}

// replicaLine is a generation in JSON.
type replicaLine struct {
	Generation string   `json:"generation"`
	Directory  string   `json:"directory,omitempty"`
	Host       string   `json:"host,omitempty"`
	Snapshots  []string `json:"snapshots"`
	First      string   `json:"first,omitempty"`
	Last       string   `json:"last,omitempty"`
	Sequence   uint64   `json:"sequence"`
	Objects    int      `json:"objects"`
	Error      string   `json:"error,omitempty"`
}

func lineOfReplica(i replicate.Info) replicaLine {
	l := replicaLine{Generation: i.Generation, Directory: i.Directory, Host: i.Host,
		Snapshots: []string{}, First: momentText(i.First), Last: momentText(i.Last),
		Sequence: i.Sequence, Objects: i.Objects}
	for _, s := range i.Snapshots {
		l.Snapshots = append(l.Snapshots, momentText(s))
	}
	if i.Err != nil {
		l.Error = i.Err.Error()
	}
	return l
}

func (a *app) replicasVerb() *cobra.Command {
	return &cobra.Command{
		Use:   "replicas TARGET",
		Short: "List what can be restored of a replica",
		Long: "List the generations of a replica, oldest first: histories without a gap, and the " +
			"times from and to\nwhich each can be restored. A missing object is exit code 1. " +
			"Objects are read when they are restored.",
		Example: "  loam replicas /mnt/replica\n  loam replicas --json /mnt/replica",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := interruptible(cmd)
			defer stop()
			target, end, err := targetOf(args[0])
			if err != nil {
				return err
			}
			defer end()
			list, err := replicate.List(ctx, target)
			if err == nil && len(list) == 0 {
				err = fmt.Errorf("%w: there is no replica in %s", lsm.ErrDoesNotExist, args[0])
			}
			if err != nil {
				return err
			}
			return a.printReplicas(list)
		},
	}
}

func (a *app) printReplicas(list []replicate.Info) error {
	shown := &copies{a: a}
	shown.g.Column("first", false)
	shown.g.Column("last", false)
	shown.g.Column("sequence", true)
	shown.g.Column("snapshots", true)
	shown.g.Column("objects", true)
	shown.g.Column("database", false)
	for _, i := range list {
		l := lineOfReplica(i)
		if err := shown.add(l, l.Directory, l.Error, l.First, l.Last,
			strconv.FormatUint(l.Sequence, 10), strconv.Itoa(len(l.Snapshots)),
			strconv.Itoa(l.Objects)); err != nil {
			return err
		}
	}
	return shown.end("generation")
}

// restoreReplica is the verb restore where FOLDER is a replica.
func (a *app) restoreReplica(ctx context.Context, from string, at time.Time, dir string) error {
	target, end, err := targetOf(from)
	if err != nil {
		return err
	}
	defer end()
	list, err := replicate.List(ctx, target)
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("%w: there is neither a backup nor a replica in %s", lsm.ErrDoesNotExist,
			from)
	}
	if err != nil {
		return err
	}
	open := &lsm.Options{Encryption: a.keys}
	if open.Comparer, err = a.forcedComparer(); err != nil {
		return err
	}
	p := a.progress("restoring", 0)
	made, err := replicate.Restore(ctx, target, dir, &replicate.RestoreOptions{At: at, Open: open,
		Progress: func(done, of int) {
			p.tell(fmt.Sprintf("restoring: object %d of %d", done, of))
		}})
	p.end()
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(map[string]any{"generation": made.Generation,
			"sequence": made.Sequence, "time": momentText(made.Time), "directory": dir})
	}
	return a.printf("the state of %s is in %s\n", momentText(made.Time), dir)
}
