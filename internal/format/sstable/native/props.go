package native

import (
	"encoding/binary"
	"fmt"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
	"github.com/loamdb/loam/internal/format/filter"
	"github.com/loamdb/loam/internal/format/sstable"
)

// The properties are fields with ascending tags:
//
//	tag     varint: number<<3 | type<<1 | needed
//	value   by the type: a varint; varint length and bytes; a handle (two varints)
//
// A reader skips a field that it does not know, unless the field is needed to read the
// table: then the table is refused.
const (
	typeInt    = 0
	typeBytes  = 1
	typeHandle = 2

	needed = 1
)

// DO NOT CHANGE THESE VALUES: they stand in tables.
const (
	tagComparer      = 1<<3 | typeBytes<<1 | needed
	tagKeyspace      = 2<<3 | typeInt<<1
	tagEntries       = 3<<3 | typeInt<<1
	tagDeletes       = 4<<3 | typeInt<<1
	tagRangeDelCount = 5<<3 | typeInt<<1
	tagKinds         = 6<<3 | typeInt<<1 // bit n: there is an entry of kind n
	tagRawKeys       = 7<<3 | typeInt<<1
	tagRawValues     = 8<<3 | typeInt<<1
	tagMinSeq        = 9<<3 | typeInt<<1
	tagMaxSeq        = 10<<3 | typeInt<<1
	tagMinExpiry     = 11<<3 | typeInt<<1
	tagMaxExpiry     = 12<<3 | typeInt<<1
	tagPacking       = 13<<3 | typeInt<<1 // how the writer packed values
	tagCodec         = 14<<3 | typeInt<<1
	tagFilterBits    = 15<<3 | typeInt<<1
	tagFilter        = 16<<3 | typeHandle<<1
	tagRangeDels     = 17<<3 | typeHandle<<1 | needed
	tagIndex         = 18<<3 | typeHandle<<1 | needed
	tagParts         = 19<<3 | typeHandle<<1 | needed
	tagKeyspaceName  = 20<<3 | typeBytes<<1
	tagDict          = 21<<3 | typeHandle<<1 | needed
	tagSample        = 22<<3 | typeBytes<<1 // of base.KeySample
	tagPrefixLength  = 23<<3 | typeInt<<1   // of the prefixes in the filter
	tagFirstLog      = 24<<3 | typeInt<<1
	tagBodySum       = 25<<3 | typeInt<<1
	tagFineSample    = 26<<3 | typeBytes<<1 // the same as tagSample with more keys
	tagIngested      = 27<<3 | typeBytes<<1
)

// properties are what the properties of a table say.
type properties struct {
	sstable.Props
	packing, codec uint64
	// bodySum is the crc32c of all before the properties; 0: not recorded.
	bodySum uint32
	// Where the other parts of the file lie; Size 0: there is none. With parts, filter and
	// index are several frames each.
	filter, rangeDels, index, parts, dict block.Handle
}

// ints are the fields of integers.
func (p *properties) ints(f func(tag uint64, v *uint64)) {
	f(tagEntries, &p.Entries)
	f(tagDeletes, &p.Deletes)
	f(tagRangeDelCount, &p.RangeDels)
	f(tagKinds, &p.Kinds)
	f(tagRawKeys, &p.RawKeys)
	f(tagRawValues, &p.RawValues)
	f(tagMinSeq, (*uint64)(&p.MinSeq))
	f(tagMaxSeq, (*uint64)(&p.MaxSeq))
	f(tagMinExpiry, &p.MinExpiry)
	f(tagMaxExpiry, &p.MaxExpiry)
	f(tagPacking, &p.packing)
	f(tagCodec, &p.codec)
}

// handles are the fields of handles but for the dictionary's, which come in ascending order.
func (p *properties) handles(f func(tag uint64, h *block.Handle)) {
	f(tagFilter, &p.filter)
	f(tagRangeDels, &p.rangeDels)
	f(tagIndex, &p.index)
	f(tagParts, &p.parts)
}

func (p *properties) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, tagComparer)
	dst = base.AppendBytes(dst, []byte(p.Comparer))
	num := func(tag, v uint64) {
		if v != 0 {
			dst = binary.AppendUvarint(binary.AppendUvarint(dst, tag), v)
		}
	}
	num(tagKeyspace, uint64(p.Keyspace))
	p.ints(func(tag uint64, v *uint64) { num(tag, *v) })
	num(tagFilterBits, uint64(p.FilterBits))
	p.handles(func(tag uint64, h *block.Handle) {
		if h.Size != 0 {
			dst = block.AppendHandle(binary.AppendUvarint(dst, tag), *h)
		}
	})
	if p.KeyspaceName != "" {
		dst = base.AppendBytes(binary.AppendUvarint(dst, tagKeyspaceName), []byte(p.KeyspaceName))
	}
	if p.dict.Size != 0 {
		dst = block.AppendHandle(binary.AppendUvarint(dst, tagDict), p.dict)
	}
	if p.Sample != nil && p.Sample.Len() > 0 {
		dst = base.AppendBytes(binary.AppendUvarint(dst, tagSample), p.Sample.AppendTo(nil))
	}
	num(tagPrefixLength, uint64(p.PrefixLength))
	num(tagFirstLog, p.FirstLog)
	num(tagBodySum, uint64(p.bodySum))
	if p.Sample != nil {
		if fine, ok := p.Sample.AppendFine(nil); ok {
			dst = base.AppendBytes(binary.AppendUvarint(dst, tagFineSample), fine)
		}
	}
	if len(p.Ingested) > 0 {
		dst = base.AppendBytes(binary.AppendUvarint(dst, tagIngested), appendIngested(nil,
			p.Ingested))
	}
	return dst
}

