package base

// KeyspaceID names a keyspace in batches, logs and the MANIFEST. An ID is given
// out once: a keyspace that is dropped and created again has another one.
type KeyspaceID uint32

// DefaultKeyspace is the keyspace that every database has. Only it exists in
// LevelDB's format, which does not name it.
const DefaultKeyspace KeyspaceID = 0

// DefaultKeyspaceName is the name of DefaultKeyspace.
const DefaultKeyspaceName = "default"
