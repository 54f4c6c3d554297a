package settings

import (
	"io/fs"
	"path/filepath"
	"runtime/debug"
)

// Answers are the values of a MultiGet made of single reads.
type Answers struct {
	data  []byte
	ends  []int
	found []bool
}

// Value returns the i-th answer.
func (a *Answers) Value(i int) ([]byte, bool) {
	start := 0
	if i > 0 {
		start = a.ends[i-1]
	}
	return a.data[start:a.ends[i]], a.found[i]
}

// Reset empties a.
func (a *Answers) Reset() { a.data, a.ends, a.found = a.data[:0], a.ends[:0], a.found[:0] }

// Add appends an answer.
func (a *Answers) Add(value []byte, found bool) {
	if found {
		a.data = append(a.data, value...)
	}
	a.ends = append(a.ends, len(a.data))
	a.found = append(a.found, found)
}

// Fill reads the keys one by one; get appends to its argument.
func (a *Answers) Fill(keys [][]byte, get func(key, dst []byte) ([]byte, bool, error)) error {
	a.Reset()
	for _, k := range keys {
		data, found, err := get(k, a.data)
		if err != nil {
			return err
		}
		a.data = data
		a.ends = append(a.ends, len(data))
		a.found = append(a.found, found)
	}
	return nil
}

// ModuleVersion is the version of a module that the program was built with.
func ModuleVersion(path string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == path {
				return m.Version
			}
		}
	}
	return "unknown"
}

// DirSize is the size and number of the files in dir with one of the suffixes;
// none given: all files.
func DirSize(dir string, suffixes ...string) (bytes, files int64) {
	// A file that goes away meanwhile is not counted.
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		match := len(suffixes) == 0
		for _, s := range suffixes {
			match = match || filepath.Ext(path) == s
		}
		if info, err := d.Info(); match && err == nil {
			bytes += info.Size()
			files++
		}
		return nil
	})
	return bytes, files
}