// appendIngested encodes tables whose numbers ascend.
func appendIngested(dst []byte, list []sstable.Ingested) []byte {
	last := uint64(0)
	for _, t := range list {
		dst = binary.AppendUvarint(dst, t.Num-last)
		dst = binary.AppendUvarint(dst, uint64(t.Seq))
		dst = binary.AppendUvarint(dst, uint64(t.Keyspace))
		last = t.Num
	}
	return dst
}

func parseIngested(b []byte) (list []sstable.Ingested, ok bool) {
	last := uint64(0)
	for c := (base.Cutter{B: b}); len(c.B) > 0; {
		num, seq, space := last+c.Uvarint(), c.Uvarint(), c.Uvarint()
		t := sstable.Ingested{Num: num, Seq: base.SeqNum(seq), Keyspace: base.KeyspaceID(space)}
		if c.Bad || num <= last || t.Seq == 0 || t.Seq > base.MaxSeqNum ||
			uint64(t.Keyspace) != space || len(list) == sstable.MaxIngested {
			return nil, false
		}
		list, last = append(list, t), num
	}
	return list, true
}

func badProps(format string, args ...any) error {
	return base.Corruptf("table properties", format, args...)
}

// parseProps reads the properties.
func parseProps(b []byte) (p properties, err error) {
	p.Format = format
	c := base.Cutter{B: b}
	for last := uint64(0); len(c.B) > 0; {
		tag := c.Uvarint()
		if c.Bad || tag>>3 <= last>>3 {
			return p, badProps("malformed tag after %d", last)
		}
		last = tag
		known, err := p.parseField(tag, &c)
		if err != nil {
			return p, err
		}
		if !known && tag&needed != 0 {
			return p, fmt.Errorf("%w: field %d of a table's properties is not known",
				base.ErrNewerFormat, tag>>3)
		}
	}
	if p.index.Size == 0 {
		return p, badProps("no index")
	}
	return p, nil
}

// parseField reads the value of one field and reports whether the tag is known.
func (p *properties) parseField(tag uint64, c *base.Cutter) (known bool, err error) {
	switch tag >> 1 & 3 {
	case typeInt:
		v := c.Uvarint()
		if c.Bad {
			return false, badProps("malformed integer of tag %d", tag)
		}
		return p.setInt(tag, v)
	case typeBytes:
		v := c.Sized()
		if c.Bad {
			return false, badProps("malformed string of tag %d", tag)
		}
		switch tag {
		case tagComparer:
			known, p.Comparer = true, string(v)
		case tagKeyspaceName:
			known, p.KeyspaceName = true, string(v)
		case tagSample: // a malformed one is none: versions wrote such for chosen keys
			known = true
			p.Sample, _ = base.ParseKeySample(v)
		case tagIngested:
			if p.Ingested, known = parseIngested(v); !known {
				return true, badProps("ingested tables in %d bytes", len(v))
			}
		case tagFineSample:
			if p.Sample, known = base.ParseFineSample(v); !known {
				return true, badProps("a fine sample of %d bytes", len(v))
			}
		}
		return known, nil
	case typeHandle:
		h, n := block.DecodeHandle(c.B)
		if n == 0 || h.Size < headerLen {
			return false, badProps("malformed handle of tag %d", tag)
		}
		c.B = c.B[n:]
		if tag == tagDict {
			known, p.dict = true, h
		}
		p.handles(func(t uint64, v *block.Handle) {
			if t == tag {
				known, *v = true, h
			}
		})
		return known, nil
	}
	return false, badProps("tag %d is of no type", tag)
}

func (p *properties) setInt(tag, v uint64) (known bool, err error) {
	switch known = true; tag {
	case tagKeyspace:
		if p.Keyspace = base.KeyspaceID(v); uint64(p.Keyspace) != v {
			err = badProps("keyspace %d", v)
		}
	case tagFirstLog:
		p.FirstLog = v
	case tagBodySum:
		if p.bodySum = uint32(v); uint64(p.bodySum) != v {
			err = badProps("checksum %d", v)
		}
	case tagFilterBits:
		if p.FilterBits = int(v); v > filter.MaxBitsPerKey {
			err = badProps("%d filter bits per key", v)
		}
	case tagPrefixLength:
		if p.PrefixLength = int(v); v > sstable.MaxPrefixLength {
			err = badProps("prefixes of %d bytes", v)
		}
	default:
		known = false
		p.ints(func(t uint64, field *uint64) {
			if t == tag {
				known, *field = true, v
			}
		})
	}
	return known, err
}
