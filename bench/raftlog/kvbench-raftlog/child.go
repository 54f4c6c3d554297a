package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"github.com/loamdb/loam/bench/raftlog/logs"
	"golang.org/x/sys/unix"
)

// The first argument of a child, and its modes.
const (
	childVerb  = "child"
	modePhases = "phases" // all, then kill -9 of itself
	modeReopen = "reopen" // opens what the kill left
	modeAppend = "append" // appends and closes
	floorName  = "floor"
)

func child(args []string) error {
	var r result
	if len(args) != 2 {
		return errors.New("a child has a mode and a cell")
	}
	if err := json.Unmarshal([]byte(args[1]), &r.cell); err != nil {
		return err
	}
	b := &bench{result: &r, pool: pool(), payload: int64(r.Num) * int64(r.Size)}
	if r.Engine == floorName {
		return errors.Join(b.floor(), b.print())
	}
	e, err := logs.Find(r.Engine)
	if err != nil {
		return err
	}
	start := time.Now()
	if b.log, err = e.Open(r.Dir); err != nil {
		return err
	}
	switch args[0] {
	case modeAppend:
		return errors.Join(b.append(), b.log.Close(), b.print())
	case modeReopen:
		return errors.Join(b.reopened(start), b.log.Close(), b.print())
	}
	for _, phase := range []func() error{b.append, b.readAll, b.readRandom, b.catchUp, b.overwrite,
		b.truncate, b.print} {
		if err := phase(); err != nil {
			return err
		}
	}
	return unix.Kill(os.Getpid(), unix.SIGKILL)
}

// bench runs phases.
type bench struct {
	*result
	log     logs.Log
	pool    []byte
	payload int64
	last    uint64
}

// An entry begins with its index, and is cut from the pool.
const (
	leastSize = 8
	mostSize  = poolSize / 2
	poolSize  = 16 << 20
)

// pool are random bytes, which entries are cut from.
func pool() []byte {
	p := make([]byte, poolSize)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(p)
	return p
}

// fill makes the payload of an entry: its index, and bytes that no compression shortens.
func (b *bench) fill(l *raft.Log, index uint64) {
	at := int(index * 7919 % uint64(len(b.pool)-b.Size))
	l.Index, l.Term, l.Data = index, 1, append(l.Data[:0], b.pool[at:at+b.Size]...)
	binary.BigEndian.PutUint64(l.Data, index)
}

// store appends a batch and returns how long that took, without the making of the entries.
func (b *bench) store(batch []*raft.Log, first uint64) (time.Duration, error) {
	for i, l := range batch {
		b.fill(l, first+uint64(i))
	}
	start := time.Now()
	err := b.log.StoreLogs(batch)
	if b.last = first + uint64(len(batch)) - 1; err != nil {
		return 0, err
	}
	return time.Since(start), nil
}

func (b *bench) batch() []*raft.Log {
	batch := make([]*raft.Log, b.Batch)
	for i := range batch {
		batch[i] = &raft.Log{Data: make([]byte, 0, b.Size)}
	}
	return batch
}

func rate(bytes int64, d time.Duration) float64 { return float64(bytes) / 1e6 / d.Seconds() }

func (b *bench) append() error {
	written, cpu := writtenBytes(), cpuTime()
	batch := b.batch()
	var each []time.Duration
	var total time.Duration
	for first := uint64(1); first <= uint64(b.Num); first += uint64(b.Batch) {
		d, err := b.store(batch, first)
		if err != nil {
			return err
		}
		each, total = append(each, d), total+d
	}
	b.Append, b.AppendLatency = rate(b.payload, total), quantiles(each)
	b.Written = float64(writtenBytes()-written) / float64(b.payload)
	b.CPU = (cpuTime() - cpu).Seconds() / float64(b.payload) * 1e9
	b.SpaceFull = space(b.Dir)
	return nil
}

// read gets an entry and checks it.
func (b *bench) read(index uint64) error {
	l := raft.Log{}
	if err := b.log.GetLog(index, &l); err != nil {
		return fmt.Errorf("entry %d: %w", index, err)
	}
	if len(l.Data) != b.Size || binary.BigEndian.Uint64(l.Data) != index {
		return fmt.Errorf("entry %d has %d bytes, of another entry", index, len(l.Data))
	}
	return nil
}

func (b *bench) readAll() error {
	start := time.Now()
	for i := uint64(1); i <= uint64(b.Num); i++ {
		if err := b.read(i); err != nil {
			return err
		}
	}
	b.ReadAll = rate(b.payload, time.Since(start))
	return nil
}

