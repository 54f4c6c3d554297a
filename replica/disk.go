package replica

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"
	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/raftlog"
	"github.com/loamdb/loam/replica/internal/directory"
	"github.com/loamdb/loam/replica/internal/meeting"
)

// disk is the directory of a node:
//
//	raft/    the Raft log, and in its stable storage the directoryState
//	db-N/    the running database
//	snap-N/  a snapshot: a checkpoint that nobody opens for writing
//
// Which of them count is in the directoryState alone, which is replaced by one synced write: a
// directory that it does not name is what a crash left, and goes at the next opening.
type disk struct {
	cfg  *Config
	dir  string
	fs   lsm.FS
	logs *raftlog.Store

	mu        sync.Mutex
	state     directoryState
	reading   map[string]int     // by snapshot: how many streams read it
	databases map[*database]bool // all that are open
	doubtful  []string           // snapshots of states whose save failed, and may be there later
}

// directoryState is what the node knows about its directory. It is stored as JSON.
type directoryState struct {
	Format    int
	Cluster   string
	ID        string
	Running   string               // the name of the running database's directory
	Next      uint64               // the number of the next directory
	Snapshots []*raft.SnapshotMeta // newest first; ID is the name of the directory
	Mark      string               // no other directory has it
	Met       meeting.Book         // the other members
}

const directoryFormat = 1

var directoryKey = []byte("loam.replica")

// database is a directory with the state up to some entry. It is closed when the last reference is
// released, and removed then if it is obsolete.
type database struct {
	db       *lsm.DB
	system   *lsm.Keyspace
	name     string
	refs     atomic.Int64
	obsolete atomic.Bool
	of       *disk
	shut     sync.Once
}

func (d *database) release() {
	if d.refs.Add(-1) == 0 {
		d.close()
	}
}

// close closes the database below whatever still reads it, which fails with ErrClosed.
func (d *database) close() {
	d.shut.Do(func() {
		d.of.mu.Lock()
		delete(d.of.databases, d)
		d.of.mu.Unlock()
		if err := d.db.Close(); err != nil {
			d.of.cfg.log("closing a database failed", "directory", d.name, "error", err)
		}
		if d.obsolete.Load() {
			d.of.remove(d.name)
		}
	})
}

// openDisk opens a node's directory, and removes from it what a crash left.
func openDisk(cfg *Config, dir string, logs *raftlog.Store) (*disk, error) {
	k := &disk{cfg: cfg, dir: dir, fs: cfg.FS(), logs: logs, reading: map[string]int{},
		databases: map[*database]bool{}}
	v, err := logs.Get(directoryKey)
	switch {
	case errors.Is(err, raftlog.ErrNotFound):
		if err := k.unmarked(); err != nil {
			return nil, err
		}
		k.state = directoryState{Format: directoryFormat, Cluster: cfg.Cluster, ID: cfg.ID, Next: 1,
			Mark: meeting.NewMark()}
		if err := k.save(k.state); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, err
	default:
		if err := json.Unmarshal(v, &k.state); err != nil {
			return nil, fmt.Errorf("replica: %s: %w: %w", dir, ErrForeign, err)
		}
	}
	if err := k.check(); err != nil {
		return nil, err
	}
	if k.state.Mark == "" { // it is new, or of an older version
		s := k.state
		s.Mark = meeting.NewMark()
		if err := k.save(s); err != nil {
			return nil, err
		}
	}
	return k, k.clean()
}

// clean removes what a crash left, before its names are used again.
func (k *disk) clean() error {
	names, err := k.fs.List(k.dir)
	if err != nil {
		return err
	}
	removed := false
	for _, name := range names {
		if ours.MatchString(name) && !k.counts(name) {
			removed = true
			if err := directory.RemoveAll(k.fs, k.path(name)); err != nil {
				return err
			}
		}
	}
	if removed {
		return k.fs.SyncDir(k.dir)
	}
	return nil
}

// check refuses the directory of another node.
func (k *disk) check() error {
	s, c := &k.state, k.cfg
	switch {
	case s.Format > directoryFormat:
		return fmt.Errorf("replica: %s: directory of format %d: upgrade this node: %w", k.dir,
			s.Format, lsm.ErrNewerFormat)
	case s.Cluster != c.Cluster:
		return fmt.Errorf("replica: %s is of cluster %q, not of %q: %w", k.dir, s.Cluster,
			c.Cluster, ErrForeign)
	case s.ID != c.ID:
		return fmt.Errorf("replica: %s is of node %q, not of %q: %w", k.dir, s.ID, c.ID, ErrForeign)
	}
	return nil
}

