package storetest

import (
	"encoding/gob"
	"errors"
	"maps"
	"os"

	"github.com/loamdb/loam/internal/workload/store"
)

func (s *modelStore) Checkpoint(dir string) error {
	return s.edit("checkpoint", true, func(t *Table) {
		s.m.mu.Lock()
		defer s.m.mu.Unlock()
		s.m.dbs[dir] = &Table{m: maps.Clone(t.m)}
	})
}

func (s *modelStore) Backup(dir string) error {
	return s.edit("backup", true, func(t *Table) {
		s.m.mu.Lock()
		defer s.m.mu.Unlock()
		s.m.dbs[dir] = &Table{m: maps.Clone(t.m)}
	})
}

func (s *modelStore) RestoreBackup(dir, to string) error {
	return s.edit("restore", true, func(*Table) {
		s.m.mu.Lock()
		defer s.m.mu.Unlock()
		s.m.dbs[to] = &Table{m: maps.Clone(s.m.dbs[dir].m)}
	})
}

// Dump writes a file, as benchmarks look at its size.
func (s *modelStore) Dump(file string) error {
	if err := s.m.fail("dump"); err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(gob.NewEncoder(f).Encode(s.t.Contents()), f.Close())
}

func (s *modelStore) LoadDump(file, to string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	loaded := &Table{}
	if err := gob.NewDecoder(f).Decode(&loaded.m); err != nil {
		return err
	}
	return s.edit("load", true, func(*Table) {
		s.m.mu.Lock()
		defer s.m.mu.Unlock()
		s.m.dbs[to] = loaded
	})
}

// modelSink collects entries; those of a table go into a file, whose contents Ingest adds.
type modelSink struct {
	s    *modelStore
	file string // "": of a load
	last string // key
	m    map[string]string
}

func (s *modelStore) NewTable(file string) (store.Sink, error) {
	return &modelSink{s: s, file: file, m: map[string]string{}}, nil
}

func (s *modelStore) BulkLoad() (store.Sink, error) {
	return &modelSink{s: s, m: map[string]string{}}, nil
}

func (k *modelSink) Put(key, value []byte) error {
	if k.file != "" && len(k.m) > 0 && string(key) <= k.last {
		return errors.New("keys of a table out of order")
	}
	k.last = string(key)
	k.m[k.last] = string(value)
	return k.s.m.fail("sink")
}

func (k *modelSink) Finish() error {
	if k.file == "" {
		return k.s.take(k.m)
	}
	return (&modelStore{modelReader{k.s.m, &Table{m: k.m}}}).Dump(k.file)
}

func (k *modelSink) Close() error { return nil }

func (s *modelStore) take(entries map[string]string) error {
	return s.edit("ingest", true, func(t *Table) {
		for k, v := range entries {
			t.put(k, v)
		}
	})
}

func (s *modelStore) Ingest(files []string) error {
	all := map[string]string{}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		if err := errors.Join(gob.NewDecoder(f).Decode(&all), f.Close()); err != nil {
			return err
		}
	}
	return s.take(all)
}

// committed notes a batch. t.mu is held.
func (t *Table) committed(operations, bytes int) {
	if t.Config.Changes {
		t.log = append(t.log, [2]int64{int64(operations), int64(bytes)})
	}
}

// Forget takes the last batches out of what Changes shows.
func (t *Table) Forget(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.log = t.log[:max(len(t.log)-n, 0)]
}

type modelChanges struct {
	s  *modelStore
	at int
}

func (s *modelStore) Changes() (store.Changes, error) {
	if !s.t.Config.Changes {
		return nil, errors.New("opened without changes")
	}
	return &modelChanges{s: s}, nil
}

func (c *modelChanges) Next(limit int) (batches, operations, bytes int64, err error) {
	err = c.s.edit("changes", false, func(t *Table) {
		for ; c.at < len(t.log) && batches < int64(limit); c.at++ {
			batches++
			operations += t.log[c.at][0]
			bytes += t.log[c.at][1]
		}
	})
	return batches, operations, bytes, err
}

func (c *modelChanges) Close() error { return nil }

// modelFollower reads the model's own tables: it is in the same process, and shows what there was
// at the last catch-up.
type modelFollower struct {
	modelReader
	of *Table
}

// OpenFollower shows what is in dir.
func (m *Model) OpenFollower(dir, _ string, _ store.Config) (store.Follower, error) {
	t := m.Table(dir)
	if t == nil {
		return nil, errors.New("no database there")
	}
	return &modelFollower{modelReader{m, &Table{m: t.Contents()}}, t}, nil
}

func (f *modelFollower) CatchUp() error {
	f.t = &Table{m: f.of.Contents()}
	return f.m.fail("catchup")
}

func (f *modelFollower) Close() error { return nil }

// OpenShared shares nothing.
func (m *Model) OpenShared(dirs []string, _ int64, c store.Config) (all []store.Store, err error) {
	for _, dir := range dirs {
		db, err := m.Open(dir, c)
		if err != nil {
			return all, err
		}
		all = append(all, db)
	}
	return all, nil
}
