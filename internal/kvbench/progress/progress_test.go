package progress

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"
)

func TestBarText(t *testing.T) {
	for _, tt := range []struct {
		done, total, moved int64
		elapsed            time.Duration
		want               string
	}{
		{0, 100, 0, 0, "x            [                              ]   0%"},
		{50, 100, 50, 10 * time.Second, "x            [===============               ]  50%  5 " +
			"ops/s  10s left"},
		{200, 100, 100, time.Second, "x            [==============================] 100%  " +
			"100 ops/s"},
		{0, 1, 0, 3 * time.Second, "x            3s"},
	} {
		if got := barText("x", tt.done, tt.total, tt.moved, tt.elapsed); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

// TestNarrowTerminal: the bar stays within one line of a terminal, however narrow that is.
func TestNarrowTerminal(t *testing.T) {
	for _, width := range []int{0, 1, 20, 80, 200} {
		var out bytes.Buffer
		b := &Bar{w: &out, columns: func(io.Writer) int { return width }}
		done := int64(0)
		b.Watch(func() Place {
			done += 5_000_000
			return Place{Name: "seekrandomwhilewriting100k", Done: done, Total: 40_000_000}
		})
		b.Step(1, 18)
		now := time.Unix(0, 0)
		b.draw(now)
		b.draw(now.Add(time.Second))
		lines := strings.Split(out.String(), "\r\x1b[K")
		if last := lines[2]; width > 0 && len(last) > width-1 || width != 1 &&
			!strings.HasPrefix(last, "[1/18] ") || width%200 == 0 &&
			!strings.HasSuffix(last, "6s left") {
			t.Errorf("%d columns: %q", width, last)
		}
	}
}
