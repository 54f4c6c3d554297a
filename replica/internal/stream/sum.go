package stream

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"sync"
)

// ErrDamaged says that bytes arrived that were not sent.
var ErrDamaged = errors.New("damaged on the way")

// A Sum sends parts: length, 4 bytes, little-endian; CRC-32C of the bytes, 4 bytes; the bytes.
const (
	partHeader = 4 + 4
	maxPart    = 64 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Sum is a connection whose bytes have checksums: TCP's own, of 16 bits, misses some of what cables
// and switches do. The other end has one, too. Reads have one caller at a time.
type Sum struct {
	net.Conn // below

	in   *bufio.Reader
	left int // bytes of the part that Read is in

	mu  sync.Mutex // held by Write
	out []byte     // has room for the largest part that was sent
}

// NewSum returns a Sum over a connection.
func NewSum(c net.Conn) *Sum {
	return &Sum{Conn: c, in: bufio.NewReaderSize(c, partHeader+maxPart)}
}

// Read is that of net.Conn. It fails with ErrDamaged. After a time-out it may be called again.
func (s *Sum) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if s.left == 0 {
		if err := s.next(); err != nil {
			return 0, err
		}
	}
	n, err := s.in.Read(p[:min(len(p), s.left)]) // of what is in the buffer
	s.left -= n
	return n, err
}

// next waits for the next part, and checks it.
func (s *Sum) next() error {
	head, err := s.in.Peek(partHeader)
	if err != nil {
		return cut(err, len(head) > 0)
	}
	size, sum := binary.LittleEndian.Uint32(head), binary.LittleEndian.Uint32(head[4:])
	if size == 0 || size > maxPart {
		return fmt.Errorf("%w: a part of %d bytes", ErrDamaged, size)
	}
	part, err := s.in.Peek(partHeader + int(size))
	if err != nil {
		return cut(err, true)
	}
	if crc32.Checksum(part[partHeader:], castagnoli) != sum {
		return fmt.Errorf("%w: wrong checksum", ErrDamaged)
	}
	s.left = int(size)
	_, err = s.in.Discard(partHeader)
	return err
}

// cut returns the error of a connection that ended, maybe within a part.
func cut(err error, within bool) error {
	if within && errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Write is that of net.Conn.
func (s *Sum) Write(p []byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n < len(p) {
		part := p[n:min(len(p), n+maxPart)]
		if s.out = s.out[:0]; cap(s.out) < partHeader+len(part) {
			s.out = make([]byte, 0, partHeader+len(part))
		}
		s.out = AppendSum(s.out, part)
		if _, err := s.Conn.Write(s.out); err != nil {
			return n, err
		}
		n += len(part)
	}
	return n, nil
}

// AppendSum appends the parts by which a Sum sends bytes.
func AppendSum(dst, p []byte) []byte {
	for len(p) > 0 {
		part := p[:min(len(p), maxPart)]
		dst = binary.LittleEndian.AppendUint32(dst, uint32(len(part)))
		dst = binary.LittleEndian.AppendUint32(dst, crc32.Checksum(part, castagnoli))
		dst = append(dst, part...)
		p = p[len(part):]
	}
	return dst
}
