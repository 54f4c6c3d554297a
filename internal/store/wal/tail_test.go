package wal

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/batchrepr"
	"github.com/loamdb/loam/internal/os/vfs"
)

// follower checks what a Tail returns against the batches that were written.
type follower struct {
	tail *Tail
	o    TailOptions
	// by the sequence number of the first operation; a record has one or several
	batches map[base.SeqNum][]byte
	last    base.SeqNum // read
	// where a log begins that was found although those before it are gone
	missed func(log uint64) (last base.SeqNum)
}

// poll reads to the end, and returns the error that ended it, if not ErrNotYet.
func (f *follower) poll(t testing.TB) error {
	t.Helper()
	for {
		r, err := f.tail.Next()
		if errors.Is(err, ErrNotYet) {
			return nil
		}
		if err != nil {
			return err
		}
		if f.missed != nil && r.First > f.last+1 {
			f.last = f.missed(r.Log)
		}
		if r.First > f.last+1 || r.Last <= f.last || r.Log == 0 || r.End <= r.Begin ||
			f.tail.Place() != (Place{r.Log, r.End}) {
			t.Fatalf("record %d to %d of log %d, [%d, %d), after %d; place %+v", r.First, r.Last,
				r.Log, r.Begin, r.End, f.last, f.tail.Place())
		}
		if want := f.batches[r.First]; f.batches != nil &&
			!bytes.HasPrefix(r.Batch[batchrepr.HeaderLen:], want[batchrepr.HeaderLen:]) {
			t.Fatalf("batch %d is another one", r.First)
		}
		f.last = r.Last
	}
}

// randomBatch is a batch from seq on, sometimes larger than a block.
func randomBatch(rng *rand.Rand, seq base.SeqNum) []byte {
	b := batchrepr.Init(nil)
	size := 50
	if rng.IntN(10) == 0 {
		size = rng.IntN(100 << 10)
	}
	for i := range 1 + rng.IntN(4) {
		b = batchrepr.AppendEntry(b, base.DefaultKeyspace, base.KindSet,
			fmt.Appendf(nil, "key%06d", int(seq)+i), bytes.Repeat([]byte{byte(rng.Uint32())},
				rng.IntN(size+1)))
	}
	batchrepr.SetSeq(b, seq)
	return b
}

// tailedSet is Sets that write, rotate, reuse their logs, end and begin anew, and a follower.
type tailedSet struct {
	*Set
	*follower
	t       testing.TB
	rng     *rand.Rand
	mem     *vfs.Mem
	format  base.Format
	next    uint64
	written base.SeqNum            // the last one
	needed  uint64                 // older logs are obsolete
	before  map[uint64]base.SeqNum // the last number before each log
}

func newTailedSet(t testing.TB, format base.Format, seed uint64) *tailedSet {
	s := &tailedSet{t: t, rng: rand.New(rand.NewPCG(seed, uint64(format))), mem: vfs.NewMem(),
		format: format, next: 3, before: map[uint64]base.SeqNum{}}
	must(t, s.mem.MkdirAll("db"))
	s.follower = &follower{o: TailOptions{FS: s.mem, Dir: "db", Format: format},
		batches: map[base.SeqNum][]byte{}}
	if format == base.LevelDB { // whose logs do not name the ones before them
		s.missed = func(log uint64) base.SeqNum {
			if s.before[log] > s.before[s.needed] {
				t.Fatalf("seed %d: a gap before log %d", seed, log)
			}
			return s.before[log]
		}
	}
	s.open()
	s.rotate()
	s.needed = s.Num()
	s.tail = NewTail(s.o, Place{Log: s.Num()})
	return s
}

// open makes the Set of another opening.
func (s *tailedSet) open() {
	t := s.t
	s.Set = New(Options{
		FS: s.mem, Dir: "db", Format: s.format, Preallocate: 1 << 10, NewFileNum: func() uint64 {
			s.next++
			return s.next
		},
		Fail: func(err error) error {
			t.Error(err)
			return err
		}, Panicked: func(r any) error { t.Error(r); return nil },
		Rename: func(_ string, rename func() error) error { return rename() },
		Delete: func(name string) { _ = s.mem.Remove("db/" + name) },
	})
}

func (s *tailedSet) rotate() {
	num, err := s.Rotate(s.written)
	must(s.t, err)
	s.before[num] = s.written
}

// reopen kills the process. A later opening carries the batches of the last log over.
func (s *tailedSet) reopen() {
	from := s.before[s.Num()] + 1
	var carried [][]byte
	for seq := from; seq <= s.written; seq += base.SeqNum(batchrepr.Count(s.batches[seq])) {
		carried = append(carried, s.batches[seq])
	}
	s.open()
	if len(carried) == 0 {
		s.rotate()
		return
	}
	num, err := s.RotateWith(carried, 0)
	must(s.t, err)
	s.before[num] = from - 1
}

