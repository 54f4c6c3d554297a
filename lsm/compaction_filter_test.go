package lsm

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/seed"
)

// eager goes by the first byte of a value: r is removed, c becomes C. One call in fails
// fails, if that is not 0.
type eager struct {
	fails    atomic.Int64
	calls    atomic.Int64
	failures atomic.Int64
}

func (f *eager) filter() *CompactionFilter {
	return &CompactionFilter{Name: "test.Eager",
		Filter: func(_ int, key, value []byte) (FilterDecision, error) {
			if n, fails := f.calls.Add(1), f.fails.Load(); fails > 0 && n%fails == 0 {
				if f.failures.Add(1)%2 == 0 {
					panic("no nerves")
				}
				return FilterRemove, errors.New("no network")
			}
			switch {
			case len(value) == 0:
				return FilterKeep, fmt.Errorf("%s has an empty value", key)
			case value[0] == 'r':
				return FilterRemove, nil
			case value[0] == 'c':
				changed := bytes.Clone(value)
				changed[0] = 'C'
				return FilterChange(changed), nil
			}
			return FilterKeep, nil
		}}
}

// filterModel is a database with an eager filter and what was written to it. A value that
// the filter would remove or change may be there as it was written or as the filter leaves
// it; for a snapshot it stays as it was when that was opened.
type filterModel struct {
	t     *testing.T
	db    *DB
	fs    vfs.FS
	rng   *rand.Rand
	opts  Options
	now   map[string]string
	views []view
}

// view is a snapshot or an iterator, and what it sees.
type view struct {
	snap *Snapshot
	it   *Iterator
	sees map[string]string
}

func (m *filterModel) open() {
	m.t.Helper()
	o := m.opts
	o.FS = m.fs
	m.db = mustOpen(m.t, "db", &o)
}

func (m *filterModel) key() []byte { return fmt.Appendf(nil, "k%03d", m.rng.IntN(150)) }

// check compares the contents with the allowed ones.
func (m *filterModel) check(seen map[string]string) {
	m.t.Helper()
	for k, v := range seen {
		want := m.now[k]
		if v != want && !(want[:min(1, len(want))] == "c" && v == "C"+want[1:]) {
			m.t.Fatalf("%s is %.20q, written was %.20q", k, v, want)
		}
	}
	for k, v := range m.now {
		if _, ok := seen[k]; !ok && v[0] != 'r' {
			m.t.Fatalf("%s, %.20q, is missing", k, v)
		}
	}
}

// scan reads everything of the present, or at a snapshot, forward or backward.
func (m *filterModel) scan(snap *Snapshot) map[string]string {
	m.t.Helper()
	seen := map[string]string{}
	var err error
	all := m.db.All
	if m.rng.IntN(2) == 0 {
		all = m.db.Backward
	}
	if snap != nil {
		all = snap.All
		if m.rng.IntN(2) == 0 {
			all = snap.Backward
		}
	}
	for k, v := range all(nil, nil, &err) {
		seen[string(k)] = string(v)
	}
	if err != nil {
		m.t.Fatal(err)
	}
	return seen
}

// look reads through a view, a key or all, and wants what it saw at first.
func (m *filterModel) look(v view) {
	m.t.Helper()
	if v.it != nil {
		seen := map[string]string{}
		for ok := v.it.First(); ok; ok = v.it.Next() {
			seen[string(v.it.Key())] = string(v.it.Value())
		}
		if err := v.it.Err(); err != nil || !maps.Equal(seen, v.sees) {
			m.t.Fatalf("an iterator sees %d entries, %d at first: %v", len(seen), len(v.sees), err)
		}
		return
	}
	if m.rng.IntN(4) == 0 {
		if seen := m.scan(v.snap); !maps.Equal(seen, v.sees) {
			m.t.Fatalf("a snapshot sees %d entries, %d at first", len(seen), len(v.sees))
		}
		return
	}
	k := m.key()
	got, err := v.snap.Get(k, nil)
	want, found := v.sees[string(k)]
	if found && (err != nil || string(got) != want) || !found && !errors.Is(err, ErrNotFound) {
		m.t.Fatalf("%s in a snapshot: %.20q, %v; at first %.20q, %v", k, got, err, want, found)
	}
}

