package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/loamdb/loam/cmd/loam/internal/facts"
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/feature/examine"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/record"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/hexdump"
	"github.com/loamdb/loam/lsm"
)

// pageExample is one example of a page of formats: what it says, and its bytes.
var pageExample = regexp.MustCompile(
	"(?s)```(log|chain|batch|manifest|table|native)\n(.*?)```\n.*?```hex\n(.*?)```")

// TestFormatPages writes the bytes of the examples in docs/format-*.md into files, and wants the
// verbs that show one file to say what the pages say.
func TestFormatPages(t *testing.T) {
	pages, err := filepath.Glob("../../docs/format-*.md")
	must(t, err)
	seen := map[string]int{}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		must(t, err)
		for _, m := range pageExample.FindAllStringSubmatch(string(text), -1) {
			kind, want := m[1], shown(m[2])
			seen[kind]++
			if got := shownBy(t, kind, hexdump.Bytes(t, m[3])); got != want {
				t.Errorf("%s: loam shows\n%s\nthe page has\n%s", page, got, want)
			}
		}
	}
	for kind, least := range map[string]int{"log": 1, "chain": 4, "batch": 2, "manifest": 4,
		"table": 1, "native": 1} {
		if seen[kind] < least {
			t.Errorf("%d examples of %s", seen[kind], kind)
		}
	}
}

// hidden is what the pages have and the verbs do not show: the first chunk of a native log, what a
// chunk knows to be durable, the keyspace of a table by number, and some facts.
var hidden = regexp.MustCompile(
	`(?m)^begin .*\n|^sync\n|^file .*\n| native\b| leftovers\b| kinds=\d+` +
		`| value-(log|file)=[\d:]+`)

// noBatch are records that are no batches: of these the verb says how long they are.
var noBatch = regexp.MustCompile(`(?m)^record "(.*)"$`)

// shown is what an example has of which the verbs show something.
func shown(example string) string {
	example = hidden.ReplaceAllString(example, "")
	return strings.TrimSpace(noBatch.ReplaceAllStringFunc(example, func(line string) string {
		return fmt.Sprintf("record of %d bytes", len(noBatch.FindStringSubmatch(line)[1]))
	}))
}

// shownBy is what the verbs show of a file, in the words of the pages.
func shownBy(t *testing.T, kind string, data []byte) string {
	t.Helper()
	switch kind {
	case "manifest":
		name := "MANIFEST-000005"
		for _, tag := range []string{"\xe8\a", "\xe9\a", "\xea\a", "\xf0\a"} {
			if strings.Contains(string(data), tag) { // only native ones have these
				name = "000005.manifest"
			}
		}
		return editLines(linesOf[facts.Edit](t, name, data, "manifest"))
	case "table", "native":
		name := map[string]string{"table": "000007.ldb", "native": "000007.loam"}[kind]
		var b strings.Builder
		for _, e := range linesOf[versionLine](t, name, data, "sst", "--entries") {
			fmt.Fprintf(&b, "entry %q %d:%s %q\n", e.Key, e.Sequence, e.Kind, e.Value)
		}
		sums := linesOf[facts.TableFile](t, name, data, "sst")[0]
		if sums.Entries != 3 || sums.Tombstones != 1 || sums.MaxSequence != 9 || sums.Blocks != 1 {
			t.Errorf("%+v", sums)
		}
		return strings.TrimSpace(b.String())
	case "batch":
		return batchLines(t, "000008.log", logOf(t, data), kind)
	case "log":
		return batchLines(t, "000008.log", data, kind)
	}
	// The number of a native log is in its first chunk.
	return batchLines(t, fmt.Sprintf("%06d.wal", data[20]), data, kind)
}

