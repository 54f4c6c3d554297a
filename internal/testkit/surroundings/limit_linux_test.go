package surroundings

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/lsm"
)

func init() { roles["descriptors"] = roleDescriptors }

// roleDescriptors runs the script with few descriptors and prints what was
// acknowledged and what was wrong.
func roleDescriptors(args []string) {
	n, err := strconv.ParseUint(args[1], 10, 64)
	if err == nil {
		err = unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: n})
	}
	if err != nil {
		fmt.Println("wrong", err)
		return
	}
	acked := script(args[0], vfs.Default, func(what string, err error) bool {
		if err != nil && !errors.Is(err, lsm.ErrTooManyFiles) {
			fmt.Println("wrong", what, err)
		}
		if err != nil {
			fmt.Println("refused", what)
		}
		return err == nil
	})
	for i, ok := range acked {
		if ok {
			fmt.Println("acked", i)
		}
	}
}

// With any limit on descriptors a database works or names the shortage; what it
// acknowledged is there. From 24 on it works.
func TestFewDescriptors(t *testing.T) {
	refused := 0
	for n := 5; n <= 24; n++ {
		if testing.Short() && n%3 != 0 {
			continue
		}
		dir := filepath.Join(t.TempDir(), "db")
		cmd := exec.Command(os.Args[0], dir, fmt.Sprint(n))
		cmd.Env = append(os.Environ(), roleEnv+"=descriptors")
		out, err := cmd.CombinedOutput()
		if err != nil || bytes.Contains(out, []byte("wrong")) {
			t.Errorf("%d descriptors: %v\n%.2000s", n, err, out)
		}
		if bytes.Contains(out, []byte("refused")) {
			if refused++; n >= 24 {
				t.Errorf("%d descriptors do not do: %.500s", n, out)
			}
		}
		if _, err := os.Stat(filepath.Join(dir, "CURRENT")); err != nil {
			continue // nothing was opened
		}
		db := open(t, dir, nil)
		acked := 0
		for line := range bytes.Lines(out) {
			var i int
			if _, err := fmt.Sscanf(string(line), "acked %d", &i); err != nil {
				continue
			}
			acked++
			if _, err := db.Get(key(i), nil); err != nil {
				t.Fatalf("%d descriptors: key %d: %v", n, i, err)
			}
		}
		if n >= 24 && acked != 1500 {
			t.Errorf("%d descriptors: %d puts", n, acked)
		}
		must(t, db.Close())
	}
	if refused == 0 {
		t.Error("no limit was low enough")
	}
}
