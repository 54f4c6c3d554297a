package surroundings

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/lsm"
)

// sparse is a size that no disk here has.
const sparse = 1 << 40

// anyFile does to each kind of file of a native directory what can be done to any file.
func anyFile() (list []maker) {
	for kind, file := range map[string]func(p *place) string{
		"table":    (*place).table,
		"log":      (*place).log,
		"manifest": (*place).manifest,
		"current":  func(*place) string { return filepath.Join("CURRENT", "manifest") },
	} {
		add := func(name string, change func(p *place, name string)) {
			list = append(list, maker{name: kind + ": " + name, make: func(p *place) {
				change(p, file(p))
			}})
		}
		add("empty", func(p *place, name string) { p.write(name, nil) })
		add("missing", func(p *place, name string) { must(p.t, os.Remove(p.path(name))) })
		add("garbage", func(p *place, name string) {
			p.write(name, bytes.Repeat([]byte("garbage"), 10_000))
		})
		add("zeros", func(p *place, name string) { p.write(name, make([]byte, 100_000)) })
		add("half", func(p *place, name string) { b := p.read(name); p.write(name, b[:len(b)/2]) })
		add("twice", func(p *place, name string) {
			b := p.read(name)
			p.write(name, append(b, b...))
		})
		add("all a hole", func(p *place, name string) { p.write(name, nil); p.grow(name, sparse) })
		add("ends with a hole", func(p *place, name string) { p.grow(name, sparse) })
		add("a hole, then its end", func(p *place, name string) {
			b := p.read(name)
			p.grow(name, sparse)
			f, err := os.OpenFile(p.path(name), os.O_WRONLY|os.O_APPEND, 0)
			must(p.t, err)
			_, err = f.Write(b[len(b)-min(len(b), 4<<10):])
			must(p.t, err)
			must(p.t, f.Close())
		})
		add("directory", func(p *place, name string) { p.mkdir(name) })
		add("fifo", func(p *place, name string) { p.fifo(name) })
		add("device", func(p *place, name string) { p.link(name, "/dev/zero") })
		add("link", func(p *place, name string) { p.link(name, p.victim) })
	}
	return list
}

// newerVersion makes the MANIFEST one of a later version of the format.
func newerVersion(p *place) {
	var first manifest.Edit
	edits := p.edits()
	must(p.t, first.Decode(edits[0], base.Native))
	first.FormatVersion += 7
	p.write(p.manifest(),
		p.records(append([][]byte{first.Encode(nil, base.Native)}, edits[1:]...)...))
}

// newerTable makes the last bytes of a table those of a later version.
func newerTable(p *place) {
	name := p.table()
	b := p.read(name)
	end := b[len(b)-12:] // version, its complement, magic
	v := binary.LittleEndian.Uint16(end) + 7
	binary.LittleEndian.PutUint16(end, v)
	binary.LittleEndian.PutUint16(end[2:], ^v)
	p.write(name, b)
}

// levelDB puts a LevelDB database of other keys beside the files of the native one.
func (p *place) levelDB(rename func(name string) string) {
	other := filepath.Join(p.t.TempDir(), "other")
	db := open(p.t, other, &lsm.Options{Format: lsm.FormatLevelDB})
	must(p.t, db.Put([]byte("k of another database"), []byte("v"), lsm.NoSync))
	must(p.t, db.Flush())
	must(p.t, db.Put([]byte("l of another database"), []byte("v"), lsm.NoSync))
	must(p.t, db.Close())
	for name, text := range listing(p.t, other) {
		if to := rename(name); to != "" {
			p.write(to, []byte(text))
		}
	}
}

var nativeMakers = append(anyFile(),
	maker{name: "manifest: newer version", make: newerVersion},
	maker{name: "table: newer version", make: newerTable},
	maker{name: "levelDB: files beside", make: func(p *place) {
		p.levelDB(func(name string) string {
			if name == base.CurrentName || name == base.LockName {
				return ""
			}
			return name
		})
	}},
	maker{name: "levelDB: CURRENT too", foreign: true, make: func(p *place) {
		p.levelDB(func(name string) string { return name })
	}},
	maker{name: "levelDB: a table by the name of ours", make: func(p *place) {
		p.levelDB(func(name string) string {
			if filepath.Ext(name) == ".ldb" {
				return p.table()
			}
			return ""
		})
	}},
	maker{name: "levelDB: a log by the name of ours", make: func(p *place) {
		p.levelDB(func(name string) string {
			if filepath.Ext(name) == ".log" {
				return p.log()
			}
			return ""
		})
	}},
	maker{name: "current: that of LevelDB", make: func(p *place) {
		p.write("CURRENT", []byte("MANIFEST-000004\n"))
	}},
	maker{name: "current: link to a directory", make: func(p *place) {
		p.link("CURRENT", filepath.Dir(p.victim))
	}},
	maker{name: "current: no directory", make: func(p *place) {
		must(p.t, os.RemoveAll(p.path("CURRENT")))
	}},
	maker{name: "current: under its new name", make: func(p *place) {
		must(p.t, os.Rename(p.path("CURRENT"), p.path("CURRENT.new")))
	}},
	maker{name: "current: under both names", make: func(p *place) {
		p.mkdir("CURRENT.new")
		p.write(filepath.Join("CURRENT.new", "manifest"), []byte("000777.manifest 00000000\n"))
	}},
	maker{name: "current: full of files", make: func(p *place) {
		for i := range 1000 {
			p.write(filepath.Join("CURRENT", fmt.Sprint(i)), []byte("x"))
		}
	}},
	maker{name: "current: another temporary file", make: func(p *place) {
		p.link(filepath.Join("CURRENT", "manifest.new"), p.victim)
	}},
	maker{name: "log: 500 logs", make: func(p *place) {
		for i := range 500 {
			p.write(base.Native.FileName(base.FileLog, uint64(1000+i)), p.read(p.log()))
		}
	}},
	maker{name: "next names are links", make: func(p *place) {
		for n := range uint64(60) {
			for _, kind := range []base.FileType{base.FileLog, base.FileTable, base.FileTemp,
				base.FileManifest} {
				if name := base.Native.FileName(kind, n); !exists(p.path(name)) {
					p.link(name, p.victim)
				}
			}
		}
	}},
	maker{name: "names: 20,000", make: func(p *place) {
		for i := range 20_000 {
			p.write(base.Native.FileName(base.FileTable, uint64(5000+i)), nil)
		}
	}},
)

// TestHostileNativeDirectories is TestHostileDirectories for the native format.
func TestHostileNativeDirectories(t *testing.T) {
	testHostile(t, base.Native, nativeMakers)
}
