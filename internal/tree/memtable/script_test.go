package memtable

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/testkit/script"
)

var kinds = map[string]base.Kind{"set": base.KindSet, "delete": base.KindDelete,
	"merge": base.KindMerge, "delete-range": base.KindRangeDelete}

// TestScript runs testdata/script. Its commands:
//
//	new             an empty memtable, with order=reverse in that order
//	add             lines "sequence kind key value"
//	get at=N (a b)  what a reader at N finds of the keys: sequence number, kind, value
//	covered at=N (a b)
//	source at=N     the entries that a reader at N iterates over; all=1: every version. seek-ge,
//	                seek-lt: from there on, ascending or descending
//	seal            as before a flush
func TestScript(t *testing.T) {
	var m *MemTable
	script.Run(t, "testdata/script", func(c *script.Command) string {
		at := base.SeqNum(c.Int("at", 1000))
		switch c.Name {
		case "new":
			if m != nil {
				m.Unref()
			}
			o := Options{Comparer: base.Bytewise, Size: 1 << 16}
			if c.Arg("order", "") == "reverse" {
				o.Comparer = base.ReverseBytewise
			}
			m = New(o)
		case "add":
			for _, line := range c.Lines() {
				f := append(strings.Fields(line), "")
				seq, err := strconv.Atoi(f[0])
				kind, ok := kinds[f[1]]
				if err != nil || !ok {
					c.Fail("%q: %v", line, err)
				}
				var value []byte
				if kind != base.KindDelete {
					value = []byte(f[3])
				}
				if err := m.Add(base.SeqNum(seq), kind, []byte(f[2]), value); err != nil {
					return err.Error()
				}
			}
			return fmt.Sprintf("%d entries, operands %v, range tombstones %v", m.Len(),
				m.HasOperands(), m.HasRangeDels())
		case "get":
			var out []string
			for _, key := range c.List("keys") {
				v, hit, ok := m.Get(MakeLookup(m.Comparer(), []byte(key), at))
				tr := hit.Trailer
				if !ok {
					out = append(out, key+" none")
					continue
				}
				out = append(out, strings.TrimSpace(fmt.Sprintf("%s #%d %v %s", key, tr.Seq(),
					tr.Kind(), v)))
			}
			return strings.Join(out, "\n")
		case "covered":
			var out []string
			for _, key := range c.List("keys") {
				out = append(out, fmt.Sprintf("%s #%d", key,
					m.CoveredAt(MakeLookup(m.Comparer(), []byte(key), at))))
			}
			return strings.Join(out, ", ")
		case "seal":
			m.Seal()
		case "source":
			src := m.NewSourceAt(at)
			if c.Has("all") {
				src = m.NewSource()
			}
			defer src.Close()
			return entries(c, src)
		default:
			return c.Unknown()
		}
		return ""
	})
	m.Unref()
}

// entries are those of a source from a place on.
func entries(c *script.Command, src base.Source) string {
	var e base.Chunk
	var i int
	var err error
	down, newest := c.Has("seek-lt"), base.MakeTrailer(base.MaxSeqNum, base.KindForSeek)
	switch {
	case c.Has("seek-ge"):
		i, err = src.SeekGE(c.Bytes("seek-ge"), newest, &e)
	case down:
		i, err = src.SeekLT(c.Bytes("seek-lt"), newest, &e)
	default:
		i, err = src.First(&e)
	}
	var out []string
	for ok := i >= 0; ok && err == nil; {
		chunk := chunkEntries(&e)
		if down {
			chunk = chunk[:i+1]
			slices.Reverse(chunk)
			out = append(out, chunk...)
			if ok, err = src.Prev(&e); ok {
				i = len(chunkEntries(&e)) - 1
			}
			continue
		}
		out = append(out, chunk[i:]...)
		i = 0
		ok, err = src.Next(&e)
	}
	if err != nil {
		return err.Error()
	}
	return strings.Join(out, "\n")
}

func chunkEntries(e *base.Chunk) []string {
	var out []string
	for i := range e.Len() {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s #%d %v %s", e.Key(i),
			e.Trailers[i].Seq(), e.Trailers[i].Kind(), e.Value(i))))
	}
	return out
}
