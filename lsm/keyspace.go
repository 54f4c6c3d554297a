package lsm

// openKeyspace returns a keyspace, which it creates if there is none of that name.
func (db *DB) openKeyspace(name string, c *Comparer) (*keyspace, error) {
	k, err := db.engine.Keyspace(name, c)
	if err != nil {
		return nil, err
	}
	return &keyspace{reader{space: k}}, nil
}

// in is the keyspace in a snapshot, or at present if that is nil.
func (k *keyspace) in(s *Snapshot) *reader {
	if s == nil {
		return &k.reader
	}
	return &reader{k.space, s.at}
}
