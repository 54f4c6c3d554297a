package invariants

import "testing"

func panics(f func()) (p bool) {
	defer func() { p = recover() != nil }()
	f()
	return false
}

func TestCheck(t *testing.T) {
	if panics(func() { Check(true, "never") }) {
		t.Error("Check(true) panicked")
	}
	if got := panics(func() { Check(false, "%d", 1) }); got != Enabled {
		t.Errorf("Check(false) panicked: %v, want %v", got, Enabled)
	}
}

func TestCloseOnce(t *testing.T) {
	var c CloseOnce
	if panics(c.Close) {
		t.Error("first Close panicked")
	}
	if got := panics(c.Close); got != Enabled {
		t.Errorf("second Close panicked: %v, want %v", got, Enabled)
	}
}

func TestCheckDoesNotAllocate(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { Check(true, "no arguments") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
