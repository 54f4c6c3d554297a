package files

import (
	"encoding/binary"
	"path/filepath"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
)

// ValueWriter writes a value file, see base.ValueFileHead. It is for one goroutine.
type ValueWriter struct {
	f    vfs.WriteFile
	buf  []byte
	size int64 // with what is in buf
	done bool  // Finish was called
}

// valueBuffer is how many bytes of values wait to be written.
const valueBuffer = 256 << 10

// CreateValues makes value file num. pace is called after each write; nil: it is not. An abandoned
// file is deleted with ObsoleteLog.
func (s *Set) CreateValues(num uint64, pace func(bytes int64)) (*ValueWriter, error) {
	name := base.ValueFile{Num: num, InFile: true}.FileName(s.o.Format)
	f, err := RoomyFS{s.o.FS}.Create(filepath.Join(s.o.Dir, name))
	if err != nil {
		return nil, err
	}
	if pace != nil {
		f = pacedFile{f, pace}
	}
	w := &ValueWriter{f: f, buf: append(make([]byte, 0, valueBuffer), base.ValueFileMagic...)}
	w.buf = binary.LittleEndian.AppendUint64(w.buf, num)
	w.size = int64(len(w.buf))
	return w, nil
}

// Append adds a value, and returns the offset of its first byte.
func (w *ValueWriter) Append(value []byte) (offset int64, err error) {
	if len(w.buf)+len(value) > cap(w.buf) {
		if err := w.flush(); err != nil {
			return 0, err
		}
	}
	offset = w.size
	if len(value) >= cap(w.buf) {
		_, err = w.f.Write(value)
	} else {
		w.buf = append(w.buf, value...)
	}
	w.size += int64(len(value))
	return offset, err
}

func (w *ValueWriter) flush() error {
	_, err := w.f.Write(w.buf)
	w.buf = w.buf[:0]
	return err
}

// Size is the size of the file, in bytes.
func (w *ValueWriter) Size() int64 { return w.size }

// Finish writes what is left and makes the contents durable. Close follows.
func (w *ValueWriter) Finish() error {
	w.done = true
	if err := w.flush(); err != nil {
		return err
	}
	return w.f.Sync()
}

// Close closes the file, which is abandoned unless Finish was called.
func (w *ValueWriter) Close() error {
	if w.done {
		return w.f.Close()
	}
	return vfs.Abandon(w.f)
}

// FileSize is the size of a file of the directory, in bytes.
func (s *Set) FileSize(name string) (uint64, error) {
	info, err := s.o.FS.Stat(filepath.Join(s.o.Dir, name))
	if err != nil {
		return 0, err
	}
	return uint64(max(info.Size(), 0)), nil
}
