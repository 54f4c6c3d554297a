package picker_test

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/tree/picker"
)

// The shapes that docs/shape.md compares: Loam's, decided by this package and replayed
// by sim, and models of others, in which merges take no time.

// shapeLoad is a number of random keys that are all drawn once on average, and then
// as many draws again.
type shapeLoad struct {
	name    string
	entries float64
	check   shapeCheck
}

// shapeCheck says when a load's rows are made.
type shapeCheck int

const (
	always shapeCheck = iota
	notShort
	onRewrite // it takes a minute
)

var shapeLoads = []shapeLoad{{"100 million", 100e6, always}, {"1 billion", 1e9, notShort},
	{"10 billion", 10e9, onRewrite}}

// shapeRow is what one shape makes of one load.
type shapeRow struct {
	shape     string
	fill      float64 // bytes written to tables per byte of flushed tables, flush included
	overwrite float64
	runs      float64 // that a read may look into, on average over the load
	peak      float64 // bytes on disk, outputs of merges included, per live byte, while overwriting
	quiet     float64 // bytes on disk per live byte at the end, nobody writing
}

const shapeBuffer = 64 << 20

func loamShape(t testing.TB, n float64) shapeRow {
	s := newSim(t, picker.Config{FileSize: 64 << 20, WriteBuffer: shapeBuffer,
		MaxSubcompactions: 2})
	s.universe, s.known = n, true
	s.fill(n)
	row := shapeRow{shape: "Loam", fill: 1 + s.rewritten/s.flushed}
	rewritten, flushed := s.rewritten, s.flushed
	s.fill(n)
	row.overwrite = 1 + (s.rewritten-rewritten)/(s.flushed-flushed)
	row.runs, row.peak = s.sumRuns/float64(s.flushes), s.peak
	s.quiet()
	s.rest()
	row.quiet = s.onDisk() / s.live()
	return row
}

// shapeModel is a shape in numbers of entries: levels[0] are flushed tables, the newest
// first, the others a sorted run each.
type shapeModel struct {
	universe, drawn        float64
	zero                   []float64
	levels                 []float64
	flushed, written       float64
	peak, sumRuns, flushes float64
	compact                func(*shapeModel)
}

// union is how many keys two sets of random keys have together, of so many.
func union(a, b, of float64) float64 { return of * (1 - (1-a/of)*(1-b/of)) }

func (m *shapeModel) total() (n float64) {
	for _, x := range append(m.zero, m.levels...) {
		n += x
	}
	return n
}

// wrote counts the output of a merge; its inputs are still there.
func (m *shapeModel) wrote(n float64) {
	m.written += n
	if m.drawn > m.universe {
		m.peak = max(m.peak, (m.total()+n)/m.live())
	}
}

func (m *shapeModel) live() float64 { return m.universe * (1 - math.Exp(-m.drawn/m.universe)) }

func (m *shapeModel) run(draws float64) {
	const memtable = shapeBuffer / 150
	for end := m.drawn + draws; m.drawn < end; {
		m.drawn += memtable
		n := m.universe * (1 - math.Exp(-memtable/m.universe))
		m.flushed += n
		m.wrote(n)
		m.zero = append([]float64{n}, m.zero...)
		m.compact(m)
		runs := float64(len(m.zero))
		for _, x := range m.levels {
			if x > 0 {
				runs++
			}
		}
		m.sumRuns += runs
		m.flushes++
	}
}

func (m *shapeModel) row(shape string) shapeRow {
	m.run(m.universe)
	row := shapeRow{shape: shape, fill: m.written / m.flushed}
	written, flushed := m.written, m.flushed
	m.run(m.universe)
	row.overwrite = (m.written - written) / (m.flushed - flushed)
	row.runs, row.peak, row.quiet = m.sumRuns/m.flushes, m.peak, m.total()/m.live()
	return row
}

