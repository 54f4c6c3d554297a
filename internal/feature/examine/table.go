package examine

import (
	"cmp"
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

// OpenTable opens the table file at path. Its keys are in the order that the table names, else in
// that which the MANIFEST beside it names. For a name that is not built in, and without any name,
// the order is other. If that is nil, such a name is an error, and without a name the order is that
// of bytes. With an error that is not one of opening the file the Table is not nil: Salvage may
// read it, and Close closes it.
func OpenTable(fsys vfs.FS, path string, other *base.Comparer) (*Table, error) {
	dir := filepath.Dir(path)
	return openTable(fsys, dir, filepath.Base(path), other, func() (*Directory, error) {
		return Open(fsys, dir)
	})
}

// OpenTable is OpenTable of a file of the directory. It reads no MANIFEST again.
func (d *Directory) OpenTable(name string) (*Table, error) {
	return openTable(d.fs, d.Path, name, d.Other, func() (*Directory, error) { return d, nil })
}

func openTable(fsys vfs.FS, dir, name string, other *base.Comparer,
	beside func() (*Directory, error)) (*Table, error) {
	t := &Table{Name: name}
	f, err := current.OpenRegular(fsys, dir, t.Name)
	if err != nil {
		return nil, err
	}
	t.file = f
	t.env = files.TableOptions{Name: t.Name, Comparer: base.Bytewise}
	_, _, t.env.FileNum = Kind(t.Name)
	if t.Comparer, err = t.findComparer(other, beside); err != nil {
		return t, err
	}
	t.env.Comparer = t.Comparer
	if t.reader, err = files.OpenTable(f, t.env); err != nil {
		return t, err
	}
	t.Props = t.reader.Props()
	return t, nil
}

// findComparer finds the order of the keys, see OpenTable. beside is the directory of the table.
func (t *Table) findComparer(other *base.Comparer,
	beside func() (*Directory, error)) (*base.Comparer, error) {
	unnamed := cmp.Or(other, base.Bytewise)
	props, err := files.TableProps(t.file, t.env)
	name := props.Comparer
	if err != nil || name == "" {
		d, err := beside()
		if err != nil {
			return unnamed, nil
		}
		space, _, ok := d.Table(t.env.FileNum)
		if !ok {
			space = &d.State.KeyspaceState
		}
		name = space.Comparer
	}
	if name == "" {
		return unnamed, nil
	}
	c, _ := base.ComparerNamed(name)
	switch {
	case c == nil && other == nil:
		return base.Bytewise, fmt.Errorf("%w: the keys of %s are in the order %.200q, which is "+
			"not built in", base.ErrComparerMismatch, t.Name, name)
	case c == nil:
		named := *other
		named.Name = name
		return &named, nil
	}
	return c, nil
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
