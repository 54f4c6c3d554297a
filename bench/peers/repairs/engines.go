package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/syndtr/goleveldb/leveldb"

	"github.com/loamdb/loam/lsm"
)

// maker is a directory, and the engines that repair it.
type maker struct {
	dir     string
	engines []engine
}

// engine repairs a directory, and reads it.
type engine struct {
	name   string
	repair func(dir string) error
	dump   func(dir string) (map[string]string, error)
}

// columns are the names of engines in the order of the table. LevelDB's directory is repaired by
// three of them.
var columns = []string{"LevelDB", "goleveldb", "Loam", "RocksDB", "Loam, native"}

// makers writes the history into directories: one of LevelDB's, written by LevelDB or else by
// goleveldb, one of RocksDB's and a native one.
func makers(temp string) ([]maker, error) {
	old := maker{dir: filepath.Join(temp, "leveldb"),
		engines: []engine{{"goleveldb", goRepair, goDump}, {"Loam", repair, dump}}}
	native := maker{dir: filepath.Join(temp, "native"),
		engines: []engine{{"Loam, native", repair, dump}}}
	program := filepath.Join(temp, "engine")
	source := filepath.Join("refusal", "testdata", "engine.c")
	if out, err := exec.Command("cc", "-o", program, source, "-ldl").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	all := []maker{native}
	level := &library{program, fallback("LEVELDB", "libleveldb.so"), "leveldb"}
	err := level.play(old.dir)
	switch {
	case errors.Is(err, errNotInstalled):
		fmt.Fprintln(os.Stderr, "LevelDB is left out:", err)
		err = goPlay(old.dir)
	case err == nil:
		old.engines = append(old.engines, engine{"LevelDB", level.repair, level.dump})
	}
	if err != nil {
		return nil, err
	}
	all = append(all, old)
	rocks := &library{program, fallback("ROCKSDB", "librocksdb.so"), "rocksdb"}
	m := maker{dir: filepath.Join(temp, "rocksdb"),
		engines: []engine{{"RocksDB", rocks.repair, rocks.dump}}}
	switch err := rocks.play(m.dir); {
	case errors.Is(err, errNotInstalled):
		fmt.Fprintln(os.Stderr, "RocksDB is left out:", err)
	case err != nil:
		return nil, err
	default:
		all = append(all, m)
	}
	return all, play(native.dir)
}

func fallback(env, name string) string {
	if v := os.Getenv(env); v != "" {
		return v
	}
	return name
}

// play writes the history into a native directory.
func play(dir string) error {
	db, err := lsm.Open(dir, &lsm.Options{DisableCompaction: true, MaxFileSize: 1 << 20,
		Compression: lsm.NoCompression, WALPreallocate: -1})
	if err != nil {
		return err
	}
	for n, p := range phases {
		for _, o := range p.ops(n) {
			if o.value == "" {
				err = db.Delete([]byte(o.key), lsm.NoSync)
			} else {
				err = db.Put([]byte(o.key), []byte(o.value), lsm.NoSync)
			}
			if err != nil {
				return errors.Join(err, db.Close())
			}
		}
		switch {
		case p.compact:
			err = db.CompactRange(nil, nil)
		case n < len(phases)-1:
			err = db.Flush()
		}
		if err != nil {
			return errors.Join(err, db.Close())
		}
	}
	return db.Close()
}

func repair(dir string) error {
	_, err := lsm.Repair(dir, nil)
	return err
}

func dump(dir string) (map[string]string, error) {
	db, err := lsm.Open(dir, &lsm.Options{ErrorIfMissing: true})
	if err != nil {
		return nil, err
	}
	got := map[string]string{}
	for key, value := range db.All(nil, nil, &err) {
		got[string(key)] = string(value)
	}
	return got, errors.Join(err, db.Close())
}

// goPlay writes the history with goleveldb.
func goPlay(dir string) error {
	for n, p := range phases {
		db, err := leveldb.OpenFile(dir, nil)
		if err != nil {
			return err
		}
		for _, o := range p.ops(n) {
			if o.value == "" {
				err = errors.Join(err, db.Delete([]byte(o.key), nil))
			} else {
				err = errors.Join(err, db.Put([]byte(o.key), []byte(o.value), nil))
			}
		}
		if err := errors.Join(err, db.Close()); err != nil {
			return err
		}
	}
	return nil
}

func goRepair(dir string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	db, err := leveldb.RecoverFile(dir, nil)
	if err == nil {
		err = db.Close()
	}
	return err
}

func goDump(dir string) (map[string]string, error) {
	db, err := leveldb.OpenFile(dir, nil)
	if err != nil {
		return nil, err
	}
	got := map[string]string{}
	it := db.NewIterator(nil, nil)
	for it.Next() {
		got[string(it.Key())] = string(it.Value())
	}
	it.Release()
	return got, errors.Join(it.Error(), db.Close())
}

// library is LevelDB or RocksDB, in a process of its own.
type library struct{ program, file, prefix string }

var errNotInstalled = errors.New("its library is not installed")

// run returns what the program printed before "accepted".
func (l *library) run(mode, dir, input string) (string, error) {
	cmd := exec.Command(l.program, l.file, l.prefix, mode, dir)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &errs
	if err := cmd.Run(); err != nil {
		if strings.Contains(errs.String(), "cannot open shared object file") {
			return "", errNotInstalled
		}
		fmt.Fprintf(os.Stderr, "%s %s: %v: %s", l.prefix, mode, err, errs.String())
		return "", errors.New("crashes")
	}
	text, accepted := strings.CutSuffix(out.String(), "accepted\n")
	if !accepted {
		lines := strings.Split(strings.TrimSpace(text), "\n")
		return "", errors.New(lines[len(lines)-1])
	}
	return text, nil
}

func (l *library) play(dir string) error {
	var b strings.Builder
	for n, p := range phases {
		for _, o := range p.ops(n) {
			if o.value == "" {
				fmt.Fprintln(&b, "d", o.key)
			} else {
				fmt.Fprintln(&b, "p", o.key, o.value)
			}
		}
		switch {
		case p.compact:
			fmt.Fprintln(&b, "c")
		case n < len(phases)-1:
			fmt.Fprintln(&b, "o")
		}
	}
	_, err := l.run("play", dir, b.String())
	return err
}

func (l *library) repair(dir string) error {
	_, err := l.run("repair", dir, "")
	return err
}

func (l *library) dump(dir string) (map[string]string, error) {
	text, err := l.run("dump", dir, "")
	got := map[string]string{}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		got[key] = value
	}
	return got, err
}
