package kvbench

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/loamdb/loam/internal/kvbench/runner"
	"github.com/loamdb/loam/internal/workload/store"
)

// Report is the machine-readable result. Fields are only ever added; Schema
// goes up when one changes its meaning.
type Report struct {
	Schema      int         `json:"schema"`
	Tool        string      `json:"tool"`
	Complete    bool        `json:"complete"` // false: failed or interrupted
	Args        []string    `json:"args"`
	Engine      Engine      `json:"engine"`
	Environment Environment `json:"environment"`
	// Harness is what the benchmark itself costs, in nanoseconds per
	// operation, measured on a store that does nothing.
	Harness map[string]float64 `json:"harness_ns_per_op"`
	Runs    []*Run             `json:"runs"`
}

// Engine says what was measured.
type Engine struct {
	Name       string           `json:"name"`
	Version    string           `json:"version"`
	Durability store.Durability `json:"durability_without_sync"`
}

// Run is one database from its beginning to its end.
type Run struct {
	Experiment       string          `json:"experiment,omitempty"`
	Variant          string          `json:"variant,omitempty"`
	Round            int             `json:"round"`
	Settings         []store.Setting `json:"settings"`
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
	Steps            []Step          `json:"steps"`
}

// Step is one benchmark. What is not known is left out.
type Step struct {
	Name         string   `json:"name"`
	Start        string   `json:"start"`
	Skipped      string   `json:"skipped,omitempty"`
	Text         string   `json:"text,omitempty"`
	Message      string   `json:"message,omitempty"`
	Threads      int      `json:"threads"`
	Ops          int64    `json:"ops"`
	Seconds      float64  `json:"seconds"`
	MicrosPerOp  float64  `json:"micros_per_op"`
	OpsPerSecond float64  `json:"ops_per_second"`
	MBPerSecond  float64  `json:"mb_per_second,omitempty"`
	Bytes        int64    `json:"bytes,omitempty"`
	Found        *int64   `json:"found,omitempty"`
	Asked        *int64   `json:"asked,omitempty"`
	Background   int64    `json:"background_ops,omitempty"`
	CPUUser      float64  `json:"cpu_user_seconds"`
	CPUSystem    float64  `json:"cpu_system_seconds"`
	MaxRSS       int64    `json:"max_rss_bytes,omitempty"`
	Written      *int64   `json:"process_written_bytes,omitempty"`
	WAL          *int64   `json:"wal_bytes,omitempty"`
	Flush        *int64   `json:"flush_bytes,omitempty"`
	Compaction   *int64   `json:"compaction_bytes,omitempty"`
	Stall        *float64 `json:"stall_seconds,omitempty"`
	CacheHits    *int64   `json:"cache_hits,omitempty"`
	CacheMisses  *int64   `json:"cache_misses,omitempty"`
	DiskSize     *int64   `json:"disk_size_bytes,omitempty"`
	Tables       *int64   `json:"tables,omitempty"`
	Debt         *int64   `json:"compaction_debt_bytes,omitempty"`
	Comparisons  *int64   `json:"comparisons,omitempty"`
	Latency      *Latency `json:"latency_ns,omitempty"`
	Published    float64  `json:"published_micros_per_op,omitempty"`
}

// Latency is of single operations, in nanoseconds, the clock included.
type Latency struct {
	Count     int64            `json:"count"`
	Mean      float64          `json:"mean"`
	Min       int64            `json:"min"`
	Max       int64            `json:"max"`
	Quantiles map[string]int64 `json:"quantiles"`
}

func newReport(d store.Driver, e Environment, args []string) Report {
	return Report{
		Schema:      1,
		Tool:        "kvbench",
		Args:        append([]string{}, args...),
		Engine:      Engine{d.Name(), d.Version(), d.Durability()},
		Environment: e,
		Harness:     runner.Calibrate(),
		Runs:        []*Run{},
	}
}

func (r *Report) begin(p *plan) *Run {
	q := &p.params
	run := &Run{
		Experiment:       p.experiment,
		Variant:          p.variant,
		Round:            p.round,
		Settings:         append([]store.Setting{}, p.settings...),
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
		Load:             readEnvironment(".").Load,
		Steps:            []Step{},
	}
	r.Runs = append(r.Runs, run)
	return run
}

func (run *Run) add(res *runner.Result, published float64, started time.Time) {
	s := Step{
		Name: res.Name, Start: started.Format(time.RFC3339Nano), Skipped: res.Skipped, Text: res.Text, Message: res.Message,
		Threads: res.Threads, Ops: res.Ops, Bytes: res.Bytes, Background: res.BackgroundOps,
		Seconds:      round(res.Elapsed.Seconds()),
		MicrosPerOp:  round(res.MicrosPerOp()),
		OpsPerSecond: round(res.OpsPerSecond()),
		MBPerSecond:  round(res.MBPerSecond()),
		CPUUser:      round(res.CPUUser.Seconds()),
		CPUSystem:    round(res.CPUSystem.Seconds()),
		MaxRSS:       res.MaxRSS,
		Written:      res.Written,
		Comparisons:  res.Comparisons,
		Published:    published,
	}
	if res.Asked > 0 {
		s.Found, s.Asked = &res.Found, &res.Asked
	}
	if m := res.Metrics; m != nil {
		s.WAL, s.Flush, s.Compaction = known(m.WALBytes), known(m.FlushBytes), known(m.CompactionBytes)
		s.CacheHits, s.CacheMisses = known(m.CacheHits), known(m.CacheMisses)
		s.DiskSize, s.Tables, s.Debt = known(m.DiskSize), known(m.Tables), known(m.Debt)
		if m.Stall != store.Unknown {
			stall := round(m.Stall.Seconds())
			s.Stall = &stall
		}
	}
	if h := res.Latency; h != nil {
		s.Latency = &Latency{h.Count(), round(h.Mean()), h.Min(), h.Max(), map[string]int64{}}
		for _, q := range runner.Quantiles {
			s.Latency.Quantiles[q.Name] = h.Quantile(q.Q)
		}
	}
	run.Steps = append(run.Steps, s)
}

func known(v int64) *int64 {
	if v == store.Unknown {
		return nil
	}
	return &v
}

// round keeps nine digits behind the point, and JSON free of what it cannot
// say.
func round(f float64) float64 {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return 0
	}
	return math.Round(f*1e9) / 1e9
}

// write puts the report in place whole.
func (r *Report) write(file string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(append(b, '\n'))
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
