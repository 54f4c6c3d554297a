package loamhttp

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/loamdb/loam/lsm"
)

// scope says how often a metric occurs.
type scope int

const (
	once        scope = iota // in a database
	perKeyspace              // with the label keyspace
)

// family is a metric. Names of counters have no "_total" here.
type family struct {
	name, kind, help string
	scope            scope
	samples          func(m *lsm.Metrics) []sample
}

// sample is a value of a family. suffix is "", or "_sum" or "_count" of a summary.
type sample struct {
	labels, suffix string
	value          float64
}

func one[N int | int64 | uint64 | float64](f func(m *lsm.Metrics) N) func(*lsm.Metrics) []sample {
	return func(m *lsm.Metrics) []sample { return []sample{{value: float64(f(m))}} }
}

func seconds(f func(m *lsm.Metrics) time.Duration) func(*lsm.Metrics) []sample {
	return one(func(m *lsm.Metrics) float64 { return f(m).Seconds() })
}

func perLevel(f func(l *lsm.LevelMetrics) float64) func(*lsm.Metrics) []sample {
	return func(m *lsm.Metrics) (all []sample) {
		for i := range m.Levels {
			all = append(all, sample{labels: label("level", strconv.Itoa(i)),
				value: f(&m.Levels[i])})
		}
		return all
	}
}

func perCause(f func(s lsm.StallMetrics) float64) func(*lsm.Metrics) []sample {
	return func(m *lsm.Metrics) (all []sample) {
		for _, cause := range slices.Sorted(maps.Keys(m.Stalls)) {
			all = append(all, sample{labels: label("cause", cause), value: f(m.Stalls[cause])})
		}
		return all
	}
}

func failing(f func(m *lsm.Metrics) error) func(*lsm.Metrics) []sample {
	return one(func(m *lsm.Metrics) int {
		if f(m) != nil {
			return 1
		}
		return 0
	})
}

func latencies(l *lsm.LatencyMetrics) []sample {
	var all []sample
	for _, q := range []struct {
		of string
		ns int64
	}{{"0.5", l.P50}, {"0.99", l.P99}, {"0.999", l.P999}, {"0.9999", l.P9999}, {"1", l.Max}} {
		all = append(all, sample{labels: label("quantile", q.of), value: float64(q.ns) / 1e9})
	}
	return append(all, sample{suffix: "_sum", value: l.Mean * float64(l.Count) / 1e9},
		sample{suffix: "_count", value: float64(l.Count)})
}

// operations are the families of one kind of reads or writes.
func operations(name, what string, of func(m *lsm.Metrics) *lsm.OperationMetrics) []family {
	return []family{
		{"loam_" + name + "s", "counter", what + ".", once,
			one(func(m *lsm.Metrics) uint64 { return of(m).Count })},
		{"loam_" + name + "_seconds", "summary", "Durations of a sample of " + what + ".", once,
			func(m *lsm.Metrics) []sample { return latencies(&of(m).Latency) }},
	}
}

// work are the families of flushes or of compactions.
func work(name, verb string, of func(m *lsm.Metrics) *lsm.WorkMetrics) []family {
	f := func(suffix, help string, value func(w *lsm.WorkMetrics) float64) family {
		return family{"loam_" + name + suffix, "counter", verb + help, once,
			one(func(m *lsm.Metrics) float64 { return value(of(m)) })}
	}
	return []family{
		f("_runs", " that ended, failed ones included.",
			func(w *lsm.WorkMetrics) float64 { return float64(w.Count) }),
		f("_failures", " that failed.",
			func(w *lsm.WorkMetrics) float64 { return float64(w.Failed) }),
		f("_moves", " that moved tables without rewriting them.",
			func(w *lsm.WorkMetrics) float64 { return float64(w.Moves) }),
		f("_dropped_tables", ": tables deleted unread.",
			func(w *lsm.WorkMetrics) float64 { return float64(w.TablesDropped) }),
		f("_expired_entries", ": expired entries dropped.",
			func(w *lsm.WorkMetrics) float64 { return float64(w.Expired) }),
		f("_input_bytes", ": bytes of memtables or input tables.",
			func(w *lsm.WorkMetrics) float64 { return float64(w.BytesIn) }),
		f("_output_bytes", ": bytes of the tables written.",
			func(w *lsm.WorkMetrics) float64 { return float64(w.BytesOut) }),
		f("_input_entries", ": entries read.",
			func(w *lsm.WorkMetrics) float64 { return float64(w.EntriesIn) }),
		f("_output_entries", ": entries written.",
			func(w *lsm.WorkMetrics) float64 { return float64(w.EntriesOut) }),
		f("_seconds", ": sum of their durations.",
			func(w *lsm.WorkMetrics) float64 { return w.Duration.Seconds() }),
	}
}

