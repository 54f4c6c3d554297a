package wal

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/batchrepr"
	"github.com/loamdb/loam/internal/format/record"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/fstest"
)

// written is a set of chained logs as a killed process leaves them.
type written struct {
	mem    *vfs.Mem
	nums   []uint64
	files  map[uint64][]byte
	placed map[base.SeqNum]record.LogEnd // where each batch ends
	last   base.SeqNum
	read   base.SeqNum // the last entry that replay has read
	vouch  []voucher
}

// voucher is a chunk that says up to which entry logs were durable.
type voucher struct {
	num      uint64
	from, to int64
	synced   base.SeqNum
}

// changed says how the bytes of a log from an offset on were changed.
type changed int

const (
	flip  changed = iota // one byte
	cut                  // nothing is left
	zeros                // zeros are
)

// markerLen is how many bytes a marker takes.
const markerLen = 19 + batchrepr.HeaderLen

// writeLogs runs a script over a Set: "w" writes a batch of one entry, "s" syncs, "r"
// rotates, "h" takes a sequence number that is in no log, "H" does and leaves no marker, as
// earlier versions did when they carried batches into a new log.
func writeLogs(t testing.TB, steps string) *written {
	t.Helper()
	o := &written{mem: vfs.NewMem(), files: map[uint64][]byte{},
		placed: map[base.SeqNum]record.LogEnd{}}
	synced := base.SeqNum(0) // by a Sync of the current log
	must(t, o.mem.MkdirAll("db"))
	next := uint64(3)
	s := New(Options{
		FS: o.mem, Dir: "db", Format: base.Native, NewFileNum: func() uint64 {
			next++
			return next
		},
		Fail: func(err error) error {
			t.Error(err)
			return err
		}, Panicked: func(r any) error { t.Error(r); return nil },
	})
	for _, step := range "r" + steps {
		switch step {
		case 'w':
			from := s.Size()
			if s.next <= o.last {
				o.vouch = append(o.vouch, voucher{s.Num(), from, from + markerLen, synced})
				from += markerLen
			}
			o.last++
			must(t, s.Append([][]byte{batch(o.last, 1)}))
			o.placed[o.last] = record.LogEnd{Num: s.Num(), End: s.Size()}
			o.vouch = append(o.vouch, voucher{s.Num(), from, s.Size(), synced})
		case 'h':
			o.last++
		case 'H':
			o.last++
			s.next = o.last + 1
		case 's':
			must(t, s.Sync())
			synced = o.last
		case 'r':
			num, err := s.Rotate(o.last)
			must(t, err)
			o.nums = append(o.nums, num)
			o.vouch = append(o.vouch, voucher{num, 0, s.Size(), synced})
			synced = 0
		}
	}
	left := o.mem.CrashClone(vfs.KeepAll())
	must(t, s.Close(false))
	o.mem = left
	for _, num := range o.nums {
		b, err := fstest.ReadFile(left, "db/"+base.Native.FileName(base.FileLog, num))
		must(t, err)
		o.files[num] = b
	}
	return o
}

// put replaces the contents of a log; nil removes it.
func (o *written) put(t testing.TB, num uint64, b []byte) {
	name := "db/" + base.Native.FileName(base.FileLog, num)
	_ = o.mem.Remove(name)
	if b == nil {
		return
	}
	f, err := o.mem.Create(name)
	must(t, err)
	_, err = f.Write(b)
	must(t, errors.Join(err, f.Close()))
}

// replay reads the logs, and wants the entries in order from the first on. The MANIFEST knows the
// last sequence number, as after the flush of another keyspace.
func (o *written) replay(t testing.TB, synced record.LogEnd) (*Replay, error) {
	t.Helper()
	next := base.SeqNum(1)
	o.read = 0
	r := &Replay{FS: o.mem, Dir: "db", Format: base.Native, Synced: synced, Last: o.last,
		Apply: func(_ uint64, b []byte) error {
			for o.placed[next].Num == 0 && next < o.last {
				next++
			}
			if !bytes.Equal(b, batch(next, 1)) {
				t.Fatalf("instead of entry %d: %x", next, b)
			}
			o.read = next
			next++
			return nil
		}}
	nums, err := r.Needed(func(name string) (base.FileType, uint64) {
		return base.Native.ParseFileName(name)
	}, o.nums[0], 0)
	must(t, err)
	return r, r.Run(nums, o.nums[0])
}

