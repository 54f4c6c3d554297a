package wire

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/loamdb/loam/lsm"
)

// Operation is what a call asks for.
type Operation byte

// The operations, with what their arguments and results are. "bytes" are a length and as many
// bytes, "number" is an unsigned varint.
const (
	// OpStatus: no arguments; the result is JSON, see Status.
	OpStatus Operation = 1 + iota
	// OpGet: view, key: bytes; the result is 0, or 1 and the value: the rest.
	OpGet
	// OpHas: view, key: bytes; the result is 0 or 1.
	OpHas
	// OpMultiGet: view, number of keys, keys: bytes each; the result has for each of them 0, or 1
	// and the value: bytes.
	OpMultiGet
	// OpScan: view, see Scan; the result is a Chunk.
	OpScan
	// OpSnapshot: view; the result is the ID of a snapshot, number, and the index of its last entry
	// in the Raft log, number.
	OpSnapshot
	// OpRelease: the ID of a snapshot, number; no result.
	OpRelease
	// OpWrite: a Change; the result is 1, or 0 where a condition did not hold.
	OpWrite
	// OpAddVoter, OpAddReader: the ID and the address of a node, bytes each; no result.
	OpAddVoter
	OpAddReader
	// OpRemove: the ID of a node, bytes; no result.
	OpRemove
	// OpTransfer: the ID of a node, bytes, "" for any; no result.
	OpTransfer
	// OpCheckpoint: a name, bytes; the result is the path of the checkpoint on the node.
	OpCheckpoint
	// Operations is one more than the last operation.
	Operations
)

var operationNames = [Operations]string{OpStatus: "status", OpGet: "get", OpHas: "has",
	OpMultiGet: "multi_get", OpScan: "scan", OpSnapshot: "snapshot", OpRelease: "release",
	OpWrite: "write", OpAddVoter: "add_voter", OpAddReader: "add_reader", OpRemove: "remove",
	OpTransfer: "transfer", OpCheckpoint: "checkpoint"}

// String is the name of an operation.
func (o Operation) String() string {
	if o >= Operations || operationNames[o] == "" {
		return fmt.Sprint("operation ", byte(o))
	}
	return operationNames[o]
}

// Call is a request.
//
//	number, 4 bytes: chosen by the client, in the answer again
//	time-out in milliseconds, 4 bytes: how long the server tries; 0: its own
//	operation, 1 byte; arguments: the rest
type Call struct {
	Number  uint32
	Timeout time.Duration
	Op      Operation
	Args    []byte
}

const callHeader = 4 + 4 + 1

// AppendCall appends the frame of a call whose arguments args appends.
func AppendCall(dst []byte, c *Call, args func(dst []byte) []byte) []byte {
	at := len(dst)
	dst = binary.LittleEndian.AppendUint32(BeginFrame(dst), c.Number)
	dst = binary.LittleEndian.AppendUint32(dst, milliseconds(c.Timeout))
	dst = append(append(dst, byte(c.Op)), c.Args...)
	if args != nil {
		dst = args(dst)
	}
	EndFrame(dst, at)
	return dst
}

// CheckCall returns lsm.ErrTooLarge for the frame of a call that no server takes.
func CheckCall(frame []byte) error {
	if size := len(frame) - frameHeader; size > MaxBody {
		return fmt.Errorf("a call of %d bytes, and at most %d go: %w", size, MaxBody,
			lsm.ErrTooLarge)
	}
	return nil
}

// milliseconds rounds up, so that no time-out becomes 0.
func milliseconds(d time.Duration) uint32 {
	if d <= 0 {
		return 0
	}
	return uint32(min((d-1)/time.Millisecond+1, 1<<31))
}

// DecodeCall reads the body of a call, whose arguments lie in it.
func DecodeCall(body []byte) (Call, error) {
	if len(body) < callHeader {
		return Call{}, fmt.Errorf("%w call", ErrMalformed)
	}
	return Call{Number: binary.LittleEndian.Uint32(body),
		Timeout: time.Duration(binary.LittleEndian.Uint32(body[4:])) * time.Millisecond,
		Op:      Operation(body[8]), Args: body[callHeader:]}, nil
}

// An answer has the number of its call, 4 bytes, and the flags of an error, 4 bytes: 0 for none,
// then the result is the rest; else the rest is a text.
const answerHeader = 4 + 4

// AppendAnswer appends the frame of an answer whose result a function appends, unless it is nil.
func AppendAnswer(dst []byte, number uint32, result func(dst []byte) []byte) []byte {
	at := len(dst)
	dst = binary.LittleEndian.AppendUint32(BeginFrame(dst), number)
	dst = binary.LittleEndian.AppendUint32(dst, 0)
	if result != nil {
		dst = result(dst)
	}
	EndFrame(dst, at)
	return dst
}

// maxText is the longest text of an error in bytes.
const maxText = 1 << 10

// AppendError appends the frame of an answer with an error.
func AppendError(dst []byte, number uint32, err error) []byte {
	at := len(dst)
	dst = binary.LittleEndian.AppendUint32(BeginFrame(dst), number)
	dst = binary.LittleEndian.AppendUint32(dst, flagsOf(err))
	text := err.Error()
	dst = append(dst, strings.ToValidUTF8(text[:min(len(text), maxText)], "?")...)
	EndFrame(dst, at)
	return dst
}

