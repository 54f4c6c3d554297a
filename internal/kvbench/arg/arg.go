// Package arg reads arguments of a command line: words for yes and no, numbers with units, and
// names that are nearly right.
package arg

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// Bool reads a word for yes or no.
func Bool(s string) (on, ok bool) {
	switch strings.ToLower(s) {
	case "1", "true", "yes", "on":
		return true, true
	case "0", "false", "no", "off":
		return false, true
	}
	return false, false
}

// Count reads a number with an optional k, M or G for powers of 1000.
func Count(s string) (int64, error) {
	return parseNumber(s, map[string]float64{"k": 1e3, "m": 1e6, "g": 1e9},
		"a number such as 1000000 or 10M")
}

// Size reads bytes with an optional KiB, MiB or GiB; K, KB and so on mean
// the same powers of 1024.
func Size(s string) (int64, error) {
	return parseNumber(s, map[string]float64{
		"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30,
		"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30,
	}, "a size such as 4096 or 64MiB")
}

func parseNumber(s string, units map[string]float64, want string) (int64, error) {
	digits := strings.TrimRight(s, "kKmMgGiIbB")
	unit := 1.0
	if suffix := strings.ToLower(s[len(digits):]); suffix != "" {
		u, ok := units[suffix]
		if !ok {
			return 0, errors.New("want " + want)
		}
		unit = u
	}
	if n, err := strconv.ParseInt(digits, 10, 64); err == nil && unit == 1 {
		return n, nil
	}
	f, err := strconv.ParseFloat(digits, 64)
	if err != nil || math.IsNaN(f) || math.Abs(f*unit) >= 1<<62 {
		return 0, errors.New("want " + want)
	}
	return int64(f * unit), nil
}

// Nearest returns the candidate with the smallest edit distance.
func Nearest(word string, candidates []string) string {
	best, distance := "", math.MaxInt
	for _, c := range candidates {
		if d := editDistance(word, c); d < distance {
			best, distance = c, d
		}
	}
	return best
}

// editDistance counts insertions, deletions, replacements and swaps of
// neighbours.
func editDistance(a, b string) int {
	a, b = a[:min(len(a), 64)], b[:min(len(b), 64)]
	var before, last, row [65]int
	for j := range len(b) + 1 {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
