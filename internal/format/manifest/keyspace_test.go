package manifest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/seed"
)

func keyspaceOptions(fsys vfs.FS) Options {
	o := options(fsys)
	o.Format = base.Native
	o.Comparers = func(name string) *base.Comparer {
		for _, c := range []*base.Comparer{base.Bytewise, base.ReverseBytewise} {
			if c.Name == name {
				return c
			}
		}
		return nil
	}
	return o
}

func mustCreate(t testing.TB, s *Set, name string, c *base.Comparer) base.KeyspaceID {
	t.Helper()
	id, v, err := s.CreateKeyspace(name, c, "")
	if err != nil {
		t.Fatal(err)
	}
	if v.NumFiles() != 0 {
		t.Errorf("keyspace %q begins with %d tables", name, v.NumFiles())
	}
	v.Unref()
	return id
}

// states describes all keyspaces of a Set.
func states(s *Set) string {
	var b strings.Builder
	fmt.Fprintf(&b, "max %d log %d seq %d\n", s.MaxKeyspace(), s.LogNum(), s.LastSeq())
	for _, k := range s.Keyspaces() {
		v := s.Current(k.ID)
		fmt.Fprintf(&b, "%d %s %s from log %d\n%v", k.ID, k.Name, k.Comparer.Name, k.FirstLog, v)
		v.Unref()
	}
	return b.String()
}

// tables is states without the first line: numbers that a snapshot before the edit
// may have.
func tables(states string) string {
	_, rest, _ := strings.Cut(states, "\n")
	return rest
}

func addTable(t testing.TB, s *Set, m vfs.FS, id base.KeyspaceID, level int, smallest,
	largest string) *FileMeta {
	t.Helper()
	f := table(s.NewFileNum(), smallest, largest)
	f.Naming = s.Format().TableNamings()[0]
	write(t, m, f.Name(), "x")
	e := &Edit{Keyspace: id}
	e.Add(level, f)
	s.SetLastSeq(base.SeqNum(f.Num))
	mustApply(t, s, e)
	return f
}

func TestKeyspaceLifecycle(t *testing.T) {
	m := newDir(t)
	o := keyspaceOptions(m)
	gone := map[uint64]bool{}
	o.Obsolete = func(f *FileMeta) { gone[f.Num] = true }
	s, err := Create(o)
	if err != nil {
		t.Fatal(err)
	}
	users := mustCreate(t, s, "users", base.Bytewise)
	logs := mustCreate(t, s, "logs", base.ReverseBytewise)
	if _, _, err := s.CreateKeyspace("users", base.Bytewise, ""); !errors.Is(err, base.ErrExists) {
		t.Errorf("name that exists: %v", err)
	}
	if _, _, err := s.CreateKeyspace(base.DefaultKeyspaceName, base.Bytewise, ""); !errors.Is(err,
		base.ErrExists) {
		t.Errorf("the default's name: %v", err)
	}
	inDefault := addTable(t, s, m, base.DefaultKeyspace, 1, "a", "m")
	inUsers := addTable(t, s, m, users, 1, "a", "m") // the same range
	addTable(t, s, m, logs, 1, "m", "a")             // descending
	e := &Edit{Keyspace: users}
	e.SetFirstLog(41)
	e.SetLogNum(40)
	mustApply(t, s, e)
	e.SetFirstLog(12)
	if _, err := s.Apply(e); !errors.Is(err, base.ErrInvalidArgument) {
		t.Errorf("first log goes back: %v", err)
	}
	e = &Edit{Keyspace: logs}
	e.Add(0, inUsers)
	want := states(s)
	reopen := func() {
		t.Helper()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if s, err = Load(o, false); err != nil {
			t.Fatal(err)
		}
		if got := states(s); got != want {
			t.Errorf("loaded\n%s\nwant\n%s", got, want)
		}
		if err := s.StartManifest(); err != nil {
			t.Fatal(err)
		}
	}
	reopen() // from edits
	reopen() // from a snapshot
	live := map[uint64]struct{}{}
	if s.LiveFiles(live); len(live) != 3 {
		t.Errorf("live files %v", live)
	}

	held := s.Current(users)
	if err := s.DropKeyspace(users); err != nil {
		t.Fatal(err)
	}
	if err := s.DropKeyspace(users); !errors.Is(err, base.ErrNoKeyspace) {
		t.Errorf("second drop: %v", err)
	}
	if err := s.DropKeyspace(base.DefaultKeyspace); !errors.Is(err, base.ErrNoKeyspace) {
		t.Errorf("drop of the default: %v", err)
	}
	if _, err := s.Apply(&Edit{Keyspace: users}); !errors.Is(err, base.ErrNoKeyspace) ||
		s.Err() != nil {
		t.Errorf("edit of a keyspace that was dropped: %v, %v", err, s.Err())
	}
	if s.Current(users) != nil || len(gone) != 0 || held.NumFiles() != 1 {
		t.Errorf("after the drop: %v, obsolete %v, held %v", s.Current(users), gone, held)
	}
	held.Unref()
	if len(gone) != 1 || !gone[inUsers.Num] {
		t.Errorf("obsolete: %v", gone)
	}
	again := mustCreate(t, s, "users", base.ReverseBytewise)
	if again <= logs {
		t.Errorf("ID %d was given out before", again)
	}
	if err := s.DropKeyspace(again); err != nil {
		t.Fatal(err)
	}
	want = states(s)
	reopen()
	reopen()
	if last := mustCreate(t, s, "users", base.Bytewise); last != again+1 {
		t.Errorf("ID %d after %d", last, again)
	}
	if err := s.Close(); err != nil || gone[inDefault.Num] {
		t.Error(err, gone)
	}
	o.Comparers = nil
	if _, err := Load(o, false); !errors.Is(err, base.ErrComparerMismatch) ||
		!strings.Contains(err.Error(), `"logs"`) {
		t.Errorf("opened without a keyspace's comparer: %v", err)
	}
}

