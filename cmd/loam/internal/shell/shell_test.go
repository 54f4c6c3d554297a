package shell

import (
	"slices"
	"testing"
)

// TestSplit: words have the bytes of the line, also those that are no UTF-8.
func TestSplit(t *testing.T) {
	for line, want := range map[string][]string{
		"":                          nil,
		"get  ash\telm ":            {"get", "ash", "elm"},
		"put 'a b' \"c d\" ''":      {"put", "a b", "c d", ""},
		`get a\ b \"c\' d\x00\\ \n`: {"get", "a b", `"c'`, `d\x00\\`, `\n`},
		"get 'a\\ b' ü":             {"get", `a\ b`, "ü"},
		"get \xff\x80 'a\xe2'":      {"get", "\xff\x80", "a\xe2"},
	} {
		if got, err := Split(line); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q is %q, %v", line, got, err)
		}
	}
	if words, err := Split("get 'ash"); err == nil {
		t.Errorf("without an end: %q", words)
	}
}
