package replicate

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/seed"
	"github.com/loamdb/loam/lsm"
)

// history is a random life of a database beside its replicator.
type history struct {
	t      *testing.T
	r      *rand.Rand
	clock  *clock
	fs     *vfs.Mem
	opts   *lsm.Options
	db     *lsm.DB
	beside *lsm.Follower // nil: the replicator is in the writer's process
	target *memTarget
	run    *runner
	o      Options
	states []moments
	made   int // keyspaces and loads
	native bool
}

// moments is a state that was sent.
type moments struct {
	at, now time.Time
	want    contents
}

var errTarget = errors.New("a failure of the target")

// TestHistories writes, sends and restores at random: each state that was sent is restored as it
// was, after ends of the writer and of the replicator at any moment, calls of the target that fail
// with and without effect, and ingests, which no log has.
func TestHistories(t *testing.T) {
	for _, follows := range []bool{false, true} {
		for i := range 8 {
			t.Run(fmt.Sprintf("follows=%t/%d", follows, i), func(t *testing.T) {
				t.Parallel()
				h := &history{t: t, r: rand.New(rand.NewPCG(uint64(seed.Of(t)), 0)),
					clock: newClock(), fs: vfs.NewMem(), target: newMem()}
				h.opts = &lsm.Options{FS: h.fs, Clock: h.clock.time, WriteBufferSize: 64 << 10}
				if h.native = i < 5; h.native {
					h.opts.MergeOperator = lsm.MergeOperatorNamed("append")
				} else {
					h.opts.Format = lsm.FormatLevelDB
				}
				if h.r.IntN(2) == 0 {
					h.opts.WALRetentionBytes = 1 << 20
				}
				h.o = Options{Clock: h.clock.time, SegmentBytes: 1 + h.r.IntN(2000),
					SnapshotEvery: time.Duration(1+h.r.IntN(100)) * time.Second}
				h.live(follows)
			})
		}
	}
}

func (h *history) live(follows bool) {
	h.open(follows)
	for range 40 {
		for range h.r.IntN(12) {
			h.write()
		}
		h.clock.add(time.Duration(h.r.IntN(3000)) * time.Millisecond)
		switch h.r.IntN(20) {
		case 0:
			h.run.close()
			must(h.t, h.db.Close())
			if h.beside != nil {
				must(h.t, h.beside.Close())
			}
			h.open(follows)
		case 1:
			h.run.close()
			h.begin()
		case 2:
			h.failing()
		}
		h.sent(settle(h.run))
	}
	h.run.close()
	must(h.t, h.db.Close())
	if h.beside != nil {
		must(h.t, h.beside.Close())
	}
	for i, s := range h.states {
		if i%5 != 0 && i != len(h.states)-1 {
			continue
		}
		got, made := restoredAt(h.t, h.target, s.at, s.now)
		if diff := got.diff(s.want); diff != "" {
			h.t.Fatalf("state %d of %d, %v: %s", i, len(h.states), made, diff)
		}
	}
}

func (h *history) open(follows bool) {
	db, err := lsm.Open("db", h.opts)
	must(h.t, err)
	h.db = db
	if follows {
		h.beside, err = lsm.OpenFollower("db", h.opts)
		must(h.t, err)
	}
	h.begin()
}

func (h *history) begin() {
	db := h.db
	if h.beside != nil {
		db = h.beside.DB
	}
	h.run = runnerOf(h.t, db, h.target, h.o)
}

// failing takes steps while calls of the target fail at random.
func (h *history) failing() {
	rare := 1 + h.r.IntN(4)
	h.target.fail = func(op, name string, done bool) error {
		if h.r.IntN(rare) == 0 {
			return errTarget
		}
		return nil
	}
	for range 1 + h.r.IntN(3) {
		if err := settle(h.run); err != nil && !errors.Is(err, errTarget) {
			h.t.Fatal(err)
		}
		h.write()
	}
	h.target.fail = nil
}

// sent notes the state that a step has sent.
func (h *history) sent(err error) {
	must(h.t, err)
	h.states = append(h.states, moments{moment(h.run.last), h.clock.time(),
		contentsOf(h.t, h.db)})
}

func (h *history) key() []byte { return fmt.Appendf(nil, "k%02d", h.r.IntN(40)) }

func (h *history) space() *lsm.Keyspace {
	names := h.db.Keyspaces()
	k, err := h.db.Keyspace(names[h.r.IntN(len(names))], nil)
	must(h.t, err)
	return k
}

func (h *history) write() {
	k := h.space()
	value := fmt.Appendf(nil, "%d", h.r.IntN(1000))
	var err error
	switch h.r.IntN(16) {
	case 0:
		h.made++
		_, err = h.db.Keyspace(fmt.Sprint("s", h.made%4), nil)
		if err != nil || h.r.IntN(2) == 0 { // it gets its operator later
			break
		}
		_, err = h.db.Keyspace(fmt.Sprint("s", h.made%4),
			&lsm.KeyspaceOptions{MergeOperator: h.opts.MergeOperator})
	case 1:
		if k.Name() != "default" {
			err = h.db.DropKeyspace(k.Name())
		}
	case 2:
		err = k.DeleteRange([]byte("k1"), h.key(), lsm.NoSync)
		if errors.Is(err, lsm.ErrInvalidArgument) {
			err = nil // the key is before the start
		}
	case 3:
		_, err = h.db.Keyspace(k.Name(), &lsm.KeyspaceOptions{MergeOperator: h.opts.MergeOperator})
		if err != nil {
			break
		}
		err = k.Merge(h.key(), value, lsm.NoSync)
	case 4:
		err = k.PutTTL(h.key(), value, time.Duration(1+h.r.IntN(20))*time.Second, lsm.NoSync)
	case 5:
		err = k.Delete(h.key(), lsm.NoSync)
	case 6:
		b := h.db.NewBatch()
		for range 1 + h.r.IntN(20) {
			b.In(h.space()).Put(h.key(), value)
			b.In(h.space()).Delete(h.key())
			if h.native {
				b.Merge(h.key(), value)
			}
		}
		err = h.db.Write(b, lsm.Sync)
	case 7:
		if h.r.IntN(4) == 0 {
			err = k.Flush()
		}
	case 8:
		if h.r.IntN(8) == 0 {
			err = k.CompactRange(nil, nil)
		}
	case 9:
		if h.r.IntN(8) == 0 {
			err = h.ingest(k)
		}
	case 10:
		err = k.Put(h.key(), make([]byte, h.r.IntN(3000)), lsm.NoSync)
	default:
		err = k.Put(h.key(), value, lsm.NoSync)
	}
	if h.native || !errors.Is(err, lsm.ErrNeedsNative) {
		must(h.t, err)
	}
}

// ingest loads keys that have entries, or new ones into LevelDB's format.
func (h *history) ingest(k *lsm.Keyspace) error {
	format := "k%02d"
	if !h.native {
		h.made++
		format = fmt.Sprint("new", h.made, "-%02d")
	}
	return k.BulkLoad(ctx, func(yield func(key, value []byte) bool) {
		for i := range 20 {
			if !yield(fmt.Appendf(nil, format, 20+i), []byte("loaded")) {
				return
			}
		}
	}, nil)
}
