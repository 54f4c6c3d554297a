package kvbench

import (
	"bytes"
	"fmt"
	"strings"
)

// tsvColumns are those of RocksDB's benchmark.sh, in its order.
var tsvColumns = []string{
	"ops_sec", "mb_sec", "lsm_sz", "blob_sz", "c_wgb", "w_amp", "c_mbps", "c_wsecs", "c_csecs",
	"b_rgb", "b_wgb", "usec_op", "p50", "p99", "p99.9", "p99.99", "pmax", "uptime", "stall%",
	"Nstall", "u_cpu", "s_cpu", "rss", "test", "date", "version", "job_id", "githash",
}

// tsv renders a line for each step with RocksDB's columns; what is not known is NA, as are the
// columns of blob files (blob_sz, b_rgb, b_wgb). Times are microseconds, sizes GB as benchmark.sh
// writes them.
func (r *Report) tsv() ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(strings.Join(tsvColumns, "\t") + "\n")
	versions := map[string]string{}
	for _, e := range r.Engines {
		versions[e.Name] = e.Name + "-" + e.Version
	}
	for _, run := range r.Runs {
		job := fmt.Sprintf("%d", run.Round)
		if run.Experiment != "" {
			job = run.Experiment + "/" + run.Variant + "/" + job
		}
		for i := range run.Steps {
			st := &run.Steps[i]
			if st.Skipped != "" || st.Text != "" {
				continue
			}
			row := st.tsvRow()
			row = append(row, fmt.Sprintf("%s.t%d", st.Name, st.Threads), st.Start,
				versions[run.Engine], strings.ReplaceAll(job, "\t", " "),
				orNA(r.Environment.Commit))
			b.WriteString(strings.Join(row, "\t") + "\n")
		}
	}
	return b.Bytes(), nil
}

// tsvRow is the columns up to rss.
func (st *Step) tsvRow() []string {
	const gb = 1 << 30
	rate := "NA"
	if st.Compaction != nil && st.Seconds > 0 {
		rate = fmt.Sprintf("%.1f", float64(*st.Compaction)/(1<<20)/st.Seconds)
	}
	row := []string{
		fmt.Sprintf("%.0f", st.OpsPerSecond), fmt.Sprintf("%.1f", st.MBPerSecond),
		na(st.DiskSize, gb, "%.3fGB"), "NA", na(st.Compaction, gb, "%.3f"),
		orNA(dash(st.amplification(), "%.1f")), rate, "NA", "NA", "NA", "NA",
		fmt.Sprintf("%.3f", st.MicrosPerOp),
	}
	for _, q := range []string{"P50", "P99", "P99.9", "P99.99"} {
		text := "NA"
		if us, ok := st.quantile(q); ok {
			text = fmt.Sprintf("%.3f", us)
		}
		row = append(row, text)
	}
	longest, share := "NA", "NA"
	if st.Latency != nil {
		longest = fmt.Sprintf("%.3f", float64(st.Latency.Max)/1e3)
	}
	if st.Stall != nil && st.Seconds > 0 {
		share = fmt.Sprintf("%.1f", *st.Stall*100/st.Seconds)
	}
	return append(row, longest, fmt.Sprintf("%.0f", st.Seconds), share, "NA",
		fmt.Sprintf("%.1f", st.CPUUser), fmt.Sprintf("%.1f", st.CPUSystem),
		na(positive(st.MaxRSS), gb, "%.1fGB"))
}

// amplification is bytes written to log and tables per byte of the caller's; 0
// when the engine or the step does not tell. The process's own count serves
// where the engine has none.
func (st *Step) amplification() float64 {
	var written float64
	switch {
	case st.Bytes == 0:
		return 0
	case st.WAL != nil && st.Flush != nil && st.Compaction != nil && *st.WAL > 0:
		written = float64(*st.WAL + *st.Flush + *st.Compaction)
	case st.WAL == nil && st.Written != nil:
		written = float64(*st.Written)
	}
	return written / float64(st.Bytes)
}

// quantile is a percentile in microseconds; ok is false where it is not known.
func (st *Step) quantile(name string) (us float64, ok bool) {
	if st.Latency == nil {
		return 0, false
	}
	ns, ok := st.Latency.Quantiles[name]
	return float64(ns) / 1e3, ok
}

func na[T int64 | float64](p *T, unit float64, format string) string {
	if p == nil {
		return "NA"
	}
	return optional(p, unit, format)
}

func positive(n int64) *int64 {
	if n <= 0 {
		return nil
	}
	return &n
}

func orNA(s string) string {
	if s == "" || s == "-" {
		return "NA"
	}
	return s
}
