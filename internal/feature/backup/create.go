package backup

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/current"
	"github.com/loamdb/loam/internal/os/fileid"
	"github.com/loamdb/loam/internal/os/vfs"
)

// creation is a backup in the making.
type creation struct {
	folder *Folder
	made   *fileid.Made // folder.fs, and the files of this backup
	src    *Source
	run    *Run
	// tables and full logs that an earlier backup read, without their object
	known map[saved]objectID
	batch batch // of what was copied

	mu      sync.Mutex
	catalog catalog // of the files that are done
	stats   Stats
}

// item is a file to be saved.
type item struct {
	saved
	fs    vfs.FS // that has the file: the source's below the encryption, or one in memory
	path  string // in fs
	size  int64
	table *table // nil: it is none
	log   uint64 // number of a log that others follow; 0: it is none
	full  bool   // a log that does not change any more
}

// Create makes a backup of src's state of the moment. ended tells the end of the database, which is
// asked now and then, and after the last read. The backup is durable when Create returns; if it
// fails, it is not there, and what was copied for it is removed.
func (f *Folder) Create(src *Source, r *Run, ended func() error) (info Info, st Stats, err error) {
	if err := f.begin(true); err != nil {
		return info, st, err
	}
	defer f.ended.Done()
	if _, err := target(src.FS, f.path, src.Dir, "the database"); err != nil {
		return info, st, err
	}
	c := &creation{folder: f, made: fileid.Track(f.fs), src: src, run: r}
	done := false
	defer func() {
		if !done {
			_ = f.release(&c.catalog) // what stays, the next opening removes
		}
	}()
	err = base.Protect(func() error { return c.make(ended) })
	if err == nil {
		err = f.commit(&c.catalog, c.made)
	}
	if done = err == nil; done {
		info = c.catalog.info()
	}
	return info, c.stats, err
}

// make saves all files. They are durable then.
func (c *creation) make(ended func() error) error {
	img, err := c.src.capture()
	if err != nil {
		return err
	}
	defer img.pin.Release()
	items, err := c.items(img)
	if err != nil {
		return err
	}
	total := uint64(0)
	for i := range items {
		total += uint64(items[i].size)
	}
	c.run.begin(total, func() error {
		if c.folder.closed.Load() {
			return base.ErrFolderClosed
		}
		return ended()
	})
	c.catalog = catalog{created: time.Now().UnixNano(), format: c.src.Format, database: c.src.Dir}
	c.known = c.folder.known(c.src.Dir)
	defer c.batch.abandon()
	err = each(len(items), func(i int, buf []byte) error { return c.save(&items[i], buf) })
	if err == nil {
		err = c.batch.finish(c.run.stop)
	}
	if err != nil {
		return err
	}
	files := c.catalog.files
	sort.Slice(files, func(i, j int) bool { return files[i].name < files[j].name })
	// The end of the database gives up the files that were read.
	if err := c.run.stop(); err != nil {
		return err
	}
	return c.folder.fs.SyncDir(filepath.Join(c.folder.path, objectsDir))
}

// items lists the files of an image.
func (c *creation) items(img *image) (items []item, err error) {
	fsys := c.src.raw()
	for i := range img.tables {
		t := &img.tables[i]
		it := item{saved: saved{name: t.to}, fs: fsys, path: c.src.path(t.from), size: t.size,
			table: t}
		if c.src.Keys == nil { // otherwise it is no checksum of the file
			it.crc, it.hasCRC = t.meta.Checksum, t.meta.HasChecksum
		}
		items = append(items, it)
	}
	for _, v := range img.values {
		items = append(items, item{saved: saved{name: v.name}, fs: fsys, path: c.src.path(v.name),
			size: v.size, full: true})
	}
	for i, l := range img.logs {
		name := c.src.Format.FileName(base.FileLog, l.Num)
		it := item{saved: saved{name: name}, fs: fsys, path: c.src.path(name), size: l.Size}
		if i < len(img.logs)-1 {
			it.log = l.Num
		}
		items = append(items, it)
	}
	// The MANIFEST and CURRENT are made in memory.
	mem := vfs.NewMem()
	if err := mem.MkdirAll("db"); err != nil {
		return nil, err
	}
	if err := c.src.writeManifest(img, mem, "db"); err != nil {
		return nil, err
	}
	cur, err := current.Read(mem, "db")
	if err != nil {
		return nil, err
	}
	for _, name := range []string{cur.Manifest, current.FileOf(c.src.Format)} {
		path := filepath.Join("db", name)
		info, err := mem.Stat(path)
		if err != nil {
			return nil, err
		}
		items = append(items, item{saved: saved{name: name}, fs: mem, path: path,
			size: info.Size()})
	}
	return items, nil
}

