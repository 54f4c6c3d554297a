package seal

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
)

// FS seals what is created through it and opens what is sealed. Locks, and the file that names the
// MANIFEST in force, stay clear: they have no key and no value.
type FS struct {
	vfs.FS
	keys *Keys
	dir  string // of the database: its tables must be sealed, unless keys allow clear ones
	as   string // see As
	// salvage gives zeros for damaged chunks, in which checksums find the damage.
	salvage bool
}

// Over returns an FS above fsys for the database in dir. The keys may be nil: then a sealed file is
// a *base.EncryptionError, and new files are clear.
func Over(fsys vfs.FS, dir string, keys *Keys) *FS {
	return &FS{FS: fsys, keys: keys, dir: filepath.Clean(dir)}
}

// Salvaging is f for a repair: a damaged chunk, and a file whose header is damaged, read as zeros,
// in which the checksums of tables find the damage.
func (f *FS) Salvaging() *FS {
	s := *f
	s.salvage = true
	return &s
}

// As is f for a file that is created under another name and becomes name.
func (f *FS) As(name string) *FS {
	s := *f
	s.as = name
	return &s
}

var formats = []base.Format{base.Native, base.LevelDB}

// parse is what a name says of a file with keys or values, in either format. The type is
// base.FileUnknown for other files.
func parse(name string) (base.FileType, uint64) {
	for _, format := range formats {
		switch t, num := format.ParseFileName(name); t {
		case base.FileTable, base.FileValues, base.FileLog, base.FileManifest:
			return t, num
		}
	}
	return base.FileUnknown, 0
}

// within is what the name of a file of the database says; of others the type is base.FileUnknown.
func (f *FS) within(name string) (base.FileType, uint64) {
	if filepath.Dir(filepath.Clean(name)) != f.dir {
		return base.FileUnknown, 0
	}
	return parse(filepath.Base(name))
}

// number is that of the file of the database with this name; 0: it is none.
func (f *FS) number(name string) uint64 {
	_, num := f.within(name)
	return num
}

// Raw is the file system below fsys if that is an FS: there, sealed files are what they are on
// disk.
func Raw(fsys vfs.FS) vfs.FS {
	if f, ok := fsys.(*FS); ok {
		return f.FS
	}
	return fsys
}

// KeysOf are the keys of fsys, nil if it is no FS or has none.
func KeysOf(fsys vfs.FS) *Keys {
	if f, ok := fsys.(*FS); ok {
		return f.keys
	}
	return nil
}

// Below is the file system whose calls it repeats, see vfs.Absolute.
func (f *FS) Below() vfs.FS { return f.FS }

// staysClear reports whether a file is one of CURRENT, the directory.
func staysClear(name string) bool {
	switch filepath.Base(filepath.Dir(name)) {
	case base.CurrentName, base.CurrentName + ".new", base.CurrentName + ".tmp":
		return true
	}
	return false
}

// Create makes a new file, sealed in chunks.
func (f *FS) Create(name string) (vfs.WriteFile, error) {
	if f.keys == nil || staysClear(name) {
		return f.FS.Create(name)
	}
	header, c, err := f.keys.New(Chunks, f.number(cmp.Or(f.as, name)))
	if err != nil {
		return nil, err
	}
	w, err := f.FS.Create(name)
	if err != nil {
		return nil, err
	}
	return &writer{f: w, c: c, out: append(make([]byte, 0, writeLen+sealedLen), header...)}, nil
}

// CreateLog makes a new log, whose writer seals its records.
func (f *FS) CreateLog(name string, ahead int64) (vfs.Log, error) {
	l, err := f.FS.CreateLog(name, ahead)
	if err != nil || f.keys == nil {
		return l, err
	}
	return &log{l, f.keys, f.number(name)}, nil
}

// ReuseLog is that of the FS below, if it can.
func (f *FS) ReuseLog(oldName, newName string, ahead int64) (vfs.Log, int64, error) {
	l, former, err := vfs.ReuseLog(f.FS, oldName, newName, ahead)
	if err != nil || f.keys == nil {
		return l, former, err
	}
	return &log{l, f.keys, f.number(newName)}, former, nil
}

// log is a log with the keys for its writer.
type log struct {
	vfs.Log
	keys   *Keys
	number uint64
}

