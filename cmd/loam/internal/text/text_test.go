package text

import (
	"testing"
	"time"
	"unicode/utf8"
)

// TestProgress has the line of progress get shorter with the terminal, from its end.
func TestProgress(t *testing.T) {
	for columns, want := range map[int]string{
		100: "checking  25 %  1.00 GiB of 4.00 GiB  102 MiB/s  30s left",
		50:  "checking  25 %  1.00 GiB of 4.00 GiB  102 MiB/s",
		20:  "checking  25 %",
		5:   "",
	} {
		if got := Progress("checking", 1<<30, 4<<30, 10*time.Second, columns); got != want {
			t.Errorf("%d columns: %q", columns, got)
		}
	}
	if got := Progress("counting", 0, 0, 0, 80); got != "counting  0 B  0 B/s" {
		t.Errorf("%q", got)
	}
}

// TestGridFits holds every line of a grid to the terminal, whatever its width.
func TestGridFits(t *testing.T) {
	var g Grid
	g.Column("level", true)
	g.Column("file", false)
	g.Column("keys", false)
	g.Row("0", "000005.loam", "a long key äöü .. another long key")
	for columns := 1; columns < 80; columns++ {
		n := 0
		for _, r := range g.Format(columns) + "\n" {
			if r == '\n' {
				n = 0
				continue
			}
			if n++; n > columns && columns >= Gap+1 {
				t.Fatalf("%d columns:\n%s", columns, g.Format(columns))
			}
		}
	}
	if s := Cut("äöü", 2); utf8.RuneCountInString(s) != 2 {
		t.Errorf("%q", s)
	}
}

// TestSizes has three digits and a unit.
func TestSizes(t *testing.T) {
	for n, want := range map[uint64]string{0: "0 B", 1023: "1023 B", 1024: "1.00 KiB",
		123_456: "121 KiB", 1<<20 - 1: "1.00 MiB", 1 << 40: "1.00 TiB", 1<<64 - 1: "16.0 EiB"} {
		if got := Bytes(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
	if got := Count(-1234567) + Plural(1, " key") + Plural(1000, " key"); got !=
		"-1,234,5671  key1,000  keys" {
		t.Error(got)
	}
}
