package rangedel

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/testkit/script"
)

// TestScript runs testdata/script, whose commands are:
//
//	list name          lines "start limit sequence": fragments them
//	newest name        the same, of those over a key the newest
//	merge name (a b)   joins lists
//	clip name lower= upper=
//	keys at=N (a b c)  the newest tombstone over each key for a reader
//	walk at=N          the spans in ascending order, then in descending order
//	covers start end   whether tombstones cover all keys between, with open: but for end
func TestScript(t *testing.T) {
	lists := map[string]*List{}
	script.Run(t, "testdata/script", func(c *script.Command) string {
		of := lists[c.Arg("of", "main")]
		at := base.SeqNum(c.Int("at", 100))
		switch c.Name {
		case "list", "newest":
			ts := tombstones(c)
			l, ok := NewestOf(base.Bytewise, ts), true
			if c.Name == "list" {
				l, ok = Of(base.Bytewise, ts, c.Int("limit", 100))
			}
			if !ok {
				return "too many"
			}
			lists[c.Arg("as", "main")] = l
			return describe(l)
		case "merge":
			var all []*List
			for _, name := range c.List("lists") {
				all = append(all, lists[name])
			}
			l := Merge(base.Bytewise, all...)
			lists[c.Arg("as", "main")] = l
			return describe(l)
		case "clip":
			return describe(of.Clip(c.Bytes("lower"), c.Bytes("upper")))
		case "keys":
			var out []string
			for _, k := range c.List("of-keys") {
				out = append(out, fmt.Sprintf("%s #%d", k, of.Newest([]byte(k), at)))
			}
			return strings.Join(out, ", ")
		case "walk":
			return walk(of, at)
		case "covers":
			return fmt.Sprint(of.Covers(c.Bytes("start"), c.Bytes("end"), c.Has("open")))
		case "within":
			var out []string
			for _, f := range of.Within(c.Bytes("start"), c.Bytes("end")) {
				out = append(out, fmt.Sprintf("%s-%s", f.Start, f.Limit))
			}
			return strings.Join(out, ", ")
		case "covered":
			key := c.Bytes("key")
			return fmt.Sprintf("to %q, from %q", of.CoveredTo(key, at), of.CoveredFrom(key, at))
		}
		return c.Unknown()
	})
}

func tombstones(c *script.Command) []Tombstone {
	var ts []Tombstone
	for _, line := range c.Lines() {
		f := strings.Fields(line)
		n, err := strconv.Atoi(f[2])
		if err != nil {
			c.Fail("%v", err)
		}
		ts = append(ts, Tombstone{[]byte(f[0]), []byte(f[1]), base.SeqNum(n)})
	}
	return ts
}

func describe(l *List) string {
	var b strings.Builder
	for _, f := range l.Fragments() {
		fmt.Fprintf(&b, "%s-%s", f.Start, f.Limit)
		for _, s := range f.Seqs {
			fmt.Fprintf(&b, " #%d", s)
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "%d tombstones, %d deep", l.Count(), l.Depth())
	return b.String()
}

// walk goes over the spans in both directions.
func walk(l *List, at base.SeqNum) string {
	show := func(s Span) string {
		return fmt.Sprintf("%s-%s #%d", s.Start, s.Limit, s.Seq)
	}
	var up, down []string
	for s := l.SpanAt(nil, at); ; s = l.SpanAt(s.Limit, at) {
		if up = append(up, show(s)); s.Limit == nil {
			break
		}
	}
	for s := l.SpanBefore(nil, at); ; s = l.SpanBefore(s.Start, at) {
		if down = append(down, show(s)); s.Start == nil {
			break
		}
	}
	return strings.Join(up, "  ") + "\n" + strings.Join(down, "  ")
}
