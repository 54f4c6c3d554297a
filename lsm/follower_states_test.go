package lsm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
)

// followed is a database in memory, and its follower, beside whose catch-ups something happens.
type followed struct {
	mem *vfs.Mem
	db  *DB
	f   *Follower
	// reads is called before each read of much of a log by f.
	reads func()
}

func newFollowed(t *testing.T, o Options) *followed {
	mem := vfs.NewMem()
	x := &followed{mem: mem, reads: func() {}}
	o.FS = vfs.NewFault(mem, func(op vfs.Op) vfs.Outcome {
		log := strings.HasSuffix(op.Name, ".wal") || strings.HasSuffix(op.Name, ".log")
		if op.Kind == vfs.OpRead && log && op.N > 1<<10 {
			x.reads()
		}
		return vfs.Outcome{}
	})
	beside := o
	o.FS = mem
	var err error
	x.db, err = Open("db", &o)
	must(t, err)
	x.f, err = OpenFollower("db", &beside)
	must(t, err)
	t.Cleanup(func() { must(t, errors.Join(x.f.Close(), x.db.Close())) })
	return x
}

func number(i int) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(i)) }

func numberOf(t *testing.T, v []byte, err error) int {
	t.Helper()
	if errors.Is(err, ErrNotFound) {
		return 0
	}
	must(t, err)
	return int(binary.LittleEndian.Uint64(v))
}

// TestFollowerAheadOfItsLogs: the tables of one keyspace have more than what was read of the logs
// so far. A read within the catch-up finds nothing of it before all is read that came earlier.
func TestFollowerAheadOfItsLogs(t *testing.T) {
	needsNative(t)
	x := newFollowed(t, Options{WriteBufferSize: 16 << 20}) // one keyspace is flushed, by hand
	ks, err := x.db.Keyspace("other", nil)
	must(t, err)
	must(t, x.f.CatchUp(context.Background()))
	seen, err := x.f.Keyspace("other", nil)
	must(t, err)
	value := make([]byte, 64<<10)
	const n = 160 // 10 MiB: more than becomes visible at once
	for i := 1; i <= n; i++ {
		must(t, x.db.Put([]byte("value"), value, NoSync))
		must(t, x.db.Put([]byte("n"), number(i), NoSync))
		must(t, ks.Put([]byte("n"), number(i), NoSync))
	}
	must(t, ks.Flush())
	reads := 0
	x.reads = func() {
		reads++
		a, err := x.f.Get([]byte("n"), nil)
		first := numberOf(t, a, err)
		b, err := seen.Get([]byte("n"), nil)
		second := numberOf(t, b, err)
		if second != first && second != first-1 {
			t.Fatalf("%d in one keyspace, %d in the other", first, second)
		}
	}
	must(t, x.f.CatchUp(context.Background()))
	if v, err := x.f.Get([]byte("n"), nil); numberOf(t, v, err) != n {
		t.Errorf("caught up to %d", numberOf(t, v, err))
	}
	if entries, sealed := memTablesOf(seen.space.Tree); entries > 0 || sealed > 0 {
		t.Errorf("%d entries and %d memtables are left of a keyspace that is in tables", entries,
			sealed)
	}
	if reads < 100 {
		t.Errorf("%d reads of 10 MiB", reads)
	}
}

// TestFollowerOfIngests: each state of a follower has an ingest exactly if it has the batch before
// it, and it has no batch behind an ingest without that.
func TestFollowerOfIngests(t *testing.T) {
	onBothFormats(t, func(t *testing.T, o Options) {
		o.WriteBufferSize = 64 << 20 // nothing is flushed
		x := newFollowed(t, o)
		o.FS = x.mem
		const each = 80 // 5 MiB: more than becomes visible at once
		n := 0
		value := make([]byte, 64<<10)
		write := func() {
			for range each {
				b := NewBatch()
				n++
				b.Put([]byte("n"), number(n))
				b.Put([]byte("value"), value)
				must(t, x.db.Write(b, NoSync))
			}
			key := fmt.Sprint("ingested", n)
			must(t, x.db.Ingest(context.Background(), nil, writeTable(t, key, &o, key, "")))
		}
		check := func(f *Follower) {
			v, err := f.Get([]byte("n"), nil)
			at := numberOf(t, v, err)
			for i := each; i <= n; i += each {
				has, err := f.Has(fmt.Append(nil, "ingested", i))
				if err != nil || has && at < i || !has && at > i {
					t.Fatalf("batches up to %d, the ingest behind %d: %t, %v", at, i, has, err)
				}
			}
		}
		reads := 0
		x.reads = func() {
			reads++
			check(x.f)
		}
		for range 3 {
			write()
		}
		must(t, x.f.CatchUp(context.Background()))
		check(x.f)
		write()
		must(t, x.db.Put([]byte("last"), nil, NoSync))
		must(t, x.f.CatchUp(context.Background()))
		check(x.f)
		if reads < 100 {
			t.Errorf("%d reads of 20 MiB", reads)
		}
	})
}

