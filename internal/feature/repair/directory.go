package repair

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/current"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/owner"
	"github.com/loamdb/loam/internal/os/vfs"
)

// findFormat tells the format of the directory with the files names, also where CURRENT is damaged
// or missing. Then MANIFESTs that can be read decide, and after them the number of files: some may
// be strangers with names of the other format. A damaged file CURRENT may be a stranger's in a
// native directory; it counts for LevelDB's format if there are other files of that.
func findFormat(fsys vfs.FS, dir string, names []string) (base.Format, error) {
	c, err := current.Read(fsys, dir)
	damaged := errors.Is(err, base.ErrCorruption)
	if err == nil || damaged && c.Format == base.Native {
		return c.Format, nil
	}
	if !unreadable(err) {
		return 0, err
	}
	const readable = 1 << 32 // counts more than all names
	var found [2]uint64
	for _, name := range names {
		for _, f := range []base.Format{base.LevelDB, base.Native} {
			t, _ := f.ParseFileName(name)
			if t == base.FileLog || t == base.FileTable || t == base.FileManifest {
				found[f]++
			}
			if t != base.FileManifest {
				continue
			}
			res, err := manifest.ReadManifest(fsys, dir, name, f)
			switch {
			case res.State.LevelDBBelow > 0: // of an upgrade, which leaves files of either format
				return base.Native, nil
			case res.Size > 0 || errors.Is(err, base.ErrNewerFormat):
				found[f] += readable
			case err != nil && !unreadable(err):
				return 0, err
			}
		}
	}
	undisputed := found[base.LevelDB] == 0 || found[base.Native] >= readable
	if found[base.Native] > found[base.LevelDB] && (undisputed || !damaged) {
		return base.Native, nil
	}
	return base.LevelDB, nil
}

// unreadable reports whether an error of reading CURRENT or a MANIFEST says that there is no
// such file, or not one of this engine, or one without its key, which only Destroy meets; others
// are failures to read.
func unreadable(err error) bool {
	return slices.ContainsFunc([]error{base.ErrCorruption, base.ErrNewerFormat,
		base.ErrNotADatabase, base.ErrEncryption, fs.ErrNotExist}, func(e error) bool {
		return errors.Is(err, e)
	})
}

// Destroy removes the regular files in dir that are the database's: the tables and logs that its
// MANIFEST needs, what Loam or LevelDB wrote by its contents, what an upgrade left; and the socket
// of a process that was killed. Others stay. It fails with base.ErrNotADatabase, and removes
// nothing, if one of them has a name of the database's, or the directory is another engine's. LOCK
// comes last: busy says why it cannot be removed as long as it is locked.
func Destroy(fsys vfs.FS, dir string) (busy, err error) {
	if err := owner.CheckReplaceable(fsys, dir); err != nil {
		return nil, err
	}
	own, manifests, strange, err := ownFiles(fsys, dir)
	if err != nil {
		return nil, err
	}
	if len(strange) > 0 {
		return nil, fmt.Errorf("%w: neither Loam nor LevelDB wrote %s, as far as the contents "+
			"tell; nothing is removed; delete or move them away first",
			base.ErrNotADatabase, strings.Join(strange, ", "))
	}
	// The MANIFESTs and CURRENT stay until the others are gone: another try goes by them.
	for _, names := range [][]string{own, manifests} {
		if err := removeAll(fsys, dir, names); err != nil {
			return nil, err
		}
	}
	if err := current.Remove(fsys, dir); err != nil {
		return nil, err
	}
	return fsys.Remove(filepath.Join(dir, base.LockName)), nil
}

// removeAll removes the regular files and the socket among names, durably.
func removeAll(fsys vfs.FS, dir string, names []string) error {
	var errs []error
	for _, name := range names {
		path := filepath.Join(dir, name)
		want := fs.FileMode(0) // of a regular file
		if name == base.InspectName {
			want = fs.ModeSocket
		}
		info, err := fsys.Stat(path)
		if err == nil && info.Mode().Type() == want {
			err = fsys.Remove(path)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, fsys.SyncDir(dir))...)
}

// ownFiles returns the files of dir that are the database's, without LOCK and CURRENT, its
// MANIFESTs apart, and those that only have such names.
func ownFiles(fsys vfs.FS, dir string) (own, manifests, strange []string, err error) {
	names, err := fsys.List(dir)
	var format base.Format
	if err == nil {
		format, err = findFormat(fsys, dir, names)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	st, err := readState(fsys, dir, format)
	if err != nil {
		return nil, nil, nil, err
	}
	live := make(map[uint64]bool)
	for _, k := range st.Keyspaces() {
		for num := range k.Files {
			live[num] = true
		}
	}
	unfinished := format == base.LevelDB && slices.Contains(names, current.UpgradeName)
	beside := 0 // names in own that are somebody else's where there is no database
	for _, name := range names {
		t, num := format.ParseFileName(name)
		if t == base.FileUnknown && unfinished { // an upgrade's
			t, num = base.Native.ParseFileName(name)
		}
		if t == base.FileUnknown && st.LevelDBBelow > 0 {
			if t, num = base.LevelDB.ParseFileName(name); num >= st.LevelDBBelow ||
				t == base.FileInfoLog {
				continue
			}
		}
		switch {
		case name == base.LoadName, name == base.LoadTempName, t == base.FileInfoLog:
			beside++
			own = append(own, name)
			continue
		case name == base.InspectName, t == base.FileTemp, t == base.FileTable && live[num],
			t == base.FileLog && st.HasLogNum && num >= st.LogNum && num < st.NextFile:
			own = append(own, name)
			continue
		case t == base.FileUnknown, t == base.FileLock, t == base.FileCurrent:
			continue
		}
		c, err := owner.Contents(fsys, dir, name)
		if err != nil {
			return nil, nil, nil, err
		}
		switch {
		case !c.Own && !c.Empty:
			strange = append(strange, name)
		case t == base.FileManifest:
			manifests = append(manifests, name)
		default:
			own = append(own, name)
		}
	}
	if len(own) == beside && len(manifests) == 0 && !slices.Contains(names, base.CurrentName) {
		own = nil
	}
	return own, manifests, strange, nil
}

// readState reads the MANIFEST in force, as far as it is whole.
func readState(fsys vfs.FS, dir string, format base.Format) (*manifest.State, error) {
	res := &manifest.ReadResult{}
	c, err := current.Read(fsys, dir)
	if err == nil {
		res, err = manifest.ReadManifest(fsys, dir, c.Manifest, format)
	}
	if unreadable(err) {
		err = nil
	}
	return &res.State, err
}
