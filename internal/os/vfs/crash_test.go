package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
)

// dump describes a file system: names with contents, where a run of zeros is
// written 0xN.
func dump(t testing.TB, fsys FS, dir string) string {
	t.Helper()
	names, err := fsys.List(dir)
	must(t, err)
	var out []string
	for _, n := range names {
		st, err := fsys.Stat(dir + "/" + n)
		must(t, err)
		if st.IsDir() {
			out = append(out, n+"{"+dump(t, fsys, dir+"/"+n)+"}")
			continue
		}
		content := readFile(t, fsys, dir+"/"+n)
		if int64(len(content)) != st.Size() {
			t.Errorf("%s: size %d, %d bytes", n, st.Size(), len(content))
		}
		out = append(out, n+"="+short(content))
	}
	return strings.Join(out, " ")
}

// short writes runs of one byte as <byte>x<length>.
func short(s string) string {
	var out []string
	for len(s) > 0 {
		n := len(s) - len(strings.TrimLeft(s, s[:1]))
		c := s[:1]
		if c == "\x00" {
			c = "0"
		}
		out = append(out, fmt.Sprintf("%sx%d", c, n))
		s = s[n:]
	}
	return strings.Join(out, "+")
}

func fill(c byte, n int) []byte { return bytes.Repeat([]byte{c}, n) }

// blocks keeps the given blocks and nothing of the directories.
func blocks(kept ...int) CrashOptions {
	return CrashOptions{KeepData: func(_ string, b int) bool {
		for _, k := range kept {
			if k == b {
				return true
			}
		}
		return false
	}}
}

func torn(o CrashOptions, n int) CrashOptions {
	o.Torn = func(string, int) int { return n }
	return o
}

func TestCrashData(t *testing.T) {
	tests := []struct {
		name  string
		ahead int64
		write func(l Log)
		crash CrashOptions
		want  string
	}{
		{"nothing synced", 0, func(l Log) { l.Append(fill('a', 100)) }, DropAll(), ""},
		{"all kept", 0, func(l Log) { l.Append(fill('a', 100)) }, KeepAll(), "ax100"},
		{"synced prefix", 0, func(l Log) {
			l.Append(fill('a', 100))
			l.Sync()
			l.Append(fill('b', 100))
		}, DropAll(), "ax100"},
		{"later block kept", 0, func(l Log) {
			l.Append(fill('a', 100))
			l.Sync()
			l.Append(fill('b', 10000))
		}, blocks(1), "ax100+0x3996+bx4096"},
		{"last block kept", 0, func(l Log) {
			l.Append(fill('a', 100))
			l.Sync()
			l.Append(fill('b', 10000))
		}, blocks(2), "ax100+0x8092+bx1908"},
		{"first block kept", 0, func(l Log) {
			l.Append(fill('a', 100))
			l.Sync()
			l.Append(fill('b', 10000))
		}, blocks(0), "ax100+bx3996"},
		{"torn", 0, func(l Log) {
			l.Append(fill('a', 100))
			l.Append(fill('b', 100))
		}, torn(KeepAll(), 7), "ax100+bx7"},
		{"torn to nothing", 0, func(l Log) {
			l.Append(fill('a', 100))
			l.Append(fill('b', 100))
		}, torn(KeepAll(), 0), "ax100"},
		{"torn only where not synced", 0, func(l Log) {
			l.Append(fill('a', 100))
			l.Sync()
		}, torn(KeepAll(), 0), "ax100"},
		{"zero tail of a killed process", 4096, func(l Log) {
			l.Append(fill('a', 100))
		}, KeepAll(), "ax100+0x3996"},
		{"allocation not synced", 4096, func(l Log) { l.Append(fill('a', 100)) }, DropAll(), ""},
		{"allocation synced", 8192, func(l Log) {
			l.Append(fill('a', 100))
			l.Sync()
			l.Append(fill('b', 50))
		}, DropAll(), "ax100+0x8092"},
		{"torn before a zero tail", 8192, func(l Log) {
			l.Append(fill('a', 100))
			l.Sync()
			l.Append(fill('b', 50))
		}, torn(KeepAll(), 5), "ax100+bx5+0x8087"},
		{"allocated block kept", 8192, func(l Log) {
			l.Append(fill('a', 100))
		}, blocks(1), "0x8192"},
		{"cut of the tail lost", 8192, func(l Log) {
			l.Append(fill('a', 100))
			l.Sync()
			l.Close()
		}, DropAll(), "ax100+0x8092"},
		{"cut of the tail kept", 8192, func(l Log) {
			l.Append(fill('a', 100))
			l.Sync()
			l.Close()
		}, KeepAll(), "ax100"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := NewMem()
			l, err := m.CreateLog("log", tt.ahead)
			must(t, err)
			must(t, m.SyncDir("/"))
			tt.write(l)
			before := dump(t, m, "/")
			c := m.CrashClone(tt.crash)
			if got, want := dump(t, c, "/"), "log="+tt.want; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			if got := dump(t, c.CrashClone(DropAll()), "/"); got != dump(t, c, "/") {
				t.Errorf("a second crash lost something: %s", got)
			}
			if got := dump(t, m, "/"); got != before {
				t.Errorf("the clone changed the original: %s, was %s", got, before)
			}
		})
	}
}

