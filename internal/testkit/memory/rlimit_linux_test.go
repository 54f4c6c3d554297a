package memory

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/loamdb/loam/internal/memory/offheap"
	"github.com/loamdb/loam/internal/testkit/hang"
	"github.com/loamdb/loam/lsm"
)

// childEnv makes the test binary the child of TestAddressSpace.
const childEnv = "LOAM_MEMORY_CHILD"

// TestAddressSpace bounds the address space of a process of its own while a
// database works there.
func TestAddressSpace(t *testing.T) {
	if os.Getenv(childEnv) == "1" {
		limited(t, t.TempDir())
		return
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for range 4 {
		cmd := exec.Command(exe, "-test.run=^TestAddressSpace$", "-test.v",
			"-test.timeout="+hang.Limit().String())
		cmd.Env = append(os.Environ(), childEnv+"=1")
		out, err := cmd.CombinedOutput()
		if err != nil && runtimeEnded.Match(out) {
			t.Log("Go's runtime wanted memory for itself: a process without it ends, whoever asks")
			continue
		}
		t.Logf("%s", out)
		if err != nil {
			t.Error(err)
		}
		return
	}
	t.Error("Go's runtime had too little memory each time")
}

// runtimeEnded is what Go's runtime says when it finds no memory: for itself, or for its heap,
// whose next 64 MiB of addresses begin anywhere, as the heap's base is random. The queues of its
// garbage collector use what they are given without a look, and so a nil pointer.
var runtimeEnded = regexp.MustCompile("fatal error: (runtime: cannot allocate|out of) memory|" +
	`addr=0x0\s+goroutine 0 .*\s+runtime\.\(\*span(Queue|SPMC)\)\.`)

// mostSpace is what an open database with little in it may add.
const mostSpace = 64 << 20

func addressSpace(t *testing.T) uint64 {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		var kib uint64
		if n, _ := fmt.Sscanf(line, "VmSize: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	t.Fatal("no VmSize")
	return 0
}

func setLimit(t *testing.T, bytes uint64) (undo func()) {
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_AS, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: bytes, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := unix.Setrlimit(unix.RLIMIT_AS, &old); err != nil {
			t.Fatal(err)
		}
	}
}

func spaceKey(i int) []byte { return fmt.Appendf(nil, "k%08d", i*7919%1_000_003) }

// limited works without a limit first, so that the runtime has what it wants: its
// own failures cannot be caught. Then it works with little more than there is.
func limited(t *testing.T, dir string) {
	work(t, dir+"/unlimited", 0)
	before := offheap.InUse()
	for _, room := range []uint64{1 << 20, 4 << 20} {
		work(t, fmt.Sprint(dir, "/", room), room)
		if now := offheap.InUse(); now != before {
			t.Errorf("with %d bytes: %d off the heap before, %d after", room, before, now)
		}
	}
}

func work(t *testing.T, dir string, room uint64) {
	const sure, tries = 50_000, 60_000
	space := addressSpace(t)
	db, err := lsm.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	okay := map[int]bool{}
	put := func(i int) error {
		err := db.Put(spaceKey(i), make([]byte, 100), lsm.NoStall)
		okay[i] = err == nil
		return err
	}
	check := func(op string, err error) bool {
		if short(op, err) != nil {
			t.Fatal(err)
		}
		return err != nil
	}
	for i := range sure {
		if err := put(i); err != nil {
			t.Fatal(err)
		}
		if i == 1000 && room > 0 {
			if more := int64(addressSpace(t)) - int64(space); more > mostSpace {
				t.Errorf("an open database takes %d bytes of address space", more)
			}
		}
	}
	refused := 0
	undo := func() {}
	if room > 0 {
		undo = setLimit(t, addressSpace(t)+room)
		// As a limit comes out of the blue here, have the reserve for the runtime
		// given up at once.
		if _, err := offheap.Alloc(1 << 30); !errors.Is(err, lsm.ErrNoMemory) {
			t.Fatalf("the limit bounds nothing: %v", err)
		}
	}
	if check("flush", db.Flush()) {
		refused++
	}
	for i := range tries {
		if check("put", put(sure+i)) {
			refused++
		}
	}
	if check("compact", db.CompactRange(nil, nil)) {
		refused++
	}
	err = nil
	for range db.All(nil, nil, &err) {
	}
	check("scan", err)
	undo()
	if room == 1<<20 && refused == 0 {
		t.Error("nothing was refused: the limit bounds nothing")
	}
	t.Logf("room for %d bytes: %d operations refused", room, refused)
	for again := range 2 {
		if err := errors.Join(db.Resume(), db.Put([]byte("after"), nil, lsm.Sync),
			db.Flush()); err != nil {
			t.Fatalf("when there is memory again: %v", err)
		}
		for i, want := range okay {
			if has, err := db.Has(spaceKey(i)); has != want || err != nil {
				t.Fatalf("key %d: present %v, %v", i, has, err)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if again == 0 {
			if db, err = lsm.Open(dir, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
}