func (b *bench) readRandom() error {
	n := min(b.Num, 20000)
	each := make([]time.Duration, n)
	r := rand.New(rand.NewPCG(1, 2))
	start := time.Now()
	for i := range each {
		index, at := 1+r.Uint64N(uint64(b.Num)), time.Now()
		if err := b.read(index); err != nil {
			return err
		}
		each[i] = time.Since(at)
	}
	b.ReadRandom = rate(int64(n)*int64(b.Size), time.Since(start))
	b.RandomLatency = quantiles(each)
	return nil
}

// catchUp reads the first half, as a leader does for a follower, while another goroutine appends.
func (b *bench) catchUp() error {
	var end atomic.Bool
	appended := make(chan error)
	go func() {
		batch := b.batch()
		var err error
		for !end.Load() && err == nil {
			_, err = b.store(batch, b.last+1)
		}
		appended <- err
	}()
	var err error
	start := time.Now()
	half := uint64(b.Num / 2)
	for i := uint64(1); i <= half && err == nil; i++ {
		err = b.read(i)
	}
	b.CatchUp = rate(int64(half)*int64(b.Size), time.Since(start))
	end.Store(true)
	return errors.Join(err, <-appended)
}

// overwrite replaces the last batch, as a follower does with what another leader did not commit.
func (b *bench) overwrite() error {
	batch := b.batch()
	var each []time.Duration
	for range 50 {
		first, start := b.last-uint64(b.Batch)+1, time.Now()
		if err := b.log.DeleteRange(first, b.last); err != nil {
			return err
		}
		removed := time.Since(start)
		d, err := b.store(batch, first)
		if err != nil {
			return err
		}
		each = append(each, removed+d)
	}
	b.OverwriteLatency = quantiles(each)
	return nil
}

// truncate removes the first 64 MiB again and again, until a tenth is left.
func (b *bench) truncate() error {
	step := uint64(max(64<<20/b.Size, b.Batch))
	var each []time.Duration
	for first := uint64(1); first+step < b.last-uint64(b.Num/10); first += step {
		start := time.Now()
		if err := b.log.DeleteRange(first, first+step-1); err != nil {
			return err
		}
		each = append(each, time.Since(start))
	}
	b.TruncateLatency = quantiles(each)
	batch := b.batch() // a flush or rotation, which frees what was removed
	more := min(80<<20, b.payload)
	for i := 0; int64(i)*int64(b.Size)*int64(b.Batch) < more; i++ {
		if _, err := b.store(batch, b.last+1); err != nil {
			return err
		}
	}
	b.SpaceCut = space(b.Dir)
	b.WrittenAll = float64(writtenBytes()) / float64(int64(b.last)*int64(b.Size))
	b.Entries = int(b.last)
	return nil
}

func (b *bench) reopened(start time.Time) error {
	last, err := b.log.LastIndex()
	if err != nil {
		return err
	}
	first, err := b.log.FirstIndex()
	if err != nil {
		return err
	}
	b.Reopen = time.Since(start)
	b.Entries = int(last)
	return errors.Join(b.read(first), b.read(last))
}

// floor appends the batches to a preallocated file, one write and one fdatasync each.
func (b *bench) floor() error {
	if err := os.MkdirAll(b.Dir, 0o777); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(b.Dir, "floor"))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Fallocate(int(f.Fd()), 0, 0, b.payload); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	written, cpu := writtenBytes(), cpuTime()
	var each []time.Duration
	var total time.Duration
	n := b.Batch * b.Size
	buf := make([]byte, n)
	for at := int64(0); at < b.payload; at += int64(n) {
		from := int(at * 7919 % int64(len(b.pool)))
		copy(buf[copy(buf, b.pool[from:]):], b.pool)
		start := time.Now()
		if _, err := f.WriteAt(buf, at); err != nil {
			return err
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return err
		}
		d := time.Since(start)
		each, total = append(each, d), total+d
	}
	b.Append, b.AppendLatency = rate(b.payload, total), quantiles(each)
	b.Written = float64(writtenBytes()-written) / float64(b.payload)
	b.CPU = (cpuTime() - cpu).Seconds() / float64(b.payload) * 1e9
	return nil
}

// print hands the result to the parent: only what this process measured.
func (b *bench) print() error {
	b.Memory = max(b.Memory, peak())
	return json.NewEncoder(os.Stdout).Encode(b.result)
}
