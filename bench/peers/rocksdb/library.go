//go:build cgo && rocksdb

package rocksdb

import (
	"bytes"
	"debug/elf"
	"os"
	"strings"
	"sync/atomic"
)

// slowCRC is set when the engine's own log said that it has no fast checksum.
var slowCRC atomic.Bool

// noteLog looks at what the engine wrote into its log when it was opened.
func noteLog(dir string) {
	b, err := os.ReadFile(dir + "/LOG")
	if err != nil {
		return
	}
	for line := range strings.Lines(string(b)) {
		if _, said, ok := strings.Cut(line, "Fast CRC32 supported:"); ok {
			slowCRC.Store(strings.Contains(strings.ToLower(said), "not"))
			return
		}
	}
}

// library names the defects of the loaded shared library that would distort a measurement.
func library() []string {
	var notes []string
	if path := loaded("librocksdb"); path != "" {
		notes = append(notes, path)
		if asserts(path) {
			notes = append(notes,
				"WARNING: this library was built with assertions, which slow it down")
		}
	}
	if slowCRC.Load() {
		notes = append(notes, "WARNING: this library computes crc32c in software")
	}
	return notes
}

// loaded is the file of a library that is mapped into this process.
func loaded(name string) string {
	b, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if i := strings.IndexByte(line, '/'); i >= 0 && strings.Contains(line[i:], name) {
			return strings.TrimSpace(line[i:])
		}
	}
	return ""
}

// asserts reports whether a library was built with assertions: each assertion keeps its function's
// name in the binary.
func asserts(path string) bool {
	f, err := elf.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	s := f.Section(".rodata")
	if s == nil {
		return false
	}
	text, err := s.Data()
	return err == nil && bytes.Contains(text, []byte("rocksdb::DBImpl::"))
}
