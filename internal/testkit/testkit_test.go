package testkit

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
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

// TestLeftAloneTestsAreThere looks for the tests that test.mk leaves out of some steps.
func TestLeftAloneTestsAreThere(t *testing.T) {
	rules, err := os.ReadFile("test.mk")
	if err != nil {
		t.Fatal(err)
	}
	list := regexp.MustCompile(`(?m)^ALONE := ((?:.*\\\n)*.*)`).FindSubmatch(rules)
	if list == nil {
		t.Fatal("test.mk has no ALONE")
	}
	missing := map[string]bool{}
	for _, name := range strings.Fields(strings.ReplaceAll(string(list[1]), "\\", "")) {
		missing["Test"+name] = true
	}
	if len(missing) < 10 {
		t.Errorf("only %d names in ALONE", len(missing))
	}
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	for _, root := range []string{"../../lsm", ".."} {
		err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, m := range function.FindAllSubmatch(text, -1) {
				delete(missing, string(m[1]))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name := range missing {
		t.Errorf("ALONE names %s, which is no test", name)
	}
}
