// Package text lays out what loam prints: tables and pairs that fit a terminal, sizes, counts and
// the line of progress.
package text

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Gap is the blank columns between two cells.
const Gap = 2

// Grid is rows of text in columns.
type Grid struct {
	head  []string
	right []bool // columns that are aligned to the right
	rows  [][]string
}

// Column adds a column; numbers are aligned to the right.
func (g *Grid) Column(name string, number bool) {
	g.head, g.right = append(g.head, name), append(g.right, number)
}

// Row adds a row, with a cell for each column.
func (g *Grid) Row(cells ...string) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = Printable(c)
	}
	g.rows = append(g.rows, row)
}

// Format lays the grid out for a terminal of so many columns; 0: no limit. Where it is too wide,
// the last column is cut, or each row becomes lines of names and values.
func (g *Grid) Format(columns int) string {
	widths := make([]int, len(g.head))
	total := -Gap
	for i, h := range g.head {
		widths[i] = utf8.RuneCountInString(h)
		for _, r := range g.rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(r[i]))
		}
		total += widths[i] + Gap
	}
	last := len(g.head) - 1
	if columns > 0 && total > columns {
		rest := columns - (total - widths[last])
		const least = 8
		if g.right[last] || rest < least {
			return g.tall(columns)
		}
		widths[last] = rest
	}
	var b strings.Builder
	g.line(&b, g.head, widths)
	for _, r := range g.rows {
		g.line(&b, r, widths)
	}
	return b.String()
}

func (g *Grid) line(b *strings.Builder, cells []string, widths []int) {
	line := ""
	for i, c := range cells {
		if i > 0 {
			line += strings.Repeat(" ", Gap)
		}
		pad := strings.Repeat(" ", max(widths[i]-utf8.RuneCountInString(c), 0))
		if g.right[i] {
			line += pad + c
		} else {
			line += Cut(c, widths[i]) + pad
		}
	}
	fmt.Fprintln(b, strings.TrimRight(line, " "))
}

func (g *Grid) tall(columns int) string {
	var b strings.Builder
	for i, r := range g.rows {
		if i > 0 {
			b.WriteByte('\n')
		}
		for j, c := range r {
			if c != "" {
				fmt.Fprintf(&b, "%s\n  %s\n", Cut(g.head[j], columns), Cut(c, columns-Gap))
			}
		}
	}
	return b.String()
}

// Cut shortens text that is wider.
func Cut(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	if width < 1 {
		return ""
	}
	r := []rune(s)
	return string(r[:width-1]) + "…"
}

// Printable is s with what a terminal may take for a command, as in names of files, as \xNN.
func Printable(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n == 1 || !strconv.IsPrint(r) {
			for _, c := range []byte(s[:n]) {
				fmt.Fprintf(&b, `\x%02x`, c)
			}
		} else {
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

// PrintableLines is Printable of each line. Tabs, as stacks have them, stay.
func PrintableLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		parts := strings.Split(line, "\t")
		for j := range parts {
			parts[j] = Printable(parts[j])
		}
		lines[i] = strings.Join(parts, "\t")
	}
	return strings.Join(lines, "\n")
}

// Pairs is lines of a name and a value.
type Pairs [][2]string

// Add adds a line.
func (p *Pairs) Add(name, format string, args ...any) {
	*p = append(*p, [2]string{name, Printable(fmt.Sprintf(format, args...))})
}

// Format lays the pairs out for a terminal of so many columns; 0: no limit.
func (p Pairs) Format(columns int) string {
	const narrow = 40 // below it, names have lines of their own
	width := 0
	for _, x := range p {
		width = max(width, len(x[0]))
	}
	var b strings.Builder
	for _, x := range p {
		if columns > 0 && columns < narrow && width+Gap+len(x[1]) > columns {
			fmt.Fprintf(&b, "%s\n  %s\n", x[0], x[1])
		} else {
			fmt.Fprintln(&b, strings.TrimRight(fmt.Sprintf("%-*s  %s", width, x[0], x[1]), " "))
		}
	}
	return b.String()
}

// Bytes is a number of bytes with three digits and a unit.
func Bytes(n uint64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	f, u := float64(n)/1024, 0
	for f >= 999.5 && u < len(units)-1 {
		f, u = f/1024, u+1
	}
	digits := 0
	switch {
	case f < 9.995:
		digits = 2
	case f < 99.95:
		digits = 1
	}
	return fmt.Sprintf("%.*f %ciB", digits, f, units[u])
}

// Count is a number with commas between thousands.
func Count[T int | int64 | uint64 | uint32](n T) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Plural is a number and what it counts.
func Plural[T int | int64 | uint64 | uint32](n T, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return Count(n) + " " + what + "s"
}

// Progress says how much is done, at which rate and how long the rest will take, as far as there is
// room for it. of is 0 where the whole is not known.
func Progress(what string, done, of uint64, took time.Duration, columns int) string {
	parts := []string{what, Bytes(done)}
	rate := float64(done) / max(took.Seconds(), 0.001)
	if of > 0 {
		share := min(float64(done)/float64(of), 1)
		parts = []string{fmt.Sprintf("%s %3.0f %%", what, 100*share),
			Bytes(done) + " of " + Bytes(of)}
	}
	parts = append(parts, Bytes(uint64(rate))+"/s")
	if of > done && rate > 0 {
		left := time.Duration(float64(of-done) / rate * float64(time.Second))
		parts = append(parts, left.Round(time.Second).String()+" left")
	}
	for n := len(parts); n > 0; n-- {
		if line := strings.Join(parts[:n], "  "); utf8.RuneCountInString(line) < columns {
			return line
		}
	}
	return ""
}
