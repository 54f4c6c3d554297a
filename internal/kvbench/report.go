package kvbench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/loamdb/loam/internal/base/hist"
	"github.com/loamdb/loam/internal/kvbench/machine"
	"github.com/loamdb/loam/internal/kvbench/runner"
	"github.com/loamdb/loam/internal/workload/store"
)

// Report is the machine-readable result. Fields are only ever added; Schema
// goes up when one changes its meaning.
type Report struct {
	Schema      int                 `json:"schema"`
	Tool        string              `json:"tool"`
	Complete    bool                `json:"complete"` // false: failed or interrupted
	Args        []string            `json:"args"`
	Engine      Engine              `json:"engine"`  // the first
	Engines     []Engine            `json:"engines"` // all
	Environment machine.Environment `json:"environment"`
	// Harness is what the benchmark itself costs, in nanoseconds per
	// operation, measured on a store that does nothing.
	Harness map[string]float64 `json:"harness_ns_per_op"`
	Runs    []*Run             `json:"runs"`
}

// Engine describes the measured engine.
type Engine struct {
	Name       string           `json:"name"`
	Title      string           `json:"title"`
	Version    string           `json:"version"`
	Durability store.Durability `json:"durability_without_sync"`
	// of new databases, unless a run's settings say otherwise
	Format string   `json:"format,omitempty"`
	Notes  []string `json:"notes,omitempty"`
}

// Run is one database from its beginning to its end.
type Run struct {
	Engine           string          `json:"engine"`
	Pair             string          `json:"pair,omitempty"` // the engine it ran beside
	Experiment       string          `json:"experiment,omitempty"`
	Variant          string          `json:"variant,omitempty"`
	Round            int             `json:"round"`
	Settings         []store.Setting `json:"settings"`
	Ignored          []store.Setting `json:"settings_ignored,omitempty"`
	Num              int64           `json:"num"`
	Reads            int64           `json:"reads"`
	ValueSize        int             `json:"value_size"`
	NamedValues      bool            `json:"named_values,omitempty"`
	CompressionRatio float64         `json:"compression_ratio"`
	KeyFormat        string          `json:"key_format"`
	KeyStride        int             `json:"key_stride"`
	KeyPrefix        int             `json:"key_prefix"`
	Threads          int             `json:"threads"`
	Seed             uint32          `json:"seed"`
	Sync             bool            `json:"sync"`
	Load             float64         `json:"load_before"`
	// cores at work for others just before; negative: unknown
	Busy        float64 `json:"busy_before"`
	MemoryLimit int64   `json:"memory_limit_bytes,omitempty"` // of the cgroup it ran in
	MemoryPeak  int64   `json:"memory_peak_bytes,omitempty"`  // of the cgroup, page cache included
	Steps       []Step  `json:"steps"`
}

// Step is one benchmark. What is not known is left out.
type Step struct {
	Name         string          `json:"name"`
	Start        string          `json:"start"`
	Skipped      string          `json:"skipped,omitempty"`
	Text         string          `json:"text,omitempty"`
	Message      string          `json:"message,omitempty"`
	Threads      int             `json:"threads"`
	Ops          int64           `json:"ops"`
	Seconds      float64         `json:"seconds"`
	MicrosPerOp  float64         `json:"micros_per_op"`
	OpsPerSecond float64         `json:"ops_per_second"`
	MBPerSecond  float64         `json:"mb_per_second,omitempty"`
	Bytes        int64           `json:"bytes,omitempty"`
	Found        *int64          `json:"found,omitempty"`
	Asked        *int64          `json:"asked,omitempty"`
	Background   int64           `json:"background_ops,omitempty"`
	Conflicts    int64           `json:"conflicts,omitempty"` // transactions that were begun again
	CPUUser      float64         `json:"cpu_user_seconds"`
	CPUSystem    float64         `json:"cpu_system_seconds"`
	MaxRSS       int64           `json:"max_rss_bytes,omitempty"`
	Memory       *machine.Memory `json:"memory,omitempty"`
	Written      *int64          `json:"process_written_bytes,omitempty"`
	Dirtied      *int64          `json:"process_dirtied_bytes,omitempty"`
	WAL          *int64          `json:"wal_bytes,omitempty"`
	Flush        *int64          `json:"flush_bytes,omitempty"`
	Compaction   *int64          `json:"compaction_bytes,omitempty"`
	Stall        *float64        `json:"stall_seconds,omitempty"`
	CacheHits    *int64          `json:"cache_hits,omitempty"`
	CacheMisses  *int64          `json:"cache_misses,omitempty"`
	DiskSize     *int64          `json:"disk_size_bytes,omitempty"`
	DiskPeak     *int64          `json:"disk_peak_bytes,omitempty"` // of the directory, all files
	// of the directory, after the time to quiet
	DiskQuiet   *int64   `json:"disk_quiet_bytes,omitempty"`
	Live        *int64   `json:"live_bytes,omitempty"` // keys and values that are there
	Tables      *int64   `json:"tables,omitempty"`
	Debt        *int64   `json:"compaction_debt_bytes,omitempty"`
	Comparisons *int64   `json:"comparisons,omitempty"`
	Latency     *Latency `json:"latency_ns,omitempty"`
	Lag         *Latency `json:"follower_lag_ns,omitempty"` // at each catch-up
	// at most, over what it was before databases that share memory
	Resident *int64 `json:"resident_bytes,omitempty"`
	Shared   int64  `json:"shared_bytes,omitempty"` // the memory that they share
	// CPU, bytes and size are then those at rest
	Quiet     *float64  `json:"seconds_to_quiet,omitempty"`
	Samples   []Sample  `json:"samples,omitempty"`
	Tenths    []float64 `json:"tenths_micros_per_op,omitempty"` // of the benchmark
	Flat      float64   `json:"last_by_second_tenth,omitempty"`
	Published float64   `json:"published_micros_per_op,omitempty"`
}

