package world

import (
	"testing"

	"github.com/loamdb/loam/internal/testkit/seed"
	"github.com/loamdb/loam/lsm"
)

// TestHistories runs histories on both formats.
func TestHistories(t *testing.T) {
	runs := seed.Scale(seed.Brief(15, 30), 30, 3000)
	first := seed.Of(t)
	for _, format := range []lsm.Format{lsm.FormatNative, lsm.FormatLevelDB} {
		t.Run(format.String(), func(t *testing.T) {
			for i := range int64(runs) {
				if err := Run(first+i, Settings{Format: format, Keys: 4 + int(i%4)*12},
					250); err != nil {
					t.Fatalf("%s=%d, run %d: %v", seed.Env, first, i, err)
				}
			}
		})
	}
}

// TestEmptyKeyBetweenOthers runs histories under an order that has the empty key between others.
func TestEmptyKeyBetweenOthers(t *testing.T) {
	runs := seed.Scale(seed.Brief(6, 12), 12, 600)
	first := seed.Of(t)
	for i := range int64(runs) {
		format := []lsm.Format{lsm.FormatNative, lsm.FormatLevelDB}[i%2]
		if err := Run(first+i, Settings{Format: format, Keys: 4 + int(i%4)*12, EmptyBetween: true},
			250); err != nil {
			t.Fatalf("%s=%d, run %d: %v", seed.Env, first, i, err)
		}
	}
}

// TestLongHistories runs histories with many keys, so that tables and levels come up.
func TestLongHistories(t *testing.T) {
	runs := seed.Scale(1, 1, 60)
	first := seed.Of(t)
	for i := range int64(runs) {
		format := []lsm.Format{lsm.FormatNative, lsm.FormatLevelDB}[i%2]
		if err := Run(first+i, Settings{Format: format, Keys: 300}, 3000); err != nil {
			t.Fatalf("%s=%d, run %d: %v", seed.Env, first, i, err)
		}
	}
}

// TestBeside runs histories on several goroutines in one database.
func TestBeside(t *testing.T) {
	runs := seed.Scale(2, 2, 100)
	first := seed.Of(t)
	for i := range int64(runs) {
		if err := Beside(first+i, 10+int(i%2)*90, 4, 2000); err != nil {
			t.Fatalf("%s=%d, run %d: %v", seed.Env, first, i, err)
		}
	}
}

// TestReverseScanOfFreedKeys: a cursor that goes backward past a key that has ended, then past
// entries that a range tombstone hides, reads no key of a chunk that is gone. The read shows in
// builds with the tag unmap.
func TestReverseScanOfFreedKeys(t *testing.T) {
	o := Settings{Format: lsm.FormatNative, Keys: 40}
	if err := Run(13_062_535, o, 1000); err != nil {
		t.Fatal(err)
	}
}
