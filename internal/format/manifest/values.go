package manifest

import (
	"encoding/binary"
	"maps"
	"slices"

	"github.com/loamdb/loam/internal/base"
)

// A value log is a log that tables of some Version refer to, see base.ValueHandle. References of a
// table are counted in its FileMeta and nowhere else, so that no count can differ from the tables.
// A log stays until two things have happened, in any order: no Version has a table that refers to
// it, and ReleaseLog was called, as the entries of the log are in tables.

// valueLogs are the value logs of a Set by number; guarded by Set.versions.
type valueLogs map[uint64]*valueLog

type valueLog struct {
	tables   int  // that refer to it; 0 is possible only before the release
	released bool // only references of tables need the log
}

// add counts the references of a table that a Version has from now on. With released, logs without
// an earlier table are needed by references only.
func (v *valueLogs) add(m *FileMeta, released bool) {
	for _, l := range m.ValueLogs {
		if *v == nil {
			*v = make(valueLogs)
		}
		log := (*v)[l.Log]
		if log == nil {
			log = &valueLog{released: released}
			(*v)[l.Log] = log
		}
		log.tables++
	}
}

// remove takes tables out that no Version has any more. It returns the released logs that no table
// refers to.
func (v valueLogs) remove(tables []*FileMeta) (obsolete []uint64) {
	for _, m := range tables {
		for _, l := range m.ValueLogs {
			log := v[l.Log]
			if log.tables--; log.tables == 0 && log.released {
				delete(v, l.Log)
				obsolete = append(obsolete, l.Log)
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
	log := s.versions.values[num]
	switch {
	case log == nil:
		return false, false
	case log.tables == 0:
		delete(s.versions.values, num)
		return false, true
	}
	log.released = true
	return true, true
}

// IsValueLog reports whether a table of a version in use refers to a log.
func (s *Set) IsValueLog(num uint64) bool {
	s.versions.Lock()
	defer s.versions.Unlock()
	log := s.versions.values[num]
	return log != nil && log.tables > 0
}

// ValueLogs lists what the tables of the current versions refer to, by log, in the order of their
// numbers.
func (s *Set) ValueLogs() (logs []base.ValueLog) {
	s.versions.Lock()
	defer s.versions.Unlock()
	if len(s.versions.values) == 0 {
		return nil
	}
	var sum valueSum
	for _, k := range s.versions.keyspaces {
		for level := range k.current.Levels {
			for _, f := range k.current.Levels[level].Files {
				sum.add(f)
			}
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

// valueSum adds up what tables refer to, by log.
type valueSum map[uint64]base.ValueLog

func (v *valueSum) add(m *FileMeta) {
	for _, l := range m.ValueLogs {
		if *v == nil {
			*v = make(valueSum)
		}
		sum := (*v)[l.Log]
		(*v)[l.Log] = base.ValueLog{Log: l.Log, Values: sum.Values + l.Values,
			Bytes: sum.Bytes + l.Bytes, End: max(sum.End, l.End)}
	}
}

func (v valueSum) sorted() (logs []base.ValueLog) {
	for _, num := range slices.Sorted(maps.Keys(v)) {
		logs = append(logs, v[num])
	}
	return logs
}

// checkValueLogs looks for the value logs among the names, which are sorted.
func checkValueLogs(st *State, format base.Format, manifest string, names []string) error {
	for _, l := range st.ValueLogs() {
		name := format.FileName(base.FileLog, l.Log)
		if _, ok := slices.BinarySearch(names, name); !ok {
			return base.LocateCorruption(base.Corruptf(kindManifest, "the log is missing, but "+
				"tables of %s refer to %d values in it", manifest, l.Values), name, -1, 0)
		}
	}
	return nil
}

func appendValueLogs(dst []byte, logs []base.ValueLog) []byte {
	for _, l := range logs {
		for _, v := range [...]uint64{l.Log, l.Values, l.Bytes, l.End} {
			dst = binary.AppendUvarint(dst, v)
		}
	}
	return dst
}

// valueLogs reads n logs, which are in the order of their numbers.
func (c *cursor) valueLogs(n uint64) (logs []base.ValueLog, ok bool) {
	if n > uint64(len(c.b)/4) {
		return nil, false
	}
	logs = make([]base.ValueLog, n)
	last := uint64(0)
	for i := range logs {
		l := &logs[i]
		ok := true
		for _, v := range []*uint64{&l.Log, &l.Values, &l.Bytes, &l.End} {
			if ok {
				*v, ok = c.u64()
			}
		}
		if !ok || l.Log <= last || l.Log > base.MaxFileNum || l.Values == 0 ||
			l.Bytes < l.Values || l.End > maxTableSize {
			return nil, false
		}
		last = l.Log
	}
	return logs, true
}
