package top

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/loamdb/loam/cmd/loam/internal/text"
	"github.com/loamdb/loam/internal/feature/inspect"
)

// moment is what top knows of a database at one time; --json prints it.
type moment struct {
	At        time.Time       `json:"time"`
	Directory string          `json:"directory"`
	Source    string          `json:"source"` // "process" or "follower"
	PID       int             `json:"pid,omitempty"`
	Format    string          `json:"format,omitempty"`
	Metrics   json.RawMessage `json:"metrics"`
	Levels    json.RawMessage `json:"levels,omitempty"`
	Events    []inspect.Event `json:"events,omitempty"`
	Rates     *rates          `json:"rates,omitempty"`

	events struct{ Events []inspect.Event }
	m      counters
	tree   struct {
		Levels []struct{ Tables []struct{ Compacting bool } }
	}
}

// counters are the metrics that top shows.
type counters struct {
	Gets, Seeks, Commits operations
	MultiGets            operations `json:"multi_gets"`
	MultiGetKeys         int64      `json:"multi_get_keys"`

	Levels []struct {
		Files        int
		Bytes        int64
		BytesWritten int64 `json:"bytes_written"`
	}
	Compact struct {
		Count    int64
		BytesIn  int64 `json:"bytes_in"`
		BytesOut int64 `json:"bytes_out"`
	}
	Stalls             map[string]stallCounters
	CompactionDebt     int64 `json:"compaction_debt"`
	Memtables          int
	MemtableBytes      int64   `json:"memtable_bytes"`
	WALBytesWritten    int64   `json:"wal_bytes_written"`
	WriteAmplification float64 `json:"write_amplification"`
	WALSync            latency `json:"wal_sync"`
	Cache              struct{ Capacity, Used, Hits, Misses int64 }
	EmptyRanges        struct {
		Held, Hits  int64
		DeadEntries int64 `json:"dead_entries"`
	} `json:"empty_ranges"`
	Snapshots       int
	DiskBytes       int64   `json:"disk_bytes"`
	LastSequence    int64   `json:"last_sequence"`
	ReadOnly        *string `json:"read_only"`
	BackgroundError *string `json:"background_error"`
}

type operations struct {
	Count   int64
	Latency latency
}

// latency is nanoseconds.
type latency struct{ Count, P50, P99, Max int64 }

type stallCounters struct {
	Duration int64 `json:"duration_ns"`
}

// rates are changes in a second between two moments.
type rates struct {
	Gets         float64            `json:"gets"`
	MultiGetKeys float64            `json:"multi_get_keys"`
	Seeks        float64            `json:"seeks"`
	Commits      float64            `json:"commits"`
	Writes       float64            `json:"writes"`
	LogBytes     float64            `json:"log_bytes"`
	CompactBytes float64            `json:"compaction_bytes"` // written
	CacheLookups float64            `json:"cache_lookups"`
	CacheHits    float64            `json:"cache_hits"`
	Syncs        float64            `json:"syncs"`
	EmptyHits    float64            `json:"empty_range_hits"`
	DeadEntries  float64            `json:"dead_entries"`
	Stalled      map[string]float64 `json:"stalled"` // seconds, by cause
}

func (n *moment) parse() error {
	if err := json.Unmarshal(n.Metrics, &n.m); err != nil {
		return fmt.Errorf("reading the metrics: %w", err)
	}
	if n.Levels == nil {
		return nil
	}
	if err := json.Unmarshal(n.Levels, &n.tree); err != nil {
		return fmt.Errorf("reading the levels: %w", err)
	}
	return nil
}

