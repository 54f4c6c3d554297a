package vfs

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Mem is a file system in memory that knows which of its contents would survive a crash: for each
// file the bytes appended before its last Sync, for each directory its entries at its last SyncDir.
// Like a real disk it may keep any part of the rest; CrashClone chooses which.
//
// Names are cleaned and taken from one root, so that "/db" and "db" are the
// same directory. The root always exists. Removed files live on while open.
type Mem struct {
	// mu guards the whole tree: a clone is a state that existed at one instant.
	mu    sync.RWMutex
	root  *memNode
	locks map[string]int // held locks by clean name: how many share it, or exclusive
}

// memNode is a file or, when entries is not nil, a directory. Bytes of a file
// never change in place, so clones share them.
type memNode struct {
	name string // the latest clean name, for crash functions and errors

	data    []byte // appended bytes
	former  []byte // bytes after data's end until they are overwritten: see reuse
	size    int64  // file size: len(data), or more when allocated ahead
	lastOff int64  // where the last append began

	syncedData int64 // data[:syncedData] is durable
	syncedSize int64 // the durable size; larger than size after an unsynced cut
	// beforeCut is the file before a Truncate that was not synced, or nil.
	beforeCut *memNode

	linked bool // Link gave it another name

	entries map[string]*memNode
	synced  map[string]*memNode // entries at the last SyncDir
	pending []pendingOp         // what was done to entries since, in order
}

// NewMem returns an empty file system.
func NewMem() *Mem {
	return &Mem{root: newMemDir("/"), locks: make(map[string]int)}
}

func newMemDir(name string) *memNode {
	return &memNode{name: name, entries: make(map[string]*memNode),
		synced: make(map[string]*memNode)}
}

func (n *memNode) isDir() bool { return n.entries != nil }

func cleanName(name string) string { return path.Clean("/" + filepath.ToSlash(name)) }

// find returns the node of a clean name.
func (m *Mem) find(clean string) (*memNode, error) {
	n := m.root
	for part := range strings.SplitSeq(clean[1:], "/") {
		if part == "" {
			continue
		}
		if !n.isDir() {
			return nil, syscall.ENOTDIR
		}
		next := n.entries[part]
		if next == nil {
			return nil, fs.ErrNotExist
		}
		n = next
	}
	return n, nil
}

// parent returns the directory that holds a clean name, and its base name.
func (m *Mem) parent(clean string) (*memNode, string, error) {
	dir, err := m.find(path.Dir(clean))
	if err == nil && !dir.isDir() {
		err = syscall.ENOTDIR
	}
	if err == nil && clean == "/" {
		err = fs.ErrInvalid
	}
	return dir, path.Base(clean), err
}

func pathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

func (m *Mem) create(name string, ahead int64) (*memFile, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	clean := cleanName(name)
	dir, elem, err := m.parent(clean)
	if err == nil && dir.entries[elem] != nil {
		err = fs.ErrExist
	}
	if err != nil {
		return nil, pathError("create", name, err)
	}
	n := &memNode{name: clean, size: max(ahead, 0)}
	dir.entries[elem] = n
	dir.added(DirOp{Kind: DirCreate, Dir: dir.name, Name: elem}, n)
	return &memFile{m: m, n: n, ahead: ahead}, nil
}

// Create makes a new file.
func (m *Mem) Create(name string) (WriteFile, error) {
	f, err := m.create(name, 0)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// CreateLog makes a new log. What it allocates ahead reads as zeros.
func (m *Mem) CreateLog(name string, ahead int64) (Log, error) {
	f, err := m.create(name, ahead)
	if err != nil {
		return nil, err
	}
	return memLog{f}, nil
}

// Open opens a file.
func (m *Mem) Open(name string) (ReadFile, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	n, err := m.find(cleanName(name))
	if err == nil && n.isDir() {
		err = ErrNotRegular
	}
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return &memFile{m: m, n: n, opened: n.size}, nil
}

// Remove removes a file or an empty directory.
func (m *Mem) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, elem, err := m.parent(cleanName(name))
	if err != nil {
		return pathError("remove", name, err)
	}
	n := dir.entries[elem]
	switch {
	case n == nil:
		return pathError("remove", name, fs.ErrNotExist)
	case n.isDir() && len(n.entries) > 0:
		return pathError("remove", name, syscall.ENOTEMPTY)
	}
	delete(dir.entries, elem)
	dir.removed(DirOp{Kind: DirRemove, Dir: dir.name, Name: elem}, n)
	return nil
}

