package backup

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/current"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/store/files"
)

// A folder of backups has these names, and LOCK. All others are somebody else's, and are left
// alone.
const (
	FolderName = "BACKUPS" // says that the directory is one
	objectsDir = "data"    // objects, named by objectID.name, and temporary files
	catalogExt = "backup"
	// deletedExt is that of a catalog whose backup is deleted. The one with the largest number
	// stays, so that no number is given out twice.
	deletedExt = "deleted"
	tempExt    = "tmp"
	// damagedSuffix follows the name of an object in that of an empty file: a reader found the
	// object's checksum wrong, or could not read it, so that no backup shares it before it is
	// written anew.
	damagedSuffix = ".damaged"
)

// folderText is the content of the file FolderName.
const folderText = "loam backups 1\n"

// Options are those of a Folder.
type Options struct {
	FS       vfs.FS
	Missing  bool // where there is no folder, fail instead of making one
	ReadOnly bool
}

// Folder is a directory of backups, which may be of several databases. It is safe for concurrent
// use.
//
// The contents of a file are an object, which all backups share that have it. Order of durability,
// of a new backup: an object's bytes, its name, the names of all, the catalog's bytes, its name; of
// a deletion: the catalog's name is gone, then the objects. So a catalog that is there has its
// objects.
type Folder struct {
	outer    vfs.FS // for other directories
	fs       vfs.FS // of the folder, which is held
	path     string
	held     *vfs.Dir
	readOnly bool

	closed atomic.Bool
	temps  atomic.Uint64  // temporary files made
	ended  sync.WaitGroup // calls under way; Add is called with mu held

	mu      sync.Mutex // held during I/O on names, not on contents
	backups map[uint64]Info
	objects map[objectID]*object // those that catalogs name, and those in objectsDir
	prints  map[fingerprint]int  // how many objects have one
	last    uint64               // the largest number that was ever given out
	named   uint64               // the largest number in a name of the folder
	// unsure is why no object is deleted: which catalogs a crash would leave is not known.
	unsure error
}

// object is the known attributes of an objectID.
type object struct {
	refs  int // catalogs that name it, and calls that use it
	there bool
	print fingerprint

	damaged bool // its checksum was wrong when it was read last, or it could not be read
	marked  bool // damagedSuffix stands in the folder
}

// Open opens the folder in dir, and makes it unless o.Missing. Its parent must exist. What a crash
// left of a backup is removed.
func Open(dir string, o Options) (f *Folder, err error) {
	if dir == "" {
		return nil, base.Invalidf("a folder of backups needs the name of a directory")
	}
	f = &Folder{outer: files.RoomyFS{FS: o.FS}, readOnly: o.ReadOnly, backups: map[uint64]Info{},
		objects: map[objectID]*object{}, prints: map[fingerprint]int{}}
	// LOCK is made only in a folder, or where one is to be made
	made, err := f.recognize(f.outer, dir)
	if err != nil {
		return nil, err
	}
	if !made && (o.Missing || o.ReadOnly) {
		return nil, says(base.ErrDoesNotExist, "there are no backups in %s", dir)
	}
	err = files.MakeRoom(func() error {
		f.held, err = vfs.OpenDir(o.FS, dir, vfs.DirOptions{Create: true, NoParents: true,
			Used: FolderName, ReadOnly: o.ReadOnly})
		return err
	})
	if errors.Is(err, base.ErrLocked) {
		return nil, says(base.ErrLocked, "the backups in %s are open elsewhere", dir)
	}
	if err != nil {
		return nil, err
	}
	f.fs, f.path = files.RoomyFS{FS: f.held}, f.held.Path
	done := false
	defer func() { // also when a file system panics
		if !done {
			err = errors.Join(err, f.held.Close())
		}
	}()
	if made, err = f.recognize(f.fs, f.path); err == nil && !made {
		err = f.create()
	}
	if err == nil {
		err = f.load()
	}
	done = err == nil
	return f, err
}