// ours are names that next makes, and those of checkpoints that were cut off. Others are the
// operator's, that of a copy for instance.
var ours = regexp.MustCompile(`^(db|snap)-[1-9][0-9]*(\.incomplete)?$`)

func (k *disk) counts(name string) bool {
	return name == k.state.Running || slices.ContainsFunc(k.state.Snapshots,
		func(m *raft.SnapshotMeta) bool { return m.ID == name })
}

// save stores a state, and makes it the present one then.
// REQUIRES: k.mu is held, or the disk has one user.
func (k *disk) save(s directoryState) error {
	v, err := json.Marshal(s)
	if err == nil {
		err = k.logs.Set(directoryKey, v)
	}
	if err == nil {
		k.state = s
	}
	return err
}

// next returns the name of a new directory. The number is stored with the first state that names
// the directory; without one, the name is free again after a restart, which removes the directory.
func (k *disk) next(kind string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.state.Next++
	return fmt.Sprintf("%s-%d", kind, k.state.Next-1)
}

// openState opens the state of the node: that of the running directory, unless the newest snapshot
// has entries that it lacks.
func (k *disk) openState() (*database, error) {
	var snapshot *raft.SnapshotMeta
	if len(k.state.Snapshots) > 0 {
		snapshot = k.state.Snapshots[0]
	}
	if k.state.Running == "" {
		if snapshot != nil {
			return k.fill(k.path(snapshot.ID))
		}
		d, err := k.open(k.next("db"))
		if err != nil {
			return nil, err
		}
		return d, k.run(d)
	}
	d, err := k.open(k.state.Running)
	if err != nil {
		return nil, err
	}
	applied, err := appliedIndex(d.system)
	if err != nil || snapshot == nil || applied >= snapshot.Index {
		return d, err
	}
	k.cfg.log("the database is older than the snapshot, which takes its place", "applied", applied,
		"snapshot", snapshot.Index)
	filled, err := k.fill(k.path(snapshot.ID))
	if err == nil {
		d.obsolete.Store(true)
	}
	d.release()
	return filled, err
}

func (k *disk) path(name string) string { return filepath.Join(k.dir, name) }

func (k *disk) open(name string) (*database, error) {
	db, err := lsm.Open(k.path(name), k.cfg.database())
	if err != nil {
		return nil, err
	}
	system, err := db.Keyspace(systemName, nil)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	d := &database{db: db, system: system, name: name, of: k}
	d.refs.Store(1)
	k.mu.Lock()
	k.databases[d] = true
	k.mu.Unlock()
	return d, nil
}

// run makes d the directory that the next opening begins with.
func (k *disk) run(d *database) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.state
	s.Running = d.name
	return k.save(s)
}

// fill makes a new running directory of a snapshot's: hard links where the file system has them.
// All of it is on stable storage before the directoryState names it.
func (k *disk) fill(from string) (*database, error) {
	name := k.next("db")
	o := k.cfg.database()
	o.ReadOnly = true
	db, err := lsm.Open(from, o)
	if err != nil {
		return nil, err
	}
	err = db.Checkpoint(context.Background(), k.path(name))
	if err := errors.Join(err, db.Close()); err != nil {
		return nil, err
	}
	d, err := k.open(name)
	if err != nil {
		return nil, err
	}
	if err := k.run(d); err != nil {
		d.release()
		return nil, err
	}
	return d, nil
}

// remove removes a directory that is not needed any more. The next opening tries again.
func (k *disk) remove(name string) {
	if err := directory.RemoveAll(k.fs, k.path(name)); err != nil {
		k.cfg.log("removing a directory failed", "directory", name, "error", err)
	}
}

// close closes every database, those that are read included.
func (k *disk) close() {
	k.mu.Lock()
	all := make([]*database, 0, len(k.databases))
	for d := range k.databases {
		all = append(all, d)
	}
	k.mu.Unlock()
	for _, d := range all {
		d.close()
	}
}
