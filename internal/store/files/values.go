package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/record"
)

// Value logs and value files are files of the Set like tables: their descriptors are those of the
// pool. A reader of a value has a reference on a Version with the table that refers to it, so the
// file is there.

// values are the value logs and value files that were read.
type values struct {
	mu   sync.Mutex // before pool.mu
	logs map[base.ValueFile]*file
	// wanted are those of tables that Hold was called for and that are in no Version yet. The value
	// tells that no other table refers to the file: Hold opened it, or ForgetLog was called since.
	wanted map[base.ValueFile]bool

	reads, bytes atomic.Uint64
}

const kindValue = "large value"

// AppendValue appends to dst the value that a handle, the value of an entry of
// base.KindValueHandle, refers to. Damage is a *base.Corruption that names the file and the offset.
// The caller has a reference on a Version with the entry's table. After an error dst is as it was.
func (s *Set) AppendValue(dst, handle []byte) ([]byte, error) {
	h, err := base.DecodeValueHandle(handle)
	if err != nil {
		return dst, err
	}
	value, err := appendValue(dst, s.values.file(s, h.File()), h)
	if err == nil {
		s.values.reads.Add(1)
		s.values.bytes.Add(uint64(h.Len))
		return value, nil
	}
	name := h.File().FileName(s.o.Format)
	var c *base.Corruption
	if !errors.As(err, &c) {
		err = fmt.Errorf("reading a value of %s at offset %d: %w", name, h.Offset, err)
	}
	return dst, base.LocateCorruption(err, name, h.Offset, record.ValueEnd(h)-h.Offset)
}

func appendValue(dst []byte, f *file, h base.ValueHandle) ([]byte, error) {
	size, err := f.onDisk()
	if err != nil {
		return dst, err
	}
	n := int64(h.Len)
	if end := record.ValueEnd(h); end > size {
		return dst, base.Corruptf(kindValue, "it ends at offset %d, the file has %d bytes", end,
			size)
	}
	var value []byte
	if h.InFile {
		value = slices.Grow(dst, int(n))[:len(dst)+int(n)]
		err = base.ReadFull(f, value[len(dst):], h.Offset)
	} else {
		value, err = record.AppendSpan(dst, f, h.Offset, n)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = base.Corruptf(kindValue, "the file ends before")
	}
	if err != nil {
		return dst, err
	}
	if sum := base.CRC(value[len(dst):]); sum != h.Sum {
		return dst, base.Corruptf(kindValue, "the checksum is %08x, its table says %08x", sum,
			h.Sum)
	}
	return value, nil
}

// file returns the log or value file l. It is opened by its first read.
func (v *values) file(s *Set, l base.ValueFile) *file {
	v.mu.Lock()
	defer v.mu.Unlock()
	f := v.logs[l]
	if f == nil {
		f = s.newFile(l.FileName(s.o.Format), 0)
		v.logs[l] = f
	}
	return f
}

// take forgets the file of l, or returns nil, also if it is wanted.
func (v *values) take(l base.ValueFile) *file {
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, ok := v.wanted[l]; ok {
		v.wanted[l] = true
		return nil
	}
	f := v.logs[l]
	delete(v.logs, l)
	return f
}

// close closes all descriptors. Nobody reads.
func (v *values) close() (err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, f := range v.logs {
		err = errors.Join(err, f.Close())
	}
	clear(v.logs)
	return err
}

// ObsoleteLog takes a log, or a value file, to which no table refers any more: it is deleted,
// unless Leave comes first. The goroutine that gives up the last reference on a Version calls it,
// perhaps a reader's: a panic of the file system is a failure in background, as in deletions.
func (s *Set) ObsoleteLog(l base.ValueFile) {
	s.ForgetLog(l)
	name := l.FileName(s.o.Format)
	var size uint64
	if err := base.Alone(func() (err error) { size, err = s.FileSize(name); return err }); err !=
		nil && !errors.Is(err, fs.ErrNotExist) {
		s.fail(fmt.Errorf("size of obsolete file %s: %w", name, err))
	}
	s.queue.expect()
	s.queue.add(doomed{name: name, size: size, values: true})
}

