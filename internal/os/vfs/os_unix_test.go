//go:build unix

package vfs

import (
	"bufio"
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/testkit/hang"
)

// TestMain serves as the other process of the lock tests.
func TestMain(m *testing.M) {
	if name := os.Getenv("VFS_TEST_LOCK"); name != "" {
		lockHelper(name, os.Getenv("VFS_TEST_LOCK_HOW"))
		return
	}
	os.Exit(m.Run())
}

// lockHelper takes a lock as another process would, says how that went, and
// holds it until its input ends.
func lockHelper(name, how string) {
	var err error
	switch how {
	case "vfs":
		_, err = Default.Lock(name)
	default:
		var f *os.File
		f, err = os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
		if err == nil && how == "flock" {
			err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		} else if err == nil {
			err = unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
		}
		defer runtime.KeepAlive(f)
	}
	if err != nil {
		os.Stdout.WriteString("refused: " + err.Error() + "\n")
		return
	}
	os.Stdout.WriteString("held\n")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
}

// startLocker runs lockHelper and returns its answer; stop ends it.
func startLocker(t *testing.T, name, how string) (answer string, stop func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "VFS_TEST_LOCK="+name, "VFS_TEST_LOCK_HOW="+how)
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	answer, err = bufio.NewReader(out).ReadString('\n')
	must(t, err)
	return strings.TrimSpace(answer), func() {
		in.Close()
		must(t, cmd.Wait())
	}
}

func TestLockAgainstOtherProcesses(t *testing.T) {
	for _, how := range []string{"vfs", "flock", "fcntl"} {
		t.Run(how, func(t *testing.T) {
			name := filepath.Join(t.TempDir(), "LOCK")
			answer, stop := startLocker(t, name, how)
			if answer != "held" {
				t.Fatalf("helper: %s", answer)
			}
			_, err := Default.Lock(name)
			if !errors.Is(err, base.ErrLocked) {
				t.Errorf("lock held by %s: %v", how, err)
			}
			var holder lockedBy
			// other locks have no holder that can be asked for
			named := runtime.GOOS == "linux" && how != "flock"
			if !errors.As(err, &holder) || (holder > 0) != named || int(holder) == os.Getpid() {
				t.Errorf("lock held by %s: %v names no other process", how, err)
			}
			stop()
			l, err := Default.Lock(name)
			must(t, err)

			// Reading the file and being refused must not weaken the lock.
			r, err := Default.Open(name)
			must(t, err)
			must(t, r.Close())
			_, err = Default.Lock(name)
			if !errors.Is(err, base.ErrLocked) || !strings.Contains(err.Error(), "this process") {
				t.Errorf("second lock: %v", err)
			}
			answer, stop = startLocker(t, name, how)
			if !strings.HasPrefix(answer, "refused") {
				t.Errorf("%s got a lock that we hold", how)
			}
			stop()
			must(t, l.Close())
			answer, stop = startLocker(t, name, how)
			if answer != "held" {
				t.Errorf("after Close: %s", answer)
			}
			stop()
		})
	}
}

func TestLockByTwoPaths(t *testing.T) {
	dir := t.TempDir()
	real, link := filepath.Join(dir, "real"), filepath.Join(dir, "link")
	must(t, os.Mkdir(real, 0o700))
	must(t, os.Symlink(real, link))
	l, err := Default.Lock(filepath.Join(real, "LOCK"))
	must(t, err)
	defer l.Close()
	if _, err := Default.Lock(filepath.Join(link, "LOCK")); !errors.Is(err, base.ErrLocked) {
		t.Errorf("by a link to the directory: %v", err)
	}
	must(t, os.Link(filepath.Join(real, "LOCK"), filepath.Join(dir, "hard")))
	if _, err := Default.Lock(filepath.Join(dir, "hard")); !errors.Is(err, base.ErrLocked) {
		t.Errorf("by a hard link: %v", err)
	}
}

func TestLockRemovedFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "LOCK")
	l, err := Default.Lock(name)
	must(t, err)
	must(t, os.Remove(name))
	l2, err := Default.Lock(name)
	must(t, err)
	must(t, l.Close())
	if _, err := Default.Lock(name); !errors.Is(err, base.ErrLocked) {
		t.Errorf("releasing a removed lock file released the new one: %v", err)
	}
	must(t, l2.Close())
}

// TestLockCopiedDescriptor: a child that was forked while the lock was held
// does not keep it.
func TestLockCopiedDescriptor(t *testing.T) {
	name := filepath.Join(t.TempDir(), "LOCK")
	l, err := Default.Lock(name)
	must(t, err)
	fd, err := unix.Dup(int(l.(*osLock).file.f.Fd()))
	must(t, err)
	defer unix.Close(fd)
	must(t, l.Close())
	l, err = Default.Lock(name)
	must(t, err)
	must(t, l.Close())
}

func TestLockReadOnlyDirectory(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("permissions do not bind root")
	}
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o500))
	if _, err := Default.Lock(filepath.Join(dir, "LOCK")); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("Lock: %v", err)
	}
}