// logOf is a log in LevelDB's format with one record.
func logOf(t *testing.T, rec []byte) []byte {
	t.Helper()
	mem := vfs.NewMem()
	l, err := mem.CreateLog("log", 0)
	must(t, err)
	must(t, record.NewWriter(l).Append(rec))
	must(t, l.Close())
	f, err := mem.Open("log")
	must(t, err)
	data := make([]byte, f.Size())
	_, err = f.ReadAt(data, 0)
	must(t, errors.Join(err, f.Close()))
	return data
}

// linesOf runs a verb with --json on a file of a name.
func linesOf[T any](t *testing.T, name string, data []byte, verb ...string) (lines []T) {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(path, data, 0o600))
	out, errs, code := loam(t.Context(), append(verb, "--json", path)...)
	if code != exitFine {
		t.Fatalf("%v: exit %d: %s", verb, code, errs)
	}
	for line := range strings.Lines(out) {
		var x T
		must(t, json.Unmarshal([]byte(line), &x))
		lines = append(lines, x)
	}
	return lines
}

// versionLine is entryLine as it is printed.
type versionLine struct {
	Offset     int64
	Keyspace   uint32
	Sequence   uint64
	Kind       string
	Key, Value string
}

// tooShort is what the verb wal says of a record that has no header of a batch.
var tooShort = regexp.MustCompile(`offset \d+(, \d+ bytes)?: (\d+) bytes are too short`)

// batchLines are the records of a log, of which --records has the batches without entries.
func batchLines(t *testing.T, name string, data []byte, kind string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(path, data, 0o600))
	if _, errs, code := loam(t.Context(), "wal", path); code == exitProblems {
		var lines []string
		for _, m := range tooShort.FindAllStringSubmatch(errs, -1) {
			lines = append(lines, "record of "+m[2]+" bytes")
		}
		return strings.Join(lines, "\n")
	}
	entries := map[int64][]versionLine{}
	for _, e := range linesOf[versionLine](t, name, data, "wal") {
		entries[e.Offset] = append(entries[e.Offset], e)
	}
	var b strings.Builder
	for _, x := range linesOf[batchLine](t, name, data, "wal", "--records") {
		if len(entries[x.Offset]) != int(x.Count) {
			t.Errorf("%d entries at %d, want %d", len(entries[x.Offset]), x.Offset, x.Count)
		}
		switch {
		case kind == "batch":
			fmt.Fprintf(&b, "sequence %d\n", x.Sequence)
		case x.Count == 0:
			fmt.Fprintf(&b, "marker %d\n", x.Sequence)
		}
		for i, e := range entries[x.Offset] {
			if e.Sequence != x.Sequence+uint64(i) {
				t.Errorf("%+v in %+v", e, x)
			}
			if e.Keyspace != 0 {
				fmt.Fprintf(&b, "keyspace %d ", e.Keyspace)
			}
			switch {
			case e.Kind == "delete":
				fmt.Fprintf(&b, "delete %q\n", e.Key)
			case kind == "chain":
				fmt.Fprintf(&b, "put %d %q %q\n", e.Sequence, e.Key, e.Value)
			default:
				fmt.Fprintf(&b, "put %q %q\n", e.Key, e.Value)
			}
		}
	}
	return strings.TrimSpace(b.String())
}

