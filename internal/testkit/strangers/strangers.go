package strangers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/lsm"
)

// act is what a stranger does to a path.
type act struct {
	name string
	do   func(path string) (undo func())
}

// again is the act of doing the same operation under the same name.
const again = "again"

var acts = []act{
	{"remove", func(path string) func() { _ = os.RemoveAll(path); return nil }},
	{"rename", func(path string) func() { _ = os.Rename(path, path+".moved"); return nil }},
	{"truncate", func(path string) func() { cut(path); return nil }},
	{"replace", func(path string) func() { replace(path); return nil }},
	{"read", func(path string) func() { // closing a descriptor drops the fcntl locks of the process
		if f, err := os.Open(path); err == nil {
			_ = f.Close()
		}
		return nil
	}},
	{"lock", func(path string) func() {
		if filepath.Base(path) != base.LockName {
			path = filepath.Join(path, base.LockName)
		}
		l, err := vfs.Default.Lock(path)
		if err != nil {
			return nil
		}
		return func() { _ = l.Close() }
	}},
	{again, nil},
}

// cut takes half of a file away. A file with two names is a table of the database as well, and
// stays.
func cut(path string) {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || shared(path) {
		return
	}
	_ = os.Truncate(path, info.Size()/2)
}

// shared reports whether a file of a copy is one of the database, by another name.
func shared(path string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	top := path
	for filepath.Dir(top) != top {
		top = filepath.Dir(top)
		names, _ := os.ReadDir(filepath.Join(top, "db"))
		for _, name := range names {
			other, err := os.Stat(filepath.Join(top, "db", name.Name()))
			if err == nil && filepath.Join(top, "db", name.Name()) != path &&
				os.SameFile(info, other) {
				return true
			}
		}
	}
	return false
}

// replace puts another file or an empty folder in the place of path.
func replace(path string) {
	info, err := os.Lstat(path)
	if err != nil || os.Rename(path, path+".old") != nil {
		return
	}
	if info.IsDir() {
		_ = os.Mkdir(path, 0o700)
		return
	}
	_ = os.WriteFile(path, make([]byte, info.Size()), 0o600)
}

// pair is a trial: the act is done to the first file of a kind, at the n-th call of the operation
// at which there is one.
type pair struct {
	op   *operation
	act  act
	kind string
	n    int
}

func (p pair) String() string {
	return fmt.Sprintf("%s, %s of %s at call %d", p.op.name, p.act.name, p.kind, p.n)
}

// own reports whether a kind is a file of the database.
func own(kind string) bool { return kind == "db" || strings.HasPrefix(kind, "db/") }

// Runner makes trials in a directory. Its templates are made once.
type Runner struct {
	dir       string
	templates map[lsm.Format]string
	trials    int
	acted     int // trials in which the stranger found something to do
}

// NewRunner makes the templates.
func NewRunner(dir string) (*Runner, error) {
	r := &Runner{dir: dir, templates: map[lsm.Format]string{}}
	for _, format := range []lsm.Format{lsm.FormatNative, lsm.FormatLevelDB} {
		r.templates[format] = filepath.Join(dir, "template-"+format.String())
		w, err := newWorld(r.templates[format], "", format)
		if err == nil {
			err = w.build()
		}
		if err != nil {
			return nil, fmt.Errorf("the template: %w", err)
		}
	}
	return r, nil
}

// Operations are the names of the operations.
func Operations() (names []string) {
	for _, o := range operations {
		names = append(names, o.name)
	}
	return names
}

// sampled is of how many acts on the database's own files Each takes one when it tries each once.
const sampled = 12

// Each makes a trial of the named operation for every act on every kind of file in its reach, n
// times at random calls. Once is a part of the acts on the database's own files: see sampled. It
// returns the failures, some of them if there are many.
func (r *Runner) Each(name string, seed int64, n int) error {
	rng := rand.New(rand.NewPCG(uint64(seed), 27))
	o := &operations[slices.IndexFunc(operations, func(o operation) bool { return o.name == name })]
	seen, err := r.reach(o)
	if err != nil {
		return err
	}
	var failed []error
	for k, kind := range slices.Sorted(maps.Keys(seen)) {
		for j, a := range acts {
			if a.name == again && kind != firstOutside(seen) {
				continue // once for an operation
			}
			if n == 1 && own(kind) && (j+k)%sampled != int(uint64(seed)%sampled) {
				continue
			}
			for range n {
				p := pair{o, a, kind, rng.IntN(seen[kind])}
				if err := r.trial(p); err != nil {
					failed = append(failed, fmt.Errorf("%v: %w", p, err))
				}
				if len(failed) >= 20 {
					return errors.Join(failed...)
				}
			}
		}
	}
	return errors.Join(failed...)
}

