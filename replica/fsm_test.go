package replica

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/loamdb/loam/internal/testkit/seed"
	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/crashfs"
	"github.com/loamdb/loam/lsm/kv"
	"github.com/loamdb/loam/raftlog"
	"github.com/loamdb/loam/replica/internal/directory"
	"github.com/loamdb/loam/replica/internal/wire"
)

// machine is a state machine without Raft.
type machine struct {
	*fsm
	t    testing.TB
	logs *raftlog.Store
}

// open opens the state machine of a directory as Open does.
func openMachine(t testing.TB, fs lsm.FS) (*machine, error) {
	db, log := small, lsm.Options{WriteBufferSize: 128 << 10, WALPreallocate: 64 << 10,
		CacheSize: -1}
	db.FS, log.FS = fs, fs
	cfg := Config{ID: "a", Addr: "a:1", Database: &db,
		Log: &raftlog.Options{Database: &log}}.withDefaults()
	logs, err := raftlog.Open("/a/raft", cfg.Log)
	if err != nil {
		return nil, err
	}
	s := &session{node: &Node{cfg: cfg}, cfg: &cfg, begun: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	s.cancel(ErrClosed) // halt needs no Raft
	if s.net, err = listen(&Config{Listen: newNetwork().listen}, nil); err != nil {
		return nil, errors.Join(err, logs.Close())
	}
	if s.disk, err = openDisk(&cfg, "/a", logs); err != nil {
		return nil, errors.Join(err, logs.Close())
	}
	var f *fsm
	d, err := s.disk.openState()
	if err == nil {
		f, err = newFSM(s, d)
	}
	if err != nil {
		s.disk.close()
		return nil, errors.Join(err, logs.Close(), s.net.Close())
	}
	s.fsm = f
	return &machine{f, t, logs}, nil
}

func (m *machine) close() {
	m.fsm.close()
	m.node.disk.close()
	_ = m.logs.Close() // the disk may have failed
	_ = m.node.net.Close()
}

// entry is a log entry of a change.
func entry(t testing.TB, index uint64, c *wire.Change, pairs ...string) *raft.Log {
	b := kv.NewBatch()
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] == "-" {
			b.Delete([]byte(pairs[i]))
		} else {
			b.Put([]byte(pairs[i]), []byte(pairs[i+1]))
		}
	}
	c.Batch = b.Bytes()
	data, err := c.Encode()
	must(t, err)
	return &raft.Log{Index: index, Term: 3, Type: raft.LogCommand, Data: data}
}

// apply applies entries in one call.
func (m *machine) apply(logs ...*raft.Log) (out []result) {
	for _, r := range m.ApplyBatch(logs) {
		out = append(out, r.(result))
	}
	return out
}

// content is all that users wrote.
func (m *machine) content() string {
	m.t.Helper()
	var s strings.Builder
	d, err := m.acquire()
	must(m.t, err)
	defer d.release()
	for k, v := range d.db.All(nil, nil, &err) {
		fmt.Fprintf(&s, "%s=%s ", k, v)
	}
	must(m.t, err)
	return s.String()
}

func (m *machine) wants(content string, applied uint64) {
	m.t.Helper()
	if got := m.content(); got != content || m.applied != applied {
		m.t.Errorf("%q up to entry %d, not %q up to %d", got, m.applied, content, applied)
	}
}

// TestAppliedOnce gives the state machine entries that it has, as Raft does after a restart.
func TestAppliedOnce(t *testing.T) {
	fs := crashfs.New()
	m, err := openMachine(t, fs)
	must(t, err)
	first := entry(t, 5, &wire.Change{}, "k", "1")
	m.apply(first, entry(t, 7, &wire.Change{}, "k", "2", "l", "2"))
	m.wants("k=2 l=2 ", 7)
	m.apply(first)
	m.wants("k=2 l=2 ", 7)
	m.close()
	m, err = openMachine(t, fs)
	must(t, err)
	m.wants("k=2 l=2 ", 7)
	m.apply(first, entry(t, 9, &wire.Change{}, "l", "-"))
	m.wants("k=2 ", 9)
	m.close()
}