// TestChainedLogs changes and cuts all logs of several at every byte: Run fails, naming a log,
// exactly if something is missing that a later chunk says was synced, or a log that another one was
// begun behind. If anything else is missing, the report says so. Sequence numbers that are in no
// log are no damage.
func TestChainedLogs(t *testing.T) {
	for _, steps := range []string{
		"wwswwww", "wwwwrwwww", "wwsrwww", "wwswrwwswww", "wwwrwwrwsww", "wswrwrwwrwww",
		"wwwrwwwrwwwswrww", "rrwwsrwww", "wwwrsw", "wwhwww", "whrwww", "hwHwswhhw", "wwHrwww",
		"wHwrHwswHrww", "wwHrwsw",
	} {
		o := writeLogs(t, steps)
		r, err := o.replay(t, record.LogEnd{})
		if err != nil || o.read != o.last || len(r.Report.Dropped) != 0 {
			t.Fatalf("%s: undamaged: %d of %d, %v, %v", steps, o.read, o.last, err,
				r.Report.Dropped)
		}
		for _, num := range o.nums {
			whole := o.files[num]
			for at := range whole {
				flipped := bytes.Clone(whole)
				flipped[at] ^= 1 << (at % 8)
				for how, b := range [][]byte{flipped, whole[:at:at],
					append(whole[:at:at], make([]byte, 100)...)} {
					o.put(t, num, b)
					r, err := o.replay(t, record.LogEnd{})
					differs := at
					for changed(how) == zeros && differs < min(len(whole)-1, at+100) &&
						whole[differs] == 0 {
						differs++
					}
					o.judge(t, fmt.Sprintf("%s: log %d at %d, %d", steps, num, at, how),
						record.LogEnd{Num: num, End: int64(differs)}, changed(how), r, err)
				}
			}
			o.put(t, num, nil)
			r, err := o.replay(t, record.LogEnd{})
			var c *base.Corruption
			switch what := fmt.Sprintf("%s: log %d is missing", steps, num); {
			case num == o.nums[len(o.nums)-1]:
				o.judge(t, what, record.LogEnd{Num: num, End: 0}, cut, r, err)
			case !errors.As(err, &c) || c.File != base.Native.FileName(base.FileLog, num):
				t.Fatalf("%s: %v", what, err)
			}
			if len(o.nums) == 1 && err == nil && len(r.Report.Dropped) == 0 {
				t.Fatalf("%s: the first log is missing, and nothing said", steps)
			}
			o.put(t, num, whole)
		}
	}
}

// vouched is the last entry that an unchanged chunk records as durable.
func (o *written) vouched(at record.LogEnd, how changed) (last base.SeqNum) {
	for _, v := range o.vouch {
		hit := v.num == at.Num && at.End < v.to && (how != flip || at.End >= v.from)
		if !hit {
			last = max(last, v.synced)
		}
	}
	return last
}

// judge looks at what a replay said after the bytes of a log at a place were changed.
func (o *written) judge(t *testing.T, what string, at record.LogEnd, how changed, r *Replay,
	err error) {
	t.Helper()
	vouched := o.vouched(at, how)
	isLast := at.Num == o.nums[len(o.nums)-1]
	var c *base.Corruption
	switch {
	case err != nil:
		if !errors.As(err, &c) || c.File == "" ||
			c.File == base.Native.FileName(base.FileLog, at.Num) && c.Offset > at.End {
			t.Fatalf("%s: %v", what, err)
		}
		if vouched == 0 || o.whole(at) >= vouched && at.End > 100 {
			t.Fatalf("%s: entries up to %d are there, up to %d were durable: %v", what, o.whole(at),
				vouched, err)
		}
	case o.read < vouched:
		t.Fatalf("%s: only %d of %d that were durable, and Run does not fail; %v", what, o.read,
			vouched, r.Report.Dropped)
	case o.read < o.last && len(r.Report.Dropped) == 0 && (how == flip || !isLast):
		t.Fatalf("%s: only %d of %d, and nothing was dropped", what, o.read, o.last)
	}
}

