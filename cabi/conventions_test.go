package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// duty marks sentences that bind the program, not the library.
const duty = "duty"

// conventions are the sentences at the top of loam.h, each with what holds it: Go
// tests by name, functions of the programs in testdata as "program.function".
var conventions = [][]string{
	{"1. Status."},
	{"Functions that can fail return a loam_status.", "TestShape"},
	{"LOAM_OK is 0.", "TestShape"},
	{"Positive values are answers that are not failures (not found, end of the range, timeout).",
		"TestShape", "conventions.message"},
	{"Negative values, LOAM_ERR_*, are failures.", "TestShape", "conventions.message"},

	{"2. Message."},
	{"The last parameter of such a function is char **err.", "TestShape"},
	{"Only loam_batch_clear, and functions that close a handle other than a database's, " +
		"have none.", "TestShape"},
	{"NULL: the caller wants no message.", "conventions.message", "TestMisuse"},
	{"Otherwise *err is overwritten by every call: with a malloc'ed sentence after a " +
		"failure, which the caller gives to loam_free, and with NULL after LOAM_OK and " +
		"answers.", "conventions.message"},
	{"The call does not free what *err held before.", "conventions.message"},
	{"loam_error_errno and loam_error_path return further details of the failure.",
		"limits.errors"},

	{"3. Handles."},
	{"A handle, of an opaque pointer type, stands for each object.", "TestShape"},
	{"The library never dereferences it: NULL, a handle of another type, a closed one or " +
		"a random pointer gives LOAM_ERR_INVALID_HANDLE or LOAM_ERR_CLOSED.",
		"TestMisuse", "conventions.handles"},
	{"Where a parameter is marked optional, NULL means \"the default\".", "conventions.handles"},

	{"4. Results."},
	{"Out parameters are written when the status is LOAM_OK, or as the function says.",
		"conventions.results", "basics.reading"},
	{"Handles and memory that a function makes are NULL after any other status.",
		"conventions.results", "fork.results"},

	{"5. Bytes."},
	{"Keys and values are pointer and length, and may hold any bytes.", "conventions.any_bytes"},
	{"NULL with length 0 is the empty string.", "conventions.any_bytes"},
	{"NULL with another length is LOAM_ERR_INVALID_ARGUMENT, a length of 4 GiB - 1 MiB or more " +
		"is LOAM_ERR_TOO_LARGE.", "conventions.any_bytes", "TestMisuse"},
	{"Bytes given to Loam are copied before the call returns.", "conventions.any_bytes"},
	{"For bounds NULL means \"no bound\", whatever the length.", "conventions.any_bytes"},
	{"A lower bound or start is part of its range, an upper bound or stop is not.",
		"conventions.any_bytes", "limits.ranges"},

	{"6. Text."},
	{"Paths, names and messages are NUL-terminated; messages, names and JSON are UTF-8.",
		"conventions.text"},
	{"Paths are bytes.", "conventions.text"},

	{"7. Memory."},
	{"What the library allocates for the caller comes from malloc and is released with loam_free.",
		"conventions.memory"},
	{"Pointers into an iterator live until the next call on it, pointers into a batch until the " +
		"next call that changes it, a pinned value until loam_pinned_close.", "conventions.memory",
		"basics.pinned"},

	{"8. Threads."},
	{"Databases, snapshots, transactions, caches, jobs, folders of backups, feeds of " +
		"changes, table writers, loads, pinned values and options may be used by any number " +
		"of threads at once.", "TestRacing", "threads.use"},
	{"Iterators and batches are for one thread at a time, except that calls that take a " +
		"const loam_batch *, but not loam_write, may run together; a call that cannot run " +
		"beside another one fails with LOAM_ERR_IN_USE.", "conventions.threads"},
	{"Closing an object waits for the calls that are using it.",
		"limits.closing", "basics.visit", "TestInsideCallbacks"},
	{"In a callback, closing a database, or an iterator or batch that is in use, fails " +
		"with LOAM_ERR_IN_USE; any other object is closed by another thread.",
		"limits.closing", "basics.visit", "TestInsideCallbacks"},

	{"9. Closing."},
	{"Each object is closed once, in any order.", "conventions.closing"},
	{"After loam_close, calls on the database's iterators and snapshots fail with " +
		"LOAM_ERR_CLOSED, except that an iterator may still return entries that it fetched " +
		"ahead; they must still be closed to free their memory.", "conventions.closing"},
	{"A pinned value may still be read.", "basics.pinned"},
	{"Options and caches may be closed as soon as the call that took them has returned.",
		"callbacks.ends"},
	{"Closing NULL is harmless and gives LOAM_OK.", "conventions.closing"},

	{"10. Callbacks."},
	{"A callback gets the arg it was set with.",
		"conventions.callbacks", "callbacks.failing", "TestInsideCallbacks"},
	{"It is called from any thread, and by several threads at once.",
		"conventions.callbacks", "callbacks.failing", "TestInsideCallbacks"},
	{"It may call loam_callback_fail, which reports a failure, loam_free, functions that " +
		"take nothing but batches, and functions that close.",
		"conventions.callbacks", "callbacks.failing", "TestInsideCallbacks"},
	{"Merge operators and compaction filters may also read, by loam_get, loam_get_alloc, " +
		"loam_get_pinned, loam_has, loam_ttl, loam_multi_get, snapshots, and iterators that " +
		"are not a transaction's, but not if the read of another such callback called them.",
		"TestInsideCallbacks"},
	{"Loggers and the functions of a dump may make all calls but loam_close and loam_close_start.",
		"TestInsideCallbacks"},
	{"Any other call in a callback gives LOAM_ERR_IN_USE at once.", "TestInsideCallbacks"},
	{"The destroy function (optional) that belongs to arg is called once, from any " +
		"thread, when the library has no more use for the callback: the options that it was " +
		"set in are closed or changed, the databases opened with them and their iterators " +
		"are closed, and jobs have ended.", "callbacks.ends", "callbacks.loggers"},
	{"It is not called when setting the callback failed.", "callbacks.ends"},
	{"destroy must not call Loam, except to close.", duty},
	{"Only loggers and destroy functions may start processes: started by other callbacks " +
		"these would inherit a mask with all signals blocked.", "callbacks.unblocked"},

	{"11. Fork."},
	{"After fork() the library works only in the parent.", "fork.forked"},
	{"In the child every function that takes a handle or a path fails with LOAM_ERR_FORKED.",
		"fork.child", "fork.results"},

	{"12. Signals."},
	{"The library's own threads block all signals but SIGURG and those that a thread " +
		"gets by its own fault, except while they run a logger or a destroy function.",
		"signals.asynchronous", "callbacks.unblocked"},
	{"Calls leave a thread's signal mask as it was.", "signals.masked"},
	{"Handlers need no SA_ONSTACK, whenever they are installed and wherever they interrupt a " +
		"call, if 32 KiB of stack are enough for each; only for SIGURG it is needed when the " +
		"handler is installed later than the first loam_open or loam_follower_open.", "TestFloods",
		"signals.work_under_fire", "signals.urge_early"},
	{"SIGSTKFLT, which Linux does not send, is the library's unless the program has a handler " +
		"for it before.", "conventions.signals"},

	{"13. Structs."},
	{"Structs that may grow begin with struct_size, which the caller sets to the struct's sizeof.",
		"TestShape", "basics.visit"},
	{"Bytes of a struct beyond the size that the library knows must be zero.",
		"basics.snapshots", "TestMisuse"},
	{"Flags are 64 bits wide in structs; unknown flags are LOAM_ERR_INVALID_ARGUMENT.",
		"TestShape", "TestMisuse"},

	{"14. Versions."},
	{"Functions, values and fields are added, never changed or taken away, while " +
		"LOAM_ABI_VERSION stays the same; each addition raises LOAM_ABI_REVISION.", "TestABI"},
	{"Version 0 is not finished: there a program works with the very revision it was compiled " +
		"with, and the dynamic linker refuses another one.", "limits.versions",
		"TestSymbolVersion"},

	{"15. Unloading."},
	{"The library is never unloaded: after dlclose it stays, with its threads and the open " +
		"databases, and dlopen finds it again.", "loading.stays", "TestSonameAndSize"},
	{"The code of a callback must stay, too, until its destroy function was called, or the " +
		"databases that use it are closed.", duty},
}