// One makes n random trials.
func (r *Runner) One(seed int64, n int) error {
	rng := rand.New(rand.NewPCG(uint64(seed), 28))
	for range n {
		op := &operations[rng.IntN(len(operations))]
		seen, err := r.reach(op)
		if err != nil {
			return err
		}
		kinds := slices.Sorted(maps.Keys(seen))
		kind := kinds[rng.IntN(len(kinds))]
		p := pair{op, acts[rng.IntN(len(acts))], kind, rng.IntN(seen[kind])}
		if err := r.trial(p); err != nil {
			return fmt.Errorf("%v: %w", p, err)
		}
	}
	return nil
}

// firstOutside is a kind that is outside of the database if there is one.
func firstOutside(seen map[string]int) string {
	kinds := slices.Sorted(maps.Keys(seen))
	for _, kind := range kinds {
		if !own(kind) {
			return kind
		}
	}
	return kinds[0]
}

// begin makes a world in which an operation can run.
func (r *Runner) begin(o *operation) (*world, error) {
	r.trials++
	format := lsm.FormatNative
	if o.legacy {
		format = lsm.FormatLevelDB
	}
	w, err := newWorld(filepath.Join(r.dir, fmt.Sprint("trial", r.trials)), r.templates[format],
		format)
	if err == nil && !o.closed {
		err = w.open()
	}
	if err == nil && o.folder {
		err = w.openFolder()
	}
	return w, err
}

// counts reports whether a stranger acts at a call. Reads are too many, and change
// nothing.
func counts(op vfs.Op) bool {
	return op.Kind != vfs.OpRead && op.Kind != vfs.OpMap && op.Kind != vfs.OpTouch &&
		op.Kind != vfs.OpClose
}

// outside reports whether a call is of a place where the engine calls without a lock that a writer
// needs.
func (w *world) outside(op vfs.Op) bool {
	rel, err := filepath.Rel(w.at("db"), op.Name)
	return err != nil || !filepath.IsLocal(rel)
}

// reach runs an operation without a stranger, and returns at how many calls there was a file of
// each kind.
func (r *Runner) reach(o *operation) (map[string]int, error) {
	w, err := r.begin(o)
	if err != nil {
		return nil, err
	}
	seen := map[string]int{}
	var mu sync.Mutex
	w.watch(func(op vfs.Op) {
		if !counts(op) {
			return
		}
		paths := w.paths()
		mu.Lock()
		defer mu.Unlock()
		for kind := range paths {
			if own(kind) || w.outside(op) {
				seen[kind]++
			}
		}
	})
	err = o.run(context.Background(), w)
	w.watch(nil)
	err = errors.Join(err, w.close(), os.RemoveAll(w.top))
	if err != nil {
		err = fmt.Errorf("%s, undisturbed: %w", o.name, err)
	}
	mu.Lock()
	defer mu.Unlock()
	return maps.Clone(seen), err
}

// stranger acts once.
type stranger struct {
	w    *world
	p    pair
	mu   sync.Mutex
	left int
	undo func()
	did  bool
	// early: the stranger took a file out of the unfinished copy while others were made, so that
	// the operation had to notice it.
	early bool
	err   error      // of the writes of the database that follow the act
	twin  chan error // the result of the same operation, if that is the act
}

func (s *stranger) hook(op vfs.Op) {
	if !counts(op) || !own(s.p.kind) && !s.w.outside(op) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.did {
		return
	}
	path, ok := s.w.paths()[s.p.kind]
	if !ok {
		return
	}
	if s.left--; s.left >= 0 {
		return
	}
	s.did = true
	made := op.Kind == vfs.OpCreate || op.Kind == vfs.OpLink || op.Kind == vfs.OpWrite ||
		op.Kind == vfs.OpSync
	s.early = made && strings.Contains(s.p.kind, ".incomplete/") &&
		(s.p.act.name == "remove" || s.p.act.name == "rename")
	s.w.watch(nil)
	if s.p.act.name == again {
		s.twin = make(chan error, 1)
		go func() { s.twin <- s.p.op.run(context.Background(), s.w) }()
		return
	}
	s.undo = s.p.act.do(path)
	if s.w.db != nil && !own(s.p.kind) {
		s.err = s.w.write() // while the operation stands
	}
}

// trial makes one. The files of a failed one stay.
func (r *Runner) trial(p pair) error {
	w, err := r.begin(p.op)
	if err != nil {
		return err
	}
	s := &stranger{w: w, p: p, left: p.n}
	w.watch(s.hook)
	err = p.op.run(context.Background(), w)
	w.watch(nil)
	if s.twin != nil {
		err = errors.Join(err, typed(<-s.twin))
	}
	if s.undo != nil {
		s.undo()
	}
	if s.did {
		r.acted++
	}
	if bad := typed(err); bad != nil {
		return bad
	}
	if own(p.kind) || s.twin != nil && p.op.closed {
		err = s.checkOwn()
	} else {
		err = s.checkUnharmed(err)
	}
	if err != nil {
		return err
	}
	return os.RemoveAll(w.top)
}

