package wal

import (
	"path/filepath"
	"slices"
	"sort"
	"time"

	"github.com/loamdb/loam/internal/base"
)

// Retention decides which obsolete logs stay in the directory, for readers of changes. The zero
// value keeps none. A log goes when it exceeds either of the limits that are set.
type Retention struct {
	Bytes int64         // of all these logs together; 0: no limit if For is set
	For   time.Duration // since the last write of a log; 0: no limit if Bytes is set
}

// Retains reports whether obsolete logs are kept. Then a full log is synced, and its tables are
// live only afterwards: what is in tables is in the logs after a power cut, too.
func (s *Set) Retains() bool { return s.opts.Retention != Retention{} }

// keptLog is an obsolete log in the directory.
type keptLog struct {
	num   uint64
	bytes int64
	ended time.Time // of its last write
	log   *fullLog  // nil: of an earlier opening
}

// KeepObsolete takes over the obsolete logs of earlier openings among names, as far as Retention
// keeps them, and returns the other names, without logs that tables refer to: these files may be
// deleted. It is called once, after the first Rotate.
func (s *Set) KeepObsolete(names []string) (rest []string) {
	var logs []keptLog
	for _, name := range names {
		t, num := s.opts.Format.ParseFileName(name)
		if !s.Retains() || t != base.FileLog || num >= s.Num() {
			needed := false
			if t == base.FileLog {
				needed, _ = s.release(num)
			}
			if !needed {
				rest = append(rest, name)
			}
			continue
		}
		now := time.Now()
		l := keptLog{num: num, ended: now}
		info, err := s.opts.FS.Stat(filepath.Join(s.opts.Dir, name))
		switch {
		case err != nil:
			continue // the next opening tries again
		case !info.Mode().IsRegular():
			rest = append(rest, name)
			continue
		case !info.ModTime().IsZero():
			// From here on its age grows by the clock that does not step.
			l.ended = now.Add(-max(now.Sub(info.ModTime()), 0))
		}
		l.bytes = info.Size()
		logs = append(logs, l)
	}
	sort.Slice(logs, func(i, j int) bool { return logs[i].num < logs[j].num })
	s.fullMu.Lock()
	s.retained = append(logs, s.retained...)
	nums, first := s.expireLocked()
	s.fullMu.Unlock()
	s.obsoleted(first)
	for _, num := range nums {
		rest = append(rest, s.opts.Format.FileName(base.FileLog, num))
	}
	return rest
}

// expireLocked takes the logs off the list that neither Retention nor a Hold keeps, and returns the
// numbers of those whose files may be deleted; one of them may be kept, to become the next log.
// first is the oldest one that stays. It sets the timer for the next one to go.
//
// REQUIRES: fullMu held.
func (s *Set) expireLocked() (nums []uint64, first uint64) {
	r, sum, n := s.opts.Retention, int64(0), 0
	for i := range s.retained {
		sum += s.retained[i].bytes
	}
	for ; n < len(s.retained); n++ {
		l := &s.retained[n]
		if s.holds > 0 || s.Retains() && (r.Bytes == 0 || sum <= r.Bytes) &&
			(r.For == 0 || time.Since(l.ended) <= r.For) {
			break
		}
		sum -= l.bytes
		needed, used := s.release(l.num)
		switch {
		case needed: // it is the tables' now
		case s.opts.Format == base.Native && s.reusable == 0 && !used && l.log != nil &&
			l.log.isClosed():
			s.reusable = l.num
		default:
			nums = append(nums, l.num)
		}
	}
	s.retained = slices.Delete(s.retained, 0, n)
	if s.expiry != nil {
		s.expiry.Stop()
		s.expiry = nil
	}
	if len(s.retained) > 0 && r.For > 0 && !s.closing {
		s.expiry = time.AfterFunc(r.For-time.Since(s.retained[0].ended)+time.Millisecond, s.expire)
	}
	return nums, s.oldestLocked()
}

// release gives up a log, unless tables refer to it. One that was referred to is not reused:
// another process may read it, for an older state.
func (s *Set) release(num uint64) (needed, used bool) {
	if s.opts.Release == nil {
		return false, false
	}
	return s.opts.Release(num)
}

// oldestLocked is the number of the oldest log that is needed or kept.
//
// REQUIRES: fullMu held.
func (s *Set) oldestLocked() uint64 {
	switch {
	case len(s.retained) > 0:
		return s.retained[0].num
	case len(s.full) > 0:
		return s.full[0].num
	}
	return s.Num()
}

// Oldest is the number of the oldest log that is needed or kept; older files are being deleted or
// become other logs. Without a log, as in a database that is open for reading, it is 0. Any
// goroutine.
func (s *Set) Oldest() uint64 {
	s.fullMu.Lock()
	defer s.fullMu.Unlock()
	return s.oldestLocked()
}

// Hold keeps every log that becomes obsolete until release, which is called once. Any goroutine.
func (s *Set) Hold() (release func()) {
	s.fullMu.Lock()
	s.holds++
	s.fullMu.Unlock()
	return func() {
		s.fullMu.Lock()
		s.holds--
		s.fullMu.Unlock()
		s.expire()
	}
}

// expire deletes the logs whose time is over. The timer and the release of a Hold call it.
func (s *Set) expire() {
	defer func() {
		if r := recover(); r != nil { // of the file system, when a feed closes its log
			_ = s.opts.Panicked(r)
		}
	}()
	s.fullMu.Lock()
	if s.closing {
		s.fullMu.Unlock()
		return
	}
	nums, first := s.expireLocked()
	s.fullMu.Unlock()
	for _, num := range nums {
		s.opts.Delete(s.opts.Format.FileName(base.FileLog, num))
	}
	s.obsoleted(first)
}

// stopExpiry stops the timer.
func (s *Set) stopExpiry() {
	s.fullMu.Lock()
	defer s.fullMu.Unlock()
	s.closing = true
	if s.expiry != nil {
		s.expiry.Stop()
	}
}

func (s *Set) obsoleted(first uint64) {
	if s.opts.Obsoleted != nil {
		s.opts.Obsoleted(first)
	}
}

// Retained counts the obsolete logs that are kept, and their bytes. Any goroutine.
func (s *Set) Retained() (logs int, bytes int64) {
	s.fullMu.Lock()
	defer s.fullMu.Unlock()
	for i := range s.retained {
		bytes += s.retained[i].bytes
	}
	return len(s.retained), bytes
}

// Cuts counts how often the log was cut back. What was read of it before a cut, behind what is
// visible, was perhaps replaced. Any goroutine.
func (s *Set) Cuts() uint64 { return s.cuts.Load() }