// Seal makes the Header and the Sealer of the file's next life, for package record.
func (l *log) Seal() ([]byte, *Sealer, error) { return l.keys.New(Records, l.number) }

// Open opens a file.
func (f *FS) Open(name string) (vfs.ReadFile, error) {
	r, err := f.FS.Open(name)
	if err != nil || staysClear(name) {
		return r, err
	}
	in, err := f.open(r, name)
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return in, nil
}

func (f *FS) open(r vfs.ReadFile, name string) (vfs.ReadFile, error) {
	elem := filepath.Base(name)
	h, err := f.header(r, name)
	if err == nil && (h == nil || h.Kind != Chunks) {
		if f.keys.AllowClear() || !f.mustBeSealed(name) {
			return &raw{r, f.keys, f.number(name)}, nil
		}
		err = noChunks(r, elem)
	}
	size := int64(0)
	if err == nil && !f.salvage { // a repair sees by the table where it belongs
		err = h.checkNumber(f.number(name))
	}
	if err == nil {
		size, err = plainSize(r.Size())
	}
	if err != nil {
		if f.salvage && (errors.Is(err, base.ErrCorruption) || errors.Is(err, base.ErrEncryption)) {
			return lost{r}, nil
		}
		return nil, base.LocateCorruption(err, elem, 0, r.Size())
	}
	c, err := f.keys.Open(h, elem)
	if err != nil {
		return nil, err
	}
	in := &reader{f: r, c: c, name: elem, size: size, salvage: f.salvage}
	return in, in.verifyEmpty()
}

// header is the Header of a file, nil if it has none, or is a log that was another file before.
func (f *FS) header(r io.ReaderAt, name string) (*Header, error) {
	b, err := readBegin(r)
	if err != nil {
		return nil, err
	}
	h, err := Decode(b)
	if f.salvage && (h == nil || err != nil) {
		if h := Salvage(b); h != nil && (f.mustBeSealed(name) || h.Number == f.number(name)) {
			return h, nil
		}
	}
	if h != nil && h.Number != f.number(name) && isLog(name) {
		return nil, nil
	}
	return h, err
}

// noChunks is the error for a table that is not sealed as such. Zeros, and what is shorter than a
// Header, are damage; anything else may be a clear file.
func noChunks(r io.ReaderAt, file string) error {
	b, err := readBegin(r)
	if err != nil {
		return err
	}
	if len(b) < HeaderLen || len(bytes.Trim(b, "\x00")) == 0 {
		return base.Corruptf(kindHeader, "there is none")
	}
	if h, err := find(r); h != nil || err != nil {
		return cmp.Or(err, error(base.Corruptf(kindHeader, "it is one of a log")))
	}
	return ErrClear(file)
}

// HeaderDamage is the damage of the Header of a table, or of a log that is sealed in chunks, in
// spite of which a salvaging FS opens the file; nil if fsys is no FS.
func HeaderDamage(fsys vfs.FS, name string) error {
	f, ok := fsys.(*FS)
	if !ok || !f.mustBeSealed(name) && !isLog(name) {
		return nil
	}
	r, err := f.FS.Open(name)
	if err != nil {
		return err
	}
	strict := *f
	strict.salvage = false
	_, err = strict.header(r, name)
	return errors.Join(base.LocateCorruption(err, filepath.Base(name), 0, r.Size()), r.Close())
}

// isLog reports whether a file is named as a log.
func isLog(name string) bool {
	t, _ := base.Native.ParseFileName(filepath.Base(name))
	return t == base.FileLog
}

// checkNumber refuses a file that was another one of the database. num is 0 for a file outside.
func (h *Header) checkNumber(num uint64) error {
	if num != 0 && num != h.Number {
		return base.Corruptf(kindHeader, "the file was encrypted as number %d of its database",
			h.Number)
	}
	return nil
}

// mustBeSealed reports whether a file is a table or a value file of the database. Of logs and
// MANIFESTs package record sees it.
func (f *FS) mustBeSealed(name string) bool {
	t, num := f.within(name)
	return num != 0 && (t == base.FileTable || t == base.FileValues)
}

// lost is a file that cannot be opened any more.
type lost struct{ vfs.ReadFile }