func keepOps(kinds ...DirOpKind) CrashOptions {
	return CrashOptions{
		KeepData: func(string, int) bool { return true },
		KeepEntry: func(op DirOp) bool {
			for _, k := range kinds {
				if op.Kind == k {
					return true
				}
			}
			return false
		},
	}
}

func TestCrashEntries(t *testing.T) {
	again := func(m *Mem) { // the name of a file that was removed
		writeFile(t, m, "a", "1")
		m.SyncDir("/")
		m.Remove("a")
		writeFile(t, m, "a", "2")
	}
	swap := func(m *Mem) { // how CURRENT changes
		writeFile(t, m, "CURRENT", "1")
		must(t, m.SyncDir("/"))
		writeFile(t, m, "tmp", "2")
		must(t, m.Rename("tmp", "CURRENT"))
	}
	testCrashCases(t, []crashCase{
		{"create lost", func(m *Mem) { writeFile(t, m, "a", "1") }, DropAll(), ""},
		{"create kept", func(m *Mem) { writeFile(t, m, "a", "1") }, KeepAll(), "a=1x1"},
		{"create synced", func(m *Mem) {
			writeFile(t, m, "a", "1")
			m.SyncDir("/")
		}, DropAll(), "a=1x1"},
		{"remove lost", func(m *Mem) {
			writeFile(t, m, "a", "1")
			m.SyncDir("/")
			m.Remove("a")
		}, DropAll(), "a=1x1"},
		{"remove kept", func(m *Mem) {
			writeFile(t, m, "a", "1")
			m.SyncDir("/")
			m.Remove("a")
		}, KeepAll(), ""},
		{"remove synced", func(m *Mem) {
			writeFile(t, m, "a", "1")
			m.SyncDir("/")
			m.Remove("a")
			m.SyncDir("/")
		}, DropAll(), ""},
		{"swap lost", swap, DropAll(), "CURRENT=1x1"},
		{"swap, create kept alone", swap, keepOps(DirCreate), "CURRENT=1x1 tmp=2x1"},
		{"swap, rename kept alone", swap, keepOps(DirRename), "CURRENT=2x1"},
		{"swap synced", func(m *Mem) { swap(m); m.SyncDir("/") }, DropAll(), "CURRENT=2x1"},
		{"name used again, creation lost", again, keepOps(DirRemove), ""},
		{"name used again, removal lost", again, keepOps(DirCreate), "a=2x1"},
		{"directory lost with what is in it", func(m *Mem) {
			m.MkdirAll("d")
			writeFile(t, m, "d/a", "1")
			m.SyncDir("d")
		}, DropAll(), ""},
		{"directory kept, entry lost", func(m *Mem) {
			m.MkdirAll("d")
			writeFile(t, m, "d/a", "1")
		}, keepOps(DirMkdir), "d{}"},
		{"directory synced", func(m *Mem) {
			m.MkdirAll("d")
			writeFile(t, m, "d/a", "1")
			m.SyncDir("d")
			m.SyncDir("/")
		}, DropAll(), "d{a=1x1}"},
	})
}

