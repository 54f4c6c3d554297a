package files

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/os/vfs"
)

// Deleting a large file keeps the disk busy for a while. So the queue sleeps after each
// file, for as long as a disk needs to discard the file's bytes at this rate.
const (
	deleteRate  = 2 << 30  // bytes a second
	maxSleepFor = 64 << 20 // bytes of a file that count towards the sleep
)

// leaveFor bounds how long Leave goes on deleting before it gives the rest up.
const leaveFor = 500 * time.Millisecond

// Obsolete takes table m, which no Version has any more. When the guards that
// may have found it have exited, its reader is closed and its file deleted,
// unless Leave comes first: then the file stays for the next opening.
func (s *Set) Obsolete(m *manifest.FileMeta) {
	s.queue.expect()
	s.o.Reads.Retire(func() {
		defer s.queue.add(doomed{name: m.Name(), other: m.OtherName(), size: m.Size})
		if err := s.detach(m); err != nil {
			s.fail(fmt.Errorf("close obsolete table %s: %w", m.Name(), err))
		}
	})
}

// detach closes the reader of m, if any.
func (s *Set) detach(m *manifest.FileMeta) error {
	s.mu.Lock()
	delete(s.open, m.Num)
	delete(s.failed, m.Num)
	t, _ := m.Opened.Swap((*table)(nil)).(*table)
	s.mu.Unlock()
	if t == nil {
		return nil
	}
	return t.close()
}

// DeleteFile queues a file of the directory for deletion. Nobody reads it any more.
func (s *Set) DeleteFile(name string) {
	s.forgetNamed(name)
	s.queue.expect()
	s.queue.add(doomed{name: name})
}

// Rename runs rename, which gives a file of the directory that nobody reads another name, unless a
// Pin keeps the file, or Leave has come. One call at a time.
func (s *Set) Rename(name string, rename func() error) error {
	s.forgetNamed(name)
	q := &s.queue
	q.mu.Lock()
	if q.closed || q.isPinnedLocked(doomed{name: name}) {
		q.mu.Unlock()
		return fmt.Errorf("renaming %s: %w: the file is in use", name, base.ErrBusy)
	}
	q.renaming = name
	q.mu.Unlock()
	defer func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.renaming = ""
		q.idle.Broadcast() // Pin may wait
	}()
	return rename()
}

// WaitDeleted returns when no deletion is under way or waiting. Files that
// could not be deleted, or are kept by a Pin, are not waited for. It is not called
// inside a guard.
func (s *Set) WaitDeleted() { s.queue.wait(nil) }

// Leave ends what the Set does in the directory: after it no file is opened or
// deleted there, even if readers are still in use. Deletions that are waiting get half a
// second; what is not deleted then is left for the next opening of the
// database. The directory's lock is given back after Leave.
//
// Readers stay usable, except that a read of a table whose descriptor is not open
// fails with base.ErrClosed.
func (s *Set) Leave() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	descriptors.mu.Lock()
	s.owner.closed = true
	descriptors.mu.Unlock()
	s.queue.close(leaveFor)
}

// Close is Leave, and closes all readers. No reader may be in use. It may be called in
// a retired function, not in a guard.
func (s *Set) Close() error {
	s.Leave()
	s.mu.Lock()
	open := slices.Collect(maps.Values(s.open))
	s.mu.Unlock()
	var errs []error
	for _, m := range open {
		errs = append(errs, s.detach(m))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.held {
		errs = append(errs, f.Close()) // harmless where its reader was closed
	}
	clear(s.held)
	errs = append(errs, s.values.close())
	return errors.Join(errs...)
}

// doomed is a file to delete.
type doomed struct {
	name   string
	other  string // another name that it may have instead
	size   uint64
	values bool // it is a value log or value file: many of them are deleted while writers wait
}

// deleteQueue deletes files on a goroutine that exists only while there are
// any.
type deleteQueue struct {
	fs   vfs.FS
	dir  string
	fail func(error)

	mu sync.Mutex
	// pending has become 0, run or a deletion has ended, or a wait is over; its L is &mu
	idle     sync.Cond
	queue    []doomed
	failed   []doomed // tried again with the next file
	pending  int      // expected or in queue or under way
	pins     map[*Pin]struct{}
	pinned   []doomed // kept by pins
	removing []string // names of the files that are being deleted
	renaming string   // the file that is being renamed
	waiters  int      // in wait: the queue does not sleep
	running  bool
	closed   bool // nothing is deleted any more
	deleted  uint64
	values   uint64 // bytes of value logs and value files in queue or under way
}

func (q *deleteQueue) init(fs vfs.FS, dir string, fail func(error)) {
	q.fs, q.dir, q.fail, q.pins = fs, dir, fail, make(map[*Pin]struct{})
	q.idle.L = &q.mu
}

// expect announces an add.
func (q *deleteQueue) expect() {
	q.mu.Lock()
	q.pending++
	q.mu.Unlock()
}

func (q *deleteQueue) add(d doomed) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		q.finishedLocked(1)
		return
	}
	q.addLocked(d)
}