func TestIrregularFilesRefused(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "target")
	writeFile(t, Default, target, "precious")
	name := func(s string) string { return filepath.Join(dir, s) }
	must(t, os.Symlink(target, name("link")))
	must(t, os.Symlink(name("nowhere"), name("dangling")))
	must(t, unix.Mkfifo(name("fifo"), 0o600))
	must(t, os.Mkdir(name("dir"), 0o700))
	irregular := []string{"link", "dangling", "fifo", "dir"}
	for _, s := range irregular {
		hang.Within(t, s, func() {
			if _, err := Default.Open(name(s)); !errors.Is(err, ErrNotRegular) {
				t.Errorf("Open of %s: %v", s, err)
			}
			if _, err := Default.Create(name(s)); !errors.Is(err, fs.ErrExist) {
				t.Errorf("Create over %s: %v", s, err)
			}
			if _, err := Default.CreateLog(name(s), 1<<20); !errors.Is(err, fs.ErrExist) {
				t.Errorf("CreateLog over %s: %v", s, err)
			}
			if _, err := Default.Lock(name(s)); !errors.Is(err, ErrNotRegular) {
				t.Errorf("Lock of %s: %v", s, err)
			}
			if _, err := Default.List(name(s)); err == nil && s != "dir" {
				t.Errorf("List of %s", s)
			}
		})
	}
	if _, err := Default.Open(os.DevNull); !errors.Is(err, ErrNotRegular) {
		t.Errorf("Open of a device: %v", err)
	}
	if _, err := os.Lstat(name("nowhere")); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a dangling link was followed")
	}
	if got := readFile(t, Default, target); got != "precious" {
		t.Errorf("the target reads %q", got)
	}
	st, err := Default.Stat(name("link"))
	must(t, err)
	if st.Mode()&fs.ModeSymlink == 0 {
		t.Error("Stat followed a link")
	}
}

func TestModes(t *testing.T) {
	dir := t.TempDir()
	sub := filepath.Join(dir, "a", "b")
	must(t, Default.MkdirAll(sub))
	file, log, lock := filepath.Join(sub, "f"), filepath.Join(sub, "g"), filepath.Join(sub, "LOCK")
	writeFile(t, Default, file, "")
	l, err := Default.CreateLog(log, 0)
	must(t, err)
	must(t, l.Close())
	k, err := Default.Lock(lock)
	must(t, err)
	must(t, k.Close())
	for name, want := range map[string]fs.FileMode{sub: 0o700, filepath.Dir(sub): 0o700,
		file: 0o600, log: 0o600, lock: 0o600} {
		st, err := Default.Stat(name)
		must(t, err)
		if st.Mode().Perm() != want {
			t.Errorf("%s has mode %o", name, st.Mode().Perm())
		}
	}
}

func TestOutOfDescriptors(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, Default, filepath.Join(dir, "f"), "x")
	var old unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	low := old
	low.Cur = 64
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &low))
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &old)
	var open []ReadFile
	defer func() {
		for _, r := range open {
			r.Close()
		}
	}()
	for range 100 {
		r, err := Default.Open(filepath.Join(dir, "f"))
		if err != nil {
			if !errors.Is(err, unix.EMFILE) {
				t.Errorf("Open: %v", err)
			}
			_, err = Default.Lock(filepath.Join(dir, "LOCK"))
			if !errors.Is(err, unix.EMFILE) || errors.Is(err, base.ErrLocked) {
				t.Errorf("Lock: %v", err)
			}
			return
		}
		open = append(open, r)
	}
	t.Error("opened 100 files with a limit of 64")
}

// TestShortageIsNoChange: without a descriptor, a held directory with a file that is being written
// does not count as changed by another program.
func TestShortageIsNoChange(t *testing.T) {
	d, err := OpenDir(Default, t.TempDir(), DirOptions{})
	must(t, err)
	defer d.Close()
	at := func(name string) string { return filepath.Join(d.Path, name) }
	must(t, d.MkdirAll(at("sub")))
	writeFile(t, d, at("a"), "x")
	w, err := d.Create(at("sub/f"))
	must(t, err)
	defer w.Close()

	var old unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	low := old
	low.Cur = 64
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &low))
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &old)
	var taken []int
	defer func() {
		for _, fd := range taken {
			unix.Close(fd)
		}
	}()
	for {
		fd, err := openDirFD("/")
		if errors.Is(err, unix.EMFILE) {
			break
		}
		must(t, err)
		taken = append(taken, fd)
	}
	if err := d.Rename(at("a"), at("b")); err != nil {
		t.Errorf("Rename: %v", err)
	}
	if _, err := d.Create(at("c")); !errors.Is(err, base.ErrTooManyFiles) {
		t.Errorf("Create: %v", err)
	}
	if _, err := d.Create(at("sub/g")); !errors.Is(err, base.ErrTooManyFiles) {
		t.Errorf("Create in the folder: %v", err)
	}
	unix.Close(taken[0])
	taken = taken[1:]
	must(t, os.Rename(at("sub"), at("moved")))
	if err := d.Rename(at("b"), at("a")); !errors.Is(err, base.ErrDirectoryChanged) {
		t.Errorf("Rename after the folder was moved: %v", err)
	}
}

