package manifest

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/loamdb/loam/internal/base"
)

// Facts is a native MANIFEST's record of a table, except size and bounds. A zero
// Facts says nothing.
type Facts struct {
	Format      base.Format // of the table
	Checksum    uint32      // CRC-32C of the whole file; valid if HasChecksum
	HasChecksum bool
	Leftovers   bool   // see FileMeta
	Entries     uint64 // Deletes included; 0: not known
	Deletes     uint64 // tombstones of single keys
	RangeDels   uint64 // range tombstones, which are no Entries
	Kinds       uint64 // bit k: there are entries of kind k
	// MinExpiry and MaxExpiry are the first and the last time at which an entry expires,
	// in seconds since 1970; 0: none does.
	MinExpiry, MaxExpiry uint64
	// GlobalSeq is the sequence number of all that is in the table, whose file says 0: it was
	// ingested. 0: the file has the sequence numbers.
	GlobalSeq base.SeqNum
	// OldValues are the bytes of FileMeta.ValueBytes that newer entries of the table hide: they
	// were kept for snapshots.
	OldValues uint64
}

// AllExpire reports whether all that is in the table expires.
func (f *Facts) AllExpire() bool {
	return f.Kinds != 0 && f.Kinds&^base.ExpiringKinds == 0 && f.MaxExpiry > 0
}

// DO NOT CHANGE THE ORDER: bit n of the mask in a tagFacts says that field n follows.
// Each field is a varint, so that a reader passes over those that it does not know. If it
// must not, because the table means something else without the field, the field is one
// of firstNeeded or above.
const (
	factFormat = iota
	factChecksum
	factLeftovers
	factEntries
	factDeletes
	factRangeDels
	factKinds
	factMinExpiry
	factMaxExpiry
	factOldValues
	numFacts

	firstNeeded = 32

	factGlobalSeq = firstNeeded
	// how many logs and how many value files; they stand behind all fields, in this order
	factValueLogs  = firstNeeded + 1
	factValueFiles = firstNeeded + 2
	numNeeded      = 3
)

// encode appends mask and fields, and the logs and value files that the table refers to.
func (f *Facts) encode(dst []byte, logs []base.ValueLog) []byte {
	inFiles := 0
	for _, l := range logs {
		if l.InFile {
			inFiles++
		}
	}
	fields := [firstNeeded + numNeeded]uint64{
		factFormat: uint64(f.Format), factChecksum: uint64(f.Checksum), factEntries: f.Entries,
		factDeletes: f.Deletes, factRangeDels: f.RangeDels, factKinds: f.Kinds,
		factMinExpiry: f.MinExpiry, factMaxExpiry: f.MaxExpiry, factGlobalSeq: uint64(f.GlobalSeq),
		factValueLogs: uint64(len(logs) - inFiles), factValueFiles: uint64(inFiles),
		factOldValues: f.OldValues,
	}
	if f.Leftovers {
		fields[factLeftovers] = 1
	}
	mask := uint64(0)
	for i, v := range fields {
		if v != 0 || i == factChecksum && f.HasChecksum {
			mask |= 1 << i
		}
	}
	dst = binary.AppendUvarint(dst, mask)
	for m := mask; m != 0; m &= m - 1 {
		dst = binary.AppendUvarint(dst, fields[bits.TrailingZeros64(m)])
	}
	return appendValueLogs(appendValueLogs(dst, logs, false), logs, true)
}

// decodeFacts reads mask and fields, and the logs and value files that the table refers to. newer
// says that a field is needed which this version does not know.
func (m *FileMeta) decodeFacts(c *cursor) (newer bool) {
	mask := c.Uvarint()
	if mask>>(firstNeeded+numNeeded) != 0 {
		return true
	}
	var fields [firstNeeded + numNeeded]uint64
	for left := mask; left != 0; left &= left - 1 {
		fields[bits.TrailingZeros64(left)] = c.Uvarint()
	}
	c.Need(fields[factChecksum] <= math.MaxUint32 && fields[factLeftovers] <= 1 &&
		fields[factGlobalSeq] <= uint64(base.MaxSeqNum))
	if fields[factFormat] > uint64(base.Native) {
		return true
	}
	if logs, inFiles := fields[factValueLogs], fields[factValueFiles]; logs|inFiles > 0 {
		m.readValueLogs(c, logs, inFiles)
	}
	m.Facts = Facts{
		Format: base.Format(fields[factFormat]), Checksum: uint32(fields[factChecksum]),
		HasChecksum: mask>>factChecksum&1 != 0, Leftovers: fields[factLeftovers] != 0,
		Entries: fields[factEntries], Deletes: fields[factDeletes],
		RangeDels: fields[factRangeDels], Kinds: fields[factKinds],
		MinExpiry: fields[factMinExpiry], MaxExpiry: fields[factMaxExpiry],
		GlobalSeq: base.SeqNum(fields[factGlobalSeq]), OldValues: fields[factOldValues],
	}
	c.Need(m.OldValues <= m.ValueBytes)
	return false
}
