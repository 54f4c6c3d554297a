package vfs

import (
	"bytes"
	"errors"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// canMap reports whether files of the operating system are mapped here.
func canMap() bool {
	return (runtime.GOOS == "linux" || runtime.GOOS == "darwin") && ^uint(0)>>32 != 0
}

// TestMap: a Mapping has the file's bytes, as many as asked for, and needs neither
// descriptor nor name.
func TestMap(t *testing.T) {
	each(t, func(t *testing.T, fsys FS, dir string) {
		if _, ok := fsys.(OS); ok {
			if !canMap() {
				t.Skip("files are not mapped on this system")
			}
			fsys = OS{MapAnywhere: true} // wherever the temporary directory is
		}
		name := filepath.Join(dir, "a")
		content := strings.Repeat("0123456789abcdef", 1000)
		writeFile(t, fsys, name, content)
		f, err := fsys.Open(name)
		must(t, err)
		if m, err := Map(f, 0); err == nil || m != nil {
			t.Error("mapped no bytes")
		}
		m, err := Map(f, 15000)
		must(t, err)
		must(t, f.Close())
		must(t, fsys.Remove(name))
		if got := m.Bytes(); string(got) != content[:15000] {
			t.Errorf("%d bytes that differ", len(got))
		}
		must(t, m.Touch(100, 200))
		must(t, m.Close())
		must(t, m.Close())
		if m.Bytes() != nil {
			t.Error("bytes after Close")
		}
	})
}

// TestMapRefused: other readers of files are not mapped, nor is what a file does not have.
func TestMapRefused(t *testing.T) {
	m := NewMem()
	writeFile(t, m, "a", "hello")
	f, err := m.Open("a")
	must(t, err)
	if _, err := Map(struct{ ReadFile }{f}, 5); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	if _, err := Map(f, 6); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	must(t, f.Close())
	if _, err := Map(f, 5); err == nil {
		t.Error("mapped a closed file")
	}
}

// TestFaultyMapping: a Fault can refuse to map, and can make bytes in place fail.
func TestFaultyMapping(t *testing.T) {
	boom := errors.New("boom")
	var fail OpKind
	mem := NewMem()
	writeFile(t, mem, "a", "hello")
	fsys := NewFault(mem, func(op Op) Outcome {
		if op.Kind == fail && op.Name == "a" {
			return Outcome{Err: boom}
		}
		return Outcome{}
	})
	f, err := fsys.Open("a")
	must(t, err)
	fail = OpMap
	if _, err := Map(f, 5); !errors.Is(err, boom) {
		t.Error(err)
	}
	fail = OpTouch
	m, err := Map(f, 5)
	must(t, err)
	if err := m.Touch(1, 2); !errors.Is(err, boom) {
		t.Error(err)
	}
	fail = OpRead
	must(t, m.Touch(1, 2))
	if !bytes.Equal(m.Bytes(), []byte("hello")) {
		t.Errorf("%q", m.Bytes())
	}
}
