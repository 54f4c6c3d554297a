package block

import (
	"encoding/binary"

	"github.com/loamdb/loam/internal/base"
)

// RowBuilder writes LevelDB's row layout. Add takes keys in ascending order.
type RowBuilder struct {
	// Interval is the number of entries between restart points.
	Interval int

	buf      Buffer
	restarts Buffer
	last     Buffer // the previous key
	next     Buffer // key being added
	run      int    // entries since the last restart point
	count    int
}

// MaxRow bounds the key and value of one row together: offsets in a View have
// 32 bits.
const MaxRow = 1<<32 - 1<<20

// Add appends an entry whose key is user with trailer t.
func (b *RowBuilder) Add(user []byte, t base.Trailer, value []byte) error {
	k, err := b.next.Resize(len(user) + base.TrailerLen)
	if err != nil {
		return err
	}
	copy(k, user)
	binary.LittleEndian.PutUint64(k[len(user):], uint64(t))
	return b.add(k, value)
}

// AddRaw appends an entry with a key that has no trailer.
func (b *RowBuilder) AddRaw(key, value []byte) error {
	k, err := b.next.Resize(len(key))
	if err != nil {
		return err
	}
	copy(k, key)
	return b.add(k, value)
}

func (b *RowBuilder) add(k, value []byte) error {
	if uint64(len(k))+uint64(len(value)) > MaxRow {
		return base.ErrTooLarge
	}
	if err := b.buf.Reserve(3*binary.MaxVarintLen32 + len(k) + len(value)); err != nil {
		return err
	}
	shared := 0
	if b.count > 0 && b.run < b.Interval {
		shared = base.SharedPrefixLen(b.last.Bytes(), k)
	} else {
		if err := b.restarts.Reserve(4); err != nil {
			return err
		}
		b.restarts.Set(binary.LittleEndian.AppendUint32(b.restarts.Bytes(), uint32(b.buf.Len())))
		b.run = 0
	}
	p := b.buf.Bytes()
	p = appendLen(p, shared)
	p = appendLen(p, len(k)-shared)
	p = appendLen(p, len(value))
	p = append(p, k[shared:]...)
	p = append(p, value...)
	b.buf.Set(p)
	b.last, b.next = b.next, b.last
	b.run++
	b.count++
	return nil
}

func appendLen(p []byte, n int) []byte {
	if n < 0x80 {
		return append(p, byte(n))
	}
	return binary.AppendUvarint(p, uint64(n))
}

// Last is the last key added, in its encoded form. Reset does not forget it.
func (b *RowBuilder) Last() []byte { return b.last.Bytes() }

// Count is the number of entries added since Reset.
func (b *RowBuilder) Count() int { return b.count }

// Size is the length of the block that Finish would return now.
func (b *RowBuilder) Size() int {
	return b.buf.Len() + max(b.restarts.Len(), 4) + 4
}

// Finish appends the restart points and returns the block, valid until the
// next call.
func (b *RowBuilder) Finish() ([]byte, error) {
	if b.count == 0 {
		// An empty block has one restart point at 0.
		if err := b.restarts.Append([]byte{0, 0, 0, 0}); err != nil {
			return nil, err
		}
	}
	if err := b.buf.Reserve(b.restarts.Len() + 4); err != nil {
		return nil, err
	}
	p := append(b.buf.Bytes(), b.restarts.Bytes()...)
	b.buf.Set(binary.LittleEndian.AppendUint32(p, uint32(b.restarts.Len()/4)))
	return b.buf.Bytes(), nil
}

// keepCap is the most memory that Reset keeps per buffer.
const keepCap = 1 << 20

// Reset empties the builder.
func (b *RowBuilder) Reset() {
	b.buf.Trim(keepCap)
	b.restarts.Trim(keepCap)
	b.next.Trim(keepCap)
	b.run, b.count = 0, 0
}

// Free frees the memory; the builder is then empty.
func (b *RowBuilder) Free() {
	b.buf.Free()
	b.restarts.Free()
	b.last.Free()
	b.next.Free()
	b.run, b.count = 0, 0
}
