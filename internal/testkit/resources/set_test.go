package resources

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit"
	"github.com/loamdb/loam/internal/testkit/hang"
	"github.com/loamdb/loam/internal/testkit/leak"
	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/backup"
)

// names are the values of options that are no numbers, and others that are none of theirs.
var names = map[string]struct{ legal, illegal []string }{
	"compression": {[]string{"none", "snappy", "zstd", "none,snappy,zstd", "zstd,none"},
		[]string{"lz4", "none,", "none,default", "default,none"}},
	"compaction_filter": {[]string{"none", "prefix:x", "prefix:x,y%00"},
		[]string{"prefix", "prefix:%x", "suffix:x"}},
	"leveldb_filter": {[]string{"true", "false"}, []string{"yes", "2"}},
}

// most bounds what a number is set to here, where its own bound would make memory or time the
// test's subject.
var most = map[string]int64{
	"write_buffer_size": 1 << 20, "block_size": 64 << 10, "max_file_size": 16 << 20,
	"max_memtables": 8, "compaction_rate": 1 << 40, "max_memtable_bytes": 8 << 20,
	"max_wal_size": 16 << 20, "max_open_files": 200, "l0_compaction": 20, "l0_stop": 60,
	"cache_size": 1 << 20,
}

// least are values below which the writers of the test would wait too long.
var least = map[string]int64{"compaction_rate": 8 << 20, "max_memtable_bytes": 256 << 10,
	"max_wal_size": 256 << 10, "default_ttl": 100_000,
	"l0_stop": 21} // above what l0_compaction is set to

// value is a value of an option, and whether it is one. own: the database has a cache of its own.
func optionValue(d lsm.OptionDoc, rng *rand.Rand) (v string, legal bool) {
	legal = rng.IntN(3) > 0
	if n, ok := names[d.Name]; ok {
		if legal {
			return n.legal[rng.IntN(len(n.legal))], true
		}
		return append(n.illegal, "", "x", "1.5")[rng.IntN(len(n.illegal)+3)], false
	}
	if d.Max == 0 {
		panic("what values option " + d.Name + " takes is not known: add it to names")
	}
	high := d.Max
	if m := most[d.Name]; m > 0 {
		high = m
	}
	low := max(d.Min, least[d.Name])
	if legal {
		n := low + rng.Int64N(high-low+1)
		switch rng.IntN(4) {
		case 0:
			n = low
		case 1:
			if k := (n + 1023) >> 10; k<<10 <= high && d.Unit == "bytes" {
				return strconv.FormatInt(k, 10) + "KiB", true
			}
		}
		return strconv.FormatInt(n, 10), true
	}
	wrong := []string{"", "x", "-1", "NaN", "0x10", "1e3x", strconv.FormatInt(d.Max+1, 10),
		"99999999999999999999", "1 PiB"}
	if d.Min > 0 {
		wrong = append(wrong, "0", strconv.FormatInt(d.Min-1, 10))
	}
	return wrong[rng.IntN(len(wrong))], false
}

// same reports whether an option's text is what it was set to.
func same(d lsm.OptionDoc, got, set string) bool {
	if _, ok := names[d.Name]; ok {
		return got == set
	}
	if kib, ok := strings.CutSuffix(set, "KiB"); ok {
		n, _ := strconv.ParseInt(kib, 10, 64)
		set = strconv.FormatInt(n<<10, 10)
	}
	// 0 of an option that others derive is what follows from those.
	return got == set || set == "0" && strings.HasPrefix(d.Name, "max_")
}

// says reports whether an error's text lists the allowed values in one of these ways.
func says(err error, ways ...string) bool {
	return slices.ContainsFunc(ways, func(way string) bool {
		return strings.Contains(err.Error(), way)
	})
}