// TestCrashLinks: links and moves between directories, each lost and kept.
func TestCrashLinks(t *testing.T) {
	testCrashCases(t, []crashCase{
		{"link lost", func(m *Mem) { withLink(t, m) }, DropAll(), "a=1x1 d{}"},
		{"link kept", func(m *Mem) { withLink(t, m) }, KeepAll(), "a=1x1 d{b=1x1}"},
		{"link synced", func(m *Mem) {
			withLink(t, m)
			m.SyncDir("d")
		}, DropAll(), "a=1x1 d{b=1x1}"},
		{"link synced, first name not", func(m *Mem) {
			m.MkdirAll("d")
			m.SyncDir("/")
			writeFile(t, m, "a", "1")
			must(t, m.Link("a", "d/b"))
			m.SyncDir("d")
		}, DropAll(), "d{b=1x1}"},
		{"link synced, first name removed", func(m *Mem) {
			withLink(t, m)
			m.SyncDir("d")
			m.Remove("a")
		}, KeepAll(), "d{b=1x1}"},
		{"link, then removal of the first name, only that kept", func(m *Mem) {
			withLink(t, m)
			m.Remove("a")
		}, keepOps(DirRemove), "d{}"},
		{"link renamed over a name", func(m *Mem) {
			withLink(t, m)
			writeFile(t, m, "d/c", "2")
			m.SyncDir("d")
			must(t, m.Rename("d/b", "d/c"))
			m.SyncDir("d")
		}, DropAll(), "a=1x1 d{c=1x1}"},
		{"link of unsynced contents", func(m *Mem) {
			l, err := m.CreateLog("l", 0)
			must(t, err)
			must(t, l.Append(fill('s', 3)))
			must(t, l.Sync())
			must(t, l.Append(fill('u', 2)))
			must(t, m.Link("l", "k"))
			must(t, m.SyncDir("/"))
			must(t, l.Append(fill('v', 2)))
		}, DropAll(), "k=sx3 l=sx3"},
		{"moved between directories, lost", func(m *Mem) {
			moved(t, m)
		}, DropAll(), "d{a=1x1} e{}"},
		{"moved between directories, kept", func(m *Mem) {
			moved(t, m)
		}, KeepAll(), "d{} e{a=1x1}"},
		{"moved between directories, old one synced", func(m *Mem) {
			moved(t, m)
			m.SyncDir("d")
		}, DropAll(), "d{} e{a=1x1}"},
		{"moved between directories, new one synced", func(m *Mem) {
			moved(t, m)
			m.SyncDir("e")
		}, DropAll(), "d{} e{a=1x1}"},
	})
}

// crashCase does something to a file system; a crash leaves what is wanted.
type crashCase struct {
	name  string
	do    func(m *Mem)
	crash CrashOptions
	want  string
}

func testCrashCases(t *testing.T, tests []crashCase) {
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := NewMem()
			tt.do(m)
			c := m.CrashClone(tt.crash)
			if got := dump(t, c, "/"); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if got := dump(t, c.CrashClone(DropAll()), "/"); got != tt.want {
				t.Errorf("after a second crash %q", got)
			}
			if got := dump(t, m.Clone().CrashClone(tt.crash), "/"); got != tt.want {
				t.Errorf("crash of a clone: %q", got)
			}
		})
	}
}

// TestCrashRemoveOfAnother: the removal of a file whose creation is lost must
// not take the file that had its name before.
func TestCrashRemoveOfAnother(t *testing.T) {
	m := NewMem()
	writeFile(t, m, "a", "1")
	must(t, m.SyncDir("/"))
	must(t, m.Remove("a"))
	writeFile(t, m, "a", "2")
	must(t, m.Remove("a"))
	n := 0
	c := m.CrashClone(CrashOptions{KeepEntry: func(DirOp) bool { n++; return n == 3 }})
	if got := dump(t, c, "/"); got != "a=1x1" || n != 3 {
		t.Errorf("%d changes, left %q", n, got)
	}
}