func (m *filterModel) step() {
	m.t.Helper()
	check := func(err error) {
		m.t.Helper()
		if err != nil && !errors.Is(err, ErrCompactionFilter) {
			m.t.Fatal(err)
		}
	}
	switch n := m.rng.IntN(1000); {
	case n < 800:
		k := m.key()
		if m.rng.IntN(8) == 0 {
			check(m.db.Delete(k, NoSync))
			delete(m.now, string(k))
			return
		}
		v := string("krc"[m.rng.IntN(3)]) + strings.Repeat(string('a'+rune(m.rng.IntN(26))),
			m.rng.IntN(700))
		check(m.db.Put(k, []byte(v), NoSync))
		m.now[string(k)] = v
	case n < 900:
		if len(m.views) > 0 {
			m.look(m.views[m.rng.IntN(len(m.views))])
		}
	case n < 930:
		m.openView()
	case n < 960:
		m.closeView()
	case n < 970:
		check(m.db.Flush())
	case n < 980:
		check(m.db.CompactRange(m.key(), nil))
	case n < 985:
		check(m.db.Resume())
	case n < 998:
		m.check(m.scan(nil))
	default:
		for len(m.views) > 0 {
			m.closeView()
		}
		mustClose(m.t, m.db)
		m.open()
	}
}

func (m *filterModel) openView() {
	if len(m.views) == 4 {
		return
	}
	v := view{sees: map[string]string{}}
	if m.rng.IntN(3) == 0 {
		v.it = m.db.Iter(nil)
		for ok := v.it.First(); ok; ok = v.it.Next() {
			v.sees[string(v.it.Key())] = string(v.it.Value())
		}
	} else {
		v.snap = m.db.Snapshot()
		v.sees = m.scan(v.snap)
	}
	m.check(v.sees)
	m.views = append(m.views, v)
}

func (m *filterModel) closeView() {
	if len(m.views) == 0 {
		return
	}
	i := m.rng.IntN(len(m.views))
	v := m.views[i]
	m.views = slices.Delete(m.views, i, i+1)
	m.look(v)
	if v.it != nil {
		v.it.Close()
		return
	}
	v.snap.Close()
}

// TestCompactionFilterHistories runs random histories beside a filter that removes and
// changes what it can, in both formats, with snapshots, iterators and failures of the filter.
func TestCompactionFilterHistories(t *testing.T) {
	for _, format := range []Format{FormatLevelDB, FormatNative} {
		for _, fails := range []int64{0, 500} {
			t.Run(fmt.Sprintf("%v, one call in %d fails", format, fails), func(t *testing.T) {
				seed := seed.Of(t)
				f := &eager{}
				f.fails.Store(fails)
				m := &filterModel{t: t, fs: vfs.NewMem(),
					rng: rand.New(rand.NewPCG(uint64(seed), 48)), now: map[string]string{},
					opts: Options{Format: format, CompactionFilter: f.filter(),
						WriteBufferSize: 64 << 10, MaxFileSize: 64 << 10, CacheSize: 1 << 20,
						L0Compaction: 2}}
				m.open()
				for range 6_000 {
					m.step()
				}
				for len(m.views) > 0 {
					m.closeView()
				}
				f.fails.Store(0) // compactions may run
				mustCompact(t, m.db)
				for k, v := range m.scan(nil) {
					if v[0] != 'k' && v[0] != 'C' {
						t.Errorf("%s, %.20q, is left", k, v)
					}
				}
				m.check(m.scan(nil))
				got := m.db.Metrics().Filter
				if got.Removed+got.Changed == 0 {
					t.Errorf("counted %+v", got)
				}
				mustClose(t, m.db)
			})
		}
	}
}

