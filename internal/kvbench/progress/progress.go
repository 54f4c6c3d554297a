// Package progress shows how far a benchmark is.
//
// A Bar is safe for concurrent use.
package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Bar shows how far the benchmark under way is, on one line of a terminal. A
// nil *Bar shows nothing.
type Bar struct {
	w      io.Writer
	stop   chan struct{}
	done   chan struct{}
	once   sync.Once
	source atomic.Pointer[func() Place]
	place  atomic.Int64 // Step << 32 | steps
	// columns is the function of that name, except in tests.
	columns func(io.Writer) int

	mu     sync.Mutex
	drawn  bool
	last   Place
	since  time.Time // when the benchmark was first seen
	before int64     // its count then
}

// Place is how far a benchmark is.
type Place struct {
	Name        string // "": none is under way
	Done, Total int64  // operations; a Total of 0: not known
}

// New returns a bar that draws itself, or nil when w is no terminal.
func New(w io.Writer, when string) *Bar {
	if when == "never" || when == "auto" && !isTerminal(w) {
		return nil
	}
	b := &Bar{w: w, stop: make(chan struct{}), done: make(chan struct{}), columns: columns}
	go b.loop()
	return b
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func (b *Bar) loop() {
	defer close(b.done)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-b.stop:
			return
		case <-tick.C:
			b.draw(time.Now())
		}
	}
}

// Watch sets what tells how far the benchmark under way is; nil: none is. It is called by the bar's
// goroutine.
func (b *Bar) Watch(source func() Place) {
	switch {
	case b == nil:
	case source == nil:
		b.source.Store(nil)
	default:
		b.source.Store(&source)
	}
}

// Step says which of how many benchmarks is under way.
func (b *Bar) Step(i, n int) {
	if b != nil {
		b.place.Store(int64(i)<<32 | int64(n))
	}
}

func (b *Bar) draw(now time.Time) {
	source := b.source.Load()
	if source == nil {
		return
	}
	at := (*source)()
	if at.Name == "" {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if at.Name != b.last.Name || at.Total != b.last.Total || at.Done < b.last.Done {
		b.since, b.before = now, at.Done
	}
	b.last = at
	place := b.place.Load()
	text := fmt.Sprintf("[%d/%d] %s", place>>32, place&0xffffffff,
		barText(at.Name, at.Done, at.Total, at.Done-b.before, now.Sub(b.since)))
	io.WriteString(b.w, "\r\x1b[K"+cut(text, b.columns(b.w)))
	b.drawn = true
}

// cut leaves the part that fits into one line of a terminal, without the last column, which the
// cursor needs; the width 0 is unknown. A line that wraps would stay, one more with each drawing.
func cut(text string, width int) string {
	if width > 0 && len(text) >= width {
		return text[:width-1]
	}
	return text
}

// barText is the line for done of total operations, moved of them in the time
// given.
func barText(name string, done, total, moved int64, elapsed time.Duration) string {
	const width = 30
	if total <= 1 {
		return fmt.Sprintf("%-12s %s", name, elapsed.Round(time.Second))
	}
	part := min(float64(done)/float64(total), 1)
	full := int(part * width)
	text := fmt.Sprintf("%-12s [%s%s] %3.0f%%", name, strings.Repeat("=", full),
		strings.Repeat(" ", width-full), part*100)
	if moved > 0 && elapsed > 0 {
		each := elapsed / time.Duration(moved)
		left := time.Duration(float64(total-done) * float64(elapsed) / float64(moved))
		text += fmt.Sprintf("  %.0f ops/s", float64(moved)/elapsed.Seconds())
		if each > 0 && left >= 0 {
			text += "  " + left.Round(time.Second).String() + " left"
		}
	}
	return text
}

// Clear takes the bar off the terminal before a line is printed.
func (b *Bar) Clear() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.drawn {
		io.WriteString(b.w, "\r\x1b[K")
		b.drawn = false
	}
}

// Close takes the bar off and ends it.
func (b *Bar) Close() {
	if b == nil {
		return
	}
	b.once.Do(func() { close(b.stop) })
	<-b.done
	b.Clear()
}
