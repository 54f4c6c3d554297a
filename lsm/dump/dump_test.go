package dump_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/loamdb/loam/internal/feature/transfer"
	"github.com/loamdb/loam/internal/format/block"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/seed"
	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/dump"
)

// TestRoundTrip: a dump that is loaded gives what the model says, in both formats and from each to
// the other.
func TestRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(uint64(seed.Of(t)), 1))
	formats := []lsm.Format{lsm.FormatNative, lsm.FormatLevelDB}
	for i := range 24 {
		from, to := formats[i%2], formats[i/2%2]
		kinds := from == lsm.FormatNative && to == lsm.FormatNative
		c, fsys := &clock{}, vfs.NewMem()
		db := mustOpen(t, "db", options(fsys, from, c))
		want := fill(t, db, rng, 400, kinds)
		sameModel(t, contents(t, db), want)
		b := written(t, db, 1+rng.IntN(3000), block.Codec(i%3))
		must(t, db.Close())
		o := options(fsys, from, c)
		o.ReadOnly = true
		ro := mustOpen(t, "db", o)
		var again bytes.Buffer
		info, err := dump.Write(ctx, ro, &again, &dump.Options{Compression: lsm.ZstdCompression})
		must(t, err)
		must(t, ro.Close())
		for j, b := range [][]byte{b, again.Bytes()} {
			copied := mustOpen(t, fmt.Sprint("copy", j), options(fsys, to, c))
			loaded := mustLoad(t, copied, b)
			sameModel(t, contents(t, copied), want)
			must(t, copied.Close())
			copied = mustOpen(t, fmt.Sprint("copy", j), options(fsys, to, c))
			sameModel(t, contents(t, copied), want)
			if len(loaded.Keyspaces) != len(info.Keyspaces) || loaded.Bytes != info.Bytes ||
				loaded.Sequence != info.Sequence {
				t.Errorf("%+v, %+v", loaded, info)
			}
			for k, s := range loaded.Keyspaces {
				if s.Entries != uint64(len(want[s.Name])) || s != info.Keyspaces[k] {
					t.Errorf("%+v, want %+v with %d entries", s, info.Keyspaces[k],
						len(want[s.Name]))
				}
			}
			if kinds {
				users, err := copied.Keyspace("users", nil)
				must(t, err)
				// it has its operator
				must(t, users.Merge([]byte("merged"), []byte("a"), lsm.NoSync))
				must(t, users.Merge([]byte("merged"), []byte("b"), lsm.NoSync))
				if v, err := users.Get([]byte("merged"), nil); string(v) != "a,b" || err != nil {
					t.Errorf("%q, %v", v, err)
				}
			}
			if _, err := fsys.Stat(fmt.Sprintf("copy%d/LOADING", j)); err == nil {
				t.Error("LOADING is left")
			}
			must(t, copied.Close())
		}
		if verified, err := dump.Verify(ctx, bytes.NewReader(b), nil); err != nil ||
			verified.Bytes != info.Bytes || verified.Size != int64(len(b)) {
			t.Errorf("%+v, %v", verified, err)
		}
	}
}

// TestDeadlines: values expire in the copy when they do in the database, whatever default the copy
// has; what has expired is not in a dump.
func TestDeadlines(t *testing.T) {
	c, fsys := &clock{}, vfs.NewMem()
	db := mustOpen(t, "db", options(fsys, lsm.FormatNative, c))
	for _, ttl := range []int{5, 100, 200} {
		must(t, db.PutTTL(fmt.Append(nil, "lives", ttl), []byte("x"),
			time.Duration(ttl)*time.Second, lsm.NoSync))
	}
	must(t, db.Put([]byte("for ever"), []byte("y"), lsm.NoSync))
	c.seconds.Store(10)
	var b bytes.Buffer
	info, err := dump.Write(ctx, db, &b, nil)
	must(t, err)
	if info.Keyspaces[0].Entries != 3 || !info.Keyspaces[0].Expires {
		t.Errorf("%+v", info)
	}
	o := options(fsys, lsm.FormatNative, c)
	o.DefaultTTL = time.Minute
	c.seconds.Store(150)
	to := mustOpen(t, "to", o)
	mustLoad(t, to, b.Bytes())
	sameModel(t, contents(t, to),
		model{"default": {"for ever": live("y", 0), "lives200": live("x", 50*time.Second)}})
	ldb := mustOpen(t, "ldb", options(fsys, lsm.FormatLevelDB, c))
	if _, err := dump.Load(ctx, ldb, bytes.NewReader(b.Bytes()),
		nil); !errors.Is(err, lsm.ErrNeedsNative) {
		t.Errorf("into LevelDB's format: %v", err)
	}
	if _, err := fsys.Stat("ldb/LOADING"); err == nil {
		t.Error("a refused load has begun")
	}
}