// header returns loam.h.
func header(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("loam.h")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestConventions wants each sentence of the conventions in the table, in order,
// and each test of the table to be there.
func TestConventions(t *testing.T) {
	_, text, _ := strings.Cut(header(t), "* Conventions\n")
	text, _, _ = strings.Cut(text, "* Copyright")
	// the numbers end no sentence
	text = regexp.MustCompile(`(?m)^ \* +(\d+)\. `).ReplaceAllString(text, " * $1) ")
	text = strings.Join(strings.Fields(strings.ReplaceAll(text, "\n *", "\n")), " ")
	sentences := strings.SplitAfter(strings.TrimPrefix(text, "* ")+" ", ". ")
	sentences = sentences[:len(sentences)-1]
	for i, s := range sentences {
		sentences[i] = regexp.MustCompile(`^(\d+)\) `).ReplaceAllString(strings.TrimSpace(s),
			"$1. ")
	}
	var known []string
	for _, row := range conventions {
		known = append(known, row[0])
	}
	if !slices.Equal(sentences, known) {
		for i := range max(len(sentences), len(known)) {
			if i >= len(sentences) || i >= len(known) || sentences[i] != known[i] {
				t.Fatalf("sentence %d of loam.h is not the table's, or is missing from one of "+
					"them:\n%q\n%q",
					i, strings.Join(sentences[min(i, len(sentences)):min(i+1, len(sentences))], ""),
					strings.Join(known[min(i, len(known)):min(i+1, len(known))], ""))
			}
		}
	}
	tests := sources(t, "*_test.go")
	for i, row := range conventions {
		title := regexp.MustCompile(`^\d+\. \w+\.$`).MatchString(row[0])
		if len(row) == 1 && !title {
			t.Errorf("sentence %d has no test: %s", i, row[0])
		}
		for _, name := range row[1:] {
			if name == duty {
				continue
			}
			program, function, inC := strings.Cut(name, ".")
			if !inC {
				if !strings.Contains(tests, "\nfunc "+name+"(t *testing.T)") {
					t.Errorf("no test %s for: %s", name, row[0])
				}
				continue
			}
			if uses := regexp.MustCompile(`\b`+function+`\b`).FindAllString(
				sources(t, "testdata/"+program+".c"), -1); len(uses) < 2 {
				t.Errorf("%s.c calls no function %s for: %s", program, function, row[0])
			}
			if !strings.Contains(tests, `testProgram(t, "`+program+`")`) &&
				!strings.Contains(tests, `"testdata/`+program+`.c"`) {
				t.Errorf("no test runs %s.c", program)
			}
		}
	}
}

// sources returns the texts of files, without C's comments.
func sources(t *testing.T, pattern string) string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %v %v", pattern, files, err)
	}
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(regexp.MustCompile(`(?s)/\*.*?\*/`).ReplaceAll(text, nil))
	}
	return all.String()
}

