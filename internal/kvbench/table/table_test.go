package table

import (
	"fmt"
	"testing"
)

func TestTrim(t *testing.T) {
	got := Trim([][]string{{"a", "published", "c"}, {"1", "-", "-"}, {"2", "", "3"}})
	if want := "[[a c] [1 -] [2 3]]"; fmt.Sprint(got) != want {
		t.Errorf("%v", got)
	}
}

// TestPublished has the year of a source in the title of its column, if it is known.
func TestPublished(t *testing.T) {
	for source, want := range map[string]string{"": "published",
		"LevelDB's README, 2011: Core 2 Quad Q6600 2.40 GHz": "published (2011)",
		"24 cores: 120110 entries, 5.2 us":                   "published"} {
		if got := Published(source); got != want {
			t.Errorf("%q: %q", source, got)
		}
	}
	titles := []string{"us/op", "published", "times"}
	Retitle(titles, "none", "x")
	Retitle(titles, "published", "published (2011)")
	if fmt.Sprint(titles) != "[us/op published (2011) times]" {
		t.Errorf("%v", titles)
	}
}

func TestTurn(t *testing.T) {
	got := Turn([][]string{{"a", "b", "c"}, {"1", "2", "3"}})
	if want := "[[a 1] [b 2] [c 3]]"; fmt.Sprint(got) != want {
		t.Errorf("%v", got)
	}
}
