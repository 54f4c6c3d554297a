package manifest

import "github.com/loamdb/loam/internal/base"

// DeleteObsolete hands files of earlier runs to remove that are the database's by name and in
// no version: MANIFESTs but the one in force, tables, value files, logs before firstLog. All others
// stay. Tables may refer to such a log: the caller asks ReleaseLog before it removes one.
func (s *Set) DeleteObsolete(firstLog uint64, remove func(name string)) error {
	s.TakeObsolete() // they are found here
	names, err := s.opts.FS.List(s.opts.Dir)
	if err != nil {
		return err
	}
	live := map[uint64]struct{}{}
	s.LiveFiles(live)
	for _, name := range names {
		t, num := s.ParseOwnName(name)
		obsolete := false
		switch t {
		case base.FileLog:
			obsolete = num < firstLog
		case base.FileManifest:
			obsolete = num != s.ManifestNum()
		case base.FileTable:
			_, isLive := live[num]
			obsolete = !isLive
		case base.FileValues:
			obsolete = !s.IsValueLog(base.ValueFile{Num: num, InFile: true})
		case base.FileTemp:
			obsolete = true
		}
		if obsolete {
			remove(name)
		}
	}
	return s.cleanCurrent(names)
}
