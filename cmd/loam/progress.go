package main

import (
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/loamdb/loam/cmd/loam/internal/text"
)

// progress is the line on a terminal that says how far a verb has come. Where standard error is no
// terminal it is silent. Its methods are safe for concurrent use.
type progress struct {
	a     *app
	what  string
	begun time.Time

	mu    sync.Mutex
	of    uint64 // bytes of the whole; 0: not known
	shown time.Time
	width int // of the line that stands there
}

// tick is how often the line changes.
const tick = 200 * time.Millisecond

func (a *app) progress(what string, of uint64) *progress {
	return &progress{a: a, what: what, of: of, begun: a.now()}
}

// now is the time by which rates are computed.
func (a *app) now() time.Time {
	if a.clock != nil {
		return a.clock()
	}
	return time.Now()
}

// total sets how much there is.
func (p *progress) total(of uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of = of
}

// both is at after total, for callbacks that are told both.
func (p *progress) both(done, of uint64) {
	p.total(of)
	p.at(done)
}

// at shows that so many bytes are done.
func (p *progress) at(done uint64) {
	if !p.a.screen.err {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.a.now()
	if now.Sub(p.shown) < tick {
		return
	}
	p.shown = now
	p.show(text.Progress(p.what, done, p.of, now.Sub(p.begun), p.a.screen.width))
}

// tell shows a line, cut to the terminal.
func (p *progress) tell(line string) {
	if !p.a.screen.err {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.show(text.Cut(line, p.a.screen.width-1))
}

func (p *progress) show(line string) {
	n := utf8.RuneCountInString(line)
	fmt.Fprintf(p.a.err, "\r%s%s\r", line, strings.Repeat(" ", max(p.width-n, 0)))
	p.width = n
}

// end removes the line.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.width > 0 {
		p.show("")
	}
}