// sample is a small dump with all kinds.
func sample(t testing.TB) (b []byte, want model) {
	t.Helper()
	c, fsys := &clock{}, vfs.NewMem()
	db := mustOpen(t, "db", options(fsys, lsm.FormatNative, c))
	want = model{"default": {}, "users": {}, "backward": {}}
	for i := range 12 {
		key, value := fmt.Sprint("key", i), strings.Repeat(fmt.Sprint(i), 3*i)
		must(t, db.Put([]byte(key), []byte(value), lsm.NoSync))
		want["default"][key] = live(value, 0)
		must(t, openSpace(t, db, "users").PutTTL([]byte(key), []byte(value), time.Hour, lsm.NoSync))
		want["users"][key] = live(value, time.Hour)
		must(t, openSpace(t, db, "backward").Put([]byte(key), nil, lsm.NoSync))
		want["backward"][key] = live("", 0)
	}
	return written(t, db, 100, block.Snappy), want
}

// TestDamage: a dump that was cut anywhere, or has another byte anywhere, is an error, and what was
// loaded by then is right.
func TestDamage(t *testing.T) {
	b, want := sample(t)
	t.Logf("%d bytes", len(b))
	c := &clock{}
	check := func(what string, damaged []byte) {
		t.Helper()
		fsys := vfs.NewMem()
		// not mustOpen, which keeps it until the test ends
		db, err := lsm.Open("db", options(fsys, lsm.FormatNative, c))
		must(t, err)
		defer db.Close()
		_, err = dump.Load(ctx, db, bytes.NewReader(damaged), nil)
		if !errors.Is(err, lsm.ErrCorruption) && !errors.Is(err, lsm.ErrNewerFormat) {
			t.Fatalf("%s: %v", what, err)
		}
		var place *lsm.CorruptionError
		if errors.As(err, &place) && (place.Offset < 0 || place.Offset > int64(len(b))) {
			t.Fatalf("%s: %v", what, err)
		}
		if _, err2 := dump.Verify(ctx, bytes.NewReader(damaged), nil); err2 == nil {
			t.Fatalf("%s: it is whole for Verify, not for Load: %v", what, err)
		}
		for name, space := range contents(t, db) {
			for key, value := range space {
				if want[name][key] != value {
					t.Fatalf("%s: key %q of %q has %q", what, key, name, value)
				}
			}
		}
	}
	for i := range b {
		check(fmt.Sprint("cut at ", i), b[:i])
		for _, mask := range []byte{1, 0x80, 0xff} {
			damaged := slices.Clone(b)
			damaged[i] ^= mask
			check(fmt.Sprint("byte ", i, " xor ", mask), damaged)
		}
	}
	fsys := vfs.NewMem()
	db := mustOpen(t, "db", options(fsys, lsm.FormatNative, c))
	r := bytes.NewReader(append(slices.Clone(b), "behind"...))
	_, err := dump.Load(ctx, db, r, nil)
	must(t, err)
	if r.Len() != len("behind") {
		t.Errorf("%d bytes behind the dump were left, want %d", r.Len(), len("behind"))
	}
	sameModel(t, contents(t, db), want)
}

// frames are where the frames of a dump end.
func frames(t testing.TB, b []byte) (ends []int) {
	t.Helper()
	for at := 12; at < len(b); {
		at += 24 + int(binary.LittleEndian.Uint32(b[at+4:])) + 8
		ends = append(ends, at)
	}
	return ends
}

