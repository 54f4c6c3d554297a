// Package fstest is what tests do with file systems: fail calls by count, record
// them, read whole files, find the files of a database by their type.
package fstest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
)

// ReadFile reads a whole file.
func ReadFile(fsys vfs.FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.NewSectionReader(f, 0, f.Size()))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	return b, nil
}

// WriteFile makes a durable file.
func WriteFile(fsys vfs.FS, name string, contents []byte) error {
	f, err := fsys.Create(name)
	if err != nil {
		return err
	}
	_, err = f.Write(contents)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close(), fsys.SyncDir(filepath.Dir(name)))
}

// TypeOf returns what a file of a database is by its path, in either format. The files in
// a native CURRENT are FileCurrent, or FileTemp until they are renamed.
func TypeOf(name string) base.FileType {
	dir, name := filepath.Split(name)
	if strings.HasPrefix(filepath.Base(dir), base.CurrentName) {
		if name == "manifest" {
			return base.FileCurrent
		}
		return base.FileTemp
	}
	t, _ := base.Native.ParseFileName(name)
	if t == base.FileUnknown {
		t, _ = base.LevelDB.ParseFileName(name)
	}
	return t
}

// Tree returns the contents of all files below a directory by their paths within it, without
// those that an open database removes meanwhile.
func Tree(fsys vfs.FS, dir string) (map[string][]byte, error) {
	names, err := fsys.List(dir)
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", dir, err)
	}
	files := make(map[string][]byte)
	for _, name := range names {
		if err := addTree(files, fsys, dir, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return files, nil
}

func addTree(files map[string][]byte, fsys vfs.FS, dir, name string) error {
	at := filepath.Join(dir, name)
	info, err := fsys.Stat(at)
	if err != nil {
		return err
	}
	if info.IsDir() {
		below, err := Tree(fsys, at)
		for sub, b := range below {
			files[name+"/"+sub] = b
		}
		return err
	}
	b, err := ReadFile(fsys, at)
	if err == nil {
		files[name] = b
	}
	return err
}

// Find returns the paths of a directory's files of type t, sorted.
func Find(fsys vfs.FS, dir string, t base.FileType) (paths []string, err error) {
	names, err := fsys.List(dir)
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", dir, err)
	}
	for _, name := range names {
		if TypeOf(name) == t {
			paths = append(paths, filepath.Join(dir, name))
		}
	}
	slices.Sort(paths)
	return paths, nil
}

// Flip inverts the byte of a file at an offset.
func Flip(fsys vfs.FS, name string, at int) error {
	b, err := ReadFile(fsys, name)
	if err != nil {
		return err
	}
	if at >= len(b) {
		return fmt.Errorf("%s has %d bytes", name, len(b))
	}
	b[at] ^= 0xff
	if err := fsys.Remove(name); err != nil {
		return err
	}
	f, err := fsys.Create(name)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Sync(), f.Close(), fsys.SyncDir(filepath.Dir(name)))
}

// FailAt fails calls by count; its Hook goes into vfs.NewFault. It is safe for
// concurrent use.
type FailAt struct {
	// At is the index, from 0, of the first call that fails, among those that
	// Match; a negative one never does.
	At int64
	// Forever: all later calls that Match fail too.
	Forever bool
	// Match picks the calls that count; nil: all.
	Match func(vfs.Op) bool
	// Outcome is what a failing call gets.
	Outcome vfs.Outcome

	seen, failed atomic.Int64
}

// Hook decides about one call.
func (a *FailAt) Hook(op vfs.Op) vfs.Outcome {
	if a.Match != nil && !a.Match(op) {
		return vfs.Outcome{}
	}
	i := a.seen.Add(1) - 1
	if a.At < 0 || i < a.At || i > a.At && !a.Forever {
		return vfs.Outcome{}
	}
	a.failed.Add(1)
	return a.Outcome
}

// Seen is how many calls matched.
func (a *FailAt) Seen() int64 { return a.seen.Load() }

// Failed is how many calls failed.
func (a *FailAt) Failed() int64 { return a.failed.Load() }

// Trace records calls. It is safe for concurrent use.
type Trace struct {
	mu  sync.Mutex
	ops []vfs.Op
}

// Hook returns a hook that records each call and then asks next; nil lets all
// pass.
func (t *Trace) Hook(next func(vfs.Op) vfs.Outcome) func(vfs.Op) vfs.Outcome {
	return func(op vfs.Op) vfs.Outcome {
		t.mu.Lock()
		t.ops = append(t.ops, op)
		t.mu.Unlock()
		if next == nil {
			return vfs.Outcome{}
		}
		return next(op)
	}
}

// Ops returns what was recorded.
func (t *Trace) Ops() []vfs.Op {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]vfs.Op(nil), t.ops...)
}
