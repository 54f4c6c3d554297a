package server

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/loamhttp"
	"github.com/loamdb/loam/replica/internal/wire"
)

// Handler answers "/health" by 200 if the node takes part and knows a leader, else by 503, with a
// sentence; "/metrics" by metrics for Prometheus, those of the port and the node and those of its
// database; and "/metrics.json" by the latter as JSON. With a token it wants "Authorization:
// Bearer" and the token in every request.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		err := s.Health()
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ok\n"))
	})
	mux.HandleFunc("GET /metrics", s.serveMetrics)
	mux.HandleFunc("GET /metrics.json", s.serveMetrics)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if s.cfg.Token != "" && !same(given, s.cfg.Token) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "the token is wrong", http.StatusUnauthorized)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// Health says why the node is of no use to clients; nil: it is.
func (s *Server) Health() error {
	t := s.node.Status()
	switch {
	case s.draining.Load():
		return fmt.Errorf("%w: the node is stopping", wire.ErrUnavailable)
	case t.Halted != nil:
		return t.Halted
	case t.Leader == "":
		return fmt.Errorf("%w: the node knows none", wire.ErrUnavailable)
	}
	return nil
}

func (s *Server) serveMetrics(w http.ResponseWriter, r *http.Request) {
	if !strings.HasSuffix(r.URL.Path, ".json") {
		r.Header.Del("Accept") // the metrics below are in Prometheus' format only
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = w.Write([]byte(s.metrics()))
	}
	err := s.node.Database(func(db *lsm.DB) error {
		loamhttp.Handler(db).ServeHTTP(w, r)
		return nil
	})
	if err != nil && strings.HasSuffix(r.URL.Path, ".json") { // the node is closed
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	}
}

// metrics are those of the port and the node, as text for Prometheus.
func (s *Server) metrics() string {
	var b strings.Builder
	family := func(name, kind, help string) {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %[1]s %[3]s\n", name, help, kind)
	}
	one := func(name, kind, help string, value any) {
		family(name, kind, help)
		fmt.Fprintf(&b, "%s %v\n", name, value)
	}
	t := s.node.Status()
	is := func(holds bool) int { return int(bit(holds)) }
	one("loamd_leader", "gauge", "1 if this node leads.", is(t.State == "Leader"))
	one("loamd_has_leader", "gauge", "1 if this node knows a leader.", is(t.Leader != ""))
	one("loamd_halted", "gauge", "1 if an error of the disk ended the node's part.",
		is(t.Halted != nil))
	one("loamd_term", "counter", "Term of the Raft log.", t.Term)
	one("loamd_commit_index", "counter", "Last entry known to be committed.", t.Commit)
	one("loamd_applied_index", "counter", "Last entry in the database.", t.Applied)
	one("loamd_snapshot_index", "counter", "Last entry of the last snapshot.", t.LastSnapshot)
	one("loamd_members", "gauge", "Nodes of the cluster.", len(t.Members))
	one("loamd_clients", "gauge", "Clients connected now.", s.counts.clients.Load())
	one("loamd_refused_total", "counter", "Connections refused.", s.counts.refused.Load())
	one("loamd_malformed_total", "counter", "Connections closed for a malformed frame.",
		s.counts.malformed.Load())
	one("loamd_shed_total", "counter", "Calls refused for lack of memory.", s.counts.shed.Load())
	for _, f := range []struct {
		name, help string
		value      func(*callCounts) any
	}{
		{"loamd_calls_total", "Calls answered.",
			func(c *callCounts) any { return c.answered.Load() }},
		{"loamd_call_errors_total", "Calls answered by an error.",
			func(c *callCounts) any { return c.failed.Load() }},
		{"loamd_call_seconds_total", "Time from the arrival of calls to their answers.",
			func(c *callCounts) any { return time.Duration(c.nanoseconds.Load()).Seconds() }},
	} {
		family(f.name, "counter", f.help)
		for op := range s.counts.calls {
			name := wire.Operation(op).String()
			if op == 0 {
				name = "unknown"
			}
			fmt.Fprintf(&b, "%s{operation=%q} %v\n", f.name, name, f.value(&s.counts.calls[op]))
		}
	}
	return b.String()
}
