package planted

import (
	"os"
	"testing"
)

func TestBug(t *testing.T) {
	name := os.Getenv(Env)
	if name == "" {
		name = "none"
	}
	if got, want := Bug(name), Enabled && os.Getenv(Env) != ""; got != want {
		t.Errorf("Bug(%q) is %v in a build with Enabled %v", name, got, Enabled)
	}
	if Bug(name + " not") {
		t.Error("another bug is on")
	}
}
