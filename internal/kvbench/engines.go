package kvbench

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/loamdb/loam/internal/kvbench/runner"
	"github.com/loamdb/loam/internal/workload/store"
)

// apart reports whether engines are compared.
func (s *session) apart() bool { return len(s.drivers) > 1 }

// processes reports whether every run is a process of its own.
func (s *session) processes() bool { return s.apart() || s.c.memory > 0 }

// turn is one run of the schedule.
type turn struct {
	driver store.Driver
	pair   string
	round  int
}

// schedule is the order of runs. Engines are measured in pairs with the first,
// in the order A B B A: what the machine loses or gains meanwhile falls on both.
func (s *session) schedule() []turn {
	var all []turn
	if !s.apart() {
		for i := range s.c.rounds {
			all = append(all, turn{s.driver, "", i + 1})
		}
		return all
	}
	for _, peer := range s.drivers[1:] {
		for i := range s.c.rounds {
			pair := []turn{{s.driver, peer.Name(), i + 1}, {peer, s.driver.Name(), i + 1}}
			if i%2 == 1 {
				slices.Reverse(pair)
			}
			all = append(all, pair...)
		}
	}
	return all
}

// matched are the settings that every engine of a comparison gets, unless the
// command line says otherwise: a cache of four times the data, at most half of
// the machine's memory, or a quarter of --memory.
func (s *session) matched(p *runner.Params) []store.Setting {
	if !s.apart() {
		return nil
	}
	cache := max(4*p.Num*int64(p.Keys.Len()+p.ValueSize), 8<<20)
	if s.env.Memory > 0 {
		cache = min(cache, s.env.Memory/2)
	}
	if s.c.memory > 0 {
		cache = min(cache, s.c.memory/4)
	}
	return []store.Setting{
		{Name: "write_buffer_size", Value: "64MiB"},
		{Name: "cache_size", Value: strconv.FormatInt(cache, 10)},
		{Name: "block_size", Value: "4096"},
		{Name: "compression", Value: "snappy"},
		{Name: "bloom_bits", Value: "10"},
		{Name: "max_open_files", Value: "50000"},
		{Name: "max_background_jobs", Value: "2"},
	}
}

// overridden reports whether a later setting of the same name replaces settings[i].
func overridden(settings []store.Setting, i int) bool {
	return slices.ContainsFunc(settings[i+1:], func(s store.Setting) bool {
		return s.Name == settings[i].Name
	})
}

// filter takes out of a plan what its engine does not have. A single engine was
// checked when the command line was read.
func (s *session) filter(p *plan) {
	var kept []store.Setting
	for i, set := range p.settings {
		switch {
		case overridden(p.settings, i):
		case hasOption(p.driver, set.Name) && p.driver.Check(set) == nil:
			kept = append(kept, set)
		default:
			p.ignored = append(p.ignored, set)
		}
	}
	p.settings = kept
	if len(p.ignored) > 0 {
		fmt.Fprintf(s.out, "%s goes without%s\n", p.driver.Title(), settingsText(p.ignored))
	}
}