// Rename replaces newName, within one directory or between two.
func (m *Mem) Rename(oldName, newName string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	oldClean, newClean := cleanName(oldName), cleanName(newName)
	from, oldElem, err := m.parent(oldClean)
	if err != nil {
		return pathError("rename", oldName, err)
	}
	to, newElem, err := m.parent(newClean)
	if err != nil {
		return pathError("rename", newName, err)
	}
	n := from.entries[oldElem]
	if n == nil {
		return pathError("rename", oldName, fs.ErrNotExist)
	}
	if n.isDir() && strings.HasPrefix(newClean+"/", oldClean+"/") {
		return pathError("rename", newName, fs.ErrInvalid)
	}
	if old := to.entries[newElem]; old != nil && (old.isDir() || n.isDir()) {
		return pathError("rename", newName, fs.ErrExist)
	}
	if to.entries[newElem] == n { // the same name, or a link to the same file
		return nil
	}
	delete(from.entries, oldElem)
	to.entries[newElem] = n
	n.rebase(newClean)
	op := DirOp{Kind: DirRename, Dir: from.name, Name: oldElem, NewDir: to.name, NewName: newElem}
	shared := new(fate)
	from.pending = append(from.pending, pendingOp{op: op, node: n, fate: shared, removes: true,
		adds: from == to})
	if from != to {
		to.pending = append(to.pending, pendingOp{op: op, node: n, fate: shared, adds: true})
	}
	return nil
}

// rebase records the new name of a node and of its descendants.
func (n *memNode) rebase(name string) {
	n.name = name
	for elem, c := range n.entries {
		c.rebase(path.Join(name, elem))
	}
}

// MkdirAll makes a directory and its parents.
func (m *Mem) MkdirAll(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.root
	for elem := range strings.SplitSeq(cleanName(dir)[1:], "/") {
		if elem == "" {
			continue
		}
		next := n.entries[elem]
		if next == nil {
			next = newMemDir(path.Join(n.name, elem))
			n.entries[elem] = next
			n.added(DirOp{Kind: DirMkdir, Dir: n.name, Name: elem}, next)
		}
		if !next.isDir() {
			return pathError("mkdir", dir, syscall.ENOTDIR)
		}
		n = next
	}
	return nil
}

// dir finds a directory.
func (m *Mem) dir(op, name string) (*memNode, error) {
	n, err := m.find(cleanName(name))
	if err == nil && !n.isDir() {
		err = syscall.ENOTDIR
	}
	return n, pathError(op, name, err)
}

// List returns the names in dir.
func (m *Mem) List(dir string) ([]string, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	n, err := m.dir("list", dir)
	if err != nil {
		return nil, err
	}
	return sortedNames(n.entries), nil
}

func sortedNames(entries map[string]*memNode) []string {
	return slices.Sorted(maps.Keys(entries))
}

// Stat describes a file or directory.
func (m *Mem) Stat(name string) (fs.FileInfo, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	clean := cleanName(name)
	n, err := m.find(clean)
	if err != nil {
		return nil, pathError("stat", name, err)
	}
	return memInfo{name: path.Base(clean), size: n.size, dir: n.isDir()}, nil
}

// SyncDir makes the entries of dir durable.
func (m *Mem) SyncDir(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.dir("sync", dir)
	if err != nil {
		return err
	}
	n.syncEntries()
	return nil
}

// Lock takes the lock of a name. It does not outlive the Mem: a crash clone
// has no locks.
func (m *Mem) Lock(name string) (io.Closer, error) {
	if f, err := m.create(name, 0); err == nil {
		_ = f.Close()
	} else if !errors.Is(err, fs.ErrExist) {
		return nil, pathError("lock", name, errors.Unwrap(err))
	}
	return m.lock(name, false)
}

// LockShared takes a lock that others may share, of a file that exists.
func (m *Mem) LockShared(name string) (io.Closer, error) { return m.lock(name, true) }

// exclusive is the count of an exclusive lock.
const exclusive = -1

func (m *Mem) lock(name string, shared bool) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	clean := cleanName(name)
	n, err := m.find(clean)
	if err == nil && n.isDir() {
		err = ErrNotRegular
	}
	if err != nil {
		return nil, pathError("lock", name, err)
	}
	switch have := m.locks[clean]; {
	case have == 0 && !shared:
		m.locks[clean] = exclusive
	case have >= 0 && shared:
		m.locks[clean]++
	default:
		return nil, pathError("lock", name, errLockedHere)
	}
	return &memLock{m: m, clean: clean}, nil
}

type memLock struct {
	m     *Mem
	clean string
	once  sync.Once
}

func (l *memLock) Close() error {
	l.once.Do(func() {
		l.m.mu.Lock()
		defer l.m.mu.Unlock()
		if l.m.locks[l.clean]--; l.m.locks[l.clean] <= 0 {
			delete(l.m.locks, l.clean)
		}
	})
	return nil
}

// memFile is an open file: ReadFile, WriteFile and, by memLog, Log.
type memFile struct {
	m      *Mem
	n      *memNode
	ahead  int64
	opened int64 // size when opened for reading
	closed bool  // guarded by m.mu
	reused bool  // of ReuseLog
}

// memLog gives a file the methods of a Log.
type memLog struct{ *memFile }

// Append appends p, all of it.
func (l memLog) Append(p []byte) error {
	_, err := l.Write(p)
	return err
}