// TestHeldDirsApart: a lock and files in one directory that is held are nothing to the one it was
// opened in, and the other way round.
func TestHeldDirsApart(t *testing.T) {
	dir := t.TempDir()
	outer, err := OpenDir(Default, filepath.Join(dir, "outer"), DirOptions{Create: true})
	must(t, err)
	defer outer.Close()
	writeFile(t, outer, filepath.Join(outer.Path, "a"), "x")
	open := func() (*Dir, WriteFile) {
		inner, err := OpenDir(outer.FS, filepath.Join(dir, "inner"), DirOptions{Create: true})
		must(t, err)
		w, err := inner.Create(filepath.Join(inner.Path, "w"))
		must(t, err)
		return inner, w
	}
	in, other := filepath.Join(dir, "inner"), filepath.Join(outer.Path, "b")

	inner, w := open()
	must(t, inner.Link(filepath.Join(outer.Path, "a"), filepath.Join(in, "linked")))
	elsewhere, err := outer.FS.Create(filepath.Join(dir, "elsewhere"))
	must(t, err)
	must(t, os.RemoveAll(in))
	must(t, os.Remove(filepath.Join(dir, "elsewhere")))
	writeFile(t, outer, other, "x")
	must(t, outer.Remove(other))
	must(t, errors.Join(elsewhere.Sync(), elsewhere.Close()))
	if _, err := inner.Create(filepath.Join(in, "x")); !errors.Is(err, base.ErrDirectoryChanged) {
		t.Errorf("Create in a directory that was removed: %v", err)
	}
	if err := w.Sync(); !errors.Is(err, base.ErrDirectoryChanged) {
		t.Errorf("Sync of a file that was removed: %v", err)
	}
	must(t, errors.Join(w.Close(), inner.Close()))

	inner, w = open()
	must(t, os.Remove(filepath.Join(outer.Path, base.LockName)))
	must(t, inner.Rename(filepath.Join(in, "w"), filepath.Join(in, "v")))
	if err := inner.Rename(filepath.Join(in, "v"),
		other); !errors.Is(err, base.ErrDirectoryChanged) {
		t.Errorf("Rename into a directory without LOCK: %v", err)
	}
	must(t, errors.Join(w.Close(), inner.Close()))
	if err := outer.Remove(filepath.Join(outer.Path, "a")); !errors.Is(err,
		base.ErrDirectoryChanged) {
		t.Errorf("Remove without LOCK: %v", err)
	}
}

// TestLogFileTooLarge lets an append fail half-way, as on a full disk. The
// limit holds for all files of the process, so it is a process of its own.
func TestLogFileTooLarge(t *testing.T) {
	if os.Getenv("LOAM_FILE_LIMIT") == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestLogFileTooLarge$")
		cmd.Env = append(os.Environ(), "LOAM_FILE_LIMIT=1")
		if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("PASS")) {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	var old unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &old))
	low := old
	low.Cur = 10000
	must(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &low))
	defer unix.Setrlimit(unix.RLIMIT_FSIZE, &old)
	w, err := Default.Create(filepath.Join(t.TempDir(), "table"))
	must(t, err)
	if n, err := w.Write(make([]byte, 30000)); n != 10000 || !errors.Is(err, base.ErrNoSpace) {
		t.Errorf("a table: %d bytes, then %v", n, err)
	}
	must(t, w.Close())
	for _, n := range []int{141, 5000} {
		for _, ahead := range []int64{0, 8192, 1 << 20} {
			name := filepath.Join(t.TempDir(), "log")
			l, err := Default.CreateLog(name, ahead)
			must(t, err)
			fill := func(limit int) (done int) {
				for err = nil; err == nil && done < 2*limit; {
					if err = l.Append(make([]byte, n)); err == nil {
						done += n
					}
				}
				return done
			}
			done := fill(10000)
			if !errors.Is(err, unix.EFBIG) || !errors.Is(err, base.ErrNoSpace) ||
				done != 10000/n*n {
				t.Errorf("appends of %d: %d bytes, then %v", n, done, err)
			}
			must(t, l.Truncate(int64(done)))
			low.Cur = 20000
			must(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &low))
			done += fill(10000)
			if !errors.Is(err, unix.EFBIG) || done != 20000/n*n {
				t.Errorf("appends of %d with twice the room: %d bytes, then %v", n, done, err)
			}
			must(t, l.Close())
			if st, err := Default.Stat(name); err != nil || st.Size() != int64(done) {
				t.Errorf("appends of %d: closed with %d bytes, want %d (%v)", n, st.Size(), done,
					err)
			}
			low.Cur = 10000
			must(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &low))
		}
	}
}
