package records

import (
	"context"
	"log/slog"
	"strings"
	"testing"
)

// panics is a handler that panics in every method from some call on.
type panics struct {
	calls *int
	from  int
}

func (p panics) call() {
	if *p.calls++; *p.calls >= p.from {
		panic("no place for logs")
	}
}

func (p panics) Enabled(context.Context, slog.Level) bool {
	p.call()
	return true
}

func (p panics) Handle(context.Context, slog.Record) error {
	p.call()
	return nil
}

func (p panics) WithAttrs([]slog.Attr) slog.Handler {
	p.call()
	return p
}

func (p panics) WithGroup(string) slog.Handler {
	p.call()
	return p
}

// TestPanicsOfAHandler: a handler that panics at any call loses messages, and nothing else.
func TestPanicsOfAHandler(t *testing.T) {
	if Safe(nil) != nil {
		t.Error("a logger was made of none")
	}
	for from := 1; ; from++ {
		calls := 0
		l := Safe(slog.New(panics{&calls, from}))
		if Safe(l) != l {
			t.Fatal("a safe logger is made safe again")
		}
		l.Info("a")
		l.With("b", 1).WithGroup("c").Warn("d")
		Logger(l, "n1").Error("e", "f", 1)
		if calls < from {
			if from < 8 {
				t.Errorf("%d calls in all", calls)
			}
			return
		}
	}
}

// TestCall: a panic of a function is told.
func TestCall(t *testing.T) {
	var told strings.Builder
	l := slog.New(slog.NewTextHandler(&told, nil))
	for _, l := range []*slog.Logger{nil, l} {
		Call(l, "Events", func() { panic("no use") })
	}
	if s := told.String(); strings.Count(s, "no use") != 1 || !strings.Contains(s, "TestCall") {
		t.Error(s)
	}
	Call(l, "Events", func() { told.Reset() })
	if told.Len() > 0 {
		t.Error(told.String())
	}
}
