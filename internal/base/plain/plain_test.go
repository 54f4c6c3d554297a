package plain

import (
	"errors"
	"reflect"
	"testing"
	"time"
)

// TestOf: names, units and texts.
func TestOf(t *testing.T) {
	type inner struct{ WALSync, WriteDelayPerKiB, P9999 int }
	type shown struct {
		Took    time.Duration
		Inner   []inner
		Key     []byte
		Failure error
		None    error
		ByCause map[string]inner
		hidden  int
	}
	got := Of(&shown{Took: 5, Inner: []inner{{1, 2, 3}}, Key: []byte{0xab},
		Failure: errors.New("why"), ByCause: map[string]inner{"x": {}}, hidden: 1})
	want := map[string]any{
		"took_ns": time.Duration(5), "key": "ab", "failure": "why", "none": nil,
		"inner": []any{map[string]any{"wal_sync": 1, "write_delay_per_kib": 2, "p9999": 3}},
		"by_cause": map[string]any{"x": map[string]any{"wal_sync": 0, "write_delay_per_kib": 0,
			"p9999": 0}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}
