// Package plot draws the charts of reports as SVG: bars, lines, stacked areas.
// Colours and fonts come from the page's style sheet, by class: s0 to s7 are the
// colours of series, "axis", "grid" and "label" the rest.
//
// Its functions have no state and may be called by any goroutine.
package plot

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Colours is the number of classes of series.
const Colours = 8

// width is that of every chart in its own units; it is scaled to the page.
const width = 360

// Bar is one row of a bar chart: a value, its range, and its label.
type Bar struct {
	Name      string
	Colour    int
	Value     float64
	Low, High float64 // a whisker, when they differ
	Text      string
}

// Micros writes a time in microseconds with three digits and a unit.
func Micros(v float64) string {
	switch {
	case v >= 999.5e3:
		return digits(v/1e6) + " s"
	case v >= 999.5:
		return digits(v/1e3) + " ms"
	case v >= 0.9995 || v == 0:
		return digits(v) + " us"
	}
	return digits(v*1e3) + " ns"
}

// digits writes three digits, without an exponent.
func digits(v float64) string {
	switch {
	case v >= 99.95:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 9.995:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// Bars draws a row for each bar, the name above it, with the ratio to the first one; the greatest
// value is bold.
func Bars(title string, bars []Bar) string {
	var most float64
	for _, b := range bars {
		most = max(most, b.Value, b.High)
	}
	if most <= 0 {
		return ""
	}
	const row, thick, right = 30, 12, 4
	var s strings.Builder
	open(&s, title, float64(len(bars)*row+4))
	for i, b := range bars {
		y := float64(i*row) + 11
		scale := (width - right) / most
		class, label := "label", b.Text
		if i > 0 && bars[0].Value > 0 {
			label += ", " + digits(b.Value/bars[0].Value) + "x"
		}
		if greatest := slices.MaxFunc(bars, byValue); len(bars) > 1 && b.Value == greatest.Value {
			class = "label best"
		}
		text(&s, 0, y, class, "", b.Name)
		text(&s, width, y, class, "end", label)
		fmt.Fprintf(&s, `<rect class="s%d" x="0" y="%.1f" width="%.1f" height="%d" rx="1.5"/>`,
			colour(b.Colour), y+4, max(b.Value*scale, 0.5), thick)
		if b.High > b.Low {
			mid := y + 4 + thick/2
			fmt.Fprintf(&s, `<path class="whisker" d="M%.1f %.1fH%.1fM%.1f %.1fv6M%.1f %.1fv6"/>`,
				b.Low*scale, mid, b.High*scale, b.Low*scale, mid-3, b.High*scale, mid-3)
		}
	}
	s.WriteString("</svg>")
	return s.String()
}

func byValue(a, b Bar) int { return cmp.Compare(a.Value, b.Value) }

// Series is one line, or one layer of an area chart.
type Series struct {
	Name   string
	Colour int
	X, Y   []float64
}

// Axes says how a chart's axes run. With XNames the X values are 0, 1, 2 ...
// and the names are written below.
type Axes struct {
	Title        string
	XLabel       string
	YLabel       string
	XNames       []string
	LogX, LogY   bool
	Dots         bool
	Height       float64
	XText, YText func(float64) string // of ticks; nil: Short
}

// Short writes a number with three digits and a unit.
func Short(v float64) string {
	a := math.Abs(v)
	for _, u := range []struct {
		from float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if a >= u.from {
			return trim(v/u.from) + u.name
		}
	}
	return trim(v)
}

func trim(v float64) string {
	return strconv.FormatFloat(v, 'g', 3, 64)
}

const (
	left   = 44
	bottom = 30
	top    = 16
)

// frame maps values to the chart's area.
type frame struct {
	x, y   axis
	height float64
}

type axis struct {
	low, high float64
	log       bool
	from, to  float64 // in the chart's units
}

func (a *axis) at(v float64) float64 {
	low, high := a.low, a.high
	if a.log {
		v, low, high = math.Log10(max(v, a.low)), math.Log10(low), math.Log10(high)
	}
	if high == low {
		return (a.from + a.to) / 2
	}
	return a.from + (v-low)/(high-low)*(a.to-a.from)
}

// ticks are the round numbers within an axis, four or so.
func (a *axis) ticks() []float64 {
	var t []float64
	if a.log {
		steps := []float64{1, 2, 5}
		if a.high/a.low > 1e3 {
			steps = steps[:1]
		}
		for p := math.Floor(math.Log10(a.low)); p <= math.Log10(a.high)+1e-9; p++ {
			for _, s := range steps {
				if v := s * math.Pow(10, p); v >= a.low*0.999 && v <= a.high*1.001 {
					t = append(t, v)
				}
			}
		}
		return t
	}
	step := niceStep((a.high - a.low) / 4)
	for i := math.Ceil(a.low / step); i*step <= a.high*1.0001; i++ {
		t = append(t, i*step)
	}
	return t
}

func niceStep(v float64) float64 {
	if v <= 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return 1
	}
	p := math.Pow(10, math.Floor(math.Log10(v)))
	for _, s := range []float64{1, 2, 2.5, 5} {
		if v <= s*p*1.0001 {
			return s * p
		}
	}
	return 10 * p
}

// span returns the smallest and largest finite values; from zero unless log.
func span(log bool, all ...[]float64) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, vs := range all {
		for _, v := range vs {
			if math.IsNaN(v) || math.IsInf(v, 0) || log && v <= 0 {
				continue
			}
			low, high = min(low, v), max(high, v)
		}
	}
	switch {
	case low > high:
		return 1, 10
	case !log:
		low = min(low, 0)
		if high <= low {
			high = low + 1
		}
	case low == high:
		low, high = low/2, high*2
	}
	return low, high
}

