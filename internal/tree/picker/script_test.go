package picker_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/testkit/script"
	"github.com/loamdb/loam/internal/tree/picker"
)

// TestPickScript runs testdata/pick. Its commands:
//
//	config trigger=4 file=64 buffer=64 pieces=1 dense=(7 8)   sizes in MiB, dense by table number
//	       live=1000 space=1.3 fast                           live bytes in MiB
//	version          the input lists tables: "L1 7 a-m 64", a level, number, keys and MiB;
//	                 a key may carry a sequence: a#5-m#3. "L1 7 a-m 64 3/10" has 10 entries,
//	                 3 of them deletions. It ends all plans in flight.
//	pick             prints the next plan; with start, it is then in flight
//	read visits=100  the plan for the sake of seeks, after so many Ki looks into runs
//	range from=a to=m, flush from=a to=m, debt, idle, idleafter, pressure
func TestPickScript(t *testing.T) {
	var cfg picker.Config
	var v *manifest.Version
	var inProgress picker.InProgress
	script.Run(t, "testdata/pick", func(c *script.Command) string {
		from, to := c.Bytes("from"), c.Bytes("to")
		var plan *picker.Plan
		switch c.Name {
		case "config":
			cfg = config(c)
			return ""
		case "version":
			var err error
			inProgress = nil
			if v, err = parseVersion(c.Lines()); err != nil {
				return err.Error()
			}
			return ""
		case "pick":
			plan = picker.Pick(v, inProgress, cfg)
		case "read":
			plan = picker.PickReadTriggered(v, inProgress, cfg, uint64(c.Int("visits", 0))<<10)
		case "range":
			plan = picker.PickRange(v, inProgress, cfg, from, to)
		case "flush":
			level := picker.FlushLevel(v, inProgress, base.Bytewise, from, to)
			if c.Has("start") {
				inProgress = append(inProgress, picker.FlushPlan(level, from, to))
			}
			return fmt.Sprintf("level %d", level)
		case "idle":
			plan = picker.PickIdle(v, inProgress, cfg)
		case "idleafter":
			after, ok := picker.IdleAfter(v, cfg)
			if !ok {
				return "one run"
			}
			return after.Round(100 * time.Millisecond).String()
		case "pressure":
			return fmt.Sprintf("%.2f", picker.Pressure(v, cfg))
		case "debt":
			return fmt.Sprintf("%d MiB", picker.Debt(v, cfg)>>20)
		default:
			return c.Unknown()
		}
		if c.Has("start") && plan != nil {
			inProgress = append(inProgress, plan)
		}
		return describe(plan)
	})
}

func config(c *script.Command) picker.Config {
	cfg := picker.Config{Comparer: base.Bytewise, L0Trigger: c.Int("trigger", 4),
		L0Stop: c.Int("stop", 24), FileSize: uint64(c.Int("file", 64)) << 20,
		WriteBuffer: uint64(c.Int("buffer", 64)) << 20, MaxSubcompactions: c.Int("pieces", 1)}
	cfg.Live, cfg.Fast = uint64(c.Int("live", 0))<<20, c.Has("fast")
	cfg.MaxSpace, _ = strconv.ParseFloat(c.Arg("space", "0"), 64)
	dense := map[string]bool{}
	for _, num := range c.List("dense") {
		dense[num] = true
	}
	cfg.TombstoneDense = func(f *manifest.FileMeta) bool { return dense[strconv.Itoa(int(f.Num))] }
	return cfg
}

func parseKey(s string) base.InternalKey {
	user, seq, ok := strings.Cut(s, "#")
	n := 1
	if ok {
		n, _ = strconv.Atoi(seq)
	}
	return base.InternalKey{User: []byte(user), Trailer: base.MakeTrailer(base.SeqNum(n),
		base.KindSet)}
}

func parseVersion(lines []string) (*manifest.Version, error) {
	var levels [manifest.NumLevels][]*manifest.FileMeta
	for _, line := range lines {
		var level, num, size int
		var keys string
		if _, err := fmt.Sscanf(line, "L%d %d %s %d", &level, &num, &keys, &size); err != nil {
			return nil, fmt.Errorf("%s: %v", line, err)
		}
		var facts manifest.Facts
		if f := strings.Fields(line); len(f) > 4 {
			if _, err := fmt.Sscanf(f[4], "%d/%d", &facts.Deletes, &facts.Entries); err != nil {
				return nil, fmt.Errorf("%s: %v", line, err)
			}
		}
		smallest, largest, _ := strings.Cut(keys, "-")
		levels[level] = append(levels[level],
			&manifest.FileMeta{Num: uint64(num), Size: uint64(size) << 20, Facts: facts,
				Smallest: parseKey(smallest), Largest: parseKey(largest)})
	}
	return manifest.NewVersion(base.Bytewise, levels)
}

// letters cuts a table whose keys are single letters.
func letters(f *manifest.FileMeta, n int) (keys [][]byte) {
	lo, hi := int(f.Smallest.User[0]), int(f.Largest.User[0])
	for k := 1; k < n; k++ {
		if c := byte(lo + (hi-lo)*k/n); len(keys) == 0 || c > keys[len(keys)-1][0] {
			keys = append(keys, []byte{c})
		}
	}
	return keys
}

func describe(p *picker.Plan) string {
	if p == nil {
		return "nothing"
	}
	p.Cut(base.Bytewise, letters)
	var b strings.Builder
	if p.TrivialMove {
		b.WriteString("move ")
	}
	for level, files := range p.Inputs {
		if len(files) == 0 {
			continue
		}
		fmt.Fprintf(&b, "L%d", level)
		for _, f := range files {
			fmt.Fprintf(&b, " %d", f.Num)
		}
		b.WriteString(", ")
	}
	fmt.Fprintf(&b, "to L%d: %s (%s-%s, %d MiB)", p.OutputLevel, p.Reason, p.Smallest, p.Largest,
		p.InputBytes>>20)
	for _, k := range p.Subranges {
		fmt.Fprintf(&b, " | %s", k)
	}
	return b.String()
}

// BenchmarkPick is a decision on a large version of LevelDB's shape.
func BenchmarkPick(b *testing.B) {
	var levels [manifest.NumLevels][]*manifest.FileMeta
	num := uint64(0)
	for l, n := range []int{4, 5, 50, 500, 5000} {
		for i := range n {
			num++
			lo, hi := i*1_000_000/n, (i+1)*1_000_000/n-1
			if l == 0 {
				lo, hi = 0, 999_999
			}
			levels[l] = append(levels[l], &manifest.FileMeta{Num: num, Size: 2 << 20,
				Smallest: base.InternalKey{User: fmt.Appendf(nil, "%08d", lo)},
				Largest:  base.InternalKey{User: fmt.Appendf(nil, "%08d", hi)}})
		}
	}
	v, err := manifest.NewVersion(base.Bytewise, levels)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if picker.Pick(v, nil, picker.Config{FileSize: 2 << 20, WriteBuffer: 4 << 20,
			MaxSubcompactions: 2}) == nil {
			b.Fatal("nothing to do")
		}
	}
}
