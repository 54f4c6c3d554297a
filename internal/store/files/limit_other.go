//go:build !unix

package files

// defaultMaxOpen is the bound on descriptors until SetMaxOpen. Windows has no
// small limit per process.
func defaultMaxOpen() int { return maxOpenFor(8192) }
