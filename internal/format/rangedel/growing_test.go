package rangedel

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/loamdb/loam/internal/base"
)

// TestManyWithoutReader: where no reader comes, tombstones are fragmented all the same, by the
// writer itself if the comparer is the user's.
func TestManyWithoutReader(t *testing.T) {
	const n = 5 * mostWaiting
	user := *base.Bytewise
	user.Name = "a user's"
	for _, c := range []struct {
		cmp  *base.Comparer
		most int
	}{{base.Bytewise, mostWaiting}, {&user, maxWaiting}} {
		d := &Growing{}
		order := rand.New(rand.NewPCG(1, 2)).Perm(n)
		key := func(i int) []byte { return fmt.Appendf(nil, "%08d", i) }
		for i, at := range order {
			d.Add(c.cmp, []Tombstone{{key(2 * at), key(2*at + 1), base.SeqNum(i + 1)}})
			if s := d.state.Load(); s.n >= c.most {
				t.Fatalf("%s: %d wait after %d", c.cmp.Name, s.n, i+1)
			}
		}
		lists, count := d.Lists(c.cmp), 0
		for _, l := range lists {
			count += l.Count()
		}
		if count != n || d.Full() {
			t.Errorf("%s: %d of %d tombstones, full: %v", c.cmp.Name, count, n, d.Full())
		}
		for i, at := range order {
			var seq, none base.SeqNum
			for _, l := range lists {
				seq = max(seq, l.Newest(key(2*at), base.MaxSeqNum))
				none = max(none, l.Newest(key(2*at+1), base.MaxSeqNum))
			}
			if seq != base.SeqNum(i+1) || none != 0 {
				t.Fatalf("%s: tombstone %d is %d, and %d behind it", c.cmp.Name, i+1, seq, none)
			}
		}
	}
}