// withLink makes d/b a link of a, which is durable.
func withLink(t *testing.T, m *Mem) {
	must(t, m.MkdirAll("d"))
	writeFile(t, m, "a", "1")
	must(t, m.SyncDir("/"))
	must(t, m.Link("a", "d/b"))
}

func moved(t *testing.T, m *Mem) {
	must(t, m.MkdirAll("d"))
	must(t, m.MkdirAll("e"))
	writeFile(t, m, "d/a", "1")
	must(t, m.SyncDir("/"))
	must(t, m.SyncDir("d"))
	must(t, m.Rename("d/a", "e/a"))
}

func TestCrashClonesAreIndependent(t *testing.T) {
	m := NewMem()
	l, err := m.CreateLog("log", 0)
	must(t, err)
	must(t, l.Append(fill('a', 10)))
	k, err := m.Lock("LOCK")
	must(t, err)
	defer k.Close()
	c, d := m.CrashClone(KeepAll()), m.Clone()
	must(t, l.Append(fill('b', 10)))
	for _, clone := range []*Mem{c, d} {
		if got := readFile(t, clone, "log"); got != strings.Repeat("a", 10) {
			t.Errorf("clone reads %q", got)
		}
		if _, err := clone.Lock("LOCK"); err != nil {
			t.Errorf("a clone is locked: %v", err)
		}
		must(t, clone.Remove("log"))
	}
	if got := readFile(t, m, "log"); got != strings.Repeat("a", 10)+strings.Repeat("b", 10) {
		t.Errorf("original reads %q", got)
	}
}

// TestCrashRandom checks on random histories that what was synced is always
// there, that what is kept was once written, and that a seed decides all.
func TestCrashRandom(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		m := NewMem()
		ahead := int64(rng.IntN(3)) * 8192
		l, err := m.CreateLog("log", ahead)
		must(t, err)
		must(t, m.SyncDir("/"))
		var written []byte
		synced := 0
		for range rng.IntN(30) {
			p := fill(byte('a'+rng.IntN(26)), rng.IntN(6000))
			must(t, l.Append(p))
			written = append(written, p...)
			if rng.IntN(4) == 0 {
				must(t, l.Sync())
				synced = len(written)
			}
			state := readFile(t, m.CrashClone(RandomBlocks(rand.New(rand.NewPCG(seed, 2)))), "log")
			if state != readFile(t, m.CrashClone(RandomBlocks(rand.New(rand.NewPCG(seed, 2)))),
				"log") {
				t.Fatal("the same seed gave two states")
			}
			if len(state) < synced || state[:synced] != string(written[:synced]) {
				t.Fatalf("seed %d: synced bytes lost", seed)
			}
			for i := synced; i < len(state); i++ {
				if state[i] != 0 && (i >= len(written) || state[i] != written[i]) {
					t.Fatalf("seed %d: byte %d was never written", seed, i)
				}
			}
		}
	}
}

// TestCrashAfterTruncate: until the next sync a crash may leave the file as before the cut, without
// later appends.
func TestCrashAfterTruncate(t *testing.T) {
	m := NewMem()
	must(t, m.MkdirAll("/"))
	l, err := m.CreateLog("log", 0)
	must(t, err)
	must(t, m.SyncDir("/"))
	must(t, l.Append(fill('a', 10)))
	must(t, l.Sync())
	must(t, l.Append(fill('b', 10)))
	must(t, l.Truncate(10))
	must(t, l.Append(fill('c', 5)))
	a, b, c := string(fill('a', 10)), string(fill('b', 10)), string(fill('c', 5))
	keepData := CrashOptions{KeepData: func(string, int) bool { return true }}
	for want, o := range map[string]CrashOptions{a: DropAll(), a + b: keepData, a + c: KeepAll()} {
		if got := readFile(t, m.CrashClone(o), "log"); got != want {
			t.Errorf("%q instead of %q", got, want)
		}
	}
	must(t, l.Sync())
	if got := readFile(t, m.CrashClone(keepData), "log"); got != a+c {
		t.Errorf("after a sync: %q", got)
	}
	if l.Truncate(16) == nil || l.Truncate(-1) == nil {
		t.Error("Truncate makes a file longer")
	}
}