func (s *tailedSet) step() {
	switch op := s.rng.IntN(32); {
	case op < 24:
		b := randomBatch(s.rng, s.written+1)
		must(s.t, s.Append([][]byte{b}))
		s.batches[s.written+1] = b
		s.written += base.SeqNum(batchrepr.Count(b))
	case op < 25:
		must(s.t, s.Sync())
	case op < 27:
		s.rotate()
	case op < 29:
		s.Prepare()
	case op < 30:
		s.Trim()
	case op < 31:
		s.release()
	default:
		s.reopen()
	}
}

// release is called when what is in older logs has come into tables.
func (s *tailedSet) release() {
	s.needed = s.Num()
	for _, num := range s.TakeObsolete(s.needed) {
		_ = s.mem.Remove("db/" + s.format.FileName(base.FileLog, num))
	}
}

// follow reads on. A log that is gone is an obsolete one; then reading goes on with the first that
// is needed.
func (s *tailedSet) follow() (gone bool) {
	err := s.poll(s.t)
	if gone = errors.Is(err, ErrLogGone) && s.tail.Place().Log < s.needed; gone {
		s.skip()
	} else if err != nil {
		s.t.Fatalf("%v; log %d is needed, the current one is %d", err, s.needed, s.Num())
	}
	return gone
}

// skip goes on with the first log that is needed.
func (s *tailedSet) skip() {
	must(s.t, s.tail.Close())
	s.last = max(s.last, s.before[s.needed])
	s.o.Last = s.last
	s.tail = NewTail(s.o, Place{Log: s.needed})
}

// restart begins a Tail where the last one stood, as another process does.
func (s *tailedSet) restart() {
	place := s.tail.Place()
	must(s.t, s.tail.Close())
	if s.tail.Place() != place {
		s.t.Fatal("Close moves the place")
	}
	s.o.Last = s.last
	s.tail = NewTail(s.o, place)
}

// TestTailOfASet follows Sets that write, rotate, reuse their logs, end and begin anew: the Tail
// returns each batch once and in order. Only a log that is obsolete may be gone.
func TestTailOfASet(t *testing.T) {
	for _, format := range []base.Format{base.Native, base.LevelDB} {
		gone := 0
		for seed := uint64(1); seed <= 12; seed++ {
			s := newTailedSet(t, format, seed)
			rarely := 1 + 60*int(seed%3)
			for range 300 {
				s.step()
				if s.rng.IntN(4*rarely) == 0 && s.follow() {
					gone++
				}
				if s.rng.IntN(20) == 0 {
					s.restart()
				}
			}
			for s.last < s.written {
				if before := s.tail.Place(); !s.follow() && s.last < s.written &&
					s.tail.Place() == before {
					t.Fatalf("format %v, seed %d: %d of %d, at %+v", format, seed, s.last,
						s.written, before)
				}
			}
			must(t, s.tail.Close())
			if first, err := FirstSeq(s.o, s.Num()); err != nil || first != s.before[s.Num()]+1 {
				t.Fatalf("format %v, seed %d: log %d begins with %d, %v; want %d", format, seed,
					s.Num(), first, err, s.before[s.Num()]+1)
			}
		}
		if gone == 0 && format == base.Native {
			t.Error("no log was gone")
		}
	}
}

// TestTailWhileLogsGo: the writer goes on between any two calls of the Tail, so that logs vanish or
// become others between their listing, their opening and their reading. "Not yet" means that all is
// read that was written before, unless it is obsolete.
func TestTailWhileLogsGo(t *testing.T) {
	for _, format := range []base.Format{base.Native, base.LevelDB} {
		for seed := uint64(1); seed <= 10; seed++ {
			s := newTailedSet(t, format, seed)
			var steps int
			s.o.FS = vfs.NewFault(s.mem, func(op vfs.Op) vfs.Outcome {
				if (op.Kind == vfs.OpOpen || op.Kind == vfs.OpRead) && steps > 0 {
					if steps--; s.rng.IntN(3) == 0 {
						s.rotate()
						s.release()
					}
					s.step()
				}
				return vfs.Outcome{}
			})
			must(t, s.tail.Close())
			s.tail = NewTail(s.o, s.tail.Place())
			for range 25 {
				steps = 1 + s.rng.IntN(60)
				before := s.written
				if err := s.poll(t); errors.Is(err, ErrLogGone) && s.tail.Place().Log < s.needed {
					s.skip()
				} else if err != nil {
					t.Fatalf("format %v, seed %d: %v", format, seed, err)
				} else if s.last < before {
					t.Fatalf("format %v, seed %d: %d of %d at %+v, log %d is needed", format, seed,
						s.last, before, s.tail.Place(), s.needed)
				}
			}
			must(t, s.tail.Close())
		}
	}
}

