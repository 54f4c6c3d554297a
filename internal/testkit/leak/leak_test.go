package leak

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loamdb/loam/internal/testkit"
)

func TestOpenings(t *testing.T) {
	n := testkit.Scale(100, 1000, 10000)
	before, after, err := Openings(t.TempDir()+"/db", testkit.Seed(t), n)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("before: %v; after: %v", before, after)
	if after.more(before) {
		t.Errorf("%v, then %v", before, after)
	}
}

// TestUsageSees wants Now to notice one descriptor and one goroutine.
func TestUsageSees(t *testing.T) {
	before := Now()
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	stop := make(chan struct{})
	defer close(stop)
	go func() { <-stop }()
	after := Now()
	if before.Descriptors >= 0 && after.Descriptors != before.Descriptors+1 {
		t.Errorf("descriptors: %d, then %d", before.Descriptors, after.Descriptors)
	}
	if after.Goroutines != before.Goroutines+1 {
		t.Errorf("goroutines: %d, then %d", before.Goroutines, after.Goroutines)
	}
}

func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		period := time.Minute
		calls, cpu, err := Idle(t.TempDir()+"/db", period)
		if err != nil {
			t.Fatal(err)
		}
		if calls != 0 {
			t.Errorf("%d file-system calls while idle", calls)
		}
		if cpu > 25*time.Millisecond {
			t.Errorf("%v of processor time in %v idle", cpu, period)
		}
	})
}

func TestCloseBusy(t *testing.T) {
	d, err := CloseBusy(t.TempDir()+"/db", testkit.Scale(20_000, 200_000, 2_000_000))
	if err != nil {
		t.Fatal(err)
	}
	if d > 10*time.Second {
		t.Errorf("Close took %v of processor time", d)
	}
}
