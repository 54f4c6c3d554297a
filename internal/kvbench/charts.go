package kvbench

import (
	"fmt"
	"slices"

	"github.com/loamdb/loam/internal/kvbench/plot"
	"github.com/loamdb/loam/internal/workload"
)

// bars shows the rate of step i on every track.
func (g *groupView) bars(tracks []track, i int) {
	var bars []plot.Bar
	for _, t := range tracks {
		v := t.measured(i)
		if len(v.steps) == 0 {
			continue
		}
		rates := v.values(func(s *Step) float64 { return s.OpsPerSecond })
		text := plot.Short(median(rates)) + " op/s, " + plot.Micros(v.median(micros))
		bars = append(bars, plot.Bar{Name: t.name, Colour: t.colour, Value: median(rates),
			Low: rates[0], High: rates[len(rates)-1], Text: text})
	}
	if len(bars) == 0 {
		return
	}
	title := stepTitle(tracks[0].sample.Steps, i)
	note := "longer is better; ratios to the first"
	if spec, ok := workload.Find(tracks[0].sample.Steps[i].Name); ok {
		note = spec.Doc + "; " + note
	}
	if len(tracks[0].runs) > 1 {
		note += "; medians, the line is the range over all rounds"
	}
	g.add(title, plot.Bars(title, bars), note)
}

var percentiles = []string{"P50", "P75", "P99", "P99.9", "P99.99"}

// latencies shows the percentiles of step i, lags those of its follower.
func (g *groupView) latencies(tracks []track, i int) {
	g.quantiles(tracks, i, "latency", "every operation timed; lower is better",
		func(s *Step) *Latency { return s.Latency })
}

func (g *groupView) lags(tracks []track, i int) {
	g.quantiles(tracks, i, "lag of the follower", "age of the state that each catch-up replaced; "+
		"lower is better", func(s *Step) *Latency { return s.Lag })
}

func (g *groupView) quantiles(tracks []track, i int, what, note string, of func(*Step) *Latency) {
	var lines []plot.Series
	for _, t := range tracks {
		v := t.measured(i)
		if len(v.steps) == 0 || of(v.steps[0]) == nil || of(v.steps[0]).Count == 0 {
			continue
		}
		l := plot.Series{Name: t.name, Colour: t.colour}
		for j, q := range percentiles {
			all := v.numbers(func(s *Step) (float64, bool) {
				if of(s) == nil {
					return 0, false
				}
				ns, ok := of(s).Quantiles[q]
				return float64(ns) / 1e3, ok
			})
			if len(all) > 0 {
				l.X, l.Y = append(l.X, float64(j)), append(l.Y, median(all))
			}
		}
		most := v.numbers(func(s *Step) (float64, bool) {
			if of(s) == nil {
				return 0, false
			}
			return float64(of(s).Max) / 1e3, true
		})
		l.X, l.Y = append(l.X, float64(len(percentiles))), append(l.Y, slices.Max(most))
		lines = append(lines, l)
	}
	title := stepTitle(tracks[0].sample.Steps, i) + ": " + what
	g.add(title, plot.Lines(plot.Axes{
		Title: title, YText: plot.Micros, LogY: true, Dots: true,
		XNames: append(slices.Clone(percentiles), "max"),
	}, lines), note)
}

// sizes shows what an operation costs as the database grows, where it does.
func (g *groupView) sizes(tracks []track) {
	var engines []string
	nums := map[int64]bool{}
	for _, t := range tracks {
		if t.sample.ValueSize != tracks[0].sample.ValueSize {
			return
		}
		nums[t.sample.Num] = true
		if !slices.Contains(engines, t.engine) {
			engines = append(engines, t.engine)
		}
	}
	if len(nums) < 2 {
		return
	}
	for i := range tracks[0].sample.Steps {
		var lines []plot.Series
		var names []legend
		published := plot.Series{Name: "published", Colour: plot.Colours - 1}
		for k, e := range engines {
			l := plot.Series{Name: e, Colour: k}
			for _, t := range tracks {
				v := t.measured(i)
				if t.engine != e || len(v.steps) == 0 {
					continue
				}
				l.X = append(l.X, float64(t.sample.Num))
				l.Y = append(l.Y, v.median(micros))
				if p := v.steps[0].Published; p > 0 && k == 0 {
					published.X, published.Y = append(published.X, float64(t.sample.Num)), append(
						published.Y, p)
				}
			}
			lines = append(lines, l)
			names = append(names, legend{e, k})
		}
		if len(published.X) > 0 {
			lines = append(lines, published)
			names = append(names, legend{"published", published.Colour})
		}
		title := tracks[0].sample.Steps[i].Name + ": cost against size"
		g.add(title,
			plot.Lines(plot.Axes{Title: title, XLabel: "entries",
				YLabel: "microseconds per operation", LogX: true, Dots: true}, lines), "", names...)
	}
}

