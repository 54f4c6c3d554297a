//go:build linux || darwin || freebsd

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/loamdb/loam/cmd/loam/internal/facts"
	"github.com/loamdb/loam/internal/testkit"
	"github.com/loamdb/loam/internal/testkit/alike"
	"github.com/loamdb/loam/lsm"
)

// pageOf starts the verb ui and returns what asks it.
func pageOf(t *testing.T, dir string) (ask func(what string, result any)) {
	t.Helper()
	r, w := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int)
	go func() {
		a := newApp(strings.NewReader(""), w, io.Discard)
		ended <- a.run(ctx, []string{"ui", dir})
	}()
	t.Cleanup(func() { cancel(); <-ended })
	var line string
	_, err := fmt.Fscanln(r, &line)
	must(t, err)
	address, token, _ := strings.Cut(line, "#")
	return func(what string, result any) {
		t.Helper()
		q, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"api/"+what, nil)
		must(t, err)
		q.Header.Set("Authorization", "Bearer "+token)
		answer, err := http.DefaultClient.Do(q)
		must(t, err)
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			text, _ := io.ReadAll(answer.Body)
			t.Fatalf("%s: %s %s", what, answer.Status, text)
		}
		must(t, json.NewDecoder(answer.Body).Decode(result))
	}
}

// unsettled are the metrics that change because a program asks, with the process's memory, or when
// the reader of a compacted table is closed in the background: cache.used counts readers, too.
var unsettled = []string{"open_descriptors", "off_heap_bytes", "go_heap_bytes",
	"table_readers", "table_reader_bytes", "mapped_bytes"}

// settled are the metrics of a database, as JSON has them, without those that are unsettled.
func settled(t *testing.T, m any) map[string]any {
	t.Helper()
	b, err := json.Marshal(m)
	must(t, err)
	var x map[string]any
	must(t, json.Unmarshal(b, &x))
	for _, name := range unsettled {
		delete(x, name)
	}
	delete(x["cache"].(map[string]any), "used")
	return x
}

// TestShownIsMetrics does a counted number of operations and wants top, the page, info, levels,
// tables and props to show what db.Metrics and the counts say.
func TestShownIsMetrics(t *testing.T) {
	for _, format := range []lsm.Format{lsm.FormatNative, lsm.FormatLevelDB} {
		t.Run(fmt.Sprint(format), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "db")
			db, err := lsm.Open(dir, &lsm.Options{Format: format, Inspect: true,
				DisableCompaction: true})
			must(t, err)
			defer db.Close()
			want := operate(t, db)
			metrics := settled(t, db.Metrics())
			for name, n := range want {
				got, ok := metrics[name]
				if m, is := got.(map[string]any); is {
					got = m["count"]
				}
				if !ok || got != float64(n) {
					t.Errorf("metrics: %s is %v, want %d", name, got, n)
				}
			}
			top := jsonOf[struct {
				Source  string
				Metrics map[string]any
			}](t, "top", "--once", dir)
			var live struct {
				Source  string
				Metrics map[string]any
				Picture struct {
					Levels [][][5]uint64
					Left   int
				}
			}
			ask := pageOf(t, dir)
			ask("live", &live)
			for name, shown := range map[string]map[string]any{"top": top.Metrics,
				"the page": live.Metrics} {
				if got := settled(t, shown); !reflect.DeepEqual(got, metrics) {
					t.Errorf("%s shows\n%v\nMetrics has\n%v", name, got, metrics)
				}
			}
			if top.Source != "process" || live.Source != "process" || live.Picture.Left != 0 {
				t.Error(top.Source, live.Source, live.Picture.Left)
			}
			tablesAreMetrics(t, dir, db, live.Picture.Levels)
			pageIsVerbs(t, dir, ask)
		})
	}
}