// recognize reports whether a directory is a folder of backups. It fails if it is something else.
func (f *Folder) recognize(fsys vfs.FS, dir string) (made bool, err error) {
	info, err := fsys.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	var names []string
	if err == nil && !info.IsDir() && info.Mode()&fs.ModeSymlink == 0 {
		return false, says(base.ErrNotADatabase, "%s is not a directory", dir)
	}
	if err == nil {
		names, err = fsys.List(dir)
	}
	if err != nil {
		return false, err
	}
	if slices.Contains(names, FolderName) {
		return true, checkFolderFile(fsys, dir)
	}
	for _, name := range names {
		if name != base.LockName && name != numbered(1, tempExt) {
			return false, says(base.ErrNotADatabase, "%s holds something else than backups: %s",
				dir, name)
		}
	}
	return false, nil
}

// checkFolderFile reads the file that says which version a folder has.
func checkFolderFile(fsys vfs.FS, dir string) error {
	r, err := fsys.Open(filepath.Join(dir, FolderName))
	if err != nil {
		return err
	}
	defer r.Close()
	b := make([]byte, min(r.Size(), 100))
	if err := base.ReadFull(r, b, 0); err != nil {
		return fmt.Errorf("reading %s: %w", FolderName, err)
	}
	line, _, _ := strings.Cut(string(b), "\n")
	number, _ := strings.CutPrefix(line, "loam backups ")
	if version, err := strconv.Atoi(number); err == nil && version > 1 {
		return says(base.ErrNewerFormat,
			"the backups in %s were written by a newer version of Loam", dir)
	}
	if string(b) != folderText {
		return base.Corruptf("folder of backups", "it holds %q", b).At(FolderName, 0, r.Size())
	}
	return nil
}

// create makes the directory, which may have what a crash left of an earlier try, a folder.
func (f *Folder) create() error {
	temp := filepath.Join(f.path, numbered(1, tempExt))
	if err := vfs.RemoveIfThere(f.fs, temp); err != nil {
		return err
	}
	err := current.WriteFile(f.fs, temp, []byte(folderText))
	if err == nil {
		err = f.fs.Rename(temp, filepath.Join(f.path, FolderName))
	}
	if err == nil {
		err = f.fs.SyncDir(f.path)
	}
	return err
}

// load reads the catalogs, and removes what a crash left of others.
func (f *Folder) load() error {
	names, err := f.fs.List(f.path)
	if err != nil {
		return err
	}
	rubbish, err := f.loadCatalogs(names)
	if err != nil {
		return err
	}
	dir := filepath.Join(f.path, objectsDir)
	info, err := f.fs.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if f.readOnly {
			return nil
		}
		if err := f.fs.MkdirAll(dir); err != nil {
			return err
		}
		return f.fs.SyncDir(f.path)
	case err != nil:
		return err
	case !info.IsDir():
		return says(base.ErrNotADatabase, "%s is not a directory", dir)
	}
	if names, err = f.fs.List(dir); err != nil {
		return err
	}
	for _, name := range names {
		if _, ext, ok := parseNumbered(name); ok && ext == tempExt {
			rubbish = append(rubbish, filepath.Join(dir, name))
		}
		of, mark := strings.CutSuffix(name, damagedSuffix)
		id, ok := parseObject(of)
		if !ok {
			continue
		}
		if o := f.objectOf(id, fingerprint{size: id.size}); mark {
			o.damaged, o.marked = true, true
		} else {
			o.there = true
		}
	}
	if f.readOnly {
		return nil
	}
	return f.clean(rubbish)
}

// loadCatalogs counts the references of the backups, and returns the paths of leftovers.
func (f *Folder) loadCatalogs(names []string) (rubbish []string, err error) {
	for _, name := range names {
		n, ext, ok := parseNumbered(name)
		if !ok || ext != catalogExt && ext != deletedExt {
			continue
		}
		f.last = max(f.last, n)
		if ext == catalogExt {
			if err := f.loadCatalog(n); err != nil {
				return nil, err
			}
		}
	}
	for _, name := range names {
		n, ext, ok := parseNumbered(name)
		if ok && (ext == tempExt || ext == deletedExt && n < f.last) {
			rubbish = append(rubbish, filepath.Join(f.path, name))
		}
	}
	f.named = f.last
	return rubbish, nil
}

// loadCatalog counts what backup id refers to.
func (f *Folder) loadCatalog(id uint64) error {
	c, err := readCatalog(f.fs, f.path, id)
	if base.IsShortage(err) {
		return err
	}
	if err != nil {
		f.backups[id] = Info{ID: id, Err: fmt.Errorf("backup %d: %w", id, err)}
		return nil
	}
	f.backups[id] = c.info()
	f.refer(c)
	return nil
}

