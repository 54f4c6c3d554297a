package wire

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// TestTimes: times go as milliseconds, rounded up; those that have no end as the longest one.
func TestTimes(t *testing.T) {
	const longest = (1 << 31) * time.Millisecond
	for given, want := range map[time.Duration]time.Duration{
		-1: 0, 0: 0, 1: time.Millisecond, time.Millisecond: time.Millisecond,
		time.Millisecond + 1: 2 * time.Millisecond, longest: longest, longest + 1: longest,
		math.MaxInt64 - 1: longest, math.MaxInt64: longest,
	} {
		f := Fields{Rest: AppendView(nil, View{Kind: Local, MaxLag: given})}
		if v := f.View(); f.Bad || v.MaxLag != want {
			t.Errorf("a lag of %d becomes %d", given, v.MaxLag)
		}
		frame := AppendCall(nil, &Call{Op: OpStatus, Timeout: given}, nil)
		if c, err := DecodeCall(frame[frameHeader:]); err != nil || c.Timeout != want {
			t.Errorf("a time-out of %d becomes %d, %v", given, c.Timeout, err)
		}
	}
}

// TestTexts: the text of an error is UTF-8, wherever it is cut and whatever it names.
func TestTexts(t *testing.T) {
	for _, text := range []string{"a\xffb", strings.Repeat("a", maxText-1) + "\u00e9",
		strings.Repeat("\u20ac", maxText)} {
		frame := AppendError(nil, 1, errors.New(text))
		_, _, err := DecodeAnswer(frame[frameHeader:])
		if got := err.Error(); !utf8.ValidString(got) || len(got) > maxText || got[0] != text[0] {
			t.Errorf("%.20q becomes %q", text, got)
		}
	}
}
