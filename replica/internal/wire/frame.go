package wire

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
)

// A frame has a body:
//
//	length of the body, 4 bytes; CRC-32 (that of zlib) of the body, 4 bytes; the body
//
// Integers of a fixed size are little-endian.
const frameHeader = 8

const (
	// MaxGreeting is the largest body of a greeting in bytes, and of its answer.
	MaxGreeting = 4 << 10
	// MaxBody is the largest body of any other frame: a change or a value, and what belongs to it.
	MaxBody = MaxChange + 64<<10
)

// BeginFrame appends the header of a frame. The caller appends the body, and calls EndFrame with
// the length that dst had.
func BeginFrame(dst []byte) []byte { return append(dst, make([]byte, frameHeader)...) }

// EndFrame fills in the header of the frame that begins at an offset.
func EndFrame(frame []byte, at int) {
	body := frame[at+frameHeader:]
	binary.LittleEndian.PutUint32(frame[at:], uint32(len(body)))
	binary.LittleEndian.PutUint32(frame[at+4:], crc32.ChecksumIEEE(body))
}

// firstPart is what ReadFrame allocates at once, whatever the length says.
const firstPart = 64 << 10

// FrameSize waits for the next frame, and returns the length of its body. One above limit is
// ErrMalformed; the end before a frame is io.EOF.
func FrameSize(r *bufio.Reader, limit int) (int, error) {
	head, err := r.Peek(frameHeader)
	if err != nil {
		if len(head) > 0 {
			err = noEOF(err)
		}
		return 0, err
	}
	size := binary.LittleEndian.Uint32(head)
	if uint64(size) > uint64(limit) {
		return 0, fmt.Errorf("%w: a frame of %d bytes, and at most %d go", ErrMalformed, size,
			limit)
	}
	return int(size), nil
}

// SkipFrame reads a frame and returns the beginning of its body, which DecodeCall takes. It fails
// as ReadFrame does.
func SkipFrame(r *bufio.Reader, limit int) ([]byte, error) {
	left, err := FrameSize(r, limit)
	if err != nil {
		return nil, err
	}
	head, _ := r.Peek(frameHeader) // FrameSize has it
	sum, got := binary.LittleEndian.Uint32(head[4:]), uint32(0)
	_, _ = r.Discard(frameHeader)
	begin := make([]byte, 0, callHeader)
	for left > 0 {
		part, err := r.Peek(min(left, max(r.Buffered(), 1)))
		if err != nil {
			return nil, fmt.Errorf("a frame is cut: %w", noEOF(err))
		}
		begin = append(begin, part[:min(len(part), callHeader-len(begin))]...)
		got = crc32.Update(got, crc32.IEEETable, part)
		left -= len(part)
		_, _ = r.Discard(len(part))
	}
	if got != sum {
		return nil, fmt.Errorf("%w: wrong checksum of a frame", ErrMalformed)
	}
	return begin, nil
}

// ReadFrame reads a frame and returns its body, in memory of its own, which grows with what
// arrives. A body above limit and a wrong checksum are ErrMalformed; the end before a frame is
// io.EOF.
func ReadFrame(r *bufio.Reader, limit int) ([]byte, error) {
	left, err := FrameSize(r, limit)
	if err != nil {
		return nil, err
	}
	head, _ := r.Peek(frameHeader) // FrameSize has it
	sum := binary.LittleEndian.Uint32(head[4:])
	_, _ = r.Discard(frameHeader)
	body := make([]byte, 0, min(left, firstPart))
	for left > 0 {
		part := min(left, max(firstPart, len(body)))
		at := len(body)
		body = append(body, make([]byte, part)...)
		if _, err := io.ReadFull(r, body[at:]); err != nil {
			return nil, fmt.Errorf("a frame is cut: %w", noEOF(err))
		}
		left -= part
	}
	if crc32.ChecksumIEEE(body) != sum {
		return nil, fmt.Errorf("%w: wrong checksum of a frame", ErrMalformed)
	}
	return body, nil
}

// HasFrame reports whether ReadFrame would return without waiting for the connection.
func HasFrame(r *bufio.Reader) bool {
	if r.Buffered() < frameHeader {
		return false
	}
	head, _ := r.Peek(frameHeader) // never fails, as it is buffered
	return uint64(r.Buffered()) >= frameHeader+uint64(binary.LittleEndian.Uint32(head))
}

// noEOF makes the end of a stream one that is not expected.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// A connection begins with a greeting of the caller, a frame:
//
//	"LOAM"; version of the protocol, 1 byte; role, 1 byte
//	length of the cluster's name, and the name; "": any
//	length of the token, and the token; "": none
//
// The answer is a frame like that of a call, see Answer, with number 0: the name of the cluster and
// the ID of the node, each behind its length. After an error the server closes the connection.
const (
	magic   = "LOAM"
	Version = 1 // Version is that of the protocol.
)

// Role is what a caller is.
type Role byte

const (
	// Client is a caller with calls.
	Client Role = 0
	// Peer is another node: after the greeting the connection belongs to package replica.
	Peer Role = 1
)

// Greeting is what a caller begins with.
type Greeting struct {
	Version byte
	Role    Role
	Cluster string
	Token   string
}

// AppendGreeting appends the frame of a greeting.
func AppendGreeting(dst []byte, g *Greeting) []byte {
	at := len(dst)
	dst = append(append(BeginFrame(dst), magic...), g.Version, byte(g.Role))
	dst = AppendBytes(AppendBytes(dst, []byte(g.Cluster)), []byte(g.Token))
	EndFrame(dst, at)
	return dst
}

// DecodeGreeting reads the body of a greeting. Of another version only the version is known.
func DecodeGreeting(body []byte) (*Greeting, error) {
	if len(body) < len(magic)+2 || string(body[:len(magic)]) != magic {
		return nil, fmt.Errorf("%w greeting", ErrMalformed)
	}
	g := &Greeting{Version: body[len(magic)], Role: Role(body[len(magic)+1])}
	if g.Version != Version {
		return g, nil
	}
	f := Fields{Rest: body[len(magic)+2:]}
	g.Cluster, g.Token = string(f.Bytes()), string(f.Bytes())
	if f.Bad || len(f.Rest) > 0 || g.Role > Peer {
		return nil, fmt.Errorf("%w greeting", ErrMalformed)
	}
	return g, nil
}

// Welcome is what a server answers to a greeting.
type Welcome struct{ Cluster, ID string }

// AppendWelcome appends the answer to a greeting.
func AppendWelcome(dst []byte, w *Welcome) []byte {
	return AppendAnswer(dst, 0, func(dst []byte) []byte {
		return AppendBytes(AppendBytes(dst, []byte(w.Cluster)), []byte(w.ID))
	})
}

// DecodeWelcome reads the result of the answer to a greeting.
func DecodeWelcome(result []byte) (*Welcome, error) {
	f := Fields{Rest: result}
	w := &Welcome{Cluster: string(f.Bytes()), ID: string(f.Bytes())}
	if f.Bad {
		return nil, fmt.Errorf("%w answer to a greeting", ErrMalformed)
	}
	return w, nil
}
