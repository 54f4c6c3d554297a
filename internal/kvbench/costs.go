package kvbench

import (
	"fmt"
	"slices"

	"github.com/loamdb/loam/internal/kvbench/machine"
	"github.com/loamdb/loam/internal/kvbench/table"
)

// costFigures are the columns of the table of costs, of one step.
var costFigures = slices.Concat([]figure{
	{"us/op", at(micros, "%.2f")},
	{"MB/s", at(func(s *Step) float64 { return s.MBPerSecond }, "%.1f")},
	{"CPU us/op", at(cpuMicros, "%.2f")},
	{"written MB", at(written, "%.1f")},
	{"written/byte", at(perByte, "%.2f")},
	{"quiet s", at(func(s *Step) float64 { return value(s.Quiet) }, "%.2f")},
	{"peak MB", at(func(s *Step) float64 { return mb(s.DiskPeak) }, "%.1f")},
	{"quiet MB", at(func(s *Step) float64 { return mb(s.DiskQuiet) }, "%.1f")},
	{"peak/live", at(func(s *Step) float64 { return s.perLive(s.DiskPeak) }, "%.2f")},
	{"quiet/live", at(func(s *Step) float64 { return s.perLive(s.DiskQuiet) }, "%.2f")},
}, memoryFigures())

const costsLegend = "written: the larger of two counts of /proc/self/io, until quiet: bytes " +
	"passed to calls that write (wchar), and those of pages made dirty, mapped files included " +
	"(write_bytes); /byte: of keys and values.\npeak and quiet MB: all files of the directory, " +
	"at most and after the time to quiet; /live: by the bytes of the keys and values that are " +
	"there."

func value[T int64 | float64](p *T) (n T) {
	if p != nil {
		n = *p
	}
	return n
}

// mb is in units of 2^20 bytes; 0: unknown.
func mb(p *int64) float64 { return float64(value(p)) / (1 << 20) }

// written is the larger one of two counts: calls miss what mapped files write, and pages that are
// dirty already are not counted again.
func written(s *Step) float64 { return max(mb(s.Written), mb(s.Dirtied)) }

// perByte is how many bytes were written for each byte of keys and values; 0: unknown.
func perByte(s *Step) float64 {
	if s.Bytes == 0 {
		return 0
	}
	return written(s) * (1 << 20) / float64(s.Bytes)
}

// perLive is a size as a multiple of the live keys and values; 0: unknown.
func (st *Step) perLive(size *int64) float64 {
	if value(st.Live) == 0 {
		return 0
	}
	return float64(value(size)) / float64(*st.Live)
}

// costs prints the table of an experiment about what its steps write and take up: a row for each
// step of each variant and engine. Figures are medians over the rounds.
func (s *session) costs(columns []column) {
	head := []string{"variant", "benchmark", "engine", "times"}
	for _, f := range costFigures {
		head = append(head, f.title)
	}
	rows := [][]string{append(head, "found")}
	for _, c := range columns {
		run := c.runs[0]
		for i := range run.Steps {
			v := c.series(i)
			if len(v.steps) == 0 {
				continue
			}
			row := []string{run.Variant, stepTitle(run.Steps, i), "-", "-"}
			if s.apart() {
				row[2] = s.report.title(run.Engine)
			}
			if run.Engine != s.driver.Name() {
				p := compareRuns(s.driver.Name(), s.report.Runs, run, i)
				row[3] = dash(p.ratio(), "%.2f")
			}
			for _, f := range costFigures {
				row = append(row, f.text(v))
			}
			rows = append(rows, append(row, foundText(v.steps[0])))
		}
	}
	s.group(columns, rows[1:])
	table.Print(s.out, table.Trim(rows))
	fmt.Fprintf(s.out, "%s\n%s\n", costsLegend, machine.MemoryLegend)
	if s.apart() {
		fmt.Fprintf(s.out, "times: how many times longer the engine takes than %s in the same "+
			"pairs (above 1: %s is faster).\n", s.driver.Title(), s.driver.Title())
		s.engines()
	}
}