func (o *Axes) frame(series []Series) frame {
	var xs, ys [][]float64
	for _, s := range series {
		xs, ys = append(xs, s.X), append(ys, s.Y)
	}
	if o.Height == 0 {
		o.Height = 200
	}
	f := frame{height: o.Height}
	f.x = axis{log: o.LogX, from: left, to: width - 8}
	f.y = axis{log: o.LogY, from: o.Height - bottom, to: top}
	f.x.low, f.x.high = span(o.LogX, xs...)
	f.y.low, f.y.high = span(o.LogY, ys...)
	if n := len(o.XNames); n > 1 {
		f.x.low, f.x.high = 0, float64(n-1)
	}
	return f
}

// draw writes the axes.
func (f *frame) draw(s *strings.Builder, o *Axes) {
	xText, yText := o.XText, o.YText
	if xText == nil {
		xText = Short
	}
	if yText == nil {
		yText = Short
	}
	for _, v := range f.y.ticks() {
		y := f.y.at(v)
		fmt.Fprintf(s, `<path class="grid" d="M%.1f %.1fH%.1f"/>`, f.x.from, y, f.x.to)
		text(s, left-5, y+3.5, "tick", "end", yText(v))
	}
	base := f.y.from
	fmt.Fprintf(s, `<path class="axis" d="M%.1f %.1fH%.1f"/>`, f.x.from, base, f.x.to)
	if len(o.XNames) > 0 {
		for i, name := range o.XNames {
			anchor := "middle"
			if i == len(o.XNames)-1 {
				anchor = "end"
			}
			text(s, f.x.at(float64(i)), base+13, "tick", anchor, name)
		}
	} else {
		for _, v := range f.x.ticks() {
			text(s, f.x.at(v), base+13, "tick", "middle", xText(v))
		}
	}
	text(s, f.x.to, base+26, "tick", "end", o.XLabel)
	text(s, 0, 9, "tick", "", o.YLabel)
}