// TestCompactionFilterFailureIsTold has the filter fail in automatic compactions: Metrics and
// the listener have the cause, writes and reads go on, and so do compactions when it works
// again.
func TestCompactionFilterFailureIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		var mu sync.Mutex
		var told []error
		broken.Store(true)
		db := mustOpen(t, "db", small(Options{FS: vfs.NewMem(), L0Compaction: 2,
			CompactionFilter: &CompactionFilter{Name: "test.Broken",
				Filter: func(int, []byte, []byte) (FilterDecision, error) {
					if broken.Load() {
						panic("out of order")
					}
					return FilterKeep, nil
				}},
			Events: &EventListener{BackgroundError: func(err error) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, err)
			}}}))
		defer db.Close()
		for range 3 {
			putKeys(t, db, 100)
			mustFlush(t, db)
		}
		synctest.Wait()
		m := db.Metrics()
		if m.Filter.Failed == 0 || !errors.Is(m.BackgroundError, ErrCompactionFilter) ||
			!strings.Contains(m.BackgroundError.Error(), "test.Broken") || m.ReadOnly != nil {
			t.Fatalf("%d failures, background error %v, read-only %v", m.Filter.Failed,
				m.BackgroundError, m.ReadOnly)
		}
		putKeys(t, db, 10)
		wantValues(t, db, 100)
		broken.Store(false)
		if err := db.Resume(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if m := db.Metrics(); m.BackgroundError != nil || m.Compact.Count <= m.Compact.Failed {
			t.Fatalf("background error %v, %d compactions, %d failed", m.BackgroundError,
				m.Compact.Count, m.Compact.Failed)
		}
		mu.Lock()
		defer mu.Unlock()
		if len(told) == 0 || !errors.Is(told[0], ErrCompactionFilter) ||
			!strings.Contains(told[0].Error(), "out of order") {
			t.Errorf("the listener was told %v", told)
		}
	})
}

// TestFailingFilterConcernsItsKeyspace has the filter of one keyspace fail until writes to it
// fail: compactions of the other one begin at once, and no write to it waits or fails.
func TestFailingFilterConcernsItsKeyspace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := mustOpen(t, "db", small(Options{FS: vfs.NewMem(), Format: FormatNative,
			L0Compaction: 2}))
		defer db.Close()
		broken, err := db.Keyspace("broken", &KeyspaceOptions{CompactionFilter: &CompactionFilter{
			Name: "test.Broken",
			Filter: func(int, []byte, []byte) (FilterDecision, error) {
				return FilterKeep, errors.New("no")
			}}})
		if err != nil {
			t.Fatal(err)
		}
		healthy, err := db.Keyspace("healthy", nil)
		if err != nil {
			t.Fatal(err)
		}
		putAndFlush := func(k *Keyspace) error {
			return errors.Join(k.Put([]byte("a"), []byte("v"), NoSync),
				k.Put([]byte("b"), []byte("v"), NoSync), k.Flush())
		}
		for range 100 {
			if err = putAndFlush(broken); err != nil {
				break
			}
		}
		if !errors.Is(err, ErrCompactionFilter) {
			t.Fatalf("a write to the keyspace with the filter: %v", err)
		}
		for range 100 {
			begun := time.Now()
			if err := putAndFlush(healthy); err != nil {
				t.Fatal(err)
			}
			if d := time.Since(begun); d > 0 {
				t.Fatalf("a write to the other keyspace waited %v", d)
			}
			synctest.Wait()
		}
		m := db.Metrics()
		if done := m.Compact.Count - m.Compact.Failed; done < 10 {
			t.Errorf("%d compactions", done)
		}
		if !errors.Is(m.BackgroundError, ErrCompactionFilter) {
			t.Errorf("background error %v", m.BackgroundError)
		}
	})
}

