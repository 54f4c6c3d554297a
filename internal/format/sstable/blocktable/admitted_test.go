package blocktable

import "testing"

// TestAdmitted wants the index searched first exactly where most keys were admitted lately, and
// no stores where all answers are alike.
func TestAdmitted(t *testing.T) {
	var a admitted
	if a.most() {
		t.Error("the index of a table that nobody has read is searched first")
	}
	for round, step := range []struct {
		admits, denies int // by turns
		most           bool
	}{{100, 0, true}, {0, 100, false}, {3, 1, true}, {1, 3, false}, {1, 0, false}, {8, 1, true}} {
		for range 100 {
			for range step.admits {
				a.note(true)
			}
			for range step.denies {
				a.note(false)
			}
			if round == 4 {
				break
			}
		}
		if a.most() != step.most {
			t.Errorf("round %d: after %d admitted for %d denied, most are: %v", round, step.admits,
				step.denies, a.most())
		}
		if s := a.score.Load(); s < 0 || s > sure {
			t.Errorf("round %d: score %d", round, s)
		}
	}
}
