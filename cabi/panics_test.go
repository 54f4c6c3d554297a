//go:build cgo

package main

import "testing"

// TestPanics has the frame of the exports end panics as a status.
func TestPanics(t *testing.T) {
	const internal = -17 // LOAM_ERR_INTERNAL
	var none map[string]int
	for name, f := range map[string]func() error{
		"value":   func() error { panic("on purpose") },
		"runtime": func() error { none["a"] = 1; return nil },
		"nil":     func() error { panic(nil) },
	} {
		if s := run(nil, f); s != internal {
			t.Errorf("%s: status %d", name, s)
		}
	}
	if s := run(nil, func() error { return nil }); s != 0 {
		t.Errorf("status %d without a panic", s)
	}
	if s := run(nil, func() error { return errHandle }); s == internal || s >= 0 {
		t.Errorf("status %d of an error", s)
	}
}
