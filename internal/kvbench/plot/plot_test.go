package plot

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
)

// wellFormed fails unless the drawing is XML without numbers that are none.
func wellFormed(t *testing.T, svg string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in %s", err, svg)
		}
	}
	if !strings.HasPrefix(svg, "<svg") || strings.Contains(svg, "NaN") ||
		strings.Contains(svg, "Inf") {
		t.Errorf("bad drawing: %s", svg)
	}
}

func TestCharts(t *testing.T) {
	s := []Series{{"a <b>", 0, []float64{1, 10, 100}, []float64{3, 0, 7}},
		{"c", 9, []float64{1, 10, 100}, []float64{1, 2, math.Pi}}}
	for _, o := range []Axes{{}, {LogX: true}, {LogY: true}, {LogX: true, LogY: true, Dots: true},
		{XNames: []string{"P50", "P99", "max"}}} {
		o.Title = `"quoted" & <odd>`
		wellFormed(t, Lines(o, s))
		wellFormed(t, Areas(o, s))
	}
	wellFormed(t,
		Lines(Axes{LogX: true, LogY: true}, []Series{{"one", 0, []float64{5}, []float64{5}}}))
	wellFormed(t, Lines(Axes{}, []Series{{"zero", 0, []float64{0}, []float64{0}}}))
	wellFormed(t, Bars("x", []Bar{{"a & b", 0, 2, 1, 3, "2 us"}, {"none", 1, 0, 0, 0, ""}}))
	wellFormed(t, Strips("x", 100, s))
	for _, got := range []string{Lines(Axes{}, nil), Areas(Axes{}, nil), Bars("x", nil),
		Strips("x", 0, s)} {
		if got != "" {
			t.Errorf("drew nothing as %s", got)
		}
	}
}

func TestTicks(t *testing.T) {
	for _, tt := range []struct {
		a    axis
		want []float64
	}{
		{axis{low: 0, high: 10}, []float64{0, 2.5, 5, 7.5, 10}},
		{axis{low: 0, high: 7e6}, []float64{0, 2e6, 4e6, 6e6}},
		{axis{low: 1, high: 100, log: true}, []float64{1, 2, 5, 10, 20, 50, 100}},
		{axis{low: 0.5, high: 2e4, log: true}, []float64{1, 10, 100, 1000, 10000}},
	} {
		got := tt.a.ticks()
		if !slices.EqualFunc(got, tt.want, func(x, y float64) bool {
			return math.Abs(x-y) <= 1e-9*math.Abs(y)
		}) {
			t.Errorf("%+v: %v, want %v", tt.a, got, tt.want)
		}
	}
	for v, want := range map[float64]string{0: "0", 1234: "1.23k", 5e6: "5M", 0.25: "0.25",
		2.5e9: "2.5G", 999: "999"} {
		if got := Short(v); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
}

// TestMicros writes times with three digits and a unit, never an exponent.
func TestMicros(t *testing.T) {
	for v, want := range map[float64]string{0: "0.00 us", 0.0466: "46.6 ns", 0.99949: "999 ns",
		1: "1.00 us", 9.89e3: "9.89 ms", 999.49: "999 us", 999.5: "1.00 ms", 12345678: "12.3 s"} {
		if got := Micros(v); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
}

// TestBarsCompare writes ratios to the first bar, and marks the best one.
func TestBarsCompare(t *testing.T) {
	svg := Bars("t", []Bar{{Name: "a", Value: 2, Text: "2 op/s"}, {Name: "b", Value: 3,
		Text: "3 op/s"}})
	for _, want := range []string{"2 op/s<", "3 op/s, 1.50x<", `best" x="0.0" y="41.0">b<`} {
		if !strings.Contains(svg, want) {
			t.Errorf("no %q in %s", want, svg)
		}
	}
}
