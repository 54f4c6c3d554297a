package replicate

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"hash"
	"slices"

	"github.com/golang/snappy"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/batchrepr"
)

// maxObject bounds the size of an object: a batch has at most 4 GiB.
const maxObject = batchrepr.MaxLen + 64<<20

// maxRatio is more than snappy packs: 64 bytes into three.
const maxRatio = 32

// space is a keyspace in the lists of snapshots and segments.
type space struct {
	Name     string `json:"name"`
	ID       uint32 `json:"id"`
	Comparer string `json:"comparer"`
	Merge    string `json:"merge_operator,omitempty"`
}

// head is the first part of a segment.
type head struct {
	// Spaces are the keyspaces after the segments that were sent together with this one; nil if
	// they are those of the segment before.
	Spaces []space `json:"keyspaces,omitempty"`
	// Dropped are keyspaces that have operations in the segment and were dropped by then.
	Dropped []uint32 `json:"dropped,omitempty"`
	// Merges are for a replicator that continues; segments of earlier versions have none.
	Merges merges `json:"merge_operators,omitempty"`
}

// merges are the merge operators of keyspaces that have one.
type merges map[uint32]string

func mergesOf(spaces []space) merges {
	m := merges{}
	for _, s := range spaces {
		if s.Merge != "" {
			m[s.ID] = s.Merge
		}
	}
	return m
}

// digest is a sum over operations, however they are grouped in batches.
type digest struct{ h hash.Hash }

func newDigest() digest { return digest{sha256.New()} }

func (d digest) add(op []byte) { d.h.Write(op) }

func (d digest) String() string { return hex.EncodeToString(d.h.Sum(nil)[:8]) }

// builder makes a segment: a head and, each behind its length, batches in wire form.
type builder struct {
	head    head
	first   uint64
	next    uint64
	batches []byte
	digest  digest
}

func newBuilder(first uint64) *builder {
	return &builder{first: first, next: first, digest: newDigest()}
}

// add takes the change that begins with sequence number b.next. known reports keyspaces that are
// there.
func (b *builder) add(batch []byte, known func(id uint32) bool) {
	b.batches = binary.AppendUvarint(b.batches, uint64(len(batch)))
	at := len(b.batches)
	b.batches = append(b.batches, batch...)
	batchrepr.SetSeq(b.batches[at:], base.SeqNum(b.next))
	b.digest.add(batch[batchrepr.HeaderLen:])
	b.next += uint64(batchrepr.Count(batch))
	for it := batchrepr.Read(batch); ; {
		id, _, _, _, ok := it.Next()
		if !ok {
			return
		}
		if !known(uint32(id)) && !slices.Contains(b.head.Dropped, uint32(id)) {
			b.head.Dropped = append(b.head.Dropped, uint32(id))
		}
	}
}

func (b *builder) empty() bool { return len(b.batches) == 0 && b.head.Spaces == nil }

// payload is the segment as bytes.
func (b *builder) payload() ([]byte, error) {
	h, err := json.Marshal(b.head)
	if err != nil {
		return nil, err
	}
	raw := binary.AppendUvarint(make([]byte, 0, len(h)+len(b.batches)+10), uint64(len(h)))
	raw = append(append(raw, h...), b.batches...)
	return append(binary.AppendUvarint(nil, uint64(len(raw))), pack(raw)...), nil
}

// snappy packs at most 4 GiB at a time.
const packed = 64 << 20

// pack compresses in pieces, each behind its length.
func pack(raw []byte) (b []byte) {
	for piece := range slices.Chunk(raw, packed) {
		p := snappy.Encode(nil, piece)
		b = append(binary.AppendUvarint(b, uint64(len(p))), p...)
	}
	return b
}

// unpack is the reverse of pack. The unpacked bytes are size many.
func unpack(name string, b []byte, size uint64) ([]byte, error) {
	if size > maxRatio*uint64(len(b)) {
		return nil, damaged(name, "%d bytes cannot hold %d", len(b), size)
	}
	raw := make([]byte, 0, size)
	for len(b) > 0 {
		piece, rest, ok := cutField(b)
		n, err := snappy.DecodedLen(piece)
		if !ok || err != nil || uint64(n) > size-uint64(len(raw)) {
			return nil, damaged(name, "its compressed data is malformed")
		}
		p, err := snappy.Decode(raw[len(raw):len(raw)+n:len(raw)+n], piece)
		if err != nil || len(p) != n {
			return nil, damaged(name, "its compressed data is malformed: %v", err)
		}
		raw, b = raw[:len(raw)+n], rest
	}
	if uint64(len(raw)) != size {
		return nil, damaged(name, "it unpacks to %d bytes instead of %d", len(raw), size)
	}
	return raw, nil
}

// cutField takes a field behind its length from b.
func cutField(b []byte) (field, rest []byte, ok bool) {
	n, used := binary.Uvarint(b)
	if used <= 0 || n > uint64(len(b)-used) {
		return nil, nil, false
	}
	return b[used : used+int(n)], b[used+int(n):], true
}

// parsed is a segment that was read.
type parsed struct {
	segment
	head    head
	batches [][]byte
}

// parse checks a segment: whole batches, whose sequence numbers are those of the name.
func parse(s segment, payload []byte) (*parsed, error) {
	size, used := binary.Uvarint(payload)
	if used <= 0 {
		return nil, damaged(s.name, "its length is malformed")
	}
	raw, err := unpack(s.name, payload[used:], size)
	if err != nil {
		return nil, err
	}
	h, rest, ok := cutField(raw)
	p := &parsed{segment: s}
	if !ok || json.Unmarshal(h, &p.head) != nil {
		return nil, damaged(s.name, "its head is malformed")
	}
	next, sum := s.first, newDigest()
	for len(rest) > 0 {
		var batch []byte
		if batch, rest, ok = cutField(rest); !ok {
			return nil, damaged(s.name, "a batch is cut off")
		}
		err := batchrepr.Validate(batch, func(base.KeyspaceID) bool { return true })
		if err != nil {
			return nil, damaged(s.name, "a batch is malformed: %v", err)
		}
		if seq := uint64(batchrepr.Seq(batch)); seq != next {
			return nil, damaged(s.name, "a batch begins with sequence number %d, expected %d", seq,
				next)
		}
		next += uint64(batchrepr.Count(batch))
		sum.add(batch[batchrepr.HeaderLen:])
		p.batches = append(p.batches, batch)
	}
	if next != s.last+1 || sum.String() != s.digest {
		return nil, damaged(s.name, "its operations are not those that its name says")
	}
	return p, nil
}