// ReadAt reads zeros.
func (l lost) ReadAt(p []byte, off int64) (int, error) {
	n := int(min(int64(len(p)), max(l.Size()-off, 0)))
	clear(p[:n])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// raw is a file that is not sealed in chunks, with the keys for the reader of its records.
type raw struct {
	vfs.ReadFile
	keys   *Keys
	number uint64
}

// AllowClear reports whether the file may be a clear one, for package record.
func (r *raw) AllowClear() bool { return r.keys.AllowClear() }

// OpenRecords returns the Opener of the file, whose Header is h, for package record. name is for
// errors.
func (r *raw) OpenRecords(h *Header, name string) (*Opener, error) {
	if err := h.checkNumber(r.number); err != nil {
		return nil, err
	}
	return r.keys.Open(h, name)
}

// Stored bounds the bytes that are not holes.
func (r *raw) Stored() int64 { return vfs.Stored(r.ReadFile, r.Size()) }

// NextData skips a hole.
func (r *raw) NextData(off int64) int64 { return vfs.NextData(r.ReadFile, off) }

// Sync is that of the file below, if it can.
func (r *raw) Sync() error { return syncRead(r.ReadFile) }

// syncRead syncs a file that is open for reading, if its file system can.
func syncRead(r vfs.ReadFile) error {
	if s, ok := r.(interface{ Sync() error }); ok {
		return s.Sync()
	}
	return errors.ErrUnsupported
}

// Stat describes a file. The size of a sealed one is that of its contents.
func (f *FS) Stat(name string) (fs.FileInfo, error) {
	info, err := f.FS.Stat(name)
	if err != nil || !info.Mode().IsRegular() || staysClear(name) {
		return info, err
	}
	return &description{info, f, name}, nil
}

// description describes a file, which is read only if its size is asked for.
type description struct {
	fs.FileInfo
	fs   *FS
	name string
}

// Size is the size of the contents; that on disk if it cannot be read, which the
// caller that reads it sees, too.
func (d *description) Size() int64 {
	size := d.FileInfo.Size()
	plain, err := plainSize(size)
	if err == nil && (d.fs.keys != nil && !d.fs.keys.allowClear && d.fs.mustBeSealed(d.name) ||
		d.sealed()) {
		return plain
	}
	return size
}

// sealed reports whether the file is sealed in chunks.
func (d *description) sealed() bool {
	r, err := d.fs.FS.Open(d.name)
	if err != nil {
		return false
	}
	defer r.Close()
	h, err := d.fs.header(r, d.name)
	return err == nil && h != nil && h.Kind == Chunks
}

// Rename renames a file. A sealed file of the database that gets another number is sealed anew for
// that; it does not replace one that is there.
func (f *FS) Rename(oldName, newName string) error {
	from, to := f.number(oldName), f.number(newName)
	if f.keys == nil || to == 0 || from == to {
		return f.FS.Rename(oldName, newName)
	}
	h, err := headerOf(f.FS, oldName)
	if err != nil && !errors.Is(err, errNothing) {
		return err
	}
	if h == nil || h.Kind != Chunks || h.Number == to {
		return f.FS.Rename(oldName, newName)
	}
	if _, err := f.FS.Stat(newName); !errors.Is(err, fs.ErrNotExist) {
		return &fs.PathError{Op: "rename", Path: newName, Err: cmp.Or(err, fs.ErrExist)}
	}
	step := func([]byte) error { return nil }
	if err := vfs.Copy(f, oldName, f, newName, vfs.WholeFile, step); err != nil {
		return errors.Join(err, f.FS.Remove(newName))
	}
	return f.FS.Remove(oldName)
}

// Link gives a file a second name. A clear one cannot have one in the database, nor one that was
// sealed for another number: its copy is sealed.
func (f *FS) Link(oldName, newName string) error {
	if f.keys != nil {
		r, err := f.FS.Open(oldName)
		if err != nil {
			return err
		}
		h, err := Read(r)
		if err = errors.Join(err, r.Close()); err != nil {
			return err
		}
		if h == nil || h.checkNumber(f.number(newName)) != nil {
			return &fs.PathError{Op: "link", Path: newName, Err: vfs.ErrCannotLink}
		}
	}
	return vfs.Link(f.FS, oldName, newName)
}

// LockShared is that of the FS below, or its exclusive lock.
func (f *FS) LockShared(name string) (io.Closer, error) {
	if s, ok := f.FS.(vfs.SharedLocker); ok {
		return s.LockShared(name)
	}
	return f.FS.Lock(name)
}
