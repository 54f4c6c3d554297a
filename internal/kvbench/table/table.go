// Package table has what kvbench's tables have in common, those on a terminal and those of a page.
package table

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Trim leaves out the columns without a figure. The first row has the titles.
func Trim(rows [][]string) [][]string {
	out := make([][]string, len(rows))
	for j := range rows[0] {
		if !slices.ContainsFunc(rows[1:], func(row []string) bool {
			return row[j] != "" && row[j] != "-"
		}) {
			continue
		}
		for i, row := range rows {
			out[i] = append(out[i], row[j])
		}
	}
	return out
}

// Turn makes rows of columns.
func Turn(rows [][]string) [][]string {
	out := make([][]string, len(rows[0]))
	for _, row := range rows {
		for j, cell := range row {
			out[j] = append(out[j], cell)
		}
	}
	return out
}

var year = regexp.MustCompile(`\b20\d\d\b`)

// Published is the title of a column of published figures, with the year that source tells.
func Published(source string) string {
	if y := year.FindString(source); y != "" {
		return "published (" + y + ")"
	}
	return "published"
}

// Retitle replaces a title by another one.
func Retitle(titles []string, from, to string) {
	if i := slices.Index(titles, from); i >= 0 {
		titles[i] = to
	}
}

// Print aligns columns: words left, numbers right.
func Print(w io.Writer, rows [][]string) {
	var width []int
	var right []bool
	for i, row := range rows {
		for j, cell := range row {
			if j == len(width) {
				width, right = append(width, 0), append(right, true)
			}
			width[j] = max(width[j], utf8.RuneCountInString(cell))
			if i > 0 && cell != "" && cell != "-" && !strings.ContainsAny(cell[:1], "0123456789") {
				right[j] = false
			}
		}
	}
	for i, row := range rows {
		var b strings.Builder
		for j, cell := range row {
			pad := strings.Repeat(" ", width[j]-utf8.RuneCountInString(cell))
			if right[j] {
				cell = pad + cell
			} else {
				cell += pad
			}
			b.WriteString(cell + "  ")
		}
		fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
		if i == 0 {
			total := 2 * (len(width) - 1)
			for _, n := range width {
				total += n
			}
			fmt.Fprintln(w, strings.Repeat("-", total))
		}
	}
}
