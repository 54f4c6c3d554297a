package base

import "sort"

// KeyspaceID names a keyspace in batches, logs and the MANIFEST. An ID is given
// out once: a keyspace that is dropped and created again has another one.
type KeyspaceID uint32

// DefaultKeyspace is the keyspace that every database has. Only it exists in
// LevelDB's format, which does not name it.
const DefaultKeyspace KeyspaceID = 0

// DefaultKeyspaceName is the name of DefaultKeyspace.
const DefaultKeyspaceName = "default"

// InOrder lists what a map has for keyspaces in the order of their IDs.
func InOrder[V any](of map[KeyspaceID]V) []V {
	ids := make([]KeyspaceID, 0, len(of))
	for id := range of {
		ids = append(ids, id)
	}
	sort.Slice(ids, func(i, j int) bool { return ids[i] < ids[j] }) // smaller than slices.Sort
	values := make([]V, len(ids))
	for i, id := range ids {
		values[i] = of[id]
	}
	return values
}