// DecodeAnswer reads the body of an answer. err is what the answer says, a *RemoteError, or
// ErrMalformed.
func DecodeAnswer(body []byte) (number uint32, result []byte, err error) {
	if len(body) < answerHeader {
		return 0, nil, fmt.Errorf("%w answer", ErrMalformed)
	}
	number = binary.LittleEndian.Uint32(body)
	if flags := binary.LittleEndian.Uint32(body[4:]); flags != 0 {
		return number, nil, errorOf(flags, body[answerHeader:])
	}
	return number, body[answerHeader:], nil
}

// View says what state a read reads: a kind, 1 byte, and what it needs.
type View struct {
	Kind   ViewKind
	MaxLag time.Duration // of Local, in milliseconds, number; 0: any age
	ID     uint64        // of AtSnapshot, number
}

// ViewKind is the kind of a View.
type ViewKind byte

// The kinds of views.
const (
	Linearizable ViewKind = iota // what had returned before the call
	Local                        // what the node has
	AtSnapshot                   // a snapshot of this connection
)

// AppendView appends a view.
func AppendView(dst []byte, v View) []byte {
	dst = append(dst, byte(v.Kind))
	switch v.Kind {
	case Local:
		dst = binary.AppendUvarint(dst, uint64(milliseconds(v.MaxLag)))
	case AtSnapshot:
		dst = binary.AppendUvarint(dst, v.ID)
	}
	return dst
}

// View reads a view.
func (f *Fields) View() (v View) {
	switch v.Kind = ViewKind(f.One()); v.Kind {
	case Linearizable:
	case Local:
		v.MaxLag = time.Duration(min(f.Number(), 1<<31)) * time.Millisecond
	case AtSnapshot:
		v.ID = f.Number()
	default:
		f.Bad = true
	}
	return v
}

// Scan asks for entries in order, as many as fit.
//
//	flags, 1 byte: 1 keys only, 2 backward, 4 there is a lower bound, 8 there is an upper bound,
//	    16 keep a snapshot if there are more
//	lower bound, the first key: bytes; upper bound, the first key behind: bytes; each if there
//	is one
//	most entries, number, 0: any; most bytes of keys and values, number, 0: the server's limit
type Scan struct {
	KeysOnly, Backward, Keep bool
	Lower, Upper             []byte // nil: no bound
	Entries, Bytes           uint64
}

// The flags of a scan.
const (
	scanKeysOnly = 1 << iota
	scanBackward
	scanLower
	scanUpper
	scanKeep
)

// AppendScan appends the arguments of OpScan behind the view.
func AppendScan(dst []byte, s *Scan) []byte {
	dst = append(dst, flagIf(s.KeysOnly, scanKeysOnly)|flagIf(s.Backward, scanBackward)|
		flagIf(s.Keep, scanKeep)|flagIf(s.Lower != nil, scanLower)|
		flagIf(s.Upper != nil, scanUpper))
	if s.Lower != nil {
		dst = AppendBytes(dst, s.Lower)
	}
	if s.Upper != nil {
		dst = AppendBytes(dst, s.Upper)
	}
	return binary.AppendUvarint(binary.AppendUvarint(dst, s.Entries), s.Bytes)
}

func flagIf(set bool, bit byte) byte {
	if set {
		return bit
	}
	return 0
}

// Scan reads the arguments of OpScan behind the view.
func (f *Fields) Scan() (s Scan) {
	flags := f.One()
	s.KeysOnly, s.Backward, s.Keep = flags&scanKeysOnly != 0, flags&scanBackward != 0,
		flags&scanKeep != 0
	if flags >= scanKeep<<1 {
		f.Bad = true
	}
	if flags&scanLower != 0 {
		s.Lower = f.Bytes()
	}
	if flags&scanUpper != 0 {
		s.Upper = f.Bytes()
	}
	s.Entries, s.Bytes = f.Number(), f.Number()
	return s
}

// The result of OpScan, a chunk:
//
//	1 if there are more entries, else 0
//	the ID of the snapshot that was kept, number; 0: none
//	the entries up to the end: key: bytes, value: bytes, which keys only have not

// Status is what OpStatus returns, as JSON.
type Status struct {
	Cluster      string   `json:"cluster"`
	ID           string   `json:"id"`
	Addr         string   `json:"addr"`
	Version      string   `json:"version"`
	State        string   `json:"state"`
	Leader       string   `json:"leader"` // "": unknown
	LeaderAddr   string   `json:"leader_addr"`
	Term         uint64   `json:"term"`
	Commit       uint64   `json:"commit"`
	Applied      uint64   `json:"applied"`
	LastSnapshot uint64   `json:"last_snapshot"`
	Halted       string   `json:"halted,omitempty"` // why the node takes no part
	Members      []Member `json:"members"`
}

// Member is a node of the cluster.
type Member struct {
	ID    string `json:"id"`
	Addr  string `json:"addr"`
	Voter bool   `json:"voter"`
}
