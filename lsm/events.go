package lsm

import (
	"time"

	"github.com/loamdb/loam/internal/base/events"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/tree/picker"
)

// notifier tells the user's listener what happens. No method waits for it: events
// delivers the calls, in order.
type notifier struct {
	events   *events.Queue
	listener *EventListener
}

// ReadOnly tells of the failure that made the database read-only.
func (n *notifier) ReadOnly(cause error) {
	if f := n.listener.ReadOnly; f != nil {
		n.events.PostLast(func() { f(cause) })
	}
}

// FlushBegin is of work.Events, like all that follow.
func (n *notifier) FlushBegin() {
	if f := n.listener.FlushBegin; f != nil {
		n.events.Post(f)
	}
}

// FlushEnd tells of a flush.
func (n *notifier) FlushEnd(memtable int64, added []manifest.AddedFile, d time.Duration,
	err error) {
	if f := n.listener.FlushEnd; f != nil {
		info := FlushInfo{Bytes: memtable, Output: tableInfos(added), Duration: d, Err: err}
		n.events.Post(func() { f(info) })
	}
}

// CompactionBegin tells of a compaction.
func (n *notifier) CompactionBegin(plan *picker.Plan) {
	if f := n.listener.CompactionBegin; f != nil {
		info := compactionInfo(plan)
		n.events.Post(func() { f(info) })
	}
}

// CompactionEnd tells how a compaction ended.
func (n *notifier) CompactionEnd(plan *picker.Plan, added []manifest.AddedFile, d time.Duration,
	err error) {
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
func (n *notifier) JobFailed(_ string, err error) {
	if f := n.listener.BackgroundError; f != nil {
		n.events.Post(func() { f(err) })
	}
}

// MergeFailed tells of a merge operator that failed in the background.
func (n *notifier) MergeFailed(err error) { n.JobFailed("", err) }

func compactionInfo(plan *picker.Plan) CompactionInfo {
	info := CompactionInfo{Reason: plan.Reason, OutputLevel: plan.OutputLevel,
		TrivialMove: plan.TrivialMove}
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
