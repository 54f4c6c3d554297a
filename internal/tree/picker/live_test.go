package picker

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
)

// TestLive: the estimate sees what is hidden, deleted, and not known.
func TestLive(t *testing.T) {
	const many = 1 << 19
	num := uint64(0)
	table := func(from, to int, tombstones bool) *manifest.FileMeta {
		num++
		f := &manifest.FileMeta{Num: num, Size: uint64(to-from) * 64}
		f.Sample.Store(new(base.KeySample))
		for i := from; i < to; i++ {
			f.Sample.Load().Add(base.Hash(binary.BigEndian.AppendUint64(nil, uint64(i))),
				tombstones)
		}
		key := func(i int) base.InternalKey {
			return base.InternalKey{User: binary.BigEndian.AppendUint64(nil, uint64(i)),
				Trailer: base.MakeTrailer(base.SeqNum(num), base.KindSet)}
		}
		f.Smallest, f.Largest = key(from), key(to-1)
		return f
	}
	unsampled := func(from, to int) *manifest.FileMeta {
		f := table(from, to, false)
		f.Sample.Store(nil)
		return f
	}
	type levels = [manifest.NumLevels][]*manifest.FileMeta
	for _, tc := range []struct {
		name   string
		levels levels
		want   float64 // times many entries
	}{
		{"empty", levels{}, 0},
		{"nothing known", levels{0: {unsampled(0, many)}, 6: {unsampled(0, many)}}, 0},
		{"all distinct", levels{0: {table(0, many, false)}, 3: {table(many, 2*many, false)},
			6: {table(2*many, 4*many, false)}}, 4},
		{"all hidden", levels{0: {table(0, many, false)}, 3: {table(0, many, false)},
			6: {table(0, many, false)}}, 1},
		{"half hidden", levels{4: {table(0, many, false)}, 6: {table(many/2, 2*many, false)}}, 2},
		{"deleted", levels{4: {table(0, many, true)}, 6: {table(0, 2*many, false)}}, 1},
		{"level 0 from the newest", levels{0: {table(0, many, false), table(0, many, true)},
			6: {table(0, many, false)}}, 0},
		{"bottom not known", levels{4: {table(0, many, false)}, 6: {unsampled(0, 4*many)}}, 4},
		{"half of the bottom not known", levels{4: {table(4*many, 5*many, false)},
			6: {unsampled(0, 2*many), table(2*many, 4*many, false)}}, 4.5},
		{"only the bottom known", levels{4: {unsampled(0, many)}, 6: {table(0, 4*many, false)}}, 4},
	} {
		v, err := manifest.NewVersion(base.Bytewise, tc.levels)
		if err != nil {
			t.Fatal(err)
		}
		live, _ := Live(v)
		if got := float64(live) / (64 * many); math.Abs(got-tc.want) > 0.08*tc.want+1e-6 {
			t.Errorf("%s: %.2f times as many entries, want %.2f", tc.name, got, tc.want)
		}
	}
}

// TestLiveOfMany: the estimate of a large tree looks at a bounded part of its samples.
func TestLiveOfMany(t *testing.T) {
	var levels [manifest.NumLevels][]*manifest.FileMeta
	x := uint64(1)
	for i := range 100 {
		f := &manifest.FileMeta{Num: uint64(i + 1), Size: 64 << 20}
		f.Sample.Store(new(base.KeySample))
		for range 600 {
			x = x*6364136223846793005 + 1442695040888963407
			f.Sample.Load().Add(base.Hash(binary.BigEndian.AppendUint64(nil, x))>>11, false)
		}
		f.Smallest = base.InternalKey{User: []byte{byte(i), 0},
			Trailer: base.MakeTrailer(1, base.KindSet)}
		f.Largest = base.InternalKey{User: []byte{byte(i), 1},
			Trailer: base.MakeTrailer(1, base.KindSet)}
		levels[5+i%2] = append(levels[5+i%2], f)
	}
	v, err := manifest.NewVersion(base.Bytewise, levels)
	if err != nil {
		t.Fatal(err)
	}
	e := newEstimate(v)
	e.count(v)
	keys := 0
	for _, s := range e.share {
		keys += s.all
	}
	if keys > maxSampled*5/4 || keys < maxSampled/4 {
		t.Errorf("%d sampled keys were looked at", keys)
	}
	live, _ := Live(v)
	if got := float64(live) / (6400 << 20); math.Abs(got-1) > 0.02 {
		t.Errorf("%.2f of distinct keys are live", got)
	}
}
