package manifest

import (
	"encoding/binary"
	"maps"
	"slices"
	"sort"

	"github.com/loamdb/loam/internal/base"
)

// A value log is a log that tables of some Version refer to, see base.ValueHandle. References of a
// table are counted in its FileMeta and nowhere else, so that no count can differ from the tables.
// A log stays until two things have happened, in any order: no Version has a table that refers to
// it, and ReleaseLog was called, as the entries of the log are in tables. A value file is made with
// the tables that refer to it, and stays as long as a Version has one of them.

// valueLogs are the value logs and value files of a Set; guarded by Set.versions.
type valueLogs map[base.ValueFile]*valueLog

type valueLog struct {
	tables   int  // that refer to it; 0 is possible only before the release
	released bool // only references of tables need the file
}

// SetValueLogs says which logs and value files the table refers to. It is called before the table
// is in a Version.
func (m *FileMeta) SetValueLogs(logs []base.ValueLog) {
	m.ValueLogs, m.ValueBytes = logs, 0
	for _, l := range logs {
		m.ValueBytes += l.Bytes
	}
}

// add counts the references of a table that a Version has from now on. With released, logs without
// an earlier table are needed by references only.
func (v *valueLogs) add(m *FileMeta, released bool) {
	for _, l := range m.ValueLogs {
		if *v == nil {
			*v = make(valueLogs)
		}
		log := (*v)[l.File()]
		if log == nil {
			log = &valueLog{released: released || l.InFile}
			(*v)[l.File()] = log
		}
		log.tables++
	}
}

// remove takes tables out that no Version has any more. It returns the released files that no table
// refers to.
func (v valueLogs) remove(tables []*FileMeta) (obsolete []base.ValueFile) {
	for _, m := range tables {
		for _, l := range m.ValueLogs {
			log := v[l.File()]
			if log.tables--; log.tables == 0 && log.released {
				delete(v, l.File())
				obsolete = append(obsolete, l.File())
			}
		}
	}
	return obsolete
}

// ReleaseLog is called when the entries of a log are in tables of the MANIFEST, so that only
// references of tables need the log. needed reports whether there are any: then Options.ObsoleteLog
// is called when the last one is gone. Otherwise the caller deletes the file; used reports that
// there were some, so that a reader of an older Version, in another process, may have it open.
func (s *Set) ReleaseLog(num uint64) (needed, used bool) {
	s.versions.Lock()
	defer s.versions.Unlock()
	log := s.versions.values[base.ValueFile{Num: num}]
	switch {
	case log == nil:
		return false, false
	case log.tables == 0:
		delete(s.versions.values, base.ValueFile{Num: num})
		return false, true
	}
	log.released = true
	return true, true
}

// IsValueLog reports whether a table of a version in use refers to a log, or to a value file.
func (s *Set) IsValueLog(f base.ValueFile) bool {
	s.versions.Lock()
	defer s.versions.Unlock()
	log := s.versions.values[f]
	return log != nil && log.tables > 0
}

// ReleasedValues is ValueLogs without the logs that are needed for other reasons, too.
func (s *Set) ReleasedValues() []base.ValueLog {
	logs := s.ValueLogs()
	s.versions.Lock()
	defer s.versions.Unlock()
	return slices.DeleteFunc(logs, func(l base.ValueLog) bool {
		log := s.versions.values[l.File()]
		return log == nil || !log.released
	})
}

// ValueLogs lists what the tables of the current versions refer to, by log or value file, in the
// order of their numbers.
func (s *Set) ValueLogs() (logs []base.ValueLog) {
	s.versions.Lock()
	defer s.versions.Unlock()
	if len(s.versions.values) == 0 {
		return nil
	}
	var sum valueSum
	for _, k := range s.versions.keyspaces {
		for _, f := range k.current.Tables() {
			sum.add(f)
		}
	}
	return sum.sorted()
}

// ValueLogs is that of the Set that has the State.
func (s *State) ValueLogs() []base.ValueLog {
	var sum valueSum
	for _, f := range s.tables() {
		sum.add(f.Meta)
	}
	return sum.sorted()
}

// valueSum adds up what tables refer to, by log or value file.
type valueSum map[base.ValueFile]base.ValueLog

func (v *valueSum) add(m *FileMeta) {
	for _, l := range m.ValueLogs {
		if *v == nil {
			*v = make(valueSum)
		}
		sum := (*v)[l.File()]
		(*v)[l.File()] = base.ValueLog{Log: l.Log, InFile: l.InFile, Values: sum.Values + l.Values,
			Bytes: sum.Bytes + l.Bytes, End: max(sum.End, l.End)}
	}
}

func (v valueSum) sorted() (logs []base.ValueLog) {
	logs = slices.Collect(maps.Values(v))
	sort.Slice(logs, func(i, j int) bool {
		a, b := &logs[i], &logs[j]
		return a.Log < b.Log || a.Log == b.Log && !a.InFile && b.InFile
	})
	return logs
}

// checkValueLogs looks for the value logs and value files among the names, which are sorted.
func checkValueLogs(st *State, format base.Format, manifest string, names []string) error {
	for _, l := range st.ValueLogs() {
		name := l.File().FileName(format)
		if _, ok := slices.BinarySearch(names, name); !ok {
			what := "log"
			if l.InFile {
				what = "value file"
			}
			return base.Corruptf(kindManifest, "the %s is missing, but tables of %s refer to %d "+
				"values in it", what, manifest, l.Values).At(name, -1, 0)
		}
	}
	return nil
}

// appendValueLogs appends the logs among logs, or the value files.
func appendValueLogs(dst []byte, logs []base.ValueLog, inFiles bool) []byte {
	for _, l := range logs {
		if l.InFile != inFiles {
			continue
		}
		for _, v := range [...]uint64{l.Log, l.Values, l.Bytes, l.End} {
			dst = binary.AppendUvarint(dst, v)
		}
	}
	return dst
}

// readValueLogs reads so many logs, and then so many value files. No number occurs twice.
func (m *FileMeta) readValueLogs(c *cursor, nLogs, nFiles uint64) {
	logs := c.valueLogs(nLogs, false)
	if files := c.valueLogs(nFiles, true); len(files) > 0 {
		logs = append(logs, files...)
		sort.Slice(logs, func(i, j int) bool { return logs[i].Log < logs[j].Log })
		for i := range logs[1:] {
			c.Need(logs[i].Log != logs[i+1].Log)
		}
	}
	m.SetValueLogs(logs)
}

// valueLogs reads n logs or value files, which are in the order of their numbers.
func (c *cursor) valueLogs(n uint64, inFile bool) []base.ValueLog {
	if c.Need(n <= uint64(len(c.B)/4)); c.Bad {
		return nil
	}
	logs := make([]base.ValueLog, n)
	last := uint64(0)
	for i := range logs {
		l := &logs[i]
		*l = base.ValueLog{InFile: inFile, Log: c.Uvarint(), Values: c.Uvarint(),
			Bytes: c.Uvarint(), End: c.Uvarint()}
		c.Need(l.Log > last && l.Log <= base.MaxFileNum && l.Values != 0 &&
			l.Bytes >= l.Values && l.End <= maxTableSize)
		last = l.Log
	}
	return logs
}
