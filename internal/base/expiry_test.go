package base

import "testing"

func TestDeadlines(t *testing.T) {
	for _, d := range []uint64{0, 1, 255, 1 << 32, MaxDeadline, Relative | 7} {
		for _, user := range []string{"", "v", "a longer value"} {
			v := AppendDeadline([]byte(user), d)
			got, deadline, ok := CutDeadline(v)
			if !ok || string(got) != user || deadline != d || len(v) != len(user)+DeadlineLen {
				t.Errorf("%q with deadline %d: %q %d %v", user, d, got, deadline, ok)
			}
		}
	}
	if _, _, ok := CutDeadline([]byte("soon")); ok {
		t.Error("four bytes have a deadline")
	}
}