// operate does operations and returns how many of each metric.
func operate(t *testing.T, db *lsm.DB) map[string]int {
	t.Helper()
	const batches, size, gets = 400, 5, 300
	for i := range batches {
		b := lsm.NewBatch()
		for j := range size {
			b.Put(fmt.Appendf(nil, "key%05d", (i*size+j)*7919%(batches*size)),
				fmt.Appendf(nil, "value of %d and %0200d", j, i))
		}
		must(t, db.Write(b, lsm.NoSync))
		switch i {
		case 100, 150, 250:
			must(t, db.Flush())
		case 200:
			must(t, db.CompactRange(nil, nil))
		}
	}
	must(t, db.Delete([]byte("key00001"), lsm.Sync))
	for i := range gets {
		if _, err := db.Get(fmt.Appendf(nil, "key%05d", i), nil); err != nil && i != 1 {
			t.Fatal(err)
		}
	}
	must(t, db.MultiGet([][]byte{[]byte("a"), []byte("key00002"), []byte("key00003")},
		&lsm.MultiResult{}))
	return map[string]int{"gets": gets, "multi_gets": 1, "multi_get_keys": 3,
		"commits": batches + 1, "last_sequence": batches*size + 1, "wal_sync": 1, "memtables": 1}
}

// tablesAreMetrics compares what the verbs read from the files with the metrics of the process.
func tablesAreMetrics(t *testing.T, dir string, db *lsm.DB, picture [][][5]uint64) {
	t.Helper()
	m := db.Metrics()
	info := jsonOf[facts.Info](t, "info", dir)
	levels := jsonOf[[]facts.Keyspace](t, "levels", dir)
	if len(levels) != 1 || !reflect.DeepEqual(levels, info.Keyspaces) {
		t.Errorf("levels %+v, info %+v", levels, info.Keyspaces)
	}
	tables, sum := linesOfDir[facts.Table](t, "tables", dir), uint64(0)
	for i, l := range m.Levels {
		got := info.Keyspaces[0].Levels[i]
		if got.Level != i || got.Tables != l.Files || got.Bytes != l.Bytes {
			t.Errorf("level %d: %+v, metrics %+v", i, got, l)
		}
		files, bytes, drawn := 0, uint64(0), uint64(0)
		for _, x := range tables {
			if x.Level == i {
				files, bytes = files+1, bytes+x.Bytes
			}
		}
		for _, x := range picture[i] {
			drawn += x[1]
		}
		if files != l.Files || bytes != l.Bytes || len(picture[i]) != files || drawn != bytes {
			t.Errorf("level %d: %d tables, %d B, %d drawn, metrics %+v", i, files, bytes,
				len(picture[i]), l)
		}
		sum += l.Bytes
	}
	if m.Levels[0].Files == 0 || m.Levels[6].Files == 0 || sum != m.DiskBytes ||
		info.TableBytes != sum || info.Tables != len(tables) {
		t.Errorf("%d B in levels, %d on disk, %+v", sum, m.DiskBytes, info)
	}
	logged := uint64(0)
	for _, l := range info.Logs {
		logged += l.Entries
	}
	if logged != uint64(m.MemtableEntries) {
		t.Errorf("%d entries in logs, %d in memtables", logged, m.MemtableEntries)
	}
	props := jsonOf[facts.Props](t, "props", dir)
	if props.Tables != len(tables) || props.Bytes != sum {
		t.Errorf("%+v", props)
	}
	if keyspace := info.Keyspaces[0]; keyspace.Counted && props.Entries != keyspace.Entries {
		t.Errorf("%+v, %+v", props, keyspace)
	}
	n := 0
	it := db.Iter(nil)
	for ok := it.First(); ok; ok = it.Next() {
		n++
	}
	must(t, it.Close())
	if got := jsonOf[counted](t, "count", dir); got.Keys != uint64(n) {
		t.Errorf("count says %d, the process %d", got.Keys, n)
	}
}

func linesOfDir[T any](t *testing.T, verb ...string) (lines []T) {
	t.Helper()
	out, errs, code := loam(t.Context(), append(verb, "--json")...)
	if code != exitFine {
		t.Fatalf("%v: %s", verb, errs)
	}
	for line := range strings.Lines(out) {
		var x T
		must(t, json.Unmarshal([]byte(line), &x))
		lines = append(lines, x)
	}
	return lines
}

