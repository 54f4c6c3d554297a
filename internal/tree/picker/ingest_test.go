package picker_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/testkit/script"
	"github.com/loamdb/loam/internal/tree/picker"
)

// TestIngestScript runs testdata/ingest. Its commands are those of TestPickScript to describe a
// tree, and
//
//	ingest buffer=64 plain excise   where the tables of the input go: "9 a-m 64", a number,
//	                                keys and MiB; with start, their plans are then in flight
func TestIngestScript(t *testing.T) {
	var v *manifest.Version
	var inProgress picker.InProgress
	script.Run(t, "testdata/ingest", func(c *script.Command) string {
		switch c.Name {
		case "version":
			var err error
			inProgress = nil
			if v, err = parseVersion(c.Lines()); err != nil {
				return err.Error()
			}
			return ""
		case "flush":
			inProgress = append(inProgress, picker.FlushPlan(c.Int("level", 6), c.Bytes("from"),
				c.Bytes("to")))
			return ""
		case "ingest":
		default:
			return c.Unknown()
		}
		var tables []*manifest.FileMeta
		for _, line := range c.Lines() {
			var num, size int
			var keys string
			if _, err := fmt.Sscanf(line, "%d %s %d", &num, &keys, &size); err != nil {
				return err.Error()
			}
			smallest, largest, _ := strings.Cut(keys, "-")
			tables = append(tables, &manifest.FileMeta{Num: uint64(num), Size: uint64(size) << 20,
				Smallest: parseKey(smallest), Largest: parseKey(largest)})
		}
		mode := picker.IngestMode{Plain: c.Has("plain"), Excise: c.Has("excise")}
		levels, plans, err := picker.IngestLevels(v, inProgress, base.Bytewise, tables,
			uint64(c.Int("buffer", 64))<<20, mode)
		if err != nil {
			return err.Error()
		}
		if c.Has("start") {
			inProgress = append(inProgress, plans...)
		}
		var b strings.Builder
		for i, m := range tables {
			fmt.Fprintf(&b, "%d to L%d\n", m.Num, levels[i])
		}
		return b.String()
	})
}
