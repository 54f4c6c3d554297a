package kvbench

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"slices"
	"strings"

	"github.com/loamdb/loam/internal/kvbench/experiment"
	"github.com/loamdb/loam/internal/kvbench/plot"
	"github.com/loamdb/loam/internal/kvbench/table"
	"github.com/loamdb/loam/internal/workload/store"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// pageView is what the page shows.
type pageView struct {
	Title    string
	Stamp    []named
	Warnings []string
	Engines  []engineView
	Groups   []groupView
	Colours  [plot.Colours]struct{}
}

type named struct{ Name, Text string }

type engineView struct {
	Engine
	Durability string
}

// groupView is an experiment.
type groupView struct {
	Title, About string
	Legend       []legend
	Charts       []chart
	Ratios       [][]string // the titles first; none of a single engine with few variants
	RatiosNote   string
	Head         []string
	Rows         [][]string
	Settings     []named
}

type legend struct {
	Name   string
	Colour int
}

type chart struct {
	Title, Note string
	Legend      []legend      // where it differs from the experiment's
	SVG         template.HTML // made by package plot, which escapes what it is given
}

// page renders the report as one file that needs no other.
func (r *Report) page() ([]byte, error) {
	v := pageView{Title: r.pageTitle(), Stamp: r.stampPairs(), Warnings: r.pageWarnings()}
	for _, e := range r.Engines {
		v.Engines = append(v.Engines, engineView{e, durabilityText(e.Durability)})
	}
	for _, first := range r.sections() {
		v.Groups = append(v.Groups, r.group(first))
	}
	var b bytes.Buffer
	err := pageTemplate.Execute(&b, &v)
	return b.Bytes(), err
}

func (r *Report) pageTitle() string {
	var titles []string
	for _, e := range r.Engines {
		titles = append(titles, e.Title)
	}
	return "kvbench: " + strings.Join(titles, ", ")
}

func (r *Report) stampPairs() []named {
	e := &r.Environment
	p := []named{{"Date", e.Time}, {"Command", "kvbench " + strings.Join(r.Args, " ")}}
	add := func(name, text string) {
		if text != "" {
			p = append(p, named{name, text})
		}
	}
	add("CPU", fmt.Sprintf("%d x %s (GOMAXPROCS %d) %s", e.Cores, cmp.Or(e.CPU, e.Arch), e.MaxProcs,
		e.CPUCache))
	if e.Memory > 0 {
		add("Memory", fmt.Sprintf("%.1f GiB", float64(e.Memory)/(1<<30)))
	}
	if i := slices.IndexFunc(r.Runs, func(run *Run) bool { return run.MemoryLimit > 0 }); i >= 0 {
		add("Limit", fmt.Sprintf("%d MB of memory for each run, page cache included, no swap",
			r.Runs[i].MemoryLimit>>20))
	}
	add("System", strings.TrimSpace(e.OS+" "+e.Kernel))
	add("File system", e.FileSystem)
	add("Go", e.Go)
	add("Commit", e.Commit)
	if e.Load >= 0 {
		add("Load before", fmt.Sprintf("%.2f", e.Load))
	}
	var busy []string
	for _, run := range r.Runs {
		if run.Busy >= 0 && run.Pair != "" {
			busy = append(busy, fmt.Sprintf("%.2f", run.Busy))
		}
	}
	add("Cores busy before each run", strings.Join(busy, " "))
	return p
}

func (r *Report) pageWarnings() []string {
	var w []string
	if !r.Complete {
		w = append(w, "The run was not completed: it failed or was interrupted.")
	}
	if r.Environment.Load > tooBusy {
		w = append(w,
			fmt.Sprintf("The machine was busy when the run began (load %.2f): figures are noisy.",
				r.Environment.Load))
	}
	if slices.ContainsFunc(r.Runs, func(run *Run) bool {
		return run.Pair != "" && run.Busy > tooBusy
	}) {
		w = append(w, "Others kept the machine busy before some of the runs; compare ratios, not "+
			"figures.")
	}
	if slices.ContainsFunc(r.Runs, (*Run).inMemory) {
		w = append(w, memoryWarning)
	}
	classes := map[store.Durability]bool{}
	for _, e := range r.Engines {
		classes[e.Durability] = true
	}
	if len(classes) > 1 {
		w = append(w, "The engines do not keep unsynced writes equally well: compare writes "+
			"within a class of the table below.")
	}
	return w
}

const memoryWarning = "A run flushed nothing: its reads were of memory. Take more entries."