// setOptions sets n options of a database, and of a keyspace, and reads their values.
func setOptions(db *lsm.DB, k *lsm.Keyspace, n int, rng *rand.Rand,
	between func(*rand.Rand)) error {
	var docs []lsm.OptionDoc
	for _, d := range lsm.OptionDocs() {
		if d.Dynamic != "" {
			docs = append(docs, d)
		}
	}
	for range n {
		between(rng)
		d := docs[rng.IntN(len(docs))]
		v, legal := optionValue(d, rng)
		target, get := db.SetOption, db.Option
		if rng.IntN(3) == 0 && k != nil {
			target, get = k.SetOption, k.Option
			legal = legal && d.Dynamic == "keyspace"
		}
		if d.Name == "default_ttl" && k == nil && v != "0" {
			legal = false // LevelDB's format
		}
		before, err := get(d.Name)
		if err != nil {
			return err
		}
		err = target(d.Name, v)
		after, e := get(d.Name)
		if e != nil {
			return e
		}
		switch refused := errors.Is(err, lsm.ErrInvalidArgument) ||
			errors.Is(err, lsm.ErrNeedsNative); {
		case legal && (err != nil || !same(d, after, v)):
			return fmt.Errorf("%s = %s: %w; it is %s", d.Name, v, orNone(err), after)
		case !legal && (!refused || after != before):
			return fmt.Errorf("%s = %q, which is not legal: %w; it was %s, is %s", d.Name, v,
				orNone(err), before, after)
		case !legal && !errors.Is(err, lsm.ErrNeedsNative) &&
			(!strings.Contains(err.Error(), d.Name) ||
				!says(err, "want ", "set it for the database", "hexadecimal")):
			return fmt.Errorf("what is allowed is not said: %w", err)
		}
	}
	return nil
}

// setResources changes the limits n times.
func setResources(res *lsm.Resources, n int, rng *rand.Rand,
	between func(*rand.Rand)) error {
	limit := res.Metrics().Memory
	for range n {
		between(rng)
		kind := []string{"memory", "background_jobs", "io_bytes_per_second", "open_files",
			"memories"}[rng.IntN(5)]
		bad := []string{"", "x", "-1", "1.5", "99999999999999999999"}
		var legal []string
		switch kind {
		case "memory":
			legal, bad = []string{"8MiB", strconv.FormatInt(8<<20+rng.Int64N(memory-8<<20+1), 10),
				strconv.Itoa(memory)}, append(bad, "0", "8388607", strconv.Itoa(memory+1))
		case "background_jobs":
			legal, bad = []string{"1", "2", "17", "65536"}, append(bad, "0", "65537")
		case "io_bytes_per_second":
			legal = []string{"0", "32MiB", "1GiB"}
		case "open_files":
			legal = []string{"0", "4", "10", "1000"}
		default:
			bad = append(bad, "1")
		}
		right := legal != nil && rng.IntN(2) == 0
		list := bad
		if right {
			list = legal
		}
		v := list[rng.IntN(len(list))]
		err := res.Set(kind, v)
		if right != (err == nil) || err != nil && (!errors.Is(err, lsm.ErrInvalidArgument) ||
			!says(err, "want ", "did you mean")) {
			return fmt.Errorf("%s = %q, legal %v: %w", kind, v, right, orNone(err))
		}
		if m := res.Metrics().Memory; kind == "memory" && right {
			if n, err := strconv.ParseInt(v, 10, 64); err == nil && m != n {
				return fmt.Errorf("memory = %s: it is %d", v, m)
			}
			limit = m
		} else if m != limit {
			return fmt.Errorf("%s = %q made the memory %d of %d", kind, v, m, limit)
		}
	}
	return nil
}

// pace holds the users of databases to the setters, which would come last where there is one
// processor for all: of the users some always have work, and more with each write.
type pace struct {
	mu   sync.Mutex
	more *sync.Cond // sets or done has changed
	sets int
	done bool // the setting has ended
}

// setsPerTurn is how many settings there are for one turn of each user.
const setsPerTurn = 100

func newPace() *pace {
	p := &pace{}
	p.more = sync.NewCond(&p.mu)
	return p
}

// set counts a setting that is about to be made, and gives way to the users, more or less often.
func (p *pace) set(rng *rand.Rand) {
	p.mu.Lock()
	p.sets++
	p.more.Broadcast()
	p.mu.Unlock()
	for range rng.IntN(50) {
		runtime.Gosched()
	}
}

