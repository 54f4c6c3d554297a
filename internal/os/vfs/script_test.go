package vfs

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/testkit/script"
)

// TestScript runs testdata/script: what a Mem keeps over a power cut. The commands:
//
//	write NAME text=abc   appends to a file, which is created, and closed at the next crash;
//	                      n=5000 writes so many bytes; log makes it a log, ahead=N
//	sync NAME, sync-dir DIR, mkdir DIR, rename OLD NEW, link OLD NEW, remove NAME
//	crash                 shows the files after a power cut of which nothing unsynced is left;
//	                      all: a kill, after which all is left; blocks=(1) keeps these blocks of
//	                      files; entries keeps changes of directories; torn=N keeps so much of
//	                      the last append. The file system goes on as it was
func TestScript(t *testing.T) {
	m := NewMem()
	open := map[string]any{}
	script.Run(t, "testdata/script", func(c *script.Command) string {
		var args []string
		for _, a := range c.Args() {
			if len(a.Values) == 0 {
				args = append(args, a.Key)
			}
		}
		var err error
		switch c.Name {
		case "new":
			m, open = NewMem(), map[string]any{}
		case "write":
			err = write(c, m, open, args[0])
		case "sync":
			err = open[args[0]].(interface{ Sync() error }).Sync()
		case "sync-dir":
			err = m.SyncDir(args[0])
		case "mkdir":
			err = m.MkdirAll(args[0])
		case "rename":
			err = m.Rename(args[0], args[1])
		case "link":
			err = m.Link(args[0], args[1])
		case "remove":
			err = m.Remove(args[0])
		case "crash":
			return tree(m.CrashClone(options(c)), "/")
		default:
			return c.Unknown()
		}
		if err != nil {
			return err.Error()
		}
		return ""
	})
}

func write(c *script.Command, m *Mem, open map[string]any, name string) (err error) {
	p := []byte(c.Arg("text", strings.Repeat("x", c.Int("n", 0))))
	f := open[name]
	switch {
	case f != nil:
	case c.Has("log"):
		f, err = m.CreateLog(name, int64(c.Int("ahead", 0)))
	default:
		f, err = m.Create(name)
	}
	if err != nil {
		return err
	}
	open[name] = f
	if l, ok := f.(Log); ok {
		return l.Append(p)
	}
	_, err = f.(WriteFile).Write(p)
	return err
}

func options(c *script.Command) CrashOptions {
	if c.Has("all") {
		return KeepAll()
	}
	o := DropAll()
	if c.Has("entries") {
		o.KeepEntry = func(DirOp) bool { return true }
	}
	if c.Has("blocks") {
		kept := " " + strings.Join(c.List("blocks"), " ") + " "
		o.KeepData = func(_ string, block int) bool {
			return strings.Contains(kept, " "+strconv.Itoa(block)+" ")
		}
	}
	if c.Has("torn") {
		o.Torn = func(_ string, n int) int { return min(n, c.Int("torn", 0)) }
	}
	return o
}

// tree lists files with their contents, long ones by runs of equal bytes.
func tree(m *Mem, dir string) string {
	names, err := m.List(dir)
	if err != nil {
		return err.Error()
	}
	var out strings.Builder
	for _, n := range names {
		path := dir + n
		info, err := m.Stat(path)
		if err != nil {
			return err.Error()
		}
		if info.IsDir() {
			out.WriteString(path + "/\n" + tree(m, path+"/"))
			continue
		}
		f, err := m.Open(path)
		if err != nil {
			return err.Error()
		}
		b := make([]byte, f.Size())
		if _, err := f.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) {
			return err.Error()
		}
		fmt.Fprintf(&out, "%s %s\n", path, spans(b))
	}
	return out.String()
}

func spans(b []byte) string {
	if len(b) < 40 {
		return fmt.Sprintf("%q", b)
	}
	var out []string
	for i := 0; i < len(b); {
		j := i
		for j < len(b) && b[j] == b[i] {
			j++
		}
		out = append(out, fmt.Sprintf("%d of %q", j-i, b[i:i+1]))
		i = j
	}
	return strings.Join(out, ", ")
}