// TestFramesMoved: frames that are whole, but repeated, left out or exchanged, are damage.
func TestFramesMoved(t *testing.T) {
	b, _ := sample(t)
	ends := frames(t, b)
	if len(ends) < 8 || ends[len(ends)-1] != len(b) {
		t.Fatalf("frames end at %v of %d", ends, len(b))
	}
	for i := 1; i < len(ends); i++ {
		out := append(slices.Clone(b[:ends[i-1]]), b[ends[i]:]...)
		twice := append(slices.Clone(b[:ends[i]]), b[ends[i-1]:]...)
		for what, moved := range map[string][]byte{"left out": out, "repeated": twice} {
			if _, err := dump.Verify(ctx, bytes.NewReader(moved),
				nil); !errors.Is(err, lsm.ErrCorruption) &&
				(what == "left out" || i < len(ends)-1) {
				t.Errorf("frame %d %s: %v", i, what, err)
			}
		}
	}
}

// TestRefusals: every obstacle is reported before a write.
func TestRefusals(t *testing.T) {
	b, _ := sample(t)
	c := &clock{}
	load := func(want error, words string, prepare func(o *lsm.Options) *lsm.DB) {
		t.Helper()
		fsys := vfs.NewMem()
		db := prepare(options(fsys, lsm.FormatNative, c))
		before := contents(t, db)
		_, err := dump.Load(ctx, db, bytes.NewReader(b), nil)
		if !errors.Is(err, want) || !strings.Contains(err.Error(), words) {
			t.Errorf("%v; want %v, %q", err, want, words)
		}
		if _, err := fsys.Stat("db/LOADING"); err == nil {
			t.Errorf("%v: the load has begun", want)
		}
		sameModel(t, contents(t, db), before)
		must(t, db.Close())
	}
	load(lsm.ErrNeedsNative, "keyspace", func(o *lsm.Options) *lsm.DB {
		o.Format = lsm.FormatLevelDB
		return mustOpen(t, "db", o)
	})
	load(lsm.ErrComparerMismatch, "test.backward", func(o *lsm.Options) *lsm.DB {
		o.Comparers = nil
		return mustOpen(t, "db", o)
	})
	load(lsm.ErrComparerMismatch, "default", func(o *lsm.Options) *lsm.DB {
		o.Comparer = backward
		return mustOpen(t, "db", o)
	})
	load(lsm.ErrExists, `"users" is not empty`, func(o *lsm.Options) *lsm.DB {
		db := mustOpen(t, "db", o)
		must(t, openSpace(t, db, "users").Put([]byte("there"), nil, lsm.NoSync))
		return db
	})
	load(lsm.ErrReadOnly, "", func(o *lsm.Options) *lsm.DB {
		must(t, mustOpen(t, "db", o).Close())
		o.ReadOnly = true
		return mustOpen(t, "db", o)
	})
	db := mustOpen(t, "db", options(vfs.NewMem(), lsm.FormatNative, c))
	other := mustOpen(t, "db", options(vfs.NewMem(), lsm.FormatNative, c))
	closed := db.Snapshot()
	must(t, closed.Close())
	foreign := other.Snapshot()
	for _, s := range []struct {
		snap *lsm.Snapshot
		want error
	}{{closed, lsm.ErrClosed}, {foreign, lsm.ErrInvalidArgument}, {new(lsm.Snapshot),
		lsm.ErrInvalidArgument}} {
		var w bytes.Buffer
		if _, err := dump.Write(ctx, db, &w, &dump.Options{Snapshot: s.snap}); !errors.Is(err,
			s.want) || w.Len() > 0 {
			t.Errorf("%v, %d bytes; want %v", err, w.Len(), s.want)
		}
	}
	must(t, foreign.Close())
	bad := func(_ *dump.Info, err error) {
		t.Helper()
		if !errors.Is(err, lsm.ErrInvalidArgument) {
			t.Error(err)
		}
	}
	bad(dump.Write(nil, db, io.Discard, nil)) //nolint:staticcheck // a nil context is refused
	bad(dump.Write(ctx, nil, io.Discard, nil))
	bad(dump.Write(ctx, db, nil, nil))
	bad(dump.Write(ctx, db, io.Discard, &dump.Options{Compression: 9}))
	bad(dump.Write(ctx, db, io.Discard, &dump.Options{Continue: true}))
	bad(dump.Load(ctx, nil, bytes.NewReader(b), nil))
	bad(dump.Load(ctx, db, nil, nil))
	bad(dump.Verify(ctx, nil, nil))
	must(t, db.Close())
	if _, err := dump.Write(ctx, db, io.Discard, nil); !errors.Is(err, lsm.ErrClosed) {
		t.Error(err)
	}
	if _, err := dump.Load(ctx, db, bytes.NewReader(b), nil); !errors.Is(err, lsm.ErrClosed) {
		t.Error(err)
	}
}

