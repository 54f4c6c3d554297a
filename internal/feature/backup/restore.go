package backup

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
)

// Verify reads all files of a backup, and compares them with its catalog. The error joins what is
// wrong with each, as *base.Corruption if it is damaged.
func (f *Folder) Verify(id uint64, r *Run) error {
	return f.read(id, r, func(c *catalog) error {
		var mu sync.Mutex
		var errs []error
		err := each(len(c.files), func(i int, buf []byte) error {
			err := f.readObject(c, &c.files[i], nil, r, buf)
			if stop := r.stop(); stop != nil {
				return stop
			}
			if err != nil {
				mu.Lock()
				errs = append(errs, err)
				mu.Unlock()
			}
			return nil
		})
		return errors.Join(append(errs, err)...)
	})
}

// Restore makes dir a database as it was at the backup. It is durable when Restore returns; nothing
// is there if it failed.
func (f *Folder) Restore(id uint64, dir string, r *Run) error {
	return f.read(id, r, func(c *catalog) (err error) {
		to, err := target(f.outer, dir, f.path, "the folder of backups")
		if err != nil {
			return err
		}
		var left []error // of cleaning up
		warn := func(what string, err error) {
			left = append(left, fmt.Errorf("%s: %w", what, err))
		}
		err = Make(f.outer, to, false, warn, func(s *Stage) (Content, error) {
			if err := f.fill(c, s, r); err != nil {
				return nil, s.explain(err)
			}
			made := Content{}
			for i := range c.files {
				made[c.files[i].name] = c.files[i].object.size
			}
			return made, r.stop()
		})
		if err != nil {
			err = errors.Join(append([]error{err}, left...)...)
		}
		return err
	})
}

// read runs a function that reads a backup.
func (f *Folder) read(id uint64, r *Run, do func(c *catalog) error) error {
	if err := f.begin(false); err != nil {
		return err
	}
	defer f.ended.Done()
	c, err := f.hold(id)
	if err != nil {
		return err
	}
	r.begin(c.bytes(), func() error {
		if f.closed.Load() {
			return base.ErrFolderClosed
		}
		return nil
	})
	err = base.Protect(func() error { return do(c) })
	return errors.Join(err, f.release(c))
}

// fill makes the files of a database in the directory of a stage. All are durable then.
func (f *Folder) fill(c *catalog, to *Stage, r *Run) error {
	dir := to.dir
	pointer := filepath.Join(dir, base.CurrentName)
	if c.format == base.Native {
		if err := to.fs.MkdirAll(pointer); err != nil {
			return err
		}
	}
	var made batch
	defer made.abandon()
	err := each(len(c.files), func(i int, buf []byte) error {
		file := &c.files[i]
		out, err := to.fs.Create(filepath.Join(dir, filepath.FromSlash(file.name)))
		if err != nil {
			return err
		}
		done := false
		defer func() { // also when a file system panics
			if !done {
				_ = out.Close()
			}
		}()
		if err = f.readObject(c, file, out, r, buf); err != nil {
			return err
		}
		done = true
		return made.add(written{out, func(err error) error { return err }})
	})
	if err == nil {
		err = made.finish(r.stop)
	}
	if err == nil && c.format == base.Native {
		err = to.fs.SyncDir(pointer)
	}
	if err == nil {
		err = to.fs.SyncDir(dir)
	}
	return err
}

// readObject reads a file's object whole, and writes it to out unless that is nil.
func (f *Folder) readObject(c *catalog, file *saved, out io.Writer, r *Run, buf []byte) error {
	name := objectsDir + "/" + file.object.name()
	damaged := func(size int64, format string, args ...any) error {
		what := fmt.Sprintf("%s of backup %d: ", file.name, c.id)
		return base.Corruptf("file of a backup", "%s", what+fmt.Sprintf(format, args...)).At(
			name, 0, size)
	}
	in, err := f.fs.Open(f.objectPath(file.object))
	if errors.Is(err, fs.ErrNotExist) {
		return damaged(0, "it is missing")
	}
	if err != nil {
		return fmt.Errorf("%s of backup %d: %w", file.name, c.id, err)
	}
	defer in.Close()
	if in.Size() != file.object.size {
		return damaged(in.Size(), "it has %d bytes instead of %d", in.Size(), file.object.size)
	}
	reads := &readErrors{ReadFile: in}
	s, err := r.transfer(reads, out, file.object.size, true, buf)
	if errors.Is(reads.last, syscall.EIO) {
		f.noteDamage(file.object) // a disk says so of a sector that it cannot read any more
	}
	if err != nil {
		return fmt.Errorf("%s of backup %d: %w", file.name, c.id, err)
	}
	if s.sha != file.object.sum {
		f.noteDamage(file.object)
		return damaged(file.object.size, "its checksum is wrong")
	}
	return nil
}

// readErrors is a file that remembers the error of its last read that failed.
type readErrors struct {
	vfs.ReadFile
	last error
}

func (r *readErrors) ReadAt(p []byte, off int64) (int, error) {
	n, err := r.ReadFile.ReadAt(p, off)
	if err != nil {
		r.last = err
	}
	return n, err
}
