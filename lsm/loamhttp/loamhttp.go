// Package loamhttp shows the metrics of databases to collectors: as Prometheus and OpenMetrics text
// and as JSON by HTTP, as a variable of package expvar, and events as records of log/slog.
//
//	http.Handle("/metrics", loamhttp.Handler(db))
//	http.Handle("/metrics.json", loamhttp.Handler(db))
//
// docs/metrics.md has the name, unit and meaning of each metric.
package loamhttp

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/loamdb/loam/lsm"
)

// Handler answers GET and HEAD requests about one database: a path that ends with ".json" by the
// metrics of all keyspaces as JSON, any other as text for Prometheus, or for OpenMetrics if the
// request accepts that. The text leaves out a closed database; in JSON its read_only says that it
// is closed.
func Handler(db *lsm.DB) http.Handler {
	return HandlerOf(func() map[string]*lsm.DB { return map[string]*lsm.DB{"": db} })
}

// HandlerOf is Handler for several databases, which list names at each request. Each metric has the
// name as the label "database"; in JSON the names are the keys of an object.
func HandlerOf(list func() map[string]*lsm.DB) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
			return
		}
		body, kind := answer(r, list())
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Cache-Control", "no-store")
		_, _ = w.Write(body)
	})
}

const (
	prometheusType  = "text/plain; version=0.0.4; charset=utf-8"
	openMetricsName = "application/openmetrics-text"
	openMetricsType = openMetricsName + "; version=1.0.0; charset=utf-8"
	jsonType        = "application/json"
)

func answer(r *http.Request, dbs map[string]*lsm.DB) (body []byte, kind string) {
	if strings.HasSuffix(r.URL.Path, ".json") {
		return asJSON(dbs), jsonType
	}
	t := text{open: strings.Contains(r.Header.Get("Accept"), openMetricsName)}
	for _, name := range slices.Sorted(maps.Keys(dbs)) {
		t.add(name, dbs[name])
	}
	if t.open {
		return t.bytes(), openMetricsType
	}
	return t.bytes(), prometheusType
}

// asJSON are the metrics by keyspace or, of several databases, by database and keyspace.
func asJSON(dbs map[string]*lsm.DB) []byte {
	all := map[string]any{}
	for name, db := range dbs {
		all[name] = Keyspaces(db)
	}
	var of any = all
	if only, ok := all[""]; ok && len(all) == 1 {
		of = only
	}
	b, err := json.Marshal(of)
	if err != nil { // no metric is a value that JSON has not
		return []byte("{}")
	}
	return b
}

// Keyspaces are the metrics of all keyspaces of a database, by name.
func Keyspaces(db *lsm.DB) map[string]lsm.Metrics {
	of := map[string]lsm.Metrics{}
	for _, name := range db.Keyspaces() {
		if m, ok := metrics(db, name); ok {
			of[name] = m
		}
	}
	return of
}

// metrics are those of a keyspace; ok is false if it was dropped, or the database closed.
func metrics(db *lsm.DB, keyspace string) (m lsm.Metrics, ok bool) {
	if keyspace == defaultKeyspace {
		return db.Metrics(), true
	}
	k, err := db.Keyspace(keyspace, &lsm.KeyspaceOptions{ErrorIfMissing: true})
	if err != nil {
		return m, false
	}
	return k.Metrics(), true
}

const defaultKeyspace = "default"

// Variable is the metrics of all keyspaces as a variable of package expvar, which this package does
// not import, as that adds a handler to http.DefaultServeMux:
//
//	expvar.Publish("loam", loamhttp.Variable{DB: db})
type Variable struct {
	DB *lsm.DB // DB is the database.
}

// String returns the metrics as JSON.
func (v Variable) String() string {
	return string(bytes.TrimSpace(asJSON(map[string]*lsm.DB{"": v.DB})))
}