// counted is a context that is done when it was asked so often.
type counted struct {
	context.Context
	left int
}

func (c *counted) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestLoadOfManyKeyspaces: a load that creates many keyspaces ends among them when its context is
// done, and goes on later.
func TestLoadOfManyKeyspaces(t *testing.T) {
	const many = 20
	c := &clock{}
	db := mustOpen(t, "db", options(vfs.NewMem(), lsm.FormatNative, c))
	for i := range many {
		must(t, openSpace(t, db, fmt.Sprint(i)).Put([]byte("key"), nil, lsm.NoSync))
	}
	var b bytes.Buffer
	_, err := dump.Write(ctx, db, &b, nil)
	must(t, err)
	to := mustOpen(t, "db", options(vfs.NewMem(), lsm.FormatNative, c))
	_, err = dump.Load(&counted{ctx, many / 2}, to, bytes.NewReader(b.Bytes()), nil)
	if n := len(to.Keyspaces()); !errors.Is(err, context.Canceled) || n < 2 || n > many/2 {
		t.Errorf("%d keyspaces, %v", n, err)
	}
	mustLoad(t, to, b.Bytes())
	sameModel(t, contents(t, to), contents(t, db))
}

// TestOverwrite: a dump replaces the entries under its keys, and no others.
func TestOverwrite(t *testing.T) {
	b, want := sample(t)
	c := &clock{}
	db := mustOpen(t, "db", options(vfs.NewMem(), lsm.FormatNative, c))
	must(t, db.Put([]byte("key3"), []byte("old"), lsm.NoSync))
	must(t, db.Put([]byte("other"), []byte("stays"), lsm.NoSync))
	must(t, openSpace(t, db, "own").Put([]byte("key3"), []byte("own"), lsm.NoSync))
	_, err := dump.Load(ctx, db, bytes.NewReader(b), &dump.LoadOptions{Overwrite: true})
	must(t, err)
	want["default"]["other"] = live("stays", 0)
	want["own"] = map[string]string{"key3": live("own", 0)}
	sameModel(t, contents(t, db), want)
}