// editLines is an edit in the words of docs/format-manifest.md.
func editLines(edits []facts.Edit) string {
	var b strings.Builder
	for _, e := range edits {
		number := func(name string, n *uint64) {
			if n != nil {
				fmt.Fprintf(&b, "%s %d\n", name, *n)
			}
		}
		if e.FormatVersion > 0 {
			fmt.Fprintf(&b, "format-version %d\n", e.FormatVersion)
		}
		if e.MaxKeyspace != nil {
			fmt.Fprintf(&b, "max-keyspace %d\n", *e.MaxKeyspace)
		}
		if e.Keyspace > 0 {
			fmt.Fprintf(&b, "keyspace %d\n", e.Keyspace)
		}
		if e.NewKeyspace != "" {
			fmt.Fprintf(&b, "new-keyspace %q %q\n", e.NewKeyspace, *e.Comparer)
		}
		if e.DropKeyspace {
			fmt.Fprintln(&b, "drop-keyspace")
		}
		if e.DurableLog > 0 {
			fmt.Fprintf(&b, "durable %d %d\n", e.DurableLog, e.DurableEnd)
		}
		number("first-log", e.FirstLog)
		if e.NewKeyspace == "" && e.Comparer != nil {
			fmt.Fprintf(&b, "comparer %q\n", *e.Comparer)
		}
		number("log", e.Log)
		number("previous-log", e.PreviousLog)
		number("next-file", e.NextFile)
		number("last-sequence", e.LastSequence)
		for _, d := range e.Deleted {
			fmt.Fprintf(&b, "delete %d %d\n", d.Level, d.Number)
		}
		for _, f := range e.Added {
			fmt.Fprintf(&b, "add %d %d %d %q %d:%s %q %d:%s\n", f.Level, f.Number, *f.Bytes,
				*f.Smallest, *f.SmallestSequence, f.SmallestKind, *f.Largest, *f.LargestSequence,
				f.LargestKind)
			if f.Checksum != nil {
				fmt.Fprintf(&b, "facts checksum=%d entries=%d", *f.Checksum, f.Entries)
				if f.Tombstones > 0 { // the pages leave out zeros
					fmt.Fprintf(&b, " deletes=%d", f.Tombstones)
				}
				b.WriteString("\n")
			}
		}
	}
	return strings.TrimSpace(b.String())
}

// jsonOf runs a verb with --json and decodes its one line.
func jsonOf[T any](t *testing.T, verb ...string) (x T) {
	t.Helper()
	out, errs, code := loam(t.Context(), append(verb, "--json")...)
	if code != exitFine {
		t.Fatalf("%v: exit %d: %s", verb, code, errs)
	}
	must(t, json.Unmarshal([]byte(out), &x))
	return x
}

// TestInfoOfManyTables asks for a database of 100 GB whose tables are not there: info and levels
// need the MANIFEST alone, whatever the size.
func TestInfoOfManyTables(t *testing.T) {
	const tables, size = 50_000, 2 << 20
	dir := filled(t, &lsm.Options{Format: lsm.FormatLevelDB})
	before := jsonOf[facts.Info](t, "info", dir)
	path := filepath.Join(dir, before.Manifest)
	mem := vfs.NewMem()
	l, err := mem.CreateLog("log", 0)
	must(t, err)
	w := record.NewWriter(l)
	must(t, examine.ReadManifest(lsm.OSFS(), path, base.LevelDB,
		func(x examine.ManifestEdit) error { return w.Append(x.Data) }))
	var e manifest.Edit
	for i := range uint64(tables) {
		key := base.InternalKey{User: fmt.Appendf(nil, "z%08d", i),
			Trailer: base.MakeTrailer(1, base.KindSet)}
		e.Add(6, &manifest.FileMeta{Num: 1000 + i, Size: size, Smallest: key, Largest: key})
	}
	e.SetNextFile(1000 + tables)
	must(t, w.Append(e.Encode(nil, base.LevelDB)))
	must(t, l.Close())
	f, err := mem.Open("log")
	must(t, err)
	data := make([]byte, f.Size())
	_, err = f.ReadAt(data, 0)
	must(t, errors.Join(err, f.Close(), os.WriteFile(path, data, 0o600)))
	after := jsonOf[facts.Info](t, "info", dir)
	if after.Tables != before.Tables+tables || after.TableBytes != before.TableBytes+tables*size {
		t.Errorf("%d tables, %d B; before %d tables, %d B", after.Tables, after.TableBytes,
			before.Tables, before.TableBytes)
	}
	if out, errs, code := loam(t.Context(), "levels", dir); code != exitFine ||
		!strings.Contains(out, "50,0") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
}
