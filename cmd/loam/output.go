package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"unicode/utf8"
)

// screen says where output goes.
type screen struct {
	width int  // columns
	out   bool // standard output is a terminal
	err   bool // standard error is a terminal
}

// output is standard output. The first failure to write stays.
type output struct {
	w    *bufio.Writer
	fail error
}

func newOutput(w io.Writer) *output { return &output{w: bufio.NewWriterSize(w, 64<<10)} }

func (o *output) Write(p []byte) (int, error) {
	if o.fail != nil {
		return 0, o.fail
	}
	n, err := o.w.Write(p)
	o.fail = err
	return n, err
}

// Flush writes what is buffered.
func (o *output) Flush() error {
	if o.fail == nil {
		o.fail = o.w.Flush()
	}
	return o.fail
}

// closed reports whether the reader of a pipe has gone.
func (o *output) closed() bool {
	return errors.Is(o.fail, syscall.EPIPE) || errors.Is(o.fail, io.ErrClosedPipe) ||
		errors.Is(o.fail, os.ErrClosed)
}

func (a *app) printf(format string, args ...any) error {
	_, err := fmt.Fprintf(a.out, format, args...)
	return err
}

// printJSON writes v on one line.
func (a *app) printJSON(v any) error {
	e := json.NewEncoder(a.out)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// grid is rows of text in columns.
type grid struct {
	head  []string
	right []bool // columns that are aligned to the right
	rows  [][]string
}

// column adds a column; numbers are aligned to the right.
func (g *grid) column(name string, number bool) {
	g.head, g.right = append(g.head, name), append(g.right, number)
}

func (g *grid) row(cells ...string) { g.rows = append(g.rows, cells) }

const gap = 2 // columns between two cells

// printGrid writes a grid. On a terminal that is too narrow for it each row becomes lines of
// "name value".
func (a *app) printGrid(g *grid) error {
	widths := make([]int, len(g.head))
	total := -gap
	for i, h := range g.head {
		widths[i] = utf8.RuneCountInString(h)
		for _, r := range g.rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(r[i]))
		}
		total += widths[i] + gap
	}
	last := len(g.head) - 1
	if a.screen.out && total > a.screen.width {
		rest := a.screen.width - (total - widths[last])
		const least = 8
		if g.right[last] || rest < least {
			return a.printTall(g)
		}
		widths[last] = rest
	}
	line := func(cells []string) error {
		var b strings.Builder
		for i, c := range cells {
			if i > 0 {
				b.WriteString(strings.Repeat(" ", gap))
			}
			n := utf8.RuneCountInString(c)
			pad := max(widths[i]-n, 0)
			switch {
			case g.right[i]:
				b.WriteString(strings.Repeat(" ", pad) + c)
			case i == last:
				b.WriteString(a.cut(c, widths[i]))
			default:
				b.WriteString(c + strings.Repeat(" ", pad))
			}
		}
		return a.printf("%s\n", strings.TrimRight(b.String(), " "))
	}
	if err := line(g.head); err != nil {
		return err
	}
	for _, r := range g.rows {
		if err := line(r); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) printTall(g *grid) error {
	for i, r := range g.rows {
		if i > 0 {
			if err := a.printf("\n"); err != nil {
				return err
			}
		}
		for j, c := range r {
			if c == "" {
				continue
			}
			if err := a.printf("%s\n  %s\n", a.cut(g.head[j], a.screen.width),
				a.cut(c, a.screen.width-2)); err != nil {
				return err
			}
		}
	}
	return nil
}

// cut shortens text for a terminal. What goes elsewhere stays whole.
func (a *app) cut(s string, width int) string {
	if !a.screen.out || utf8.RuneCountInString(s) <= width {
		return s
	}
	if width < 1 {
		return ""
	}
	r := []rune(s)
	return string(r[:width-1]) + "…"
}

// pairs is lines of a name and a value.
type pairs [][2]string

func (p *pairs) add(name, format string, args ...any) {
	*p = append(*p, [2]string{name, fmt.Sprintf(format, args...)})
}

func (a *app) printPairs(p pairs) error {
	width := 0
	for _, x := range p {
		width = max(width, len(x[0]))
	}
	for _, x := range p {
		if a.screen.out && width+gap+len(x[1]) > a.screen.width && a.screen.width < 40 {
			if err := a.printf("%s\n  %s\n", x[0], x[1]); err != nil {
				return err
			}
			continue
		}
		if err := a.printf("%-*s  %s\n", width, x[0], x[1]); err != nil {
			return err
		}
	}
	return nil
}

// bytesText is a number of bytes with three digits and a unit.
func bytesText(n uint64) string {
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

// countText is a number with commas between thousands.
func countText[T int | int64 | uint64 | uint32](n T) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
