package ui

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"

	"github.com/loamdb/loam/lsm"
)

//go:embed page.html
var page []byte

// policy lets the page run its own script and style, and ask its own server.
var policy = "default-src 'none'; connect-src 'self'; img-src data:; script-src " +
	hashOf("script") + "; style-src " + hashOf("style") +
	"; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// hashOf is the hash of the contents of the one element of that name in the page.
func hashOf(element string) string {
	_, text, _ := strings.Cut(string(page), "<"+element+">")
	text, _, _ = strings.Cut(text, "</"+element+">")
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

const (
	// slots is how many requests are answered at once; the others wait.
	slots = 4
	// maxBody bounds what is sent with a POST, in bytes.
	maxBody = 64 << 10
)

// server answers the page.
type server struct {
	Options
	dir      string
	token    string
	slots    chan struct{}
	follower follower
	calls    map[string]call
}

// call is what the page may ask for.
type call struct {
	method string
	do     func(ctx context.Context, q query) (any, error)
}

func newServer(dir, token string, o Options) *server {
	s := &server{Options: o, dir: dir, token: token, slots: make(chan struct{}, slots)}
	s.follower.open = func() (*lsm.Follower, error) {
		opts, err := o.Options()
		if err != nil {
			return nil, err
		}
		return lsm.OpenFollower(dir, opts)
	}
	s.calls = map[string]call{
		"/api/live":       {http.MethodGet, s.live},
		"/api/scan":       {http.MethodGet, s.scan},
		"/api/value":      {http.MethodGet, s.value},
		"/api/tables":     {http.MethodGet, s.tables},
		"/api/table":      {http.MethodGet, s.table},
		"/api/logs":       {http.MethodGet, s.logs},
		"/api/log":        {http.MethodGet, s.log},
		"/api/manifest":   {http.MethodGet, s.manifest},
		"/api/flush":      {http.MethodPost, s.flush},
		"/api/compact":    {http.MethodPost, s.compact},
		"/api/checkpoint": {http.MethodPost, s.checkpoint},
	}
	return s
}

// ServeHTTP answers a request that has the token.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	for name, value := range map[string]string{
		"Content-Security-Policy":      policy,
		"Cache-Control":                "no-store",
		"Cross-Origin-Opener-Policy":   "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin",
		"Referrer-Policy":              "no-referrer",
		"X-Content-Type-Options":       "nosniff",
		"X-Frame-Options":              "DENY",
	} {
		h.Set(name, value)
	}
	c, known := s.calls[r.URL.Path]
	if r.URL.Path == "/" {
		c, known = call{method: http.MethodGet}, true
	}
	switch {
	case !local(r.Host):
		s.fail(w, http.StatusForbidden, fmt.Errorf("the page is at 127.0.0.1, not at %.100q",
			r.Host))
	case !known:
		s.fail(w, http.StatusNotFound, errors.New("there is nothing at this address"))
	case r.Method != c.method:
		h.Set("Allow", c.method)
		s.fail(w, http.StatusMethodNotAllowed, fmt.Errorf("the method is %s", c.method))
	case c.do == nil:
		h.Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(page)
	case !s.authorized(r):
		s.fail(w, http.StatusForbidden, errors.New("the token is missing or wrong: open the "+
			"address that loam ui printed"))
	case c.method == http.MethodPost && !s.Write:
		s.fail(w, http.StatusForbidden, fmt.Errorf("%w here: the page changes nothing; start "+
			"loam ui with --write", lsm.ErrReadOnly))
	default:
		s.answer(w, r, c)
	}
}

// local reports whether a request came by the name of this machine. A stranger's page whose name
// was bound to 127.0.0.1 asks by that name.
func local(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return host == "127.0.0.1" || host == "localhost"
}

// authorized compares the token. It is in a header, which other pages cannot send without being
// asked first; a cookie would go to all ports of this machine.
func (s *server) authorized(r *http.Request) bool {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	from := r.Header.Get("Sec-Fetch-Site")
	return ok && subtle.ConstantTimeCompare([]byte(token), []byte(s.token)) == 1 &&
		(from == "" || from == "same-origin")
}

func (s *server) answer(w http.ResponseWriter, r *http.Request, c call) {
	ctx := r.Context()
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return
	}
	q, err := queryOf(w, r)
	var body []byte
	if err == nil {
		body, err = protected(ctx, q, c)
	}
	if err != nil {
		s.fail(w, statusOf(err), err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body)
}

// protected makes a panic an error.
func protected(ctx context.Context, q query, c call) (body []byte, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("fault of the program, please report it: %v\n%s", v, debug.Stack())
		}
	}()
	result, err := c.do(ctx, q)
	if err != nil {
		return nil, err
	}
	return json.Marshal(result)
}

func statusOf(err error) int {
	switch {
	case errors.Is(err, lsm.ErrInvalidArgument):
		return http.StatusBadRequest
	case errors.Is(err, lsm.ErrNotFound), errors.Is(err, lsm.ErrNoKeyspace):
		return http.StatusNotFound
	}
	return http.StatusInternalServerError
}

// fail answers with an error, as the other verbs say it.
func (s *server) fail(w http.ResponseWriter, status int, err error) {
	hint := ""
	if s.Hint != nil {
		hint = s.Hint(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": err.Error(), "hint": hint})
}

// query is what a request says.
type query struct{ url.Values }

func queryOf(w http.ResponseWriter, r *http.Request) (query, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return query{}, fmt.Errorf("%w: the address: %w", lsm.ErrInvalidArgument, err)
	}
	if r.Method != http.MethodPost {
		return query{values}, nil
	}
	var body map[string]string
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	if err := d.Decode(&body); err != nil {
		return query{}, fmt.Errorf("%w: a request is an object of JSON with strings: %w",
			lsm.ErrInvalidArgument, err)
	}
	for name, value := range body {
		values.Set(name, value)
	}
	return query{values}, nil
}

// keyspace is the one that the request names.
func (q query) keyspace() string {
	if name := q.Get("keyspace"); name != "" {
		return name
	}
	return "default"
}
