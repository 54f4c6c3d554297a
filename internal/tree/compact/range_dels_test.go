package compact

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/mergeop"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/rangedel"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/testkit/model"
)

// TestRangeDelsAreCut merges tables with range tombstones into many tables: together they have
// the tombstones of the inputs, none beyond its table, and the tables do not overlap.
func TestRangeDelsAreCut(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for round := range 30 {
		rng := rand.New(rand.NewPCG(seed, uint64(round)))
		key := func(i int) []byte { return fmt.Appendf(nil, "k%03d", i) }
		ts := newTables(t, base.Bytewise)
		var es []model.Entry
		for i := range 200 {
			if rng.IntN(3) > 0 {
				es = append(es, model.Entry{Key: key(i), Value: make([]byte, 2000),
					Trailer: base.MakeTrailer(base.SeqNum(200+i), base.KindSet)})
			}
		}
		var dels []rangedel.Tombstone
		for i := range rng.IntN(8) {
			from := rng.IntN(200)
			dels = append(dels,
				rangedel.Tombstone{Start: key(from), Limit: key(from + rng.IntN(100)),
					Seq: base.SeqNum(100 + i)})
		}
		list := rangedel.NewestOf(base.Bytewise, dels)
		below := []model.Entry{{Key: key(0), Trailer: base.MakeTrailer(1, base.KindSet)},
			{Key: key(400), Trailer: base.MakeTrailer(2, base.KindSet)}}
		var levels [manifest.NumLevels][]*manifest.FileMeta
		levels[0] = []*manifest.FileMeta{ts.putWith(es, list)}
		levels[5] = []*manifest.FileMeta{ts.put(below)} // no tombstone may go
		v := versionOf(t, levels)
		plan := planOf(v, 3)
		plan.FileSize, plan.MaxPieces = 30_000, 3
		plan.Cut(base.Bytewise, ts.splitKeys)
		var added [manifest.NumLevels][]*manifest.FileMeta
		var lists []*rangedel.List
		tables := 0
		for piece := range plan.Pieces() {
			r, err := Run(plan, piece, ts.env(), nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range r.Added {
				tables++
				added[3] = append(added[3], a.Meta)
				part := ts.dels[a.Meta.Num]
				lists = append(lists, part)
				if start, limit := part.Ends(); start != nil &&
					(base.Bytewise.Cmp(start, a.Meta.Smallest.User) < 0 ||
						base.Bytewise.Cmp(limit, a.Meta.Largest.User) > 0) {
					t.Errorf("round %d: %v has tombstones from %q to %q", round, a.Meta, start,
						limit)
				}
			}
		}
		versionOf(t, added) // fails where tables overlap
		got, want := rangedel.Merge(base.Bytewise, lists...), list
		if g, w := fmt.Sprintf("%q", got.Fragments()), fmt.Sprintf("%q",
			want.Fragments()); g != w || tables < 3 {
			t.Errorf("round %d: %d tables with %s, want %s", round, tables, g, w)
		}
	}
}

// TestFoldStopsAtCoveredKeys merges an operand of a, a value of b that a range tombstone covers, in
// a chunk of live sets, and an older value of b, which a snapshot sees: that is none of a's.
func TestFoldStopsAtCoveredKeys(t *testing.T) {
	a, b := []byte("a"), []byte("b")
	entry := func(key []byte, value string, seq base.SeqNum, kind base.Kind) model.Entry {
		return model.Entry{Key: key, Value: []byte(value), Trailer: base.MakeTrailer(seq, kind)}
	}
	ts := newTables(t, base.Bytewise)
	list := rangedel.NewestOf(base.Bytewise,
		[]rangedel.Tombstone{{Start: b, Limit: []byte("c"), Seq: 20}})
	var levels [manifest.NumLevels][]*manifest.FileMeta
	levels[0] = []*manifest.FileMeta{
		ts.putWith([]model.Entry{entry(b, "covered", 15, base.KindSet)}, list),
		ts.put([]model.Entry{entry(a, "operand", 3, base.KindMerge),
			entry(b, "old", 2, base.KindSet)}),
	}
	v := versionOf(t, levels)
	env := ts.env()
	env.Merge, _ = mergeop.Named("append")
	r, err := Run(planOf(v, 3), 0, env, []base.SeqNum{10})
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, added := range r.Added {
		src := ts.source(added.Meta.Num)
		err = base.Scan(src, func(e *base.Chunk) error {
			for i := range e.Len() {
				got += fmt.Sprintf("%s#%d=%s ", e.Key(i), e.Trailers[i].Seq(), e.Value(i))
			}
			return nil
		})
		src.Close()
		if err != nil {
			t.Fatal(err)
		}
	}
	if want := "a#3=operand b#2=old "; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// closedSource counts the sources that are open.
type closedSource struct {
	base.Source
	open *int
}

func (s closedSource) Close() { *s.open--; s.Source.Close() }

// TestPanicsCloseInputs has the comparer panic at each of its calls in a flush and in a compaction,
// of which the first ones are about range tombstones: all inputs are closed once.
func TestPanicsCloseInputs(t *testing.T) {
	left := 0 // calls until the panic; 0: none
	cmp := &base.Comparer{Name: "test.Panics", Compare: func(a, b []byte) int {
		if left--; left == 0 {
			panic("comparer gave up")
		}
		return bytes.Compare(a, b)
	}}
	list := func(start, limit string, seq base.SeqNum) *rangedel.List {
		return rangedel.NewestOf(base.Bytewise, []rangedel.Tombstone{{Start: []byte(start),
			Limit: []byte(limit), Seq: seq}})
	}
	entries := []model.Entry{{Key: []byte("k"), Trailer: base.MakeTrailer(3, base.KindSet)}}
	ts, open := newTables(t, cmp), 0
	var levels [manifest.NumLevels][]*manifest.FileMeta
	levels[0] = []*manifest.FileMeta{ts.putWith(entries, list("a", "e", 7)),
		ts.putWith(entries, list("c", "g", 5))}
	levels[2] = []*manifest.FileMeta{ts.putWith(entries, list("b", "f", 1))}
	v := versionOf(t, levels)
	env := ts.env()
	opens := env.Open
	env.Open = func(m *manifest.FileMeta, flags sstable.ReadFlags) (base.Source, error) {
		if cmp.Cmp(m.Smallest.User, m.Largest.User) > 0 { // opening a table compares
			t.Error("a table that ends before it begins")
		}
		src, err := opens(m, flags)
		open++
		return closedSource{src, &open}, err
	}
	for name, job := range map[string]func() error{
		"flush": func() error {
			open++
			src := closedSource{newTableSource(t, cmp, entries, 4), &open}
			_, err := Flush(src, 1, []*rangedel.List{list("a", "d", 9), list("b", "f", 8)}, v, 0, 0,
				env, nil)
			return err
		},
		"compact": func() error { _, err := Run(planOf(v, 1), 0, env, nil); return err },
	} {
		panicked, at := true, 0
		for ; panicked; at++ {
			left = at + 1
			func() {
				defer func() { panicked = recover() != nil }()
				if err := job(); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}()
			left = 0
			if open != 0 {
				t.Fatalf("%s, panic at call %d: %d inputs are open", name, at+1, open)
			}
		}
		if at < 10 {
			t.Errorf("%s: %d panics", name, at)
		}
	}
}
