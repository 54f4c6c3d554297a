package follower

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/loamdb/loam/internal/kvbench/loam"
	"github.com/loamdb/loam/internal/workload/store"
	"github.com/loamdb/loam/internal/workload/store/storetest"
)

// TestMain makes this program the follower as well.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == Flag {
		os.Exit(Main(os.Stdin, os.Stdout, loam.Drivers()))
	}
	os.Exit(m.Run())
}

// TestProcess: another process follows a database of each format, and tells its lags.
func TestProcess(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range loam.Drivers() {
		dir := filepath.Join(t.TempDir(), "db")
		db, err := d.Open(dir, store.Config{})
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		if err := db.Put([]byte(BeatKey), Beat(), false); err != nil {
			t.Fatal(err)
		}
		p, err := Start(program, Task{Engine: d.Name(), Dir: dir}, os.Stderr)
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			if err := db.Put([]byte(BeatKey), Beat(), false); err != nil {
				t.Fatal(err)
			}
		}
		lags, err := p.Stop()
		if err != nil {
			t.Fatal(err)
		}
		if len(lags) == 0 {
			t.Fatalf("%s: no lags in %v", d.Name(), time.Since(begun))
		}
		for _, l := range lags {
			if l > time.Since(begun) {
				t.Errorf("%s: %v behind, of a beat that is %v old", d.Name(), l, time.Since(begun))
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRefusals: what is wrong is said before the benchmark begins.
func TestRefusals(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		task Task
		want string
	}{
		{Task{Engine: "none"}, `no engine "none"`},
		{Task{Engine: "loam", Dir: filepath.Join(t.TempDir(), "missing")}, "does not exist"},
		{Task{Engine: "loam", Settings: []store.Setting{{Name: "bad", Value: "1"}}}, "bad"},
	} {
		p, err := Start(program, c.task, new(bytes.Buffer))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.task, err)
		}
		if p != nil {
			_, _ = p.Stop()
		}
	}
}

// TestWatch: a lag is the age of the state that a catch-up replaced, and there is none before the
// first beat.
func TestWatch(t *testing.T) {
	m := storetest.NewModel()
	db, err := m.Open("db", store.Config{})
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	catchUps := 0
	m.Fail = func(op string) error {
		if op != "catchup" {
			return nil
		}
		switch catchUps++; catchUps {
		case 3:
			return db.Put([]byte(BeatKey), Beat(), false)
		case 6:
			close(stop)
		}
		return nil
	}
	begun := time.Now()
	f, err := m.OpenFollower("db", "", store.Config{})
	if err != nil {
		t.Fatal(err)
	}
	lags, err := Watch(f, stop)
	if err != nil || len(lags) != 3 || lags[1] <= lags[0] || lags[2] > time.Since(begun) {
		t.Errorf("%v %v", lags, err)
	}
}