// inMemory reports whether all that a run wrote stayed in memtables.
func (run *Run) inMemory() bool {
	wal := func(s Step) bool { return s.WAL != nil && *s.WAL > 0 }
	flush := func(s Step) bool { return s.Flush == nil || *s.Flush > 0 }
	return slices.ContainsFunc(run.Steps, wal) && !slices.ContainsFunc(run.Steps, flush)
}

// track is what has a colour in an experiment: an engine, a variant, or both.
type track struct {
	name   string
	engine string
	sample *Run
	runs   []*Run
	colour int
	shared bool // other tracks have the colour too
}

// tracks gathers the runs of the section that begins with a run.
func (r *Report) tracks(first *Run) []track {
	var all []track
	variants := map[string]bool{}
	for _, run := range r.Runs {
		if !run.besides(first) {
			continue
		}
		variants[run.Variant] = variants[run.Variant] || !run.own()
		i := slices.IndexFunc(all, func(t track) bool {
			return t.engine == run.Engine && sameVariant(t.sample, run) && t.sample.Num == run.Num
		})
		if i < 0 {
			i = len(all)
			all = append(all, track{engine: run.Engine, sample: run})
		}
		all[i].runs = append(all[i].runs, run)
	}
	for i := range all {
		t := &all[i]
		switch {
		case len(r.Engines) == 1 && t.sample.Variant != "":
			t.name = t.sample.Variant
		case (len(variants) > 1 || hasGrid(first)) && !t.sample.own():
			t.name = r.title(t.engine) + ", " + t.sample.Variant
		default:
			t.name = r.title(t.engine)
		}
	}
	r.colours(all)
	return all
}

// colours gives every track one of its own, or, when there are not enough, one
// to each engine; variants then stand together.
func (r *Report) colours(all []track) {
	if len(all) <= plot.Colours {
		for i := range all {
			all[i].colour = i
		}
		return
	}
	order := map[string]int{}
	for i, e := range r.Engines {
		order[e.Name] = i
	}
	variant := func(t track) int {
		return slices.IndexFunc(all, func(u track) bool {
			return sameVariant(t.sample, u.sample) && t.sample.Num == u.sample.Num
		})
	}
	rank := map[*Run]int{}
	for i := range all {
		all[i].colour, all[i].shared = order[all[i].engine], true
		rank[all[i].sample] = variant(all[i])*len(r.Engines) + all[i].colour
	}
	slices.SortStableFunc(all, func(a, b track) int { return rank[a.sample] - rank[b.sample] })
}

func (r *Report) title(engine string) string {
	for _, e := range r.Engines {
		if e.Name == engine {
			return e.Title
		}
	}
	return engine
}

// measured are the rounds of step i of a track.
func (t *track) measured(i int) series {
	c := column{runs: t.runs}
	return c.series(i)
}

func (r *Report) group(of *Run) groupView {
	tracks := r.tracks(of)
	first := tracks[0].sample
	g := groupView{Title: "Benchmarks",
		About: fmt.Sprintf("%d entries, keys %s, values of %d bytes", first.Num, first.KeyFormat,
			first.ValueSize)}
	if first.NamedValues {
		g.About = fmt.Sprintf("%d entries, keys %s, values value%%d", first.Num, first.KeyFormat)
	}
	if e := experiment.Find(of.Experiment); e != nil {
		g.Title = e.Name + ": " + e.Title
		if e.Grid {
			g.Title, g.About = e.Name+": "+variantsOf(tracks), strings.Join(e.Notes, " ")
		}
		if e.Source != "" {
			g.About = "Published: " + e.Source
		}
	}
	for _, t := range tracks {
		name := t.name
		if t.shared {
			name = r.title(t.engine)
		}
		if l := (legend{name, t.colour}); !slices.Contains(g.Legend, l) {
			g.Legend = append(g.Legend, l)
		}
		text := cmp.Or(strings.Trim(settingsText(t.sample.Settings), " ()"), "the engine's own")
		if len(t.sample.Ignored) > 0 {
			text += "; goes without " + strings.Trim(settingsText(t.sample.Ignored), " ()")
		}
		g.Settings = append(g.Settings, named{t.name, text})
	}
	g.ratios(r, tracks)
	g.sizes(tracks)
	for i := range first.Steps {
		g.bars(tracks, i)
	}
	for i := range first.Steps {
		g.latencies(tracks, i)
		g.lags(tracks, i)
	}
	for i := range first.Steps {
		g.timeLines(tracks, i)
	}
	g.table(tracks)
	return g
}

