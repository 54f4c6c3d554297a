package seed

import "testing"

func TestOf(t *testing.T) {
	t.Setenv(FullEnv, "")
	t.Setenv(Env, "")
	own := Of(t)
	if Of(t) != own {
		t.Error("a usual run has another seed")
	}
	t.Run("other", func(t *testing.T) {
		if Of(t) == own {
			t.Error("another test has the same seed")
		}
	})
	t.Setenv(Env, "42")
	if got := Of(t); got != 42 {
		t.Errorf("seed %d", got)
	}
	t.Setenv(Env, Random)
	if Of(t) == own {
		t.Errorf("%s=%s gives the usual seed", Env, Random)
	}
	t.Setenv(FullEnv, "1")
	t.Setenv(Env, "")
	if Of(t) == own {
		t.Error("a long run has the usual seed")
	}
}