// known lists the tables and full logs of the newest backup of a database directory by the
// attributes that identify a file: its name and size, the MANIFEST's checksum, if there is one, and
// its identity.
func (f *Folder) known(dir string) map[saved]objectID {
	f.mu.Lock()
	newest := uint64(0)
	for id, info := range f.backups {
		if info.Err == nil && info.Database == dir {
			newest = max(newest, id)
		}
	}
	f.mu.Unlock()
	known := map[saved]objectID{}
	if newest == 0 {
		return known
	}
	c, err := readCatalog(f.fs, f.path, newest)
	if err != nil {
		return known // all tables are read
	}
	for _, s := range c.files {
		if s.source != (identity{}) {
			known[s.key(s.object.size)] = s.object
		}
	}
	return known
}

// key is s without the object's checksum.
func (s saved) key(size int64) saved {
	s.object = objectID{size: size}
	return s
}

// save makes sure that the folder has a file's contents, or will have them once the batch is
// durable, and adds the file to the catalog then.
func (c *creation) save(it *item, buf []byte) error {
	err := c.run.stop()
	var copied *written
	if err == nil {
		copied, err = c.shareOrCopy(it, buf)
	}
	if err != nil {
		return it.saving(err)
	}
	if copied != nil {
		return c.batch.add(*copied)
	}
	c.note(it, false)
	return nil
}

// saving says in an error which file could not be saved.
func (it *item) saving(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("saving %s: %w", it.name, err)
}

// note adds a file to the catalog; fresh says that no earlier backup had its contents.
func (c *creation) note(it *item, fresh bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.catalog.files = append(c.catalog.files, it.saved)
	if fresh {
		c.catalog.newBytes += uint64(it.size)
		c.stats.BytesCopied += uint64(it.size)
	}
	if it.table != nil && fresh {
		c.stats.TablesCopied++
	} else if it.table != nil {
		c.stats.TablesLinked++
	}
}

// shareOrCopy refers to the object that the folder has of a file already, or makes a copy. A table
// of the same file as at an earlier backup is not read (known); one with the same size and checksum
// is read, but not written.
func (c *creation) shareOrCopy(it *item, buf []byte) (copied *written, err error) {
	if it.table != nil || it.full || it.log != 0 && c.src.SyncFull(it.log) {
		info, err := it.fs.Stat(it.path)
		if err != nil {
			return nil, err
		}
		if info.Size() == it.size {
			it.source = identify(info)
		}
		if id, ok := c.known[it.key(it.size)]; ok && it.source != (identity{}) &&
			c.folder.share(id, c.made) {
			it.object = id
			c.run.add(it.size)
			return nil, nil
		}
	}
	in, err := it.fs.Open(it.path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	if err := c.checkTable(it, in.Size(), buf); err != nil {
		return nil, err
	}
	counted := true
	if c.folder.mayHave(fingerprint{it.size, it.crc, it.hasCRC}) {
		// Probably it is one that the folder has: what need not be written is read only.
		s, err := c.run.transfer(in, nil, it.size, true, buf)
		if err == nil {
			err = it.checkSum(s)
		}
		if err != nil {
			return nil, err
		}
		if it.object = (objectID{s.sha, it.size}); c.folder.share(it.object, c.made) {
			return nil, nil
		}
		counted = false
	}
	return c.copy(it, in, counted, buf)
}

// checkTable compares the size of a table's file with the MANIFEST's, and the checksum where the
// copied bytes do not show it.
func (c *creation) checkTable(it *item, size int64, buf []byte) error {
	switch {
	case it.table == nil:
		if it.full && c.src.Keys != nil {
			it.size = size
		}
		return nil
	case c.src.Keys != nil:
		it.size = size // of the file that is open: Rekey may replace it
		return c.src.checkSealed(it.table, buf, c.run.stop)
	case size != it.size:
		return it.table.sizeWrong(size)
	}
	return nil
}

// checkSum compares a file's checksum with the one in the MANIFEST.
func (it *item) checkSum(s sums) error {
	if !it.hasCRC {
		return nil
	}
	return it.table.checkSum(s.crc)
}

// copy copies a file into the folder. Once the copy is durable it is the file's object.
func (c *creation) copy(it *item, in vfs.ReadFile, counted bool,
	buf []byte) (copied *written, err error) {
	f := c.folder
	temp := f.tempPath(filepath.Join(f.path, objectsDir))
	out, err := c.made.Create(temp)
	if err != nil {
		return nil, err
	}
	defer func() { // also when a file system panics
		if copied == nil {
			_ = out.Close()
			_ = c.made.Remove(temp) // the next opening does
		}
	}()
	s, err := c.run.transfer(in, out, it.size, counted, buf)
	if err == nil {
		err = it.checkSum(s)
	}
	if err != nil {
		return nil, err
	}
	it.object = objectID{s.sha, it.size}
	return &written{out, func(err error) error {
		fresh := false
		defer func() {
			if !fresh {
				_ = c.made.Remove(temp) // the next opening does
			}
		}()
		if err == nil {
			fresh, err = f.adopt(c.made, temp, &it.saved)
		}
		if err == nil {
			c.note(it, fresh)
		}
		return it.saving(err)
	}}, nil
}

// mayHave reports whether some object has a fingerprint.
func (f *Folder) mayHave(p fingerprint) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.prints[p] > 0
}

