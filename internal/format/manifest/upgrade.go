package manifest

import (
	"fmt"
	"maps"
	"slices"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/current"
)

// An upgrade makes a LevelDB directory a native one, without rewriting its tables:
//
//  1. BeginUpgrade makes current.UpgradeName: native files beside LevelDB's CURRENT are an
//     upgrade's.
//  2. The logs are replayed; all new files are native ones.
//  3. StartManifest writes a native MANIFEST, makes current.UpgradeName name it, removes the file
//     CURRENT, after which the directory is a native one, and renames current.UpgradeName.
//  4. RenameTables gives the tables native names; logs and MANIFESTs of LevelDB are obsolete. Until
//     an opening finds no file with a name of LevelDB's, each MANIFEST says below which number such
//     files are the database's. All others are strangers' in a native directory.

// upgrade turns a Set that was loaded from a LevelDB directory into one that writes the
// native format.
func (s *Set) upgrade(names []string) error {
	for _, name := range names {
		if t, _ := base.Native.ParseFileName(name); t == base.FileUnknown ||
			t == base.FileCurrent || t == base.FileLock {
			continue
		}
		if t, _ := s.ParseOwnName(name); t == base.FileUnknown {
			return base.Invalidf("%s has a name of the native format; move it away before the "+
				"upgrade", name)
		}
	}
	s.format = base.Native
	s.levelDBBelow = s.nextFile.Load()
	return nil
}

// Upgrading reports whether the directory is LevelDB's until StartManifest.
func (s *Set) Upgrading() bool { return s.format != s.found }

// BeginUpgrade comes before any file is created by an upgrade.
func (s *Set) BeginUpgrade() error {
	err := s.opts.FS.MkdirAll(s.path(current.UpgradeName))
	if err == nil {
		err = s.opts.FS.SyncDir(s.opts.Dir)
	}
	return err
}

// RenameTables gives native names to the tables that an upgrade left under LevelDB's. It
// comes after StartManifest and before any Version is shared. Tables that it did not
// rename stay where they are, until the next opening.
func (s *Set) RenameTables() error {
	if s.levelDBBelow == 0 {
		return nil
	}
	s.versions.Lock()
	tables := slices.Collect(maps.Values(s.versions.live))
	s.versions.Unlock()
	for _, f := range tables {
		if f.Naming == base.NamedLoam {
			continue
		}
		if err := s.opts.FS.Rename(s.path(f.Name()), s.path(base.NamedLoam.Name(f.Num))); err !=
			nil {
			return fmt.Errorf("renaming tables: %w", err)
		}
		f.Naming = base.NamedLoam
	}
	return s.opts.FS.SyncDir(s.opts.Dir)
}

// cleanCurrent removes the mark of an upgrade that was not finished, after the files that it made,
// whose removal is durable before: without the mark they would be strangers'. names are the files
// of the directory. It does not matter if the mark stays.
func (s *Set) cleanCurrent(names []string) error {
	unfinished := func(name string) bool {
		t, num := base.Native.ParseFileName(name)
		known, _ := s.ParseOwnName(name)
		return s.format == base.LevelDB && num > 0 && t != base.FileUnknown &&
			known != base.FileUnknown
	}
	if !slices.Contains(names, current.UpgradeName) || slices.ContainsFunc(names, unfinished) {
		return nil
	}
	return s.removeMark()
}

func (s *Set) removeMark() error {
	if err := s.opts.FS.SyncDir(s.opts.Dir); err != nil {
		return err
	}
	return current.RemoveDir(s.opts.FS, s.path(current.UpgradeName))
}