// TestResume: a load that failed, or was canceled, at any block goes on from there, with a stream
// that is sought or read, after another opening too.
func TestResume(t *testing.T) {
	b, want := sample(t)
	other, _ := sample(t)
	ends := frames(t, b)
	c := &clock{}
	for i, end := range ends[:len(ends)-1] {
		for _, how := range []string{"cut", "failed", "canceled"} {
			fsys := vfs.NewMem()
			db := mustOpen(t, "db", options(fsys, lsm.FormatNative, c))
			cctx, cancel := context.WithCancel(ctx)
			r, wantErr := io.Reader(bytes.NewReader(b[:end+10])), error(lsm.ErrCorruption)
			var o dump.LoadOptions
			switch how {
			case "failed":
				r, wantErr = io.MultiReader(bytes.NewReader(b[:end+10]),
					iotest.ErrReader(io.ErrClosedPipe)), io.ErrClosedPipe
			case "canceled":
				r, wantErr = bytes.NewReader(b), context.Canceled
				o.Progress = func(p dump.Progress) {
					if p.Offset == int64(end) {
						cancel()
					}
				}
				if i == 0 {
					cancel()
				}
			}
			if _, err := dump.Load(cctx, db, r, &o); !errors.Is(err, wantErr) {
				t.Fatalf("%s behind frame %d: %v", how, i, err)
			}
			cancel()
			if i%2 == 0 {
				must(t, db.Close())
				db = mustOpen(t, "db", options(fsys, lsm.FormatNative, c))
			}
			if i > 0 || how != "canceled" {
				if _, err := dump.Load(ctx, db, bytes.NewReader(other),
					nil); !errors.Is(err, lsm.ErrExists) {
					t.Fatalf("another dump: %v", err)
				}
			}
			first := uint64(0) // entries at the first call of progress
			o = dump.LoadOptions{Progress: func(p dump.Progress) {
				if first == 0 {
					first = p.Entries
				}
			}}
			r = bytes.NewReader(b)
			if i%3 == 0 {
				r = io.MultiReader(r) // which cannot be sought
			}
			seq := db.Metrics().LastSequence
			info, err := dump.Load(ctx, db, r, &o)
			must(t, err)
			all, loaded := uint64(0), db.Metrics().LastSequence-seq
			for _, s := range info.Keyspaces {
				all += s.Entries
			}
			if before := all - loaded; i > 1 && (before == 0 || first <= before && loaded > 0) {
				t.Errorf("%s behind frame %d: %d of %d entries were written the second time, the "+
					"first block then ended at %d", how, i, loaded, all, first)
			}
			sameModel(t, contents(t, db), want)
			must(t, db.Close())
		}
	}
}

// TestLastStepOfALoadAgain: a load that fails when all is loaded is completed by the same call.
func TestLastStepOfALoadAgain(t *testing.T) {
	b, want := sample(t)
	for _, c := range []struct {
		kind vfs.OpKind
		done bool
	}{{vfs.OpRemove, false}, {vfs.OpRemove, true}, {vfs.OpSyncDir, false}, {vfs.OpSyncDir, true}} {
		ending, failed := false, false
		fsys := vfs.NewFault(vfs.NewMem(), func(op vfs.Op) (out vfs.Outcome) {
			ending = ending || op.Kind == vfs.OpRemove && filepath.Base(op.Name) == "LOADING"
			if ending && !failed && op.Kind == c.kind {
				failed, out = true, vfs.Outcome{Err: syscall.EIO, Done: c.done}
			}
			return out
		})
		db := mustOpen(t, "db", options(fsys, lsm.FormatNative, new(clock)))
		if _, err := dump.Load(ctx, db, bytes.NewReader(b), nil); !errors.Is(err, syscall.EIO) {
			t.Fatalf("%v: %v", c, err)
		}
		if _, err := dump.Load(ctx, db, bytes.NewReader(b), nil); err != nil {
			t.Errorf("%v, again: %v", c, err)
		}
		sameModel(t, contents(t, db), want)
		if _, err := dump.Load(ctx, db, bytes.NewReader(b), nil); !errors.Is(err, lsm.ErrExists) {
			t.Errorf("%v, once more: %v", c, err)
		}
	}
}

// TestBusy: two loads at a time.
func TestBusy(t *testing.T) {
	b, want := sample(t)
	db := mustOpen(t, "db", options(vfs.NewMem(), lsm.FormatNative, &clock{}))
	var inner error
	_, err := dump.Load(ctx, db, bytes.NewReader(b),
		&dump.LoadOptions{Progress: func(dump.Progress) {
			_, inner = dump.Load(ctx, db, bytes.NewReader(b), nil)
		}})
	if err != nil || !errors.Is(inner, lsm.ErrBusy) {
		t.Errorf("%v, %v", err, inner)
	}
	sameModel(t, contents(t, db), want)
}

