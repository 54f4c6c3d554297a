// Package hexdump writes and reads the dumps of bytes that the pages of formats have.
package hexdump

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// Columns of a line: the offset, two spaces, 16 bytes, and behind two more spaces their characters.
const (
	row   = 16
	first = 6
	width = 3*row - 1
)

// Of writes 16 bytes a line: offset, bytes, characters.
func Of(data []byte) string {
	var b strings.Builder
	for at := 0; at < len(data); at += row {
		line := data[at:min(at+row, len(data))]
		fmt.Fprintf(&b, "%04x  %-*s  ", at, width, fmt.Sprintf("% x", line))
		for _, c := range line {
			if c < ' ' || c > '~' {
				c = '.'
			}
			b.WriteByte(c)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// Bytes are those of a dump. A line that begins with an asterisk stands for zeros up to the offset
// of the next one; other offsets are those of their lines.
func Bytes(t testing.TB, dump string) (data []byte) {
	t.Helper()
	gap := false
	for line := range strings.Lines(dump) {
		if line[0] == '*' {
			gap = true
			continue
		}
		if len(line) < first+width {
			t.Fatalf("a line of a dump is short: %q", line)
		}
		at, err := strconv.ParseUint(line[:first-2], 16, 32)
		if err != nil || int(at) < len(data) || int(at) > len(data) && !gap {
			t.Fatalf("line %q of a dump comes behind %d bytes: %v", line, len(data), err)
		}
		data, gap = append(data, make([]byte, int(at)-len(data))...), false
		b, err := hex.DecodeString(strings.ReplaceAll(line[first:first+width], " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		data = append(data, b...)
	}
	return data
}

// Page is the i-th dump of a page, between fences that begin with ```hex.
func Page(t testing.TB, page string, i int) []byte {
	t.Helper()
	dumps := strings.Split(page, "```hex\n")[1:]
	if i >= len(dumps) {
		t.Fatalf("the page has %d dumps", len(dumps))
	}
	dump, _, _ := strings.Cut(dumps[i], "```")
	return Bytes(t, dump)
}
