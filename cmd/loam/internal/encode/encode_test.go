package encode

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// FuzzRoundTrip reads what was written back, in every encoding and as a member of JSON.
func FuzzRoundTrip(f *testing.F) {
	for _, s := range []string{"", "ash", "\\x00", "\x00\xff\n\t\r\\", "äöü\u2028\u00a0", `{"a":1}`,
		"\"quoted\"", "\ufffd", "\xed\xa0\x80"} {
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
	})
}
