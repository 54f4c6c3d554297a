package base

import (
	"encoding/binary"
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
	in := map[uint32]bool{}
	dead := 0
	large.Each(large.Shift(), func(key uint32, tombstone bool) {
		in[key] = true
		if tombstone {
			dead++
		}
	})
	if got := float64(dead) / float64(large.Len()); math.Abs(got-1.0/3) > 0.1 {
		t.Errorf("%.2f are tombstones", got)
	}
	common := 0
	small.Each(large.Shift(), func(key uint32, tombstone bool) {
		common++
		if !in[key] || tombstone {
			t.Errorf("key %x", key)
		}
	})
	if want := small.Len() / 2; common < want/2 || common > 2*want {
		t.Errorf("%d of %d are in the coarser sample", common, small.Len())
	}
}
