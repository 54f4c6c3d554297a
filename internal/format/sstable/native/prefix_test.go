package native_test

import (
	"testing"

	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/format/sstable/native"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/tables"
)

// TestPrefixesInParts: a filter in parts holds the prefixes of all its keys.
func TestPrefixesInParts(t *testing.T) {
	for _, part := range []int{1, 200, 1000} {
		tables.Parts(t, func(f vfs.WriteFile, o sstable.WriterOptions) sstable.Writer {
			return native.NewPartitioned(f, o, 0, part)
		}, format.Open)
	}
}
