package runner

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/loamdb/loam/internal/workload"
	"github.com/loamdb/loam/internal/workload/store"
	"github.com/loamdb/loam/internal/workload/store/storetest"
)

// written is how many bytes a loggingStore hands to the kernel for each write: far more than the
// runtime writes to wake its threads.
const written = 1000

// loggingDriver has stores that count each write as a byte of log.
type loggingDriver struct {
	*storetest.Model
	log *os.File
}

type loggingStore struct {
	store.Store
	store.Changing
	store.Dumper
	driver *loggingDriver
	writes *int64
}

func (d *loggingDriver) Open(dir string, c store.Config) (store.Store, error) {
	db, err := d.Model.Open(dir, c)
	if err != nil {
		return nil, err
	}
	changing, _ := db.(store.Changing)
	dumper, _ := db.(store.Dumper)
	return loggingStore{db, changing, dumper, d, new(int64)}, nil
}

func (s loggingStore) write() {
	*s.writes++
	_, _ = s.driver.log.Write(make([]byte, written))
}

func (s loggingStore) Put(key, value []byte, sync bool) error {
	s.write()
	return s.Store.Put(key, value, sync)
}

func (s loggingStore) Delete(key []byte, sync bool) error {
	s.write()
	return s.Store.Delete(key, sync)
}

func (s loggingStore) Dump(file string) error {
	s.write()
	return s.Dumper.Dump(file)
}

func (s loggingStore) Metrics() store.Metrics {
	m := store.UnknownMetrics()
	m.WALBytes = *s.writes
	return m
}

// TestPreparationIsNotCounted: what comes before the clock starts is in none of the figures.
func TestPreparationIsNotCounted(t *testing.T) {
	for name, want := range map[string]int64{
		"fillseq":  num,
		"queue":    2 * (num / 10), // 1000 messages are there before
		"windowed": 2 * num,
		"emptied":  0, // a put and a delete of each message come before
		"changes":  0,
		"load":     0, // a dump is made before
	} {
		r, m := newRunner(t)
		log, err := os.Create(filepath.Join(t.TempDir(), "log"))
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		r.Driver = &loggingDriver{m, log}
		r.Sleep = func(time.Duration) {}
		res := run(t, r, name)
		if res.Skipped != "" || res.Metrics.WALBytes != want {
			t.Errorf("%s: %d bytes of the log, want %d; %s", name, res.Metrics.WALBytes, want,
				res.Line())
		}
		if res.Written != nil && *res.Written > (want+num/10)*written {
			t.Errorf("%s: the process wrote %d bytes, want %d", name, *res.Written, want*written)
		}
	}
}

// TestMixersAreMadeBefore: a thread of a mixed benchmark has its generator, whose sums over all
// keys take as long as many operations, before the clock starts.
func TestMixersAreMadeBefore(t *testing.T) {
	r, _ := newRunner(t)
	run(t, r, "fillseq")
	spec, _ := workload.Find("ycsba")
	team, _ := r.team(&spec, 2)
	for _, thread := range team {
		if want := thread.mixer(&spec); thread.mix != want {
			t.Errorf("%+v, want %+v", thread.mix, want)
		}
	}
}

// TestSamplesOfBefore: a sampler that starts again has forgotten what it saw.
func TestSamplesOfBefore(t *testing.T) {
	r, _ := newRunner(t)
	run(t, r, "fillseq")
	s := r.sample(&Live{})
	s.mu.Lock()
	s.samples = append(s.samples, Sample{At: time.Hour})
	s.mu.Unlock()
	s.restart()
	for _, one := range s.finish() {
		if one.At >= time.Hour {
			t.Error("a sample of before")
		}
	}
}
