package wal

import "github.com/loamdb/loam/internal/base"

// Installed says that the MANIFEST has an edit durably whose last sequence number, seq, is in no
// log. Two equal markers in succession record that; all other markers of a log differ. So
// a MANIFEST that lacks the edit beside such a log is damaged, see Replay.valid. They are written
// at once, so that a later write cannot be there without them; after a shortage before the next
// record. A crash before them leaves what an edit that failed leaves: numbers that are in no log.
// In LevelDB's format, whose edits have smaller numbers, readers of the logs need the markers, see
// Tail.Settled. For the commit leader.
func (s *Set) Installed(seq base.SeqNum) {
	s.installed = seq
	_ = s.SkipTo(seq + 1) // the edit stays; other failures than shortages reach the next write
}

// SkipTo writes a marker that says that the next batch has sequence number next: the numbers before
// it are in no log. An ingest takes such numbers, and a recovery may find some. Replay and Tail of
// the native format go by the chain; versions without that rule, which compare the numbers of logs,
// need the marker. What Installed has got comes first. For the commit leader.
func (s *Set) SkipTo(next base.SeqNum) error {
	if err := s.cutTorn(); err != nil {
		return err
	}
	if s.installed != 0 {
		for range 2 {
			if err := s.cur.Append(s.marker(s.installed + 1)); err != nil {
				return s.failAppend(err)
			}
		}
		s.next, s.installed = max(s.next, s.installed+1), 0
	}
	if s.next >= next {
		return nil
	}
	if err := s.cur.Append(s.marker(next)); err != nil {
		return s.failAppend(err)
	}
	s.next = next
	return nil
}
