package base

import "encoding/binary"

// KeySample is a sample of the user keys of a table, by their hashes: whether a key
// is in the sample depends on the key alone, so that samples of two tables have in
// common what the tables have. See picker.Live.
//
// The zero value begins with one key in 2,048. A fine sample begins with all keys, until there are
// more than maxFine of them: entries that refer to large values are few, and weigh much.
type KeySample struct {
	fine bool
	// shift is how many of a hash's upper bits are 0 if its key is in the sample.
	shift uint8
	// keys are 31 of the bits below the first sampleShift ones, and one bit that is set if the
	// newest entry of the key in the table is a tombstone.
	keys []uint32
	// upper are the first sampleShift bits, where one of them may be 1; nil: all are 0.
	upper []uint16
}

const (
	sampleShift = 11 // one key in 2,048
	maxShift    = sampleShift + 31
	maxSample   = 1 << 10
	maxFine     = 1 << 8 // the same while the shift is below sampleShift
)

// NewKeySample makes an empty sample.
func NewKeySample(fine bool) *KeySample { return &KeySample{fine: fine} }

// Add takes the hash of one key. Each key is added once.
func (s *KeySample) Add(hash uint64, tombstone bool) {
	if hash>>(64-s.Shift()) != 0 {
		return
	}
	k := uint32(hash>>(64-sampleShift-31)) << 1
	if tombstone {
		k |= 1
	}
	s.keys = append(s.keys, k)
	if s.Shift() < sampleShift {
		s.upper = append(s.upper, uint16(hash>>(64-sampleShift)))
	}
	for len(s.keys) > s.most() {
		if s.Shift() == maxShift { // somebody chose the keys by their hashes
			s.keys = s.keys[:maxSample]
			return
		}
		s.coarsen(s.Shift() + 1)
	}
}

// most is how many keys the sample has at most.
func (s *KeySample) most() int {
	if s.Shift() < sampleShift {
		return maxFine
	}
	return maxSample
}

// coarsen leaves one key of 2^shift.
func (s *KeySample) coarsen(shift uint8) {
	n := 0
	for i, k := range s.keys {
		if !s.has(i, shift) {
			continue
		}
		if s.keys[n] = k; s.upper != nil {
			s.upper[n] = s.upper[i]
		}
		n++
	}
	s.shift, s.keys = shift, s.keys[:n]
	if s.upper = s.upper[:min(n, len(s.upper))]; shift >= sampleShift {
		s.upper = nil
	}
}

// has reports whether key i is in the coarser sample of one key of 2^shift.
func (s *KeySample) has(i int, shift uint8) bool {
	if shift < sampleShift {
		return s.upper[i]>>(sampleShift-shift) == 0
	}
	return (s.upper == nil || s.upper[i] == 0) && s.keys[i]>>(32-(shift-sampleShift)) == 0
}

// Shift is the binary logarithm of how many keys of the table stand behind one of
// the sample.
func (s *KeySample) Shift() uint8 {
	if s.fine {
		return s.shift
	}
	return max(s.shift, sampleShift)
}

// Len is the number of keys in the sample.
func (s *KeySample) Len() int { return len(s.keys) }

// Each calls f for the keys of a coarser sample: one of 2^shift, shift being at
// least Shift.
func (s *KeySample) Each(shift uint8, f func(key uint64, tombstone bool)) {
	for i, k := range s.keys {
		if !s.has(i, shift) {
			continue
		}
		key := uint64(k >> 1)
		if s.upper != nil {
			key |= uint64(s.upper[i]) << 31
		}
		f(key, k&1 != 0)
	}
}

// AppendTo appends the keys of the sample as tables store them: the shift, at least sampleShift,
// then each key, 32 bits, little-endian.
func (s *KeySample) AppendTo(dst []byte) []byte {
	shift := max(s.Shift(), sampleShift)
	dst = append(dst, shift)
	for i, k := range s.keys {
		if s.has(i, shift) {
			dst = binary.LittleEndian.AppendUint32(dst, k)
		}
	}
	return dst
}

// AppendFine is AppendTo of a sample with a smaller shift: each key has 16 bits more, its first
// sampleShift ones. ok is false for other samples.
func (s *KeySample) AppendFine(dst []byte) (fine []byte, ok bool) {
	if s.Shift() >= sampleShift || len(s.keys) == 0 {
		return dst, false
	}
	dst = append(dst, s.shift)
	for i, k := range s.keys {
		dst = binary.LittleEndian.AppendUint32(dst, k)
		dst = binary.LittleEndian.AppendUint16(dst, s.upper[i])
	}
	return dst, true
}

// ParseKeySample undoes AppendTo. It reports false where b is no sample.
func ParseKeySample(b []byte) (*KeySample, bool) {
	if len(b) == 0 || len(b)%4 != 1 || len(b)/4 > maxSample || b[0] < sampleShift ||
		b[0] > maxShift {
		return nil, false
	}
	s := &KeySample{shift: b[0], keys: make([]uint32, 0, len(b)/4)}
	for b = b[1:]; len(b) > 0; b = b[4:] {
		s.keys = append(s.keys, binary.LittleEndian.Uint32(b))
	}
	return s, true
}

// ParseFineSample undoes AppendFine.
func ParseFineSample(b []byte) (*KeySample, bool) {
	if len(b) == 0 || len(b)%6 != 1 || len(b)/6 > maxFine || b[0] >= sampleShift {
		return nil, false
	}
	s := &KeySample{fine: true, shift: b[0]}
	for b = b[1:]; len(b) > 0; b = b[6:] {
		upper := binary.LittleEndian.Uint16(b[4:])
		if upper>>(sampleShift-s.shift) != 0 {
			return nil, false
		}
		s.keys = append(s.keys, binary.LittleEndian.Uint32(b))
		s.upper = append(s.upper, upper)
	}
	return s, true
}
