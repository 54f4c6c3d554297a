package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/testkit/seed"
)

// TestMisuse calls every function of loam.h with every bad value of every
// parameter, the others being good: the answer is a status, never a crash or a
// hang. The calls are generated from the header, so a new function is in.
func TestMisuse(t *testing.T) {
	functions := prototypes(t)
	if len(functions) < 70 {
		t.Fatalf("only %d functions found in loam.h", len(functions))
	}
	frame, err := os.ReadFile("testdata/misuse.c")
	if err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	var cases strings.Builder
	n := 0
	for _, f := range functions {
		n += f.cases(t, &cases)
	}
	if n < 12*len(functions) {
		t.Errorf("only %d cases for %d functions", n, len(functions))
	}
	for _, asan := range builds() {
		src := filepath.Join(t.TempDir(), "misuse.c")
		text := strings.Replace(string(frame), "/* CASES */", cases.String(), 1)
		if err := os.WriteFile(src, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Logf("asan %v: %d calls of %d functions", asan, n, len(functions))
		out := execute(t, compile(t, asan, src, "-O0", "-Wno-unused",
			"-I"+filepath.Join(here, "testdata"), "-lloam"))
		if want := fmt.Sprintf("%d calls\n", n); out != want {
			t.Errorf("the program says %q, want %q", out, want)
		}
	}
}

type prototype struct {
	result, name string
	params       []parameter
}

type parameter struct{ typ, name string }

func prototypes(t *testing.T) []prototype {
	t.Helper()
	text, err := os.ReadFile("loam.h")
	if err != nil {
		t.Fatal(err)
	}
	var list []prototype
	for _, m := range regexp.MustCompile(
		`(?ms)^LOAM_API (.*?)(loam_\w+)\((.*?)\);`).FindAllStringSubmatch(string(text), -1) {
		p := prototype{result: strings.TrimSpace(m[1]), name: m[2]}
		depth, start := 0, 0
		args := m[3] + ","
		for i, c := range args {
			switch c {
			case '(':
				depth++
			case ')':
				depth--
			case ',':
				if depth == 0 {
					p.params = append(p.params, parse(strings.TrimSpace(args[start:i])))
					start = i + 1
				}
			}
		}
		if len(p.params) == 1 && p.params[0].typ == "" {
			p.params = nil
		}
		list = append(list, p)
	}
	return list
}

func parse(text string) parameter {
	m := regexp.MustCompile(`^(.*?)(\w+)$`).FindStringSubmatch(text)
	return parameter{strings.TrimSpace(m[1]), m[2]}
}

// What a case expects.
const (
	any_     = "ANY"      // a status
	handle_  = "HANDLE"   // LOAM_ERR_INVALID_HANDLE or LOAM_ERR_CLOSED
	closed_  = "CLOSED"   // LOAM_ERR_CLOSED
	invalid_ = "ARGUMENT" // LOAM_ERR_INVALID_ARGUMENT
	large_   = "LARGE"    // LOAM_ERR_TOO_LARGE
)

var handleType = regexp.MustCompile(`^(?:const )?(loam_(?:options|cache|db|snapshot|batch|iter|` +
	`job|txn|backup|changes|table_writer|bulk_load|pinned)) \*$`)

var optionsType = regexp.MustCompile(`^const loam_(read|write|iter|txn|ingest|bulk_load)` +
	`_options \*$`)

// good is an argument nothing is wrong with.
func (p prototype) good(q parameter) string {
	if m := handleType.FindStringSubmatch(q.typ); m != nil {
		return "good." + strings.TrimPrefix(m[1], "loam_")
	}
	switch {
	case strings.HasSuffix(q.typ, "_fn"):
		return "a_" + strings.TrimSuffix(strings.TrimPrefix(q.typ, "loam_"), "_fn") + "_" + q.name
	case q.name == "seconds":
		return "1"
	case q.name == "path":
		return `"scratch"`
	case q.name == "to":
		return `"exported"`
	case q.name == "compression":
		return `"zstd"`
	case q.name == "format":
		return `"native"`
	case q.name == "name" && (p.name == "loam_options_set" || p.name == "loam_set_option" ||
		p.name == "loam_option"):
		return `"block_size"`
	case q.name == "value" && q.typ == "const char *":
		return `"4096"`
	case q.name == "err" && q.typ == "const char *":
		return "message"
	case q.name == "version" || q.name == "revision":
		return "LOAM_ABI_" + strings.ToUpper(q.name)
	case q.typ == "const char *const *":
		return "(const char *const *)lists"
	case strings.HasPrefix(q.typ, "const char *"):
		return `"leveldb.stats"`
	case q.name == "data" && q.typ == "const void *":
		return "batch_bytes"
	case q.name == "len" && p.name == "loam_batch_create_from":
		return "sizeof batch_bytes"
	case q.typ == "const void *" || q.typ == "void *":
		return "bytes"
	case q.typ == "size_t" && q.name == "n":
		return "2"
	case q.typ == "size_t":
		return "5"
	case q.typ == "const void *const *":
		return "lists"
	case q.typ == "const size_t *":
		return "list_lens"
	case optionsType.MatchString(q.typ):
		return "&" + optionsType.FindStringSubmatch(q.typ)[1] + "_options"
	case q.typ == "loam_failure *" || q.typ == "loam_merge_result *":
		return "NULL" // outside a callback there is none
	case q.typ == "loam_status" || q.typ == "int" || q.typ == "unsigned" || q.typ == "uint32_t" ||
		strings.HasSuffix(q.typ, "64_t"):
		return "0"
	}
	return "&out_" + p.name + "_" + q.name
}

// bad lists what may be wrong with a parameter, as {expectation, argument}.
func (p prototype) bad(q parameter) [][2]string {
	if m := handleType.FindStringSubmatch(q.typ); m != nil {
		kind := strings.TrimPrefix(m[1], "loam_")
		list := [][2]string{{any_, "NULL"}, {closed_, "closed." + kind}}
		for _, other := range []string{"options", "cache", "db", "snapshot", "batch", "iter", "job",
			"txn", "backup", "changes", "table_writer", "bulk_load", "pinned"} {
			if other != kind {
				list = append(list, [2]string{handle_, "(void *)good." + other})
			}
		}
		for _, random := range []string{"1", "0xdeadbeef", "UINT64_MAX", "(uintptr_t)bytes",
			"(uintptr_t)good." + kind + " + 0x800000", "(uintptr_t)good." + kind +
				" + ((uintptr_t)1 << 40)",
			"(uintptr_t)good." + kind + " ^ ((uintptr_t)1 << 57)", "(uintptr_t)good." + kind +
				" & ~(((uintptr_t)1 << 56) - 1)"} {
			list = append(list, [2]string{handle_, "(void *)(uintptr_t)(" + random + ")"})
		}
		return list
	}
	if m := optionsType.FindStringSubmatch(q.typ); m != nil {
		return [][2]string{{any_, "NULL"}, {any_, "&later_" + m[1] + ".known"},
			{invalid_, "&unknown_" + m[1] + ".known"},
			{invalid_, "&short_" + m[1]}, {invalid_, "&huge_" + m[1]}, {invalid_, "&flags_" + m[1]}}
	}
	optional := q.name == "err" || q.name == "sequence" || q.name == "expires" ||
		q.typ == "loam_destroy_fn" || q.typ == "loam_merge_partial_fn" ||
		q.typ == "loam_failure *" || q.name == "entry" || q.typ == "loam_log_fn" ||
		q.name == "arg" || q.name == "info" || q.name == "report" && p.name == "loam_repair"
	bound := q.name == "lower" || q.name == "upper" || q.name == "start" || q.name == "stop"
	switch {
	case q.typ == "size_t" && q.name == "n":
		return [][2]string{{large_, "SIZE_MAX"}, {large_, "(size_t)1 << 40"}, {any_, "0"},
			{any_, "1"}}
	case q.name == "cap" || strings.HasPrefix(q.name, "max_"):
		return [][2]string{{any_, "SIZE_MAX"}, {any_, "0"}, {any_, "1"}, {any_, "SIZE_MAX / 2"}}
	case q.typ == "size_t":
		return [][2]string{{large_, "SIZE_MAX"}, {large_, "SIZE_MAX / 2 + 1"},
			{large_, "UINT32_MAX"}, {any_, "0"}}
	case q.name == "flags":
		return [][2]string{{invalid_, "~0u"}, {invalid_, "1u << 16"}, {invalid_, "64"}}
	case q.name == "memlimit":
		return [][2]string{{any_, "INT64_MIN"}, {any_, "INT64_MAX"}}
	case q.name == "seconds":
		return [][2]string{{invalid_, "UINT64_MAX"}, {invalid_, "9223372037"}, {invalid_, "0"},
			{any_, "1"}}
	case q.name == "savepoint" && q.typ == "uint64_t":
		return [][2]string{{invalid_, "UINT64_MAX"}, {invalid_, "0"}}
	case (q.name == "old" || q.name == "value") && p.name == "loam_compare_and_swap" ||
		q.name == "value" && p.name == "loam_put_if_absent" && q.typ == "const void *":
		return [][2]string{{any_, "NULL"}}
	case q.name == "bytes_per_second": // few of them would take for ever
		return [][2]string{{large_, "UINT64_MAX"}, {any_, "1u << 30"}}
	case p.name == "loam_resources_create" && q.name == "memory":
		return [][2]string{{large_, "UINT64_MAX - 1"}, {any_, "UINT64_MAX"}, {any_, "1"}}
	case q.name == "id" && q.typ == "uint64_t":
		return [][2]string{{any_, "UINT64_MAX"}, {any_, "1"}}
	case q.name == "from" || q.typ == "uint32_t":
		return [][2]string{{any_, "UINT32_MAX"}, {any_, "0"}, {any_, "1"}}
	case p.name == "loam_changes_next" && q.name == "timeout_ms":
		return [][2]string{{any_, "1"}, {any_, "0"}} // others wait
	case q.typ == "uint64_t":
		return [][2]string{{large_, "UINT64_MAX"}, {any_, "0"}, {any_, "1"}}
	case q.name == "fd": // 1 and 2 are what the program says
		return [][2]string{{any_, "INT_MIN"}, {any_, "INT_MAX"}, {any_, "-1"}}
	case q.typ == "int" || q.typ == "loam_status":
		return [][2]string{{any_, "INT_MIN"}, {any_, "INT_MAX"}, {any_, "-1"}, {any_, "1"}}
	case p.name == "loam_error_errno" || p.name == "loam_error_path":
		return [][2]string{{any_, "NULL"}} // any other text is no message of the library's
	case p.name == "loam_callback_fail" || q.name == "compression":
		return [][2]string{{any_, "NULL"}}
	case q.typ == "const char *":
		return [][2]string{{invalid_, "NULL"}, {any_, `""`}, {any_, "long_text"},
			{any_, `"\xff\xfe%s%n"`}}
	case p.name == "loam_free":
		return [][2]string{{any_, "NULL"}}
	case optional || bound:
		return [][2]string{{any_, "NULL"}}
	}
	return [][2]string{{invalid_, "NULL"}}
}

// cases writes the calls with one bad argument, and the good call.
func (p prototype) cases(t *testing.T, w *strings.Builder) (n int) {
	t.Helper()
	var args []string
	for _, q := range p.params {
		a := p.good(q)
		if name, ok := strings.CutPrefix(a, "&out_"); ok {
			// A place of its own for each result.
			typ := strings.TrimSuffix(strings.TrimSpace(q.typ), "*")
			if q.typ == "const void **" || q.typ == "size_t *" && q.name == "value_lens" ||
				q.name == "sizes" {
				fmt.Fprintf(w, "  static %s out_%s[2];\n", typ, name)
				a = "out_" + name
			} else {
				fmt.Fprintf(w, "  static %s out_%s;\n", typ, name)
			}
		}
		if p.name == "loam_free" {
			a = "malloc(3)"
		}
		args = append(args, a)
	}
	call := func(expect string, args []string) {
		n++
		text := p.name + "(" + strings.Join(args, ", ") + ")"
		quoted := fmt.Sprintf("%q", text)
		switch p.result {
		case "loam_status":
			fmt.Fprintf(w, "  TRY(%s, %s, %s);\n", expect, text, quoted)
		case "void":
			fmt.Fprintf(w, "  TRY(ANY, (%s, 0), %s);\n", text, quoted)
		default:
			fmt.Fprintf(w, "  TRY(ANY, ((void)%s, 0), %s);\n", text, quoted)
		}
	}
	closes := strings.Contains(p.name, "close") && len(p.params) > 0
	call(any_, args)
	for i, q := range p.params {
		for _, b := range p.bad(q) {
			if b[1] == "NULL" && closes && i == 0 {
				b[0] = any_
			}
			with := append([]string(nil), args...)
			with[i] = b[1]
			call(b[0], with)
		}
	}
	return n
}

// TestRacing calls every function of loam.h from several threads on the same
// objects, while they and others close them; with a cache of each database's own
// and with a shared one. The calls are generated from the header.
func TestRacing(t *testing.T) {
	var cases, table strings.Builder
	functions := prototypes(t)
	for i, f := range functions {
		f.racing(&cases, i)
		fmt.Fprintf(&table, "call_%d, ", i)
	}
	fmt.Fprintf(&cases, "static void (*const cases[])(void) = {%s};\n", table.String())
	frame, err := os.ReadFile("testdata/racing.c")
	if err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	src := filepath.Join(t.TempDir(), "racing.c")
	if err := os.WriteFile(src,
		[]byte(strings.Replace(string(frame), "/* CASES */", cases.String(), 1)), 0o600); err !=
		nil {
		t.Fatal(err)
	}
	rounds := strconv.Itoa(seed.Scale(200, 200, 5_000))
	for _, asan := range builds() {
		program := compile(t, asan, src, "-O0", "-I"+filepath.Join(here, "testdata"), "-lloam")
		execute(t, program, rounds)
		execute(t, program, rounds, "shared")
	}
}

// racing writes a function that makes the good call on the objects as they are
// and closes what it made.
func (p prototype) racing(w *strings.Builder, i int) {
	var args []string
	var before, after strings.Builder
	for _, q := range p.params {
		a := strings.Replace(p.good(q), "good.", "g.", 1)
		if name, ok := strings.CutPrefix(a, "&out_"); ok {
			typ := strings.TrimSuffix(strings.TrimSpace(q.typ), "*")
			a = "out_" + name
			fmt.Fprintf(&before, "  %s %s[2] = {0};\n", typ, a)
			switch m := regexp.MustCompile(
				`^loam_(options|cache|db|snapshot|batch|iter|job|txn|backup|changes|pinned)` +
					` \*\*$`).FindStringSubmatch(q.typ); {
			case m != nil && m[1] == "db":
				fmt.Fprintf(&after, "  loam_close(%s[0], NULL);\n", a)
			case m != nil:
				fmt.Fprintf(&after, "  loam_%s_close(%s[0]);\n", m[1], a)
			case q.typ == "char **" || q.typ == "void **":
				fmt.Fprintf(&after, "  loam_free(%s[0]);\n", a)
			}
		}
		if p.name == "loam_free" {
			a = "malloc(3)"
		}
		args = append(args, a)
	}
	call := p.name + "(" + strings.Join(args, ", ") + ")"
	fmt.Fprintf(w, "static void call_%d(void) {\n  objects g = now();\n  (void)g;\n%s", i,
		before.String())
	switch p.result {
	case "loam_status":
		fmt.Fprintf(w, "  said(%s, %q);\n", call, p.name)
	default:
		fmt.Fprintf(w, "  (void)%s;\n", call)
	}
	fmt.Fprintf(w, "%s}\n\n", after.String())
}
