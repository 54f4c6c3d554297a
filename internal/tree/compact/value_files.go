package compact

import (
	"errors"

	"github.com/loamdb/loam/internal/base"
)

// ValueFiles is what a run needs to write value files. They have the large values that the run
// makes, and copies of those that it moves out of logs and value files with few live ones left.
type ValueFiles struct {
	// Create begins a value file. The number counts as created even when the run fails later.
	Create func() (num uint64, w ValueWriter, err error)
	// FileSize is where value files are split, in bytes.
	FileSize int64
	// Large is the length in bytes from which on values are written that merge operators and
	// compaction filters make; 0: all of them stay in their tables.
	Large int64
	// From reports whether values are copied out of a log or value file; nil: out of none.
	From func(base.ValueFile) bool
}

// ValueWriter writes a value file.
type ValueWriter interface {
	// Append adds a value, and returns the offset of its first byte.
	Append(value []byte) (offset int64, err error)
	Size() int64
	// Finish makes the contents durable; Close follows.
	Finish() error
	Close() error
}

// valueFiles is a ValueFiles at work in one piece of a run. The values that it writes are in the
// order of their keys.
type valueFiles struct {
	*ValueFiles
	num    uint64
	w      ValueWriter // nil: none begun
	handle []byte      // scratch
}

func newValueFiles(env *Env) *valueFiles {
	if env.ValueFiles == nil {
		return nil
	}
	return &valueFiles{ValueFiles: env.ValueFiles}
}

// apart writes the value of an entry, which the run made, into a value file if it is large. It
// returns the trailer and the value that the entry then has, until the next call: a reference, or
// what they were.
func (w *work) apart(t base.Trailer, value []byte) (base.Trailer, []byte, error) {
	v := w.values
	if v == nil || v.Large <= 0 || int64(len(value)) < v.Large {
		return t, value, nil
	}
	w.work += len(value)
	handle, err := v.add(value, base.CRC(value), &w.res)
	return base.MakeTrailer(t.Seq(), t.Kind().Referring()), handle, err
}

// add writes a value with this checksum, and returns the reference to it, which is valid until the
// next call.
func (v *valueFiles) add(value []byte, sum uint32, res *Result) ([]byte, error) {
	if v.w != nil && v.w.Size() >= v.FileSize {
		if err := v.finish(); err != nil {
			return nil, err
		}
	}
	if v.w == nil {
		num, w, err := v.Create()
		if err != nil {
			return nil, err
		}
		v.num, v.w = num, w
		res.Values = append(res.Values, num)
	}
	offset, err := v.w.Append(value)
	if err != nil {
		return nil, err
	}
	res.ValueBytes += uint64(len(value))
	v.handle = base.AppendValueHandle(v.handle[:0], base.ValueHandle{Log: v.num, Offset: offset,
		Len: uint32(len(value)), Sum: sum, InFile: true})
	return v.handle, nil
}

// finish makes the value file durable that was begun, if any.
func (v *valueFiles) finish() error {
	if v == nil || v.w == nil {
		return nil
	}
	w := v.w
	v.w = nil
	err := w.Finish()
	return errors.Join(err, w.Close())
}

// abandon closes the value file that was begun, if any; the caller of Run deletes it.
func (v *valueFiles) abandon() {
	if v != nil && v.w != nil {
		_ = v.w.Close()
		v.w = nil
	}
}