// TestFollowersBehindIngests: where ingests took several numbers, which the logs lack, a follower
// opens, and an open one catches up.
func TestFollowersBehindIngests(t *testing.T) {
	onBothFormats(t, func(t *testing.T, o Options) {
		x := newFollowed(t, o)
		o.FS = x.mem
		for i := range 5 {
			key := fmt.Sprint("ingested", i)
			must(t, x.db.Ingest(context.Background(), nil, writeTable(t, key, &o, key, "in")))
			must(t, x.db.Put([]byte("n"), number(i), NoSync))
			f, err := OpenFollower("db", &o)
			if err != nil {
				t.Fatal(err)
			}
			if i == 2 {
				must(t, x.f.CatchUp(context.Background()))
			}
			for _, f := range []*Follower{f, x.f} {
				must(t, f.CatchUp(context.Background()))
				v, err := f.Get([]byte("n"), nil)
				if at := numberOf(t, v, err); at != i {
					t.Errorf("%d instead of %d", at, i)
				}
				wantIs(t, f, key, "in")
			}
			must(t, f.Close())
		}
	})
}

// TestFollowerOfANewKeyspace: a batch names a keyspace that was created after the MANIFEST was
// read. What the batch has before that is taken once, although the batch is taken again.
func TestFollowerOfANewKeyspace(t *testing.T) {
	needsNative(t)
	x := newFollowed(t, Options{MergeOperator: MergeOperatorNamed("uint64add")})
	for i := 1; i <= 20; i++ {
		must(t, x.db.Merge([]byte("sum"), number(1), NoSync))
		made := false
		x.reads = func() {
			if made {
				return
			}
			made = true
			ks, err := x.db.Keyspace(fmt.Sprint("new", i), nil)
			must(t, err)
			b := NewBatch()
			b.Merge([]byte("sum"), number(1))
			b.In(ks).Put([]byte("key"), []byte("value"))
			b.Merge([]byte("sum"), number(1))
			must(t, x.db.Write(b, NoSync))
		}
		must(t, x.f.CatchUp(context.Background()))
		must(t, x.f.CatchUp(context.Background()))
		if v, err := x.f.Get([]byte("sum"), nil); numberOf(t, v, err) != 3*i {
			t.Fatalf("the sum of %d ones is %d", 3*i, numberOf(t, v, err))
		}
		it := x.f.Iter(nil)
		if !it.First() || numberOf(t, it.Value(), nil) != 3*i {
			t.Fatalf("an iterator has %s: %x, of %d ones", it.Key(), it.Value(), 3*i)
		}
		must(t, it.Close())
		ks, err := x.f.Keyspace(fmt.Sprint("new", i), nil)
		must(t, err)
		if _, err := ks.Get([]byte("key"), nil); err != nil {
			t.Fatal(err)
		}
		if v, err := x.f.Get([]byte("key"), nil); !errors.Is(err, ErrNotFound) {
			t.Fatalf("the default keyspace has %q, %v", v, err)
		}
	}
}

// TestFollowerOfKeyspacesAndBatches: keyspaces are created and dropped between batches, of which
// more come than become visible at once. A read within the catch-up finds the keyspaces that there
// were when the last visible batch was written. The logs lead on from the state before, or, after a
// flush, are read anew.
func TestFollowerOfKeyspacesAndBatches(t *testing.T) {
	needsNative(t)
	for _, flush := range []bool{false, true} {
		x := newFollowed(t, Options{WriteBufferSize: 16 << 20})
		must(t, x.db.Put([]byte("first"), nil, NoSync))
		must(t, x.f.CatchUp(context.Background()))
		if flush {
			must(t, x.db.Flush()) // deletes the log that the follower has read
		}
		value := make([]byte, 64<<10)
		const n = 160
		for i := 1; i <= n; i++ {
			_, err := x.db.Keyspace(fmt.Sprint("k", i), nil)
			must(t, err)
			must(t, x.db.Put([]byte("value"), value, NoSync))
			must(t, x.db.Put([]byte("n"), number(i), NoSync))
			if i > 1 {
				must(t, x.db.DropKeyspace(fmt.Sprint("k", i-1)))
			}
		}
		check := func() int {
			v, err := x.f.Get([]byte("n"), nil)
			i := numberOf(t, v, err)
			for k, want := range map[int]bool{i: i > 0, i + 2: false} {
				_, err := x.f.Keyspace(fmt.Sprint("k", k), &KeyspaceOptions{ErrorIfMissing: true})
				if want && err != nil || !want && !errors.Is(err, ErrNoKeyspace) {
					t.Fatalf("batch %d is visible, keyspace k%d: %v", i, k, err)
				}
			}
			return i
		}
		reads := 0
		x.reads = func() { reads++; check() }
		must(t, x.f.CatchUp(context.Background()))
		if i := check(); i != n || reads < 100 {
			t.Errorf("caught up to %d of %d, in %d reads", i, n, reads)
		}
	}
}

