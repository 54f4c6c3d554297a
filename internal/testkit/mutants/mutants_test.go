package mutants

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loamdb/loam/internal/testkit"
	"github.com/loamdb/loam/internal/testkit/hang"
)

// allEnv set to 1 tries every mutant instead of four in rotation.
const allEnv = "LOAM_MUTANTS"

// limit is what finding a mutant may take, without the build.
const limit = time.Minute

// mutants are those of all tables.
func mutants() []mutant {
	return slices.Concat(table, plugs, blocks, copies, replicates, ingests, feeds, followers,
		shared, lifetimes, deletes, seeks, tools, raftlogs, replicas, tikvs, largeValues,
		importers, encryption, manifests, sorts, syscalls)
}

// TestMutants builds the named test with each mutant and runs it until it
// fails. Before that the test passes on the unchanged source.
func TestMutants(t *testing.T) {
	all := os.Getenv(allEnv) == "1"
	if !testkit.Full() && !all {
		t.Skipf("set %s=1 (four mutants) or %s=1 (all)", testkit.FullEnv, allEnv)
	}
	root, dir := moduleRoot(t), t.TempDir()
	rows := mutants()
	order := rand.New(rand.NewPCG(uint64(testkit.Seed(t)), 14)).Perm(len(rows))
	if !all {
		order = order[:4]
	}
	sound := map[target]bool{} // passes on the unchanged source
	for _, i := range order {
		m := rows[i]
		t.Run(m.name, func(t *testing.T) {
			if !sound[m.found] {
				binary := filepath.Join(dir, path.Base(m.found.pkg)+".test")
				if out, err := build(root, "", m.found.pkg, binary); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				out, failed := run(t, root, binary, m.found)
				if failed || !m.found.passed(out) {
					t.Fatalf("%v does not pass on the unchanged source:\n%s", m.found, out)
				}
				sound[m.found] = true
			}
			replaced, err := mutate(root, t.TempDir(), m)
			if err != nil {
				t.Fatal(err)
			}
			binary := filepath.Join(t.TempDir(), "mutant.test")
			if out, err := build(root, overlay(t, replaced), m.found.pkg, binary); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			for start := time.Now(); time.Since(start) < limit; {
				if out, failed := run(t, root, binary, m.found); failed {
					t.Logf("%s: found after %v: %.300s", m.what,
						time.Since(start).Round(100*time.Millisecond), out)
					return
				}
			}
			t.Errorf("%s: %v does not find it within %v", m.what, m.found, limit)
		})
	}
}

// TestMutantsApply applies every mutant to the source. Long runs compile the changed packages, all
// at once if that is possible.
func TestMutantsApply(t *testing.T) {
	root := moduleRoot(t)
	// by file, with every mutant that is compiled and fits beside the others
	texts := map[string]string{}
	names := map[string]bool{}
	alone := []mutant{}
	for _, m := range mutants() {
		if names[m.name] {
			t.Errorf("two mutants are named %s", m.name)
		}
		names[m.name] = true
		if !m.found.exists(root) {
			t.Errorf("%s: %v is not there", m.name, m.found)
		}
		if _, err := m.apply(root, nil); err != nil {
			t.Errorf("%s: %v", m.name, err)
			continue
		}
		if !testkit.Full() {
			continue
		}
		if together, err := m.apply(root, texts); err == nil {
			texts = together
		} else {
			alone = append(alone, m)
		}
	}
	if t.Failed() || !testkit.Full() {
		return
	}
	if out, err := compile(t, root, texts); err != nil {
		t.Logf("together they do not compile, so one at a time: %v\n%s", err, out)
		alone = mutants()
	}
	for _, m := range alone {
		texts, err := m.apply(root, nil)
		if err == nil {
			var out []byte
			if out, err = compile(t, root, texts); err != nil {
				err = fmt.Errorf("%w\n%s", err, out)
			}
		}
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
}

// TestStaleMutantFires applies edits whose text is not there or stands twice,
// looks for a test that is not there, and for a subtest that did not run.
func TestStaleMutantFires(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "a.go"), []byte("package a\n\nvar x, y = 1, 1\n"),
		0o644); err != nil {
		t.Fatal(err)
	}
	if (target{"internal/testkit/mutants", "TestNone"}).exists(moduleRoot(t)) {
		t.Error("a test that is not there exists")
	}
	for out, want := range map[string]bool{
		"=== RUN   TestA/b\n    --- PASS: TestA/b (0.00s)\n--- PASS: TestA (0.00s)\n": true,
		"=== RUN   TestA\n--- PASS: TestA (0.00s)\n":                                  false,
		"=== RUN   TestA/b\n    --- SKIP: TestA/b (0.00s)\n--- PASS: TestA (0.00s)\n": false,
	} {
		if got := (target{"a", "TestA/b"}).passed(out); got != want {
			t.Errorf("of TestA/b passed: %v in\n%s", got, out)
		}
	}
	for old, want := range map[string]bool{"x, y": true, "x,\n\ty": true, "z": false, "1": false} {
		m := mutant{edits: []edit{{"a.go", old, "p, q"}}}
		if texts, err := m.apply(root, nil); err == nil != want ||
			want && texts["a.go"] != "package a\n\nvar p, q = 1, 1\n" {
			t.Errorf("replacing %q: %q, %v", old, texts, err)
		}
	}
}

func (x target) String() string { return x.pkg + " " + x.test }

