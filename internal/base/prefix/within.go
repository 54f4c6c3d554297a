package prefix

import "bytes"

// Within reports whether all keys in [lower, upper), in the order of bytes, begin with the
// first n bytes of lower, of which there are so many. A nil upper is no bound.
func Within(lower, upper []byte, n int) bool {
	if len(lower) < n {
		return false
	}
	// The keys that begin with p end where its last byte below 0xff, at i, goes up by one.
	p, i := lower[:n], n-1
	for i >= 0 && p[i] == 0xff {
		i--
	}
	switch {
	case i < 0:
		return true
	case upper == nil || len(upper) <= i || !bytes.Equal(upper[:i], p[:i]):
		return false
	case upper[i] == p[i]:
		return true
	}
	return upper[i] == p[i]+1 && len(upper) == i+1
}
