package arch

import (
	"os"
	"os/exec"
	"testing"
)

// TestCrossCompile builds the module for every supported system and
// processor, and vets it (tests too) once for every system.
func TestCrossCompile(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the module eight times")
	}
	root := moduleRoot(t)
	for _, p := range platforms {
		verb := "build"
		if p[1] == "amd64" {
			verb = "vet"
		}
		t.Run(p[0]+"-"+p[1], func(t *testing.T) {
			if out, err := compile(root, verb, p[0], p[1]); err != nil {
				t.Errorf("go %s: %v\n%s", verb, err, out)
			}
		})
	}
}

func compile(dir, verb, goos, goarch string) ([]byte, error) {
	cmd := exec.Command("go", verb, "./...")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch)
	return cmd.CombinedOutput()
}

// TestCrossCompileFires plants a file that only one system cannot compile.
func TestCrossCompileFires(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(dir+"/"+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module planted\n\ngo 1.25\n")
	write("a_freebsd.go", "package planted\n\nvar x int = \"\"\n")
	write("b.go", "package planted\n")
	if out, err := compile(dir, "build", "linux", "amd64"); err != nil {
		t.Fatalf("linux: %v\n%s", err, out)
	}
	if _, err := compile(dir, "build", "freebsd", "amd64"); err == nil {
		t.Error("a file that cannot compile on freebsd was not reported")
	}
}
