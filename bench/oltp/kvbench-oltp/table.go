package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/loamdb/loam/internal/kvbench"
	"github.com/loamdb/loam/internal/kvbench/table"
)

// experiment is the name of the report's section.
const experiment = "oltp"

// write prints the table: a row for each kind of transaction and number of workers, and in it for
// each engine the transactions a second, the average and P95, of the median round.
func write(w io.Writer, r *kvbench.Report) {
	head := []string{"transaction", "workers"}
	for _, e := range r.Engines {
		head = append(head, e.Title)
	}
	rows := [][]string{head}
	for i := range steps(r) {
		row := []string{"", ""}
		for _, e := range r.Engines {
			s := median(r, e.Name, i)
			if s == nil {
				row = append(row, "-")
				continue
			}
			row[0], row[1], _ = strings.Cut(s.Name, "/")
			row = append(row, fmt.Sprintf("%.0f %.2f %.2f", s.OpsPerSecond, s.Latency.Mean/1e6,
				float64(s.Latency.Quantiles["P95"])/1e6))
		}
		rows = append(rows, row)
	}
	fmt.Fprintln(w, "\nTransactions a second, average and P95 in ms")
	table.Print(w, rows)
}

// steps is the largest number of steps of a run.
func steps(r *kvbench.Report) (n int) {
	for _, run := range r.Runs {
		n = max(n, len(run.Steps))
	}
	return n
}

// median is step i of the round of an engine that has the median rate; nil: none came so far.
func median(r *kvbench.Report, engine string, i int) *kvbench.Step {
	var all []*kvbench.Step
	for _, run := range r.Runs {
		if run.Engine == engine && i < len(run.Steps) {
			all = append(all, &run.Steps[i])
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortFunc(all, func(a, b *kvbench.Step) int {
		return cmp.Compare(a.OpsPerSecond, b.OpsPerSecond)
	})
	return all[len(all)/2]
}