// workload is what the fault test runs: every kind of call, errors returned.
func workload(fsys FS) error {
	return errors.Join(func() error {
		if err := fsys.MkdirAll("/db/sub"); err != nil {
			return err
		}
		k, err := fsys.Lock("/db/LOCK")
		if err != nil {
			return err
		}
		if err := k.Close(); err != nil {
			return err
		}
		w, err := fsys.Create("/db/t")
		if err != nil {
			return err
		}
		_, werr := w.Write(fill('t', 100))
		if err := errors.Join(werr, w.Sync(), w.Close()); err != nil {
			return err
		}
		l, err := fsys.CreateLog("/db/l", 0)
		if err != nil {
			return err
		}
		if err := errors.Join(l.Append(fill('l', 100)), l.Append(fill('m', 9)), l.Truncate(100),
			l.Sync(), l.Close()); err != nil {
			return err
		}
		if err := readOnce(fsys, "/db/t"); err != nil {
			return err
		}
		_, lerr := fsys.List("/db")
		_, serr := fsys.Stat("/db/t")
		return errors.Join(lerr, serr, Link(fsys, "/db/t", "/db/sub/t"),
			fsys.Rename("/db/t", "/db/u"), fsys.Remove("/db/u"), reuse(fsys, "/db/l", "/db/m"),
			fsys.SyncDir("/db"))
	}())
}

// reuse makes a log of another one.
func reuse(fsys FS, oldName, newName string) error {
	l, _, err := ReuseLog(fsys, oldName, newName, 100)
	if err != nil {
		return err
	}
	return errors.Join(l.Append([]byte("x")), l.Close())
}

// readOnce reads the first byte of a file, by a call and in place. It closes by a defer that
// looks at no error.
func readOnce(fsys FS, name string) error {
	f, err := fsys.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	m, err := Map(f, 1)
	if err != nil {
		return err
	}
	if err := m.Touch(0, 1); err != nil {
		return err
	}
	_, err = f.ReadAt(make([]byte, 1), 0)
	return err
}

func TestFaultEveryCall(t *testing.T) {
	boom := errors.New("boom")
	// failing runs the workload with calls [from, to) failing.
	failing := func(from, to int) (ops []Op, err error) {
		err = workload(NewFault(NewMem(), func(op Op) Outcome {
			i := len(ops)
			ops = append(ops, op)
			if i >= from && i < to {
				return Outcome{Err: boom}
			}
			return Outcome{}
		}))
		return ops, err
	}
	ops, err := failing(0, 0)
	must(t, err)
	seen := map[OpKind]bool{}
	for _, op := range ops {
		seen[op.Kind] = true
	}
	for k := range NumOps {
		if !seen[k] {
			t.Errorf("the workload makes no call %v", k)
		}
	}
	for i := range ops {
		for _, to := range []int{i + 1, math.MaxInt} {
			again, err := failing(i, to)
			var pe *fs.PathError
			// See readOnce.
			ignored := ops[i].Kind == OpClose && ops[max(i-1, 0)].Kind == OpRead
			if ignored && to == i+1 {
				must(t, err)
			} else if !errors.Is(err, boom) || !errors.As(err, &pe) {
				t.Errorf("call %d, %v: %v", i, ops[i], err)
			}
			if len(again) <= i || again[i] != ops[i] {
				t.Errorf("call %d was %v, now %v", i, ops[i], again)
			}
		}
	}
}

