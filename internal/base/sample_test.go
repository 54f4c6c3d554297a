package base

import (
	"encoding/binary"
	"maps"
	"math"
	"testing"
)

// TestKeySample: a sample stands for 2^Shift keys each, has a key whatever the table,
// and gets coarser rather than longer than maxSample.
func TestKeySample(t *testing.T) {
	var small, large KeySample
	hash := func(i int) uint64 { return Hash(binary.BigEndian.AppendUint64(nil, uint64(i))) }
	const n = 3 << 20
	for i := range n {
		large.Add(hash(i), i%3 == 0)
		if i%10 == 0 {
			small.Add(hash(i), false)
		}
	}
	if small.Shift() != sampleShift || large.Shift() != sampleShift+1 {
		t.Fatalf("shifts %d and %d", small.Shift(), large.Shift())
	}
	if got := float64(large.Len()<<large.Shift()) / n; math.Abs(got-1) > 0.1 ||
		large.Len() > maxSample {
		t.Errorf("%d keys stand for %.2f of the table", large.Len(), got)
	}
	in := map[uint64]bool{}
	dead := 0
	large.Each(large.Shift(), func(key uint64, tombstone bool) {
		in[key] = true
		if tombstone {
			dead++
		}
	})
	if got := float64(dead) / float64(large.Len()); math.Abs(got-1.0/3) > 0.1 {
		t.Errorf("%.2f are tombstones", got)
	}
	common := 0
	small.Each(large.Shift(), func(key uint64, tombstone bool) {
		common++
		if !in[key] || tombstone {
			t.Errorf("key %x", key)
		}
	})
	if want := small.Len() / 2; common < want/2 || common > 2*want {
		t.Errorf("%d of %d are in the coarser sample", common, small.Len())
	}
}

// TestFineSample: a fine sample has all keys at first, compares with coarse ones, and is stored.
func TestFineSample(t *testing.T) {
	hash := func(i int) uint64 { return Hash(binary.BigEndian.AppendUint64(nil, uint64(i))) }
	keys := func(s *KeySample, shift uint8) map[uint64]bool {
		in := map[uint64]bool{}
		s.Each(shift, func(key uint64, tombstone bool) { in[key] = tombstone })
		return in
	}
	for _, n := range []int{1, 200, 257, 5000, 1 << 17, 3 << 20} {
		fine, coarse := NewKeySample(true), NewKeySample(false)
		for i := range n {
			fine.Add(hash(i), i%3 == 0)
			coarse.Add(hash(i), i%3 == 0)
		}
		if n <= maxFine && (fine.Shift() != 0 || fine.Len() != n) ||
			n <= maxFine<<sampleShift && fine.Len() > maxFine || n > 500 &&
			math.Abs(float64(fine.Len()<<fine.Shift())/float64(n)-1) > 0.3 {
			t.Errorf("%d keys of %d, shift %d", fine.Len(), n, fine.Shift())
		}
		shift := max(fine.Shift(), coarse.Shift())
		if !maps.Equal(keys(fine, shift), keys(coarse, shift)) {
			t.Errorf("%d keys: the samples differ", n)
		}
		stored, ok := fine.AppendFine(nil)
		if ok != (fine.Shift() < sampleShift) {
			t.Errorf("%d keys: is one stored: %v", n, ok)
		}
		if !ok {
			continue
		}
		got, ok := ParseFineSample(stored)
		if !ok || got.Shift() != fine.Shift() ||
			!maps.Equal(keys(got, fine.Shift()), keys(fine, fine.Shift())) {
			t.Errorf("%d keys are read as %v", n, got)
		}
	}
	for _, bad := range [][]byte{{}, {11}, {0, 0}, {10, 0, 0, 0, 0, 255, 0},
		make([]byte, 1+6*(maxFine+1))} {
		if s, ok := ParseFineSample(bad); ok {
			t.Errorf("%x is taken for %v", bad, s)
		}
	}
}

// TestSampleOfChosenHashes: a sample of keys whose hashes somebody chose, so that no coarser sample
// has fewer of them, stays short and is stored.
func TestSampleOfChosenHashes(t *testing.T) {
	for _, fine := range []bool{false, true} {
		for _, n := range []int{maxFine + 1, maxSample, maxSample + 1, maxSample + 100, 5000} {
			s := NewKeySample(fine)
			for i := range n {
				s.Add(uint64(i), i%3 == 0)
			}
			got, ok := ParseKeySample(s.AppendTo(nil))
			if !ok || got.Len() != min(n, maxSample) {
				t.Errorf("%d hashes, fine %v: %d keys, shift %d, are read as %v", n, fine, s.Len(),
					s.Shift(), got)
			}
			if _, ok := s.AppendFine(nil); ok {
				t.Errorf("%d hashes: as many bits make a fine sample", n)
			}
		}
	}
}
