package base

import "encoding/binary"

// KeySample is a sample of the user keys of a table, by their hashes: whether a key
// is in the sample depends on the key alone, so that samples of two tables have in
// common what the tables have. See picker.Live.
type KeySample struct {
	// shift is how many of a hash's upper bits are 0 if its key is in the sample.
	shift uint8
	// keys are 31 of the bits below the first sampleShift ones, and one bit that is set if the
	// newest entry of the key in the table is a tombstone.
	keys []uint32
}

const (
	sampleShift = 11 // one key in 2,048
	maxSample   = 1 << 10
)

// Add takes the hash of one key. Each key is added once.
func (s *KeySample) Add(hash uint64, tombstone bool) {
	if hash>>(64-s.Shift()) != 0 {
		return
	}
	k := uint32(hash>>(64-sampleShift-31)) << 1
	if tombstone {
		k |= 1
	}
	if s.keys = append(s.keys, k); len(s.keys) > maxSample {
		s.shift = s.Shift() + 1
		kept := s.keys[:0]
		s.Each(s.shift, func(key uint32, tombstone bool) {
			if key <<= 1; tombstone {
				key |= 1
			}
			kept = append(kept, key)
		})
		s.keys = kept
	}
}

// Shift is the binary logarithm of how many keys of the table stand behind one of
// the sample.
func (s *KeySample) Shift() uint8 { return max(s.shift, sampleShift) }

// Len is the number of keys in the sample.
func (s *KeySample) Len() int { return len(s.keys) }

// Each calls f for the keys of a coarser sample: one of 2^shift, shift being at
// least Shift.
func (s *KeySample) Each(shift uint8, f func(key uint32, tombstone bool)) {
	for _, k := range s.keys {
		if k>>(32-(shift-sampleShift)) == 0 {
			f(k>>1, k&1 != 0)
		}
	}
}

// AppendTo appends the sample as tables store it: the shift, then each key, 32 bits,
// little-endian.
func (s *KeySample) AppendTo(dst []byte) []byte {
	dst = append(dst, s.Shift())
	for _, k := range s.keys {
		dst = binary.LittleEndian.AppendUint32(dst, k)
	}
	return dst
}

// ParseKeySample undoes AppendTo. It reports false where b is no sample.
func ParseKeySample(b []byte) (*KeySample, bool) {
	if len(b) == 0 || len(b)%4 != 1 || len(b)/4 > maxSample || b[0] < sampleShift ||
		b[0] > sampleShift+31 {
		return nil, false
	}
	s := &KeySample{shift: b[0], keys: make([]uint32, 0, len(b)/4)}
	for b = b[1:]; len(b) > 0; b = b[4:] {
		s.keys = append(s.keys, binary.LittleEndian.Uint32(b))
	}
	return s, true
}