func TestFaultOutcomes(t *testing.T) {
	boom := errors.New("boom")
	m := NewMem()
	var next Outcome
	f := NewFault(m, func(Op) Outcome { return next })
	w, err := f.Create("w")
	must(t, err)
	l, err := f.CreateLog("l", 0)
	must(t, err)
	next = Outcome{Err: boom, Short: 3}
	if n, err := w.Write([]byte("abcdef")); n != 3 || !errors.Is(err, boom) {
		t.Errorf("short write: %d, %v", n, err)
	}
	if err := l.Append([]byte("abcdef")); !errors.Is(err, boom) {
		t.Errorf("short append: %v", err)
	}
	next = Outcome{}
	r, err := f.Open("w")
	must(t, err)
	next = Outcome{Err: boom, Short: 2}
	p := make([]byte, 3)
	if n, err := r.ReadAt(p, 0); n != 2 || !errors.Is(err, boom) {
		t.Errorf("short read: %d, %v", n, err)
	}
	next = Outcome{Err: boom}
	if err := f.Rename("w", "v"); !errors.Is(err, boom) {
		t.Errorf("rename: %v", err)
	}
	if got := dump(t, m, "/"); got != "l=ax1+bx1+cx1 w=ax1+bx1+cx1" {
		t.Errorf("left: %s", got)
	}
	next = Outcome{Err: boom, Done: true}
	if err := f.Rename("w", "v"); !errors.Is(err, boom) {
		t.Errorf("rename: %v", err)
	}
	if _, err := f.Create("x"); !errors.Is(err, boom) {
		t.Errorf("create: %v", err)
	}
	if got := dump(t, m, "/"); got != "l=ax1+bx1+cx1 v=ax1+bx1+cx1 x=" {
		t.Errorf("left after calls that were carried out: %s", got)
	}
	next = Outcome{Err: boom}
	for _, c := range []interface{ Close() error }{r, w, l} {
		if err := c.Close(); !errors.Is(err, boom) {
			t.Errorf("close: %v", err)
		}
	}
	if _, err := r.(*faultReadFile).ReadFile.ReadAt(p, 0); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("a failing Close did not close: %v", err)
	}
}

// TestMemConcurrent clones a file system while it is used. One goroutine
// syncs a file only after another, so that no instant shows the reverse.
func TestMemConcurrent(t *testing.T) {
	m := NewMem()
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for g := range 2 {
		must(t, m.MkdirAll(fmt.Sprint(g)))
		must(t, m.SyncDir("/"))
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				a, b := fmt.Sprintf("%d/%03d.a", g, i%50), fmt.Sprintf("%d/%03d.b", g, i%50)
				_, _ = m.Remove(b), m.Remove(a)
				_ = m.SyncDir(fmt.Sprint(g))
				for _, name := range []string{a, b} {
					f, err := m.Create(name)
					if err != nil {
						t.Error(err)
						return
					}
					_, _ = f.Write(fill('x', 5000))
					_, _ = f.Sync(), f.Close()
					_ = m.SyncDir(fmt.Sprint(g))
				}
			}
		})
	}
	for i := range 200 {
		c := m.CrashClone(DropAll())
		if i%2 == 0 {
			c = m.Clone()
		}
		for g := range 2 {
			names, err := c.List(fmt.Sprint(g))
			must(t, err)
			for _, name := range names {
				a, isB := strings.CutSuffix(name, ".b")
				if isB && !slices.Contains(names, a+".a") {
					t.Fatalf("%s without %s.a", name, a)
				}
				if got := readFile(t, c, fmt.Sprint(g, "/", name)); isB && len(got) != 5000 &&
					i%2 == 1 {
					t.Fatalf("%s has %d bytes", name, len(got))
				}
			}
		}
	}
	close(stop)
	wg.Wait()
}

// TestNewDirectoryIsDurable: a power cut after OpenDir takes away neither the
// directory nor the parents that it made.
func TestNewDirectoryIsDurable(t *testing.T) {
	m := NewMem()
	d, err := OpenDir(m, "/a/b/c", DirOptions{Create: true})
	must(t, err)
	if info, err := m.CrashClone(DropAll()).Stat("/a/b/c"); err != nil || !info.IsDir() {
		t.Errorf("after a power cut: %v", err)
	}
	must(t, d.Close())
}
