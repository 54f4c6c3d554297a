package ingest

import "github.com/loamdb/loam/internal/store"

// Stats counts what an ingest or a load did.
type Stats = store.IngestStats

// note counts an ingest, or a load, that has ended.
func note(db store.Host, s *Stats, err error) {
	s.Count = 1
	if err != nil {
		s.Failed = 1
	}
	db.NoteIngest(*s)
}