// exists reports whether the package has the test's function.
func (x target) exists(root string) bool {
	files, _ := filepath.Glob(filepath.Join(root, filepath.FromSlash(x.pkg), "*_test.go"))
	name, _, _ := strings.Cut(x.test, "/")
	return slices.ContainsFunc(files, func(file string) bool {
		b, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(b), "\nfunc "+name+"(t *testing.T) {")
	})
}

// passed reports whether the output has a test that passed and that the target selects: it has
// none where a subtest has another name, or where the test was skipped.
func (x target) passed(out string) bool {
	return regexp.MustCompile(`(?m)^ *--- PASS: ` + x.test + ` \(`).MatchString(out)
}

// apply returns the changed files by path, on top of those in texts.
func (m mutant) apply(root string, texts map[string]string) (map[string]string, error) {
	out := map[string]string{}
	for name, text := range texts {
		out[name] = text
	}
	for _, e := range m.edits {
		text, ok := out[e.file]
		if !ok {
			b, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(e.file)))
			if err != nil {
				return nil, err
			}
			text = string(b)
		}
		at := e.pattern().FindAllStringIndex(text, 2)
		if len(at) != 1 {
			return nil, fmt.Errorf("%s has %q %d times, not once", e.file, e.old, len(at))
		}
		out[e.file] = text[:at[0][0]] + e.new + text[at[0][1]:]
	}
	return out, nil
}

// pattern matches the old text however its lines are wrapped.
func (e edit) pattern() *regexp.Regexp {
	inner := strings.TrimSpace(e.old)
	lead, trail, _ := strings.Cut(e.old, inner)
	words := strings.Fields(inner)
	for i, w := range words {
		words[i] = strings.ReplaceAll(regexp.QuoteMeta(w), `\(`, `\(\s*`)
	}
	return regexp.MustCompile(regexp.QuoteMeta(lead) + strings.Join(words, `\s+`) +
		regexp.QuoteMeta(trail))
}

// mutate writes the changed files below dir and returns them by the path that
// they replace.
func mutate(root, dir string, m mutant) (map[string]string, error) {
	texts, err := m.apply(root, nil)
	if err != nil {
		return nil, err
	}
	return write(root, dir, texts)
}

func write(root, dir string, texts map[string]string) (map[string]string, error) {
	replaced := map[string]string{}
	for name, text := range texts {
		to := filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		if err := os.WriteFile(to, []byte(text), 0o644); err != nil {
			return nil, err
		}
		replaced[filepath.Join(root, filepath.FromSlash(name))] = to
	}
	return replaced, nil
}

// overlay writes the file for -overlay.
func overlay(t *testing.T, replaced map[string]string) string {
	b, err := json.Marshal(map[string]any{"Replace": replaced})
	name := filepath.Join(t.TempDir(), "overlay.json")
	if err == nil {
		err = os.WriteFile(name, b, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// compile compiles the packages of the files in texts.
func compile(t *testing.T, root string, texts map[string]string) ([]byte, error) {
	replaced, err := write(root, t.TempDir(), texts)
	if err != nil {
		return nil, err
	}
	packages := map[string][]string{} // by the directory of their module
	for name := range texts {
		dir, pkg := moduleOf(root, path.Dir(name))
		if !slices.Contains(packages[dir], pkg) {
			packages[dir] = append(packages[dir], pkg)
		}
	}
	file := overlay(t, replaced)
	for dir, pkgs := range packages {
		cmd := exec.Command("go", append([]string{"build", "-overlay", file}, pkgs...)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return out, err
		}
	}
	return nil, nil
}

// moduleOf returns the directory of the module that has a package, and the package as the go
// command takes it there.
func moduleOf(root, pkg string) (dir, arg string) {
	for at := pkg; at != "."; at = path.Dir(at) {
		dir := filepath.Join(root, filepath.FromSlash(at))
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, "." + strings.TrimPrefix(pkg, at)
		}
	}
	return root, "./" + pkg
}

// build compiles the tests of a package, with an overlay unless that is "".
func build(root, overlay, pkg, binary string) ([]byte, error) {
	args := []string{"test", "-c", "-o", binary}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	dir, arg := moduleOf(root, pkg)
	cmd := exec.Command("go", append(args, arg)...)
	cmd.Dir = dir
	return cmd.CombinedOutput()
}

// run runs the short version of a test in its package's directory and reports
// whether it failed; a test that takes longer than the limit has not.
func run(t *testing.T, root, binary string, x target) (out string, failed bool) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	parts := strings.Split(x.test, "/")
	for i, part := range parts {
		parts[i] = "^" + part + "$"
	}
	cmd := exec.CommandContext(ctx, binary, "-test.short", "-test.v", "-test.run",
		strings.Join(parts, "/"))
	cmd.Dir = filepath.Join(root, filepath.FromSlash(x.pkg))
	cmd.Env = append(os.Environ(), testkit.FullEnv+"=0", hang.Env+"=30s", "TMPDIR="+t.TempDir())
	cmd.WaitDelay = 10 * time.Second // for children that hold the output open
	b, err := cmd.CombinedOutput()
	return string(b), err != nil && ctx.Err() == nil
}

func moduleRoot(t *testing.T) string {
	root, err := filepath.Abs("../../..")
	if err == nil {
		_, err = os.Stat(filepath.Join(root, "go.mod"))
	}
	if err != nil {
		t.Fatal(err)
	}
	return root
}