// TestConditions tries a change with each kind of condition.
func TestConditions(t *testing.T) {
	m, err := openMachine(t, crashfs.New())
	must(t, err)
	long := strings.Repeat("long", 100)
	m.apply(entry(t, 1, &wire.Change{}, "short", "s", "long", long, "empty", ""))
	index := uint64(1)
	for _, c := range []struct {
		key   string
		value []byte // nil: missing
		want  outcome
	}{
		{"short", []byte("s"), done}, {"short", []byte("t"), notHeld}, {"short", nil, notHeld},
		{"short", []byte{}, notHeld}, {"none", nil, done}, {"none", []byte{}, notHeld},
		{"empty", []byte{}, done}, {"empty", nil, notHeld}, {"long", []byte(long), done},
		{"long", []byte(long + "x"), notHeld}, {"none", []byte(long), notHeld},
	} {
		index++
		got := m.apply(entry(t, index, &wire.Change{Conditions: []wire.Condition{
			wire.ConditionOf([]byte("short"), []byte("s")),
			wire.ConditionOf([]byte(c.key), c.value)}}, "w",
			fmt.Sprint(index)))[0]
		v, err := m.current.db.Get([]byte("w"), nil)
		written := err == nil && string(v) == fmt.Sprint(index)
		if got.err != nil || got.outcome != c.want || written != (c.want == done) ||
			m.applied != index {
			t.Errorf("%q = %.9q: %v, written %v", c.key, c.value, got, written)
		}
	}
	m.close()
}

// TestOnce applies changes with the same idempotency key twice, also after a restart, and forgets
// the oldest of more keys than are kept.
func TestOnce(t *testing.T) {
	fs := crashfs.New()
	m, err := openMachine(t, fs)
	must(t, err)
	isMissing := []wire.Condition{wire.ConditionOf([]byte("k"), nil)}
	m.apply(entry(t, 1, &wire.Change{Once: []byte("x"), Conditions: isMissing}, "k", "1"))
	again := entry(t, 2, &wire.Change{Once: []byte("x"), Conditions: isMissing}, "k", "2")
	if r := m.apply(again)[0]; r.outcome != done {
		t.Errorf("the second time: %v", r)
	}
	later := &wire.Change{Once: []byte("y"), Conditions: isMissing}
	if r := m.apply(entry(t, 3, later, "k", "3"))[0]; r.outcome != notHeld {
		t.Errorf("another change: %v", r)
	}
	m.close()
	m, err = openMachine(t, fs)
	must(t, err)
	again.Index = 4
	if r := m.apply(again)[0]; r.outcome != done {
		t.Errorf("after a restart: %v", r)
	}
	m.wants("k=1 ", 4)
	for i := range uint64(OnceKept - 1) { // as if so many changes had come
		m.once.add(place{index: 5 + i}, fmt.Sprint("other ", i), done)
	}
	at := uint64(5 + OnceKept)
	m.apply(entry(t, at, &wire.Change{Once: []byte("z")}, "k", "4")) // x goes
	again.Index = at + 1
	if r := m.apply(again)[0]; r.outcome != notHeld || len(m.once.queue) != OnceKept ||
		len(m.once.byKey) != OnceKept {
		t.Errorf("a forgotten key: %v, %d known", r, len(m.once.queue))
	}
	if has, err := m.current.system.Has(onceKey(place{index: 1})); has || err != nil {
		t.Errorf("a forgotten key is stored: %v", err)
	}
	m.close()
}

// TestMembershipIsStored applies a configuration.
func TestMembershipIsStored(t *testing.T) {
	m, err := openMachine(t, crashfs.New())
	must(t, err)
	all := raft.Configuration{Servers: []raft.Server{{ID: "a", Address: "a:1"}}}
	m.apply(&raft.Log{Index: 8, Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(all)})
	v, err := m.current.system.Get([]byte(membersKey), nil)
	must(t, err)
	if got := raft.DecodeConfiguration(v[8:]); m.applied != 8 || v[7] != 8 ||
		len(got.Servers) != 1 || got.Servers[0] != all.Servers[0] {
		t.Errorf("entry %d: %v", v[7], got)
	}
	m.close()
}

// TestNothingIsSkipped fails one write, and then applies further entries: none of them may be
// applied, as long as the failed one is not.
func TestNothingIsSkipped(t *testing.T) {
	g := &gate{FS: crashfs.New()}
	m, err := openMachine(t, g)
	must(t, err)
	m.apply(entry(t, 1, &wire.Change{}, "a", "1"))
	g.fail("/db-", lsm.ErrNoSpace)
	second, third := entry(t, 2, &wire.Change{}, "b", "2"), entry(t, 3, &wire.Change{}, "c", "3")
	results := m.apply(second, third)
	g.open()
	results = append(results, m.apply(third)...)
	for _, r := range results {
		if r.err == nil {
			t.Errorf("an entry behind a failed one: %v", r)
		}
	}
	if m.node.halted.Load() == nil {
		t.Error("the node goes on")
	}
	m.wants("a=1 ", 1)
	if err := m.wait(t.Context(), 3); !errors.Is(err, lsm.ErrNoSpace) {
		t.Errorf("a read that waits: %v", err)
	}
	m.close()
	m, err = openMachine(t, g)
	must(t, err)
	m.apply(second, third)
	m.wants("a=1 b=2 c=3 ", 3)
	m.close()
}

