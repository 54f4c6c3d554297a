package testkit

import (
	"os"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/preview"
	"github.com/loamdb/loam/lsm"
)

// FormatEnv names a format, "leveldb" or "native". New databases of a test, and of the
// processes that it starts, have it where their options name none.
const FormatEnv = "LOAM_FORMAT"

// formats are those that EachFormat and Format go over; none if FormatEnv is misspelled.
var formats = []lsm.Format{lsm.FormatLevelDB, lsm.FormatNative}

func init() {
	name := os.Getenv(FormatEnv)
	if name == "" {
		return
	}
	var o lsm.Options
	if o.Set("format", name) != nil {
		formats = nil
		return
	}
	formats = []lsm.Format{o.Format}
	useFormat(o.Format)
}

// useFormat makes a format the default one of this process, until restore.
func useFormat(f lsm.Format) (restore func()) {
	format := base.LevelDB
	if f == lsm.FormatNative {
		format = base.Native
	}
	before := preview.SetDefaultFormat(format)
	return func() { preview.SetDefaultFormat(before) }
}

// UseFormat makes a format the default one of this process, until restore.
func UseFormat(f lsm.Format) (restore func()) { return useFormat(f) }

// EachFormat runs a test once for each format, or for that of FormatEnv alone. share is
// how many times it runs, so that all runs together can have the usual size.
func EachFormat(t *testing.T, test func(t *testing.T, share int)) {
	if len(formats) == 0 {
		t.Fatalf("%s=%s: no such format", FormatEnv, os.Getenv(FormatEnv))
	}
	for _, f := range formats {
		t.Run(f.String(), func(t *testing.T) {
			t.Setenv(FormatEnv, f.String())
			defer useFormat(f)()
			test(t, len(formats))
		})
	}
}

// Format returns the format of the nth run of a randomized test: they take turns.
func Format(n int64) lsm.Format { return formats[uint64(n)%uint64(len(formats))] }
