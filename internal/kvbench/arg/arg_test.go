package arg

import (
	"strings"
	"testing"
)

func TestEditDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"num", "nmu", 1}, {"kitten", "sitting", 3}, {"readseq", "readseq",
		0},
		{strings.Repeat("x", 500), "x", 63}} {
		if got := editDistance(tt.a, tt.b); got != tt.want {
			t.Errorf("%q %q: %d", tt.a, tt.b, got)
		}
		if got := editDistance(tt.b, tt.a); got != tt.want {
			t.Errorf("%q %q: %d", tt.b, tt.a, got)
		}
	}
}

func TestNumbers(t *testing.T) {
	for s, want := range map[string]int64{"0": 0, "-5": -5, "10k": 10000, "1.5M": 1500000,
		"2G": 2e9, "1e3": 1000, "9007199254740993": 9007199254740993} {
		if n, err := Count(s); n != want || err != nil {
			t.Errorf("%s: %d %v", s, n, err)
		}
	}
	for s, want := range map[string]int64{"4096": 4096, "4K": 4096, "64MiB": 64 << 20,
		"1gb": 1 << 30, "0.5MiB": 1 << 19} {
		if n, err := Size(s); n != want || err != nil {
			t.Errorf("%s: %d %v", s, n, err)
		}
	}
	for _, s := range []string{"", "k", "1kk", "NaN", "1e30", "Inf", "0x"} {
		if n, err := Count(s); err == nil {
			t.Errorf("%q is taken for %d", s, n)
		}
	}
}
