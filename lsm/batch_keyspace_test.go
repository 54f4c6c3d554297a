package lsm

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// batchPlaces has every kind of operation in a batch, at keys that a test checks with where.
func batchPlaces(in interface {
	Put(key, value []byte)
	Delete(key []byte)
	Merge(key, operand []byte)
	PutTTL(key, value []byte, ttl time.Duration)
	DeleteRange(start, limit []byte)
}, expire bool) {
	if expire {
		in.PutTTL([]byte("put"), []byte("new"), time.Hour)
	} else {
		in.Put([]byte("put"), []byte("new"))
	}
	in.Delete([]byte("delete"))
	in.Merge([]byte("merge"), []byte("new"))
	in.DeleteRange([]byte("range"), []byte("range~"))
}

// wrote reports whether the operations of batchPlaces took effect in a store where every key
// had the value "old".
func wrote(t *testing.T, s Store) bool {
	t.Helper()
	var seen []string
	for _, k := range []string{"put", "delete", "merge", "range"} {
		v, err := s.Get([]byte(k), nil)
		if err != nil && !errors.Is(err, ErrNotFound) {
			t.Fatal(err)
		}
		seen = append(seen, string(v))
	}
	switch {
	case slices.Equal(seen, []string{"new", "", "old,new", ""}):
		return true
	case slices.Equal(seen, []string{"old", "old", "old", "old"}):
		return false
	}
	t.Errorf("some operations only: %q", seen)
	return false
}

type batchWriter interface {
	Store
	WriteBytes(repr []byte, mode WriteMode) error
}

type batchCase struct {
	name, place string // place "": the keyspace that is written to
	to          batchWriter
	bytes       bool // written by WriteBytes
	make        func() *Batch
}

// plain reports whether the bytes of the batch name no keyspace, so that they do not say that
// the batch is of the default one.
func (c *batchCase) plain() bool {
	return strings.HasPrefix(c.name, "db.NewBatch") && c.place == "default"
}

func (c *batchCase) write() error {
	if c.bytes {
		return c.to.WriteBytes(c.make().Bytes(), NoSync)
	}
	return c.to.Write(c.make(), NoSync)
}

func storeName(s Store) string {
	if k, ok := s.(*Keyspace); ok {
		return k.Name()
	}
	return "default"
}

