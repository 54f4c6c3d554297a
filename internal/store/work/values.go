package work

import (
	"maps"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/tree/compact"
	"github.com/loamdb/loam/internal/tree/picker"
)

// valueSpace is the space that values in logs and value files take, and what is done about it: one
// round after the other, compactions copy what lives in some of these files, see picker.EmptyNext.
// When no table refers to the files of a round any more, or the bound is kept, the round is over.
// Nothing of it is stored: a round ends with the opening, and what has been copied stays copied.
//
// Its fields are guarded by Scheduler.mu, but for sizes.
type valueSpace struct {
	uses []picker.ValueUse // of files that only references need
	disk uint64            // sum of their sizes
	// trees are those with tables that refer to values, and live is the sum of theirs.
	trees map[*Keyspace]treeValues
	live  uint64
	// round has the files to be emptied. It is not changed, but replaced; nil: there is no round.
	round valueFiles
	// damaged have values that cannot be read. They stay.
	damaged valueFiles

	relocated, relocatedBytes uint64

	sizes map[base.ValueFile]uint64 // guarded by Scheduler.install
}

// valueFiles is a set of logs and value files.
type valueFiles map[base.ValueFile]struct{}

func (v valueFiles) has(f base.ValueFile) bool {
	_, ok := v[f]
	return ok
}

// treeValues are the values that the tables of a recent version refer to.
type treeValues struct {
	live uint64 // the second result of picker.Live
	of   uint64 // all bytes
}

// tableValues is about how many bytes of values a table refers to, as a multiple of its largest
// size: a few compactions copy the values of a log, and each of them copies a bounded amount.
const tableValues = 4

// weighValues looks how much space values take after an edit. REQUIRES: s.install held.
func (s *Scheduler) weighValues() {
	logs := s.opts.Manifest.ReleasedValues()
	v := &s.values
	sizes := make(map[base.ValueFile]uint64, len(logs))
	var uses []picker.ValueUse
	disk := uint64(0)
	for _, l := range logs {
		f := l.File()
		size, ok := v.sizes[f]
		if !ok {
			size, ok = s.valueFileSize(l)
		}
		if ok {
			sizes[f] = size
		}
		if l.InFile {
			size -= min(size, uint64(base.ValueFileHead)) // one of tiny values is no garbage
		}
		uses = append(uses, picker.ValueUse{ValueLog: l, Size: size})
		disk += size
	}
	v.sizes = sizes
	s.mu.Lock()
	defer s.mu.Unlock()
	v.uses, v.disk = uses, disk
	s.chooseRoundLocked()
}

// valueFileSize is the size of a log or value file. If it cannot be asked for, it is taken for that
// of the live values until the next edit.
func (s *Scheduler) valueFileSize(l base.ValueLog) (size uint64, known bool) {
	size, err := s.opts.Files.FileSize(l.File().FileName(s.opts.Manifest.Format()))
	if err != nil {
		s.opts.Warn("the size of a file of values is not known", err)
		return l.Bytes, false
	}
	return max(size, l.Bytes), true
}

// OpenValues begins with the values that an opening finds.
func (s *Scheduler) OpenValues() {
	if s.opts.ReadOnly {
		return
	}
	s.install.Lock()
	defer s.install.Unlock()
	if len(s.opts.Manifest.ReleasedValues()) == 0 {
		return
	}
	for k := range s.opts.All {
		s.estimateLive(k)
	}
	s.weighValues()
}

// chooseRoundLocked begins a round if the last one is over and values take too much space.
func (s *Scheduler) chooseRoundLocked() {
	v := &s.values
	if len(v.uses) == 0 {
		v.round = nil
		return
	}
	c := s.configLocked(s.home)
	if !c.TooManyValues() {
		v.round = nil
		return
	}
	var uses []picker.ValueUse
	for _, u := range v.uses {
		f := u.File()
		if v.round.has(f) {
			return
		}
		if !v.damaged.has(f) {
			uses = append(uses, u)
		}
	}
	v.round = nil
	for _, l := range picker.EmptyNext(uses, c) {
		if v.round == nil {
			v.round = make(valueFiles)
		}
		v.round[l.File()] = struct{}{}
	}
	if v.round == nil {
		return
	}
	for k := range s.opts.All {
		s.trees.markDue(k)
	}
}

// noteLiveLocked takes the estimate of the live values of a tree.
func (v *valueSpace) noteLiveLocked(k *Keyspace, now treeValues) {
	v.live -= v.trees[k].live
	if delete(v.trees, k); now.of == 0 || k.dropped {
		return
	}
	v.live += now.live
	if v.trees == nil {
		v.trees = make(map[*Keyspace]treeValues)
	}
	v.trees[k] = now
}