// Lines draws a line for each series.
func Lines(o Axes, series []Series) string {
	if empty(series) {
		return ""
	}
	f := o.frame(series)
	var s strings.Builder
	open(&s, o.Title, f.height)
	f.draw(&s, &o)
	for _, l := range series {
		fmt.Fprintf(&s, `<path class="line s%d" d="%s"/>`, colour(l.Colour), f.path(l.X, l.Y))
		if o.Dots {
			for i := range l.X {
				fmt.Fprintf(&s, `<circle class="s%d" cx="%.1f" cy="%.1f" r="2.6"/>`,
					colour(l.Colour), f.x.at(l.X[i]), f.y.at(l.Y[i]))
			}
		}
	}
	s.WriteString("</svg>")
	return s.String()
}

func (f *frame) path(xs, ys []float64) string {
	var b strings.Builder
	for i := range xs {
		c := 'L'
		if i == 0 {
			c = 'M'
		}
		fmt.Fprintf(&b, "%c%.1f %.1f", c, f.x.at(xs[i]), f.y.at(ys[i]))
	}
	return b.String()
}

// Areas stacks the series, which have the same X, the first at the bottom.
func Areas(o Axes, series []Series) string {
	if empty(series) {
		return ""
	}
	stacked := make([]Series, len(series))
	floor := make([]float64, len(series[0].X))
	for i, l := range series {
		stacked[i] = l
		stacked[i].Y = make([]float64, len(floor))
		for j := range floor {
			stacked[i].Y[j] = floor[j] + l.Y[j]
		}
		floor = stacked[i].Y
	}
	f := o.frame(stacked)
	var s strings.Builder
	open(&s, o.Title, f.height)
	f.draw(&s, &o)
	for i := len(stacked) - 1; i >= 0; i-- {
		l := stacked[i]
		x := slices.Clone(l.X)
		y := slices.Clone(l.Y)
		for j := len(x) - 1; j >= 0; j-- {
			below := 0.0
			if i > 0 {
				below = stacked[i-1].Y[j]
			}
			x, y = append(x, l.X[j]), append(y, below)
		}
		fmt.Fprintf(&s, `<path class="area s%d" d="%sZ"/>`, colour(l.Colour), f.path(x, y))
	}
	s.WriteString("</svg>")
	return s.String()
}

// Strips draws a row for each series in which Y, from 0 to 1, is how dark the
// time up to X is.
func Strips(title string, high float64, series []Series) string {
	if empty(series) || high <= 0 {
		return ""
	}
	const row = 26
	x := axis{low: 0, high: high, from: left, to: width - 8}
	var s strings.Builder
	open(&s, title, float64(len(series)*row+2))
	for i, l := range series {
		y := float64(i * row)
		text(&s, left, y+9, "tick", "", l.Name)
		fmt.Fprintf(&s, `<rect class="empty" x="%.1f" y="%.1f" width="%.1f" height="8"/>`, x.from,
			y+12, x.to-x.from)
		from := 0.0
		for j := range l.X {
			if l.Y[j] > 0.005 {
				a, b := x.at(from), x.at(min(l.X[j], high))
				fmt.Fprintf(&s,
					`<rect class="s%d" fill-opacity="%.2f" x="%.1f" y="%.1f" width="%.1f" `+
						`height="8"/>`, colour(l.Colour), min(0.15+0.85*l.Y[j], 1), a, y+12,
					max(b-a, 0.6))
			}
			from = l.X[j]
		}
	}
	s.WriteString("</svg>")
	return s.String()
}

func empty(series []Series) bool {
	return !slices.ContainsFunc(series, func(s Series) bool { return len(s.X) > 0 })
}

func colour(i int) int { return ((i % Colours) + Colours) % Colours }

func open(s *strings.Builder, title string, height float64) {
	fmt.Fprintf(s, `<svg viewBox="0 0 %d %.0f" role="img" aria-label="%s">`, width, height,
		html.EscapeString(title))
}

func text(s *strings.Builder, x, y float64, class, anchor, t string) {
	if t == "" {
		return
	}
	if anchor != "" {
		anchor = ` text-anchor="` + anchor + `"`
	}
	fmt.Fprintf(s, `<text class="%s" x="%.1f" y="%.1f"%s>%s</text>`, class, x, y, anchor,
		html.EscapeString(t))
}
