package encode

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzRoundTrip reads what was written back, in every encoding and as a member of JSON.
func FuzzRoundTrip(f *testing.F) {
	for _, s := range []string{"", "ash", "\\x00", "\x00\xff\n\t\r\\", "äöü\u2028\u00a0", `{"a":1}`,
		"\"quoted\"", "\ufffd", "\xed\xa0\x80", " {\"a\" : \"<\u009b\U000e0001>\"}\n", " \"q\" ",
		"\"\xff\"", " 8e888"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, e := range []Encoding{Text, Hex, Base64} {
			s := e.Format(b)
			if strings.ContainsAny(s, "\n\t\x00") {
				t.Errorf("%s: %q is no single field", e, s)
			}
			if got, err := e.Decode(s); err != nil || !bytes.Equal(got, b) {
				t.Errorf("%s: %q -> %q -> %q, %v", e, b, s, got, err)
			}
			var members map[string]string
			line := append(e.AppendField([]byte{'{'}, "key", b), '}')
			if err := json.Unmarshal(line, &members); err != nil || len(members) != 1 {
				t.Fatalf("%s: %v", line, err)
			}
			for name, v := range members {
				as, ok := OfColumn(name, "key")
				got := []byte(v)
				var err error
				if as != Text {
					got, err = as.Decode(v)
				}
				if !ok || err != nil || !bytes.Equal(got, b) {
					t.Errorf("%s: %s -> %q, %v", e, line, got, err)
				}
			}
		}
		jsonRoundTrip(t, b)
	})
}

// jsonRoundTrip is the fuzz target of JSON, which has no white space but in strings. Keys come back
// as they were, and so do bytes that are no text.
func jsonRoundTrip(t *testing.T, b []byte) {
	keys, exact := JSON.OfKeys(), func(x []byte) bool { return bytes.Equal(x, b) }
	for _, e := range []Encoding{JSON, keys} {
		if e == JSON && utf8.Valid(b) {
			continue
		}
		s := e.Format(b)
		if got, err := e.Decode(s); err != nil || !exact(got) {
			t.Errorf("%s: %q -> %q -> %q, %v", e, b, s, got, err)
		}
	}
	var members map[string]json.RawMessage
	line := string(keys.AppendField([]byte{'{'}, "key", b)) + "}"
	if err := json.Unmarshal([]byte(line), &members); err != nil {
		t.Fatalf("%q -> %s: %v", b, line, err)
	}
	if raw, ok := members["key_json"]; ok && !exact(raw) {
		t.Errorf("%q -> %s", b, line)
	}
	if !utf8.Valid(b) {
		return
	}
	same := func(x []byte) bool {
		return bytes.Equal(x, b) || json.Valid(b) && bytes.TrimSpace(b)[0] != '"' &&
			reflect.DeepEqual(valueOf(t, x), valueOf(t, b))
	}
	s := JSON.Format(b)
	if got, err := JSON.Decode(s); err != nil || !same(got) {
		t.Errorf("%q -> %q -> %q, %v", b, s, got, err)
	}
	line = string(JSON.AppendField([]byte{'{'}, "key", b)) + "}"
	if !json.Valid([]byte(line)) {
		t.Errorf("%q -> %s", b, line)
	}
	for _, r := range s + line {
		if !strconv.IsPrint(r) {
			t.Errorf("%q -> %q %q, which has %U", b, s, line, r)
		}
	}
}

// valueOf parses JSON; numbers keep their texts, as some are too large for a float64.
func valueOf(t *testing.T, b []byte) (v any) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%q: %v", b, err)
	}
	return v
}

// TestUnquote: what has no text is refused, as all of it would become one character.
func TestUnquote(t *testing.T) {
	for quoted, want := range map[string]string{
		`"a"`: "a", `""`: "", `"\ufffd\u00e9"`: "\ufffd\u00e9",
		`"\ud83d\ude00\n\\u00"`:      "\U0001f600\n\\u00",
		`"\uD83D\uDE00\uD83D\uDE01"`: "\U0001f600\U0001f601",
	} {
		if got, err := Unquote([]byte(quoted)); err != nil || string(got) != want {
			t.Errorf("%s is %q, %v", quoted, got, err)
		}
	}
	for _, quoted := range []string{`"\ud800"`, `"\ude00"`, `"\ud800\ud800"`, `"\ud800\n"`,
		`"\ud800x"`, `"\ude00\ud83d"`, "\"\xff\"", "null", "1", `"a`} {
		if got, err := Unquote([]byte(quoted)); err == nil {
			t.Errorf("%s is %q", quoted, got)
		}
	}
}
