package work

import (
	"fmt"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/batchrepr"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/tree"
)

// TestGroupGoesWhereItBelongs applies the batches of a group to several keyspaces, without those
// that a condition leaves out, and without the operations on a dropped keyspace.
func TestGroupGoesWhereItBelongs(t *testing.T) {
	d := openFormat(t, vfs.NewMem(), base.Native, nil)
	other := &Keyspace{Tree: tree.New(tree.Options{ID: 1, Name: "other", Comparer: base.Bytewise,
		MemTableSize: 64 << 10}, d.shared)}
	other.Start(d.wal.Num(), nil, d.jobs.opts.Manifest.Current(base.DefaultKeyspace))
	defer other.Close()
	find := func(id base.KeyspaceID) *Keyspace { return []*Keyspace{d.tree, other, nil}[id] }

	batch := func(key string, in ...base.KeyspaceID) []byte {
		b := batchrepr.Init(nil)
		for _, id := range in {
			b = batchrepr.AppendEntry(b, id, base.KindSet, []byte(key), []byte("v"))
		}
		return b
	}
	group := [][]byte{batch("main", 0, 0), batch("left out", 0, 1), batch("both", 0, 1, 0),
		batch("dropped too", 2, 1), batch("dropped", 2), batch("other", 1)}
	g := &d.jobs.group
	bytes := g.split(group, find)
	want := []share{{d.tree, 0, 5}, {other, 0, 4}}
	for i, sh := range g.shares {
		if bytes -= sh.bytes; sh.space != want[i].space || sh.entries != want[i].entries {
			t.Errorf("share %d is %d entries of %s", i, sh.entries, sh.space.Name())
		}
	}
	if bytes != 0 || len(g.shares) != len(want) || g.sole {
		t.Errorf("%d shares, %d bytes more than theirs, sole %v", len(g.shares), bytes, g.sole)
	}
	seq := base.SeqNum(1)
	for i, b := range group {
		if i == 1 {
			continue
		}
		if err := g.Apply(b, seq); err != nil {
			t.Fatal(err)
		}
		seq += base.SeqNum(batchrepr.Count(b))
	}
	d.shared.Seqs.Publish(seq)
	for _, k := range []*Keyspace{d.tree, other} {
		got := ""
		for _, key := range []string{"main", "left out", "both", "dropped too", "dropped",
			"other"} {
			if has, err := k.Has([]byte(key), nil); err != nil {
				t.Fatal(err)
			} else if has {
				got += fmt.Sprintf("%s, ", key)
			}
		}
		want := map[*Keyspace]string{d.tree: "main, both, ", other: "both, dropped too, other, "}[k]
		if got != want {
			t.Errorf("%s has %s", k.Name(), got)
		}
	}

	// One keyspace takes its batches whole.
	g.split([][]byte{batch("a", 1, 1), batch("b", 1)}, find)
	if !g.sole || g.shares[0].space != other {
		t.Error("a group of one keyspace is not applied to it alone")
	}
	if g.split([][]byte{batch("a", 1), batch("b", 1, 2)}, find); g.sole {
		t.Error("operations on a dropped keyspace are applied to another one")
	}
}
