package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/loamdb/loam/cmd/loam/internal/encode"
	"github.com/loamdb/loam/cmd/loam/internal/text"
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

// columns is how wide output may be; 0: it goes to no terminal.
func (s *screen) columns() int {
	if !s.out {
		return 0
	}
	return s.width
}

func (a *app) printGrid(g *text.Grid) error {
	return a.printf("%s", g.Format(a.screen.columns()))
}

// copies is a list of backups or replicas, which is printed as a grid or as JSON.
type copies struct {
	a       *app
	g       text.Grid
	damaged int
}

// add prints or keeps a line: as JSON, or the cells and the directory of the database. damage is
// why the copy cannot be restored, "" if it can.
func (c *copies) add(line any, directory, damage string, cells ...string) error {
	if damage != "" {
		directory = "damaged: " + damage
		c.damaged++
	}
	if c.a.json {
		return c.a.printJSON(line)
	}
	c.g.Row(append(cells, directory)...)
	return nil
}

// end prints the grid. Damaged copies are a problem; what is the word for a copy.
func (c *copies) end(what string) error {
	if !c.a.json {
		if err := c.a.printGrid(&c.g); err != nil {
			return err
		}
	}
	if c.damaged > 0 {
		return &problem{text.Plural(c.damaged, "damaged "+what)}
	}
	return nil
}

func (a *app) printPairs(p text.Pairs) error {
	return a.printf("%s", p.Format(a.screen.columns()))
}

// cut shortens text for a terminal. What goes elsewhere stays whole.
func (a *app) cut(s string, width int) string {
	if !a.screen.out {
		return s
	}
	return text.Cut(s, width)
}

// printWithKeys writes v, which is a JSON object, with two further members; name2 is "" for one.
func (a *app) printWithKeys(v any, as encode.Encoding, name1 string, key1 []byte,
	of encode.Encoding, name2 string, key2 []byte) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	b = b[:len(b)-1]
	b = as.AppendField(append(b, ','), name1, key1)
	if name2 != "" {
		b = of.AppendField(append(b, ','), name2, key2)
	}
	_, err = a.out.Write(append(b, '}', '\n'))
	return err
}