// whole is the last entry that ends before a place.
func (o *written) whole(at record.LogEnd) (last base.SeqNum) {
	for seq, end := range o.placed {
		if end.Num < at.Num || end.Num == at.Num && end.End <= at.End {
			last = max(last, seq)
		}
	}
	return last
}

// TestManifestVouchesForLogs has the manifest know what was synced: nothing of that can be cut off,
// the last log included.
func TestManifestVouchesForLogs(t *testing.T) {
	o := writeLogs(t, "wwrwws")
	num := o.nums[1]
	whole := o.files[num]
	synced := record.LogEnd{Num: num, End: int64(len(whole))}
	if _, err := o.replay(t, synced); err != nil || o.read != o.last {
		t.Fatalf("undamaged: %d, %v", o.read, err)
	}
	for at := range whole {
		o.put(t, num, whole[:at])
		if _, err := o.replay(t, synced); !errors.Is(err, base.ErrCorruption) {
			t.Fatalf("cut at %d: %v", at, err)
		}
	}
	o.put(t, num, nil)
	if _, err := o.replay(t, synced); !errors.Is(err, base.ErrCorruption) {
		t.Fatalf("removed: %v", err)
	}
	o.put(t, num, whole)
	o.put(t, o.nums[0], o.files[o.nums[0]][:200])
	if _, err := o.replay(t, synced); !errors.Is(err, base.ErrCorruption) {
		t.Fatalf("the log before it was cut: %v", err)
	}
}

// TestInterruptedRecovery has a log into which a recovery copied the batches of older ones
// before it was interrupted: they count once.
func TestInterruptedRecovery(t *testing.T) {
	for _, format := range []base.Format{base.LevelDB, base.Native} {
		mem := vfs.NewMem()
		must(t, mem.MkdirAll("db"))
		next := uint64(3)
		o := Options{
			FS: mem, Dir: "db", Format: format, NewFileNum: func() uint64 { next++; return next },
			Fail: func(err error) error {
				t.Error(err)
				return err
			}, Panicked: func(r any) error { t.Error(r); return nil },
		}
		s := New(o)
		batches := [][]byte{batch(1, 2), batch(3, 1), batch(4, 3)}
		for i, b := range batches {
			if i < 2 {
				_, err := s.Rotate(batchrepr.Seq(b) - 1)
				must(t, err)
			}
			must(t, s.Append([][]byte{b}))
		}
		must(t, s.Close(false))
		copied := New(o)
		if _, err := copied.RotateWith(batches, 0); err != nil {
			t.Fatal(err)
		}
		must(t, copied.Close(false))
		entries := uint32(0)
		r := &Replay{FS: mem, Dir: "db", Format: format, Apply: func(_ uint64, b []byte) error {
			entries += batchrepr.Count(b)
			return nil
		}}
		nums, err := r.Needed(format.ParseFileName, 4, 0)
		must(t, err)
		must(t, r.Run(nums, 4))
		if len(nums) != 3 || entries != 6 || len(r.Report.Dropped) > 0 || r.Last != 6 {
			t.Errorf("%v: logs %v, %d entries, up to %d, %v", format, nums, entries, r.Last,
				r.Report.Dropped)
		}
		must(t, (&Replay{FS: mem, Dir: "db", Format: format, Apply: r.Apply}).Run(nums[2:], 6))
		if entries != 12 {
			t.Errorf("%v: the copy alone has %d entries", format, entries-6)
		}
	}
}