// TestKeyspacesOfLevelDBDatabase: there are none, and a directory keeps its format.
func TestKeyspacesOfLevelDBDatabase(t *testing.T) {
	m := newDir(t)
	s, err := Create(options(m))
	if err != nil {
		t.Fatal(err)
	}
	addTable(t, s, m, base.DefaultKeyspace, 2, "a", "b")
	if _, _, err := s.CreateKeyspace("users", base.Bytewise, ""); !errors.Is(err,
		base.ErrInvalidArgument) {
		t.Errorf("keyspace in LevelDB's format: %v", err)
	}
	e := &Edit{}
	e.SetFirstLog(3)
	if _, err := s.Apply(e); !errors.Is(err, base.ErrInvalidArgument) || s.Err() != nil {
		t.Errorf("first log in LevelDB's format: %v, %v", err, s.Err())
	}
	want := state(s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, err = Load(keyspaceOptions(m), false)
	if err != nil || state(s) != want {
		t.Fatalf("%v\n%s", err, state(s))
	}
	if _, _, err := s.CreateKeyspace("users", base.Bytewise, ""); !errors.Is(err,
		base.ErrInvalidArgument) || s.Format() != base.LevelDB {
		t.Errorf("keyspace in a directory of LevelDB's: %v", err)
	}
	_ = s.Close()
}

func TestStateRefusesKeyspaces(t *testing.T) {
	mark := &Edit{FormatVersion: 1, HasMaxKeyspace: true, MaxKeyspace: 9}
	create := func(id base.KeyspaceID, name string) *Edit {
		return &Edit{Keyspace: id, NewKeyspace: &KeyspaceNames{Name: name, Comparer: "c"}}
	}
	for _, c := range []struct {
		name, reason string
		edits        []*Edit
	}{
		{"late version", "on the way", []*Edit{{}, mark}},
		{"unknown keyspace", "does not exist", []*Edit{mark, {Keyspace: 3}}},
		{"dropped twice", "does not exist",
			[]*Edit{mark, create(3, "a"), {Keyspace: 3, DropKeyspace: true},
				{Keyspace: 3, DropKeyspace: true}}},
		{"ID taken", "with that ID or name", []*Edit{mark, create(3, "a"), create(3, "b")}},
		{"name taken", "with that ID or name", []*Edit{mark, create(3, "a"), create(4, "a")}},
		{"default's name", "with that ID or name", []*Edit{mark, create(3, "default")}},
		{"another's table", "where it is not",
			[]*Edit{mark, create(3, "a"), {Added: []AddedFile{{1, table(5, "a", "b")}}},
				{Keyspace: 3, Deleted: []DeletedFile{{1, 5}}}}},
	} {
		var st State
		for i, e := range c.edits {
			err := st.Apply(e)
			if last := i == len(c.edits)-1; !last && err != nil ||
				last && (!errors.Is(err, base.ErrCorruption) ||
					!strings.Contains(err.Error(), c.reason)) {
				t.Errorf("%s: edit %d: %v", c.name, i, err)
			}
		}
	}
	var st State
	for _, e := range []*Edit{mark, create(3, "a"), {Added: []AddedFile{{1, table(5, "a", "b")}}},
		{Keyspace: 3, Added: []AddedFile{{1, table(5, "a", "b")}}}} {
		if err := st.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	o := keyspaceOptions(newDir(t))
	o.Comparers = func(string) *base.Comparer { return base.Bytewise }
	if _, err := FromState(o, &st, nil); !errors.Is(err, base.ErrCorruption) ||
		!strings.Contains(err.Error(), "two keyspaces") {
		t.Errorf("a table in two keyspaces: %v", err)
	}
}

// TestKeyspacesReplay changes keyspaces at random, drops and creates them under the same names, and
// compares the state after each crash with the states before and after the interrupted call: a
// keyspace made again is empty but for its own tables, and IDs are never given out twice.
func TestKeyspacesReplay(t *testing.T) {
	for n := range uint64(seed.Scale(12, 12, 200)) {
		replayKeyspaces(t, rand.New(rand.NewPCG(n, 2)))
	}
}

func replayKeyspaces(t *testing.T, rng *rand.Rand) {
	m := newDir(t)
	var before string // what a crash may leave besides the present state
	var s *Set
	var left []string // by crashes during the call
	crash := func(when any) {
		for _, o := range []vfs.CrashOptions{vfs.DropAll(), vfs.KeepAll(), vfs.RandomBlocks(rng)} {
			c, err := Load(keyspaceOptions(m.CrashClone(o)), true)
			if err != nil {
				t.Fatalf("crash at %v: %v", when, err)
			}
			left = append(left, states(c))
			_ = c.Close()
		}
	}
	hooked := vfs.NewFault(m, func(op vfs.Op) vfs.Outcome {
		if before != "" && op.Kind != vfs.OpClose {
			crash(op)
		}
		return vfs.Outcome{}
	})
	o := keyspaceOptions(hooked)
	o.MaxManifestSize = 1 << 10 // snapshots now and then
	s, err := Create(o)
	if err != nil {
		t.Fatal(err)
	}
	given := map[base.KeyspaceID]bool{}
	names := []string{"a", "b", "c"}
	for range 60 {
		before = states(s)
		list := s.Keyspaces()
		k := list[rng.IntN(len(list))]
		switch n := rng.IntN(10); {
		case n < 2:
			name := names[rng.IntN(len(names))]
			if slices.ContainsFunc(list, func(k Keyspace) bool { return k.Name == name }) {
				continue
			}
			id := mustCreate(t, s, name,
				[]*base.Comparer{base.Bytewise, base.ReverseBytewise}[rng.IntN(2)])
			if given[id] {
				t.Fatalf("ID %d given out twice", id)
			}
			given[id] = true
		case n < 3:
			if k.ID == base.DefaultKeyspace {
				continue
			}
			if err := s.DropKeyspace(k.ID); err != nil {
				t.Fatal(err)
			}
		case n < 4:
			if err := s.StartManifest(); err != nil {
				t.Fatal(err)
			}
		case n < 5:
			e := &Edit{Keyspace: k.ID}
			e.SetFirstLog(k.FirstLog + uint64(rng.IntN(3)))
			mustApply(t, s, e)
		default:
			key := fmt.Sprint(rng.IntN(100))
			addTable(t, s, m, k.ID, 0, key, key)
		}
		crash("the end")
		for _, got := range left {
			if got := tables(got); got != tables(before) && got != tables(states(s)) {
				t.Fatalf("a crash left\n%s\nwant\n%s\nor\n%s", got, before, states(s))
			}
		}
		if last := left[len(left)-3:]; last[0] != states(s) || last[1] != last[0] ||
			last[2] != last[0] {
			t.Fatalf("a crash after the call left\n%s\nwant\n%s", last, states(s))
		}
		left = left[:0]
	}
	_ = s.Close()
}

// TestUnsyncedEdits appends edits, the unsynced ones that vouch for them, and that of Close, at all
// places in a page: nothing is appended behind an unsynced edit that reaches into another page. A
// power cut that keeps only that page would leave the later edit behind a hole, which is damage.
func TestUnsyncedEdits(t *testing.T) {
	for pad := range 40 {
		var size, durable int64 // of the MANIFEST
		reached := false        // an unsynced edit reached into another page
		fsys := vfs.NewFault(newDir(t), func(op vfs.Op) (out vfs.Outcome) {
			switch {
			case !strings.HasSuffix(op.Name, ".manifest"):
			case op.Kind == vfs.OpAppend:
				if size/pageSize != durable/pageSize {
					t.Errorf("an append at %d, synced is %d", size, durable)
				}
				size += op.N
				reached = reached || size/pageSize != durable/pageSize
			case op.Kind == vfs.OpSync:
				durable = size
			}
			return out
		})
		s, err := Create(keyspaceOptions(fsys))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; size < 2*pageSize || !s.spans && pad%2 == 0; i++ {
			mustCreate(t, s, fmt.Sprintf("%0*d", 4+(pad+i)%40, i), base.Bytewise)
		}
		s.NoteDurable()
		if !reached {
			t.Errorf("pad %d: no edit reached into another page", pad)
		}
	}
}