// fillOld gives each key of batchPlaces the value "old".
func fillOld(t *testing.T, k *Keyspace, expire bool) {
	t.Helper()
	err := k.DeleteRange(nil, []byte("~"), NoSync)
	for _, key := range []string{"put", "delete", "merge", "range"} {
		if expire {
			err = errors.Join(err, k.PutTTL([]byte(key), []byte("old"), time.Hour, NoSync))
		} else {
			err = errors.Join(err, k.Put([]byte(key), []byte("old"), NoSync))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestBatchKeyspace writes batches to the default keyspace and to another one. Each operation is
// in the keyspace that its batch or In chooses, and else in the one that is written to.
func TestBatchKeyspace(t *testing.T) {
	needsNative(t)
	o := small(Options{MergeOperator: MergeOperatorNamed("append")})
	db := mustOpen(t, t.TempDir(), o)
	defer mustClose(t, db)
	spaces := map[string]*Keyspace{}
	for _, name := range []string{"default", "a", "b"} {
		k, err := db.Keyspace(name, &KeyspaceOptions{MergeOperator: o.MergeOperator})
		if err != nil {
			t.Fatal(err)
		}
		spaces[name] = k
	}
	a, b := spaces["a"], spaces["b"]
	appended := func(to, other *Batch) *Batch { to.Append(other); return to }
	expire := false
	filled := func(in *Batch) *Batch { batchPlaces(in, expire); return in }
	in := func(batch *Batch, k *Keyspace) *Batch { batchPlaces(batch.In(k), expire); return batch }
	var cases []batchCase
	for _, c := range []batchCase{
		{name: "NewBatch", place: "", make: func() *Batch { return filled(NewBatch()) }},
		{name: "db.NewBatch", place: "default", make: func() *Batch {
			return filled(db.NewBatch())
		}},
		{name: "a.NewBatch", place: "a", make: func() *Batch { return filled(a.NewBatch()) }},
		{name: "NewBatch, In(nil)", place: "default", make: func() *Batch {
			return in(NewBatch(), nil)
		}},
		{name: "NewBatch, In(default)", place: "default", make: func() *Batch {
			return in(NewBatch(), spaces["default"])
		}},
		{name: "NewBatch, In(a)", place: "a", make: func() *Batch { return in(NewBatch(), a) }},
		{name: "db.NewBatch, In(nil)", place: "default", make: func() *Batch {
			return in(db.NewBatch(), nil)
		}},
		{name: "db.NewBatch, In(a)", place: "a", make: func() *Batch {
			return in(db.NewBatch(), a)
		}},
		{name: "a.NewBatch, In(nil)", place: "default", make: func() *Batch {
			return in(a.NewBatch(), nil)
		}},
		{name: "a.NewBatch, In(default)", place: "default", make: func() *Batch {
			return in(a.NewBatch(), spaces["default"])
		}},
		{name: "a.NewBatch, In(b)", place: "b", make: func() *Batch { return in(a.NewBatch(), b) }},
		{name: "NewBatch < NewBatch", place: "", make: func() *Batch {
			return appended(NewBatch(), filled(NewBatch()))
		}},
		{name: "NewBatch < In(nil)", place: "default", make: func() *Batch {
			return appended(NewBatch(), in(NewBatch(), nil))
		}},
		{name: "NewBatch < db.NewBatch", place: "default", make: func() *Batch {
			return appended(NewBatch(), filled(db.NewBatch()))
		}},
		{name: "NewBatch < a.NewBatch", place: "a", make: func() *Batch {
			return appended(NewBatch(), filled(a.NewBatch()))
		}},
		{name: "db.NewBatch < NewBatch", place: "default", make: func() *Batch {
			return appended(db.NewBatch(), filled(NewBatch()))
		}},
		{name: "db.NewBatch < In(nil)", place: "default", make: func() *Batch {
			return appended(db.NewBatch(), in(NewBatch(), nil))
		}},
		{name: "db.NewBatch < a.NewBatch", place: "a", make: func() *Batch {
			return appended(db.NewBatch(), filled(a.NewBatch()))
		}},
		{name: "db.NewBatch < a, In(nil)", place: "default", make: func() *Batch {
			return appended(db.NewBatch(), in(a.NewBatch(), nil))
		}},
		{name: "a.NewBatch < NewBatch", place: "a", make: func() *Batch {
			return appended(a.NewBatch(), filled(NewBatch()))
		}},
		{name: "a.NewBatch < db.NewBatch", place: "default", make: func() *Batch {
			return appended(a.NewBatch(), filled(db.NewBatch()))
		}},
		{name: "a.NewBatch < b.NewBatch", place: "b", make: func() *Batch {
			return appended(a.NewBatch(), filled(b.NewBatch()))
		}},
		{name: "a.NewBatch < In(nil)", place: "default", make: func() *Batch {
			return appended(a.NewBatch(), in(NewBatch(), nil))
		}},
	} {
		for _, to := range []batchWriter{db, spaces["default"], a, b} {
			for _, bytes := range []bool{false, true} {
				cases = append(cases, batchCase{c.name, c.place, to, bytes, c.make})
			}
		}
	}
	for _, expire = range []bool{false, true} { // from the first value that expires on, merges read
		for _, c := range cases {
			c.check(t, spaces, expire)
		}
	}
}

// check writes the batch of c, and looks that it is in the keyspace of its place alone.
func (c batchCase) check(t *testing.T, spaces map[string]*Keyspace, expire bool) {
	want := c.place
	if want == "" {
		want = storeName(c.to)
	}
	for _, k := range spaces {
		fillOld(t, k, expire)
	}
	if c.bytes && c.plain() {
		return
	}
	if err := c.write(); err != nil {
		t.Fatal(err)
	}
	for name, k := range spaces {
		if got := wrote(t, k); got != (name == want) {
			t.Errorf("%s, written to %s, bytes %v, values that expire %v: written in %s: %v",
				c.name, storeName(c.to), c.bytes, expire, name, got)
		}
	}
}
