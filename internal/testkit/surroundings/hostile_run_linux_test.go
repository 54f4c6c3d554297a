package surroundings

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/testkit"
	"github.com/loamdb/loam/internal/testkit/hang"
	"github.com/loamdb/loam/lsm"
)

const (
	// hostileMemory bounds the resident memory of a process that opens, reads,
	// compacts and repairs a hostile directory.
	hostileMemory = 512 << 20
)

func syncSome(i int) lsm.WriteMode {
	if i%500 == 0 {
		return lsm.Sync
	}
	return lsm.NoSync
}

func init() { roles["hostile"] = roleHostile }

// roleHostile does to a directory all that a database can do, and tells what
// must not be: a wrong value, a key that is missing without a word, an error
// without a type.
func roleHostile(args []string) {
	c := &checker{dir: args[0], told: args[1] == foreign}
	c.database("read-only", &lsm.Options{ReadOnly: true})
	c.database("open", small())
	report, err := lsm.Repair(c.dir, small())
	c.typed("repair", err)
	if err == nil {
		c.told = c.told || report.Changed()
		if again, err := lsm.Repair(c.dir, small()); err != nil || again.Changed() {
			fmt.Printf("a second repair: %+v, %v\n", again, err)
		}
		c.database("after repair", small())
	}
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil || u.Maxrss<<10 > hostileMemory {
		fmt.Printf("%d MiB resident, %v\n", u.Maxrss>>10, err)
	}
}

// foreign is the error for directories in which another database's valid files replace this one's:
// what that lacks is missing without a word.
const foreign = "foreign"

// checker is the oracle.
type checker struct {
	dir  string
	told bool // something said that data is missing
}

func (c *checker) typed(what string, err error) {
	if err != nil {
		c.told = true
	}
	if !typed(err) {
		fmt.Printf("%s: not typed: %v\n", what, err)
	}
}

func (c *checker) database(what string, o *lsm.Options) {
	db, err := lsm.Open(c.dir, o)
	c.typed(what+": open", err)
	if err != nil {
		return
	}
	c.told = c.told || !db.RecoveryReport().WasClean
	missing := 0
	get := func(round string) {
		for i := range hostileKeys {
			v, err := db.Get(key(i), nil)
			switch {
			case errors.Is(err, lsm.ErrNotFound):
				missing++
			case err != nil:
				c.typed(what+round, err)
			case !bytes.Equal(v, value(i)) && !bytes.HasPrefix(v, []byte("vvvv")):
				fmt.Printf("%s%s: %s has %.40q\n", what, round, key(i), v)
			}
		}
	}
	get(": get")
	it := db.Iter(nil)
	var last []byte
	for ok := it.First(); ok; ok = it.Next() {
		if last != nil && bytes.Compare(last, it.Key()) >= 0 {
			fmt.Printf("%s: %q follows %q\n", what, it.Key(), last)
		}
		last = append(last[:0], it.Key()...)
	}
	c.typed(what+": scan", it.Err())
	c.typed(what+": close of the iterator", it.Close())
	if !o.ReadOnly {
		c.typed(what+": put", db.Put([]byte("new"), []byte("value"), lsm.Sync))
		c.typed(what+": flush", db.Flush())
		c.typed(what+": compact", db.CompactRange(nil, nil))
		get(": get after the compaction")
	}
	c.typed(what+": close", db.Close())
	if missing > 0 && !c.told {
		fmt.Printf("%s: %d keys are missing, and nothing was said\n", what, missing)
	}
}

// TestHostileDirectories opens, reads, scans, compacts and repairs directories
// of a corpus, each in a process of its own: no signal, no hang, no wrong value,
// at most 512 MiB, every error typed, nothing outside touched.
func TestHostileDirectories(t *testing.T) {
	if len(makers) < 60 {
		t.Fatalf("only %d directories", len(makers))
	}
	testHostile(t, base.LevelDB, makers)
}

func testHostile(t *testing.T, format base.Format, makers []maker) {
	root := t.TempDir()
	sound := filepath.Join(root, "sound")
	st := makeHostile(t, sound, format)
	names := make(map[string]bool)
	for i, m := range append([]maker{{name: "sound", make: func(*place) {}}}, makers...) {
		if names[m.name] {
			t.Errorf("two are named %s", m.name)
		}
		names[m.name] = true
		t.Run(m.name, func(t *testing.T) {
			if part := testkit.Scale(4, 2, 1); i%part != 0 {
				t.Skipf("a process for each: one in %d here, all in long runs", part)
			}
			t.Parallel()
			outside := filepath.Join(root, fmt.Sprintf("outside%d", i))
			must(t, os.Mkdir(outside, 0o700))
			p := &place{t: t, format: format, dir: filepath.Join(root, fmt.Sprint(i)),
				victim: filepath.Join(outside, "victim"), st: st}
			p.st.Files = maps.Clone(st.Files)
			copyDir(t, sound, p.dir)
			must(t, os.WriteFile(p.victim, []byte("precious"), 0o600))
			m.make(p)
			whose := ""
			if m.foreign || strings.HasPrefix(m.name, "log: ") {
				whose = foreign
			}
			cmd := exec.Command(os.Args[0], p.dir, whose)
			cmd.Env = append(os.Environ(), roleEnv+"=hostile", "GOTRACEBACK=single")
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			err := runInTime(t, cmd)
			if err != nil || out.Len() > 0 {
				t.Errorf("%v\n%.3000s", err, out.String())
			}
			if testing.Verbose() {
				u := cmd.ProcessState.SysUsage().(*syscall.Rusage)
				t.Logf("%d MiB, %v", u.Maxrss>>10,
					cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
			}
			same(t, outside, map[string]string{"victim": "precious"})
			must(t, os.RemoveAll(p.dir))
		})
	}
}

// runInTime runs a process, which is killed when it hangs.
func runInTime(t *testing.T, cmd *exec.Cmd) error {
	must(t, cmd.Start())
	limit := time.AfterFunc(hang.Limit(), func() { _ = cmd.Process.Kill() })
	err := cmd.Wait()
	if !limit.Stop() {
		t.Error(hang.Error)
	}
	return err
}