func TestCompactionFilterNames(t *testing.T) {
	for _, c := range []struct{ name, err string }{
		{"none", ""}, {"prefix:a", ""}, {"prefix:a,%2c%25,%00", ""},
		{"prefix", "want none or"}, {"suffix:a", "want none or"}, {"prefix:", "empty prefix"},
		{"prefix:a,,b", "empty prefix"}, {"prefix:%4", "two hexadecimal digits"},
		{"prefix:%zz", "two hexadecimal digits"}, {"", "want none or"},
	} {
		var o Options
		err := o.Set("compaction_filter", c.name)
		if c.err == "" && err != nil || c.err != "" && (!errors.Is(err, ErrInvalidArgument) ||
			!strings.Contains(err.Error(), c.err)) {
			t.Errorf("%q: %v", c.name, err)
		}
		if (o.CompactionFilter != nil) != (c.err == "" && c.name != "none") {
			t.Errorf("%q: the filter is %v", c.name, o.CompactionFilter)
		}
	}
	var o Options
	f := PrefixFilter([]byte("a b"), []byte{0, 0xff}, []byte(",%"))
	if err := o.Set("compaction_filter", f.Name); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]bool{"a b": true, "a bc": true, "a": false, "\x00\xffx": true,
		",%": true, ",": false, "": false} {
		for _, f := range []*CompactionFilter{f, o.CompactionFilter} {
			if d, err := f.Filter(1, []byte(key), nil); err != nil || d.Removes() != want {
				t.Errorf("%s: %q is removed: %v, %v", f.Name, key, d.Removes(), err)
			}
		}
	}
	for _, f := range []*CompactionFilter{{Name: "x"}, {Filter: f.Filter}} {
		if _, err := Open("db", &Options{FS: vfs.NewMem(), CompactionFilter: f}); !errors.Is(err,
			ErrInvalidArgument) {
			t.Errorf("%+v: %v", f, err)
		}
	}
}

// TestKeyspacesHaveFiltersOfTheirOwn filters two of three keyspaces, each by its own rule, and
// after another opening none but the default one.
func TestKeyspacesHaveFiltersOfTheirOwn(t *testing.T) {
	fsys := vfs.NewMem()
	for life := range 2 {
		db := mustOpen(t, "db", &Options{FS: fsys, Format: FormatNative,
			CompactionFilter: PrefixFilter([]byte("a"))})
		var o *KeyspaceOptions
		if life == 0 {
			o = &KeyspaceOptions{CompactionFilter: PrefixFilter([]byte("b"))}
		}
		filtered, err := db.Keyspace("filtered", o)
		if err != nil {
			t.Fatal(err)
		}
		plain, err := db.Keyspace("plain", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Keyspace("plain",
			&KeyspaceOptions{CompactionFilter: &CompactionFilter{}}); !errors.Is(err,
			ErrInvalidArgument) {
			t.Errorf("a filter that cannot be asked: %v", err)
		}
		for _, k := range []string{"a", "b", "c"} {
			for _, put := range []func(k, v []byte, m WriteMode) error{db.Put, filtered.Put,
				plain.Put} {
				if err := put([]byte(k), []byte(k), NoSync); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := errors.Join(db.CompactRange(nil, nil), filtered.CompactRange(nil, nil),
			plain.CompactRange(nil, nil)); err != nil {
			t.Fatal(err)
		}
		want := []string{"bc", "ac", "abc"}
		if life == 1 {
			want[1] = "abc"
		}
		for i, get := range []func(k, dst []byte) ([]byte, error){db.Get, filtered.Get, plain.Get} {
			got := ""
			for _, k := range []string{"a", "b", "c"} {
				if v, err := get([]byte(k), nil); err == nil {
					got += string(v)
				}
			}
			if got != want[i] {
				t.Errorf("life %d: keyspace %d has %s, want %s", life, i, got, want[i])
			}
		}
		mustClose(t, db)
	}
}