// TestTailBesideAWriter reads files while another goroutine writes them, through mapped files where
// the system has them.
func TestTailBesideAWriter(t *testing.T) {
	for _, format := range []base.Format{base.Native, base.LevelDB} {
		dir, next := t.TempDir(), uint64(3)
		s := New(Options{
			FS: vfs.Default, Dir: dir, Format: format, Preallocate: 256 << 10,
			NewFileNum: func() uint64 {
				next++
				return next
			}, Fail: func(err error) error {
				t.Error(err)
				return err
			}, Panicked: func(r any) error { t.Error(r); return nil },
			Rename: func(_ string, rename func() error) error { return rename() },
			Delete: func(name string) { _ = vfs.Default.Remove(filepath.Join(dir, name)) },
		})
		first, err := s.Rotate(0)
		must(t, err)
		f := &follower{o: TailOptions{FS: vfs.Default, Dir: dir, Format: format}}
		f.tail = NewTail(f.o, Place{Log: first})
		const n = 60000
		var reading atomic.Uint64 // the log that the reader is in
		reading.Store(first)
		done := make(chan error, 1)
		go func() {
			done <- func() error {
				rng := rand.New(rand.NewPCG(1, 0))
				for seq := base.SeqNum(1); seq <= n; seq++ {
					b := batch(seq, 1)
					if rng.IntN(300) == 0 {
						b = batchrepr.Init(nil)
						b = batchrepr.AppendEntry(b, base.DefaultKeyspace, base.KindSet,
							fmt.Appendf(nil, "key%06d", seq), make([]byte, rng.IntN(200<<10)))
						batchrepr.SetSeq(b, seq)
					}
					if err := s.Append([][]byte{b}); err != nil {
						return err
					}
					if rng.IntN(2000) == 0 {
						if _, err := s.Rotate(seq); err != nil {
							return err
						}
						for _, num := range s.TakeObsolete(reading.Load()) {
							if err := vfs.Default.Remove(
								filepath.Join(dir, format.FileName(base.FileLog, num))); err !=
								nil {
								return err
							}
						}
						s.Prepare()
					}
				}
				return nil
			}()
		}()
		for written := false; !written || f.last < n; {
			select {
			case err := <-done:
				must(t, err)
				written = true
			default:
			}
			before := f.last
			if err := f.poll(t); err != nil {
				t.Fatalf("format %v: %d of %d: %v", format, f.last, n, err)
			}
			reading.Store(f.tail.Place().Log)
			if written && before == f.last && f.last < n {
				t.Fatalf("format %v: only %d of %d, at %+v; the writer is in log %d", format,
					f.last, n, f.tail.Place(), s.Num())
			}
		}
		must(t, f.tail.Close())
		must(t, s.Close(false))
	}
}

// TestTailFaults fails each call of a Tail once: what it returns afterwards is the same.
func TestTailFaults(t *testing.T) {
	for _, cause := range []error{syscall.EIO, syscall.EMFILE} {
		for at := 0; ; at++ {
			r := newReuser(t, nil)
			n, failed := 0, false
			fsys := vfs.NewFault(r.mem, func(op vfs.Op) vfs.Outcome {
				if op.Kind == vfs.OpClose {
					return vfs.Outcome{}
				}
				if n++; n-1 == at {
					failed = true
					return vfs.Outcome{Err: cause}
				}
				return vfs.Outcome{}
			})
			f := &follower{o: TailOptions{FS: fsys, Dir: "db", Format: base.Native}}
			f.tail = NewTail(f.o, Place{Log: r.fill(t, 3)})
			for range 3 {
				for range 2 {
					if err := f.poll(t); err != nil && !errors.Is(err, cause) {
						t.Fatalf("call %d: %v", at, err)
					}
				}
				if failed && f.last != r.last {
					t.Fatalf("call %d: %d of %d", at, f.last, r.last)
				}
				r.fill(t, 3)
				r.TakeObsolete(r.Num() - 1)
				r.Prepare()
			}
			must(t, f.tail.Close())
			if !failed {
				break
			}
		}
	}
}

// TestTailDamage changes bytes of logs in the middle: what comes before is returned, then there is
// an error, and the Tail moves nowhere.
func TestTailDamage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, steps := range []string{"wwwwwwsww", "wwwwrwwww", "wswwrwrww"} {
			o := writeLogs(t, steps)
			for seq := base.SeqNum(1); seq < 4; seq++ {
				at := o.placed[seq]
				b := bytes.Clone(o.files[at.Num])
				b[at.End-1] ^= 4
				damaged := vfs.NewMem()
				must(t, damaged.MkdirAll("db"))
				for _, num := range o.nums {
					contents := o.files[num]
					if num == at.Num {
						contents = b
					}
					w, err := damaged.Create("db/" + base.Native.FileName(base.FileLog, num))
					must(t, err)
					_, err = w.Write(contents)
					must(t, err)
					must(t, w.Close())
				}
				f := &follower{o: TailOptions{FS: damaged, Dir: "db", Format: base.Native}}
				f.tail = NewTail(f.o, Place{Log: o.nums[0]})
				var err error
				for range 10 {
					if err = f.poll(t); err != nil {
						break
					}
					time.Sleep(settle + time.Millisecond) // the Tail looks twice
				}
				if f.last != seq-1 || !errors.Is(err, base.ErrCorruption) {
					t.Errorf("%s, batch %d: read up to %d, %v", steps, seq, f.last, err)
				}
				place := f.tail.Place()
				if err := f.poll(t); !errors.Is(err, base.ErrCorruption) && err != nil ||
					f.tail.Place() != place {
					t.Errorf("%s, batch %d: then %v at %+v", steps, seq, err, f.tail.Place())
				}
			}
		}
	})
}
