// Package table has what kvbench's tables have in common, those on a terminal and those of a page.
package table

import (
	"regexp"
	"slices"
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