// pageIsVerbs compares the page's views of files with the verbs.
func pageIsVerbs(t *testing.T, dir string, ask func(what string, result any)) {
	t.Helper()
	var tables struct {
		Tables []facts.Table
		Count  int
	}
	ask("tables", &tables)
	shown := linesOfDir[facts.Table](t, "tables", dir)
	if tables.Count != len(shown) || !reflect.DeepEqual(tables.Tables, shown) {
		t.Errorf("the page has %+v, loam tables %+v", tables, shown)
	}
	for _, x := range shown {
		want := jsonOf[facts.TableFile](t, "sst", filepath.Join(dir, x.File))
		var got facts.TableFile
		ask("table?check=1&file="+x.File, &got)
		if got != want && x.Entries > 0 { // LevelDB's tables do not count what they have
			t.Errorf("the page has %+v, loam sst %+v", got, want)
		}
		if want.Entries != x.Entries && x.Entries > 0 || uint64(want.Bytes) != x.Bytes {
			t.Errorf("loam sst has %+v, the MANIFEST %+v", want, x)
		}
	}
	var logs struct {
		Logs     []struct{ File string }
		Manifest string
	}
	ask("logs", &logs)
	for _, l := range logs.Logs {
		var got struct{ Records []batchLine }
		ask("log?file="+l.File, &got)
		want := linesOfDir[batchLine](t, "wal", "--records", filepath.Join(dir, l.File))
		if !slices.Equal(got.Records, want[:min(len(want), len(got.Records))]) {
			t.Errorf("%s: the page has %+v, loam wal %+v", l.File, got.Records, want)
		}
	}
	var edits struct{ Edits []facts.Edit }
	ask("manifest?file="+logs.Manifest, &edits)
	want := linesOfDir[facts.Edit](t, "manifest", filepath.Join(dir, logs.Manifest))
	if len(want) == 0 || !reflect.DeepEqual(edits.Edits, want) {
		t.Errorf("the page has %+v, loam manifest %+v", edits.Edits, want)
	}
}

// state is what a database holds: keyspace, then key.
type state map[string]map[string]string

// TestDiffIsTheModels makes pairs of databases with known differences, of random formats and
// histories, and wants diff to print just these.
func TestDiffIsTheModels(t *testing.T) {
	seed := testkit.Seed(t)
	for i := range testkit.Scale(5, 12, 200) {
		rnd := rand.New(rand.NewSource(seed + int64(i)))
		spaces := []string{"default", "other", "k é"}[:1+rnd.Intn(3)]
		formats := [2]lsm.Format{lsm.FormatNative, lsm.FormatNative}
		if len(spaces) == 1 {
			formats[rnd.Intn(2)] = lsm.FormatLevelDB
		}
		var dirs [2]string
		var models [2]state
		for side := range dirs {
			dirs[side], models[side] = history(t, rnd, formats[side], spaces)
		}
		want, same := differences(models)
		out, errs, code := loam(t.Context(), "diff", "--json", dirs[0], dirs[1])
		if wanted := min(len(want), 1); code != wanted {
			t.Fatalf("pair %d: exit %d, want %d: %s", i, code, wanted, errs)
		}
		got := map[string]bool{}
		for line := range strings.Lines(out) {
			var d struct{ Change, Keyspace, Key, A_value, B_value string }
			must(t, json.Unmarshal([]byte(line), &d))
			got[fmt.Sprintf("%s %q/%q %q %q", d.Change, d.Keyspace, d.Key, d.A_value,
				d.B_value)] = true
		}
		if !maps.Equal(got, want) {
			t.Fatalf("pair %d: diff has\n%v\nthe models\n%v", i, got, want)
		}
		out, _, _ = loam(t.Context(), "diff", "--brief", "--json", dirs[0], dirs[1])
		var brief struct{ Removed, Added, Changed, Same int }
		must(t, json.Unmarshal([]byte(out), &brief))
		if brief.Same != same || brief.Removed+brief.Added+brief.Changed != len(want) {
			t.Fatalf("pair %d: %s, want %d differences, %d the same", i, out, len(want), same)
		}
	}
}