// refer counts a catalog's references. mu is held, unless the folder is being opened.
func (f *Folder) refer(c *catalog) {
	for i := range c.files {
		f.objectOf(c.files[i].object, c.files[i].fingerprint()).refs++
	}
}

// objectOf returns the record of an object, and makes one if there is none.
func (f *Folder) objectOf(id objectID, p fingerprint) *object {
	o := f.objects[id]
	if o == nil {
		o = &object{print: p}
		f.objects[id] = o
		f.prints[p]++
	}
	return o
}

// clean removes files, and objects that nobody needs.
func (f *Folder) clean(rubbish []string) error {
	unused := f.mayDelete() && f.anyUnused()
	if len(rubbish) == 0 && !unused {
		return nil
	}
	// A catalog that a crash could bring back must not lose its objects.
	if err := f.fs.SyncDir(f.path); err != nil {
		return err
	}
	for _, path := range rubbish {
		if err := f.fs.Remove(path); err != nil {
			return err
		}
	}
	return f.collect()
}

// mayDelete reports whether all references are known.
func (f *Folder) mayDelete() bool {
	if f.unsure != nil {
		return false
	}
	for _, info := range f.backups {
		if info.Err != nil {
			return false
		}
	}
	return true
}

func (f *Folder) anyUnused() bool {
	for _, o := range f.objects {
		if o.refs == 0 {
			return true
		}
	}
	return false
}

// collect removes the objects without references, unless some references are unknown. mu is held,
// unless the folder is being opened.
func (f *Folder) collect() error {
	if !f.mayDelete() {
		return nil
	}
	var errs []error
	for id, o := range f.objects {
		if o.refs > 0 {
			continue
		}
		if o.there {
			if err := vfs.RemoveIfThere(f.fs, f.objectPath(id)); err != nil {
				errs = append(errs, err)
				continue // the next one tries again
			}
		}
		f.unmark(id, o)
		delete(f.objects, id)
		if f.prints[o.print]--; f.prints[o.print] == 0 {
			delete(f.prints, o.print)
		}
	}
	return errors.Join(errs...)
}

// noteDamage has the next backup write an object anew, also after another opening of the folder.
func (f *Folder) noteDamage(id objectID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	o := f.objects[id]
	if o == nil || o.damaged {
		return
	}
	o.damaged = true
	if f.readOnly {
		return
	}
	// Without the mark only this opening knows.
	if w, err := f.fs.Create(f.objectPath(id) + damagedSuffix); err == nil {
		o.marked = true
		_ = w.Close()
	}
}

// unmark forgets that an object was damaged: it was written anew, or is gone. mu is held.
func (f *Folder) unmark(id objectID, o *object) {
	if o.marked && f.fs.Remove(f.objectPath(id)+damagedSuffix) == nil {
		o.marked = false
	}
}

// begin counts a call as under way until end.
func (f *Folder) begin(writes bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed.Load() {
		return base.ErrFolderClosed
	}
	if writes && f.readOnly {
		return says(base.ErrReadOnly, "the folder of backups was opened read-only")
	}
	f.ended.Add(1)
	return nil
}

// Close ends the calls under way and gives the folder back. It does not wait for the functions that
// are told of their progress. A second one fails with base.ErrClosed.
func (f *Folder) Close() error {
	f.mu.Lock()
	closed := f.closed.Swap(true)
	f.mu.Unlock()
	if closed {
		return base.ErrFolderClosed
	}
	f.ended.Wait()
	return f.held.Close()
}

// List describes the backups, oldest first.
func (f *Folder) List() ([]Info, error) {
	if err := f.begin(false); err != nil {
		return nil, err
	}
	defer f.ended.Done()
	f.mu.Lock()
	defer f.mu.Unlock()
	list := slices.Collect(maps.Values(f.backups))
	sort.Slice(list, func(i, j int) bool { return list[i].ID < list[j].ID })
	return list, nil
}

// Delete deletes a backup, and the objects that no other has. If it fails the backup may be there
// or not, whole.
func (f *Folder) Delete(id uint64) error {
	if err := f.begin(true); err != nil {
		return err
	}
	defer f.ended.Done()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.deleteAll([]uint64{id})
}

