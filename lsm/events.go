package lsm

import (
	"log/slog"
	"time"

	"github.com/loamdb/loam/internal/compact"
	"github.com/loamdb/loam/internal/events"
	"github.com/loamdb/loam/internal/manifest"
)

// notifier tells the user's logger and listener what happens. No method waits for
// them: events delivers the calls, in order.
type notifier struct {
	dir      string
	events   *events.Queue
	logger   *slog.Logger // delivered by events
	listener *EventListener
}

// warn logs a failure that the database survives.
func (n *notifier) warn(what string, err error) { n.logger.Warn(what, "dir", n.dir, "err", err) }

// readOnlySince tells of the failure that made the database read-only.
func (n *notifier) readOnlySince(err error) {
	n.logger.Error("database is now read-only", "dir", n.dir, "cause", err)
	if f := n.listener.ReadOnly; f != nil {
		n.events.PostLast(func() { f(err) })
	}
}

// FlushBegin is of jobs.Events, like all that follow.
func (n *notifier) FlushBegin() {
	if f := n.listener.FlushBegin; f != nil {
		n.events.Post(f)
	}
}

// FlushEnd tells of a flush.
func (n *notifier) FlushEnd(memtable int64, added []manifest.AddedFile, d time.Duration, err error) {
	if f := n.listener.FlushEnd; f != nil {
		info := FlushInfo{Bytes: memtable, Output: tableInfos(added), Duration: d, Err: err}
		n.events.Post(func() { f(info) })
	}
}

// CompactionBegin tells of a compaction.
func (n *notifier) CompactionBegin(plan *compact.Plan) {
	if f := n.listener.CompactionBegin; f != nil {
		info := compactionInfo(plan)
		n.events.Post(func() { f(info) })
	}
}

// CompactionEnd tells how a compaction ended.
func (n *notifier) CompactionEnd(plan *compact.Plan, added []manifest.AddedFile, d time.Duration, err error) {
	if f := n.listener.CompactionEnd; f != nil {
		info := compactionInfo(plan)
		info.Output, info.Duration, info.Err = tableInfos(added), d, err
		n.events.Post(func() { f(info) })
	}
}

// WriteStall tells of a writer that had to wait.
func (n *notifier) WriteStall(cause string, d time.Duration) {
	if f := n.listener.WriteStall; f != nil {
		n.events.Post(func() { f(StallInfo{Cause: cause, Duration: d}) })
	}
}

// JobFailed tells of background work that is tried again.
func (n *notifier) JobFailed(job string, err error) {
	n.warn(job+" failed; it will be retried", err)
	if f := n.listener.BackgroundError; f != nil {
		n.events.Post(func() { f(err) })
	}
}

func compactionInfo(plan *compact.Plan) CompactionInfo {
	info := CompactionInfo{Reason: plan.Reason, OutputLevel: plan.OutputLevel, TrivialMove: plan.TrivialMove}
	plan.Files(func(level int, m *manifest.FileMeta) {
		info.Inputs = append(info.Inputs, TableInfo{Number: m.Num, Level: level, Size: m.Size})
	})
	return info
}

func tableInfos(added []manifest.AddedFile) []TableInfo {
	if added == nil {
		return nil
	}
	infos := make([]TableInfo, len(added))
	for i, a := range added {
		infos[i] = TableInfo{Number: a.Meta.Num, Level: a.Level, Size: a.Meta.Size}
	}
	return infos
}
