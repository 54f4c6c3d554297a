package progress

import (
	"testing"
	"time"
)

func TestBarText(t *testing.T) {
	for _, tt := range []struct {
		done, total, moved int64
		elapsed            time.Duration
		want               string
	}{
		{0, 100, 0, 0, "x            [                              ]   0%"},
		{50, 100, 50, 10 * time.Second, "x            [===============               ]  50%  5 " +
			"ops/s  10s left"},
		{200, 100, 100, time.Second, "x            [==============================] 100%  " +
			"100 ops/s"},
		{0, 1, 0, 3 * time.Second, "x            3s"},
	} {
		if got := barText("x", tt.done, tt.total, tt.moved, tt.elapsed); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}
