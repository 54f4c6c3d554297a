package work

import (
	"errors"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/tree/compact"
	"github.com/loamdb/loam/internal/tree/picker"
)

// Ingest makes tables live that were written elsewhere, all in one edit. They are durable, under
// their names, overlap no memtable, are in the order of their keys, and newer than all tables there
// are; the last one has the largest number. kept: they are still the caller's, and are deleted
// after a failure. Commit leader only.
func (s *Scheduler) Ingest(k *Keyspace, tables []*manifest.FileMeta,
	mode picker.IngestMode) (kept bool, err error) {
	s.install.Lock()
	defer s.install.Unlock()
	version := s.opts.Manifest.Current(k.ID())
	if version == nil {
		return true, k.Gone()
	}
	defer version.Unref()
	edit := &manifest.Edit{Keyspace: k.ID()}
	edit.SetLastSeq(tables[len(tables)-1].GlobalSeq)
	plans, err := s.place(k, version, tables, edit, mode)
	defer s.Wake()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, p := range plans {
			s.trees.end(k, p)
		}
	}()
	if err != nil {
		return true, err
	}
	if err := s.opts.Manifest.Mend(); err != nil {
		return true, s.manifestError(err)
	}
	for _, m := range tables {
		k.StopLearning(m.Smallest.User, m.Largest.User)
	}
	defer k.ResumeLearning()
	apply := func() (*manifest.Version, error) { return s.opts.Manifest.Apply(edit) }
	if mode.Plain {
		var alone bool
		if alone, err = k.InstallAlone(apply); !alone {
			return true, picker.ErrSnapshot
		}
	} else if next, aerr := apply(); aerr != nil {
		err = aerr
	} else {
		k.Install(next, nil, edit.LastSeq)
	}
	if err := s.applied(err, compact.Result{Added: edit.Added}); err != nil {
		if errors.Is(err, errDropped) {
			err = k.Gone()
		}
		if base.IsShortage(err) && s.opts.Manifest.Mend() == nil {
			s.dropOrphans()
		}
		return false, err
	}
	s.estimateLive(k)
	s.updateDelay(k)
	return false, nil
}

// place adds tables to the edit. The plans that it returns reserve their levels until they are
// ended.
func (s *Scheduler) place(k *Keyspace, v *manifest.Version, tables []*manifest.FileMeta,
	edit *manifest.Edit, mode picker.IngestMode) ([]*picker.Plan, error) {
	s.mu.Lock()
	defer s.mu.Unlock() // the comparer may panic
	levels, plans, err := picker.IngestLevels(v, k.running, k.Comparer(), tables,
		uint64(s.opts.WriteBuffer), mode)
	if err != nil {
		return nil, err
	}
	for i, m := range tables {
		edit.Add(levels[i], m)
	}
	for _, p := range plans {
		s.trees.start(k, p)
	}
	return plans, nil
}
