package iters_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/testkit/model"
	"github.com/loamdb/loam/internal/testkit/script"
	"github.com/loamdb/loam/internal/tree/iters"
)

// cursorScript has the sources that a script lists and a cursor over them.
type cursorScript struct {
	t       *testing.T
	cmp     *base.Comparer
	sources []func() base.Source // each cursor has its own
	c       *iters.Cursor
	opened  []uint64 // files of levels
}

// TestCursorScripts runs testdata/cursor. The commands:
//
//	sources      each line of the input is a source, newest first: "a#3=x b#2- | c#1=y"
//	             are a set, a tombstone, the end of a chunk and a set. It forgets all
//	             sources before. codec=9 is the codec of all values, comparer=fold takes
//	             upper and lower case for equal.
//	level        adds a level; each line is a file, with numbers from 0. fail=3 is a file
//	             that cannot be opened.
//	cursor       makes a cursor over all of them, at=3 lower=b upper=x, and moves it:
//	             first, last, next, prev, rest, back (to either end), ge=k, lt=k,
//	             bounds=(b x). Printed is where each move leads, "." where there is
//	             nothing, the error after a failure, and then the files opened since
//	             the cursor was made.
//	walk         moves the cursor on.
func TestCursorScripts(t *testing.T) {
	script.RunDir(t, "testdata/cursor", func(t *testing.T) func(*script.Command) string {
		s := &cursorScript{t: t}
		t.Cleanup(s.close)
		return s.run
	})
}

func (s *cursorScript) run(c *script.Command) string {
	switch c.Name {
	case "sources":
		s.sources, s.cmp = nil, base.Bytewise
		if c.Arg("comparer", "") == "fold" {
			s.cmp = model.Fold
		}
		for _, line := range c.Lines() {
			s.sources = append(s.sources, s.source(c, line))
		}
	case "level":
		s.level(c)
	case "cursor":
		s.close()
		var sources []base.Source
		for _, open := range s.sources {
			sources = append(sources, open())
		}
		s.c = iters.NewCursor(s.cmp, sources, base.SeqNum(c.Int("at", int(base.MaxSeqNum))),
			c.Bytes("lower"), c.Bytes("upper"))
		return s.walk(c)
	case "walk":
		return s.walk(c)
	default:
		return c.Unknown()
	}
	return ""
}

// close ends the cursor, which reports its error once more.
func (s *cursorScript) close() {
	if s.c == nil {
		return
	}
	want := s.c.Err()
	if err := s.c.Close(); err != want {
		s.t.Errorf("Close returned %v, not %v", err, want)
	}
	s.c, s.opened = nil, nil
}

func (s *cursorScript) source(c *script.Command, line string) func() base.Source {
	es, ends, err := model.Parse(line)
	if err != nil {
		c.Fail("%v", err)
	}
	model.Sort(s.cmp, es)
	codec := base.Codec(c.Int("codec", int(base.CodecRaw)))
	return func() base.Source {
		src := model.NewSource(s.t, s.cmp, es, ends)
		src.Adjust = func(e *base.Chunk) {
			if codec != base.CodecRaw {
				e.Codecs = slices.Repeat([]base.Codec{codec}, e.Len())
			}
		}
		return src
	}
}

func (s *cursorScript) level(c *script.Command) {
	broken := c.Int("fail", -1)
	var files []*manifest.FileMeta
	var data []func() base.Source
	for i, line := range c.Lines() {
		es, _, err := model.Parse(line)
		if err != nil || len(es) == 0 {
			c.Fail("file %q: %v", line, err)
		}
		files = append(files, &manifest.FileMeta{Num: uint64(i), Smallest: es[0].Internal(),
			Largest: es[len(es)-1].Internal()})
		data = append(data, s.source(c, line))
	}
	s.sources = append(s.sources, func() base.Source {
		return iters.NewLevel(s.cmp, files, func(f *manifest.FileMeta) (base.Source, error) {
			s.opened = append(s.opened, f.Num)
			if int(f.Num) == broken {
				return nil, model.ErrInjected
			}
			return data[f.Num](), nil
		})
	})
}

func (s *cursorScript) walk(c *script.Command) string {
	var out []string
	for _, a := range c.Args() {
		arg := func(i int) []byte {
			if i < len(a.Values) {
				return []byte(a.Values[i])
			}
			return nil
		}
		switch a.Key {
		case "first":
			out = append(out, s.at(s.c.First()))
		case "last":
			out = append(out, s.at(s.c.Last()))
		case "next":
			out = append(out, s.at(s.c.Next()))
		case "prev":
			out = append(out, s.at(s.c.Prev()))
		case "rest":
			for ok := true; ok; {
				ok = s.c.Next()
				out = append(out, s.at(ok))
			}
		case "back":
			for ok := true; ok; {
				ok = s.c.Prev()
				out = append(out, s.at(ok))
			}
		case "ge":
			out = append(out, s.at(s.c.SeekGE(arg(0))))
		case "lt":
			out = append(out, s.at(s.c.SeekLT(arg(0))))
		case "bounds":
			s.c.SetBounds(arg(0), arg(1))
			if s.c.Valid() {
				c.Fail("SetBounds leaves the cursor on %s", s.c.Key())
			}
		case "at", "lower", "upper":
		default:
			c.Fail("there is no move %s", a.Key)
		}
	}
	if s.opened != nil {
		out = append(out, fmt.Sprint("opened ", s.opened))
	}
	return strings.Join(out, " ")
}

// at prints where the cursor is after a move that returned ok.
func (s *cursorScript) at(ok bool) string {
	switch {
	case ok != s.c.Valid():
		return fmt.Sprintf("returned %v, Valid %v", ok, s.c.Valid())
	case ok:
		return fmt.Sprintf("%s=%s", s.c.Key(), s.c.Value())
	case errors.Is(s.c.Err(), base.ErrCorruption), errors.Is(s.c.Err(), model.ErrInjected):
		return fmt.Sprintf("(%v)", s.c.Err())
	case s.c.Err() != nil:
		s.t.Errorf("%v is no damage", s.c.Err())
	}
	return "."
}
