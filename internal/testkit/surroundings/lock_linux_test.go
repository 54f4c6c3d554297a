package surroundings

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/loamdb/loam/internal/testkit/hang"
	"github.com/loamdb/loam/lsm"
)

// roleEnv makes this test program something else: the other process of a test.
const roleEnv = "LOAM_SURROUNDINGS_ROLE"

var roles = map[string]func(args []string){
	"open":  roleOpen,
	"flock": roleFlock,
	"fcntl": roleFcntl,
	"fork":  roleFork,
}

func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		roles[role](os.Args[1:])
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// say tells the test the outcome, and waits until its end of the input closes.
func say(err error) {
	if err != nil {
		fmt.Println("refused:", err)
		return
	}
	fmt.Println("held")
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// roleOpen opens a database, read-only or not.
func roleOpen(args []string) {
	_, err := lsm.Open(args[0], &lsm.Options{ReadOnly: args[1] == "ro"})
	say(err)
}

// roleFlock and roleFcntl lock as goleveldb and LevelDB do.
func roleFlock(args []string) {
	f, err := os.OpenFile(filepath.Join(args[0], "LOCK"), os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	say(err)
	runtime.KeepAlive(f)
}

func roleFcntl(args []string) {
	f, err := os.OpenFile(filepath.Join(args[0], "LOCK"), os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		err = unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
	}
	say(err)
	runtime.KeepAlive(f)
}

// roleFork opens a database, forks a child that does not exec but waits for the
// end of its input, and dies by SIGKILL.
func roleFork(args []string) {
	db, err := lsm.Open(args[0], nil)
	if err == nil {
		err = db.Put([]byte("a"), []byte("b"), lsm.Sync)
	}
	if err != nil {
		say(err)
		return
	}
	var buf [1]byte
	// The child has this thread only: nothing but system calls.
	pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if pid == 0 && errno == 0 {
		for {
			n, _, _ := syscall.RawSyscall(syscall.SYS_READ, 0, uintptr(unsafe.Pointer(&buf)), 1)
			if n == 0 {
				syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
			}
		}
	}
	fmt.Println("forked", pid)
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// other is another process of this test.
type other struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	said  string
	ended bool
}

func start(t *testing.T, role string, args ...string) *other {
	t.Helper()
	o := &other{cmd: exec.Command(os.Args[0], args...)}
	o.cmd.Env = append(os.Environ(), roleEnv+"="+role)
	var err error
	o.in, err = o.cmd.StdinPipe()
	must(t, err)
	out, err := o.cmd.StdoutPipe()
	must(t, err)
	must(t, o.cmd.Start())
	o.said, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("%s %v: %q, %v", role, args, o.said, err)
	}
	t.Cleanup(o.end)
	return o
}

func (o *other) held() bool { return o.said == "held\n" }

func (o *other) end() {
	if !o.ended {
		o.ended = true
		_ = o.in.Close()
		_, _ = o.cmd.Process.Wait()
	}
}

// Readers share a directory, in one process and among several; a writer is
// alone.
func TestReadersShare(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir, nil)
	must(t, fill(db, 0, 10))
	locked := func(o *lsm.Options, want bool) {
		t.Helper()
		again, err := lsm.Open(dir, o)
		if err == nil {
			must(t, again.Close())
		}
		if errors.Is(err, lsm.ErrLocked) != want || err != nil && !want {
			t.Errorf("read-only %v beside others: %v", o.ReadOnly, err)
		}
	}
	beside := func(role string, held bool, args ...string) {
		t.Helper()
		o := start(t, role, append([]string{dir}, args...)...)
		if o.held() != held {
			t.Errorf("%s %v in another process: %s", role, args, o.said)
		}
		o.end()
	}
	ro, rw := &lsm.Options{ReadOnly: true}, &lsm.Options{}
	locked(ro, true)
	beside("open", false, "ro")
	must(t, db.Close())

	before := listing(t, dir)
	first := open(t, dir, ro)
	second := open(t, dir, ro)
	want(t, first, 10)
	want(t, second, 10)
	locked(rw, true)
	beside("open", true, "ro")
	beside("open", false, "rw")
	beside("flock", false)
	beside("fcntl", false)
	if _, err := lsm.Repair(dir, nil); !errors.Is(err, lsm.ErrLocked) {
		t.Errorf("repair beside readers: %v", err)
	}
	must(t, first.Close())
	locked(rw, true)
	beside("open", false, "rw")
	beside("flock", false)
	beside("fcntl", false)
	must(t, second.Close())
	same(t, dir, before)

	reader := start(t, "open", dir, "ro")
	locked(rw, true)
	locked(ro, false)
	reader.end()
	locked(rw, false)
}