// Keep deletes, of the backups of each database directory, all but the newest n. Those that cannot
// be read stay.
func (f *Folder) Keep(n int) error {
	if n < 0 {
		return base.Invalidf("%d backups cannot be kept", n)
	}
	if err := f.begin(true); err != nil {
		return err
	}
	defer f.ended.Done()
	f.mu.Lock()
	defer f.mu.Unlock()
	var old []uint64
	kept := map[string]int{}
	ids := slices.Sorted(maps.Keys(f.backups))
	for _, id := range slices.Backward(ids) { // newest first
		info := f.backups[id]
		if kept[info.Database]++; info.Err == nil && kept[info.Database] > n {
			old = append(old, id)
		}
	}
	return f.deleteAll(old)
}

// deleteAll deletes backups. Of those before one that fails, the objects go too. mu is held.
func (f *Folder) deleteAll(ids []uint64) error {
	var gone []*catalog
	var err error
	for i, id := range ids {
		var c *catalog
		if c, err = f.deleteCatalog(id); err != nil {
			ids = ids[:i]
			break
		}
		if c != nil {
			gone = append(gone, c)
		}
	}
	if len(ids) == 0 {
		return err
	}
	if serr := f.fs.SyncDir(f.path); serr != nil {
		f.unsure = serr
		return errors.Join(err, serr)
	}
	for _, c := range gone {
		f.dropLocked(c)
	}
	err = errors.Join(err, f.collect())
	for _, id := range ids {
		if id == f.named {
			continue // the next opening learns from it which numbers were given out
		}
		path := filepath.Join(f.path, numbered(id, deletedExt))
		err = errors.Join(err, vfs.RemoveIfThere(f.fs, path))
	}
	return err
}

// deleteCatalog takes the catalog of a backup away, and returns it: nil if its references are not
// those that were counted. An earlier deletion that failed may have taken it away.
func (f *Folder) deleteCatalog(id uint64) (c *catalog, err error) {
	info, ok := f.backups[id]
	if !ok {
		return nil, noBackup(id)
	}
	if info.Err == nil {
		c, err = readCatalog(f.fs, f.path, id)
		if err == nil && c.info() != info {
			c, err = nil, base.Corruptf(kindCatalog, "that of backup %d was replaced", id)
		}
		gone := errors.Is(err, fs.ErrNotExist)
		if err != nil && !gone && !errors.Is(err, base.ErrCorruption) {
			return nil, err
		} else if err != nil {
			f.unsure = err // it was readable when it was counted
		}
	}
	from := filepath.Join(f.path, catalogName(id))
	if err := f.fs.Rename(from, filepath.Join(f.path, numbered(id, deletedExt))); err != nil {
		// A rename that fails may have its effect.
		if _, serr := f.fs.Stat(from); !errors.Is(serr, fs.ErrNotExist) {
			return nil, err
		}
	}
	delete(f.backups, id)
	return c, nil
}

// dropLocked gives a catalog's references up.
func (f *Folder) dropLocked(c *catalog) {
	for i := range c.files {
		f.objects[c.files[i].object].refs--
	}
}

// hold reads the catalog of a backup, whose objects stay until release.
func (f *Folder) hold(id uint64) (*catalog, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	info, ok := f.backups[id]
	if !ok {
		return nil, noBackup(id)
	}
	if info.Err != nil {
		return nil, info.Err
	}
	c, err := readCatalog(f.fs, f.path, id)
	if err != nil {
		return nil, err
	}
	f.refer(c)
	return c, nil
}

// release gives up objects that hold or store took, and removes unreferenced ones.
func (f *Folder) release(c *catalog) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dropLocked(c)
	if f.readOnly {
		return nil
	}
	return f.collect()
}

func (f *Folder) objectPath(id objectID) string {
	return filepath.Join(f.path, objectsDir, id.name())
}

// tempPath is the name of a new temporary file in a directory.
func (f *Folder) tempPath(dir string) string {
	return filepath.Join(dir, numbered(f.temps.Add(1), tempExt))
}

// sentence is an error that says more than the one that it is.
type sentence struct {
	text string
	is   error
}

func says(is error, format string, args ...any) error {
	return &sentence{fmt.Sprintf(format, args...), is}
}

func (s *sentence) Error() string { return s.text }
func (s *sentence) Unwrap() error { return s.is }

func noBackup(id uint64) error { return says(base.ErrDoesNotExist, "there is no backup %d", id) }