// TestDiffOfDamage: what lies behind a damaged block of one database is no difference.
func TestDiffOfDamage(t *testing.T) {
	sound, damaged := filled(t, nil), filled(t, nil)
	tables, err := filepath.Glob(filepath.Join(damaged, "*.loam"))
	must(t, err)
	b, err := os.ReadFile(tables[0])
	must(t, err)
	b[len(b)/4] ^= 1
	must(t, os.WriteFile(tables[0], b, 0o600))
	for _, args := range [][]string{{sound, damaged}, {damaged, sound}} {
		out, errs, code := loam(t.Context(), "diff", args[0], args[1])
		if out != "" || code != exitFailed || !strings.Contains(errs, "corruption") {
			t.Errorf("%v: exit %d, %d lines: %s", args, code, strings.Count(out, "\n"), errs)
		}
	}
}

// history makes a database by random writes, flushes and compactions, and returns a model of it.
func history(t *testing.T, rnd *rand.Rand, format lsm.Format,
	spaces []string) (dir string, model state) {
	t.Helper()
	dir, model = filepath.Join(t.TempDir(), "db"), state{}
	db, err := lsm.Open(dir, &lsm.Options{Format: format, WALPreallocate: -1})
	must(t, err)
	for _, name := range spaces {
		model[name] = map[string]string{}
		k, err := db.Keyspace(name, nil)
		must(t, err)
		for range rnd.Intn(120) {
			key := fmt.Sprintf("k%02d", rnd.Intn(40))
			switch n := rnd.Intn(20); {
			case n < 5:
				must(t, k.Delete([]byte(key), lsm.NoSync))
				delete(model[name], key)
			case n == 5:
				must(t, k.Flush())
			case n == 6:
				must(t, k.CompactRange(nil, nil))
			default:
				value := fmt.Sprint("v", rnd.Intn(3))
				must(t, k.Put([]byte(key), []byte(value), lsm.NoSync))
				model[name][key] = value
			}
		}
	}
	must(t, db.Close())
	return dir, model
}

// differences are those between two states, as the test above writes them.
func differences(models [2]state) (want map[string]bool, same int) {
	want = map[string]bool{}
	a, b := models[0], models[1]
	for space := range a {
		for key, value := range a[space] {
			other, ok := b[space][key]
			switch {
			case !ok:
				want[fmt.Sprintf("removed %q/%q %q %q", space, key, value, "")] = true
			case other != value:
				want[fmt.Sprintf("changed %q/%q %q %q", space, key, value, other)] = true
			default:
				same++
			}
		}
		for key, value := range b[space] {
			if _, ok := a[space][key]; !ok {
				want[fmt.Sprintf("added %q/%q %q %q", space, key, "", value)] = true
			}
		}
	}
	return want, same
}

// TestCheckSeesDamage damages each 7th byte of databases of each shape: check has exit code 1 where
// Open, a scan or Verify fails, 0 where nothing is wrong, and no other one. It writes nothing.
func TestCheckSeesDamage(t *testing.T) {
	for _, shape := range alike.Shapes {
		t.Run(fmt.Sprint(shape), func(t *testing.T) {
			root := t.TempDir()
			n := 0
			verdicts, err := alike.Each(shape, testkit.Seed(t), testkit.Scale(35, 17, 1),
				func(c alike.Case) error {
					n++
					dir := filepath.Join(root, fmt.Sprint(n))
					for name, b := range c.Files {
						path := filepath.Join(dir, name)
						must(t, os.MkdirAll(filepath.Dir(path), 0o700))
						must(t, os.WriteFile(path, b, 0o600))
					}
					before := contents(t, dir)
					out, errs, code := loam(t.Context(), "check", "--json", dir)
					var found checked
					must(t, json.Unmarshal([]byte(out), &found))
					seen := found.Verdict == "damaged" && len(found.Damage) > 0
					if seen != (code == exitProblems) || code > exitProblems ||
						c.Verdict == alike.Damaged && !seen || c.Verdict == alike.Sound && seen {
						t.Errorf("%v, verdict %d: exit %d: %s%s", c.Damage, c.Verdict, code, out,
							errs)
					}
					if after := contents(t, dir); after != before {
						t.Errorf("%v: check changed the directory", c.Damage)
					}
					return os.RemoveAll(dir)
				})
			if err != nil || verdicts[alike.Damaged] < 10 {
				t.Error(verdicts, err)
			}
			t.Logf("%d sound, %d told, %d damaged", verdicts[0], verdicts[1], verdicts[2])
		})
	}
}
