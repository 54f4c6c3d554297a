package work

import "testing"

// TestValuesOfADroppedTree: an estimate that was begun before its tree was dropped counts nothing.
func TestValuesOfADroppedTree(t *testing.T) {
	v, k, other := &valueSpace{}, &Keyspace{}, &Keyspace{}
	v.noteLiveLocked(other, treeValues{live: 3, of: 4})
	v.noteLiveLocked(k, treeValues{live: 5, of: 10})
	k.dropped = true
	for range 2 {
		v.noteLiveLocked(k, treeValues{live: 5, of: 10})
		if v.live != 3 || len(v.trees) != 1 {
			t.Errorf("%d bytes live in %d trees; want 3 in 1", v.live, len(v.trees))
		}
	}
}