// share refers to an object if its file is there, with its size. made remembers it.
func (f *Folder) share(id objectID, made *fileid.Made) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.shareLocked(id, made)
}

func (f *Folder) shareLocked(id objectID, made *fileid.Made) bool {
	o := f.objects[id]
	if o == nil || !o.there || o.damaged {
		return false
	}
	info, err := f.fs.Stat(f.objectPath(id))
	if err != nil || !info.Mode().IsRegular() || info.Size() != id.size {
		return false // it is copied again, which mends the backups that have it
	}
	made.Note(f.objectPath(id), info)
	o.refs++
	return true
}

// adopt makes a durable file the object of s, and refers to it. fresh is false if the folder has it
// already.
func (f *Folder) adopt(made *fileid.Made, temp string, s *saved) (fresh bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.shareLocked(s.object, made) {
		return false, nil
	}
	if err := made.Rename(temp, f.objectPath(s.object)); err != nil {
		return false, err
	}
	o := f.objectOf(s.object, s.fingerprint())
	o.there, o.damaged = true, false
	o.refs++
	return true, nil
}

// commit gives a backup its number and writes its catalog. It fails if a file of the backup is not
// as it was made by then: another program was at work in the folder.
func (f *Folder) commit(c *catalog, made *fileid.Made) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed.Load() {
		return base.ErrFolderClosed
	}
	c.id = f.last + 1
	b := c.encode()
	if len(b) > maxCatalog || len(c.database) > maxDatabase {
		return fmt.Errorf("%w: the catalog of the backup has %d bytes", base.ErrTooLarge, len(b))
	}
	temp, path := f.tempPath(f.path), filepath.Join(f.path, catalogName(c.id))
	if err := current.WriteFile(made, temp, b); err != nil {
		return err
	}
	f.last = c.id
	err := base.Protect(func() error { // after a panic, too, the catalog may be there
		err := made.Rename(temp, path)
		if err == nil {
			err = f.fs.SyncDir(f.path)
		}
		if err == nil {
			err = f.lastLook(c, made)
		}
		return err
	})
	if err != nil {
		_ = f.fs.Remove(temp)
		if rerr := f.fs.Remove(path); !errors.Is(rerr, fs.ErrNotExist) {
			f.unsure = err // a crash may bring it back, and it must have its objects
		}
		return err
	}
	f.backups[c.id], f.named = c.info(), c.id
	for i := range c.files { // their names are durable
		id := c.files[i].object
		f.unmark(id, f.objects[id])
	}
	return nil
}

// lastLook makes sure that all files of a backup are as they were made. Objects that are not are
// copied again by the next backup that has them. mu is held.
func (f *Folder) lastLook(c *catalog, made *fileid.Made) error {
	err := made.Check(f.fs, f.path)
	if err == nil {
		return nil
	}
	intact := made.Intact(f.fs, f.path)
	for i := range c.files {
		id := c.files[i].object
		if o := f.objects[id]; o != nil && !slices.Contains(intact, f.objectPath(id)) {
			o.damaged = true
		}
	}
	if !errors.Is(err, base.ErrDirectoryChanged) {
		return err
	}
	return says(err, "another program removed or replaced files of the backup in %s while it was "+
		"made", f.path)
}