// stepTitle tells steps of the same name apart.
func stepTitle(steps []Step, i int) string {
	n, of := 0, 0
	for j := range steps {
		if steps[j].Name == steps[i].Name {
			of++
			if j <= i {
				n++
			}
		}
	}
	if of == 1 {
		return steps[i].Name
	}
	return fmt.Sprintf("%s, %d of %d", steps[i].Name, n, of)
}

func (g *groupView) add(title, svg, note string, own ...legend) {
	if svg != "" {
		g.Charts = append(g.Charts, chart{title, note, own, template.HTML(svg)})
	}
}

var pageHead = append([]string{
	"benchmark", "", "us/op", "ops/s", "MB/s", "spread", "published", "times", "found",
	"CPU us/op",
}, titles(pageFigures)...)

// pageFigures are the other columns of the page's table.
var pageFigures = append([]figure{
	{"CPU user s", at(func(s *Step) float64 { return s.CPUUser }, "%.2f")},
	{"CPU sys s", at(func(s *Step) float64 { return s.CPUSystem }, "%.2f")},
	{"w-amp", at((*Step).amplification, "%.2f")},
	{"stall", stallText},
	{"stall s", units(func(s *Step) *float64 { return s.Stall }, 1, "%.2f")},
	{"written MB", units(func(s *Step) *int64 { return s.Written }, 1<<20, "%.1f")},
	{"disk MB", diskSize},
	{"peak disk MB", extraFigures[0].text}, {"quiet disk MB", extraFigures[1].text},
	{"process RSS MB", at(func(s *Step) float64 { return float64(s.MaxRSS) / (1 << 20) }, "%.0f")},
	{"quiet s", quietSeconds},
	{"P50 us", quantileText("P50")}, {"P75", quantileText("P75")}, {"P95", quantileText("P95")},
	{"P99", quantileText("P99")}, tailFigures[0], tailFigures[1], {"max", longest},
}, extraFigures[2:]...)

func titles(figures []figure) (all []string) {
	for _, f := range figures {
		all = append(all, f.title)
	}
	return all
}

// ratios has a row for every step: how many times longer than the first engine each peer takes.
func (g *groupView) ratios(r *Report, tracks []track) {
	first := r.Engines[0].Name
	own := func(t track) bool { return t.engine == first }
	peers := slices.DeleteFunc(slices.Clone(tracks), own)
	g.RatiosNote = "How many times longer than the first engine the others take, in the same " +
		"pairs; above 1 the first one is faster."
	times := len(peers) == 0
	if times {
		if !hasGrid(tracks[0].sample) {
			return
		}
		g.RatiosNote, peers = "Microseconds per operation.", tracks
	}
	g.Ratios = [][]string{{"benchmark"}}
	for _, t := range peers {
		g.Ratios[0] = append(g.Ratios[0], t.name)
	}
	for i := range peers[0].sample.Steps {
		row := []string{gridTitle(peers[0].sample, i)}
		for _, t := range peers {
			if times {
				row = append(row, dash(t.measured(i).median(micros), "%.3f"))
				continue
			}
			v := compareRuns(first, r.Runs, t.sample, i)
			row = append(row, dash(v.ratio(), "%.2f"))
		}
		g.Ratios = append(g.Ratios, row)
	}
	if len(peers) > plot.Colours {
		g.Ratios[0][0] = "variant"
		g.Ratios = table.Turn(g.Ratios)
	}
	g.Ratios = table.Trim(g.Ratios)
}

// table has a row for every step and track.
func (g *groupView) table(tracks []track) {
	g.Head = slices.Clone(pageHead)
	table.Retitle(g.Head, "published", publishedTitle(tracks[0].sample))
	for i := range tracks[0].sample.Steps {
		for _, t := range tracks {
			v := t.measured(i)
			if len(v.steps) == 0 {
				continue
			}
			st := v.steps[0]
			row := []string{
				stepTitle(t.sample.Steps, i), t.name, number(v.median(micros)),
				fmt.Sprintf("%.0f", v.median(func(s *Step) float64 {
					return s.OpsPerSecond
				})), dash(v.median(func(s *Step) float64 { return s.MBPerSecond }), "%.1f"),
				dash(v.spread(), "%.0f%%"), dash(st.Published, "%.3f"),
				timesFaster(st.Published, v.median(micros)), foundText(st),
				number(v.median(cpuMicros)),
			}
			for _, f := range pageFigures {
				row = append(row, f.text(v))
			}
			g.Rows = append(g.Rows, row)
		}
	}
	trimmed := table.Trim(append([][]string{g.Head}, g.Rows...))
	g.Head, g.Rows = trimmed[0], trimmed[1:]
}