// end says that the setting has ended.
func (p *pace) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done = true
	p.more.Broadcast()
}

// turn waits for the nth turn of a user, from 0, and reports whether there is one. The first comes
// at once.
func (p *pace) turn(n int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.done && n*setsPerTurn > p.sets {
		p.more.Wait()
	}
	return n == 0 || !p.done
}

// busy is a database that is used while it is set.
type busy struct {
	*pace
	db     *lsm.DB
	space  *lsm.Keyspace // nil: none
	fsys   vfs.FS
	res    *lsm.Resources
	format lsm.Format
	writes atomic.Uint64 // acknowledged
}

const busyKeys = 400

// busyValue is the value of a key in a round, of 4 to 3,000 bytes.
func busyValue(i int, round uint64) []byte {
	return fmt.Appendf(nil, "%d/%d/%s", i, round, strings.Repeat("abcdefg ", i%375))
}

// write writes each key in turn, in batches over both keyspaces, until the setting has ended, one
// round at least.
func (b *busy) write() error {
	for round := uint64(0); b.turn(int(round)); round++ {
		batch := lsm.NewBatch()
		for i := range busyKeys {
			batch.Put(key(i), busyValue(i, round))
			if b.space != nil {
				batch.In(b.space).Put(key(i), busyValue(i, round))
			}
			if i%8 == 7 {
				if err := b.db.Write(batch, lsm.NoSync); err != nil {
					return err
				}
				batch.Clear()
			}
		}
		b.writes.Store(round + 1)
	}
	return nil
}

// wholeIn checks that a state has all keys of some round, or of one and the one before up to some
// key.
func wholeIn(iter func(*lsm.IterOptions) *lsm.Iterator) error {
	it := iter(nil)
	n, first, last := 0, uint64(0), uint64(0)
	for ok := it.First(); ok; ok = it.Next() {
		var i int
		var round uint64
		if _, err := fmt.Sscanf(string(it.Value()), "%d/%d/", &i, &round); err != nil ||
			string(it.Value()) != string(busyValue(i, round)) ||
			string(it.Key()) != string(key(i)) || i != n {
			return errors.Join(fmt.Errorf("entry %d is %q = %.20q: %v", n, it.Key(), it.Value(),
				err), it.Close())
		}
		if n == 0 {
			first, last = round, round
		}
		if round > last || round+1 < first {
			return errors.Join(fmt.Errorf("entry %d is of round %d behind one of %d, the first "+
				"is of %d", n, round, last, first), it.Close())
		}
		last = round
		n++
	}
	if err := errors.Join(it.Err(), it.Close()); err != nil {
		return err
	}
	if n != busyKeys && (first > 0 || n%8 != 0) {
		return fmt.Errorf("%d entries, the first of round %d", n, first)
	}
	return nil
}

// whole checks both keyspaces.
func (b *busy) whole() error {
	err := wholeIn(b.db.Iter)
	if b.space != nil {
		err = errors.Join(err, wholeIn(b.space.Iter))
	}
	return err
}

// work are the others that use the database, until the setting has ended.
func (b *busy) work() []func() error {
	until := func(f func(n int) error) func() error {
		return func() error {
			for n := 0; b.turn(n); n++ {
				if err := f(n); err != nil {
					return err
				}
			}
			return nil
		}
	}
	ctx := context.Background()
	return []func() error{
		b.write,
		until(func(int) error { return b.whole() }),
		until(func(n int) error { return errors.Join(b.db.Flush(), b.db.CompactRange(nil, nil)) }),
		until(func(n int) error { return b.copies(ctx, n) }),
		func() error {
			f, err := lsm.OpenFollower("/db", &lsm.Options{FS: b.fsys, Resources: b.res})
			if err != nil {
				return err
			}
			err = until(func(int) error { return errors.Join(f.CatchUp(ctx), wholeIn(f.Iter)) })()
			return errors.Join(err, f.Close())
		},
		func() error {
			feed, err := b.db.Changes(0, nil)
			if err != nil {
				return err
			}
			next := uint64(0)
			err = until(func(int) error {
				for {
					c, ok, err := feed.TryNext()
					if err != nil || !ok {
						return err
					}
					if next != 0 && c.Seq != next {
						return fmt.Errorf("a feed goes on at %d, was at %d", c.Seq, next)
					}
					next = c.Next()
				}
			})()
			return errors.Join(err, feed.Close())
		},
	}
}

