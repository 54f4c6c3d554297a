// Package settings reads the options that the drivers of the peers have in
// common.
//
// A Table is constant once made; Values belong to one goroutine.
package settings

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/loamdb/loam/internal/workload/store"
)

// Table is the options of one engine.
type Table struct {
	options []store.Option
	codecs  []string // what compression may be
}

// docs say what the common options mean.
var docs = map[string]string{
	"write_buffer_size":      "size of one memtable",
	"cache_size":             "block cache",
	"block_size":             "size of a table block before compression",
	"block_restart_interval": "entries between restart points of a block",
	"max_file_size":          "size of a table",
	"max_open_files":         "table files kept open",
	"compression":            "codec of blocks",
	"bloom_bits":             "filter bits per key; 0: no filter",
	"prefix_length":          "bytes of prefixes that filters hold; 0: none",
	"compaction_direct_io":   "direct I/O for flushes and compactions; 0: none",
	"max_background_jobs":    "flushes and compactions at once",
	"encryption":             "none, or key: and 64 hexadecimal digits",
	"large_value": "size from which on values are kept apart from keys, in blob files or a value " +
		"log; 0: none are",
	"deletion_window": "adjacent entries of which half are deletions where a table is to be " +
		"compacted, CompactOnDeletionCollector; 0: none is for that",
}

// New makes a table of options with their defaults: pairs of name and value.
func New(codecs []string, pairs ...string) Table {
	t := Table{codecs: codecs}
	for i := 0; i+1 < len(pairs); i += 2 {
		t.options = append(t.options, store.Option{Name: pairs[i], Doc: docs[pairs[i]],
			Default: pairs[i+1]})
	}
	return t
}

// Options lists the table.
func (t Table) Options() []store.Option { return t.options }

// Check returns an error for a wrong setting.
func (t Table) Check(s store.Setting) error {
	if !slices.ContainsFunc(t.options, func(o store.Option) bool { return o.Name == s.Name }) {
		return fmt.Errorf("no option %s", s.Name)
	}
	if s.Name == "compression" {
		if !slices.Contains(t.codecs, s.Value) {
			return fmt.Errorf("option %s: want one of %s", s.Name, strings.Join(t.codecs, ", "))
		}
		return nil
	}
	if s.Name == "encryption" {
		if _, err := key(s.Value); err != nil {
			return fmt.Errorf("option %s: want none, or key: and 64 hexadecimal digits", s.Name)
		}
		return nil
	}
	n, err := size(s.Value)
	if err != nil || n < 0 {
		return fmt.Errorf("option %s: want a number such as 4096 or 64MiB", s.Name)
	}
	return nil
}

// Values are an engine's settings, defaults included.
type Values map[string]string

// Read applies settings to the defaults.
func (t Table) Read(list []store.Setting) (Values, error) {
	v := Values{}
	for _, o := range t.options {
		v[o.Name] = o.Default
	}
	for _, s := range list {
		if err := t.Check(s); err != nil {
			return nil, err
		}
		v[s.Name] = s.Value
	}
	return v, nil
}

// Number returns a setting that Read has checked.
func (v Values) Number(name string) int64 {
	n, err := size(v[name])
	if err != nil {
		return 0
	}
	return n
}

// Key is the key of the setting encryption, nil for none.
func (v Values) Key() []byte {
	k, err := key(v["encryption"])
	if err != nil {
		return nil
	}
	return k
}

func key(s string) ([]byte, error) {
	if s == "none" {
		return nil, nil
	}
	digits, ok := strings.CutPrefix(s, "key:")
	if !ok || len(digits) != 64 {
		return nil, strconv.ErrSyntax
	}
	return hex.DecodeString(digits)
}

// Int is Number for engines that take an int.
func (v Values) Int(name string) int { return int(v.Number(name)) }

var units = []struct {
	suffix string
	shift  uint
}{{"gib", 30}, {"mib", 20}, {"kib", 10}, {"gb", 30}, {"mb", 20}, {"kb", 10}, {"g", 30}, {"m",
	20}, {"k", 10}}

func size(s string) (int64, error) {
	s = strings.ToLower(s)
	for _, u := range units {
		if digits, ok := strings.CutSuffix(s, u.suffix); ok {
			n, err := strconv.ParseInt(digits, 10, 64)
			if err == nil && n > (1<<62)>>u.shift {
				err = strconv.ErrRange
			}
			return n << u.shift, err
		}
	}
	return strconv.ParseInt(s, 10, 64)
}
