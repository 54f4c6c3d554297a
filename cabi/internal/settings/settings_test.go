package settings

import (
	"errors"
	"slices"
	"testing"

	"github.com/loamdb/loam/cabi/internal/refs"
	"github.com/loamdb/loam/lsm"
)

// TestUses has what was brought end when it was replaced, by itself or by a name, and its last copy
// was released.
func TestUses(t *testing.T) {
	var ended []string
	bring := func(o *Options, p Part, name string, change func(o *lsm.Options)) {
		t.Helper()
		if err := o.Bring(p, refs.New(func() { ended = append(ended, name) }), change); err != nil {
			t.Fatal(err)
		}
	}
	want := func(names ...string) {
		t.Helper()
		if !slices.Equal(ended, names) {
			t.Errorf("%q ended, not %q", ended, names)
		}
	}
	o := New()
	bring(o, Merge, "merge", func(o *lsm.Options) {
		o.MergeOperator = &lsm.MergeOperator{Name: "a"}
	})
	bring(o, Comparator, "comparator", func(o *lsm.Options) {
		o.Comparer = &lsm.Comparer{Name: "b"}
	})
	bring(o, Cache, "cache", func(*lsm.Options) {})
	s, err := o.Copy()
	if err != nil || s.MergeOperator.Name != "a" || s.Comparer.Name != "b" {
		t.Fatal(s, err)
	}
	if err := o.Set("merge_operator", "uint64add"); err != nil {
		t.Fatal(err)
	}
	want()
	bring(o, Comparator, "second", func(o *lsm.Options) { o.Comparer = &lsm.Comparer{Name: "c"} })
	if s.MergeOperator.Name != "a" || s.Comparer.Name != "b" {
		t.Error("a copy has changed")
	}
	s.Uses.Release()
	want("comparator", "merge")
	o.Close()
	want("comparator", "merge", "second", "cache")
	if _, err := o.Copy(); !errors.Is(err, lsm.ErrClosed) {
		t.Error(err)
	}
	if err := o.Set("format", "native"); !errors.Is(err, lsm.ErrClosed) {
		t.Error(err)
	}
	if err := o.Bring(Cache, nil, func(*lsm.Options) {
		t.Error("changed")
	}); !errors.Is(err, lsm.ErrClosed) {
		t.Error(err)
	}
}

// TestLeaveTo has a database keep what callbacks of a keyspace need, and nothing else: a keyspace
// may be opened any number of times.
func TestLeaveTo(t *testing.T) {
	for p := range parts {
		var ended []string
		end := func(name string) func() { return func() { ended = append(ended, name) } }
		database := refs.New(end("database"))
		o := New()
		if err := o.Bring(p, refs.New(end("part")), func(*lsm.Options) {}); err != nil {
			t.Fatal(err)
		}
		s, err := o.Copy()
		if err != nil {
			t.Fatal(err)
		}
		o.Close()
		s.LeaveTo(database)
		database.Release()
		want := []string{"database", "part"}
		if p == Logger || p == Cache {
			want = []string{"part", "database"}
		}
		if !slices.Equal(ended, want) {
			t.Errorf("part %d: %q ended, not %q", p, ended, want)
		}
	}
}

// TestUnset compares the options of a program that sets nothing with the documented defaults.
func TestUnset(t *testing.T) {
	o := New()
	s, err := o.Copy()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Settings{s, Unset()} {
		if !s.PlainWAL || s.Mmap != lsm.MmapOff || !s.NoCreateDirs {
			t.Errorf("%+v", s.Options)
		}
	}
	defaults := map[string]string{}
	for _, d := range Docs() {
		defaults[d.Name] = d.Default
	}
	if _, there := defaults["plain_wal"]; there || defaults["create_dirs"] != "false" ||
		defaults["mmap"] != "off" || len(defaults) < 30 {
		t.Error(defaults)
	}
	// Tables are mapped only for programs that ask for it, and logs never.
	for value, want := range map[string]lsm.MmapMode{"auto": lsm.MmapOff, "on": lsm.MmapOn} {
		if err := o.Set("mmap", value); err != nil {
			t.Fatal(err)
		}
		if s, err := o.Copy(); err != nil || s.Mmap != want || !s.PlainWAL {
			t.Errorf("mmap %s: %v %v", value, s.Mmap, err)
		}
	}
}
