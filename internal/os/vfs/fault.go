package vfs

import (
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/loamdb/loam/internal/base"
)

// OpKind is a kind of file-system call.
type OpKind uint8

// The kinds of calls that Fault sees: all there are.
const (
	OpCreate OpKind = iota
	OpCreateLog
	OpOpen
	OpRead   // ReadAt; N bytes
	OpWrite  // WriteFile.Write; N bytes
	OpAppend // Log.Append; N bytes
	OpSync   // of a WriteFile or Log
	OpSyncDir
	OpRename // Name is the old name
	OpRemove
	OpMkdir
	OpList
	OpStat
	OpLock
	OpClose    // of any file or lock
	OpTruncate // of a Log; N is the new size
	OpLink     // Name is the new name
	OpReuseLog // Name is the new name, N what is allocated ahead
	OpMap      // of a ReadFile; N bytes
	OpTouch    // bytes of a Mapping are going to be read in place; N bytes
	NumOps
)

var opNames = [NumOps]string{"create", "createlog", "open", "read", "write", "append", "sync",
	"syncdir", "rename", "remove", "mkdir", "list", "stat", "lock", "close", "truncate", "link",
	"reuselog", "map", "touch"}

func (k OpKind) String() string {
	if k < NumOps {
		return opNames[k]
	}
	return fmt.Sprintf("op(%d)", uint8(k))
}

// Op is one call. N is the number of bytes concerned, or for OpCreateLog how
// much is allocated ahead.
type Op struct {
	Kind OpKind
	Name string
	N    int64
}

func (o Op) String() string {
	if o.N == 0 {
		return o.Kind.String() + " " + o.Name
	}
	return fmt.Sprintf("%v %s %d", o.Kind, o.Name, o.N)
}

// Outcome is what is done to a call. The zero value lets it pass.
type Outcome struct {
	// Err, when not nil, is returned, as the cause of a *fs.PathError.
	Err error
	// Short is how many bytes of a failing read, write or append are really
	// moved.
	Short int
	// Done says that a failing call without bytes is carried out all the same.
	Done bool
	// Delay comes before the call.
	Delay time.Duration
}

// Fault passes calls on to another file system, as far as the Outcome of its hook
// says so. A failing Close closes nevertheless, as it does on real systems.
type Fault struct {
	inner FS
	hook  func(op Op) Outcome
}

// NewFault puts hook before every call of inner. hook is called by as many
// goroutines at once as call the file system.
func NewFault(inner FS, hook func(op Op) Outcome) *Fault {
	return &Fault{inner: inner, hook: hook}
}

// Below is the file system whose calls fail, see Absolute.
func (f *Fault) Below() FS { return f.inner }

// ask runs the hook. pass says whether to make the call.
func (f *Fault) ask(kind OpKind, name string, n int64) (out Outcome, pass bool) {
	out = f.hook(Op{Kind: kind, Name: name, N: n})
	if out.Delay > 0 {
		time.Sleep(out.Delay)
	}
	if out.Err == nil {
		return out, true
	}
	out.Err = base.Classify(&fs.PathError{Op: kind.String(), Path: name, Err: out.Err})
	return out, false
}

// do makes a call without bytes.
func (f *Fault) do(kind OpKind, name string, call func() error) error {
	out, pass := f.ask(kind, name, 0)
	if pass {
		return call()
	}
	if out.Done {
		_ = call()
	}
	return out.Err
}

// Create makes a new file.
func (f *Fault) Create(name string) (WriteFile, error) {
	w, err := create(f, OpCreate, name, 0, func() (WriteFile, error) {
		return f.inner.Create(name)
	})
	if err != nil {
		return nil, err
	}
	return &faultWriteFile{f: f, name: name, inner: w}, nil
}

// CreateLog makes a new log.
func (f *Fault) CreateLog(name string, ahead int64) (Log, error) {
	l, err := create(f, OpCreateLog, name, ahead, func() (Log, error) {
		return f.inner.CreateLog(name, ahead)
	})
	if err != nil {
		return nil, err
	}
	return &faultLog{f: f, name: name, inner: l}, nil
}

// create makes a call that makes a file. A file that a failing call made is closed.
func create[F io.Closer](f *Fault, kind OpKind, name string, n int64,
	call func() (F, error)) (file F, err error) {
	out, pass := f.ask(kind, name, n)
	if pass {
		return call()
	}
	if out.Done {
		if made, err := call(); err == nil {
			_ = made.Close()
		}
	}
	return file, out.Err
}

// Open opens a file.
func (f *Fault) Open(name string) (ReadFile, error) {
	if out, pass := f.ask(OpOpen, name, 0); !pass {
		return nil, out.Err
	}
	r, err := f.inner.Open(name)
	if err != nil {
		return nil, err
	}
	return &faultReadFile{ReadFile: r, f: f, name: name}, nil
}

// Remove removes a file.
func (f *Fault) Remove(name string) error {
	return f.do(OpRemove, name, func() error { return f.inner.Remove(name) })
}

