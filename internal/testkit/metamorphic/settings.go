package metamorphic

import (
	"errors"
	"fmt"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/lsm"
)

// dynamic is an option that changes while a database is open, and values of it as Option gives
// them.
type dynamic struct {
	name   string
	values []string
	each   bool // keyspaces have their own
}

var changeable = []dynamic{
	{"write_buffer_size", []string{"65536", "131072", "1048576"}, true},
	{"block_size", []string{"256", "1024", "4096", "65536"}, true},
	{"block_restart_interval", []string{"1", "3", "16"}, true},
	{"compression", []string{"none", "snappy", "zstd", "none,snappy,zstd"}, true},
	{"prefix_length", []string{"0", "3"}, true},
	{"zstd_level", []string{"1", "3"}, true},
	{"bloom_bits", []string{"0", "5", "10"}, true},
	{"leveldb_filter", []string{"true", "false"}, true},
	{"max_memtables", []string{"2", "3", "5"}, false},
	{"max_memtable_bytes", []string{"200000", "1000000"}, false},
	{"max_open_files", []string{"4", "30"}, false},
	{"max_file_size", []string{"65536", "300000"}, false},
	{"max_background_jobs", []string{"1", "3"}, false},
	{"max_subcompactions", []string{"1", "3"}, false},
	{"compaction_rate", []string{"0", "50000000"}, false},
	{"l0_compaction", []string{"1", "2", "6"}, false},
	{"l0_stop", []string{"20", "40"}, false},
	{"max_space_amplification", []string{"1.1", "2", "10"}, false},
	{"max_wal_size", []string{"100000", "1000000"}, false},
}

// settings is what was set since the opening, by keyspace; "" is the database.
type settings map[string]map[string]string

func newSettings() settings { return settings{} }

func (s settings) set(space, name, value string) {
	if s[space] == nil {
		s[space] = map[string]string{}
	}
	s[space][name] = value
}

// setOption sets an option of the database or of a keyspace. It then has the value, in that
// keyspace or in all that have none of their own. Options that are fixed are refused.
func (w *world) setOption(o *op) error {
	c := changeable[o.n%len(changeable)]
	value := c.values[o.n/len(changeable)%len(c.values)]
	sp := w.space(o)
	if err := w.db.SetOption("comparator", w.cmp.Name); !errors.Is(err, lsm.ErrInvalidArgument) {
		return fmt.Errorf("another comparer: %v", err)
	}
	if sp.ks == nil || o.n/1000%3 == 0 {
		if err := w.db.SetOption(c.name, value); err != nil {
			return err
		}
		w.options.set("", c.name, value)
		return w.checkOptions()
	}
	err := sp.ks.SetOption(c.name, value)
	if !c.each {
		if !errors.Is(err, lsm.ErrInvalidArgument) {
			return fmt.Errorf("%s of a keyspace: %v", c.name, err)
		}
		return w.checkOptions()
	}
	w.options.set(sp.name, c.name, value)
	return errors.Join(err, w.checkOptions())
}

// checkOptions compares the options in force with those that were set.
func (w *world) checkOptions() error {
	for name, want := range w.options[""] {
		if got, err := w.db.Option(name); got != want || err != nil {
			return fmt.Errorf("option %s is %s, %v; want %s", name, got, err, want)
		}
	}
	for i := range w.spaces {
		sp := &w.spaces[i]
		if sp.ks == nil || sp.name == base.DefaultKeyspaceName {
			continue
		}
		for name, want := range w.options[""] {
			if own, ok := w.options[sp.name][name]; ok {
				want = own
			}
			if got, err := sp.ks.Option(name); got != want || err != nil {
				return fmt.Errorf("option %s of keyspace %s is %s, %v; want %s", name, sp.name, got,
					err, want)
			}
		}
		for name, want := range w.options[sp.name] {
			if got, err := sp.ks.Option(name); got != want || err != nil {
				return fmt.Errorf("option %s of keyspace %s is %s, %v; want %s", name, sp.name, got,
					err, want)
			}
		}
	}
	return nil
}