// valuesLocked is what decisions about a tree go by, nil if no value lies in a log.
func (s *Scheduler) valuesLocked(k *Keyspace) *picker.Values {
	v := &s.values
	if len(v.uses) == 0 {
		return nil
	}
	of := v.trees[k]
	values := &picker.Values{Disk: v.disk, Live: v.live, Of: of.of, Hidden: of.of - of.live,
		Passing: s.opts.Files.DoomedValues(),
		Old:     func(m *manifest.FileMeta) uint64 { return s.oldValuesLocked(k, m) }}
	if v.round != nil {
		values.From = v.round.has
	}
	for _, u := range v.uses {
		switch f := u.File(); {
		case v.round.has(f):
			values.Passing += u.Bytes
		case v.damaged.has(f): // nothing can be done about its garbage
			values.Disk -= u.Garbage()
		}
	}
	return values
}

// oldValuesLocked is how many bytes of values of a table were kept for snapshots that are closed.
func (s *Scheduler) oldValuesLocked(k *Keyspace, m *manifest.FileMeta) uint64 {
	if m.OldValues == 0 || s.heldLocked(k, m.Newest) {
		return 0
	}
	return m.OldValues
}

// reweighValues looks at the values again after snapshots were closed that tables kept some for.
func (s *Scheduler) reweighValues(trees []*Keyspace) {
	s.install.Lock()
	defer s.install.Unlock()
	for _, k := range trees {
		s.mu.Lock()
		k.quiet.of = 0
		s.mu.Unlock()
		s.estimateLive(k)
	}
	s.weighValues()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range trees { // a search for work before may have gone by the old estimate
		s.trees.markDue(k)
	}
}

// watchValuesLocked has a tree looked at again when its writers do not count as fast any more, if
// values take more space than they may then.
func (s *Scheduler) watchValuesLocked(k *Keyspace, c picker.Config) {
	if !c.Fast || c.Values == nil {
		return
	}
	if c.Fast = false; !c.TooManyValues() {
		return
	}
	at := time.Now().Add(fastFor)
	if !k.isWatched || at.Before(k.look) {
		s.trees.watch(k, at)
	}
}

// valueFiles is how a flush or compaction writes value files; nil: it writes none. Compactions
// copy the values of the round.
func (s *Scheduler) valueFiles(pace func(int64), relocates bool) *compact.ValueFiles {
	var round valueFiles
	if relocates {
		s.mu.Lock()
		round = s.values.round
		s.mu.Unlock()
	}
	if round == nil && s.opts.LargeValue == 0 {
		return nil
	}
	v := &compact.ValueFiles{
		Create: func() (uint64, compact.ValueWriter, error) {
			num := s.opts.Manifest.NewFileNum()
			w, err := s.opts.Files.CreateValues(num, pace)
			if err != nil {
				return 0, nil, err
			}
			return num, w, nil
		},
		FileSize: s.limits.Load().FileSize,
		Large:    s.opts.LargeValue,
	}
	if round != nil {
		v.From = round.has
	}
	return v
}

// keepDamaged notes that a value cannot be read: what lies in its file stays there.
func (s *Scheduler) keepDamaged(h base.ValueHandle, err error) {
	f := h.File()
	s.mu.Lock()
	v := &s.values
	known := v.damaged.has(f)
	v.damaged[f] = struct{}{}
	v.round = maps.Clone(v.round)
	delete(v.round, f)
	s.mu.Unlock()
	if !known {
		s.opts.Warn("values stay in a file of which a part cannot be read", err)
	}
}

// countRelocated counts the values that a compaction copied.
func (s *Scheduler) countRelocated(results []compact.Result, err error) {
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range results {
		s.values.relocated += r.Relocated
		s.values.relocatedBytes += r.RelocatedBytes
	}
}

// discardValues deletes value files that are in no version.
func (s *Scheduler) discardValues(nums []uint64) {
	for _, num := range nums {
		s.opts.Files.ObsoleteLog(base.ValueFile{Num: num, InFile: true})
	}
}

// ValueSpace is the bytes of the logs and value files that only references need.
func (s *Scheduler) ValueSpace() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.values.disk
}

// Relocated is how many values compactions copied, and how many bytes they had.
func (s *Scheduler) Relocated() (values, bytes uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.values.relocated, s.values.relocatedBytes
}
