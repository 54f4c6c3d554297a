package textlog

import (
	"log/slog"
	"slices"
	"testing"

	"github.com/loamdb/loam/lsm"
)

// TestLines compares lines, with attributes and groups, and has a failure end them, in all loggers
// that were made of one.
func TestLines(t *testing.T) {
	var lines []string
	var failure *lsm.CallbackError
	h := New(func(level slog.Level, line []byte) *lsm.CallbackError {
		lines = append(lines, level.String()+" "+string(line))
		return failure
	})
	log := slog.New(h)
	log.Info("opened", "keys", 3, "name", "a\x00\xff")
	grouped := log.With("db", 1).WithGroup("flush").With("n", 2)
	grouped.Warn("slow", "ms", 7)
	failure = &lsm.CallbackError{Callback: "logger", Reason: "on purpose"}
	grouped.Error("fails")
	log.Error("is not written")
	want := []string{"INFO opened keys=3 name=a\\0\ufffd\x00",
		"WARN slow db=1 flush.n=2 flush.ms=7\x00", "ERROR fails db=1 flush.n=2\x00"}
	if !slices.Equal(lines, want) {
		t.Errorf("%q, not %q", lines, want)
	}
	if h.Failure() != failure {
		t.Error(h.Failure())
	}
}