// Latency is of single operations, the clock included, or of the named unit; in nanoseconds.
type Latency struct {
	Count     int64            `json:"count"`
	Mean      float64          `json:"mean"`
	Min       int64            `json:"min"`
	Max       int64            `json:"max"`
	Quantiles map[string]int64 `json:"quantiles"`
}

func newReport(drivers []store.Driver, e machine.Environment, args []string) Report {
	r := Report{
		Schema:      1,
		Tool:        "kvbench",
		Args:        append([]string{}, args...),
		Environment: e,
		Harness:     runner.Calibrate(),
		Runs:        []*Run{},
	}
	for _, d := range drivers {
		e := Engine{Name: d.Name(), Title: d.Title(), Version: d.Version(),
			Durability: d.Durability()}
		for _, o := range d.Options() {
			if o.Name == formatOption {
				e.Format = o.Default
			}
		}
		r.Engines = append(r.Engines, e)
	}
	r.Engine = r.Engines[0]
	return r
}

// note keeps what a driver has to say once it has had a database open.
func (r *Report) note(d store.Driver) {
	if n, ok := d.(store.Noted); ok {
		r.noteText(d.Name(), n.Notes())
	}
}

func (r *Report) noteText(engine string, notes []string) {
	for i := range r.Engines {
		if r.Engines[i].Name == engine && len(notes) > 0 {
			r.Engines[i].Notes = notes
		}
	}
	r.Engine = r.Engines[0]
}

func newRun(p *plan) *Run {
	q, busy := &p.params, -1.0
	if p.pair != "" {
		busy = round(machine.BusyCores())
	}
	return &Run{
		Engine:           p.driver.Name(),
		Pair:             p.pair,
		Experiment:       p.experiment,
		Variant:          p.variant,
		Round:            p.round,
		Settings:         append([]store.Setting{}, p.settings...),
		Ignored:          p.ignored,
		Num:              q.Num,
		Reads:            q.Reads,
		ValueSize:        q.ValueSize,
		NamedValues:      q.NamedValues,
		CompressionRatio: q.CompressionRatio,
		KeyFormat:        q.Keys.Style.String(),
		KeyStride:        max(q.Keys.Stride, 1),
		KeyPrefix:        q.Keys.Prefix,
		Threads:          q.Threads,
		Seed:             q.Seed,
		Sync:             q.Sync,
		Load:             machine.Read(".").Load,
		Busy:             busy,
		Steps:            []Step{},
	}
}

func (run *Run) add(res *runner.Result, published float64, started time.Time) {
	s := Step{
		Name: res.Name, Start: started.Format(time.RFC3339Nano), Skipped: res.Skipped,
		Text: res.Text, Message: res.Message, Threads: res.Threads, Ops: res.Ops, Bytes: res.Bytes,
		Background: res.BackgroundOps, Conflicts: res.Conflicts,
		Seconds: round(res.Elapsed.Seconds()), MicrosPerOp: round(res.MicrosPerOp()),
		OpsPerSecond: round(res.OpsPerSecond()),
		MBPerSecond:  round(res.MBPerSecond()),
		CPUUser:      round(res.CPUUser.Seconds()),
		CPUSystem:    round(res.CPUSystem.Seconds()),
		MaxRSS:       res.MaxRSS,
		Memory:       res.Memory,
		Written:      res.Written,
		Dirtied:      res.Dirtied,
		Live:         res.Live,
		Comparisons:  res.Comparisons,
		DiskPeak:     res.DiskPeak,
		Tenths:       res.Tenths, Flat: round(res.Flat),
		Resident: res.Resident, Shared: res.Shared,
		DiskQuiet: res.DiskQuiet,
		Published: published,
	}
	if res.Asked > 0 {
		s.Found, s.Asked = &res.Found, &res.Asked
	}
	if m := res.Metrics; m != nil {
		s.WAL, s.Flush, s.Compaction = known(m.WALBytes), known(m.FlushBytes), known(
			m.CompactionBytes)
		s.CacheHits, s.CacheMisses = known(m.CacheHits), known(m.CacheMisses)
		s.DiskSize, s.Tables, s.Debt = known(m.DiskSize), known(m.Tables), known(m.Debt)
		if m.Stall != store.Unknown {
			stall := round(m.Stall.Seconds())
			s.Stall = &stall
		}
	}
	if res.Quiet != nil {
		quiet := round(res.Quiet.Seconds())
		s.Quiet = &quiet
	}
	for i := range res.Samples {
		s.Samples = append(s.Samples, newSample(&res.Samples[i]))
	}
	s.Latency, s.Lag = newLatency(res.Latency), newLatency(res.Lag)
	run.Steps = append(run.Steps, s)
}

