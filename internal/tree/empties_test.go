package tree

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/batchrepr"
	"github.com/loamdb/loam/internal/tree/empties"
)

func rowKey(i int) []byte { return fmt.Appendf(nil, "row%06d", i) }

// delete is what a commit leader does.
func (h *house) delete(t *testing.T, tree *Tree, key []byte) {
	t.Helper()
	if err := tree.Add(h.last+1, base.KindDelete, key, nil); err != nil {
		t.Fatal(err)
	}
	h.last++
	h.Seqs.Publish(h.last)
}

// emptied puts and deletes rows 0 to n-1, and puts row n.
func (h *house) emptied(t *testing.T, tree *Tree, n int) {
	t.Helper()
	for i := range n + 1 {
		h.put(t, tree, string(rowKey(i)), "v")
	}
	for i := range n {
		h.delete(t, tree, rowKey(i))
	}
}

// steps are functions that run one after the other, while those of others run in between.
type steps []func()

// interleave calls f for each order of the steps of all.
func interleave(all []steps, f func(order []func())) {
	var order []func()
	at := make([]int, len(all))
	var next func()
	next = func() {
		done := true
		for i, s := range all {
			if at[i] == len(s) {
				continue
			}
			done = false
			order = append(order, s[at[i]])
			at[i]++
			next()
			at[i]--
			order = order[:len(order)-1]
		}
		if done {
			f(order)
		}
	}
	next()
}

// interleaved is a writer of row rows/2, which was deleted, beside a learner and a reader.
type interleaved struct {
	t             *testing.T
	h             *house
	tree          *Tree
	rotates       bool
	batch         []byte
	learns, reads Iterator
	learner       learner
	announced     bool
	used          bool // the reader found a fact
}

const rows = 16

func (r *interleaved) begin() {
	r.tree = r.h.open(0, 1)
	r.h.emptied(r.t, r.tree, rows)
	r.learns, r.reads, r.announced, r.used = Iterator{}, Iterator{}, false, false
}

func (r *interleaved) end() {
	r.learns.Close()
	r.reads.Close()
	r.tree.Close()
}

func (r *interleaved) writer() steps {
	return steps{
		func() {
			if r.rotates {
				r.h.rotate(r.t, r.tree, 2)
			}
		},
		func() {
			if err := r.tree.lead.mem.Apply(r.batch, r.h.last+1); err != nil {
				r.t.Fatal(err)
			}
		},
		func() {
			if r.tree.empties.Any() {
				r.tree.cutEmpties(r.batch)
			}
		},
		func() { r.h.last++; r.h.Seqs.Publish(r.h.last) },
	}
}

func (r *interleaved) learning() steps {
	return steps{
		func() { r.tree.Init(&r.learns, &IterOptions{}) },
		func() {
			if r.learns.First() && !bytes.Equal(r.learns.Key(), rowKey(rows)) {
				return // it sees the entry
			}
			l := learner{tree: r.tree, mem: r.learns.state.Mem}
			l.fact.Range = empties.Range{Lo: rowKey(0), Hi: rowKey(rows), HiOpen: true}
			l.fact.View, l.fact.Dead = r.learns.view, rows
			r.learner = l
			r.announced = r.learner.announce()
		},
		func() {
			if r.announced {
				r.learner.examine()
			}
		},
		func() {
			if r.announced {
				r.learner.confirm()
			}
		},
	}
}

func (r *interleaved) reader() steps {
	return steps{
		func() { r.tree.Init(&r.reads, &IterOptions{}) },
		func() {
			there := false
			for i := -1; i < len(r.reads.state.Sealed); i++ {
				r.reads.state.memTable(i).Walk(0, func(t base.Trailer, key []byte, _ uint64) bool {
					there = there || t.Kind() == base.KindSet && t.Seq() <= r.reads.view.Seq &&
						bytes.Equal(key, rowKey(rows/2)) && t.Seq() > 2*rows
					return true
				})
			}
			seen := r.reads.SeekGE(rowKey(1)) && bytes.Equal(r.reads.Key(), rowKey(rows/2))
			if seen != there {
				r.t.Fatalf("the reader at %d sees the row: %v, it is there: %v", r.reads.view.Seq,
					seen, there)
			}
			r.used = r.reads.Within(rowKey(1)) != nil
		},
	}
}

