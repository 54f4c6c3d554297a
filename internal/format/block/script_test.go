package block

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/memory/offheap"
	"github.com/loamdb/loam/internal/testkit/script"
)

// TestScript runs testdata/script, over LevelDB's row blocks. Its commands:
//
//	block interval=N   makes a block of the lines "key sequence kind value"; hex shows its bytes
//	bytes              takes hex bytes of a block from elsewhere
//	entries            what a View of the block has
//	get at=N (keys)    what a reader at N finds, by a View and without: both have to agree
//	seek (keys)        the entries at or after each key, and before it
//	damage from=N      flips each byte from there on, and counts the errors: a View and a search
//	                   without one have to agree on each
func TestScript(t *testing.T) {
	var rows []byte
	script.Run(t, "testdata/script", func(c *script.Command) string {
		switch c.Name {
		case "block":
			b := RowBuilder{Interval: c.Int("interval", 16)}
			defer b.Free()
			for _, line := range c.Lines() {
				key, tr, value := entry(c, line)
				if err := b.Add(key, tr, value); err != nil {
					return err.Error()
				}
			}
			p, err := b.Finish()
			if err != nil {
				return err.Error()
			}
			rows = bytes.Clone(p)
			if c.Has("hex") {
				return hex.EncodeToString(rows)
			}
			return fmt.Sprintf("%d entries, %d bytes", len(c.Lines()), len(rows))
		case "bytes":
			b, err := hex.DecodeString(strings.NewReplacer(" ", "", "\n", "").Replace(c.Input))
			if err != nil {
				c.Fail("%v", err)
			}
			rows = b
			return ""
		case "entries":
			v, err := view(t, rows)
			if err != nil {
				return err.Error()
			}
			var out []string
			for i := range v.Len() {
				out = append(out, show(&v, i))
			}
			return strings.Join(out, "\n")
		case "get":
			return get(t, c, rows, base.SeqNum(c.Int("at", 1000)))
		case "seek":
			return seek(t, c, rows)
		case "damage":
			return damaged(t, c, rows)
		}
		return c.Unknown()
	})
}

func entry(c *script.Command, line string) (key []byte, t base.Trailer, value []byte) {
	f := append(strings.Fields(line), "")
	seq, err := strconv.Atoi(f[1])
	kind, ok := map[string]base.Kind{"set": base.KindSet, "delete": base.KindDelete}[f[2]]
	if err != nil || !ok {
		c.Fail("%q: %v", line, err)
	}
	return []byte(f[0]), base.MakeTrailer(base.SeqNum(seq), kind), []byte(f[3])
}

// view makes a View, whose memory is freed at the end of the test.
func view(t *testing.T, rows []byte) (View, error) {
	v, mem, err := viewOf(rows, base.Bytewise, 0)
	if mem != nil {
		t.Cleanup(func() { offheap.Free(mem) })
	}
	return v, err
}

func show(v *View, i int) string {
	if i < 0 || i >= v.Len() {
		return "none"
	}
	t := v.Trailer(i)
	return strings.TrimSpace(fmt.Sprintf("%s #%d %v %s", v.Key(i), t.Seq(), t.Kind(), v.Value(i)))
}

// search is what a search without a View finds.
func search(rows []byte, l base.Lookup) (string, error) {
	var buf Buffer
	defer buf.Free()
	s, err := SearchRows(rows, DefaultMaxDecoded, base.Bytewise, l, &buf)
	if err != nil {
		return "", err
	}
	if !s.Found {
		return "none", nil
	}
	return strings.TrimSpace(fmt.Sprintf("%s #%d %v %s", l.Key(), s.Trailer.Seq(),
		s.Trailer.Kind(), s.Value)), nil
}

func get(t *testing.T, c *script.Command, rows []byte, at base.SeqNum) string {
	v, err := view(t, rows)
	if err != nil {
		return err.Error()
	}
	var out []string
	for _, key := range c.List("keys") {
		l := base.MakeLookup(base.Bytewise, []byte(key), at)
		found := show(&v, v.Get(base.Bytewise, l))
		if s, err := search(rows, l); err != nil || s != found {
			c.Fail("%s: by a View %s, without one %s, %v", key, found, s, err)
		}
		out = append(out, key+": "+found)
	}
	return strings.Join(out, "\n")
}

func seek(t *testing.T, c *script.Command, rows []byte) string {
	v, err := view(t, rows)
	if err != nil {
		return err.Error()
	}
	newest := base.MakeTrailer(base.MaxSeqNum, base.KindForSeek)
	var out []string
	for _, key := range c.List("keys") {
		out = append(out, fmt.Sprintf("%s: %s; before it %s", key,
			show(&v, v.SeekGE(base.Bytewise, []byte(key), newest)),
			show(&v, v.SeekLT(base.Bytewise, []byte(key), newest))))
	}
	return strings.Join(out, "\n")
}

func damaged(t *testing.T, c *script.Command, rows []byte) string {
	errs, same := map[string]int{}, 0
	key := []byte(c.Arg("key", ""))
	for i := c.Int("from", 0); i < len(rows); i++ {
		b := bytes.Clone(rows)
		b[i] ^= 0x81
		_, err := view(t, b)
		_, other := search(b, base.MakeLookup(base.Bytewise, key, 1000))
		if (err == nil) != (other == nil) {
			c.Fail("byte %d: a View says %v, a search %v", i, err, other)
		}
		if err == nil {
			same++
		} else {
			errs[err.Error()]++
		}
	}
	return fmt.Sprintf("%d of %d are told by the structure, in %d ways", len(rows)-same-
		c.Int("from", 0), len(rows)-c.Int("from", 0), len(errs))
}