// since returns the rates between two moments; nil where there is none before.
func (n *moment) since(before *moment) *rates {
	if before == nil {
		return nil
	}
	seconds := n.At.Sub(before.At).Seconds()
	if seconds <= 0 {
		return nil
	}
	per := func(now, then int64) float64 { return max(0, float64(now-then)/seconds) }
	m, b := &n.m, &before.m
	r := &rates{
		Gets:         per(m.Gets.Count, b.Gets.Count),
		MultiGetKeys: per(m.MultiGetKeys, b.MultiGetKeys),
		Seeks:        per(m.Seeks.Count, b.Seeks.Count),
		Commits:      per(m.Commits.Count, b.Commits.Count),
		Writes:       per(m.LastSequence, b.LastSequence),
		LogBytes:     per(m.WALBytesWritten, b.WALBytesWritten),
		CompactBytes: per(m.Compact.BytesOut, b.Compact.BytesOut),
		CacheLookups: per(m.Cache.Hits+m.Cache.Misses, b.Cache.Hits+b.Cache.Misses),
		CacheHits:    per(m.Cache.Hits, b.Cache.Hits),
		Syncs:        per(m.WALSync.Count, b.WALSync.Count),
		EmptyHits:    per(m.EmptyRanges.Hits, b.EmptyRanges.Hits),
		DeadEntries:  per(m.EmptyRanges.DeadEntries, b.EmptyRanges.DeadEntries),
		Stalled:      map[string]float64{},
	}
	for cause, s := range m.Stalls {
		r.Stalled[cause] = per(s.Duration, b.Stalls[cause].Duration) / 1e9
	}
	return r
}

// render draws the moment in lines of at most width columns.
func (n *moment) render(width int, newline string) string {
	m, r := &n.m, n.Rates
	var lines []string
	add := func(format string, args ...any) {
		lines = append(lines, fmt.Sprintf(format, args...))
	}
	from := "as a follower: no process answers"
	if n.PID != 0 {
		from = fmt.Sprintf("process %d, format %s", n.PID, n.Format)
	}
	const title = "loam top  "
	add("%s%s  %s", title, tail(n.Directory, width-len(title)-2-len(from)), from)
	add("")
	if r == nil {
		r = &rates{}
		add("%d operations written since the database was made", m.LastSequence)
	} else {
		add("reads   %s gets/s   %s keys/s by MultiGet   %s seeks/s", count(r.Gets),
			count(r.MultiGetKeys), count(r.Seeks))
		add("writes  %s/s   log %s/s   commits %s/s   syncs %s/s", count(r.Writes),
			text.Bytes(uint64(r.LogBytes)), count(r.Commits), count(r.Syncs))
		add("stalls  %s", n.stalls())
		hits := "no lookups"
		if r.CacheLookups > 0 {
			hits = fmt.Sprintf("%.1f %% of %s lookups/s hit", 100*r.CacheHits/r.CacheLookups,
				count(r.CacheLookups))
		}
		add("cache   %s", hits)
		add("merges  %s/s written", text.Bytes(uint64(r.CompactBytes)))
		add("deleted %s entries/s passed one by one, %s known-empty ranges/s; %d known",
			count(r.DeadEntries), count(r.EmptyHits), m.EmptyRanges.Held)
	}
	add("")
	for _, o := range []struct {
		what string
		operations
	}{{"gets", m.Gets}, {"m.gets", m.MultiGets}, {"seeks", m.Seeks}, {"commits", m.Commits},
		{"syncs", operations{m.WALSync.Count, m.WALSync}}} {
		if l := o.Latency; l.Count > 0 {
			add("%-7s %d, median %s, 99%% within %s, longest %s", o.what, o.Count, short(l.P50),
				short(l.P99), short(l.Max))
		}
	}
	add("cache   %s of %s used", text.Bytes(uint64(m.Cache.Used)),
		text.Bytes(uint64(m.Cache.Capacity)))
	add("memory  %d memtables of %s; %d snapshots", m.Memtables,
		text.Bytes(uint64(m.MemtableBytes)), m.Snapshots)
	add("disk    %s; write amplification %.1f; compaction debt %s",
		text.Bytes(uint64(m.DiskBytes)), m.WriteAmplification, text.Bytes(uint64(m.CompactionDebt)))
	for _, problem := range []struct {
		what string
		says *string
	}{{"READ-ONLY", m.ReadOnly}, {"ERROR", m.BackgroundError}} {
		if problem.says != nil && n.PID != 0 {
			first, _, _ := strings.Cut(*problem.says, "\n")
			add("%s  %s", problem.what, first)
		}
	}
	add("")
	lines = append(lines, n.levels(width)...)
	if len(n.Events) > 0 {
		add("")
		for _, e := range n.Events[max(0, len(n.Events)-6):] {
			add("%s", eventLine(e))
		}
	}
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(clip(text.Printable(l), width) + newline)
	}
	return b.String()
}

