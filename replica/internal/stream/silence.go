package stream

import (
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// Silence tells a connection whose other end is gone without a word, which no error says, from one
// whose other end takes its time. A call that had no answer for a part of its time calls Ask, and
// one whose time is over calls Lost:
//
//   - Ask: nothing came since the call was sent, so the other end is to be asked something that it
//     answers at once.
//   - Lost: even then nothing came, for the patience at least, so the connection is lost.
//
// A call with a short time-out alone is no sign of that: calls that are over count together, up to
// the next answer. A Silence is safe for concurrent use.
type Silence struct {
	patience time.Duration
	heard    atomic.Uint64 // answers, and parts of long ones

	mu    sync.Mutex // leaf
	at    uint64     // heard when the first call was sent that nothing followed
	since time.Time  // when that was
	asked time.Time  // when Ask returned true since; zero: it did not
}

// longPart is how many bytes of an answer that is not whole end a silence. Fewer may be answers
// that a frame with a damaged length swallows.
const longPart = 16 << 10

// NewSilence returns one that takes a connection for lost that is silent for a duration.
func NewSilence(patience time.Duration) *Silence { return &Silence{patience: patience} }

// Heard ends the silence: an answer came.
func (s *Silence) Heard() { s.heard.Add(1) }

// Reader returns r, from which answers are read.
func (s *Silence) Reader(r io.Reader) io.Reader { return &hearing{Reader: r, of: s} }

type hearing struct {
	io.Reader
	of   *Silence
	part int // bytes that ended no silence
}

func (h *hearing) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	if h.part += n; h.part >= longPart {
		h.part = 0
		h.of.Heard()
	}
	return n, err
}

// Sent notes that a call is sent now, and returns the mark of it.
func (s *Silence) Sent(now time.Time) (mark uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	mark = s.heard.Load()
	if mark != s.at || s.since.IsZero() {
		s.at, s.since, s.asked = mark, now, time.Time{}
	}
	return mark
}

// Ask reports whether the other end is to be asked for a word.
func (s *Silence) Ask(mark uint64, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if mark != s.heard.Load() || !s.asked.IsZero() || now.Sub(s.since) < s.patience/2 {
		return false
	}
	s.asked = now
	return true
}

// Lost reports whether the connection is lost, now that the time of a call is over. A process that
// stood still since it asked has not heard what may be there to read.
func (s *Silence) Lost(mark uint64, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return mark == s.heard.Load() && !s.asked.IsZero() && now.Sub(s.since) >= s.patience &&
		now.Sub(s.asked) >= s.patience/4
}
