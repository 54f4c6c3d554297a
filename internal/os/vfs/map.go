package vfs

import "errors"

// Mapper is a ReadFile whose bytes can be read in place. It is optional: use Map.
type Mapper interface {
	// Map maps the first n bytes of the file, which has as many, for reading. The
	// Mapping does not need the ReadFile any more, which may be closed. Where files
	// are not mapped, errors.Is(err, errors.ErrUnsupported) holds.
	Map(n int64) (*Mapping, error)
}

// Map maps the first n bytes of r, see Mapper.
func Map(r ReadFile, n int64) (*Mapping, error) {
	if m, ok := r.(Mapper); ok && n > 0 {
		return m.Map(n)
	}
	return nil, errors.ErrUnsupported
}

// Mapping is bytes of a file where the system keeps them.
//
// Reading them is a fault, SIGBUS or SIGSEGV, where the disk cannot be read or another
// program has cut the file off. Package inplace makes an error of it; nothing else
// reads a Mapping. Where a page is not in memory, reading it waits for the disk.
type Mapping struct {
	bytes []byte
	unmap func([]byte) error       // nil: the bytes are the garbage collector's
	touch func(off, n int64) error // nil: nothing; of a Fault
}

// Bytes are the file's. They must not be read after Close.
func (m *Mapping) Bytes() []byte { return m.bytes }

// Touch announces that [off, off+n) will be read. Its error stands for the fault that
// this would be.
func (m *Mapping) Touch(off, n int64) error {
	if m.touch == nil {
		return nil
	}
	return m.touch(off, n)
}

// Close unmaps. Nobody may be reading.
func (m *Mapping) Close() error {
	b := m.bytes
	m.bytes = nil
	if m.unmap == nil || b == nil {
		return nil
	}
	return m.unmap(b)
}
