package base

import (
	"math"
	"strconv"
	"strings"
)

// ParseSize reads a number of bytes, with KiB, MiB, GiB or TiB behind it or their
// short forms.
func ParseSize(s string) (int64, bool) {
	s = strings.TrimSpace(s)
	shift := 0
	for i, unit := range []string{"k", "m", "g", "t"} {
		lower := strings.ToLower(s)
		for _, suffix := range []string{unit + "ib", unit + "b", unit} {
			if rest, ok := strings.CutSuffix(lower, suffix); ok {
				s, shift = strings.TrimSpace(rest), 10*(i+1)
				break
			}
		}
		if shift != 0 {
			break
		}
	}
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil || v > math.MaxInt64>>shift || v < math.MinInt64>>shift {
		return 0, false
	}
	return v << shift, true
}

// Nearest returns the candidate with the smallest edit distance to name.
func Nearest(name string, candidates []string) string {
	best, bestDistance := "", math.MaxInt
	for _, c := range candidates {
		if d := editDistance(name, c); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// editDistance is Levenshtein's, in one row.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
