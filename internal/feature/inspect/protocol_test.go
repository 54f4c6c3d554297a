package inspect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/base"
)

// TestParseRequest: malformed requests are refused, and limits are bounded.
func TestParseRequest(t *testing.T) {
	for _, line := range []string{
		"", "\n", "{", "}", "[]", `"info"`, "null x", "{}", `{"do":""}`, `{"do":"scan"} {}`,
		`{"do":"scan","limits":1}`, `{"do":"scan","limit":-1}`, `{"do":"scan","max_value":-1}`,
		`{"do":"scan","limit":1e99}`, `{"do":"scan","from":"%"}`, `{"do":7}`, "\x00\xff",
		strings.Repeat("[", MaxRequest-1),
	} {
		if r, err := ParseRequest([]byte(line)); !errors.Is(err, base.ErrInvalidArgument) {
			t.Errorf("%.40q: %+v, %v", line, r, err)
		}
	}
	large := `{"do":"scan","from":"AP8=","limit":99999999,"max_value":9999999}`
	r, err := ParseRequest([]byte(large))
	if err != nil || !bytes.Equal(r.From, []byte{0, 255}) || r.To != nil ||
		r.Limit != MaxEntries || r.MaxValue != MaxValue {
		t.Errorf("%+v, %v", r, err)
	}
	for _, sent := range []Request{{Do: "scan"}, {Do: "scan", From: []byte{}, Past: true},
		{Do: "scan", To: []byte{}}} { // the empty key is a bound, too
		line, err := json.Marshal(sent)
		if err != nil {
			t.Fatal(err)
		}
		r, err := ParseRequest(line)
		if err != nil || (r.From == nil) != (sent.From == nil) ||
			(r.To == nil) != (sent.To == nil) {
			t.Errorf("%s: %+v, %v", line, r, err)
		}
	}
}

// TestErrorsKeepTheirKind on their way through an answer.
func TestErrorsKeepTheirKind(t *testing.T) {
	for _, k := range kinds {
		sent := fmt.Errorf("scanning: %w", k.err)
		got := decode(encode(nil, sent), nil)
		if !errors.Is(got, k.err) || got.Error() != sent.Error() {
			t.Errorf("%s: %v became %v", k.name, sent, got)
		}
	}
	got := decode(encode(nil, fs.ErrPermission), nil)
	if got == nil || errors.Unwrap(got) != nil || got.Error() != fs.ErrPermission.Error() {
		t.Errorf("an error of another kind: %v", got)
	}
	if err := decode(encode(func() {}, nil), nil); err == nil {
		t.Error("a result that JSON cannot say is no error")
	}
	if err := decode([]byte("loam"), nil); err == nil {
		t.Error("an answer that is no JSON is no error")
	}
}

// FuzzRequest: a request within its bounds or ErrInvalidArgument, whatever a client sends.
func FuzzRequest(f *testing.F) {
	f.Add([]byte(`{"do":"scan","keyspace":"a","from":"AA==","to":"/w==","limit":5,"hold":true}`))
	f.Add([]byte(`{"do":"events","after":18446744073709551615}`))
	f.Add([]byte(`{"do":"backup","dir":"/tmp/\u0000"}{`))
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := ParseRequest(line)
		switch {
		case err != nil && !errors.Is(err, base.ErrInvalidArgument):
			t.Errorf("%q: %v", line, err)
		case err == nil && (r.Do == "" || r.Limit < 1 || r.Limit > MaxEntries ||
			r.MaxValue < 1 || r.MaxValue > MaxValue):
			t.Errorf("%q: %+v", line, r)
		}
	})
}

// TestEvents: the last ones are kept, in order.
func TestEvents(t *testing.T) {
	e := &Events{}
	if list, last := e.After(0); len(list) != 0 || last != 0 {
		t.Errorf("%v, %d", list, last)
	}
	for i := range 3 * maxEvents {
		e.Add("x", struct{ N int }{i + 1})
		list, last := e.After(0)
		if n := min(i+1, maxEvents); len(list) != n || last != uint64(i+1) ||
			list[n-1].Number != last || list[0].Number != last-uint64(n)+1 {
			t.Fatalf("after %d: %d events, %d", i+1, len(list), last)
		}
	}
	list, last := e.After(3*maxEvents - 2)
	if len(list) != 2 || last != 3*maxEvents ||
		list[1].Detail.(map[string]any)["n"] != 3*maxEvents {
		t.Errorf("%v, %d", list, last)
	}
	for _, after := range []uint64{last, last + 1, 1<<64 - 1} {
		if list, _ := e.After(after); len(list) != 0 {
			t.Errorf("after %d: %v", after, list)
		}
	}
	(*Events)(nil).Add("x", nil)
}
