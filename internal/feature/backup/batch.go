package backup

import (
	"cmp"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/store"
)

// batchFiles is how many files are made durable together. Their descriptors are open until then.
const batchFiles = 16

// batch makes written files durable, many at a time. A sync of each file behind its last byte would
// wait for that byte and for a commit of the file system's journal. Of a batch, most bytes have
// reached the device when the first file is synced, and the commit that it waits for serves the
// others too.
type batch struct {
	settling sync.Mutex // held while files are synced: the others gather meanwhile
	mu       sync.Mutex // a leaf
	files    []written
}

// written is a file that has all its bytes, and need not be durable.
type written struct {
	out vfs.WriteFile
	// then is called once out is closed: err is nil if it is durable. What then returns is the
	// file's error.
	then func(err error) error
}

// add takes a file, whose then is called, by this or a later call of add, finish or abandon. The
// error may be that of another file.
func (b *batch) add(f written) error {
	_ = vfs.StartSync(f.out) // settle says what came of it
	b.mu.Lock()
	b.files = append(b.files, f)
	full := len(b.files) >= batchFiles
	b.mu.Unlock()
	if !full {
		return nil
	}
	b.settling.Lock()
	defer b.settling.Unlock()
	var err error
	for _, f := range b.take() {
		err = f.settle(err)
	}
	return err
}

// take returns the files that were added since.
func (b *batch) take() []written {
	b.mu.Lock()
	defer b.mu.Unlock()
	files := b.files
	b.files = nil
	return files
}

// finish settles all files, several side by side. The error is that of the first one that failed,
// or of stop, after which no file is synced.
func (b *batch) finish(stop func() error) error {
	files := b.take()
	var settled atomic.Int64
	err := store.Share(len(files), workers, func(numbers iter.Seq[int]) error {
		for i := range numbers {
			settled.Add(1)
			if err := files[i].settle(stop()); err != nil {
				return err
			}
		}
		return nil
	})
	for _, f := range files[settled.Load():] { // dealt out in their order
		_ = f.settle(err)
	}
	return err
}

// abandon gives all files up.
func (b *batch) abandon() {
	for _, f := range b.take() {
		_ = f.settle(base.ErrClosed)
	}
}

// settle makes a file durable unless another one failed.
func (f *written) settle(failed error) error {
	err := base.Protect(func() error {
		if failed != nil {
			return failed
		}
		return f.out.Sync()
	})
	err = cmp.Or(err, base.Protect(f.out.Close))
	return base.Protect(func() error { return f.then(err) })
}