// A reader needs no permission to write, changes no time of a file, and leaves
// no LOCK where there was none.
func TestReadOnlyChangesNothing(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir, small())
	must(t, fill(db, 0, 1000))
	must(t, db.Close())
	must(t, os.Remove(filepath.Join(dir, "LOCK")))
	for _, lock := range []bool{false, true} {
		if lock {
			must(t, os.WriteFile(filepath.Join(dir, "LOCK"), nil, 0o400))
		}
		old := time.Unix(1e9, 0)
		entries, err := os.ReadDir(dir)
		must(t, err)
		for _, e := range entries {
			mode := os.FileMode(0o400)
			if e.IsDir() { // CURRENT
				mode = 0o500
				t.Cleanup(func() { must(t, os.Chmod(filepath.Join(dir, e.Name()), 0o700)) })
			}
			must(t, os.Chmod(filepath.Join(dir, e.Name()), mode))
			must(t, os.Chtimes(filepath.Join(dir, e.Name()), old, old))
		}
		must(t, os.Chmod(dir, 0o500))
		must(t, os.Chtimes(dir, old, old))
		before := listing(t, dir)
		ro := open(t, dir, &lsm.Options{ReadOnly: true})
		want(t, ro, 1000)
		must(t, ro.Close())
		same(t, dir, before)
		for _, e := range append(entries, nil) {
			name := dir
			if e != nil {
				name = filepath.Join(dir, e.Name())
			}
			if st, err := os.Stat(name); err != nil || !st.ModTime().Equal(old) {
				t.Errorf("%s was modified: %v %v", name, st.ModTime(), err)
			}
		}
		must(t, os.Chmod(dir, 0o700))
	}
}

// A child that was forked and does not exec keeps copies of all descriptors. It
// does not keep the database locked when the process has died.
func TestForkedChildKeepsNoLock(t *testing.T) {
	dir := t.TempDir()
	o := start(t, "fork", dir)
	if !strings.HasPrefix(o.said, "forked ") {
		t.Fatal(o.said)
	}
	var child int
	_, err := fmt.Sscanf(o.said, "forked %d", &child)
	must(t, err)
	if st, err := o.cmd.Process.Wait(); err != nil || st.Success() {
		t.Fatal(st, err)
	}
	o.ended = true
	if err := syscall.Kill(child, 0); err != nil {
		t.Fatalf("the child is not alive: %v", err)
	}
	db := open(t, dir, nil)
	if v, err := db.Get([]byte("a"), nil); err != nil || string(v) != "b" {
		t.Errorf("%q %v", v, err)
	}
	// The new holder keeps all others out, also when the child has ended.
	for _, role := range []string{"open", "flock", "fcntl"} {
		if p := start(t, role, dir, "rw"); p.held() {
			t.Errorf("%s got the lock beside the child", role)
		}
	}
	must(t, o.in.Close())
	if !hang.Until(func() bool {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child))
		return syscall.Kill(child, 0) != nil || strings.Contains(string(b), ") Z ")
	}) {
		t.Fatal("the child does not end")
	}
	must(t, db.Put([]byte("c"), nil, lsm.NoSync))
	must(t, db.Flush()) // creates a file
	for _, role := range []string{"open", "flock", "fcntl"} {
		if p := start(t, role, dir, "rw"); p.held() {
			t.Errorf("%s got the lock after the child", role)
		}
	}
	must(t, db.Close())
	for _, role := range []string{"flock", "fcntl", "open"} {
		p := start(t, role, dir, "rw")
		if !p.held() {
			t.Errorf("%s after Close: %s", role, p.said)
		}
		p.end()
	}
}

