package hist

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/testkit/script"
)

// TestScript runs testdata/script. Its commands:
//
//	record (values) times=N   into a new histogram; and=1: into the one there is
//	merge (values)            a histogram of these values into it
//	quantiles (fractions)
//	buckets
func TestScript(t *testing.T) {
	h := &Histogram{}
	script.Run(t, "testdata/script", func(c *script.Command) string {
		switch c.Name {
		case "record":
			if !c.Has("and") {
				h = &Histogram{}
			}
			record(c, h)
		case "merge":
			var o Histogram
			record(c, &o)
			h.Merge(&o)
		case "quantiles":
			var out []string
			for _, q := range c.List("of") {
				f, err := strconv.ParseFloat(q, 64)
				if err != nil {
					c.Fail("%v", err)
				}
				out = append(out, fmt.Sprintf("%s: %d", q, h.Quantile(f)))
			}
			return strings.Join(out, ", ")
		case "buckets":
			var out []string
			for b := range h.Buckets() {
				out = append(out, fmt.Sprintf("%d-%d: %d", b.Low, b.High, b.Count))
			}
			return strings.Join(out, "\n")
		default:
			return c.Unknown()
		}
		return fmt.Sprintf("%d values from %d to %d, sum %d, mean %.4g, deviation %.4g", h.Count(),
			h.Min(), h.Max(), h.Sum(), h.Mean(), h.StdDev())
	})
}

func record(c *script.Command, h *Histogram) {
	times := c.Int("times", 1)
	for _, s := range c.List("values") {
		v, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			c.Fail("%v", err)
		}
		for range times {
			h.Record(v)
		}
	}
}
