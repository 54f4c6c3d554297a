package testkit

import (
	"testing"
	"time"
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

func TestPatience(t *testing.T) {
	const d = 50 * time.Millisecond
	start := time.Now()
	over, stop := Patience(d)
	<-over
	if got := time.Since(start); got < d*9/10 {
		t.Errorf("over after %v", got)
	}
	stop()
	over, stop = Patience(time.Hour)
	stop()
	select {
	case <-over:
		t.Error("over at once")
	default:
	}
}
