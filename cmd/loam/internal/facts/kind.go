package facts

import (
	"os"
	"path/filepath"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/feature/examine"
)

// OtherVerb says which verb shows the file at path, if that is another one than verb; else "".
func OtherVerb(path, verb string) string {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return path + " is a directory: name a file in it, which \"loam info\" and \"loam " +
			"tables\" list"
	}
	t, _, _ := examine.Kind(filepath.Base(path))
	for _, k := range []struct {
		t          base.FileType
		verb, what string
	}{{base.FileTable, "sst", "a table"}, {base.FileLog, "wal", "a write-ahead log"},
		{base.FileManifest, "manifest", "a MANIFEST"}} {
		if t == k.t && verb != k.verb {
			return path + " is " + k.what + " by its name: use \"loam " + k.verb + "\""
		}
	}
	return ""
}
