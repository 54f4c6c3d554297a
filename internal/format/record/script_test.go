package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/testkit/script"
)

// TestScript runs testdata/script, which reads logs with damage. Its commands:
//
//	log               makes a log of the records that the lines name: "a" or "a*70000" for a
//	                  record of so many bytes
//	chunks            where each chunk of the log lies, of which type and length
//	read              what a reader finds; after damage it goes on behind it. Of a copy that is
//	                  cut=N shorter, flip=N wrong in a byte, zero=(FROM TO) zeros, add=N longer
//	                  by zeros
func TestScript(t *testing.T) {
	var log []byte
	script.Run(t, "testdata/script", func(c *script.Command) string {
		switch c.Name {
		case "log":
			log = nil
			var recs [][]byte
			for _, line := range c.Lines() {
				text, n := line, 1
				if name, times, ok := strings.Cut(line, "*"); ok {
					text = name
					if _, err := fmt.Sscan(times, &n); err != nil {
						c.Fail("%v", err)
					}
				}
				recs = append(recs, bytes.Repeat([]byte(text), n))
			}
			log = build(t, recs...)
			return fmt.Sprintf("%d bytes", len(log))
		case "chunks":
			return chunks(log)
		case "read":
			b := bytes.Clone(log[:len(log)-c.Int("cut", 0)])
			if at := c.Int("flip", -1); at >= 0 {
				b[at] ^= 0x40
			}
			if r := c.List("zero"); len(r) == 2 {
				var from, to int
				if _, err := fmt.Sscan(r[0]+" "+r[1], &from, &to); err != nil {
					c.Fail("%v", err)
				}
				clear(b[from:to])
			}
			return readOn(append(b, make([]byte, c.Int("add", 0))...))
		}
		return c.Unknown()
	})
}

// chunks lists the chunks of an intact log by the format alone: CRC (4), length (2), type (1).
func chunks(log []byte) string {
	const block, header = 32 << 10, 7
	names := []string{"zero", "full", "first", "middle", "last"}
	var out []string
	for at := 0; at < len(log); {
		if left := block - at%block; left < header {
			out = append(out, fmt.Sprintf("%d: %d bytes of trailer", at, left))
			at += left
			continue
		}
		n := int(log[at+4]) | int(log[at+5])<<8
		out = append(out, fmt.Sprintf("%d: %s, %d bytes", at, names[log[at+6]], n))
		at += header + n
	}
	return strings.Join(out, "\n")
}

func readOn(b []byte) string {
	r := NewReader(bytes.NewReader(b), int64(len(b)), "log")
	var out []string
	for {
		rec, err := r.Next()
		var damage *base.Corruption
		switch {
		case err == nil && len(rec) == 0:
			out = append(out, fmt.Sprintf("%d-%d: empty", r.Offset(), r.End()))
		case err == nil:
			out = append(out, fmt.Sprintf("%d-%d: %d of %q", r.Offset(), r.End(), len(rec),
				rec[:1]))
		case errors.Is(err, io.EOF):
			return strings.Join(append(out, "end"), "\n")
		case errors.As(err, &damage):
			out = append(out, fmt.Sprintf("damage at %d, %d bytes, the tail %v: %s", damage.Offset,
				damage.Length, r.Tail(), damage.Reason))
			if !r.Resume() {
				return strings.Join(append(out, "nothing follows"), "\n")
			}
		default:
			return strings.Join(append(out, err.Error()), "\n")
		}
	}
}