// states is what entries make, by the index of the last one.
func states(t testing.TB, entries uint64) (all []*raft.Log, contents []string) {
	contents = []string{""}
	for i := uint64(1); i <= entries; i++ {
		c := &wire.Change{Once: fmt.Append(nil, i)}
		all = append(all, entry(t, i, c, "n", fmt.Sprint(i), fmt.Sprint("k", i%3), fmt.Sprint(i)))
		now := map[string]uint64{}
		for j := uint64(1); j <= i; j++ {
			now[fmt.Sprint("k", j%3)] = j
		}
		text := ""
		for _, k := range []string{"k0", "k1", "k2"} {
			if v, ok := now[k]; ok {
				text += fmt.Sprintf("%s=%d ", k, v)
			}
		}
		contents = append(contents, text+fmt.Sprintf("n=%d ", i))
	}
	return all, contents
}

// TestPowerCuts cuts the power before every call of the file system while entries are applied, a
// snapshot is made and installed. What is left is the state behind some entry, which the applied
// index names, and not before the snapshot; the rest of the entries makes it whole.
func TestPowerCuts(t *testing.T) {
	all, contents := states(t, 9)
	var kept uint64 // the index of the snapshot that the disk has for sure
	run := func(fs *crashfs.FS) {
		kept = 0
		m, err := openMachine(t, fs)
		if err != nil {
			return
		}
		defer m.close()
		m.apply(all[:5]...)
		if m.snapshot() != nil {
			return
		}
		kept = m.applied
		m.apply(all[5:]...)
		if list, _ := m.node.disk.List(); len(list) == 1 {
			_, r, err := m.node.disk.Open(list[0].ID)
			if err == nil {
				_ = m.Restore(r) // back to the snapshot
				_ = r.Close()
			}
		}
		m.apply(all...)
	}
	found := 0
	plan := crashfs.Plan{Every: 7, Seed: 1,
		Losses: []crashfs.Loss{crashfs.DropUnsynced, crashfs.KeepAll, crashfs.RandomBlocks}}
	for crash := range plan.Crashes(run) {
		found++
		m, err := openMachine(t, crash.FS)
		if err != nil {
			t.Fatalf("%v: %v", crash, err)
		}
		if got := m.content(); got != contents[m.applied] || m.applied < kept {
			t.Errorf("%v: %q up to entry %d, behind a snapshot of %d", crash, got, m.applied, kept)
		}
		m.apply(all...)
		m.wants(contents[9], 9)
		names, err := m.node.disk.fs.List("/a")
		if err != nil || len(names) > 3 {
			t.Errorf("%v: %q is left, %v", crash, names, err)
		}
		m.close()
		if t.Failed() {
			t.Fatalf("%v", crash)
		}
	}
	t.Logf("%d states", found)
}

// snapshot makes a snapshot as Raft does.
func (m *machine) snapshot() error {
	index := m.applied
	i, err := m.Snapshot()
	if err != nil {
		return err
	}
	defer i.Release()
	to, err := m.node.disk.Create(1, index, 3, raft.Configuration{}, 1, nil)
	if err != nil {
		return err
	}
	if err := i.Persist(to); err != nil {
		return errors.Join(err, to.Cancel())
	}
	return to.Close()
}

// TestSnapshotSyncs wants what a snapshot covers on stable storage in the running directory as
// well, as its entries may leave the log.
func TestSnapshotSyncs(t *testing.T) {
	fs := crashfs.New()
	m, err := openMachine(t, fs)
	must(t, err)
	all, contents := states(t, 5)
	m.apply(all...)
	i, err := m.Snapshot()
	must(t, err)
	left, err := openMachine(t, fs.Crash(crashfs.DropUnsynced, 1))
	must(t, err)
	left.wants(contents[5], 5)
	left.close()
	i.Release()
	m.close()
}

