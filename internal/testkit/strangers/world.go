package strangers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sync"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/backup"
)

// world is the directory of one trial: the database in db, and beside it what an operation reads
// and writes.
type world struct {
	top    string
	format lsm.Format
	fs     lsm.FS // calls the stranger's hook, and then the operating system
	db     *lsm.DB
	folder *backup.Folder
	want   map[string]string // what the database has
	puts   int

	mu   sync.Mutex
	hook func(op vfs.Op) // nil: no operation is watched
}

// newWorld makes a world from the files of a template, none if that is "".
func newWorld(top, template string, format lsm.Format) (*world, error) {
	w := &world{top: top, format: format, want: map[string]string{}}
	w.fs = vfs.NewFault(vfs.Default, func(op vfs.Op) vfs.Outcome {
		w.mu.Lock()
		hook := w.hook
		w.mu.Unlock()
		if hook != nil {
			hook(op)
		}
		return vfs.Outcome{}
	})
	if template == "" {
		return w, os.MkdirAll(top, 0o700)
	}
	for i := range entries {
		w.want[key(i)] = value(i)
	}
	return w, os.CopyFS(top, os.DirFS(template))
}

const entries = 600 // of the database

func key(i int) string   { return fmt.Sprintf("key%05d", i*7919%entries) }
func value(i int) string { return fmt.Sprintf("value%05d-%0200d", i, i) }

func (w *world) at(names ...string) string {
	return filepath.Join(append([]string{w.top}, names...)...)
}

func (w *world) options() *lsm.Options {
	return &lsm.Options{FS: w.fs, Format: w.format, WriteBufferSize: 64 << 10,
		MaxFileSize: 64 << 10, WALPreallocate: -1}
}

// watch has every call of the file system call hook, until it is nil.
func (w *world) watch(hook func(op vfs.Op)) {
	w.mu.Lock()
	w.hook = hook
	w.mu.Unlock()
}

func (w *world) open() (err error) {
	w.db, err = lsm.Open(w.at("db"), w.options())
	return err
}

func (w *world) openFolder() (err error) {
	w.folder, err = backup.Open(w.at("folder"), &backup.Options{FS: w.fs})
	return err
}

// build writes the files of a template: a database with tables and a log, a folder with its
// backup, a table of other keys, a dump.
func (w *world) build() error {
	if err := w.open(); err != nil {
		return err
	}
	for i := range entries {
		w.want[key(i)] = value(i)
		if err := w.db.Put([]byte(key(i)), []byte(value(i)), lsm.NoSync); err != nil {
			return err
		}
		if i == entries/2 || i == entries*3/4 {
			if err := w.db.Flush(); err != nil {
				return err
			}
		}
	}
	err := w.openFolder()
	if err == nil {
		_, err = w.folder.Create(context.Background(), w.db, nil)
	}
	if err == nil {
		err = os.Mkdir(w.at("outside"), 0o700)
	}
	if err == nil {
		err = writeTable(w.at("outside", "table"), w.options())
	}
	if err == nil {
		err = writeDump(w.db, w.at("outside", "dump"))
	}
	return errors.Join(err, w.close())
}

// writeTable writes a table with keys that the database does not have.
func writeTable(path string, o *lsm.Options) error {
	t, err := lsm.NewTableWriter(path, o)
	for i := 0; i < 50 && err == nil; i++ {
		err = t.Put(fmt.Appendf(nil, "table%05d", i), []byte(value(i)))
	}
	if err == nil {
		err = t.Finish()
	}
	if t != nil {
		err = errors.Join(err, t.Close())
	}
	return err
}

// write puts one key more, durably, and flushes it.
func (w *world) write() error {
	k := fmt.Sprintf("more%05d", w.puts)
	if err := w.db.Put([]byte(k), []byte("more"), lsm.Sync); err != nil {
		return fmt.Errorf("a write: %w", err)
	}
	w.puts++
	w.want[k] = "more"
	if err := w.db.Flush(); err != nil {
		return fmt.Errorf("a flush: %w", err)
	}
	return nil
}

func (w *world) close() (err error) {
	if w.folder != nil {
		err = w.folder.Close()
	}
	if w.db != nil {
		err = errors.Join(err, w.db.Close())
	}
	w.folder, w.db = nil, nil
	return err
}

// contents is what a database has.
func contents(r lsm.Reader) (map[string]string, error) {
	got := map[string]string{}
	it := r.Iter(nil)
	for ok := it.First(); ok; ok = it.Next() {
		got[string(it.Key())] = string(it.Value())
	}
	return got, errors.Join(it.Err(), it.Close())
}

// digits are what tells the files of one kind apart.
var digits = regexp.MustCompile(`[0-9a-f]*[0-9][0-9a-f]*`)

// kindOf is the path below the world of a file, without numbers.
func kindOf(rel string) string { return digits.ReplaceAllString(filepath.ToSlash(rel), "#") }

// paths lists the files and folders of a world by kind, one of each.
func (w *world) paths() map[string]string {
	found := map[string]string{}
	_ = filepath.WalkDir(w.top, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || path == w.top {
			return nil // something goes while the walk is under way
		}
		rel, _ := filepath.Rel(w.top, path)
		if kind := kindOf(rel); found[kind] == "" {
			found[kind] = path
		}
		return nil
	})
	return found
}
