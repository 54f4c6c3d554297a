package strangers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/lsm"
)

// reaches are the operations of Taken, and which files they make or read, by the beginnings of
// their paths below the world's directory. Of an upgrade these are the database's own.
var reaches = map[string][]string{
	"checkpoint": {"copy"},
	"backup":     {"folder"},
	"restore":    {"copy", "folder"},
	"export":     {"copy"},
	"upgrade":    {"db"},
	"table":      {"outside/another"},
	"ingest":     {"outside/table"},
}

// TakenOperations are the operations of Taken: those that make a copy, a backup or a table, and an
// upgrade, which makes a database of the same files.
func TakenOperations() []string { return slices.Sorted(maps.Keys(reaches)) }

// takes are the acts of Taken.
var takes = []string{"remove", "replace", "truncate"}

// taken is a trial: the file rel is taken at call n of the operation.
type taken struct {
	op  *operation
	act act
	rel string
	n   int
}

func (x taken) String() string {
	return fmt.Sprintf("%s, %s of %s at call %d", x.op.name, x.act.name, x.rel, x.n)
}

// Taken removes, replaces and cuts each file that an operation makes or reads outside of the
// database, at each call of the operation at which the file is there; every one of them with stride
// 1. The operation fails then, or what it made is whole. The calls of the last look are left out:
// a file that goes after it is a file of a finished copy.
func (r *Runner) Taken(name string, stride, first int) error {
	o := &operations[slices.IndexFunc(operations, func(o operation) bool { return o.name == name })]
	steps, err := r.steps(o)
	if err != nil {
		return err
	}
	var failed []error
	at := first
	for n, files := range steps {
		for _, rel := range files {
			for _, take := range takes {
				if at++; at%stride != 0 {
					continue
				}
				x := taken{o, acts[slices.IndexFunc(acts, func(a act) bool {
					return a.name == take
				})], rel, n}
				if err := r.take(x); err != nil {
					failed = append(failed, fmt.Errorf("%v: %w", x, err))
				}
				if len(failed) >= 20 {
					return errors.Join(failed...)
				}
			}
		}
	}
	return errors.Join(failed...)
}

// steps are the files at each call of an operation, up to the last look.
func (r *Runner) steps(o *operation) (steps [][]string, err error) {
	w, err := r.begin(o)
	if err != nil {
		return nil, err
	}
	before := w.files(o)
	var mu sync.Mutex
	end := 0
	w.watch(func(op vfs.Op) {
		mu.Lock()
		defer mu.Unlock()
		if counts(op) {
			steps = append(steps, w.files(o))
		}
		if o.lookFollows(w, op) && (o.name != "upgrade" || end == 0) {
			end = len(steps)
		}
	})
	err = o.run(context.Background(), w)
	w.watch(nil)
	err = errors.Join(err, w.close(), os.RemoveAll(w.top))
	if err != nil {
		return nil, fmt.Errorf("%s, undisturbed: %w", o.name, err)
	}
	for i := range steps[:end] {
		steps[i] = slices.DeleteFunc(steps[i], func(rel string) bool {
			// Older backups are not those of the operation. A LevelDB log that was cut before it
			// was read looks complete.
			return o.name == "backup" && slices.Contains(before, rel) ||
				o.name == "upgrade" && filepath.Ext(rel) == ".log" ||
				filepath.Base(rel) == base.LockName
		})
	}
	return steps[:end], nil
}

// lookFollows reports whether the last look of an operation comes after a call: it only looks, but
// for an upgrade's, which opens the database again.
func (o *operation) lookFollows(w *world, op vfs.Op) bool {
	if o.name == "upgrade" {
		return op.Kind == vfs.OpClose && filepath.Base(op.Name) == base.LockName
	}
	return counts(op) && op.Kind != vfs.OpStat && (o.name == "ingest" || w.outside(op))
}

// files lists the regular files in reach of an operation, sorted.
func (w *world) files(o *operation) (found []string) {
	_ = filepath.WalkDir(w.top, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil // something goes while the walk is under way
		}
		rel, _ := filepath.Rel(w.top, path)
		if slices.ContainsFunc(reaches[o.name], func(begin string) bool {
			return strings.HasPrefix(filepath.ToSlash(rel), begin)
		}) {
			found = append(found, rel)
		}
		return nil
	})
	return found
}

func (r *Runner) take(x taken) error {
	w, err := r.begin(x.op)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	left, did := x.n, false
	before := false // the last look
	w.watch(func(op vfs.Op) {
		mu.Lock()
		defer mu.Unlock()
		if did {
			before = before || x.op.lookFollows(w, op)
		}
		if !counts(op) || did {
			return
		}
		if left--; left >= 0 {
			return
		}
		did = true
		if path := w.at(x.rel); !shared(path) || x.act.name != "truncate" {
			if _, err := os.Lstat(path); err == nil {
				r.acted++
				x.act.do(path)
			}
		}
	})
	err = x.op.run(context.Background(), w)
	w.watch(nil)
	if bad := typed(err); bad != nil {
		return bad
	}
	if err == nil && before {
		err = w.checkMade(x.op)
	} else {
		err = nil
	}
	if err = errors.Join(err, w.close()); err != nil {
		return err
	}
	return os.RemoveAll(w.top)
}

// checkMade reads whole what an operation made that did not fail.
func (w *world) checkMade(o *operation) error {
	switch o.name {
	case "backup":
		all, err := w.folder.List()
		if err != nil {
			return err
		}
		return w.folder.Verify(context.Background(), all[len(all)-1].ID, nil)
	case "upgrade":
		return w.checkDatabase("db", w.want)
	case "ingest":
		got, err := contents(w.db)
		if err == nil && !maps.Equal(got, o.added(w.want)) {
			err = fmt.Errorf("the database has %d entries", len(got))
		}
		return err
	case "table":
		return w.db.Ingest(context.Background(), nil, w.at("outside", "another"))
	}
	return w.checkDatabase(o.copies, w.want)
}

// checkDatabase reads a database whole.
func (w *world) checkDatabase(name string, want map[string]string) error {
	db, err := lsm.Open(w.at(name), &lsm.Options{ErrorIfMissing: true})
	if err != nil {
		return err
	}
	report := db.RecoveryReport()
	got, err := contents(db)
	if err = errors.Join(err, db.Verify(context.Background(), nil), db.Close()); err != nil {
		return err
	}
	if !maps.Equal(got, want) || len(report.Dropped) > 0 {
		return fmt.Errorf("%s has %d entries of %d; %+v", name, len(got), len(want), report)
	}
	return nil
}
