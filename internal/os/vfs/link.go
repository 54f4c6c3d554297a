package vfs

import (
	"errors"
	"io/fs"
)

// Linker is an FS that can give a file a second name. It is optional: use Link.
type Linker interface {
	// Link makes newName another name of the regular file oldName. It fails with
	// fs.ErrExist when newName exists, and with ErrCannotLink where a copy is the
	// only way. SyncDir of newName's directory makes the name durable; the file's
	// contents are as durable as they were.
	Link(oldName, newName string) error
}

// ErrCannotLink is the cause when a file cannot have a second name at a place:
// the file system has no links, the place is on another one, the system forbids
// the link, or the file has too many. The caller copies the file instead.
var ErrCannotLink = errors.New("the file cannot be linked there")

// Link makes newName another name of oldName, see Linker. An FS that is no
// Linker cannot link.
func Link(fsys FS, oldName, newName string) error {
	if l, ok := fsys.(Linker); ok {
		return l.Link(oldName, newName)
	}
	return pathError("link", newName, ErrCannotLink)
}

// linkError is the result of a system's link call.
func linkError(newName string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, errors.ErrUnsupported) || cannotLink(err) {
		err = errors.Join(ErrCannotLink, err)
	}
	return pathError("link", newName, err)
}

// Link is that of the FS that the directory was opened in.
func (d *Dir) Link(oldName, newName string) error { return Link(d.FS, oldName, newName) }

// Link gives a file a second name.
func (OS) Link(oldName, newName string) error { return linkPath(oldName, newName) }

// Link gives a file a second name. Its contents are shared; only the name needs
// a SyncDir.
func (m *Mem) Link(oldName, newName string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find(cleanName(oldName))
	if err == nil && n.isDir() {
		err = ErrNotRegular
	}
	if err != nil {
		return pathError("link", oldName, err)
	}
	to, elem, err := m.parent(cleanName(newName))
	if err == nil && to.entries[elem] != nil {
		err = fs.ErrExist
	}
	if err != nil {
		return pathError("link", newName, err)
	}
	to.entries[elem] = n
	n.linked = true
	to.added(DirOp{Kind: DirLink, Dir: to.name, Name: elem}, n)
	return nil
}

// Link gives a file a second name, if the FS below can.
func (f *Fault) Link(oldName, newName string) error {
	return f.do(OpLink, newName, func() error { return Link(f.inner, oldName, newName) })
}