// leveled merges level 0 into level 1 when it has trigger tables, and a table at a time
// of each level that is above its target into the next. RocksDB's targets, dynamic, go
// down from the size of the last level, LevelDB's go up from 10 MiB.
func leveled(dynamic bool, base, file float64) func(*shapeModel) {
	const ratio, deepest = 10, 6
	return func(m *shapeModel) {
		if m.levels == nil {
			m.levels = make([]float64, deepest+1)
		}
		target := make([]float64, deepest+1)
		to := 1
		if dynamic {
			target[deepest] = max(m.levels[deepest], base)
			for to = deepest; target[to] > base && to > 1; to-- {
				target[to-1] = target[to] / ratio
			}
		} else {
			target[1] = base
			for l := 2; l <= deepest; l++ {
				target[l] = target[l-1] * ratio
			}
		}
		if len(m.zero) >= 4 {
			merged := m.levels[to]
			for _, x := range m.zero {
				merged = union(merged, x, m.universe)
			}
			m.wrote(merged)
			m.zero, m.levels[to] = nil, merged
		}
		for l := to; l < deepest; l++ {
			for m.levels[l] > max(target[l], file) {
				part := min(file/m.levels[l], 1)
				a, b := part*m.levels[l], part*m.levels[l+1]
				merged := union(a, b, part*m.universe)
				if m.levels[l+1] > 0 { // otherwise the table only moves
					m.wrote(merged)
				}
				m.levels[l] -= a
				m.levels[l+1] += merged - b
			}
		}
	}
}

// tiered merges runs as soon as four in a row are of about one size.
func tiered(m *shapeModel) {
	const width, similar = 4, 2
	for i := 0; i+width <= len(m.zero); i++ {
		some := m.zero[i : i+width]
		if slices.Max(some) > similar*slices.Min(some) {
			continue
		}
		merged := 0.0
		for _, x := range some {
			merged = union(merged, x, m.universe)
		}
		m.wrote(merged)
		m.zero = slices.Concat(m.zero[:i], []float64{merged}, m.zero[i+width:])
		i = -1
	}
}

func shapeRows(t testing.TB, n float64) []shapeRow {
	const entry = 65
	simulate := func(compact func(*shapeModel)) *shapeModel {
		return &shapeModel{universe: n, compact: compact}
	}
	return []shapeRow{
		loamShape(t, n),
		simulate(leveled(true, 256<<20/entry, 64<<20/entry)).row("leveled, RocksDB"),
		simulate(leveled(false, 10<<20/entry, 2<<20/entry)).row("leveled, LevelDB"),
		simulate(tiered).row("tiered"),
	}
}

const shapePage, shapePlot = "../../../docs/shape.md", "../../../docs/shape.svg"

// shapeTable is the table in docs/shape.md for one load.
func shapeTable(l shapeLoad, rows []shapeRow) string {
	var b strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s | %.1f | %.1f | %.1f | %.2f | %.2f |\n", l.name, r.shape, r.fill,
			r.overwrite, r.runs, r.peak, r.quiet)
	}
	return b.String()
}