// TestPanics: a reader, a writer or a callback that panics fails the call, and the database goes
// on.
func TestPanics(t *testing.T) {
	b, want := sample(t)
	fsys := vfs.NewMem()
	db := mustOpen(t, "db", options(fsys, lsm.FormatNative, &clock{}))
	oops := func(dump.Progress) { panic("oops") }
	if _, err := dump.Load(ctx, db, bytes.NewReader(b), &dump.LoadOptions{Progress: oops}); err ==
		nil || !strings.Contains(err.Error(), "oops") {
		t.Error(err)
	}
	mustLoad(t, db, b)
	sameModel(t, contents(t, db), want)
	if _, err := dump.Write(ctx, db, io.Discard, &dump.Options{Progress: oops}); err == nil ||
		!strings.Contains(err.Error(), "oops") {
		t.Error(err)
	}
	must(t, db.Put([]byte("a"), nil, lsm.Sync))
	if n := db.Metrics().Snapshots; n != 0 {
		t.Errorf("%d snapshots are open", n)
	}
}

// TestClose: a database that is closed meanwhile, by a callback too, ends a dump and a load.
func TestClose(t *testing.T) {
	b, want := sample(t)
	fsys := vfs.NewMem()
	db := mustOpen(t, "db", options(fsys, lsm.FormatNative, &clock{}))
	_, err := dump.Load(ctx, db, bytes.NewReader(b),
		&dump.LoadOptions{Progress: func(dump.Progress) { _ = db.Close() }})
	if !errors.Is(err, lsm.ErrClosed) {
		t.Error(err)
	}
	db = mustOpen(t, "db", options(fsys, lsm.FormatNative, &clock{}))
	mustLoad(t, db, b)
	sameModel(t, contents(t, db), want)
	_, err = transfer.Dump(ctx, db.Inside(), io.Discard,
		transfer.DumpOptions{BlockBytes: 1, Progress: func(transfer.Progress) { _ = db.Close() }})
	if !errors.Is(err, lsm.ErrClosed) {
		t.Error(err)
	}
}

// TestDumpBesideWrites: a dump has one state, while writes, flushes, compactions and drops of
// keyspaces go on.
func TestDumpBesideWrites(t *testing.T) {
	rng := rand.New(rand.NewPCG(uint64(seed.Of(t)), 2))
	c, fsys := &clock{}, vfs.NewMem()
	db := mustOpen(t, "db", options(fsys, lsm.FormatNative, c))
	want := fill(t, db, rng, 500, true)
	var b bytes.Buffer
	calls := 0
	_, err := transfer.Dump(ctx, db.Inside(), &b,
		transfer.DumpOptions{BlockBytes: 2000, Codec: block.Zstd,
			Progress: func(transfer.Progress) {
				switch calls++; calls {
				case 1:
					must(t, db.DropKeyspace("users"))
				case 5:
					must(t, db.CompactRange(nil, nil))
				}
				for range 10 {
					writeOne(t, db, rng, map[string]string{}, "backward", true)
					writeOne(t, db, rng, map[string]string{}, "default", true)
				}
			}})
	must(t, err)
	if calls < 10 {
		t.Errorf("%d blocks", calls)
	}
	to := mustOpen(t, "to", options(fsys, lsm.FormatNative, c))
	mustLoad(t, to, b.Bytes())
	sameModel(t, contents(t, to), want)
}

