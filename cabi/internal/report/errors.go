package report

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/loamdb/loam/lsm"
)

// located is an error that concerns a path.
type located struct {
	path string
	error
}

func (l *located) Unwrap() error { return l.error }

// At says that an error concerns a database's directory.
func At(path string, err error) error {
	if err == nil {
		return nil
	}
	return &located{path, err}
}

// PathOf is the file or directory an error concerns, "" when none is known.
func PathOf(err error) string {
	var file *fs.PathError
	var link *os.LinkError
	var damage *lsm.CorruptionError
	var dir *located
	switch {
	case errors.As(err, &file):
		return file.Path
	case errors.As(err, &link):
		return link.New
	case errors.As(err, &damage):
		return damage.File
	case errors.As(err, &dir):
		return dir.path
	}
	return ""
}

// Printable is a string as UTF-8 without NUL.
func Printable(s string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\\0"), "\ufffd")
}
