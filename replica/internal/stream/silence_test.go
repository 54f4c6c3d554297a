package stream_test

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/loamdb/loam/replica/internal/stream"
)

// TestSilence: a connection is lost when nothing came for the patience although the other end was
// asked, and any answer begins anew.
func TestSilence(t *testing.T) {
	begin := time.Unix(1, 0)
	at := func(seconds float64) time.Time {
		return begin.Add(time.Duration(seconds * float64(time.Second)))
	}
	s := stream.NewSilence(4 * time.Second)
	bytes := s.Reader(strings.NewReader(strings.Repeat("x", 1<<20)))
	read := func(n int) {
		if _, err := io.ReadFull(bytes, make([]byte, n)); err != nil {
			t.Fatal(err)
		}
	}
	want := func(what string, got, want bool) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %v", what, got)
		}
	}
	first := s.Sent(at(0))
	want("ask too early", s.Ask(first, at(1.9)), false)
	want("lost, and nobody asked", s.Lost(first, at(9)), false)
	want("ask", s.Ask(first, at(2)), true)
	want("ask twice", s.Ask(first, at(3)), false)
	want("lost too early", s.Lost(first, at(3.9)), false)
	want("lost", s.Lost(first, at(4)), true)
	s.Heard() // the answer to the question
	want("lost after a word", s.Lost(first, at(9)), false)

	second := s.Sent(at(10)) // short calls count together
	third := s.Sent(at(11))
	want("ask after a word", s.Ask(second, at(12)), true)
	want("lost", s.Lost(third, at(14)), true)
	read(16<<10 - 1) // maybe answers that a damaged length swallows
	want("lost, with few bytes", s.Lost(third, at(14)), true)
	read(1)
	fourth := s.Sent(at(20))
	want("an older call", s.Ask(third, at(29)), false)
	want("ask", s.Ask(fourth, at(30)), true)
	want("lost, just asked", s.Lost(fourth, at(30.9)), false)
	want("lost", s.Lost(fourth, at(31)), true)
	fifth := s.Sent(at(32)) // a call of the same silence
	want("lost", s.Lost(fifth, at(32)), true)
}