// TestFollowerOfKeyspacesWhileItReads: keyspaces are created and dropped, and batches written,
// after the follower has read the MANIFEST and before it reads the logs. Whatever OpenFollower and
// CatchUp show is a state that the writer had, although no batch names the keyspaces.
func TestFollowerOfKeyspacesWhileItReads(t *testing.T) {
	needsNative(t)
	n, left := 0, 0
	var db *DB
	step := func() {
		n++
		_, err := db.Keyspace(fmt.Sprint("k", n), nil)
		must(t, err)
		must(t, db.DropKeyspace(fmt.Sprint("k", n-1)))
		must(t, db.Put([]byte("n"), number(n), NoSync))
		if n%2 == 0 {
			must(t, db.Flush())
		}
	}
	check := func(f *Follower) {
		t.Helper()
		v, err := f.Get([]byte("n"), nil)
		i := numberOf(t, v, err)
		if got := f.Keyspaces(); i != n || len(got) != 2 || got[1] != fmt.Sprint("k", i) {
			t.Fatalf("%d of %d steps are visible, beside keyspaces %q", i, n, got)
		}
	}
	mem := vfs.NewMem()
	db, err := Open("db", &Options{FS: mem})
	must(t, err)
	_, err = db.Keyspace("k0", nil)
	must(t, err)
	beside := &Options{FS: vfs.NewFault(mem, func(op vfs.Op) vfs.Outcome {
		if op.Kind == vfs.OpRead && strings.HasSuffix(op.Name, ".wal") && left > 0 {
			left--
			step()
		}
		return vfs.Outcome{}
	})}
	for round := 1; round <= 8; round++ {
		left = round
		f, err := OpenFollower("db", beside)
		must(t, err)
		check(f)
		left = round
		must(t, f.CatchUp(context.Background()))
		check(f)
		must(t, f.Close())
	}
	must(t, db.Close())
}

// TestFollowerOfDroppedEntries: the last sequence numbers that a follower has seen are those of a
// keyspace that was dropped. Neither tables nor the MANIFEST have them, and the log is deleted.
func TestFollowerOfDroppedEntries(t *testing.T) {
	needsNative(t)
	x := newFollowed(t, Options{WriteBufferSize: 64 << 10})
	must(t, x.db.Put([]byte("a"), nil, NoSync))
	must(t, x.db.Flush())
	ks, err := x.db.Keyspace("dropped", nil)
	must(t, err)
	must(t, ks.Put([]byte("a"), make([]byte, 20<<10), NoSync))
	must(t, x.f.CatchUp(context.Background()))
	must(t, x.db.Checkpoint(context.Background(), "copy")) // begins the next log
	must(t, x.db.DropKeyspace("dropped"))
	must(t, x.f.CatchUp(context.Background()))
	if got := x.f.Keyspaces(); len(got) != 1 {
		t.Errorf("keyspaces %q", got)
	}
	must(t, x.db.Put([]byte("b"), nil, NoSync))
	must(t, x.f.CatchUp(context.Background()))
	if _, err := x.f.Get([]byte("b"), nil); err != nil {
		t.Error(err)
	}
}

