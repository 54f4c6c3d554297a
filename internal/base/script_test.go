package base

import (
	"fmt"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/testkit/script"
)

var fileTypes = map[FileType]string{FileUnknown: "unknown", FileLog: "log", FileTable: "table",
	FileManifest: "manifest", FileCurrent: "current", FileLock: "lock", FileInfoLog: "info log",
	FileTemp: "temporary"}

// TestScript runs testdata/script. The commands:
//
//	names             what each name of the input is in LevelDB's and in the native format
//	order of=NAME     sorts the keys of the input by a comparer, equal ones in one line
//	separate of=NAME  for each line "a b", keys that a table's index may have between them, and
//	                  after b
//	sizes             what each size of the input is in bytes
func TestScript(t *testing.T) {
	script.Run(t, "testdata/script", func(c *script.Command) string {
		var out []string
		switch c.Name {
		case "names":
			for _, name := range c.Lines() {
				l, n := LevelDB.ParseFileName(name)
				m, k := Native.ParseFileName(name)
				out = append(out, fmt.Sprintf("%s: %s %d, %s %d", name, fileTypes[l], n,
					fileTypes[m], k))
			}
		case "order":
			cmp := comparer(c)
			out = append(out, inOrder(cmp, c.Lines()))
		case "separate":
			cmp := comparer(c)
			for _, line := range c.Lines() {
				f := strings.Fields(line)
				a, b := []byte(f[0]), []byte(f[1])
				s, next := cmp.AppendSeparator(nil, a, b), cmp.AppendSuccessor(nil, b)
				if cmp.Cmp(a, s) > 0 || cmp.Cmp(s, b) >= 0 || cmp.Cmp(b, next) > 0 {
					c.Fail("%q, %q: %q and %q are out of order", a, b, s, next)
				}
				out = append(out, fmt.Sprintf("%q %q", s, next))
			}
		case "sizes":
			for _, s := range c.Lines() {
				n, ok := ParseSize(s)
				out = append(out, fmt.Sprintf("%s: %d %v", s, n, ok))
			}
		default:
			return c.Unknown()
		}
		return strings.Join(out, "\n")
	})
}

func comparer(c *script.Command) *Comparer {
	cmp, names := ComparerNamed(c.Arg("of", "leveldb.BytewiseComparator"))
	if cmp == nil {
		c.Fail("known are %v", names)
	}
	return cmp
}

// inOrder sorts keys by insertion, so that it needs nothing but Cmp.
func inOrder(cmp *Comparer, keys []string) string {
	var groups [][]string
next:
	for _, k := range keys {
		for i, g := range groups {
			switch o := cmp.Cmp([]byte(k), []byte(g[0])); {
			case o == 0:
				groups[i] = append(g, k)
				continue next
			case o < 0:
				groups = append(groups[:i], append([][]string{{k}}, groups[i:]...)...)
				continue next
			}
		}
		groups = append(groups, []string{k})
	}
	var out []string
	for _, g := range groups {
		out = append(out, strings.Join(g, " = "))
	}
	return strings.Join(out, "\n")
}