// copies are the families of checkpoints or of backups.
func copies(name, verb string, of func(m *lsm.Metrics) *lsm.CheckpointMetrics) []family {
	f := func(suffix, help string, value func(c *lsm.CheckpointMetrics) float64) family {
		return family{"loam_" + name + suffix, "counter", verb + help, once,
			one(func(m *lsm.Metrics) float64 { return value(of(m)) })}
	}
	return []family{
		f("_runs", " that ended, failed ones included.",
			func(c *lsm.CheckpointMetrics) float64 { return float64(c.Count) }),
		f("_failures", " that failed.",
			func(c *lsm.CheckpointMetrics) float64 { return float64(c.Failed) }),
		f("_seconds", ": sum of their durations.",
			func(c *lsm.CheckpointMetrics) float64 { return c.Duration.Seconds() }),
		f("_linked_tables", ": tables shared with the database or earlier backups.",
			func(c *lsm.CheckpointMetrics) float64 { return float64(c.TablesLinked) }),
		f("_copied_tables", ": tables copied.",
			func(c *lsm.CheckpointMetrics) float64 { return float64(c.TablesCopied) }),
		f("_copied_bytes", ": bytes of tables and logs copied.",
			func(c *lsm.CheckpointMetrics) float64 { return float64(c.BytesCopied) }),
	}
}

// text collects samples, and writes each family once with the samples of all databases.
type text struct {
	open    bool // OpenMetrics
	samples [][]string
}

// add takes the samples of a database; name is its label, unless it is "".
func (t *text) add(name string, db *lsm.DB) {
	if t.samples == nil {
		t.samples = make([][]string, len(families))
	}
	common := ""
	if name != "" {
		common = label("database", name)
	}
	for _, space := range db.Keyspaces() {
		m, ok := metrics(db, space)
		if !ok || errors.Is(m.ReadOnly, lsm.ErrClosed) {
			continue
		}
		for i := range families {
			f := &families[i]
			labels := common
			switch {
			case f.scope == perKeyspace:
				labels = join(common, label("keyspace", space))
			case space != defaultKeyspace:
				continue
			}
			for _, s := range f.samples(&m) {
				t.samples[i] = append(t.samples[i], line(f, s, labels))
			}
		}
	}
}

// line is a sample as both formats write it.
func line(f *family, s sample, labels string) string {
	name := f.name + s.suffix
	if f.kind == "counter" {
		name += "_total"
	}
	if labels = join(labels, s.labels); labels != "" {
		labels = "{" + labels + "}"
	}
	return name + labels + " " + strconv.FormatFloat(s.value, 'g', -1, 64) + "\n"
}

func (t *text) bytes() []byte {
	var b bytes.Buffer
	for i, lines := range t.samples {
		f := &families[i]
		name := f.name
		if f.kind == "counter" && !t.open {
			name += "_total"
		}
		if len(lines) > 0 {
			fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n%s", name, f.help, name, f.kind,
				strings.Join(lines, ""))
		}
	}
	if t.open {
		b.WriteString("# EOF\n")
	}
	return b.Bytes()
}

var escaped = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

func label(name, value string) string { return name + `="` + escaped.Replace(value) + `"` }

func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "," + b
}