// fewestSamples is how many make a time line.
const fewestSamples = 2

// timeLines shows how step i went: its rate, its stalls and its levels.
func (g *groupView) timeLines(tracks []track, i int) {
	var rates, stalls []plot.Series
	var high float64
	title := stepTitle(tracks[0].sample.Steps, i)
	if tracks[0].shared { // too many lines to tell apart
		return
	}
	for _, t := range tracks {
		v := t.measured(i)
		if len(v.steps) == 0 || len(v.steps[0].Samples) < fewestSamples {
			continue
		}
		st := v.steps[0]
		rate := plot.Series{Name: t.name, Colour: t.colour}
		stall := plot.Series{Name: t.name, Colour: t.colour}
		last := Sample{}
		for _, s := range thin(st.Samples) {
			d := s.Seconds - last.Seconds
			if d <= 0 || last.Seconds >= st.Seconds { // the rest is time to quiet
				continue
			}
			rate.X, rate.Y = append(rate.X, s.Seconds), append(rate.Y, float64(s.Ops-last.Ops)/d)
			if s.Stall != nil {
				before := *st.Samples[0].Stall
				if last.Stall != nil {
					before = *last.Stall
				}
				stall.X, stall.Y = append(stall.X, s.Seconds), append(stall.Y, (*s.Stall-before)/d)
			}
			last = s
		}
		if len(rate.X) < fewestSamples {
			continue
		}
		high = max(high, last.Seconds)
		rates = append(rates, rate)
		if len(stall.X) > 0 {
			stalls = append(stalls, stall)
		}
	}
	g.add(title+": over time",
		plot.Lines(plot.Axes{Title: title + " over time", XLabel: "seconds",
			YLabel: "operations a second"}, rates), "")
	g.add(title+": stalls", plot.Strips(title+" stalls", high, stalls),
		"dark where writes waited for background work; engines that do not tell are left out")
	for _, t := range tracks {
		g.levels(&t, title, i)
	}
}

// thin keeps at most about 150 samples.
func thin(all []Sample) []Sample {
	step := len(all)/150 + 1
	if step == 1 {
		return all
	}
	var kept []Sample
	for i := step - 1; i < len(all); i += step {
		kept = append(kept, all[i])
	}
	return kept
}

// levels shows the bytes in each level over time.
func (g *groupView) levels(t *track, title string, i int) {
	v := t.measured(i)
	if len(v.steps) == 0 || len(v.steps[0].Samples) < fewestSamples {
		return
	}
	samples := thin(v.steps[0].Samples)
	var count int
	var total int64
	for _, s := range samples {
		count = max(count, len(s.Levels))
		for _, n := range s.Levels {
			total += n
		}
	}
	if total == 0 {
		return
	}
	layers := make([]plot.Series, count)
	for l := range layers {
		layers[l] = plot.Series{Name: fmt.Sprintf("L%d", l), Colour: l}
		for _, s := range samples {
			size := 0.0
			if l < len(s.Levels) {
				size = float64(s.Levels[l]) / (1 << 20)
			}
			layers[l].X, layers[l].Y = append(layers[l].X, s.Seconds), append(layers[l].Y, size)
		}
	}
	slices.Reverse(layers) // the deepest at the bottom
	name := title + ": levels of " + t.name
	g.add(name, plot.Areas(plot.Axes{Title: name, XLabel: "seconds", YLabel: "MB in levels"},
		layers), "time to quiet included", levelLegend(layers)...)
}

// levelLegend names the levels that ever hold anything.
func levelLegend(layers []plot.Series) []legend {
	var names []legend
	for _, l := range layers {
		if slices.Max(l.Y) > 0 {
			names = append(names, legend{l.Name, l.Colour})
		}
	}
	return names
}
