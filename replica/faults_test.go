package replica

import (
	"errors"
	"io"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/crashfs"
)

// install takes a leader's snapshot as Raft does: it stores the stream, and makes it the state.
func (m *machine) install(index uint64, stream []byte) error {
	to, err := m.node.disk.Create(1, index, 3, raft.Configuration{}, 1, nil)
	if err != nil {
		return err
	}
	if _, err := to.Write(stream); err != nil {
		return errors.Join(err, to.Cancel())
	}
	if err := to.Close(); err != nil {
		return err
	}
	_, r, err := m.node.disk.Open(to.ID())
	if err != nil {
		return err
	}
	return errors.Join(m.Restore(r), r.Close())
}

// streamOf is the stream of a snapshot behind some entries.
func streamOf(t testing.TB, all []*raft.Log) []byte {
	m, err := openMachine(t, crashfs.New())
	must(t, err)
	defer m.close()
	m.apply(all...)
	must(t, m.snapshot())
	_, r, err := m.node.disk.Open(m.node.disk.state.Snapshots[0].ID)
	must(t, err)
	whole, err := io.ReadAll(r)
	must(t, err, r.Close())
	return whole
}

// TestFaultsOfSnapshots has every call of the file system fail while snapshots are made and
// installed. The directory opens afterwards, with the state behind some entry, and streams the
// snapshots that it names.
func TestFaultsOfSnapshots(t *testing.T) {
	all, contents := states(t, 9)
	newer := streamOf(t, all[:7])
	run := func(fs *crashfs.FS) {
		m, err := openMachine(t, fs)
		if err != nil {
			return
		}
		defer m.close()
		m.apply(all[:3]...)
		err = m.snapshot()
		if err != nil {
			err = m.snapshot()
		}
		if err == nil {
			m.apply(all[3:5]...)
			_ = m.install(7, newer)
		}
		m.apply(all...)
	}
	found := 0
	plan := crashfs.Plan{Every: 9, Seed: 4} // the sync of a directoryState is one of them
	for f := range plan.Faults(run) {
		found++
		m, err := openMachine(t, f.FS)
		if err != nil {
			t.Errorf("%v: %v", f, err)
			continue
		}
		if got := m.content(); got != contents[m.applied] {
			t.Errorf("%v: %q up to entry %d", f, got, m.applied)
		}
		list, _ := m.node.disk.List()
		for _, s := range list {
			if _, r, err := m.node.disk.Open(s.ID); err != nil {
				t.Errorf("%v: snapshot %s: %v", f, s.ID, err)
			} else {
				must(t, r.Close())
			}
		}
		m.apply(all...)
		m.wants(contents[9], 9)
		m.close()
	}
	t.Logf("%d faults", found)
}

// TestDoubtfulSnapshot has no room for the directoryState of a snapshot, twice: one snapshot stays,
// and goes when there is room.
func TestDoubtfulSnapshot(t *testing.T) {
	g := &gate{FS: crashfs.New()}
	m, err := openMachine(t, g)
	must(t, err)
	defer m.close()
	all, _ := states(t, 2)
	m.apply(all...)
	left := func(want int) {
		t.Helper()
		names, err := g.List("/a")
		if must(t, err); len(names) != want {
			t.Errorf("%q is there", names)
		}
	}
	left(2)
	g.fail("/raft/", lsm.ErrNoSpace)
	for range 3 {
		if err := m.snapshot(); !errors.Is(err, lsm.ErrNoSpace) {
			t.Errorf("a snapshot that cannot be named: %v", err)
		}
		left(3)
	}
	g.open()
	must(t, m.snapshot())
	left(3)
}
