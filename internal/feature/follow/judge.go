package follow

import (
	"errors"
	"io"
	"io/fs"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/store/wal"
)

// A follower refuses the logs that Open refuses: wal.Judge, which is Open's own replay, decides. A
// writer may change the files meanwhile, so a failure of Judge is damage only under these
// conditions:
//
//  1. An edit of the MANIFEST says that logs are durable up to an end, or that other logs are
//     obsolete, after both are facts. The writer deletes or renames a log only after the edit that
//     makes it obsolete. So the follower polls the MANIFEST first and reads the logs afterwards:
//     the logs have all that the edits promise.
//  2. Logs may vanish, or become other logs, between the poll and the reads. Then the edit that
//     made them obsolete is in the MANIFEST. So the follower polls again after the logs were read:
//     without a new edit, every log that the first poll needs was there all the time, under its
//     name. With one the failure says nothing, and all is read again.
//  3. A spare log may be renamed, begun or removed at any time. No MANIFEST needs it; where it is
//     removed between its listing and its opening, all is read again.
//  4. Reading a log is not atomic. The bytes at a place may be read before the writer writes them,
//     and a later chunk, which calls them durable, after the writer writes it. When that read ends,
//     the chunk at the place is whole, and a second replay gets past it. So only two replays in a
//     row that fail at the same place are damage. A log that is cut back after a shortage loses
//     bytes that no chunk calls durable.
//  5. A rotation appends to the old log before the first chunk of the next log, which names the end
//     of the old one. A reader that sees this chunk sees all appends before it. A part of it is a
//     log that was not begun.
//  6. A log that is closed, or cut back, loses the bytes allocated after its last record, maybe
//     after the follower got its length. Then a read meets the end, and all is read again.
//
// Records that are missing without being known as durable are no damage to Open, which drops and
// reports what follows them. A power cut leaves such logs, and no follower survives it. So
// OpenFollower ends where Open ends, and reports the same (Follower.report); while a follower runs,
// the same is an error.

// gapPlace is where a gap was met.
type gapPlace struct{ at, next wal.Place }

// gap decides what a gap in the logs means where the MANIFEST does not say more. end: the logs end
// here, for Open, too.
//
// Sequence numbers that are in no log are in tables that the MANIFEST has: the edit of an ingest is
// written before the next record. So at first the MANIFEST is read again. If it has no edit that
// covers them, the edit failed, or other programs left them out, or the format is LevelDB's, whose
// MANIFEST does not have the numbers of ingests; then they are no gap if Open reads on behind them.
// The logs up to f.judged were read like this, after all edits of earlier writes.
func (f *Follower) gap(l *logs, g gap) (end bool, err error) {
	hole := g.next != wal.Place{}
	if hole && !f.judged.Before(g.next) {
		l.covered = max(l.covered, g.first-1)
		return false, nil
	}
	if at := (gapPlace{l.place, g.next}); at != f.gapAt {
		f.gapAt = at
		return false, stale{g.error}
	}
	report, at, err := f.judge(l, g.error)
	if err == nil && !f.behind {
		f.judged = at
	}
	switch {
	case err != nil:
		return false, err
	case hole && !at.Before(g.next):
		l.covered = max(l.covered, g.first-1)
		return false, nil
	case !hole && l.place.Before(at):
		return false, stale{g.error} // the writer has written more meanwhile
	case f.logs == nil:
		f.report, f.severed = report, l.place
	case l.place != f.severed:
		return false, g.error
	}
	l.end = true
	return true, nil
}

// judgeFirst judges the logs of the first state, which was read to the end of the logs.
func (f *Follower) judgeFirst(l *logs) error {
	report, at, err := f.judge(l, nil)
	if f.report = report; err != nil {
		return err
	}
	// A Tail takes damage for a write under way at first. What a later look tells of it was
	// reported. A torn end may be a write.
	if len(report.Dropped) > 0 && report.TornBytes == 0 && !l.place.Before(at) {
		f.severed = l.place
	}
	return f.o.Edits.checkTorn()
}

// judge replays the logs as Open does. why, if it is not nil, is the reason for doubt: then the
// MANIFEST must not change meanwhile.
func (f *Follower) judge(l *logs, why error) (report wal.Report, at wal.Place, err error) {
	var damage *base.Corruption
	for {
		o := wal.TailOptions{FS: f.o.FS, Dir: f.o.Dir, Format: l.format}
		report, at, err = wal.Judge(o, needs(f.o.Edits.state, l.format))
		changed, perr := f.o.Edits.Poll()
		if perr != nil {
			return report, at, perr
		}
		f.behind = f.behind || changed
		var c *base.Corruption
		switch {
		case err == nil && why == nil:
			if changed { // logs that it missed may have become obsolete meanwhile
				report.Dropped, report.TornBytes = nil, 0
			}
			return report, at, nil
		case err == nil && changed:
			return report, at, stale{why}
		case err != nil && (changed || errors.Is(err, fs.ErrNotExist) ||
			errors.Is(err, io.ErrUnexpectedEOF)):
			return report, at, stale{err}
		case err == nil:
			return report, at, nil
		case !errors.As(err, &c):
			return report, at, err
		case damage != nil && c.File == damage.File && c.Offset == damage.Offset:
			if torn := f.o.Edits.checkTorn(); torn != nil {
				err = torn // the log is missing because the edit that made it obsolete is damaged
			}
			return report, at, err
		}
		damage = c
	}
}

// needs is what a State says of the logs.
func needs(st *manifest.State, format base.Format) wal.Needs {
	n := wal.Needs{LogNum: st.LogNum, PrevLogNum: st.PrevLogNum, LastSeq: st.LastSeq,
		Synced: st.Durable}
	reach := st.Reach()
	n.ParseOwnName = func(name string) (base.FileType, uint64) {
		t, num := format.ParseFileName(name)
		if num >= reach {
			return base.FileUnknown, 0
		}
		return t, num
	}
	if newest := st.MaxKeyspace; format == base.Native {
		n.Keyspaces = func(id base.KeyspaceID) bool { return id <= newest }
	}
	return n
}