// TestEmptiesInterleavings runs the steps of package empties' comment in every order: a reader that
// sees the sequence number of a write sees its entry.
func TestEmptiesInterleavings(t *testing.T) {
	noScouts(t)
	for _, rotates := range []bool{false, true} {
		r := &interleaved{t: t, h: newHouse(t), rotates: rotates}
		r.batch = batchrepr.AppendEntry(batchrepr.Init(nil), base.DefaultKeyspace, base.KindSet,
			rowKey(rows/2), []byte("v"))
		runs, used := 0, 0
		interleave([]steps{r.writer(), r.learning(), r.reader()}, func(order []func()) {
			r.h.last = 0
			r.h.Seqs.Publish(0)
			r.begin()
			for _, step := range order {
				step()
			}
			r.end()
			runs++
			if r.used {
				used++
			}
		})
		if used < runs/20 {
			t.Errorf("rotates %v: of %d orders %d used a fact", rotates, runs, used)
		}
	}
}

// TestEmptiesListLast: a write comes after a reader began, and before it loads the state and the
// sequence number. The reader, which sees the write, finds no known-empty range of before.
func TestEmptiesListLast(t *testing.T) {
	noScouts(t)
	h := newHouse(t)
	demand := NewDemand() // a read that waits for it has begun
	h.Seqs.Demand = demand
	tree := h.open(0, 1)
	defer tree.Close()
	h.emptied(t, tree, 200)
	first(t, tree, rowKey(200))
	if tree.empties.Len() != 1 {
		t.Fatal("nothing was learned")
	}
	demand.Expire()
	var it Iterator
	begun := make(chan struct{})
	go func() {
		defer close(begun)
		tree.Init(&it, &IterOptions{})
	}()
	<-demand.Wanted
	h.put(t, tree, string(rowKey(100)), "v")
	demand.Renew()
	<-begun
	if !it.SeekGE(rowKey(1)) || !bytes.Equal(it.Key(), rowKey(100)) {
		t.Errorf("the reader at %d, of %d writes, is at %q", it.view.Seq, h.last, it.Key())
	}
	it.Close()
}

// TestEmptiesCutBetween: a writer cuts when its entry is in the memtable and not visible.
func TestEmptiesCutBetween(t *testing.T) {
	noScouts(t)
	h := newHouse(t)
	cmp := *base.Bytewise
	var asked func()
	compare := cmp.Compare
	cmp.Compare = func(a, b []byte) int {
		if asked != nil {
			asked()
		}
		return compare(a, b)
	}
	tree := New(Options{Comparer: &cmp, MemTableSize: 64 << 10}, h.Shared)
	tree.Start(1, nil, h.manifest.Current(base.DefaultKeyspace))
	defer tree.Close()
	for _, add := range []bool{false, true} {
		h.emptied(t, tree, 200)
		first(t, tree, rowKey(200))
		if tree.empties.Len() == 0 {
			t.Fatal("nothing was learned")
		}
		mem := current(tree).Mem
		before, calls := mem.Points(), 0
		asked = func() {
			calls++
			if mem.Points() != before+1 || h.Seqs.Visible() != h.last {
				t.Errorf("asked with %d entries, %d visible", mem.Points()-before, h.Seqs.Visible())
			}
		}
		if add {
			if err := tree.Add(h.last+1, base.KindSet, rowKey(100), nil); err != nil {
				t.Fatal(err)
			}
		} else if err := tree.Apply(batchrepr.AppendEntry(batchrepr.Init(nil), 0, base.KindSet,
			rowKey(100), nil), h.last+1); err != nil {
			t.Fatal(err)
		}
		asked = nil
		if calls == 0 {
			t.Error("nothing was cut")
		}
		h.last++
		h.Seqs.Publish(h.last)
		first(t, tree, rowKey(100))
	}
}

func first(t *testing.T, tree *Tree, want []byte) {
	t.Helper()
	var it Iterator
	tree.Init(&it, &IterOptions{})
	if !it.First() || !bytes.Equal(it.Key(), want) {
		t.Errorf("First is at %q, want %q; %v", it.Key(), want, it.Err())
	}
	it.Close()
}

