package testkit

import (
	"testing"
)

func TestScale(t *testing.T) {
	t.Setenv(FullEnv, "1")
	if want := 3; !testing.Short() && Scale(1, 2, 3) != want {
		t.Error("the full size is not used")
	}
	t.Setenv(SeedEnv, "42")
	if got := Seed(t); got != 42 {
		t.Errorf("seed %d", got)
	}
}
