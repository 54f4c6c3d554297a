package blocks

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loamdb/loam/lsm"
)

func open(t *testing.T) (*lsm.DB, *Feed) {
	t.Helper()
	db, err := lsm.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	feed, err := db.Changes(0, nil)
	if err != nil {
		t.Fatal(err)
	}
	return db, New(feed)
}

// next is a block, nil if there is none in time.
func next(f *Feed, size int, timeout time.Duration) (block []byte, err error) {
	_, err = f.Next(size, timeout, func(b []byte) error {
		block = bytes.Clone(b)
		return nil
	})
	return block, err
}

// seqs are the first sequence numbers of the changes in a block.
func seqs(t *testing.T, block []byte) (list []uint64) {
	t.Helper()
	for len(block) > 0 {
		n := binary.LittleEndian.Uint32(block)
		list = append(list, binary.LittleEndian.Uint64(block[4:]))
		block = block[4+n:]
	}
	return list
}

// TestBlocks reads what was written in blocks of a size, and compares positions.
func TestBlocks(t *testing.T) {
	db, f := open(t)
	if block, err := next(f, 0, 0); block != nil || err != nil || f.Position() != 1 {
		t.Fatal(block, err, f.Position())
	}
	// header, kind and lengths, key and value, its length in the block
	const changes, each = 100, 12 + 3 + 6 + 4
	for i := range changes {
		if err := db.Put(fmt.Appendf(nil, "%03d", i), []byte("abc"), lsm.NoSync); err != nil {
			t.Fatal(err)
		}
	}
	want := uint64(1)
	for want <= changes {
		block, err := next(f, 5*each, -1)
		if err != nil || len(block) == 0 || len(block) > 5*each {
			t.Fatal(len(block), err)
		}
		for _, seq := range seqs(t, block) {
			if seq != want {
				t.Fatalf("%d, not %d", seq, want)
			}
			want++
		}
		if f.Position() != want {
			t.Fatalf("at %d, not %d", f.Position(), want)
		}
	}
	if block, err := next(f, 0, time.Millisecond); block != nil || err != nil {
		t.Error(block, err)
	}
}

// TestTurns has one thread wait, which keeps those from nothing that wait for less, and does not
// outlive the feed.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, f := open(t)
		var wg sync.WaitGroup
		wg.Go(func() {
			block, err := next(f, 0, -1)
			if err != nil || len(seqs(t, block)) != 1 {
				t.Error(block, err)
			}
		})
		synctest.Wait()
		if len(f.turn) == 0 {
			t.Error("nobody waits")
		}
		for _, timeout := range []time.Duration{0, time.Millisecond} {
			if block, err := next(f, 0, timeout); block != nil || err != nil || f.Position() != 1 {
				t.Error(timeout, block, err, f.Position())
			}
		}
		if err := db.Put([]byte("a"), nil, lsm.NoSync); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		for range 3 {
			wg.Go(func() {
				if block, err := next(f, 0, -1); !errors.Is(err, lsm.ErrClosed) {
					t.Error(block, err)
				}
			})
		}
		synctest.Wait()
		if len(f.turn) == 0 {
			t.Error("nobody waits")
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		wg.Wait()
	})
}

// TestRefused: a block that its receiver could not take is returned again, before the later
// changes.
func TestRefused(t *testing.T) {
	db, f := open(t)
	for range 3 {
		if err := db.Put([]byte("a"), make([]byte, 100), lsm.NoSync); err != nil {
			t.Fatal(err)
		}
	}
	given, err := f.Next(130, 0, func([]byte) error { return lsm.ErrNoMemory })
	if given || !errors.Is(err, lsm.ErrNoMemory) || f.Position() != 1 {
		t.Error(given, err, f.Position())
	}
	for want := uint64(1); want <= 3; want++ {
		block, err := next(f, 130, 0)
		if list := seqs(t, block); err != nil || len(list) != 1 || list[0] != want ||
			f.Position() != want+1 {
			t.Error(list, err, f.Position())
		}
	}
}
