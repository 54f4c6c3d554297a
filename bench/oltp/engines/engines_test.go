package engines

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/loamdb/loam/bench/oltp/rows"
	"github.com/loamdb/loam/lsm"
)

// TestTables runs random transactions on the table of each engine, and compares every answer with a
// map.
func TestTables(t *testing.T) {
	for _, e := range Engines {
		t.Run(e.Name, func(t *testing.T) {
			table, err := e.Open(t.TempDir() + "/table")
			if err != nil {
				t.Fatal(err)
			}
			against(t, table)
			if err := table.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func against(t *testing.T, table rows.Table) {
	const ids = 50
	ctx, m := context.Background(), map[int64]string{}
	maker, rnd := rows.NewMaker(1), rand.New(rand.NewPCG(1, 2))
	var first []rows.Row
	for id := int64(1); id <= ids; id += 2 {
		r := maker.Row(id, 1000)
		first, m[id] = append(first, r), string(r.C)
	}
	fail := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	fail("Load", table.Load(ctx, first))
	for step := range 150 {
		id, r := rnd.Int64N(ids), maker.Row(0, 1000)
		_, there := m[id]
		var found bool
		var err error
		switch rnd.IntN(6) {
		case 0:
			c, err := table.Point(ctx, step, id)
			if there != (err == nil) || there && string(c) != m[id] ||
				!there && !errors.Is(err, rows.ErrMissing) {
				t.Fatalf("row %d has %q, %v", id, c, err)
			}
			continue
		case 1:
			n, err := table.Range(ctx, step, id, id+10)
			fail("Range", err)
			for i := id; i < id+10; i++ {
				if _, there := m[i]; there {
					n--
				}
			}
			if n != 0 {
				t.Fatalf("%d rows too many from %d on", n, id)
			}
			continue
		case 2:
			if found, err = table.SetC(ctx, step, id, r.C); there {
				m[id] = string(r.C)
			}
		case 3:
			found, err = table.AddK(ctx, step, id)
		case 4:
			if !there {
				r.ID, m[id] = id, string(r.C)
				fail("Insert", table.Insert(ctx, step, r))
			}
			continue
		case 5:
			found, err = table.Delete(ctx, step, id)
			delete(m, id)
		}
		if fail("a change", err); found != there {
			t.Fatalf("row %d is there: %v", id, found)
		}
	}
	if n, err := table.Check(ctx); err != nil || n != int64(len(m)) {
		t.Errorf("%d rows, not %d, %v", n, len(m), err)
	}
}

// TestCheck loses an entry of the index.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	table, err := openLoam(dir)
	if err != nil {
		t.Fatal(err)
	}
	m := rows.NewMaker(1)
	err = table.Load(t.Context(), []rows.Row{m.Row(1, 9), m.Row(2, 9)})
	if err = errors.Join(err, table.Close()); err != nil {
		t.Fatal(err)
	}
	db, err := lsm.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	l := &loam{db}
	defer l.Close()
	it := db.Iter(&lsm.IterOptions{Lower: []byte("i"), Upper: []byte("j")})
	if !it.First() {
		t.Fatal("the index is empty")
	}
	if err := errors.Join(db.Delete(it.Key(), lsm.NoSync), it.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := rows.OnKeys(l).Check(t.Context()); err == nil {
		t.Error("a lost entry of the index was not found")
	}
}
