package loamhttp_test

import (
	"bytes"
	"encoding/json"
	"expvar"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/crashfs"
	"github.com/loamdb/loam/lsm/loamhttp"
)

// opened returns a database of two keyspaces in which something happened.
func opened(t *testing.T, o lsm.Options) *lsm.DB {
	t.Helper()
	o.FS = crashfs.New()
	db, err := lsm.Open("db", &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	k, err := db.Keyspace(`odd "name" \`, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []func() error{
		func() error { return db.Put([]byte("a"), []byte("b"), lsm.Sync) },
		func() error { return k.Put([]byte("a"), []byte("b"), lsm.Sync) },
		db.Flush,
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	return db
}

func get(t *testing.T, h http.Handler, path, accept string) (body, kind string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Errorf("%s: %d", path, w.Code)
	}
	return w.Body.String(), w.Header().Get("Content-Type")
}

var (
	typeLine   = regexp.MustCompile(`^# TYPE (loam_[a-z_]+) (counter|gauge|summary)$`)
	sampleLine = regexp.MustCompile(
		`^(loam_[a-z_]+?)(_total|_sum|_count)?(\{(?:[a-z]+="(?:[^"\\\n]|\\[\\"n])*",?)+\})? (\S+)$`)
)

// parse reads the text as a collector does: help, type and samples of each family once, together.
// It returns the samples by name, without labels.
func parse(t *testing.T, body string, open bool) map[string][]float64 {
	t.Helper()
	samples, seen := map[string][]float64{}, map[string]bool{}
	family, kind := "", ""
	lines := strings.Split(strings.TrimSuffix(body, "\n"), "\n")
	if open {
		if lines[len(lines)-1] != "# EOF" {
			t.Error("there is no end of the file")
		}
		lines = lines[:len(lines)-1]
	}
	for _, l := range lines {
		if strings.HasPrefix(l, "# HELP ") {
			continue
		}
		if m := typeLine.FindStringSubmatch(l); m != nil {
			family, kind = m[1], m[2]
			if seen[family] {
				t.Errorf("%s twice", family)
			}
			seen[family] = true
			continue
		}
		m := sampleLine.FindStringSubmatch(l)
		if m == nil {
			t.Fatalf("no sample: %s", l)
		}
		of := m[1]
		if m[2] != "" && (kind != "counter" || !open) && (kind == "counter" || m[2] == "_total") {
			of += m[2]
		}
		if of != family || (kind == "counter") != (m[2] == "_total") {
			t.Errorf("%s is a sample of the %s %s", l, kind, family)
		}
		v, err := strconv.ParseFloat(m[4], 64)
		if err != nil {
			t.Error(err)
		}
		name := m[1] + m[2]
		samples[name] = append(samples[name], v)
	}
	return samples
}

// TestText: both formats have the same samples, and the values are those of Metrics.
func TestText(t *testing.T) {
	db := opened(t, lsm.Options{})
	h := loamhttp.Handler(db)
	plain, kind := get(t, h, "/metrics", "*/*")
	if kind != "text/plain; version=0.0.4; charset=utf-8" {
		t.Error(kind)
	}
	accept := "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"
	open, kind := get(t, h, "/metrics", accept)
	if kind != "application/openmetrics-text; version=1.0.0; charset=utf-8" {
		t.Error(kind)
	}
	samples := parse(t, plain, false)
	other := parse(t, open, true)
	// The memory of the whole process, which background work frees meanwhile.
	for _, memory := range []string{"loam_off_heap_bytes", "loam_go_heap_bytes"} {
		if len(other[memory]) != 1 || other[memory][0] <= 0 {
			t.Errorf("%s has samples %v", memory, other[memory])
		}
		other[memory] = samples[memory]
	}
	if !maps.EqualFunc(samples, other, slices.Equal) {
		t.Errorf("%v\n%v", samples, other)
	}
	m := db.Metrics()
	written, took := make([]float64, 7), make([]float64, 7)
	for i, l := range m.Levels {
		written[i], took[i] = float64(l.BytesWritten), l.Duration.Seconds()
	}
	for name, want := range map[string][]float64{
		"loam_level_files":                 {0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0},
		"loam_flush_runs_total":            {1},
		"loam_memtables":                   {1, 1},
		"loam_memtable_entries":            {0, 1},
		"loam_sequence_total":              {2},
		"loam_wal_sync_seconds_count":      {float64(m.WALSync.Count)},
		"loam_level_seconds_total":         took,
		"loam_read_only":                   {0},
		"loam_flush_output_entries_total":  {1},
		"loam_level_written_bytes_total":   written,
		"loam_checkpoint_runs_total":       {0},
		"loam_compaction_runs_total":       {0},
		"loam_transaction_conflicts_total": {0},
	} {
		if got := samples[name]; !slices.Equal(got, want) {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if want := `loam_memtables{keyspace="odd \"name\" \\"} 1`; !strings.Contains(plain, want) {
		t.Errorf("there is no %s", want)
	}
}

// TestSeveral: a label tells the databases apart; one that is closed has no samples.
func TestSeveral(t *testing.T) {
	a, b, closed := opened(t, lsm.Options{}), opened(t, lsm.Options{}), opened(t, lsm.Options{})
	_ = closed.Close()
	h := loamhttp.HandlerOf(func() map[string]*lsm.DB {
		return map[string]*lsm.DB{"a": a, "b": b, "c": closed}
	})
	body, _ := get(t, h, "/metrics", "")
	samples := parse(t, body, false)
	if !slices.Equal(samples["loam_sequence_total"], []float64{2, 2}) ||
		!strings.Contains(body, `loam_sequence_total{database="a"} 2`) ||
		!strings.Contains(body, `loam_memtables{database="b",keyspace="default"} 1`) {
		t.Errorf("%s", body)
	}
	body, kind := get(t, h, "/of/metrics.json", "")
	var got map[string]map[string]struct {
		LastSequence int    `json:"last_sequence"`
		ReadOnly     string `json:"read_only"`
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil || kind != "application/json" ||
		got["a"]["default"].LastSequence != 2 || got["c"]["default"].ReadOnly == "" {
		t.Errorf("%v, %s: %+v", err, kind, got)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/metrics", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Error(w.Code)
	}
}

// paths are the names in a value of JSON.
func paths(prefix string, v any, all map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		for name, inner := range v {
			if prefix == "stalls." {
				name = "CAUSE"
			}
			if _, leaf := inner.(map[string]any); leaf {
				paths(prefix+name+".", inner, all)
			} else if _, list := inner.([]any); list {
				paths(prefix+name+"[].", inner, all)
			} else {
				all[prefix+name] = true
			}
		}
	case []any:
		for _, inner := range v {
			paths(prefix, inner, all)
		}
	}
}

// page returns the cells of a column of the table in docs/metrics.md.
func page(t *testing.T, column int) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	cells := map[string]bool{}
	for l := range strings.Lines(string(text)) {
		if c := strings.Split(l, " | "); len(c) == 4 {
			if name, ok := strings.CutPrefix(strings.TrimPrefix(c[column], "| "), "`"); ok {
				name, _, _ = strings.Cut(strings.TrimSuffix(name, "`"), "{")
				cells[name] = true
			}
		}
	}
	return cells
}

// emitted are the names of all samples.
func emitted(t *testing.T) map[string]bool {
	t.Helper()
	body, _ := get(t, loamhttp.Handler(opened(t, lsm.Options{})), "/metrics", "")
	names := map[string]bool{"loam_stalls_total": true, "loam_stall_seconds_total": true}
	for name := range parse(t, body, false) {
		names[name] = true
	}
	return names
}

// TestPage keeps docs/metrics.md what JSON and Prometheus text have.
func TestPage(t *testing.T) {
	m := opened(t, lsm.Options{}).Metrics()
	m.Stalls = map[string]lsm.StallMetrics{"debt": {}}
	b, err := json.Marshal(m)
	var v any
	if err != nil || json.Unmarshal(b, &v) != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	paths("", v, names)
	if page := page(t, 0); !maps.Equal(page, names) {
		t.Errorf("the page has\n%v\nand JSON\n%v", slices.Sorted(maps.Keys(page)),
			slices.Sorted(maps.Keys(names)))
	}
	names = emitted(t)
	if page := page(t, 1); !maps.Equal(page, names) {
		t.Errorf("the page has\n%v\nand the text\n%v", slices.Sorted(maps.Keys(page)),
			slices.Sorted(maps.Keys(names)))
	}
}

// TestDashboard: the panels ask for metrics that there are.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile("grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Title         string
		SchemaVersion int
		Panels        []struct {
			Title, Type string
			GridPos     struct{ H, W, X, Y int }
			Targets     []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	known, name := emitted(t), regexp.MustCompile(`loam_[a-z_]+`)
	if board.Title == "" || board.SchemaVersion == 0 || len(board.Panels) < 8 {
		t.Errorf("%+v", board)
	}
	for _, p := range board.Panels {
		if len(p.Targets) == 0 || p.GridPos.W == 0 || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %q: %+v", p.Title, p)
		}
		for _, target := range p.Targets {
			names := name.FindAllString(target.Expr, -1)
			if len(names) == 0 {
				t.Errorf("panel %q: %s", p.Title, target.Expr)
			}
			for _, n := range names {
				if !known[n] {
					t.Errorf("panel %q: there is no %s", p.Title, n)
				}
			}
		}
	}
}

// TestVariable is one of expvar.
func TestVariable(t *testing.T) {
	var v expvar.Var = loamhttp.Variable{DB: opened(t, lsm.Options{})}
	var got map[string]json.RawMessage
	if err := json.Unmarshal([]byte(v.String()), &got); err != nil || len(got) != 2 {
		t.Errorf("%v, %v", got, err)
	}
}

// TestLogEvents: Close waits for the last event.
func TestLogEvents(t *testing.T) {
	var said bytes.Buffer
	l := slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelDebug}))
	db := opened(t, lsm.Options{Events: loamhttp.LogEvents(l)})
	if err := db.Put([]byte("a"), []byte("c"), lsm.NoSync); err != nil {
		t.Fatal(err)
	}
	if err := db.CompactRange(nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`level=DEBUG msg="flush begins"`, "level=INFO msg=flush bytes=",
		`level=DEBUG msg="compaction begins" reason=`, "level=INFO msg=compaction reason="} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("there is no %s in\n%s", want, said.String())
		}
	}
}
