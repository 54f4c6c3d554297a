package hang

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if Limit() < time.Minute {
			t.Errorf("the usual limit is %v", Limit())
		}
		t.Setenv(Env, "2s")
		start, never := time.Now(), make(chan struct{})
		if err := InTime(func() error { <-never; return nil }); err != Error {
			t.Error(err)
		}
		if Until(func() bool { return false }) {
			t.Error("what never holds holds")
		}
		if d := time.Since(start); d < 4*time.Second || d > 5*time.Second {
			t.Errorf("two limits of 2 s are %v", d)
		}
		close(never)
		want := errors.New("its own")
		if err := InTime(func() error { return want }); err != want {
			t.Error(err)
		}
		n := 0
		if !Until(func() bool { n++; return n == 3 }) || n != 3 {
			t.Errorf("%d looks", n)
		}
		Within(t, "nothing", func() {})
		if len(After()) != 0 {
			t.Error("over at once")
		}
	})
}