// TestEmptiesOldLearner: what an iterator learns that began before a write leaves that write's key
// out, in the same memtable and in later ones.
func TestEmptiesOldLearner(t *testing.T) {
	noScouts(t)
	for _, rotations := range []int{0, 1, 2} {
		h := newHouse(t)
		tree := h.open(0, 1)
		h.emptied(t, tree, 200)
		var it Iterator
		tree.Init(&it, &IterOptions{})
		if rotations > 0 {
			h.rotate(t, tree, 2)
		}
		h.put(t, tree, string(rowKey(150)), "v")
		if rotations > 1 {
			h.rotate(t, tree, 3)
		}
		if !it.First() || !bytes.Equal(it.Key(), rowKey(200)) {
			t.Errorf("the old iterator is at %q", it.Key())
		}
		it.Close()
		if tree.empties.Len() != 2 {
			t.Errorf("%d rotations: %d facts, want one on each side", rotations, tree.empties.Len())
		}
		first(t, tree, rowKey(150))
		tree.Close()
	}
}

// TestEmptiesExamineALot: a learner gives up when too much was written since it began. What was
// written before is not in its way.
func TestEmptiesExamineALot(t *testing.T) {
	noScouts(t)
	h := newHouse(t)
	tree := New(Options{Comparer: base.Bytewise, MemTableSize: 64 << 20}, h.Shared)
	tree.Start(1, nil, h.manifest.Current(base.DefaultKeyspace))
	defer tree.Close()
	h.emptied(t, tree, 200)
	var old Iterator
	tree.Init(&old, &IterOptions{})
	for i := range 2 * examineBase {
		h.put(t, tree, fmt.Sprintf("to%06d", i), "v")
	}
	if !old.First() || tree.empties.Len() > 0 {
		t.Errorf("the old iterator is at %q, %d facts", old.Key(), tree.empties.Len())
	}
	old.Close()
	if first(t, tree, rowKey(200)); tree.empties.Len() != 1 {
		t.Errorf("a new one learned %d facts", tree.empties.Len())
	}
}

// replayed is interleaved with a follower's replay in the place of the writer.
type replayed struct {
	interleaved
	fresh, anew bool // the entry is in a memtable that no state has; without that of before
}

func (r *replayed) replay() steps {
	was := current(r.tree)
	mem := was.Mem
	tables := []*Sealed{{Mem: mem, FirstLog: 1}}
	return steps{
		func() {
			if !r.anew { // a version comes without a replay
				r.tree.PauseLearning()
			}
		},
		func() {
			if r.fresh {
				fresh, err := r.tree.NewMemTable(nil, 0, 0)
				if err != nil {
					r.t.Fatal(err)
				}
				tables[0].Last = r.h.last
				mem, tables = fresh, append([]*Sealed{{Mem: fresh, FirstLog: 2}}, tables...)
			}
			if r.anew {
				tables = tables[:1]
			}
			if err := mem.Apply(r.batch, r.h.last+1); err != nil {
				r.t.Fatal(err)
			}
		},
		func() {
			if !r.anew {
				r.tree.Replayed(base.KindSet, rowKey(rows/2))
			}
		},
		func() {
			r.h.last++
			nexts := []Next{{Tree: r.tree, Tables: tables}}
			if !r.fresh {
				nexts = nil
			}
			Switch(r.h.Seqs, nexts, r.h.last)
			if r.fresh {
				mem.Unref() // the state has its own reference
			}
		},
		func() { r.tree.ResumeLearning() },
	}
}

// TestEmptiesReplayInterleavings is TestEmptiesInterleavings of a follower, whose entries come into
// the memtable of the state, into another one that no state has before, or with all that there is
// at once, like another version's.
func TestEmptiesReplayInterleavings(t *testing.T) {
	noScouts(t)
	for _, c := range []struct{ fresh, anew bool }{{false, false}, {true, false}, {true, true}} {
		r := &replayed{interleaved{t: t, h: newHouse(t)}, c.fresh, c.anew}
		r.batch = batchrepr.AppendEntry(batchrepr.Init(nil), base.DefaultKeyspace, base.KindSet,
			rowKey(rows/2), []byte("v"))
		runs, used := 0, 0
		// The steps ask for the tree of the present run.
		var all [3]steps
		turn := func(who, n int) steps {
			s := make(steps, n)
			for i := range s {
				s[i] = func() { all[who][i]() }
			}
			return s
		}
		interleave([]steps{turn(0, 5), turn(1, 4), turn(2, 2)}, func(order []func()) {
			r.h.last = 0
			r.h.Seqs.Publish(0)
			r.begin()
			all = [3]steps{r.replay(), r.learning(), r.reader()}
			for _, step := range order {
				step()
			}
			r.end()
			runs++
			if r.used {
				used++
			}
		})
		if used < runs/200 {
			t.Errorf("%+v: of %d orders %d used a fact", c, runs, used)
		}
	}
}