// A live process keeps its lock although a child has copies, and although
// something in the process opens and closes LOCK.
func TestLockOutlivesCopies(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir, nil)
	f, err := os.Open(filepath.Join(dir, "LOCK")) // a backup, say
	must(t, err)
	must(t, f.Close())
	if p := start(t, "open", dir, "rw"); p.held() {
		t.Error("another process opened it, too")
	}
	must(t, db.Put([]byte("c"), nil, lsm.NoSync))
	must(t, db.Flush()) // creates a file
	for _, role := range []string{"flock", "fcntl"} {
		if p := start(t, role, dir); p.held() {
			t.Errorf("%s got the lock", role)
		}
	}
	must(t, db.Close())
}

// Repair writes into no directory but the database's.
func TestRepairFollowsNoLink(t *testing.T) {
	root := t.TempDir()
	dir, victim := filepath.Join(root, "db"), filepath.Join(root, "victim")
	must(t, os.Mkdir(victim, 0o700))
	db := open(t, dir, small())
	must(t, fill(db, 0, 1000))
	must(t, db.Close())
	must(t, os.RemoveAll(filepath.Join(dir, "CURRENT"))) // something to repair
	must(t, os.Symlink(victim, filepath.Join(dir, "lost")))
	before := listing(t, dir)
	if _, err := lsm.Repair(dir, nil); !errors.Is(err, lsm.ErrInvalidArgument) {
		t.Errorf("Repair: %v", err)
	}
	same(t, victim, map[string]string{})
	same(t, dir, before)
	must(t, os.Remove(filepath.Join(dir, "lost")))
	_, err := lsm.Repair(dir, nil)
	must(t, err)
	reopened(t, dir, 1000)
}

// Directories, FIFOs and links with a database's names change nothing.
func TestIrregularStrays(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir, small())
	must(t, fill(db, 0, 500))
	must(t, db.Close())
	outside := filepath.Join(t.TempDir(), "outside")
	must(t, os.WriteFile(outside, []byte("precious"), 0o600))
	names := []string{"%06d.log", "%06d.ldb", "%06d.sst", "%06d.dbtmp", "MANIFEST-%06d",
		"5%018d.log"}
	if isNative(t, dir) {
		names = append(names, "%06d.wal", "%06d.loam", "%06d.manifest", "5%018d.wal")
	}
	for i, name := range names {
		must(t, os.Mkdir(filepath.Join(dir, fmt.Sprintf(name, 900+10*i)), 0o700))
		must(t, unix.Mkfifo(filepath.Join(dir, fmt.Sprintf(name, 901+10*i)), 0o600))
		must(t, os.Symlink(outside, filepath.Join(dir, fmt.Sprintf(name, 902+10*i))))
		must(t, os.Symlink("nowhere", filepath.Join(dir, fmt.Sprintf(name, 903+10*i))))
	}
	for n := 1; n < 4; n++ {
		db := open(t, dir, small())
		if r := db.RecoveryReport(); !r.WasClean {
			t.Errorf("%+v", r)
		}
		want(t, db, n*500)
		must(t, fill(db, n*500, (n+1)*500))
		must(t, db.Close())
		if r, err := lsm.Repair(dir, nil); err != nil || r.Changed() {
			t.Errorf("repair: %+v %v", r, err)
		}
	}
	irregular := 0
	for name, what := range listing(t, dir) {
		switch what {
		case "d---------", "p---------", "L---------":
			if name != "CURRENT" {
				irregular++
			}
		}
	}
	if irregular != 4*len(names) {
		t.Errorf("%d of %d are left", irregular, 4*len(names))
	}
	if b, err := os.ReadFile(outside); err != nil || string(b) != "precious" {
		t.Errorf("%q %v", b, err)
	}
	must(t, lsm.Destroy(dir, nil))
	if b, err := os.ReadFile(outside); err != nil || string(b) != "precious" {
		t.Errorf("%q %v", b, err)
	}
}
