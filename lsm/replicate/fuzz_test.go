package replicate

import (
	"testing"

	"github.com/loamdb/loam/lsm"
)

// FuzzSegment reads bytes as the payload of a segment: an error or whole batches, in bounded
// memory.
func FuzzSegment(f *testing.F) {
	b := newBuilder(1)
	b.head.Spaces = []space{{Name: "default"}}
	batch := lsm.NewBatch()
	batch.Put([]byte("key"), []byte("value"))
	b.add(batch.Bytes(), func(uint32) bool { return false })
	payload, err := b.payload()
	must(f, err)
	s := segment{name: "s", first: 1, last: 1, digest: b.digest.String()}
	p, err := parse(s, payload)
	if must(f, err); len(p.batches) != 1 || len(p.head.Dropped) != 1 {
		f.Fatalf("%+v", p)
	}
	f.Add(payload)
	f.Add([]byte{})
	f.Add([]byte{255, 255, 255, 255, 15, 0})
	f.Fuzz(func(t *testing.T, payload []byte) {
		p, err := parse(s, payload)
		if err == nil && len(p.batches) == 0 {
			t.Error("a segment without its operation")
		}
	})
}

// FuzzNames reads bytes as names of objects: what is no name is passed over, and segments continue
// each other.
func FuzzNames(f *testing.F) {
	f.Add(segmentName("0000000000001-00000000", segment{first: 1, last: 2, time: 3,
		digest: "0123456789abcdef"}), uint64(0))
	f.Add(snapshotDir("0000000000001-00000000", 1, 2)+wholeName, uint64(1))
	f.Add("0000000000001-00000000/begin", uint64(1<<64-1))
	f.Fuzz(func(t *testing.T, name string, pos uint64) {
		m := newMem()
		m.objects[name] = nil
		all, err := catalog(ctx, m)
		must(t, err)
		for _, g := range all {
			in, end, _ := chain(g.segments, pos)
			if end < pos || len(in) > 1 {
				t.Errorf("%v ends at %d", in, end)
			}
			_, _ = choose(all, g.end(), "")
			_ = obsolete(all, g.end())
		}
	})
}
