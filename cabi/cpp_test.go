package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/testkit/seed"
)

// compileCpp makes a program of a C++ source; the test is left out where there is no g++.
func compileCpp(t *testing.T, asan bool, source string, flags ...string) string {
	t.Helper()
	if _, err := exec.LookPath("g++"); err != nil {
		t.Skipf("%v; install g++ to test the C++ headers", err)
	}
	// Programs name the first fields of aggregates and leave the others.
	flags = append([]string{"-Wpedantic", "-Wno-missing-field-initializers"}, flags...)
	return compile(t, asan, source, append(flags, "-lloam")...)
}

// TestCpp uses all classes of loam.hpp, in long runs in C++20, too.
func TestCpp(t *testing.T) {
	for _, std := range []string{"-std=c++17", "-std=c++20"} {
		asan := std == "-std=c++17"
		if !asan && !seed.Full() {
			continue
		}
		if out := execute(t, compileCpp(t, asan, "testdata/cpp.cpp", std)); out != "PASS\n" {
			t.Errorf("%s: it says %q", std, out)
		}
	}
}

// TestCppWithoutExceptions: each call passes a Status, or the compiler refuses it.
func TestCppWithoutExceptions(t *testing.T) {
	const head = "#include \"loam.hpp\"\nint main() { loam::Status s; loam::DB db(\"db\", &s); "
	passes := filepath.Join(t.TempDir(), "passes.cpp")
	forgets := filepath.Join(t.TempDir(), "forgets.cpp")
	for file, text := range map[string]string{
		passes:  head + `db.put("a", "1", {}, &s); return s.ok() && db.get("a", {}, &s) ? 0 : 1; }`,
		forgets: head + `db.put("a", "1"); return 0; }`,
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	execute(t, compileCpp(t, false, passes, "-std=c++17", "-fno-exceptions", "-fno-rtti"))
	out, err := exec.Command("g++", "-std=c++17", "-fno-exceptions", "-I.", "-c", "-o", "/dev/null",
		forgets).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "pass a loam::Status") {
		t.Errorf("a call without a status: %v, %s", err, out)
	}
}

// TestCppLevelDB runs a program for LevelDB's C++ interface. What it prints was printed by the
// same program over LevelDB 1.23: g++ -DREAL testdata/leveldb_cpp.cpp -lleveldb.
func TestCppLevelDB(t *testing.T) {
	want, err := os.ReadFile("testdata/leveldb_cpp.expected")
	if err != nil {
		t.Fatal(err)
	}
	got := execute(t, compileCpp(t, true, "testdata/leveldb_cpp.cpp", "-std=c++17"))
	if got != string(want) {
		t.Errorf("it says\n%s\nand LevelDB\n%s", got, want)
	}
}

// TestCppPage runs the program of docs/cpp.md and compares its output with the page.
func TestCppPage(t *testing.T) {
	page, err := os.ReadFile("../docs/cpp.md")
	if err != nil {
		t.Fatal(err)
	}
	_, program, _ := strings.Cut(string(page), "```cpp\n")
	program, _, _ = strings.Cut(program, "```\n")
	source := filepath.Join(t.TempDir(), "page.cpp")
	if err := os.WriteFile(source, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(execute(t, compileCpp(t, false, source, "-std=c++17")))
	if len(lines) != 4 {
		t.Fatalf("it prints %q", lines)
	}
	for _, line := range lines {
		if !strings.Contains(string(page), "`"+line+"`") {
			t.Errorf("it prints %s, which the page does not say", line)
		}
	}
}

// withoutCpp are functions of loam.h that loam.hpp leaves to programs that need them.
var withoutCpp = []string{
	// versions: a C++ program is compiled with the header of its library
	"loam_abi_check", "loam_abi_revision", "loam_abi_version", "loam_version",
	"loam_runtime_set",
	// comparators that need an interpreter's lock
	"loam_callback_interrupt",
	// copies are made into std::string
	"loam_get_alloc",
	// jobs, of which a C++ program has threads: all but compactions and backups
	"loam_backup_restore_start", "loam_backup_verify_start", "loam_catch_up_start",
	"loam_checkpoint_start", "loam_close_start", "loam_dump_start", "loam_dump_verify_start",
	"loam_export_start", "loam_flush_start", "loam_ingest_start", "loam_job_db",
	"loam_load_start", "loam_open_start", "loam_repair_start", "loam_upgrade_start",
	"loam_verify_start", "loam_rekey_start", "loam_bulk_load_finish_start",
	"loam_dump_check", "loam_dump_verify",
	// iterators read blocks ahead by themselves
	"loam_iter_entry", "loam_iter_next_block", "loam_iter_place", "loam_iter_prev_block",
	// Batch::from and Keyspace::write
	"loam_write_bytes",
}

// TestCppIsComplete: loam.hpp calls every function of loam.h that is not listed above.
func TestCppIsComplete(t *testing.T) {
	text, err := os.ReadFile("loam.hpp")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range declared(t, "loam.h", "LOAM_API") {
		used := regexp.MustCompile(`\b` + name + `[(,)>]`).Match(text)
		if left := slices.Contains(withoutCpp, name); used == left {
			t.Errorf("%s: used in loam.hpp %v, left out %v", name, used, left)
		}
	}
}
