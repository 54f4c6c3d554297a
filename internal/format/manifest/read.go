package manifest

import (
	"errors"
	"fmt"
	"io"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/current"
	"github.com/loamdb/loam/internal/format/record"
	"github.com/loamdb/loam/internal/os/vfs"
)

// ReadResult tells how the reading of a MANIFEST ended.
type ReadResult struct {
	State State
	// Torn describes an incomplete or damaged end after which nothing valid
	// follows: the edit that was being written when the machine stopped.
	Torn *base.Corruption
	// Size is how many bytes, from the start, hold the edits in State.
	Size int64
}

// ReadManifest adds up the edits of the MANIFEST name in dir. With an error the
// result holds the edits before it. Damage is a *base.Corruption, or
// base.ErrNotADatabase where another engine wrote the file, base.ErrNewerFormat where
// a newer version of this one did; a failure to read is the error of the file system.
func ReadManifest(fsys vfs.FS, dir, name string, format base.Format) (*ReadResult, error) {
	res := &ReadResult{}
	f, err := current.OpenRegular(fsys, dir, name)
	if err != nil {
		return res, err
	}
	defer f.Close()
	if err = res.read(f, name, format); res.State.Edits == 0 {
		err = CheckLog(f, name, format, err)
	}
	return res, err
}

// read adds up the edits of the open MANIFEST.
func (res *ReadResult) read(f vfs.ReadFile, name string, format base.Format) error {
	r := record.NewReader(f, f.Size(), name)
	for {
		rec, err := r.Next()
		if err == io.EOF {
			if res.State.Edits == 0 {
				res.Size = r.End() // of the chunk that says how the MANIFEST is encrypted
			}
			return nil
		}
		if err != nil {
			var c *base.Corruption
			if errors.As(err, &c) && r.Tail() {
				res.Torn = c
				return nil
			}
			return fmt.Errorf("reading %s: %w", name, err)
		}
		var e Edit
		if err = e.Decode(rec, format); err == nil {
			err = res.State.Apply(&e)
		}
		if err != nil {
			return locate(err, name, r.Offset(), int64(len(rec)))
		}
		res.Size = r.Offset() + int64(len(rec))
	}
}

// locate names the file in an error that is about its contents.
func locate(err error, name string, off, length int64) error {
	if errors.Is(err, base.ErrCorruption) {
		return base.LocateCorruption(err, name, off, length)
	}
	return fmt.Errorf("reading %s: %w", name, err)
}