// Rename renames a file.
func (f *Fault) Rename(oldName, newName string) error {
	return f.do(OpRename, oldName, func() error { return f.inner.Rename(oldName, newName) })
}

// MkdirAll makes a directory.
func (f *Fault) MkdirAll(dir string) error {
	return f.do(OpMkdir, dir, func() error { return f.inner.MkdirAll(dir) })
}

// List lists a directory.
func (f *Fault) List(dir string) ([]string, error) {
	if out, pass := f.ask(OpList, dir, 0); !pass {
		return nil, out.Err
	}
	return f.inner.List(dir)
}

// Stat describes a file.
func (f *Fault) Stat(name string) (fs.FileInfo, error) {
	if out, pass := f.ask(OpStat, name, 0); !pass {
		return nil, out.Err
	}
	return f.inner.Stat(name)
}

// SyncDir syncs a directory.
func (f *Fault) SyncDir(dir string) error {
	return f.do(OpSyncDir, dir, func() error { return f.inner.SyncDir(dir) })
}

// Lock takes a lock.
func (f *Fault) Lock(name string) (io.Closer, error) { return f.lock(name, f.inner.Lock) }

// LockShared takes a lock that others may share, or the exclusive one where there are none.
func (f *Fault) LockShared(name string) (io.Closer, error) {
	if s, ok := f.inner.(SharedLocker); ok {
		return f.lock(name, s.LockShared)
	}
	return f.Lock(name)
}

func (f *Fault) lock(name string, lock func(name string) (io.Closer, error)) (io.Closer, error) {
	if out, pass := f.ask(OpLock, name, 0); !pass {
		return nil, out.Err
	}
	l, err := lock(name)
	if err != nil {
		return nil, err
	}
	return &faultCloser{f: f, name: name, inner: l}, nil
}

// close closes inner in any case.
func (f *Fault) close(name string, inner io.Closer) error {
	out, pass := f.ask(OpClose, name, 0)
	err := inner.Close()
	if !pass {
		return out.Err
	}
	return err
}

type faultReadFile struct {
	ReadFile
	f    *Fault
	name string
}

func (r *faultReadFile) ReadAt(p []byte, off int64) (int, error) {
	out, pass := r.f.ask(OpRead, r.name, int64(len(p)))
	if pass {
		return r.ReadFile.ReadAt(p, off)
	}
	n, _ := r.ReadFile.ReadAt(p[:clampShort(out.Short, len(p))], off)
	return n, out.Err
}

// Map maps the inner file. Its Mapping asks the hook before each use.
func (r *faultReadFile) Map(n int64) (*Mapping, error) {
	out, pass := r.f.ask(OpMap, r.name, n)
	if !pass {
		return nil, out.Err
	}
	m, err := Map(r.ReadFile, n)
	if err == nil {
		m.touch = func(_, n int64) error {
			out, _ := r.f.ask(OpTouch, r.name, n)
			return out.Err
		}
	}
	return m, err
}

func (r *faultReadFile) Stored() int64            { return Stored(r.ReadFile, r.Size()) }
func (r *faultReadFile) NextData(off int64) int64 { return NextData(r.ReadFile, off) }
func (r *faultReadFile) Close() error             { return r.f.close(r.name, r.ReadFile) }
func (r *faultReadFile) Sync() error {
	return r.f.do(OpSync, r.name, r.ReadFile.(interface{ Sync() error }).Sync)
}

type faultWriteFile struct {
	f     *Fault
	name  string
	inner WriteFile
}

func (w *faultWriteFile) Write(p []byte) (int, error) {
	out, pass := w.f.ask(OpWrite, w.name, int64(len(p)))
	if pass {
		return w.inner.Write(p)
	}
	n, _ := w.inner.Write(p[:clampShort(out.Short, len(p))])
	return n, out.Err
}

func (w *faultWriteFile) StartSync() error { return StartSync(w.inner) }
func (w *faultWriteFile) Sync() error      { return w.f.do(OpSync, w.name, w.inner.Sync) }
func (w *faultWriteFile) Close() error     { return w.f.close(w.name, w.inner) }

type faultLog struct {
	f     *Fault
	name  string
	inner Log
}

func (l *faultLog) Append(p []byte) error {
	out, pass := l.f.ask(OpAppend, l.name, int64(len(p)))
	if pass {
		return l.inner.Append(p)
	}
	if short := clampShort(out.Short, len(p)); short > 0 {
		_ = l.inner.Append(p[:short])
	}
	return out.Err
}

func (l *faultLog) Truncate(size int64) error {
	out, pass := l.f.ask(OpTruncate, l.name, size)
	if pass {
		return l.inner.Truncate(size)
	}
	return out.Err
}

func (l *faultLog) Sync() error  { return l.f.do(OpSync, l.name, l.inner.Sync) }
func (l *faultLog) Close() error { return l.f.close(l.name, l.inner) }

type faultCloser struct {
	f     *Fault
	name  string
	inner io.Closer
}

func (c *faultCloser) Close() error { return c.f.close(c.name, c.inner) }

func clampShort(short, n int) int { return min(max(short, 0), n) }