// TestFollowerSnapshots: the writer's compactions drop what its own snapshots do not need. A
// follower's snapshots and iterators keep their state through catch-ups.
func TestFollowerSnapshots(t *testing.T) {
	x := newFollowed(t, Options{})
	type kept struct {
		snap *Snapshot
		it   *Iterator
		n    int
	}
	var all []kept
	check := func(k kept) {
		t.Helper()
		for i := range 20 {
			v, err := k.snap.Get(fmt.Appendf(nil, "key%02d", i), nil)
			if got := numberOf(t, v, err); got != k.n {
				t.Fatalf("a snapshot of %d has %d", k.n, got)
			}
		}
		for ok := k.it.First(); ok; ok = k.it.Next() {
			if got := numberOf(t, k.it.Value(), nil); got != k.n {
				t.Fatalf("an iterator of %d has %d", k.n, got)
			}
		}
		must(t, k.it.Err())
	}
	for n := 1; n <= 30; n++ {
		b := NewBatch()
		for i := range 20 {
			b.Put(fmt.Appendf(nil, "key%02d", i), number(n))
		}
		must(t, x.db.Write(b, NoSync))
		switch n % 3 {
		case 0:
			must(t, x.db.CompactRange(nil, nil))
		case 1:
			must(t, x.db.Flush())
		}
		must(t, x.f.CatchUp(context.Background()))
		all = append(all, kept{x.f.Snapshot(), x.f.Iter(nil), n})
		for _, k := range all {
			check(k)
		}
	}
	for _, k := range all {
		must(t, errors.Join(k.snap.Close(), k.it.Close()))
	}
}

// TestFollowerSnapshotsOfWhatIsGone: the writer deletes all that there is, so that its flush leaves
// no table, and the MANIFEST no other ones. What a follower's snapshots and iterators see stays.
func TestFollowerSnapshotsOfWhatIsGone(t *testing.T) {
	for _, format := range []Format{FormatNative, FormatLevelDB} {
		x := newFollowed(t, Options{Format: format})
		must(t, x.db.Put([]byte("key"), number(1), NoSync))
		must(t, x.f.CatchUp(context.Background()))
		snap, it := x.f.Snapshot(), x.f.Iter(nil)
		must(t, x.db.Delete([]byte("key"), NoSync))
		must(t, x.db.Flush())
		must(t, x.f.CatchUp(context.Background()))
		if n := x.db.Metrics().Levels[0].Files; n != 0 {
			t.Errorf("%v: the flush left %d tables", format, n)
		}
		if v, err := snap.Get([]byte("key"), nil); numberOf(t, v, err) != 1 {
			t.Errorf("%v: a snapshot has lost the key: %v", format, err)
		}
		if !it.First() || numberOf(t, it.Value(), it.Err()) != 1 {
			t.Errorf("%v: an iterator has lost the key: %v", format, it.Err())
		}
		if v, err := x.f.Get([]byte("key"), nil); !errors.Is(err, ErrNotFound) {
			t.Errorf("%v: the present is %x, %v", format, v, err)
		}
		must(t, errors.Join(snap.Close(), it.Close()))
	}
}

// TestFollowerSnapshotsBeforeAKeyspace: a follower's snapshot that is older than a keyspace finds
// nothing in it, also where a compaction of the writer left entries without sequence numbers.
func TestFollowerSnapshotsBeforeAKeyspace(t *testing.T) {
	needsNative(t)
	x := newFollowed(t, Options{})
	must(t, x.db.Put([]byte("key"), number(1), NoSync))
	must(t, x.f.CatchUp(context.Background()))
	snap := x.f.Snapshot()
	late, err := x.db.Keyspace("late", nil)
	must(t, err)
	for n := 1; n <= 2; n++ { // two tables for the compaction
		must(t, late.Put([]byte("a"), number(n), NoSync))
		must(t, late.Put([]byte("b"), number(n), NoSync))
		must(t, late.Flush())
	}
	must(t, late.CompactRange(nil, nil))
	must(t, x.f.CatchUp(context.Background()))
	seen, err := x.f.Keyspace("late", nil)
	must(t, err)
	after := x.f.Snapshot()
	for _, key := range []string{"a", "b"} {
		if v, err := snap.In(seen).Get([]byte(key), nil); !errors.Is(err, ErrNotFound) {
			t.Errorf("a snapshot of before the keyspace has %x, %v", v, err)
		}
		v, err := after.In(seen).Get([]byte(key), nil)
		if n := numberOf(t, v, err); n != 2 {
			t.Errorf("a snapshot of afterwards has %d", n)
		}
	}
	if v, err := snap.Get([]byte("key"), nil); numberOf(t, v, err) != 1 {
		t.Errorf("the default keyspace has %x", v)
	}
	must(t, errors.Join(snap.Close(), after.Close()))
}