// TestShapePage: the table in docs is what this package's decisions make, and the plot
// is the table's. With -rewrite both are made anew.
func TestShapePage(t *testing.T) {
	page, err := os.ReadFile(shapePage)
	if err != nil {
		t.Fatal(err)
	}
	f := flag.Lookup("rewrite")
	rewrite := f != nil && f.Value.String() == "true"
	all := map[string][]shapeRow{}
	table := ""
	for _, l := range shapeLoads {
		if l.check == notShort && testing.Short() || l.check == onRewrite && !rewrite {
			continue
		}
		all[l.name] = shapeRows(t, l.entries)
		lines := shapeTable(l, all[l.name])
		table += lines
		t.Logf("\n%s", lines)
		if !rewrite && !bytes.Contains(page, []byte(lines)) {
			t.Errorf("%s has not these rows; go test ./internal/tree/picker -run ShapePage "+
				"-rewrite makes it anew:\n%s", shapePage, lines)
		}
	}
	if rewrite {
		head, _, ok := bytes.Cut(page, []byte("| 100 million |"))
		_, tail, ok2 := bytes.Cut(page, []byte("\n\n<!-- end of the table -->"))
		if !ok || !ok2 {
			t.Fatalf("%s has no table", shapePage)
		}
		page = slices.Concat(head, []byte(table), []byte("\n<!-- end of the table -->"), tail)
		if err := os.WriteFile(shapePage, page, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	plot := drawShapes(readShapes(t, page))
	if rewrite {
		if err := os.WriteFile(shapePlot, plot, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if old, err := os.ReadFile(shapePlot); err != nil || !bytes.Equal(old, plot) {
		t.Errorf("%s is not what the table says; make it anew with -rewrite (%v)", shapePlot, err)
	}
}

// readShapes reads the table of the page.
func readShapes(t *testing.T, page []byte) map[string][]shapeRow {
	all := map[string][]shapeRow{}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, "|")
		if len(cells) != 9 || !slices.ContainsFunc(shapeLoads, func(l shapeLoad) bool {
			return l.name == strings.TrimSpace(cells[1])
		}) {
			continue
		}
		r := shapeRow{shape: strings.TrimSpace(cells[2])}
		if _, err := fmt.Sscan(strings.Join(cells[3:8], " "), &r.fill, &r.overwrite, &r.runs,
			&r.peak, &r.quiet); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		load := strings.TrimSpace(cells[1])
		all[load] = append(all[load], r)
	}
	for _, l := range shapeLoads {
		if len(all[l.name]) != 4 {
			t.Fatalf("%s has %d rows for %s", shapePage, len(all[l.name]), l.name)
		}
	}
	return all
}

// drawShapes plots the table: four figures, a line for each shape.
func drawShapes(all map[string][]shapeRow) []byte {
	const width, height, left, top, side = 260, 210, 50, 40, 160
	colours := []string{"#1b7837", "#b2182b", "#ef8a62", "#2166ac"}
	figures := []struct {
		name string
		of   func(shapeRow) float64
	}{
		{"write amplification, fill", func(r shapeRow) float64 { return r.fill }},
		{"write amplification, overwrite", func(r shapeRow) float64 { return r.overwrite }},
		{"sorted runs per read", func(r shapeRow) float64 { return r.runs }},
		{"peak space / live bytes", func(r shapeRow) float64 { return r.peak }},
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "+
		"font-family=\"sans-serif\" font-size=\"11\">\n", width*len(figures), height+60)
	fmt.Fprintf(&b, "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n")
	for i, f := range figures {
		x := func(load int) float64 {
			return float64(i*width+left) + float64(load*(width-left-40))/float64(len(shapeLoads)-1)
		}
		largest := 0.0
		for _, rows := range all {
			for _, r := range rows {
				largest = max(largest, f.of(r))
			}
		}
		y := func(v float64) float64 { return top + side*(1-v/largest) }
		fmt.Fprintf(&b, "<text x=\"%d\" y=\"24\" font-weight=\"bold\">%s</text>\n", i*width+left,
			f.name)
		for _, v := range []float64{0, largest / 2, largest} {
			fmt.Fprintf(&b, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.1f</text><path "+
				"d=\"M%d %.1fH%.1f\" stroke=\"#ddd\"/>\n", i*width+left-6, y(v)+4, v, i*width+left,
				y(v), x(len(shapeLoads)-1))
		}
		for n, l := range shapeLoads {
			fmt.Fprintf(&b, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", x(n),
				top+side+18, l.name)
		}
		for s, colour := range colours {
			path := ""
			for n, l := range shapeLoads {
				v := f.of(all[l.name][s])
				path += fmt.Sprintf("%s%.1f %.1f", map[bool]string{true: "M", false: "L"}[n == 0],
					x(n), y(v))
				fmt.Fprintf(&b, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", x(n),
					y(v), colour)
			}
			fmt.Fprintf(&b, "<path d=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"/>\n",
				path, colour)
		}
	}
	for s, colour := range colours {
		at := left + s*width
		fmt.Fprintf(&b, "<rect x=\"%d\" y=\"%d\" width=\"14\" height=\"4\" fill=\"%s\"/><text "+
			"x=\"%d\" y=\"%d\">%s</text>\n", at, height+40, colour, at+20, height+46,
			all[shapeLoads[0].name][s].shape)
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}
