package store

// KeepKeyspaces runs f while no keyspace is created or dropped, and no checkpoint takes its state.
func (db *DB) KeepKeyspaces(f func() error) error {
	db.spaces.mu.Lock()
	defer db.spaces.mu.Unlock()
	return f()
}

// IngestStats counts ingests and loads.
type IngestStats struct {
	Count, Failed int64  // ingests and loads that ended; those that failed
	Tables        uint64 // tables that became the database's
	Bytes         uint64 // of these tables
	Copied        uint64 // tables that were copied, because a link was not possible
	Loaded        uint64 // entries that loads brought
	// sorted runs that loads wrote, because the entries did not fit into memory
	Runs uint64
}

// NoteIngest counts an ingest or a load.
func (db *DB) NoteIngest(s IngestStats) {
	c := &db.copies
	c.statsMu.Lock()
	defer c.statsMu.Unlock()
	c.ingests.Count += s.Count
	c.ingests.Failed += s.Failed
	c.ingests.Tables += s.Tables
	c.ingests.Bytes += s.Bytes
	c.ingests.Copied += s.Copied
	c.ingests.Loaded += s.Loaded
	c.ingests.Runs += s.Runs
}

// IngestStats counts the ingests and loads so far.
func (db *DB) IngestStats() IngestStats {
	db.copies.statsMu.Lock()
	defer db.copies.statsMu.Unlock()
	return db.copies.ingests
}