// TestFollowerOfDeletedLogs: logs are deleted between the MANIFEST and the logs that a catch-up
// reads. No state on the way lacks what they had.
func TestFollowerOfDeletedLogs(t *testing.T) {
	for _, format := range []Format{FormatNative, FormatLevelDB} {
		x := newFollowed(t, Options{Format: format})
		written := 0
		write := func() {
			for range 5 {
				written++
				must(t, x.db.Put(fmt.Appendf(nil, "key%d", written), number(written), NoSync))
				must(t, x.db.Put([]byte("n"), number(written), NoSync))
			}
		}
		check := func() int {
			t.Helper()
			v, err := x.f.Get([]byte("n"), nil)
			n := numberOf(t, v, err)
			for i := 1; i <= n; i++ {
				v, err := x.f.Get(fmt.Appendf(nil, "key%d", i), nil)
				if numberOf(t, v, err) != i {
					t.Fatalf("%v: key %d of %d is missing", format, i, n)
				}
			}
			return n
		}
		for range 20 {
			first := true
			x.reads = func() {
				check()
				if first {
					first = false
					for range 2 {
						write()
						must(t, x.db.Flush())
					}
					write()
				}
			}
			write()
			least := written
			must(t, x.f.CatchUp(context.Background()))
			if n := check(); n < least {
				t.Errorf("%v: caught up to %d of %d", format, n, least)
			}
		}
	}
}

// TestFollowerOperators: a keyspace's merge operator comes with the keyspace, or later, while the
// follower's caller names one of its own. Operands are never merged by another operator than the
// writer's.
func TestFollowerOperators(t *testing.T) {
	needsNative(t)
	last := func(name string) *MergeOperator {
		return &MergeOperator{Name: name, Full: func(dst, _, _ []byte,
			operands [][]byte) ([]byte, error) {
			return append(append(dst, name...), operands[len(operands)-1]...), nil
		}}
	}
	ours, theirs := last("ours"), last("theirs")
	x := newFollowed(t, Options{})
	catchUp := func() {
		t.Helper()
		must(t, x.f.CatchUp(context.Background()))
	}
	open := func(db *DB, name string, op *MergeOperator) *Keyspace {
		t.Helper()
		k, err := db.Keyspace(name, &KeyspaceOptions{MergeOperator: op})
		must(t, err)
		return k
	}
	merge := func(k *Keyspace) {
		t.Helper()
		must(t, k.Merge([]byte("k"), []byte("1"), NoSync))
		catchUp()
	}

	made := open(x.db, "made", ours)
	merge(made)
	wantRead(t, open(x.f.DB, "made", ours), "k", "ours1")
	if _, err := x.f.Keyspace("made", &KeyspaceOptions{MergeOperator: theirs}); !errors.Is(err,
		ErrNoMergeOperator) {
		t.Errorf("another operator than the writer's: %v", err)
	}

	for _, op := range []*MergeOperator{ours, theirs} {
		open(x.db, op.Name, nil)
		catchUp()
		seen := open(x.f.DB, op.Name, ours)
		merge(open(x.db, op.Name, op))
		if op == ours {
			wantRead(t, seen, "k", "ours1")
		} else if v, err := seen.Get([]byte("k"), nil); !errors.Is(err, ErrNoMergeOperator) {
			t.Errorf("operands of an operator that is not known: %q, %v", v, err)
		}
	}
	open(x.db, "changes", ours)
	catchUp()
	seen := open(x.f.DB, "changes", ours)
	merge(open(x.db, "changes", theirs)) // there are no operands yet
	if v, err := seen.Get([]byte("k"), nil); !errors.Is(err, ErrNoMergeOperator) {
		t.Errorf("operands of an operator that came instead: %q, %v", v, err)
	}
}

// TestFollowerFindsTheKeyspacesOfItsState: a program that reads a value, written after a keyspace
// was created, opens that keyspace and finds it in the list, also while a catch-up makes them
// visible.
func TestFollowerFindsTheKeyspacesOfItsState(t *testing.T) {
	needsNative(t)
	x := newFollowed(t, Options{WriteBufferSize: 1 << 20})
	const n = 400
	must(t, x.db.Put([]byte("n"), number(0), NoSync))
	must(t, x.f.CatchUp(context.Background()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i, seen := 0, 0; i < n; {
			v, err := x.f.Get([]byte("n"), nil)
			if err != nil {
				t.Error(err)
				return
			}
			if i = int(binary.LittleEndian.Uint64(v)); i == seen {
				continue
			}
			seen = i
			name := fmt.Sprint("k", i)
			if !slices.Contains(x.f.Keyspaces(), name) {
				t.Errorf("%s is not among the keyspaces", name)
			}
			_, err = x.f.Keyspace(name, &KeyspaceOptions{ErrorIfMissing: true})
			if err != nil {
				t.Error(err)
			}
		}
	}()
	for i := 1; i <= n; i++ {
		_, err := x.db.Keyspace(fmt.Sprint("k", i), nil)
		must(t, err)
		must(t, x.db.Put([]byte("n"), number(i), NoSync))
		must(t, x.f.CatchUp(context.Background()))
	}
	<-done
}