func newLatency(h *hist.Histogram) *Latency {
	if h == nil {
		return nil
	}
	l := &Latency{h.Count(), round(h.Mean()), h.Min(), h.Max(), map[string]int64{}}
	for _, q := range runner.Quantiles {
		l.Quantiles[q.Name] = h.Quantile(q.Q)
	}
	return l
}

func known(v int64) *int64 {
	if v == store.Unknown {
		return nil
	}
	return &v
}

// round keeps nine digits after the point, and JSON free of NaN and infinities.
func round(f float64) float64 {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return 0
	}
	return math.Round(f*1e9) / 1e9
}

// Sample is the state of a benchmark at one time.
type Sample struct {
	Seconds float64  `json:"t"`
	Ops     int64    `json:"ops"`
	Stall   *float64 `json:"stall_seconds,omitempty"`
	Debt    *int64   `json:"debt_bytes,omitempty"`
	Size    *int64   `json:"size_bytes,omitempty"`
	Levels  []int64  `json:"level_bytes,omitempty"`
}

func newSample(s *runner.Sample) Sample {
	out := Sample{Seconds: round(s.At.Seconds()), Ops: s.Ops, Debt: known(s.Metrics.Debt),
		Size: known(s.Metrics.DiskSize), Levels: s.Metrics.Levels}
	if s.Metrics.Stall != store.Unknown {
		stall := round(s.Metrics.Stall.Seconds())
		out.Stall = &stall
	}
	return out
}

func (r *Report) json() ([]byte, error) {
	b, err := json.MarshalIndent(r, "", "  ")
	return append(b, '\n'), err
}

// Files are the names of the files that a report is written to; "": none.
type Files struct{ JSON, HTML, TSV string }

// Save writes the report to files, each of them whole, and tells w of them. It writes what it can,
// and fails with all errors.
func (r *Report) Save(w io.Writer, to Files) error {
	var errs []error
	for _, f := range []struct {
		flag, file string
		render     func(*Report) ([]byte, error)
	}{{"json", to.JSON, (*Report).json}, {"html", to.HTML, (*Report).page}, {"tsv", to.TSV,
		(*Report).tsv}} {
		if f.file == "" {
			continue
		}
		b, err := f.render(r)
		if err == nil {
			err = writeFile(f.file, b)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", f.flag, err))
			continue
		}
		fmt.Fprintf(w, "\nReport: %s\n", f.file)
	}
	return errors.Join(errs...)
}

// checkReports fails if a file that is written at the end of the run could not be.
func (c *command) checkReports() error {
	used := map[string]bool{}
	for _, r := range []struct{ flag, file string }{{"json", c.json}, {"html", c.html},
		{"tsv", c.tsv}} {
		if r.file == "" {
			continue
		}
		info, err := os.Stat(r.file)
		switch {
		case err == nil && info.IsDir():
			return fmt.Errorf("--%s: %s is a directory; want a file", r.flag, r.file)
		case err == nil && !info.Mode().IsRegular():
			continue // it is written as it is
		case used[filepath.Clean(r.file)]:
			return fmt.Errorf("--%s: %s is the file of another report", r.flag, r.file)
		}
		used[filepath.Clean(r.file)] = true
		tmp, err := os.CreateTemp(filepath.Dir(r.file), "."+filepath.Base(r.file)+"-")
		if err != nil {
			return fmt.Errorf("--%s: %w", r.flag, err)
		}
		if err := errors.Join(tmp.Close(), os.Remove(tmp.Name())); err != nil {
			return fmt.Errorf("--%s: %w", r.flag, err)
		}
	}
	return nil
}

// writeFile puts a file in place whole, where a link leads to. A device or a pipe is written as it
// is: a file in its place would end it for all other programs.
func writeFile(file string, b []byte) error {
	if info, err := os.Stat(file); err == nil {
		if !info.Mode().IsRegular() {
			f, err := os.OpenFile(file, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = f.Write(b)
			return errors.Join(err, f.Close())
		}
		if file, err = filepath.EvalSymlinks(file); err != nil {
			return err
		}
	}
	tmp, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(b)
	if err == nil {
		err = tmp.Chmod(0o644)
	}
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return os.Rename(tmp.Name(), file)
}