// DoomedValues is how many bytes of logs and value files wait for their deletion.
func (s *Set) DoomedValues() uint64 {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	return s.queue.values
}

// ForgetLog closes the descriptor of a log, or of a value file, to which no table refers any more.
// After a Hold of tables that refer to it, it has no effect before GiveUp: the last older Version
// with tables that refer to it may go meanwhile.
func (s *Set) ForgetLog(l base.ValueFile) {
	f := s.values.take(l)
	if f == nil {
		return
	}
	if err := base.Alone(f.Close); err != nil {
		s.fail(fmt.Errorf("close %s: %w", l.FileName(s.o.Format), err))
	}
}

// forgetNamed is ForgetLog of a file that goes, if it is a log. A flush that merges reads values of
// logs to which no table refers, and tables that referred to a log may be gone before its entries
// are in tables: then nobody calls ObsoleteLog.
func (s *Set) forgetNamed(name string) {
	if t, num := s.o.Format.ParseFileName(name); t == base.FileLog {
		s.ForgetLog(base.ValueFile{Num: num})
	}
}

// holdLogs opens the logs and value files that tables refer to, and keeps their descriptors until
// ForgetLog. It fails as Hold does. undo gives up those that were not wanted before.
func (s *Set) holdLogs(tables []*manifest.FileMeta) (undo func(), err error) {
	var wanted []base.ValueFile
	undo = func() {
		for _, l := range wanted {
			s.GiveUp(l)
		}
	}
	for _, m := range tables {
		for _, l := range m.ValueLogs {
			fresh, err := s.holdLog(l.File())
			if err != nil {
				return undo, err
			}
			if fresh {
				wanted = append(wanted, l.File())
			}
		}
	}
	return undo, nil
}

// holdLog is for one goroutine at a time, before a read may look at the file. fresh: it was not
// wanted before.
func (s *Set) holdLog(l base.ValueFile) (fresh bool, err error) {
	v := &s.values
	open, fresh := v.want(l)
	if open {
		return fresh, nil
	}
	f, err := s.openLog(l)
	if err != nil {
		return false, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.logs[l], v.wanted[l] = f, true
	return true, nil
}

// want makes a file wanted if it is open. fresh: it was not wanted before.
func (v *values) want(l base.ValueFile) (open, fresh bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	_, before := v.wanted[l]
	if open = v.logs[l] != nil; open && !before {
		v.wanted[l] = false
	}
	return open, !before
}

// openLog opens a descriptor that stays.
func (s *Set) openLog(l base.ValueFile) (*file, error) {
	if !descriptors.hold(&s.owner, 1) {
		return nil, fmt.Errorf("%w: a follower keeps each value log of the database open; raise "+
			"the limit on open files", base.ErrTooManyFiles)
	}
	f, open := s.newFile(l.FileName(s.o.Format), 0), false
	defer func() {
		if !open { // also when the file system panics
			descriptors.hold(&s.owner, -1)
		}
	}()
	f.held = true
	err := f.openDescriptor()
	open = err == nil
	return f, err
}

// Placed is called when tables that Hold was called for are in a Version.
func (s *Set) Placed(tables []*manifest.FileMeta) {
	s.values.mu.Lock()
	defer s.values.mu.Unlock()
	for _, m := range tables {
		for _, l := range m.ValueLogs {
			delete(s.values.wanted, l.File())
		}
	}
}

// GiveUp is called when the tables that Hold was called for, and that refer to a log, will be in no
// Version.
func (s *Set) GiveUp(l base.ValueFile) {
	s.values.mu.Lock()
	alone := s.values.wanted[l]
	delete(s.values.wanted, l)
	s.values.mu.Unlock()
	if alone {
		s.ForgetLog(l)
	}
}

// ValueReads is how many values were read from logs and value files, and how many bytes they had.
func (s *Set) ValueReads() (reads, bytes uint64) {
	return s.values.reads.Load(), s.values.bytes.Load()
}
