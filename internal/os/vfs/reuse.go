package vfs

import (
	"errors"
	"io/fs"
)

// LogReuser is an FS that can make an old log the next one. It is optional: use
// ReuseLog.
type LogReuser interface {
	// ReuseLog renames the log oldName, which is closed, to newName, and opens it for
	// appending from its beginning. What stood in it stays until it is overwritten: its
	// size is returned, too. A crash may bring back what stood there before, as long as
	// it was not overwritten and synced. SyncDir makes the name durable.
	//
	// It fails with fs.ErrExist when newName exists, and with errors.ErrUnsupported
	// for a file that has another name. If it fails, oldName is as it was.
	ReuseLog(oldName, newName string, ahead int64) (l Log, former int64, err error)
}

// ReuseLog makes oldName the log newName, see LogReuser. An FS that is no LogReuser
// cannot.
func ReuseLog(fsys FS, oldName, newName string, ahead int64) (Log, int64, error) {
	if r, ok := fsys.(LogReuser); ok {
		return r.ReuseLog(oldName, newName, ahead)
	}
	return nil, 0, pathError("reuse", oldName, errors.ErrUnsupported)
}

// ReuseLog is that of the FS that the directory was opened in.
func (d *Dir) ReuseLog(oldName, newName string, ahead int64) (Log, int64, error) {
	return ReuseLog(d.FS, oldName, newName, ahead)
}

// ReuseLog makes an old log the next one.
func (o OS) ReuseLog(oldName, newName string, ahead int64) (Log, int64, error) {
	f, size, err := reusePath(oldName, newName)
	if err != nil {
		return nil, 0, err
	}
	return reusedLog(f, ahead, size, o.PlainLog), size, nil
}

// ReuseLog makes an old log the next one.
func (m *Mem) ReuseLog(oldName, newName string, ahead int64) (Log, int64, error) {
	m.mu.Lock()
	n, err := m.find(cleanName(oldName))
	if err == nil && n.isDir() {
		err = ErrNotRegular
	}
	if err == nil && n.linked {
		err = errors.ErrUnsupported
	}
	if err == nil {
		if _, taken := m.find(cleanName(newName)); taken == nil {
			err = fs.ErrExist
		}
	}
	m.mu.Unlock()
	if err != nil {
		return nil, 0, pathError("reuse", oldName, err)
	}
	if err := m.Rename(oldName, newName); err != nil {
		return nil, 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	n.reuse()
	return memLog{&memFile{m: m, n: n, ahead: ahead, reused: true}}, n.size, nil
}

// reuse makes the file's bytes those of its former life.
func (n *memNode) reuse() {
	former := make([]byte, n.size)
	copy(former, n.former)
	copy(former, n.data)
	*n = memNode{name: n.name, former: former, size: n.size, syncedSize: n.size}
}

// ReuseLog makes an old log the next one, if the FS below can.
func (f *Fault) ReuseLog(oldName, newName string, ahead int64) (Log, int64, error) {
	var former int64
	l, err := create(f, OpReuseLog, newName, ahead, func() (l Log, err error) {
		l, former, err = ReuseLog(f.inner, oldName, newName, ahead)
		return l, err
	})
	if err != nil {
		return nil, 0, err
	}
	return &faultLog{f: f, name: newName, inner: l}, former, nil
}
