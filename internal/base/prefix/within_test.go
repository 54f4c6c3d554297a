package prefix

import (
	"bytes"
	"testing"
)

// TestWithin compares Within with all keys of up to three bytes out of four.
func TestWithin(t *testing.T) {
	keys := [][]byte{{}}
	for from := 0; len(keys) < 1+4+16+64; from++ {
		for _, b := range []byte{0, 1, 0xfe, 0xff} {
			keys = append(keys, append(bytes.Clone(keys[from]), b))
		}
	}
	// A bound of four bytes, behind all keys of the universe that are smaller.
	uppers := append([][]byte{nil, {1, 0, 0, 0}, {0xff, 0xff, 0xff, 0xff}}, keys...)
	within := 0
	for _, lower := range keys {
		for _, upper := range uppers {
			for n := 1; n <= 3; n++ {
				got := Within(lower, upper, n)
				if got {
					within++
				}
				for _, key := range keys {
					if bytes.Compare(key, lower) >= 0 &&
						(upper == nil || bytes.Compare(key, upper) < 0) && got &&
						!bytes.HasPrefix(key, lower[:n]) {
						t.Fatalf("[%x, %x): %x does not begin with %d bytes of it", lower, upper,
							key, n)
					}
				}
			}
		}
		for n := 1; n <= len(lower); n++ {
			end := bytes.Clone(lower[:n])
			for len(end) > 0 && end[len(end)-1] == 0xff {
				end = end[:len(end)-1]
			}
			if len(end) == 0 {
				end = nil
			} else {
				end[len(end)-1]++
			}
			if !Within(lower, end, n) || !Within(lower, append(bytes.Clone(lower), 0), n) {
				t.Errorf("[%x, %x) and what is in it are not within %d bytes", lower, end, n)
			}
			if end != nil && Within(lower, append(bytes.Clone(end), 0), n) {
				t.Errorf("[%x, %x00) is within %d bytes", lower, end, n)
			}
		}
	}
	if within == 0 {
		t.Error("nothing is within")
	}
}