// copies makes a backup and a checkpoint, and compares their contents.
func (b *busy) copies(ctx context.Context, n int) error {
	folder, err := backup.Open("/backups", &backup.Options{FS: b.fsys})
	if err != nil {
		return err
	}
	info, err := folder.Create(ctx, b.db, nil)
	restored, copied := fmt.Sprint("/restored", n), fmt.Sprint("/copy", n)
	if err == nil {
		err = errors.Join(folder.Restore(ctx, info.ID, restored, nil), folder.Keep(2))
	}
	if err := errors.Join(err, folder.Close()); err != nil {
		return err
	}
	if err := b.db.Checkpoint(ctx, copied); err != nil {
		return err
	}
	for _, dir := range []string{restored, copied} {
		o := &lsm.Options{FS: b.fsys, Resources: b.res}
		c, err := lsm.Open(dir, o)
		if err != nil {
			return err
		}
		if err := errors.Join(wholeIn(c.Iter), c.Close(), lsm.Destroy(dir, o)); err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
	}
	return nil
}

// TestSetBeside sets all options and limits that change to random values, legal and illegal, while
// databases of both formats that share Resources are written, read, compacted, copied and followed.
func TestSetBeside(t *testing.T) {
	seed := uint64(testkit.Seed(t))
	before := leak.Now()
	for i := range uint64(testkit.Scale(1, 1, 25)) {
		if err := setBeside(seed+i, testkit.Scale(100, 200, 1000)); err != nil {
			t.Fatalf("seed %d: %v", seed+i, err)
		}
	}
	noneLeft(t, before)
}

func setBeside(seed uint64, sets int) error {
	res := lsm.NewResources(lsm.ResourcesOptions{Memory: memory})
	defer res.Close()
	rng := rand.New(rand.NewPCG(seed, 2))
	var all []*busy
	users := newPace()
	for i, format := range []lsm.Format{lsm.FormatNative, lsm.FormatLevelDB, lsm.FormatNative} {
		b := &busy{pace: users, fsys: vfs.NewMem(), format: format, res: res}
		if i == 2 { // a cache of its own, whose size changes
			b.res = nil
		}
		o := &lsm.Options{FS: b.fsys, Format: format, Resources: b.res, CacheSize: 1 << 20,
			WriteBufferSize: 64 << 10, WALRetentionBytes: 1 << 40, WALPreallocate: -1}
		var err error
		if b.db, err = lsm.Open("/db", o); err != nil {
			return err
		}
		if format == lsm.FormatNative {
			if b.space, err = b.db.Keyspace("k", nil); err != nil {
				return err
			}
		}
		all = append(all, b)
	}
	var workers, setters sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	note := func(what string, err error) {
		if err != nil {
			mu.Lock()
			errs = append(errs, fmt.Errorf("%s: %w", what, err))
			mu.Unlock()
		}
	}
	for i, b := range all {
		for j, f := range b.work() {
			workers.Go(func() { note(fmt.Sprintf("database %d, work %d", i, j), f()) })
		}
		own := rand.New(rand.NewPCG(seed, uint64(100+i)))
		setters.Go(func() {
			note(fmt.Sprintf("database %d", i), setOptions(b.db, b.space, sets, own,
				users.set))
		})
	}
	setters.Go(func() { note("resources", setResources(res, sets, rng, users.set)) })
	err := hang.InTime(func() error { setters.Wait(); return nil })
	users.end()
	if err = errors.Join(err, hang.InTime(func() error {
		workers.Wait()
		return nil
	})); err != nil {
		return err
	}
	for i, b := range all {
		note(fmt.Sprintf("database %d in the end", i), errors.Join(b.whole(), b.db.Close()))
	}
	return errors.Join(slices.Clone(errs)...)
}