// TestContinue: a dump that was cut anywhere is completed from the same snapshot, or from a
// database that was not written since, and is then the dump that it would have been.
func TestContinue(t *testing.T) {
	rng := rand.New(rand.NewPCG(uint64(seed.Of(t)), 3))
	c, fsys := &clock{}, vfs.NewMem()
	db := mustOpen(t, "db", options(fsys, lsm.FormatNative, c))
	want := fill(t, db, rng, 300, true)
	snap := db.Snapshot()
	name := filepath.Join(t.TempDir(), "dump")
	var b bytes.Buffer
	small := transfer.DumpOptions{BlockBytes: 4000, Codec: block.Snappy}
	_, err := transfer.Dump(ctx, db.Inside(), &b, small)
	must(t, err)
	seen := contents(t, db)
	ends := frames(t, b.Bytes())
	complete := func(cut []byte, o *dump.Options) ([]byte, error) {
		t.Helper()
		must(t, os.WriteFile(name, cut, 0o600))
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		must(t, err)
		defer f.Close()
		o.Continue = true
		_, err = dump.Write(ctx, db, f, o)
		whole, err2 := os.ReadFile(name)
		must(t, err2)
		return whole, err
	}
	check := func(cut []byte, o *dump.Options) {
		t.Helper()
		whole, err := complete(cut, o)
		must(t, err)
		to := mustOpen(t, "to", options(vfs.NewMem(), lsm.FormatNative, c))
		mustLoad(t, to, whole)
		sameModel(t, contents(t, to), seen)
		must(t, to.Close())
	}
	sameModel(t, seen, want)
	check(nil, &dump.Options{})
	for round := range 2 {
		for range 60 {
			check(b.Bytes()[:ends[0]+rng.IntN(b.Len()-ends[0]+1)], &dump.Options{Snapshot: snap})
		}
		zeros := append(slices.Clone(b.Bytes()[:ends[3]+5]), make([]byte, 1000)...)
		check(zeros, &dump.Options{Snapshot: snap}) // what a power cut leaves of a file
		if whole, err := complete(b.Bytes(), &dump.Options{}); round == 0 &&
			(err != nil || !bytes.Equal(whole, b.Bytes())) {
			t.Errorf("a whole one has changed: %v", err)
		}
		if round > 0 {
			break
		}
		// and the snapshot is as before
		must(t, db.Put([]byte("key100"), []byte("new"), lsm.NoSync))
		cut := b.Bytes()[:ends[3]]
		if whole, err := complete(cut, &dump.Options{}); !errors.Is(err, lsm.ErrInvalidArgument) ||
			!bytes.Equal(whole, cut) {
			t.Errorf("of another state: %v", err)
		}
	}
	if _, err := complete(b.Bytes()[:20], &dump.Options{Snapshot: snap}); !errors.Is(err,
		lsm.ErrCorruption) {
		t.Errorf("without a header: %v", err)
	}
	must(t, snap.Close())
}

// TestContinueChecks: another database with the same sequence number is recognized by its entries.
func TestContinueChecks(t *testing.T) {
	c := &clock{}
	var files [2][]byte
	var dbs [2]*lsm.DB
	for i := range 2 {
		dbs[i] = mustOpen(t, "db", options(vfs.NewMem(), lsm.FormatNative, c))
		for k := range 50 {
			must(t, dbs[i].Put(fmt.Append(nil, "key", k), fmt.Append(nil, i), lsm.NoSync))
		}
		files[i] = written(t, dbs[i], 100, block.None)
	}
	name := filepath.Join(t.TempDir(), "dump")
	must(t, os.WriteFile(name, files[0][:len(files[0])/2], 0o600))
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	if _, err := dump.Write(ctx, dbs[1], f, &dump.Options{Continue: true}); !errors.Is(err,
		lsm.ErrInvalidArgument) {
		t.Error(err)
	}
	_, err = dump.Write(ctx, dbs[0], f, &dump.Options{Continue: true})
	must(t, err)
	_, err = f.Seek(0, io.SeekStart)
	must(t, err)
	_, err = dump.Verify(ctx, f, nil)
	must(t, err)
}

// TestLargeValues: entries beyond the size of a block, and beyond what is compressed.
func TestLargeValues(t *testing.T) {
	c := &clock{}
	db := mustOpen(t, "db", options(vfs.NewMem(), lsm.FormatNative, c))
	want := model{"default": {}}
	// the last two take 500 MB of memory
	sizes := []int{100 << 10, 256<<10 - 4, 256 << 10, 3 << 20, 40 << 20, 70 << 20}
	for i, size := range sizes[:seed.Scale(4, 4, 6)] {
		value := strings.Repeat("0123456789abcdef", size/16)
		must(t, db.Put(fmt.Append(nil, i), []byte(value), lsm.NoSync))
		want["default"][fmt.Sprint(i)] = live(value, 0)
	}
	var b bytes.Buffer
	_, err := dump.Write(ctx, db, &b, nil)
	must(t, err)
	to := mustOpen(t, "db", options(vfs.NewMem(), lsm.FormatNative, c))
	mustLoad(t, to, b.Bytes())
	sameModel(t, contents(t, to), want)
}
