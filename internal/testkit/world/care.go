package world

import (
	"context"
	"fmt"
	"strings"

	"github.com/loamdb/loam/lsm"
)

// care are the steps that change nothing that reads see.
var care = []step{
	{"flush", 16, false, (*World).flush},
	{"compact", 12, false, (*World).compact},
	{"pause or resume compaction", 6, false, func(w *World) error {
		if w.paused = !w.paused; w.paused {
			w.db.PauseCompaction()
		} else {
			w.db.ResumeCompaction()
		}
		return w.db.Resume()
	}},
	{"verify", 6, false, func(w *World) error { return w.db.Verify(context.Background(), nil) }},
	{"set an option", 8, false, (*World).set},
	{"look", 8, false, (*World).look},
}

func (w *World) compact() error {
	s := w.space()
	from, to := w.stretch(s)
	w.log("%s %d:%d", s.name, from, to)
	switch w.rng.IntN(3) {
	case 0:
		return w.store(s).CompactRange(nil, nil)
	case 1:
		return w.store(s).CompactRangeContext(context.Background(), w.bound(s, from),
			w.bound(s, to))
	}
	return w.store(s).CompactRange(w.bound(s, from), w.bound(s, to))
}

func (w *World) set() error {
	name, value := choose(w.rng, "write_buffer_size", "block_size", "l0_compaction", "compression",
		"bloom_bits"), ""
	switch name {
	case "write_buffer_size":
		value = choose(w.rng, "65536", "1048576")
	case "block_size":
		value = choose(w.rng, "256", "4096")
	case "l0_compaction":
		value = choose(w.rng, "1", "4")
	case "compression":
		value = choose(w.rng, "none", "snappy", "zstd")
	case "bloom_bits":
		value = choose(w.rng, "0", "10")
	}
	w.log("%s = %s", name, value)
	if s := w.space(); s.ks != nil && w.rng.IntN(2) == 0 && name != "l0_compaction" {
		if err := s.ks.SetOption(name, value); err != nil {
			return err
		}
		_, err := s.ks.Option(name)
		return err
	}
	if err := w.db.SetOption(name, value); err != nil {
		return err
	}
	got, err := w.db.Option(name)
	if err != nil || !strings.HasPrefix(got, value) {
		return fmt.Errorf("option %s is %q, %w; want %q", name, got, err, value)
	}
	return nil
}

func (w *World) look() error {
	s := w.space()
	if _, err := w.store(s).ApproximateSizes([]lsm.Range{{}, {Start: w.bound(s, 0)}}); err != nil {
		return err
	}
	if m := w.store(s).Metrics(); m.LastSequence != w.db.Metrics().LastSequence {
		return fmt.Errorf("a keyspace has another last sequence number, %d", m.LastSequence)
	}
	if _, ok := w.store(s).Property("leveldb.stats"); !ok {
		return fmt.Errorf("no property leveldb.stats")
	}
	return nil
}
