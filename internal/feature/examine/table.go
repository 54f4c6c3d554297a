package examine

import (
	"fmt"
	"path/filepath"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/current"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/store/files"
)

// Table is an open table file.
type Table struct {
	Name string
	// Comparer orders the keys.
	Comparer *base.Comparer
	Props    sstable.Props

	file   vfs.ReadFile
	reader sstable.Reader
	env    files.TableOptions
}

// OpenTable opens the table file at path. A nil comparer means the order that the table names, else
// the order that the MANIFEST beside it names, else that of bytes. With an error that is not one of
// opening the file the Table is not nil: Salvage may read it, and Close closes it.
func OpenTable(fsys vfs.FS, path string, cmp *base.Comparer) (*Table, error) {
	dir := filepath.Dir(path)
	return openTable(fsys, dir, filepath.Base(path), cmp, func() (*Directory, error) {
		return Open(fsys, dir)
	})
}

// OpenTable is OpenTable of a file of the directory. It reads no MANIFEST again.
func (d *Directory) OpenTable(name string) (*Table, error) {
	return openTable(d.fs, d.Path, name, nil, func() (*Directory, error) { return d, nil })
}

func openTable(fsys vfs.FS, dir, name string, cmp *base.Comparer,
	beside func() (*Directory, error)) (*Table, error) {
	t := &Table{Name: name, Comparer: cmp}
	f, err := current.OpenRegular(fsys, dir, t.Name)
	if err != nil {
		return nil, err
	}
	t.file = f
	t.env = files.TableOptions{Name: t.Name, Comparer: base.Bytewise}
	_, _, t.env.FileNum = Kind(t.Name)
	if t.Comparer == nil {
		if t.Comparer, err = t.findComparer(beside); err != nil {
			return t, err
		}
	}
	t.env.Comparer = t.Comparer
	if t.reader, err = files.OpenTable(f, t.env); err != nil {
		return t, err
	}
	t.Props = t.reader.Props()
	return t, nil
}

// findComparer finds the order of the keys. beside is the directory of the table.
func (t *Table) findComparer(beside func() (*Directory, error)) (*base.Comparer, error) {
	props, err := files.TableProps(t.file, t.env)
	name := props.Comparer
	if err != nil || name == "" {
		d, err := beside()
		if err != nil {
			return base.Bytewise, nil
		}
		space, _, ok := d.Table(t.env.FileNum)
		if !ok {
			space = &d.State.KeyspaceState
		}
		name = space.Comparer
	}
	if name == "" {
		return base.Bytewise, nil
	}
	cmp, _ := base.ComparerNamed(name)
	if cmp == nil {
		return base.Bytewise, fmt.Errorf("%w: the keys of %s are in the order %.200q, which is "+
			"not built in", base.ErrComparerMismatch, t.Name, name)
	}
	return cmp, nil
}

// Layout lists the pieces of the file in their order: data blocks first.
func (t *Table) Layout() ([]sstable.Piece, error) { return t.reader.Layout() }

// Scan calls do for every chunk of entries with values that are unpacked, one for each data block,
// from the file and past all caches.
func (t *Table) Scan(do func(block int, e *base.Chunk) error) error {
	src := t.reader.NewSource(sstable.NoFill | sstable.Scan)
	defer src.Close()
	block := -1
	return base.Scan(src, func(e *base.Chunk) error {
		block++
		return do(block, e)
	})
}

// RangeDels calls do for every fragment of a range tombstone.
func (t *Table) RangeDels(do func(start, limit []byte, seq base.SeqNum)) {
	for _, f := range t.reader.RangeDels().Fragments() {
		for _, seq := range f.Seqs {
			do(f.Start, f.Limit, seq)
		}
	}
}

// VerifyMeta checks the pieces without entries.
func (t *Table) VerifyMeta() error { return t.reader.VerifyMeta() }

// Salvage hands out what is readable, and what is not.
func (t *Table) Salvage(out sstable.Salvage) error { return files.SalvageTable(t.file, t.env, out) }

// Size is the length of the file in bytes.
func (t *Table) Size() int64 { return t.file.Size() }

// Close closes the table.
func (t *Table) Close() error {
	if t.reader != nil {
		_ = t.reader.Close()
	}
	return t.file.Close()
}
