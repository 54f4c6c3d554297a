package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/testkit/seed"
)

func testProgram(t *testing.T, name string) string {
	t.Helper()
	var out string
	for _, asan := range builds() {
		out = execute(t, compile(t, asan, "testdata/"+name+".c", "-lloam"))
	}
	return out
}

// TestBasics runs every part of the interface, and looks at the JSON it gives.
func TestBasics(t *testing.T) {
	out := testProgram(t, "basics")
	want := map[string]string{
		"metrics":  "write_amplification",
		"recovery": "was_clean",
		"options":  "write_buffer_size",
		"repair":   "levels_lost",
	}
	for line := range strings.Lines(out) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Errorf("%s: %v in %s", name, err, text)
		}
		if !strings.Contains(text, want[name]) {
			t.Errorf("%s: no %q in %s", name, want[name], text)
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
}

// TestWalk compares random walks of iterators with a sorted array.
func TestWalk(t *testing.T) { testProgram(t, "walk") }

// TestThreads uses everything from eight threads while a ninth closes it.
func TestThreads(t *testing.T) { testProgram(t, "threads") }

// TestCallbacks fails comparisons and log lines, and counts ends of arguments.
func TestCallbacks(t *testing.T) { testProgram(t, "callbacks") }

// TestMerge merges with operators that are known by name and with those of callbacks, which
// fail at times.
func TestMerge(t *testing.T) { testProgram(t, "merge") }

// TestLimits runs what the header says of errors, numbers and limits.
func TestLimits(t *testing.T) {
	program := compile(t, false, "testdata/limits.c", "-lloam")
	execute(t, program)
	if seed.Full() {
		execute(t, program, "large") // takes 4 GiB of memory
	}
}

// TestReuse gives batches their own bytes, and moves iterators after a failure.
func TestReuse(t *testing.T) { testProgram(t, "reuse") }

// TestEncryption: nothing in clear, missing and wrong keys, another key.
func TestEncryption(t *testing.T) { testProgram(t, "encryption") }

// TestChanges: feeds of changes, their waits and ends.
func TestChanges(t *testing.T) { testProgram(t, "changes") }

// TestTransactions: transactions, compare-and-swap and their ends.
func TestTransactions(t *testing.T) { testProgram(t, "transactions") }

// TestConventionPrograms runs what the conventions of the header say that no other
// program holds; see TestConventions.
func TestConventionPrograms(t *testing.T) { testProgram(t, "conventions") }

func TestFork(t *testing.T) {
	execute(t, compile(t, false, "testdata/fork.c", "-lloam"))
}

func TestSignals(t *testing.T) {
	program := compile(t, false, "testdata/signals.c", "-lloam")
	execute(t, program)
	execute(t, program, "follow")
}

// TestFloods floods all kinds of calls with signals whose handlers use from 128
// bytes to 32 KiB of whatever stack they meet, on threads of 32 KiB to 8 MiB,
// installed before and after the database was opened.
func TestFloods(t *testing.T) {
	program := compile(t, false, "testdata/floods.c", "-lloam")
	rooms, stacks, signals := []string{"128", "32768"}, []string{"0", "8192"}, "2000"
	if seed.Full() {
		rooms = []string{"128", "1024", "4096", "16384", "32768"}
		stacks, signals = []string{"0", "256", "8192"}, "150000"
	}
	for _, when := range []string{"before", "after"} {
		for _, room := range rooms {
			for _, stack := range stacks {
				t.Log(execute(t, program, room, stack, signals, when), room, stack, when)
			}
		}
		// Small threads have room for small handlers.
		execute(t, program, "128", "32", signals, when)
		execute(t, program, "4096", "64", signals, when)
	}
}

func TestLoading(t *testing.T) {
	execute(t, compile(t, false, "testdata/loading.c", "-ldl"), library(t, false)+"/libloam.so.0")
}

// TestLean bounds what the library takes, and runs it where that is bounded. Of
// addresses glibc reserves 64 MiB for each of Go's threads that starts others: usually that is one,
// sometimes a second or third, so the smallest of the runs counts, and one of five has to stay
// within the limit.
func TestLean(t *testing.T) {
	program, so := compile(t, false, "testdata/lean.c", "-ldl"), library(t, false)+"/libloam.so.0"
	const limit = 600000
	least := limit
	for range 5 {
		addresses, err := strconv.Atoi(strings.TrimSpace(execute(t, program, so)))
		if err != nil {
			t.Fatal(err)
		}
		if addresses > limit {
			t.Errorf("%d KiB of addresses, more than %d", addresses, limit)
		}
		least = min(least, addresses)
	}
	if least > 300<<10 {
		t.Errorf("at least %d KiB of addresses, more than %d", least, 300<<10)
	}
	var out []byte
	for range 5 {
		cmd := exec.Command(program, so, strconv.Itoa(limit))
		cmd.Dir = t.TempDir()
		// Else glibc takes 64 MiB of addresses for each thread that allocates.
		cmd.Env = append(os.Environ(), "MALLOC_ARENA_MAX=1")
		var err error
		if out, err = cmd.CombinedOutput(); err == nil {
			return
		}
		// Whatever the threads take, the library answers.
		if !bytes.Contains(out, []byte("LOAM_ERR_NO_MEMORY")) {
			break
		}
		t.Logf("%s", out)
	}
	t.Errorf("with %d KiB of addresses: %s", limit, out)
}

// TestLevelDB runs programs that know LevelDB's interface alone.
func TestLevelDB(t *testing.T) {
	t.Setenv("TEST_TMPDIR", t.TempDir())
	for _, source := range []string{"leveldb", "edges"} {
		for _, asan := range builds() {
			out := execute(t, compile(t, asan, "testdata/"+source+".c", "-std=gnu99", "-lleveldb"))
			if out != "PASS\n" {
				t.Errorf("%s, asan %v, says %q", source, asan, out)
			}
		}
	}
}

// TestConformance runs the script that all languages run, on either format.
func TestConformance(t *testing.T) {
	folder, err := filepath.Abs("../testdata/conformance")
	if err != nil {
		t.Fatal(err)
	}
	for _, asan := range builds() {
		program := compile(t, asan, "testdata/conformance.c", "-lloam")
		for _, run := range [][3]string{{"native", "script", "expected"},
			{"leveldb", "script", "expected"}, {"native", "native", "native.expected"},
			{"native", "transactions", "transactions.expected"},
			{"leveldb", "transactions", "transactions.expected"},
			{"native", "changes", "changes.expected"}} {
			format := run[0] + " " + run[1]
			want, err := os.ReadFile(filepath.Join(folder, run[2]))
			if err != nil {
				t.Fatal(err)
			}
			got := execute(t, program, filepath.Join(folder, run[1]), run[0])
			if got == string(want) {
				continue
			}
			g, w := strings.Split(got, "\n"), strings.Split(string(want), "\n")
			for i := range min(len(g), len(w)) {
				if g[i] != w[i] {
					t.Fatalf("asan %v, %s, line %d: %q, want %q", asan, format, i+1, g[i], w[i])
				}
			}
			t.Fatalf("asan %v, %s: %d lines, want %d", asan, format, len(g), len(w))
		}
	}
}
