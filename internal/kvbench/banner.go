package kvbench

import (
	"fmt"
	"strings"
	"time"

	"github.com/loamdb/loam/internal/workload"
)

const rule = "------------------------------------------------"

// banner prints what LevelDB's benchmark prints first, with what else the
// figures depend on.
func (s *session) banner(p *plan) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(s.out, "%-11s %s\n", name+":", fmt.Sprintf(format, args...))
	}
	e := &s.env
	line(s.driver.Title(), "version %s", s.driver.Version())
	if t, err := time.Parse(time.RFC3339, e.Time); err == nil {
		line("Date", "%s", t.Format("Mon Jan _2 15:04:05 2006"))
	}
	if e.CPU != "" {
		line("CPU", "%d * %s", e.Cores, e.CPU)
	} else {
		line("CPU", "%d * %s", e.Cores, e.Arch)
	}
	if e.CPUCache != "" {
		line("CPUCache", "%s", e.CPUCache)
	}
	system := []string{strings.TrimSpace(e.OS + " " + e.Kernel), e.Go}
	if e.Memory > 0 {
		system = append(system, fmt.Sprintf("%.1f GiB", float64(e.Memory)/(1<<30)))
	}
	if e.FileSystem != "" {
		system = append(system, "database on "+e.FileSystem)
	}
	line("System", "%s", strings.Join(system, ", "))
	if s.c.memory > 0 {
		line("Limit", "%d MB of memory, page cache included, no swap", s.c.memory>>20)
	}

	key, value := p.params.Keys.Len(), p.params.ValueSize
	packed := float64(value) * p.params.CompressionRatio
	num := p.params.Num
	if p.params.NamedValues || p.params.Keys.Style == workload.Named {
		line("Keys", "%s", keysText(p))
	} else {
		line("Keys", "%d bytes each", key)
	}
	if p.params.NamedValues {
		line("Values", "value%%d")
		line("Entries", "%d", num)
	} else {
		line("Values", "%d bytes each (%d bytes after compression)", value, int(packed+0.5))
		line("Entries", "%d", num)
		line("RawSize", "%.1f MB (estimated)", float64(int64(key+value)*num)/(1<<20))
		line("FileSize", "%.1f MB (estimated)", (float64(key)+packed)*float64(num)/(1<<20))
	}
	if len(p.settings) > 0 && p.experiment == "" {
		line("Options", "%s", strings.Trim(settingsText(p.settings), " ()"))
	}
	for _, w := range s.warnings() {
		fmt.Fprintf(s.out, "WARNING: %s\n", w)
	}
	fmt.Fprintln(s.out, rule)
}

func keysText(p *plan) string {
	text := p.params.Keys.Style.String()
	if p.params.Keys.Stride > 1 {
		text += fmt.Sprintf(", multiples of %d", p.params.Keys.Stride)
	}
	return text
}

func (s *session) warnings() []string {
	var w []string
	if s.env.Load > 0.3 {
		w = append(w, fmt.Sprintf("the machine is busy (load %.2f): figures are noisy", s.env.Load))
	}
	switch s.env.FileSystem {
	case "tmpfs", "ramfs":
		w = append(w, "the database is in memory ("+s.env.FileSystem+"): synced writes reach no "+
			"disk; name a directory with --db")
	}
	if raceEnabled {
		w = append(w, "built with the race detector: benchmarks unnecessarily slow")
	}
	return w
}