// TestOldDatabaseIsRestored opens a directory whose database lacks entries that only the snapshot
// has.
func TestOldDatabaseIsRestored(t *testing.T) {
	fs := crashfs.New()
	m, err := openMachine(t, fs)
	must(t, err)
	all, contents := states(t, 5)
	m.apply(all[0])
	m.apply(all[1:]...)
	must(t, m.snapshot())
	m.close()
	must(t, directory.RemoveAll(fs, "/a/db-1"))
	m, err = openMachine(t, fs) // it makes an empty database
	must(t, err)
	m.wants(contents[5], 5)
	if m.current.name == "db-1" {
		t.Error("the snapshot was filled into the running directory")
	}
	m.close()
}

// TestRestoreLeavesReadersAlone restores a snapshot while a view, an iterator and a stream read.
func TestRestoreLeavesReadersAlone(t *testing.T) {
	m, err := openMachine(t, crashfs.New())
	must(t, err)
	all, contents := states(t, 6)
	m.apply(all[:3]...)
	must(t, m.snapshot())
	m.apply(all[3:]...)
	snap, err := m.node.snapshot()
	must(t, err)
	it, err := snap.Iter(t.Context(), nil)
	must(t, err)
	before := m.current
	id := m.node.disk.state.Snapshots[0].ID
	_, stream, err := m.node.disk.Open(id)
	must(t, err)
	must(t, m.Restore(stream))
	m.wants(contents[3], 3)
	m.apply(all[3:4]...)
	m.wants(contents[4], 4)
	must(t, m.snapshot()) // the one that is being read stays
	if v, err := snap.Get(t.Context(), []byte("n")); err != nil || string(v) != "6" {
		t.Errorf("a snapshot of before has %q, %v", v, err)
	}
	must(t, snap.Close())
	if !it.Last() || string(it.Value()) != "6" {
		t.Errorf("an iterator of before has %q, %v", it.Value(), it.Err())
	}
	if m.current == before || m.current.name == before.name {
		t.Error("the running directory was written over")
	}
	for _, used := range []string{before.name, id} {
		_, err := m.node.disk.fs.List("/a/" + used)
		must(t, err)
	}
	must(t, it.Close(), stream.Close())
	for _, gone := range []string{before.name, id} {
		if names, err := m.node.disk.fs.List("/a/" + gone); err == nil {
			t.Errorf("%s is left, with %q", gone, names)
		}
	}
	m.close()
}

// TestGroups applies random changes once one by one, and once in groups, with another database: the
// outcomes and the states are the same, also after a restart.
func TestGroups(t *testing.T) {
	from := uint64(seed.Of(t))
	rnd := rand.New(rand.NewPCG(from, 3))
	alone, err := openMachine(t, crashfs.New())
	must(t, err)
	fs := crashfs.New()
	grouped, err := openMachine(t, fs)
	must(t, err)
	key := func() string { return fmt.Sprint("k", rnd.IntN(4)) }
	for index, number := uint64(1), uint64(1); index <= 200; index++ {
		var changes [][]byte
		var want []outcome
		for range 1 + rnd.IntN(6) {
			c := &wire.Change{}
			if rnd.IntN(3) == 0 {
				c.Once = fmt.Append(nil, "once ", rnd.IntN(40))
			}
			for range rnd.IntN(2) {
				value := fmt.Append(nil, rnd.IntN(3))
				if rnd.IntN(3) == 0 {
					value = nil
				}
				c.Conditions = append(c.Conditions, wire.ConditionOf([]byte(key()), value))
			}
			if rnd.IntN(6) == 0 {
				c.Ranges = []lsm.Range{{Start: []byte("k1"), Limit: []byte("k3")}}
			}
			e := entry(t, number, c, key(), fmt.Sprint(rnd.IntN(3)))
			if rnd.IntN(4) == 0 {
				e = entry(t, number, c, key(), "-")
			}
			number++
			changes = append(changes, e.Data)
			want = append(want, alone.apply(e)[0].outcome)
		}
		e := &raft.Log{Index: index, Term: 1, Type: raft.LogCommand,
			Data: wire.AppendGroup(nil, changes)}
		if got := grouped.apply(e)[0]; !slices.Equal(got.group, want) || got.err != nil {
			t.Fatalf("seed %d, entry %d: %v, not %v", from, index, got, want)
		}
		if a, b := alone.content(), grouped.content(); a != b {
			t.Fatalf("seed %d, entry %d: %q, not %q", from, index, b, a)
		}
		if index%50 == 0 {
			grouped.close()
			grouped, err = openMachine(t, fs)
			must(t, err)
		}
	}
	alone.close()
	grouped.close()
}