// addLocked queues d, which is pending. q.mu is held.
func (q *deleteQueue) addLocked(d doomed) {
	q.queue = append(q.queue, d)
	if d.values {
		q.values += d.size
	}
	if !q.running {
		q.running = true
		go q.run()
	}
}

// finishedLocked counts n files that are pending no longer. q.mu is held.
func (q *deleteQueue) finishedLocked(n int) {
	if q.pending -= n; q.pending == 0 {
		q.idle.Broadcast()
	}
}

// leftLocked counts a file that has left the queue. q.mu is held.
func (q *deleteQueue) leftLocked(d doomed) {
	if d.values {
		q.values -= d.size
	}
	q.finishedLocked(1)
}

// wait returns when nothing is pending, or when over, if not nil, is true. over is set
// with q.mu held, and q.idle broadcast.
func (q *deleteQueue) wait(over *bool) {
	q.mu.Lock()
	q.waiters++
	for q.pending > 0 && (over == nil || !*over) {
		q.idle.Wait()
	}
	q.waiters--
	q.mu.Unlock()
}

// close waits for pending deletions while patience lasts, gives up the rest, and returns when no
// deletion is under way.
func (q *deleteQueue) close(patience time.Duration) {
	q.mu.Lock()
	over := q.closed
	q.mu.Unlock()
	t := time.AfterFunc(patience, func() {
		q.mu.Lock()
		over = true
		q.idle.Broadcast()
		q.mu.Unlock()
	})
	q.wait(&over)
	t.Stop()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.finishedLocked(len(q.queue))
	q.queue, q.pinned = nil, nil
	for q.running {
		q.idle.Wait()
	}
}

func (q *deleteQueue) stats(st *Stats) {
	q.mu.Lock()
	defer q.mu.Unlock()
	st.Pending, st.Pinned, st.Failed, st.Deleted =
		q.pending, len(q.pinned), len(q.failed), q.deleted
}

func (q *deleteQueue) run() {
	for {
		q.mu.Lock()
		if len(q.queue) == 0 {
			q.running = false
			q.idle.Broadcast()
			q.mu.Unlock()
			return
		}
		d := q.queue[0]
		q.queue = q.queue[1:]
		if q.isPinnedLocked(d) {
			q.pinned = append(q.pinned, d)
			q.leftLocked(d)
			q.mu.Unlock()
			continue
		}
		again := q.takeFailedLocked()
		q.removing = names(append(again, d))
		q.mu.Unlock()

		var still []doomed
		gone := uint64(0)
		for _, f := range again {
			if q.remove(f) == nil {
				gone++
			} else {
				still = append(still, f)
			}
		}
		if err := q.remove(d); err != nil {
			still = append(still, d)
			q.fail(fmt.Errorf("delete obsolete file %s: %w", d.name, err))
		} else {
			gone++
		}

		q.mu.Lock()
		q.removing = nil
		q.idle.Broadcast() // Pin may wait
		q.failed = append(q.failed, still...)
		q.deleted += gone
		q.leftLocked(d)
		hurry := q.waiters > 0 || len(q.queue) == 0 || d.values
		q.mu.Unlock()
		if !hurry {
			time.Sleep(time.Duration(min(d.size, maxSleepFor)) * time.Second / deleteRate)
		}
	}
}

// remove deletes the file under whichever name it has. That it does not exist
// is no failure. Close waits for the caller, whose goroutine the file system must not end.
func (q *deleteQueue) remove(d doomed) (err error) {
	if !isDatabaseFile(d.name) {
		return base.Invalidf("not a database file")
	}
	return base.Alone(func() error { return q.removeNamed(d) })
}

func (q *deleteQueue) removeNamed(d doomed) error {
	err := q.removeRegular(d.name)
	if missing(err) && d.other != "" {
		err = q.removeRegular(d.other)
	}
	if missing(err) {
		return nil
	}
	return err
}

func isDatabaseFile(name string) bool {
	t, _ := base.LevelDB.ParseFileName(name)
	n, _ := base.Native.ParseFileName(name)
	return t != base.FileUnknown || n != base.FileUnknown
}

// removeRegular removes a regular file and leaves anything else: the database
// did not make it.
func (q *deleteQueue) removeRegular(name string) error {
	path := filepath.Join(q.dir, name)
	if info, err := q.fs.Stat(path); err != nil || !info.Mode().IsRegular() {
		return err
	}
	return q.fs.Remove(path)
}
