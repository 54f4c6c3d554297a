package vfs

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

// openShared opens a file that may be removed and renamed while it is open, which os.OpenFile does
// not allow. flags are those of os.OpenFile: O_RDONLY, O_WRONLY or O_RDWR, and O_CREATE with or
// without O_EXCL.
func openShared(name string, flags int) (*os.File, error) {
	path, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	access, how := uint32(windows.GENERIC_READ), uint32(windows.OPEN_EXISTING)
	switch {
	case flags&os.O_RDWR != 0:
		access |= windows.GENERIC_WRITE
	case flags&os.O_WRONLY != 0:
		access = windows.GENERIC_WRITE
	}
	switch {
	case flags&os.O_EXCL != 0:
		how = windows.CREATE_NEW
	case flags&os.O_CREATE != 0:
		how = windows.OPEN_ALWAYS
	}
	h, err := windows.CreateFile(path, access,
		windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE|windows.FILE_SHARE_DELETE, nil, how,
		windows.FILE_ATTRIBUTE_NORMAL, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(h), name), nil
}

// syncRead syncs a file that is open for reading. Windows syncs only files that are open for
// writing: so it is opened once more, and compared.
func syncRead(f *os.File) error {
	w, err := openShared(f.Name(), os.O_RDWR)
	if err != nil {
		return err
	}
	defer w.Close()
	read, err := f.Stat()
	if err != nil {
		return err
	}
	if written, err := w.Stat(); err != nil || !os.SameFile(read, written) {
		return errors.Join(err, &fs.PathError{Op: "sync", Path: f.Name(), Err: fs.ErrNotExist})
	}
	return w.Sync()
}
