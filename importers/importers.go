// Package importers copies databases of other engines into new Loam databases.
//
// Each engine is read by its own library, in a package below this one, which registers nothing:
// a program puts the engines that it wants into a table of Open functions. A source is opened
// read-only, and shows one state. What Loam cannot hold is an error that says so, never left out.
//
// A Source is used by one goroutine; Convert is safe for concurrent use with different directories.
package importers

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/loamdb/loam/lsm"
)

// ErrUnsupported is wrapped by errors about entries or orders that have no equal in Loam, such as
// several values of one key.
var ErrUnsupported = errors.New("no equal in Loam")

// ErrInUse is the error of a source that another process has open, where its library cannot read
// beside that.
var ErrInUse = errors.New("another process has the database open")

// Entry is a key with its value. Both are valid until visit returns.
type Entry struct {
	Key, Value []byte
	// Expires is when the entry ends; the zero time: never.
	Expires time.Time
}

// Source is a database of another engine.
type Source interface {
	// Spaces are the names of column families, buckets, databases or tables, as keyspaces will have
	// them. An engine without such parts has "default" alone.
	Spaces() []string
	// Each calls visit with each entry of a space, each key once, until visit fails.
	Each(space string, visit func(Entry) error) error
	// Close gives everything back that Open took.
	Close() error
}

// Options say how a source is read. The zero value has the defaults.
type Options struct {
	// Lossy takes what has an equal in Loam but for a part, which is left out: Badger's byte of
	// metadata, the order of LMDB's integer and reversed keys, RocksDB's logs in another directory.
	Lossy bool
	// Key opens an encrypted database of Badger. Nil: it is not encrypted.
	Key []byte
}

// Open opens a source at path.
type Open func(path string, o Options) (Source, error)

// Unsupported is an error that wraps ErrUnsupported.
func Unsupported(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrUnsupported, fmt.Sprintf(format, args...))
}

// Regular fails unless path is a regular file.
func Regular(path string) error {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no file: name the file of the database", path)
	}
	return err
}

// Filled fails unless path is a regular file that is not empty, as a copy that did not begin leaves
// it. Libraries report such a file as if it was missing, or could not be written.
func Filled(path string) error {
	err := Regular(path)
	if err == nil {
		var info os.FileInfo
		if info, err = os.Stat(path); err == nil && info.Size() == 0 {
			err = fmt.Errorf("%s is empty, and no database", path)
		}
	}
	return err
}

// Directory fails unless path is a directory.
func Directory(path string) error {
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is no directory: name the directory of the database", path)
	}
	return err
}

// Default is the name of the keyspace that each database has.
const Default = "default"

// longestName is how long the name of a keyspace may be, in bytes.
const longestName = 255

// Name makes the name of a keyspace of a name that may be any bytes: those that no name may have,
// and percent signs, become %XX.
func Name(b []byte) (string, error) {
	var name strings.Builder
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 || r == '%' || unicode.IsControl(r) {
			for _, c := range b[:n] {
				fmt.Fprintf(&name, "%%%02X", c)
			}
		} else {
			name.Write(b[:n])
		}
		b = b[n:]
	}
	switch s := name.String(); {
	case s == "":
		return "", Unsupported("a part of the database with an empty name")
	case len(s) > longestName:
		return "", Unsupported("the name %.40s... is longer than %d bytes", s, longestName)
	default:
		return s, nil
	}
}

// Names collects the names of spaces, and refuses two that are the same.
type Names struct {
	All  []string
	seen map[string]bool
}

// Add appends a name.
func (n *Names) Add(name string) error {
	if n.seen[name] {
		return Unsupported("two parts of the database would both be the keyspace %q", name)
	}
	if n.seen == nil {
		n.seen = map[string]bool{}
	}
	n.seen[name] = true
	n.All = append(n.All, name)
	return nil
}

// loamOptions are those of the new database.
func loamOptions() *lsm.Options { return &lsm.Options{ErrorIfExists: true} }