// TestShape looks at the declarations: what they promise by their form.
func TestShape(t *testing.T) {
	text := header(t)
	infallible := []string{"loam_abi_version", "loam_abi_revision", "loam_version",
		"loam_status_string", "loam_status_name",
		"loam_error_errno", "loam_error_path", "loam_free", "loam_callback_fail",
		"loam_callback_interrupt", "loam_merge_result_set"}
	silent := regexp.MustCompile(`^loam_\w+_(close|clear)$`)
	for _, p := range prototypes(t) {
		if fails := p.result == "loam_status"; fails == slices.Contains(infallible, p.name) {
			t.Errorf("%s returns %s", p.name, p.result)
		} else if !fails {
			continue
		}
		last := p.params[len(p.params)-1]
		if told := last == (parameter{"char **", "err"}); told == silent.MatchString(p.name) {
			t.Errorf("the last parameter of %s is %s%s", p.name, last.typ, last.name)
		}
	}
	names := regexp.MustCompile(`(?m)^  (LOAM_\w+) = (-?\d+),? *(?:/\*.*)?$`).FindAllStringSubmatch(
		text[strings.Index(text, "LOAM_OK = 0")-2:strings.Index(text, "loam_status_string")], -1)
	if len(names) < 25 {
		t.Errorf("only %d statuses", len(names))
	}
	for _, m := range names {
		failure := strings.HasPrefix(m[1], "LOAM_ERR_")
		if number := m[2]; failure != strings.HasPrefix(number, "-") ||
			(m[1] == "LOAM_OK") != (number == "0") {
			t.Errorf("%s is %s", m[1], number)
		}
	}
	for _, object := range []string{"options", "cache", "db", "snapshot", "batch", "iter", "job",
		"txn", "backup", "changes", "pinned"} {
		name := "loam_" + object
		if !strings.Contains(text, fmt.Sprintf("\ntypedef struct %s %s;\n", name, name)) ||
			strings.Contains(text, "struct "+name+" {") {
			t.Errorf("%s is not opaque", name)
		}
	}
	// An entry, a block and bytes are what they are: nothing can be added to them.
	fixed := []string{"loam_entry", "loam_block", "loam_bytes"}
	structs := regexp.MustCompile(`(?s)typedef struct (\w+) \{\s*(.*?)\n\}`).FindAllStringSubmatch(
		text, -1)
	if len(structs) < 6 {
		t.Errorf("only %d structs", len(structs))
	}
	for _, m := range structs {
		if grows := strings.HasPrefix(m[2], "size_t struct_size;"); grows == slices.Contains(fixed,
			m[1]) {
			t.Errorf("struct %s begins with %q", m[1], strings.SplitN(m[2], "\n", 2)[0])
		}
		if flags := regexp.MustCompile(`(\w+) flags;`).FindStringSubmatch(m[2]); flags != nil &&
			flags[1] != "uint64_t" {
			t.Errorf("struct %s has flags of type %s", m[1], flags[1])
		}
	}
}
