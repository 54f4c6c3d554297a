package seal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
)

// headerWithin bounds where a Header begins: at the beginning of a file, or behind the header of a
// log's first chunk and record.Begin.
const headerWithin = 64

// errNothing is the error for a file of zeros, which stands ready to be the next log.
var errNothing = errors.New("nothing was written to the file")

// find returns the Header of a file of any kind, nil if there is none, or errNothing.
func find(r io.ReaderAt) (*Header, error) {
	var b [headerWithin + HeaderLen]byte
	n, err := r.ReadAt(b[:], 0)
	if n < len(b) && err != nil && err != io.EOF {
		return nil, err
	}
	if len(bytes.Trim(b[:n], "\x00")) == 0 {
		return nil, errNothing
	}
	at := bytes.Index(b[:n], []byte(Magic))
	if at >= copyLen { // the first copy is damaged
		at -= copyLen
	}
	if at < 0 || at > headerWithin {
		return nil, nil
	}
	if h := Salvage(b[at:n]); h != nil {
		return h, nil
	}
	return Decode(b[at:n])
}

// Each calls f with the Header, nil if there is none, of each file in dir of a kind that can have
// one. It passes over empty files, and over a Header with two damaged copies. fsys is below an FS.
func Each(fsys vfs.FS, dir string, f func(name string, h *Header) error) error {
	names, err := fsys.List(dir)
	if err != nil {
		return fmt.Errorf("listing %s: %w", dir, err)
	}
	for _, name := range names {
		if t, _ := parse(name); t == base.FileUnknown {
			continue
		}
		h, err := headerOf(fsys, filepath.Join(dir, name))
		switch {
		case errors.Is(err, base.ErrCorruption), errors.Is(err, fs.ErrNotExist),
			errors.Is(err, vfs.ErrNotRegular), err == errNothing:
			continue
		case err != nil:
			return fmt.Errorf("reading %s: %w", name, err)
		}
		if err := f(name, h); err != nil {
			return err
		}
	}
	return nil
}

func headerOf(fsys vfs.FS, path string) (*Header, error) {
	r, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return find(r)
}

// CheckDir fails with a *base.EncryptionError if k lacks the key of a file in dir, or if a table
// there is whole and clear, and k does not allow clear ones.
func (k *Keys) CheckDir(fsys vfs.FS, dir string) error {
	return Each(fsys, dir, func(name string, h *Header) error {
		if h != nil {
			_, err := k.Open(h, name)
			return err
		}
		if k.AllowClear() {
			return nil
		}
		table, err := endsAsTable(fsys, filepath.Join(dir, name))
		if err == nil && table {
			err = ErrClear(name)
		}
		return err
	})
}

// endsAsTable reports whether a file has the end of a clear table.
func endsAsTable(fsys vfs.FS, name string) (bool, error) {
	r, err := fsys.Open(name)
	if err != nil {
		return false, err
	}
	var b [8]byte
	if r.Size() >= int64(len(b)) {
		err = base.ReadFull(r, b[:], r.Size()-int64(len(b)))
	}
	magic := binary.LittleEndian.Uint64(b[:])
	return magic == base.NativeTableMagic || magic == base.LevelDBTableMagic,
		errors.Join(err, r.Close())
}
