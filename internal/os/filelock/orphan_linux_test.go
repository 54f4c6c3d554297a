package filelock

import (
	"bufio"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOrphanedLockAlone: a flock lock that the child of a dead process holds is passed over only
// where there is an fcntl lock as well. Without either, two processes would write one database.
func TestOrphanedLockAlone(t *testing.T) {
	if _, err := exec.LookPath("flock"); err != nil {
		t.Skip(err)
	}
	name := filepath.Join(t.TempDir(), "LOCK")
	// The process that takes the lock ends; the shell shares its descriptor.
	sh := exec.Command("sh", "-c", `exec 9<>"$0"; flock -n 9 && echo held; read end`, name)
	in, err := sh.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := sh.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := sh.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		in.Close()
		_ = sh.Wait()
	}()
	if said, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(said, err)
	}
	fd := open(t, name)
	if !orphaned(fd) {
		t.Skip("the system does not tell which process took the lock")
	}
	system{fcntl: unix.ENOLCK}.use(t)
	if h, err := Take(fd, false); err != unix.EWOULDBLOCK {
		t.Errorf("with no other lock: %+v, %v", h, err)
	}
	system{}.use(t)
	if h, err := Take(fd, false); err != nil || !h.orphaned || !h.fcntl {
		t.Errorf("with an fcntl lock: %+v, %v", h, err)
	}
}
