package runner

import (
	"fmt"
	"strings"

	"github.com/loamdb/loam/internal/base/hist"
)

// Quantiles are the percentiles that reports give.
var Quantiles = []struct {
	Name string
	Q    float64
}{
	{"P50", 0.50}, {"P75", 0.75}, {"P99", 0.99}, {"P99.9", 0.999}, {"P99.99", 0.9999},
}

// limits cut every power of ten into the ranges that histograms are printed in.
var limits = []float64{1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9}

// formatHistogram prints nanoseconds as microseconds, in the form of LevelDB's
// benchmark; the ranges go below a microsecond.
func formatHistogram(h *hist.Histogram) string {
	var b strings.Builder
	us := func(ns int64) float64 { return float64(ns) / 1e3 }
	fmt.Fprintf(&b, "Count: %d  Average: %.4f  StdDev: %.2f\n", h.Count(), h.Mean()/1e3,
		h.StdDev()/1e3)
	fmt.Fprintf(&b, "Min: %.4f  Median: %.4f  Max: %.4f\n", us(h.Min()), us(h.Quantile(0.5)),
		us(h.Max()))
	b.WriteString("Percentiles:")
	for _, q := range Quantiles {
		fmt.Fprintf(&b, " %s: %.2f", q.Name, us(h.Quantile(q.Q)))
	}
	b.WriteString("\n------------------------------------------------------\n")

	var sum int64
	flush := func(low, high float64, n int64) {
		if n == 0 {
			return
		}
		sum += n
		total := float64(h.Count())
		line := fmt.Sprintf("[ %7.4g, %7.4g ) %9d %7.3f%% %7.3f%% ", low, high, n,
			float64(n)*100/total, float64(sum)*100/total)
		b.WriteString(strings.TrimRight(line+strings.Repeat("#", int(float64(n)*20/total+0.5)),
			" ") + "\n")
	}
	low, high, scale, i := 0.0, limits[0]*0.01, 0.01, 0
	var n int64
	for bucket := range h.Buckets() {
		mid := (us(bucket.Low) + us(bucket.High)) / 2
		for mid >= high {
			flush(low, high, n)
			n = 0
			if i++; i == len(limits) {
				i, scale = 0, scale*10
			}
			low, high = high, limits[i]*scale
		}
		n += bucket.Count
	}
	flush(low, high, n)
	return strings.TrimSuffix(b.String(), "\n")
}