// Truncate cuts the file. Until the next Sync a crash may leave it as it was before.
func (l memLog) Truncate(size int64) error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	n := l.n
	if l.closed || size < 0 || size > int64(len(n.data)) {
		return pathError("truncate", n.name, fs.ErrInvalid)
	}
	if n.beforeCut == nil {
		was := *n
		n.beforeCut = &was
	}
	n.data = n.data[:size:size]
	n.former = n.former[:min(size, int64(len(n.former)))]
	n.size, n.lastOff = size, size
	n.syncedData = min(n.syncedData, size)
	return nil
}

// Write appends p. A log keeps at least half of ahead allocated.
func (f *memFile) Write(p []byte) (int, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if f.closed {
		return 0, pathError("write", f.n.name, fs.ErrClosed)
	}
	n := f.n
	n.lastOff = int64(len(n.data))
	n.data = append(n.data, p...)
	end := int64(len(n.data))
	if f.ahead > 0 && end+f.ahead/2 > n.size {
		n.size = max(n.size, end) + f.ahead
	}
	n.size = max(n.size, end)
	return len(p), nil
}

// Sync makes the file's bytes and size durable, not its name.
func (f *memFile) Sync() error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if f.closed {
		return pathError("sync", f.n.name, fs.ErrClosed)
	}
	f.n.syncedData, f.n.syncedSize, f.n.beforeCut = int64(len(f.n.data)), f.n.size, nil
	return nil
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	f.m.mu.RLock()
	defer f.m.mu.RUnlock()
	if f.closed {
		return 0, pathError("read", f.n.name, fs.ErrClosed)
	}
	if off < 0 {
		return 0, pathError("read", f.n.name, fs.ErrInvalid)
	}
	n := 0
	if off < int64(len(f.n.data)) {
		n = copy(p, f.n.data[off:])
	}
	if at, end := off+int64(n), min(int64(len(f.n.former)), f.n.size); at < end && n < len(p) {
		n += copy(p[n:], f.n.former[at:end])
	}
	if rest := f.n.size - off - int64(n); rest > 0 && n < len(p) {
		zeros := p[n:]
		zeros = zeros[:min(int64(len(zeros)), rest)]
		clear(zeros)
		n += len(zeros)
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// Map hands out the file's own bytes.
func (f *memFile) Map(n int64) (*Mapping, error) {
	f.m.mu.RLock()
	defer f.m.mu.RUnlock()
	switch {
	case f.closed:
		return nil, pathError("mmap", f.n.name, fs.ErrClosed)
	case n > int64(len(f.n.data)): // what is allocated ahead is not there
		return nil, pathError("mmap", f.n.name, errors.ErrUnsupported)
	}
	return &Mapping{bytes: f.n.data[:n:n]}, nil
}

func (f *memFile) Size() int64           { return f.opened }
func (f *memFile) Prefetch(off, n int64) {}

// Close cuts off what was allocated ahead or is of a former life; that is not durable
// either.
func (f *memFile) Close() error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if f.closed {
		return pathError("close", f.n.name, fs.ErrClosed)
	}
	f.closed = true
	if f.ahead > 0 || f.reused {
		f.n.size = int64(len(f.n.data))
	}
	return nil
}

// memInfo is a fs.FileInfo.
type memInfo struct {
	name string
	size int64
	dir  bool
}

func (i memInfo) Name() string       { return i.name }
func (i memInfo) Size() int64        { return i.size }
func (i memInfo) ModTime() time.Time { return time.Time{} }
func (i memInfo) IsDir() bool        { return i.dir }
func (i memInfo) Sys() any           { return nil }
func (i memInfo) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o700
	}
	return 0o600
}

// Clone returns a file system with the same contents, synced and unsynced
// alike, that goes its own way from here.
func (m *Mem) Clone() *Mem {
	m.mu.RLock()
	defer m.mu.RUnlock()
	c := cloner{done: make(map[*memNode]*memNode), fates: make(map[*fate]*fate)}
	return &Mem{root: c.node(m.root), locks: make(map[string]int)}
}

// cloner copies nodes that may be reached along several ways.
type cloner struct {
	done  map[*memNode]*memNode
	fates map[*fate]*fate
}

func (c *cloner) node(n *memNode) *memNode {
	if done := c.done[n]; done != nil {
		return done
	}
	out := new(memNode)
	*out = *n
	c.done[n] = out
	out.data = slices.Clip(n.data)
	if n.isDir() {
		out.entries, out.synced = c.entries(n.entries), c.entries(n.synced)
		out.pending = make([]pendingOp, len(n.pending))
		for i, p := range n.pending {
			p.node, p.fate = c.node(p.node), c.fate(p.fate)
			out.pending[i] = p
		}
	}
	return out
}

func (c *cloner) entries(in map[string]*memNode) map[string]*memNode {
	out := make(map[string]*memNode, len(in))
	for name, n := range in {
		out[name] = c.node(n)
	}
	return out
}

func (c *cloner) fate(f *fate) *fate {
	if c.fates[f] == nil {
		c.fates[f] = &fate{synced: f.synced}
	}
	return c.fates[f]
}

var (
	_ FS        = (*Mem)(nil)
	_ ReadFile  = (*memFile)(nil)
	_ WriteFile = (*memFile)(nil)
	_ Log       = memLog{}
)
