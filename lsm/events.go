package lsm

import (
	"time"

	"github.com/loamdb/loam/internal/base/events"
	"github.com/loamdb/loam/internal/feature/inspect"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/tree/picker"
)

// TableInfo names a table in an event.
type TableInfo struct {
	Number uint64 // Number is the number in the name of the file.
	// Level is where the table was, for an input, or is now, for an output: 0 to 6.
	Level int
	Size  uint64 // Size is the length of the file in bytes.
}

// FlushInfo describes a flush of one memtable.
type FlushInfo struct {
	Bytes    int64         // Bytes is the size of the entries of the memtable.
	Output   []TableInfo   // Output describes the tables written.
	Duration time.Duration // Duration is the time that the flush took.
	// Err is why the flush failed, or nil. A failed flush is tried again.
	Err error
}

// CompactionInfo describes a compaction. In CompactionBegin Output, Duration and Err are not set.
type CompactionInfo struct {
	Reason      string      // Reason is why the compaction was picked, in words.
	Inputs      []TableInfo // Inputs describes the tables merged or moved.
	OutputLevel int         // OutputLevel is the level of the outputs.
	Output      []TableInfo // Output describes the tables written or moved.
	// TrivialMove reports that the inputs change their level without being rewritten.
	TrivialMove bool
	Duration    time.Duration // Duration is the time that the compaction took.
	Err         error         // Err is why it failed or was given up, or nil.
}

// StallInfo describes a write that had to wait.
type StallInfo struct {
	// Cause is "memtables": the memtables have reached Options.MaxMemtables or MaxMemtableBytes, or
	// writers are slowed as a flush lags behind them; "level0": level 0 has Options.L0Stop tables;
	// or "debt": writers are slowed because level 0 fills up, or because the tables take much more
	// space than their live entries.
	Cause string
	// Duration is the time that the write waited.
	Duration time.Duration
}

// EventListener takes events of background work. Fields may be nil. A panic in one of the functions
// makes the database read-only.
//
// Calls come one at a time, in the order of the events, on a goroutine that does nothing else; it
// calls Options.Logger, too. So a call may use the database as it likes, Close included, and one
// that blocks delays only later calls: up to 1,024 wait, further ones are dropped
// (Metrics.EventsDropped), except ReadOnly. Close waits up to a second for the calls to end; none
// begins after Close has returned.
type EventListener struct {
	// FlushBegin reports that a flush begins.
	FlushBegin func()
	// FlushEnd reports that a flush succeeded or failed.
	FlushEnd func(FlushInfo)
	// CompactionBegin reports that a compaction begins.
	CompactionBegin func(CompactionInfo)
	// CompactionEnd reports that a compaction succeeded, failed or was given up.
	CompactionEnd func(CompactionInfo)
	// WriteStall reports a wait of a writer, when it has ended.
	WriteStall func(StallInfo)
	// BackgroundError reports a flush or compaction that failed and is tried again, or a merge
	// operator that failed in one; its operands stay as they are.
	BackgroundError func(error)
	// ReadOnly reports the failure that made the database read-only.
	ReadOnly func(cause error)
}

// notifier tells the user's listener what happens. No method waits for it: events
// delivers the calls, in order.
type notifier struct {
	events   *events.Queue
	listener *EventListener
	notes    *inspect.Events // nil: there is no socket
}

// tell makes the call f, unless that is nil, and notes the event.
func tell[T any](n *notifier, kind string, f func(T), info func() T) {
	if f == nil && n.notes == nil {
		return
	}
	told := info()
	n.notes.Add(kind, told)
	if f != nil {
		n.events.Post(func() { f(told) })
	}
}

// ReadOnly tells of the failure that made the database read-only.
func (n *notifier) ReadOnly(cause error) {
	n.notes.Add("read_only", failed{cause})
	if f := n.listener.ReadOnly; f != nil {
		n.events.PostLast(func() { f(cause) })
	}
}

// failed is an event that is an error.
type failed struct{ Err error }

// FlushBegin is of work.Events, like all that follow.
func (n *notifier) FlushBegin() {
	n.notes.Add("flush_begin", struct{}{})
	if f := n.listener.FlushBegin; f != nil {
		n.events.Post(f)
	}
}

// FlushEnd tells of a flush.
func (n *notifier) FlushEnd(memtable int64, added []manifest.AddedFile, d time.Duration,
	err error) {
	tell(n, "flush_end", n.listener.FlushEnd, func() FlushInfo {
		return FlushInfo{Bytes: memtable, Output: tableInfos(added), Duration: d, Err: err}
	})
}

// CompactionBegin tells of a compaction.
func (n *notifier) CompactionBegin(plan *picker.Plan) {
	tell(n, "compaction_begin", n.listener.CompactionBegin, func() CompactionInfo {
		return compactionInfo(plan)
	})
}

// CompactionEnd tells how a compaction ended.
func (n *notifier) CompactionEnd(plan *picker.Plan, added []manifest.AddedFile, d time.Duration,
	err error) {
	tell(n, "compaction_end", n.listener.CompactionEnd, func() CompactionInfo {
		info := compactionInfo(plan)
		info.Output, info.Duration, info.Err = tableInfos(added), d, err
		return info
	})
}

// WriteStall tells of a writer that had to wait.
func (n *notifier) WriteStall(cause string, d time.Duration) {
	tell(n, "write_stall", n.listener.WriteStall, func() StallInfo { return StallInfo{cause, d} })
}

// JobFailed tells of background work that is tried again.
func (n *notifier) JobFailed(_ string, err error) {
	n.notes.Add("background_error", failed{err})
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
