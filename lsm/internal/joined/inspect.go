package joined

import (
	"context"
	"os"
	"path/filepath"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/feature/backup"
	"github.com/loamdb/loam/internal/feature/inspect"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/store"
	"github.com/loamdb/loam/internal/tree"
)

// inspected answers requests of other processes.
type inspected struct {
	*Database
	events  *inspect.Events
	metrics func(k *store.Keyspace) any
}

// Inspect begins to answer on the socket of s, which may be nil.
func (d *Database) Inspect(s *inspect.Server, metrics func(k *store.Keyspace) any) {
	if s != nil {
		s.Serve(&inspected{d, s.Notes(), metrics})
	}
}

// Answer is of inspect.Answerer.
func (d *inspected) Answer(ctx context.Context, r *inspect.Request, h *inspect.Held) (any, error) {
	if r.Keyspace == "" {
		r.Keyspace = base.DefaultKeyspaceName
	}
	k, err := d.Keyspaces().Open(r.Keyspace, nil, nil, false)
	if err != nil {
		return nil, err
	}
	done := struct{}{}
	switch r.Do {
	case "info":
		return d.info()
	case "metrics":
		return d.metrics(k), nil
	case "levels":
		return levels(k)
	case "events":
		list, last := d.events.After(r.After)
		return map[string]any{"events": list, "last": last}, nil
	case "scan":
		return d.scan(k, r, h)
	case "release":
		h.Release()
		return done, nil
	case "flush":
		return done, k.Flush()
	case "compact":
		return done, k.CompactRange(ctx, r.From, r.To)
	case "checkpoint":
		if err := absolute(r); err != nil {
			return nil, err
		}
		return done, d.Copies.Checkpoint(ctx, d, r.Dir)
	case "backup":
		return d.backup(ctx, r)
	}
	return nil, base.Invalidf("there is no request %q", r.Do)
}

// absolute refuses a name that means another directory in another process.
func absolute(r *inspect.Request) error {
	if !filepath.IsAbs(r.Dir) {
		return base.Invalidf("%q is no absolute path", r.Dir)
	}
	return nil
}

func (d *inspected) info() (any, error) {
	all, err := d.Keyspaces().All(func([]*store.Keyspace) {})
	if err != nil {
		return nil, err
	}
	spaces := []map[string]string{}
	for _, k := range all {
		spaces = append(spaces, map[string]string{"name": k.Tree.Name(),
			"comparator": k.Comparer().Name})
	}
	p := d.Place()
	return map[string]any{"protocol": inspect.Version, "pid": os.Getpid(), "directory": p.Dir,
		"format": p.Format.String(), "keyspaces": spaces}, nil
}

// table is a table as "levels" describes it.
type table struct {
	Number     uint64 `json:"number"`
	Bytes      uint64 `json:"bytes"`
	Smallest   []byte `json:"smallest"`
	Largest    []byte `json:"largest"`
	Compacting bool   `json:"compacting"`
}

// level is one of the seven levels.
type level struct {
	Bytes  uint64  `json:"bytes"`
	Files  int     `json:"files"`
	Tables []table `json:"tables"`
}

// memtable is one that takes writes, or that waits for its flush.
type memtable struct {
	Bytes   int64 `json:"bytes"`
	Entries int   `json:"entries"`
}

func levels(k *store.Keyspace) (any, error) {
	state, err := k.Present()
	if err != nil {
		return nil, err
	}
	defer state.Unref()
	memtables := []memtable{{state.Mem.MemoryUsage(), state.Mem.Len()}}
	for _, s := range state.Sealed {
		memtables = append(memtables, memtable{s.Mem.MemoryUsage(), s.Mem.Len()})
	}
	all, left := []level{}, inspect.MaxTables
	for i := range state.Version.Levels {
		l := &state.Version.Levels[i]
		shown := level{Bytes: l.Size, Files: len(l.Files), Tables: []table{}}
		for _, f := range l.Files[:min(left, len(l.Files))] {
			shown.Tables = append(shown.Tables, table{Number: f.Num, Bytes: f.Size,
				Smallest: begin(f.Smallest.User), Largest: begin(f.Largest.User),
				Compacting: f.Compacting.Load()})
		}
		left -= len(shown.Tables)
		all = append(all, shown)
	}
	return map[string]any{"memtables": memtables, "levels": all}, nil
}

func begin(key []byte) []byte { return key[:min(len(key), inspect.MaxTableKey)] }

// entry is an entry of a scan.
type entry struct {
	Key       []byte `json:"key"`
	Value     []byte `json:"value,omitempty"`
	ValueSize *int   `json:"value_size,omitempty"` // of a value that was cut off
}

// scanned is what a scan found.
type scanned struct {
	Entries  []entry `json:"entries"`
	More     bool    `json:"more"` // a bound of the scan ended it
	Sequence uint64  `json:"sequence"`
}

// scan reads one state. The iterator is closed before the answer is sent.
func (d *inspected) scan(k *store.Keyspace, r *inspect.Request, h *inspect.Held) (any, error) {
	snap, _ := h.State.(*tree.Snapshot)
	if snap == nil || !r.Hold {
		snap = &tree.Snapshot{}
		d.Sequences().WaitFresh()
		d.Sequences().Open(snap)
		end := func() { d.CloseSnapshot(snap) }
		if r.Hold {
			h.State, h.End = snap, end
		} else {
			defer end()
		}
	}
	var it tree.Iterator
	k.Reads().Init(&it, &tree.IterOptions{Lower: r.From, Upper: r.To, Prefix: r.Prefix,
		KeysOnly: r.KeysOnly, NoFillCache: true, Snapshot: snap})
	defer it.Close()
	first, next := it.First, it.Next
	if r.Reverse {
		first, next = it.Last, it.Prev
	}
	found := scanned{Entries: []entry{}, Sequence: uint64(snap.Seq())}
	at, bytes := first(), 0
	if at && r.Past && !r.Reverse && r.From != nil && k.Comparer().Cmp(it.Key(), r.From) == 0 {
		at = next()
	}
	for ; at; at = next() {
		if len(found.Entries) == r.Limit || bytes >= inspect.MaxScan {
			found.More = true
			break
		}
		e := entry{Key: append([]byte{}, it.Key()...)}
		if !r.KeysOnly {
			v := it.Value()
			if n := len(v); n > r.MaxValue {
				e.ValueSize, v = &n, v[:r.MaxValue]
			}
			e.Value = append([]byte{}, v...)
		}
		bytes += len(e.Key) + len(e.Value)
		found.Entries = append(found.Entries, e)
	}
	return found, it.Err()
}

// backup makes a backup in a folder.
func (d *inspected) backup(ctx context.Context, r *inspect.Request) (any, error) {
	if err := absolute(r); err != nil {
		return nil, err
	}
	folder, err := backup.Open(r.Dir, backup.Options{FS: vfs.Default})
	if err != nil {
		return nil, err
	}
	run := backup.NewRun(ctx, 0, nil)
	info, err := d.Copies.Backup(d, folder, run)
	if err = run.End(err); err == nil {
		err = folder.Close()
	} else {
		_ = folder.Close()
	}
	if err != nil {
		return nil, err
	}
	return map[string]any{"id": info.ID, "files": info.Files, "bytes": info.Bytes,
		"new_bytes": info.NewBytes}, nil
}
