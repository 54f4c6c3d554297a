// Package snapstream is the stream of a snapshot, by which a leader sends the files of a database.
package snapstream

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"path"
	"path/filepath"
	"strings"

	"github.com/loamdb/loam/lsm"
)

// The stream of a snapshot, integers little-endian:
//
//	"LOAMSNAP", version and number of files, 4 bytes each
//	of each file: length of the name, 2 bytes, the name, and the file's size, 8 bytes; a name has
//	    slashes where the file is in a directory of the database
//	the contents of the files in that order
//	CRC-32C of all that is before, 4 bytes
const (
	Magic    = "LOAMSNAP" // Magic begins it.
	Version  = 1          // Version is that of the stream.
	maxFiles = 1 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// File is a file of the stream.
type File struct {
	Name string
	Size int64
}

// NewSum returns the checksum of a stream.
func NewSum() hash.Hash32 { return crc32.New(castagnoli) }

// AppendHead appends what comes before the contents of the files.
func AppendHead(dst []byte, files []File) []byte {
	dst = binary.LittleEndian.AppendUint32(append(dst, Magic...), Version)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(files)))
	for _, f := range files {
		dst = binary.LittleEndian.AppendUint16(dst, uint16(len(f.Name)))
		dst = binary.LittleEndian.AppendUint64(append(dst, f.Name...), uint64(f.Size))
	}
	return dst
}

// ErrStream says that bytes are no stream of a snapshot.
var ErrStream = errors.New("malformed stream of a snapshot")

// Unpack makes a directory of a stream. All of it is on stable storage when it returns nil.
func Unpack(fs lsm.FS, from io.Reader, dir string) error {
	sum := crc32.New(castagnoli)
	in := bufio.NewReaderSize(from, 1<<16)
	r := io.TeeReader(in, sum)
	files, err := readHead(r)
	if err != nil {
		return err
	}
	dirs := map[string]bool{dir: true}
	for _, f := range files {
		name := filepath.Join(dir, filepath.FromSlash(f.Name))
		dirs[filepath.Dir(name)] = true
		if err := fs.MkdirAll(filepath.Dir(name)); err != nil {
			return err
		}
		if err := unpackFile(fs, io.LimitReader(r, f.Size), name, f.Size); err != nil {
			return err
		}
	}
	want := sum.Sum32()
	var got [crc32.Size]byte
	if _, err := io.ReadFull(in, got[:]); err != nil {
		return fmt.Errorf("%w: %w", ErrStream, err)
	}
	if binary.LittleEndian.Uint32(got[:]) != want {
		return fmt.Errorf("%w: wrong checksum", ErrStream)
	}
	for d := range dirs {
		if err := fs.SyncDir(d); err != nil {
			return err
		}
	}
	return fs.SyncDir(filepath.Dir(dir))
}

func readHead(r io.Reader) (files []File, err error) {
	var head [len(Magic) + 8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStream, err)
	}
	version := binary.LittleEndian.Uint32(head[len(Magic):])
	n := binary.LittleEndian.Uint32(head[len(Magic)+4:])
	switch {
	case string(head[:len(Magic)]) != Magic || n > maxFiles:
		return nil, ErrStream
	case version != Version:
		return nil, fmt.Errorf("stream of version %d: upgrade this node: %w", version,
			lsm.ErrNewerFormat)
	}
	seen := map[string]bool{}
	for range n {
		var size [8]byte
		if _, err := io.ReadFull(r, size[:2]); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrStream, err)
		}
		name := make([]byte, binary.LittleEndian.Uint16(size[:2]))
		_, err := io.ReadFull(r, name)
		if err == nil {
			_, err = io.ReadFull(r, size[:])
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrStream, err)
		}
		f := File{string(name), int64(binary.LittleEndian.Uint64(size[:]))}
		if f.Size < 0 || seen[f.Name] || !filepath.IsLocal(filepath.FromSlash(f.Name)) ||
			path.Clean(f.Name) != f.Name || f.Name == "." || strings.ContainsAny(f.Name, `\:`) {
			return nil, fmt.Errorf("%w: file %q of %d bytes", ErrStream, f.Name, f.Size)
		}
		seen[f.Name] = true
		files = append(files, f)
	}
	return files, nil
}

func unpackFile(fs lsm.FS, r io.Reader, name string, size int64) error {
	f, err := fs.Create(name)
	if err != nil {
		return err
	}
	n, err := io.Copy(struct{ io.Writer }{f}, r)
	if err == nil && n != size {
		err = fmt.Errorf("%w: %s has %d bytes of %d", ErrStream, filepath.Base(name), n, size)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
