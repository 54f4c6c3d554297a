package manifest

import (
	"errors"
	"slices"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/current"
	"github.com/loamdb/loam/internal/os/vfs"
)

// TestUpgradeOfASet: an upgrade takes over what LevelDB's MANIFEST says; files with names
// of LevelDB's are the database's until an opening finds none of them, and then strangers'.
func TestUpgradeOfASet(t *testing.T) {
	m := newDir(t)
	s, err := Create(options(m))
	if err != nil {
		t.Fatal(err)
	}
	addTable(t, s, m, base.DefaultKeyspace, 2, "a", "b")
	old := addTable(t, s, m, base.DefaultKeyspace, 2, "c", "d")
	if err := m.Rename(dir+"/"+old.Name(), dir+"/"+old.OtherName()); err != nil {
		t.Fatal(err)
	}
	want := state(s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	write(t, m, "000003.log", "x")
	write(t, m, "LOG", "x")

	// Read-only openings do not upgrade.
	o := options(m)
	o.Upgrade = true
	if s, err = Load(o, true); err != nil || s.Upgrading() || s.Format() != base.LevelDB {
		t.Fatal(s, err)
	}
	// A broken-off upgrade changes nothing but adds its mark.
	for range 2 {
		if s, err = Load(o, false); err != nil || !s.Upgrading() || s.Format() != base.Native ||
			s.Found() != base.LevelDB || state(s) != want {
			t.Fatal(s, err)
		}
		if err := s.BeginUpgrade(); err != nil {
			t.Fatal(err)
		}
		write(t, m, base.NamedLoam.Name(s.NewFileNum()),
			"a table of the upgrade that was broken off")
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if s, err = Load(options(m), false); err != nil || s.Format() != base.LevelDB ||
		state(s) != want {
		t.Fatal(s, err)
	}
	names, _ := m.List(dir)
	loams := 0
	for _, name := range names {
		if kind, num := base.Native.ParseFileName(name); kind == base.FileTable {
			if got, n := s.ParseOwnName(name); got != kind || n != num || s.NextFileNum() <= num {
				t.Errorf("%s of a broken-off upgrade: %v %d", name, got, n)
			}
			loams++
		}
	}
	if err := s.cleanCurrent(names); err != nil || loams != 2 ||
		!slices.Contains(names, current.UpgradeName) {
		t.Error(err, names)
	}
	if mark, err := m.Stat(dir + "/" + current.UpgradeName); err != nil || !mark.IsDir() {
		t.Error("the mark is gone before the files")
	}

	if s, err = Load(o, false); err != nil {
		t.Fatal(err)
	}
	finishUpgrade(t, m, s)
}

// finishUpgrade goes on where Load has begun an upgrade.
func finishUpgrade(t *testing.T, m *vfs.Mem, s *Set) {
	leveldb := []string{"000003.log", "000002.ldb", "MANIFEST-000001"}
	var err error
	if err := errors.Join(s.BeginUpgrade(), s.StartManifest()); err != nil || s.Upgrading() {
		t.Fatal(err)
	}
	for range 2 { // tables are found under either name
		if s.Close(); err != nil {
			t.Fatal(err)
		}
		if s, err = Load(options(m), false); err != nil || s.Format() != base.Native ||
			s.Found() != base.Native || s.Upgrading() {
			t.Fatal(s, err)
		}
		for _, name := range leveldb {
			if kind, _ := s.ParseOwnName(name); kind == base.FileUnknown {
				t.Errorf("%s is a stranger's", name)
			}
		}
		for _, name := range []string{"LOG", "000900.ldb", "MANIFEST-000900"} {
			if kind, _ := s.ParseOwnName(name); kind != base.FileUnknown {
				t.Errorf("%s is the database's", name)
			}
		}
		if err := s.StartManifest(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.RenameTables(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"000003.log", "MANIFEST-000001"} {
		if err := m.Remove(dir + "/" + name); err != nil {
			t.Fatal(err)
		}
	}
	_ = s.Close()
	write(t, m, "LOG.old", "x")
	if s, err = Load(options(m), false); err != nil {
		t.Fatal(err)
	}
	if err := s.StartManifest(); err != nil {
		t.Fatal(err)
	}
	for _, name := range leveldb {
		if kind, _ := s.ParseOwnName(name); kind != base.FileUnknown {
			t.Errorf("%s is the database's, although all of LevelDB's is gone", name)
		}
	}
	_ = s.Close()
}