// stalls says how long writers waited in a second, by cause.
func (n *moment) stalls() string {
	var parts []string
	for cause, s := range n.Rates.Stalled {
		if s > 0 {
			parts = append(parts, fmt.Sprintf("%.0f ms/s for %s", 1000*s, cause))
		}
	}
	if parts == nil {
		return "none"
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

// levels draws a bar for each level, and how many of its tables are being compacted.
func (n *moment) levels(width int) []string {
	const names = 36 // columns of the figures
	lines, most := []string{"level  tables       size  merging"}, int64(1)
	for _, l := range n.m.Levels {
		most = max(most, l.Bytes)
	}
	for i, l := range n.m.Levels {
		merging := ""
		if i < len(n.tree.Levels) {
			tables := 0
			for _, t := range n.tree.Levels[i].Tables {
				if t.Compacting {
					tables++
				}
			}
			if tables > 0 {
				merging = fmt.Sprint(tables)
			}
		}
		bar := int(int64(max(0, width-names)) * l.Bytes / most)
		if l.Files > 0 {
			bar = max(bar, 1)
		}
		lines = append(lines, fmt.Sprintf("%5d  %6d %10s  %7s  %s", i, l.Files,
			text.Bytes(uint64(l.Bytes)), merging, strings.Repeat("#", bar)))
	}
	return lines
}

// eventLine is an event in a line.
func eventLine(e inspect.Event) string {
	at := e.Time
	if t, err := time.Parse(time.RFC3339Nano, e.Time); err == nil {
		at = t.Local().Format("15:04:05")
	}
	line := at + "  " + strings.ReplaceAll(e.Kind, "_", " ")
	d, _ := e.Detail.(map[string]any)
	for _, key := range []string{"reason", "cause", "err"} {
		if text, ok := d[key].(string); ok && text != "" {
			line += ": " + text
		}
	}
	if ns, ok := d["duration_ns"].(float64); ok && ns > 0 {
		line += " (" + short(int64(ns)) + ")"
	}
	return line
}

// count is a number of three digits.
func count(v float64) string {
	unit := 0
	for v >= 999.5 && unit < 3 {
		v, unit = v/1000, unit+1
	}
	return strings.TrimSpace(fmt.Sprintf("%.3g%s", v, []string{"", "k", "M", "G"}[unit]))
}

// short is a duration, given in nanoseconds, of three digits.
func short(ns int64) string {
	v, unit := float64(ns), 0
	for v >= 999.5 && unit < 3 {
		v, unit = v/1000, unit+1
	}
	return fmt.Sprintf("%.3g %s", v, []string{"ns", "us", "ms", "s"}[unit])
}

// tail is a path that leaves room for what follows it: its end, behind an ellipsis.
func tail(path string, room int) string {
	const ellipsis = "..."
	if rs := []rune(path); len(rs) > room && room > len(ellipsis) {
		return ellipsis + string(rs[len(rs)-room+len(ellipsis):])
	}
	return path
}

// clip cuts a line to width columns, and takes control characters out.
func clip(line string, width int) string {
	line = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == utf8.RuneError {
			return '?'
		}
		return r
	}, line)
	if utf8.RuneCountInString(line) <= width {
		return line
	}
	return string([]rune(line)[:max(0, width)])
}
