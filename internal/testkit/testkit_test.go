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
	missing := map[string]bool{}
	for name, least := range map[string]int{"ALONE": 10, "ALONE_UNDER_RACE": 5} {
		list := regexp.MustCompile(`(?m)^` + name + ` := ((?:.*\\\n)*.*)`).FindSubmatch(rules)
		if list == nil {
			t.Fatalf("test.mk has no %s", name)
		}
		names := strings.Fields(strings.ReplaceAll(string(list[1]), "\\", ""))
		if len(names) < least {
			t.Errorf("only %d names in %s", len(names), name)
		}
		for _, n := range names {
			missing["Test"+n] = true
		}
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
		t.Errorf("test.mk leaves out %s, which is no test", name)
	}
}