// typed fails for an error that a program cannot tell from others, and for a panic.
func typed(err error) error {
	if err == nil {
		return nil
	}
	var panicked *base.Panic
	if errors.As(err, &panicked) {
		return fmt.Errorf("a panic: %w", err)
	}
	for _, known := range []error{
		lsm.ErrDirectoryChanged, lsm.ErrLocked, lsm.ErrExists, lsm.ErrDoesNotExist,
		lsm.ErrCorruption, lsm.ErrNotADatabase, lsm.ErrReadOnly, lsm.ErrInvalidArgument,
		lsm.ErrNeedsNative, io.ErrUnexpectedEOF, fs.ErrNotExist, fs.ErrExist,
	} {
		if errors.Is(err, known) {
			return nil
		}
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		return nil
	}
	return fmt.Errorf("an error without a type: %w", err)
}

// checkUnharmed checks a database of which no file was attacked. failed is the operation's error.
func (s *stranger) checkUnharmed(failed error) error {
	w := s.w
	if s.err != nil {
		return fmt.Errorf("the database, while the operation (%v) stands: %w", failed, s.err)
	}
	if s.p.op.closed {
		if err := w.open(); err != nil {
			return fmt.Errorf("the database, after the operation (%v): %w", failed, err)
		}
	}
	if err := w.db.Metrics().ReadOnly; err != nil {
		return fmt.Errorf("the database is read-only after the operation (%v): %w", failed, err)
	}
	if err := errors.Join(w.write(), s.checkContents(failed)); err != nil {
		return fmt.Errorf("the database, after the operation (%v): %w", failed, err)
	}
	if err := s.checkCopy(failed); err != nil {
		return err
	}
	// The lock still guards the directory.
	if err := os.Remove(w.at("db", base.LockName)); err != nil {
		return err
	}
	if err := w.write(); !errors.Is(err, lsm.ErrDirectoryChanged) {
		return fmt.Errorf("the database, without LOCK, after the operation (%v): %w", failed,
			errors.Join(errors.New("a flush succeeds"), err))
	}
	_ = w.close() // fails, as the flush does
	if err := w.open(); err != nil {
		return fmt.Errorf("opening it again: %w", err)
	}
	return errors.Join(s.checkContents(failed), w.close())
}

func (s *stranger) checkContents(failed error) error {
	got, err := contents(s.w.db)
	if err != nil {
		return err
	}
	with := s.p.op.added(s.w.want)
	if maps.Equal(got, with) || failed != nil && maps.Equal(got, s.w.want) {
		return nil
	}
	return fmt.Errorf("it has %d entries, of %d, or %d with those of the operation", len(got),
		len(s.w.want), len(with))
}

// checkCopy checks a copy that the operation says to have made. A stranger in it may have damaged
// it afterwards, which its opening then tells.
func (s *stranger) checkCopy(failed error) error {
	if s.p.op.copies == "" || failed != nil {
		return nil
	}
	db, err := lsm.Open(s.w.at(s.p.op.copies), &lsm.Options{ErrorIfMissing: true})
	var got map[string]string
	if err == nil {
		got, err = contents(db)
		err = errors.Join(err, db.Close())
	}
	if err != nil && s.did && strings.HasPrefix(s.p.kind, s.p.op.copies) && !s.early {
		return typed(err)
	}
	if err != nil {
		return fmt.Errorf("the copy: %w", err)
	}
	for k, v := range got {
		if s.w.want[k] != v {
			return fmt.Errorf("the copy has %q, which is not in the database", k)
		}
	}
	if len(got) < entries {
		return fmt.Errorf("the copy has %d entries of %d", len(got), entries)
	}
	return nil
}

// checkOwn checks a database of which a file was attacked: what opens has nothing that was never
// written.
func (s *stranger) checkOwn() error {
	w := s.w
	_ = w.close()
	if err := w.open(); err != nil {
		return typed(err)
	}
	got, err := contents(w.db)
	if err := errors.Join(typed(err), typed(w.close())); err != nil {
		return err
	}
	with := s.p.op.added(w.want)
	for k, v := range got {
		if with[k] != v && v != "more" {
			return fmt.Errorf("%q was never written", k)
		}
	}
	return nil
}

// Acted is how many trials there were, and in how many the stranger found something to do.
func (r *Runner) Acted() (trials, acted int) { return r.trials, r.acted }
