package main

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/loamdb/loam/internal/feature/examine"
	"github.com/loamdb/loam/lsm"
)

// damage is one way in which a directory of any of the engines is damaged.
type damage struct {
	name string
	do   func(dir string) error
}

var damages = []damage{
	{"MANIFEST missing", on(manifests, os.Remove)},
	{"CURRENT missing", func(dir string) error {
		return os.RemoveAll(filepath.Join(dir, "CURRENT"))
	}},
	{"MANIFEST empty", on(manifests, func(path string) error { return os.Truncate(path, 0) })},
	{"MANIFEST, a bit in the middle", on(manifests, flip(middle))},
	{"log, a bit in the middle", on(log, flip(middle))},
	{"log cut after two thirds", on(log, cut)},
	{"log missing", on(log, os.Remove)},
	{"table, a bit in a data block", on(largest, flip(third))},
	{"table, a bit in the index block", on(largest, flip(indexBlock))},
	{"table, 4 KiB of zeros", on(largest, zeros)},
	{"table cut after two thirds", on(largest, cut)},
	{"table missing", on(largest, os.Remove)},
	{"newest table missing", on(newestTable, os.Remove)},
	{"two tables swapped", swap},
}

// names are the files of a kind in dir, by number: the names of all three formats have leading
// zeros. The newest is the last one.
type names func(dir string) ([]string, error)

func glob(patterns ...string) names {
	return func(dir string) (all []string, err error) {
		for _, p := range patterns {
			found, err := filepath.Glob(filepath.Join(dir, p))
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
		}
		if len(all) == 0 {
			return nil, fmt.Errorf("no %q", patterns)
		}
		slices.Sort(all)
		return all, nil
	}
}

var (
	manifests = glob("MANIFEST-*", "*.manifest")
	tables    = glob("*.ldb", "*.sst", "*.loam")
	logs      = glob("*.log", "*.wal")
)

// log is the log with the newest phase.
func log(dir string) ([]string, error) { return only(logs, bySize)(dir) }

// largest is a table of the first phase.
func largest(dir string) ([]string, error) { return only(tables, bySize)(dir) }

// newestTable has the phase before the last one.
func newestTable(dir string) ([]string, error) { return only(tables, cmp.Compare[string])(dir) }

// only is the greatest of all names.
func only(all names, order func(a, b string) int) names {
	return func(dir string) ([]string, error) {
		found, err := all(dir)
		if err != nil {
			return nil, err
		}
		return []string{slices.MaxFunc(found, order)}, nil
	}
}

func bySize(a, b string) int { return cmp.Compare(size(a), size(b)) }

func size(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// on damages each of some files.
func on(which names, do func(path string) error) func(dir string) error {
	return func(dir string) error {
		paths, err := which(dir)
		for _, path := range paths {
			err = errors.Join(err, do(path))
		}
		return err
	}
}

// place is where in a file the damage is.
type place func(path string, contents []byte) (int, error)

func middle(_ string, b []byte) (int, error) { return len(b) / 2, nil }
func third(_ string, b []byte) (int, error)  { return len(b) / 3, nil }

func flip(where place) func(path string) error {
	return change(where, func(b []byte) { b[0] ^= 4 })
}

func zeros(path string) error {
	return change(third, func(b []byte) { clear(b[:min(4096, len(b))]) })(path)
}

func change(where place, do func(b []byte)) func(path string) error {
	return func(path string) error {
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		at, err := where(path, b)
		if err != nil || at >= len(b) {
			return fmt.Errorf("%s: no place for damage: %w", path, err)
		}
		do(b[at:])
		return os.WriteFile(path, b, 0o600)
	}
}

func cut(path string) error { return os.Truncate(path, size(path)*2/3) }

// indexBlock is the middle of a table's index.
func indexBlock(path string, b []byte) (int, error) {
	t, err := examine.OpenTable(lsm.OSFS(), path, nil)
	if err != nil { // RocksDB's: the footer has a byte, the handles of metaindex and index, ...
		footer := b[max(len(b)-53, 0):][1:]
		for range 2 {
			_, n := binary.Uvarint(footer)
			footer = footer[n:]
		}
		at, n := binary.Uvarint(footer)
		length, _ := binary.Uvarint(footer[n:])
		return int(at + length/2), nil
	}
	defer t.Close()
	pieces, err := t.Layout()
	if err != nil {
		return 0, err
	}
	for _, p := range pieces {
		if p.Name == "index" {
			return int(p.Offset + p.Length/2), nil
		}
	}
	return 0, fmt.Errorf("%s has no index", path)
}

// swap exchanges the newest table and one of the first phase.
func swap(dir string) error {
	a, err := newestTable(dir)
	b, err2 := largest(dir)
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	aside := a[0] + ".aside"
	return errors.Join(os.Rename(a[0], aside), os.Rename(b[0], a[0]), os.Rename(aside, b[0]))
}
