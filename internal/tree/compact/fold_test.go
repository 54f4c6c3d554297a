package compact

import (
	"fmt"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/mergeop"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/testkit/model"
)

// TestFoldAtTheLimits folds as many operands as may wait, more, and one that is as large as all of
// them may be, onto a value: of more than may wait, the newest stay, until the next merge.
func TestFoldAtTheLimits(t *testing.T) {
	count := &mergeop.Operator{Name: "count", Full: func(dst, _, existing []byte,
		operands [][]byte) ([]byte, error) {
		return fmt.Appendf(dst, "%s+%d", existing, len(operands)), nil
	}}
	for _, c := range []struct {
		operands, size int
		want           string
	}{
		{maxFolding, 1, "value+65536"},
		{maxFolding + 10, 1, "value+10+65536"},
		{1, maxFoldingBytes, "value+1"},
		{3, maxFoldingBytes, "value+1+1+1"},
	} {
		ts := newTables(t, base.Bytewise)
		env := ts.env()
		env.Merge = count
		operand := make([]byte, c.size)
		var es []model.Entry
		for i := range c.operands {
			es = append(es, model.Entry{Key: []byte("k"), Value: operand,
				Trailer: base.MakeTrailer(base.SeqNum(c.operands+1-i), base.KindMerge)})
		}
		var levels [manifest.NumLevels][]*manifest.FileMeta
		levels[0] = []*manifest.FileMeta{ts.put(es)}
		levels[4] = []*manifest.FileMeta{ts.put([]model.Entry{{Key: []byte("k"),
			Value: []byte("value"), Trailer: base.MakeTrailer(1, base.KindSet)}})}
		merges := 0
		for n := 2; n > 1; merges++ {
			r, err := Run(planOf(versionOf(t, levels), 4), 0, env, nil)
			if err != nil {
				t.Fatal(err)
			}
			left := ts.data[r.Added[0].Meta.Num]
			if len(left) >= n && merges > 0 {
				t.Fatalf("%d operands of %d bytes: %d entries stay", c.operands, c.size, len(left))
			}
			n = len(left)
			levels[0], levels[4] = nil, []*manifest.FileMeta{r.Added[0].Meta}
			if n == 1 && string(left[0].Value) != c.want {
				t.Errorf("%d operands of %d bytes: %q", c.operands, c.size, left[0].Value)
			}
		}
		if over := c.operands > maxFolding || c.operands*c.size > maxFoldingBytes; over !=
			(merges > 1) {
			t.Errorf("%d operands of %d bytes: %d merges", c.operands, c.size, merges)
		}
	}
}
