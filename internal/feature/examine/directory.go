// Package examine reads the files of a database directory one by one, without opening the
// database: what CURRENT and the MANIFEST say, the edits of a MANIFEST, the records of a log, the
// blocks and entries of a table. It takes no lock and writes nothing. Another process may have the
// database open, and files may be damaged.
//
// All of it belongs to one goroutine at a time.
package examine

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/current"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/owner"
	"github.com/loamdb/loam/internal/os/vfs"
)

// Directory is what CURRENT and the MANIFEST in force say.
type Directory struct {
	Path     string
	Format   base.Format
	Manifest string // name of the MANIFEST in force
	State    manifest.State
	// Torn describes the end of the MANIFEST if that is not whole.
	Torn *base.Corruption
	// ManifestSize is how many bytes of the MANIFEST hold edits.
	ManifestSize int64
	// Other is the order of keys for OpenTable where the name of one is not built in. Nil: there is
	// none.
	Other *base.Comparer

	fs    vfs.FS
	names map[string]bool // of the files
	// gone are the tables of State without a file; see findTables.
	gone map[uint64]bool
}

// Open reads CURRENT and the MANIFEST of the database in dir. No table is opened or looked up, so
// the time it takes does not depend on the size of the tables. It fails with
// base.ErrDoesNotExist, base.ErrNotADatabase, base.ErrNewerFormat, a *base.Corruption or the error
// of the file system.
func Open(fsys vfs.FS, dir string) (*Directory, error) {
	d := &Directory{Path: dir, fs: fsys}
	err := d.read()
	if err != nil && !errors.Is(err, base.ErrDoesNotExist) {
		err = fmt.Errorf("%s: %w", dir, err)
	}
	return d, err
}

// FS is the file system that Open got.
func (d *Directory) FS() vfs.FS { return d.fs }

func (d *Directory) read() error {
	info, err := d.fs.Stat(d.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %w", base.ErrDoesNotExist, err)
	case err != nil:
		return err
	case !info.IsDir() && info.Mode()&fs.ModeSymlink == 0:
		return fmt.Errorf("%w: it is not a directory", base.ErrNotADatabase)
	}
	if err := owner.Check(d.fs, d.Path); err != nil {
		return err
	}
	return d.findTables()
}

// findTables reads the MANIFEST, then the names of the files, until both agree on the tables. The
// writer of an open database makes and deletes tables meanwhile: one is gone only if the names did
// not have it and the MANIFEST, read after them, still lists it.
func (d *Directory) findTables() error {
	d.gone = map[uint64]bool{}
	var unseen map[uint64]bool // not among the names of the round before
	for range maxReplaced {
		if err := d.readAgain(); err != nil {
			return err
		}
		clear(d.gone)
		looked := map[uint64]bool{}
		agreed := true
		for _, space := range d.State.Keyspaces() {
			for num := range space.Files {
				if _, there := d.nameOf(num); there {
					continue
				}
				looked[num] = true
				if unseen[num] {
					d.gone[num] = true
				} else {
					agreed = false
				}
			}
		}
		if agreed {
			break
		}
		unseen = looked
	}
	return nil
}

// readAgain reads the MANIFEST in force. The writer of an open database replaces MANIFEST and
// CURRENT now and then.
func (d *Directory) readAgain() (err error) {
	for range maxReplaced {
		if err = d.readManifest(); !errors.Is(err, errReplaced) {
			break
		}
	}
	return err
}

const maxReplaced = 10

var errReplaced = errors.New("the MANIFEST is replaced again and again")

// readManifest reads CURRENT and the MANIFEST, then the names.
func (d *Directory) readManifest() error {
	failed := d.readState()
	names, err := d.fs.List(d.Path)
	if err != nil {
		return cmp.Or(failed, err)
	}
	d.names = make(map[string]bool, len(names))
	for _, name := range names {
		d.names[name] = true
	}
	return failed
}

func (d *Directory) readState() error {
	c, err := current.Read(d.fs, d.Path)
	d.Format, d.Manifest = c.Format, c.Manifest
	if errors.Is(err, fs.ErrNotExist) {
		names, err := d.fs.List(d.Path)
		if err != nil {
			return err
		}
		return current.CheckMissing(d.fs, d.Path, names)
	}
	if err != nil {
		return err
	}
	res, err := manifest.ReadManifest(d.fs, d.Path, c.Manifest, c.Format)
	d.State, d.Torn, d.ManifestSize = res.State, res.Torn, res.Size
	if errors.Is(err, fs.ErrNotExist) {
		if now, err := current.Read(d.fs, d.Path); err == nil && now.Manifest != c.Manifest {
			return errReplaced
		}
		return c.Missing()
	}
	if err != nil {
		return err
	}
	return base.LocateCorruption(d.State.Complete(c.Format), c.Manifest, 0, res.Size)
}

// Table finds the keyspace, level and description of table num; ok is false if the MANIFEST does
// not have it.
func (d *Directory) Table(num uint64) (space *manifest.KeyspaceState, f manifest.AddedFile,
	ok bool) {
	for _, space = range d.State.Keyspaces() {
		if f, ok = space.Files[num]; ok {
			return space, f, true
		}
	}
	return nil, f, false
}

// TableName is the name of the file of table num, which the MANIFEST lists: the one of its possible
// names that is there, or that of new tables. there is false only if the file is missing, not if a
// process that has the database open made or deleted it meanwhile.
func (d *Directory) TableName(num uint64) (name string, there bool) {
	name, there = d.nameOf(num)
	return name, there || !d.gone[num]
}

// CheckTable returns a *base.Corruption if the file of table num is missing.
func (d *Directory) CheckTable(num uint64) error {
	_, f, listed := d.Table(num)
	name, there := d.TableName(num)
	if there || !listed {
		return nil
	}
	return base.Corruptf("manifest", "table %d is missing, but %s lists it in level %d", num,
		d.Manifest, f.Level).At(name, -1, 0)
}

func (d *Directory) nameOf(num uint64) (name string, there bool) {
	namings := d.State.Namings(d.Format, num)
	for _, naming := range namings {
		if name := naming.Name(num); d.names[name] {
			return name, true
		}
	}
	return namings[0].Name(num), false
}

// Log is a log that recovery would read.
type Log struct {
	Name string
	Size int64
}

// Logs lists the logs that the database needs, oldest first.
func (d *Directory) Logs() (logs []Log, err error) {
	for name := range d.names {
		t, num := d.Format.ParseFileName(name)
		if t != base.FileLog || num < d.State.LogNum && num != d.State.PrevLogNum {
			continue
		}
		info, err := d.fs.Stat(filepath.Join(d.Path, name))
		if errors.Is(err, fs.ErrNotExist) { // deleted meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		logs = append(logs, Log{name, info.Size()})
	}
	sortLogs(logs)
	return logs, nil
}

// Kind returns the type, format and number of a file by its base name alone.
func Kind(name string) (t base.FileType, f base.Format, num uint64) {
	for _, f := range []base.Format{base.Native, base.LevelDB} {
		if t, num := f.ParseFileName(name); t != base.FileUnknown {
			return t, f, num
		}
	}
	// A copy that a recovery or a repair set aside.
	if i := strings.LastIndexByte(name, '.'); i > 0 && strings.Contains(name[:i], ".") {
		return Kind(name[:i])
	}
	return base.FileUnknown, 0, 0
}
