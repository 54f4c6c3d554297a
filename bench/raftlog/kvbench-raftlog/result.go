package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// cell is one engine with one size of entries, and the flags of a child.
type cell struct {
	Engine string
	Size   int
	Num    int
	Batch  int
	Round  int
	Dir    string
	jraft  string // the class path of an engine in Java; "": the engine is in package logs
}

// result is what a cell measured. Rates are in MB of payload a second, a MB being 10^6 bytes.
type result struct {
	cell
	Append, ReadAll, ReadRandom, CatchUp float64
	AppendLatency, TruncateLatency       latency
	OverwriteLatency, RandomLatency      latency
	Written                              float64 // bytes written per byte of payload, appends
	WrittenAll                           float64 // the same, until all phases ended
	Syncs                                float64 // a batch
	CPU                                  float64 // seconds of all threads for each GB appended
	Memory                               int64   // largest resident size of the process in bytes
	SpaceFull, SpaceCut                  int64   // bytes of the directory, behind append, cut
	Reopen                               time.Duration
	Entries                              int // the last index, which a reopening has to find
}

// latency has quantiles of calls.
type latency struct{ P50, P99, Max time.Duration }

func quantiles(d []time.Duration) latency {
	if len(d) == 0 {
		return latency{}
	}
	slices.Sort(d)
	return latency{d[len(d)/2], d[len(d)*99/100], d[len(d)-1]}
}

func (l latency) String() string {
	ms := func(d time.Duration) string { return fmt.Sprintf("%.2f", float64(d)/1e6) }
	return ms(l.P50) + " " + ms(l.P99) + " " + ms(l.Max)
}

// write prints a round. The floor is the mean of its two runs.
func write(w io.Writer, round []result) {
	floor, n := 0.0, 0.0
	for _, r := range round {
		if r.Engine == floorName {
			floor, n = floor+r.Append, n+1
		}
	}
	floor /= n
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	defer t.Flush()
	fmt.Fprintln(t, "log\tappend\tof floor\tP50 P99 max ms\twritten\tsyncs\tCPU s/GB\tMiB\t"+
		"read all\trandom\tcatch-up\ttruncate ms\toverwrite ms\tspace, cut\treopen ms\t")
	for _, r := range round {
		payload := float64(r.Num) * float64(r.Size)
		fmt.Fprintf(t, "%s\t%.0f\t%.2f\t%v\t%.2f\t", r.Engine, r.Append, r.Append/floor,
			r.AppendLatency, r.Written)
		if r.Engine == floorName {
			fmt.Fprintf(t, "1\t%.2f\t\t\t\t\t\t\t\t\t\n", r.CPU)
			continue
		}
		fmt.Fprintf(t, "%.2f\t%.2f\t%d\t%.0f\t%.0f\t%.0f\t%v\t%v\t%.2f %.2f\t%.0f\t\n", r.Syncs,
			r.CPU, r.Memory>>20, r.ReadAll, r.ReadRandom, r.CatchUp, r.TruncateLatency,
			r.OverwriteLatency, float64(r.SpaceFull)/payload, float64(r.SpaceCut)/payload,
			float64(r.Reopen)/1e6)
	}
}
