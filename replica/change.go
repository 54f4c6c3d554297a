package replica

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/loamdb/loam/lsm"
)

// A change is what one entry of the Raft log has: operations that take effect together, if all its
// conditions hold where it stands in the log.
//
//	version, 1 byte
//	length of the idempotency key, and the key
//	number of conditions; each: length of the key, key, kind, what the kind needs
//	the batch, in the wire form of lsm.Batch
//
// Numbers are unsigned varints.
type change struct {
	once       []byte // the idempotency key; none: empty
	conditions []condition
	batch      []byte
}

const changeVersion = 1

// maxOnce is the longest idempotency key in bytes.
const maxOnce = 255

// condition says what the value of a key has to be.
type condition struct {
	key  []byte
	kind conditionKind
	want []byte // the value, or its SHA-256
}

type conditionKind byte

const (
	isMissing conditionKind = iota
	isValue
	isSum // for long values
)

// longValue is the length from which on a condition has the SHA-256 of a value.
const longValue = 64

// conditionOf says that a key has a value; nil: none.
func conditionOf(key, value []byte) condition {
	c := condition{key: bytes.Clone(key)}
	switch {
	case value == nil:
	case len(value) < longValue:
		c.kind, c.want = isValue, bytes.Clone(value)
	default:
		sum := sha256.Sum256(value)
		c.kind, c.want = isSum, sum[:]
	}
	return c
}

// holds compares a value with the condition; nil: there is none.
func (c *condition) holds(value []byte) bool {
	switch c.kind {
	case isMissing:
		return value == nil
	case isValue:
		return value != nil && bytes.Equal(value, c.want)
	default:
		sum := sha256.Sum256(value)
		return value != nil && bytes.Equal(sum[:], c.want)
	}
}

func appendBytes(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

func (c *change) encode() ([]byte, error) {
	if len(c.once) > maxOnce {
		return nil, invalid("an idempotency key has at most %d bytes", maxOnce)
	}
	b := appendBytes([]byte{changeVersion}, c.once)
	b = binary.AppendUvarint(b, uint64(len(c.conditions)))
	for _, d := range c.conditions {
		b = append(appendBytes(b, d.key), byte(d.kind))
		if d.kind != isMissing {
			b = appendBytes(b, d.want)
		}
	}
	if b = append(b, c.batch...); len(b) > MaxChange {
		return nil, fmt.Errorf("replica: a change of %d bytes, and at most %d go: cut it: %w",
			len(b), MaxChange, ErrTooLarge)
	}
	return b, nil
}

var errMalformed = errors.New("malformed change")

// decodeChange reads an entry. Its slices lie in b.
func decodeChange(b []byte) (*change, error) {
	if len(b) == 0 {
		return nil, errMalformed
	}
	if b[0] != changeVersion {
		return nil, fmt.Errorf("change of version %d: upgrade this node: %w", b[0],
			lsm.ErrNewerFormat)
	}
	r, c := fields{b: b[1:]}, &change{}
	c.once = r.bytes()
	for n := r.number(); n > 0 && !r.bad; n-- {
		d := condition{key: r.bytes(), kind: conditionKind(r.one())}
		if d.kind > isSum {
			r.bad = true
		}
		if d.kind != isMissing {
			d.want = r.bytes()
		}
		c.conditions = append(c.conditions, d)
	}
	if c.batch = r.b; r.bad || len(c.once) > maxOnce {
		return nil, errMalformed
	}
	return c, nil
}

// fields reads one field after the other. After a malformed one bad is set, and all are empty.
type fields struct {
	b   []byte
	bad bool
}

func (f *fields) number() uint64 {
	n, size := binary.Uvarint(f.b)
	if size <= 0 {
		f.b, f.bad = nil, true
		return 0
	}
	f.b = f.b[size:]
	return n
}

func (f *fields) bytes() []byte {
	n := f.number()
	if n > uint64(len(f.b)) {
		f.b, f.bad = nil, true
		return nil
	}
	out := f.b[:n:n]
	f.b = f.b[n:]
	return out
}

func (f *fields) one() byte {
	if len(f.b) == 0 {
		f.bad = true
		return 0
	}
	out := f.b[0]
	f.b = f.b[1:]
	return out
}
