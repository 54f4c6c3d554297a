package runner

import (
	"io/fs"
	"path/filepath"
	"time"

	"github.com/loamdb/loam/internal/kvbench/machine"
)

const (
	spaceEvery = 100 * time.Millisecond
	spaceShare = 100 // at most one part in so many of the time goes to looking
)

// spaceWatch looks from a goroutine of its own at how much space a directory
// takes on disk.
type spaceWatch struct {
	dir        string
	peak, last int64
	stop, done chan struct{}
}

func watchSpace(dir string) *spaceWatch {
	w := &spaceWatch{dir: dir, stop: make(chan struct{}), done: make(chan struct{})}
	go w.loop()
	return w
}

func (w *spaceWatch) loop() {
	defer close(w.done)
	for {
		start := time.Now()
		machine.Look(w.look)
		select {
		case <-w.stop:
			machine.Look(w.look)
			return
		case <-time.After(max(spaceEvery, spaceShare*time.Since(start))):
		}
	}
}

func (w *spaceWatch) look() {
	w.last = spaceOf(w.dir)
	w.peak = max(w.peak, w.last)
}

// finish looks once more and ends the watch.
func (w *spaceWatch) finish() (peak, last int64) {
	close(w.stop)
	<-w.done
	return w.peak, w.last
}

// spaceOf is what the files below dir take on disk, space allocated ahead of
// writes included, without the marker. A file removed meanwhile counts nothing.
func spaceOf(dir string) int64 {
	var sum int64
	// An entry that cannot be read is one that was removed.
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || d.Name() == marker {
			return nil
		}
		if info, err := d.Info(); err == nil {
			sum += allocated(info)
		}
		return nil
	})
	return sum
}
