package repair

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/batchrepr"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/record"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/format/sstable/ldb"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/store/files"
	"github.com/loamdb/loam/internal/testkit/seed"
	"github.com/loamdb/loam/internal/tree/iters"
)

const dir = "db"

func tableOptions() sstable.WriterOptions {
	return sstable.WriterOptions{Comparer: base.Bytewise, BlockSize: 200, RestartInterval: 4,
		Compression: sstable.Snappy, BloomBits: 10}
}

func repairOptions(fsys vfs.FS) Options {
	return Options{FS: fsys, Dir: dir, Comparer: base.Bytewise, Tables: tableOptions(),
		FileSize: 2000, WriteBuffer: 64 << 10}
}

// entry is an internal entry of the history.
type entry struct {
	key   string
	tr    base.Trailer
	value string
}

func compareEntries(a, b entry) int {
	return base.Bytewise.CompareInternal([]byte(a.key), a.tr, []byte(b.key), b.tr)
}

// builder makes a database as an engine would, with every state in between.
type builder struct {
	t       testing.TB
	m       *vfs.Mem
	rng     *rand.Rand
	set     *manifest.Set
	seq     base.SeqNum
	history map[string]map[base.Trailer]string
	latest  map[string]entry
	levels  [manifest.NumLevels][]*manifest.FileMeta
	data    map[uint64][]entry // of tables
	log     *record.Writer
	logNum  uint64
	pending []entry
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newBuilder(t testing.TB, seed uint64) *builder {
	b := &builder{t: t, m: vfs.NewMem(), rng: rand.New(rand.NewPCG(seed, 1)),
		history: map[string]map[base.Trailer]string{},
		latest:  map[string]entry{}, data: map[uint64][]entry{}}
	check(t, b.m.MkdirAll(dir))
	var err error
	b.set, err = manifest.New(manifest.Options{FS: b.m, Dir: dir, Comparer: base.Bytewise})
	check(t, err)
	check(t, b.set.StartManifest())
	b.newLog()
	return b
}

func (b *builder) newLog() {
	if b.log != nil {
		check(b.t, b.log.Close())
	}
	b.logNum = b.set.NewFileNum()
	l, err := b.m.CreateLog(filepath.Join(dir, base.LevelDB.FileName(base.FileLog, b.logNum)), 0)
	check(b.t, err)
	b.log = record.NewWriter(l)
}

// batch writes some entries to the log.
func (b *builder) batch() {
	repr := batchrepr.Init(nil)
	first := b.seq + 1
	for range b.rng.IntN(4) + 1 {
		b.seq++
		e := entry{key: fmt.Sprintf("key%03d", b.rng.IntN(80)),
			tr: base.MakeTrailer(b.seq, base.KindSet)}
		if b.rng.IntN(4) == 0 {
			e.tr = base.MakeTrailer(b.seq, base.KindDelete)
			repr = batchrepr.AppendEntry(repr, base.DefaultKeyspace, base.KindDelete, []byte(e.key),
				nil)
		} else {
			e.value = fmt.Sprintf("value%d-%s", b.seq, strings.Repeat("x", b.rng.IntN(30)))
			repr = batchrepr.AppendEntry(repr, base.DefaultKeyspace, base.KindSet, []byte(e.key),
				[]byte(e.value))
		}
		b.pending = append(b.pending, e)
		b.latest[e.key] = e
		if b.history[e.key] == nil {
			b.history[e.key] = map[base.Trailer]string{}
		}
		b.history[e.key][e.tr] = e.value
	}
	batchrepr.SetSeq(repr, first)
	check(b.t, b.log.Append(repr))
}

func (b *builder) table(entries []entry) *manifest.FileMeta {
	num := b.set.NewFileNum()
	m := writeTable(b.t, b.m, num, entries)
	b.data[num] = entries
	return m
}

func writeTable(t testing.TB, m *vfs.Mem, num uint64, entries []entry) *manifest.FileMeta {
	f, err := m.Create(filepath.Join(dir, base.LevelDB.FileName(base.FileTable, num)))
	check(t, err)
	w := ldb.NewWriter(f, tableOptions())
	for _, e := range entries {
		check(t, w.Add([]byte(e.key), e.tr, base.CodecRaw, []byte(e.value)))
	}
	meta, err := w.Finish()
	check(t, errors.Join(err, w.Close()))
	return &manifest.FileMeta{Num: num, Size: meta.Size, Smallest: meta.Smallest.Clone(),
		Largest: meta.Largest.Clone()}
}

func (b *builder) apply(e *manifest.Edit) {
	b.set.SetLastSeq(b.seq)
	v, err := b.set.Apply(e)
	check(b.t, err)
	v.Unref()
}

// flush writes what is in the log to a table of level 0.
func (b *builder) flush() {
	slices.SortFunc(b.pending, compareEntries)
	old := b.logNum
	b.newLog()
	m := b.table(b.pending)
	b.pending = nil
	e := &manifest.Edit{}
	e.SetLogNum(b.logNum)
	e.Add(0, m)
	b.apply(e)
	b.levels[0] = append(b.levels[0], m)
	b.remove(base.LevelDB.FileName(base.FileLog, old))
}

// remove deletes an obsolete file, or leaves it behind as a crash would.
func (b *builder) remove(name string) {
	if b.rng.IntN(3) > 0 {
		check(b.t, b.m.Remove(filepath.Join(dir, name)))
	}
}

// compact merges levels 0 to n into level n, without what is hidden, and when
// n is the deepest without tombstones.
func (b *builder) compact(n int) {
	e := &manifest.Edit{}
	var all []entry
	var inputs []*manifest.FileMeta
	for l := 0; l <= n; l++ {
		for _, m := range b.levels[l] {
			e.Delete(l, m.Num)
			all = append(all, b.data[m.Num]...)
			inputs = append(inputs, m)
		}
		b.levels[l] = nil
	}
	slices.SortFunc(all, compareEntries)
	all = slices.CompactFunc(all, func(a, b entry) bool { return a.key == b.key })
	bottom := true
	for l := n + 1; l < manifest.NumLevels; l++ {
		bottom = bottom && len(b.levels[l]) == 0
	}
	if bottom {
		all = slices.DeleteFunc(all, func(e entry) bool { return e.tr.Kind() == base.KindDelete })
	}
	for len(all) > 0 {
		k := min(len(all), 25)
		m := b.table(all[:k:k])
		e.Add(n, m)
		b.levels[n] = append(b.levels[n], m)
		all = all[k:]
	}
	b.apply(e)
	for _, m := range inputs {
		b.remove(m.Name())
	}
}

// build runs some history and stops.
func build(t testing.TB, seed uint64) *builder {
	b := newBuilder(t, seed)
	for range 8 {
		for range 12 {
			b.batch()
		}
		b.flush()
		if len(b.levels[0]) >= 3 {
			b.compact(1 + b.rng.IntN(2))
		}
		if b.rng.IntN(5) == 0 {
			check(t, b.set.StartManifest())
			for _, name := range b.set.TakeObsolete() {
				b.remove(name)
			}
		}
	}
	for range 12 {
		b.batch()
	}
	check(t, errors.Join(b.log.Sync(), b.log.Close(), b.set.Close()))
	return b
}

// dump reads a database without logs: the visible entry of each key, deletions
// included.
func dump(t testing.TB, m *vfs.Mem) map[string]entry {
	t.Helper()
	s, err := manifest.Load(manifest.Options{FS: m, Dir: dir, Comparer: base.Bytewise}, true)
	check(t, err)
	defer s.Close()
	v := s.Current(0)
	defer v.Unref()
	set := files.New(files.Options{FS: m, Dir: dir, Comparer: base.Bytewise})
	defer set.Close()
	open := func(f *manifest.FileMeta) (base.Source, error) {
		r, err := set.Reader(f)
		if err != nil {
			return nil, err
		}
		return r.NewSource(sstable.Scan), nil
	}
	got := map[string]entry{}
	// Level by level, the first to have a key decides, as in a read.
	add := func(src base.Source) {
		here := map[string]entry{}
		check(t, base.Scan(src, func(e *base.Chunk) error {
			for i := range e.Len() {
				if k := string(e.Key(i)); here[k].tr == 0 {
					here[k] = entry{k, e.Trailers[i], string(e.Value(i))}
				}
			}
			return nil
		}))
		src.Close()
		for k, en := range here {
			if _, ok := got[k]; !ok {
				got[k] = en
			}
			if en.tr > got[k].tr {
				t.Errorf("%s: an entry with sequence %d hides one with %d", k, got[k].tr.Seq(),
					en.tr.Seq())
			}
		}
	}
	for i := range v.Levels {
		if i > 0 {
			add(iters.NewLevel(base.Bytewise, v.Levels[i].Files, open))
			continue
		}
		for _, f := range v.Levels[0].Files {
			src, err := open(f)
			check(t, err)
			add(src)
		}
	}
	return got
}

func contents(t testing.TB, m *vfs.Mem, name string) string {
	t.Helper()
	f, err := m.Open(name)
	check(t, err)
	defer f.Close()
	b := make([]byte, f.Size())
	if n, err := f.ReadAt(b, 0); n < len(b) {
		t.Fatal(err)
	}
	return string(b)
}

// tree is all files with their contents.
func tree(t testing.TB, m *vfs.Mem, d string) map[string]string {
	t.Helper()
	all := map[string]string{}
	names, err := m.List(d)
	check(t, err)
	for _, name := range names {
		p := path.Join(d, name)
		info, err := m.Stat(p)
		check(t, err)
		if info.IsDir() {
			for k, v := range tree(t, m, p) {
				all[k] = v
			}
			continue
		}
		all[p] = contents(t, m, p)
	}
	return all
}

func replace(t testing.TB, m *vfs.Mem, name, data string) {
	t.Helper()
	if err := m.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	f, err := m.Create(name)
	check(t, err)
	_, err = f.Write([]byte(data))
	check(t, errors.Join(err, f.Sync(), f.Close()))
}

// verdict is what a repaired database may differ in.
type verdict struct {
	lossy   func(key string) bool // the newest entry may be lost
	revived bool                  // what a compaction dropped may be back
}

// checkRepaired compares a repaired database with the history.
func (b *builder) checkRepaired(m *vfs.Mem, before map[string]string, rep *Report, v verdict) {
	t := b.t
	t.Helper()
	got := dump(t, m)
	for k, e := range got {
		if value, ok := b.history[k][e.tr]; !ok || value != e.value {
			t.Errorf("%s: invented %q at %d", k, e.value, e.tr.Seq())
		}
	}
	for k, want := range b.latest {
		if v.lossy != nil && v.lossy(k) {
			continue
		}
		e, ok := got[k]
		if want.tr.Kind() == base.KindDelete && !ok || e == want {
			continue
		}
		if v.revived && want.tr.Kind() == base.KindDelete {
			continue
		}
		t.Errorf("%s: got %d %q, want %d %q", k, e.tr.Seq(), e.value, want.tr.Seq(), want.value)
	}
	after := map[string]int{}
	for _, data := range tree(t, m, dir) {
		after[data]++
	}
	for name, data := range before {
		if after[data] == 0 && name != "db/CURRENT" {
			t.Errorf("the contents of %s are gone", name)
		}
	}
	snapshot := tree(t, m, dir)
	again, err := Run(repairOptions(m))
	if err != nil || again.Manifest != "" ||
		len(again.Dropped)+len(again.SetAside)+len(again.Rewritten) > 0 {
		t.Errorf("second repair: %+v, %v", again, err)
	}
	for name, data := range tree(t, m, dir) {
		if snapshot[name] != data {
			t.Errorf("second repair touched %s", name)
		}
	}
	if t.Failed() {
		t.Fatalf("first repair: %+v", rep)
	}
}

func TestHealthyIsLeftAlone(t *testing.T) {
	for seed := range uint64(5) {
		b := build(t, seed)
		before := tree(t, b.m, dir)
		rep, err := Run(repairOptions(b.m))
		if err != nil || rep.Manifest != "" || len(rep.Dropped) > 0 {
			t.Fatalf("%+v, %v", rep, err)
		}
		after := tree(t, b.m, dir)
		if fmt.Sprint(before) != fmt.Sprint(after) {
			t.Error("files changed")
		}
	}
}

func TestLostNames(t *testing.T) {
	has := func(prefix string) func(string) bool {
		return func(n string) bool { return strings.HasPrefix(path.Base(n), prefix) }
	}
	tests := []struct {
		name    string
		damage  func(m *vfs.Mem, name string, data string) (string, bool) // new contents, keep
		verdict verdict
	}{
		{"CURRENT missing", func(_ *vfs.Mem, n, d string) (string, bool) {
			return d, !has("CURRENT")(n)
		}, verdict{}},
		{"CURRENT damaged", func(_ *vfs.Mem, n, d string) (string, bool) {
			if has("CURRENT")(n) {
				return "MANIFEST-../x\n", true
			}
			return d, true
		}, verdict{}},
		{"CURRENT names nothing", func(_ *vfs.Mem, n, d string) (string, bool) {
			if has("CURRENT")(n) {
				return "MANIFEST-777777\n", true
			}
			return d, true
		}, verdict{revived: true}}, // the newest MANIFEST left may be an old one
		{"MANIFEST missing", func(_ *vfs.Mem, n, d string) (string, bool) {
			return d, !has("MANIFEST")(n)
		}, verdict{revived: true}},
		{"both missing", func(_ *vfs.Mem, n, d string) (string, bool) {
			return d, !has("MANIFEST")(n) && !has("CURRENT")(n)
		}, verdict{revived: true}},
		{"MANIFEST empty", func(_ *vfs.Mem, n, d string) (string, bool) {
			if has("MANIFEST")(n) {
				return "", true
			}
			return d, true
		}, verdict{revived: true}},
	}
	for _, tc := range tests {
		for seed := range uint64(12) {
			b := build(t, seed)
			before := tree(t, b.m, dir)
			for name, data := range before {
				d, keep := tc.damage(b.m, name, data)
				if !keep {
					check(t, b.m.Remove(name))
					delete(before, name)
				} else if d != data {
					replace(t, b.m, name, d)
					before[name] = d
				}
			}
			rep, err := Run(repairOptions(b.m))
			if err != nil {
				t.Fatalf("%s: %v", tc.name, err)
			}
			if len(rep.Dropped) == 0 || rep.Manifest == "" {
				t.Errorf("%s: %+v", tc.name, rep)
			}
			t.Run(tc.name, func(t *testing.T) {
				b.t = t
				b.checkRepaired(b.m, before, rep, tc.verdict)
			})
		}
	}
}

// liveTables is what the MANIFEST lists.
func (b *builder) liveTables() map[string]*manifest.FileMeta {
	live := map[string]*manifest.FileMeta{}
	for _, l := range b.levels {
		for _, m := range l {
			live[m.Name()] = m
		}
	}
	return live
}

// TestDamagedTables flips bytes of live tables and cuts them: every key outside
// of the ranges reported must be as before.
func TestDamagedTables(t *testing.T) {
	for seed := range uint64(6) {
		b := build(t, seed)
		live := b.liveTables()
		names := make([]string, 0, len(live))
		for n := range live {
			names = append(names, n)
		}
		slices.Sort(names)
		for round := range 60 {
			m := b.m.Clone()
			for range round%3 + 1 {
				name := path.Join(dir, names[b.rng.IntN(len(names))])
				data := []byte(contents(t, m, name))
				if round%4 == 0 {
					data = data[:b.rng.IntN(len(data))]
				} else {
					data[b.rng.IntN(len(data))] ^= byte(1 + b.rng.IntN(255))
				}
				replace(t, m, name, string(data))
			}
			before := tree(t, m, dir)
			rep, err := Run(repairOptions(m))
			if err != nil {
				t.Fatal(err)
			}
			if rep.Manifest == "" {
				t.Fatalf("damage not seen: %+v", rep)
			}
			if rep.LevelsLost {
				t.Errorf("levels given up: %+v", rep)
			}
			b.checkRepaired(m, before, rep, verdict{lossy: func(key string) bool {
				for _, d := range rep.Dropped {
					f := live[d.File]
					if f == nil {
						t.Fatalf("drop in %s", d.File)
					}
					lo, hi := f.Smallest.User, f.Largest.User
					if d.Smallest != nil {
						lo = d.Smallest
					}
					if d.Largest != nil {
						hi = d.Largest
					}
					if key >= string(lo) && key <= string(hi) {
						return true
					}
				}
				return false
			}})
		}
	}
}

// TestLostIndex has every table without its footer: all entries come back.
func TestLostIndex(t *testing.T) {
	for seed := range uint64(4) {
		for _, o := range []sstable.Compression{sstable.NoCompression, sstable.Snappy} {
			b := build(t, seed)
			for name, f := range b.liveTables() {
				if o == sstable.NoCompression { // values that look like handles
					var es []entry
					for i, e := range b.data[f.Num] {
						if e.tr.Kind() == base.KindSet {
							e.value = string([]byte{byte(i), 1})
							b.history[e.key][e.tr] = e.value
							if b.latest[e.key].tr == e.tr {
								b.latest[e.key] = e
							}
						}
						es = append(es, e)
					}
					check(t, b.m.Remove(path.Join(dir, name)))
					writeTable(t, b.m, f.Num, es)
				}
				data := contents(t, b.m, path.Join(dir, name))
				replace(t, b.m, path.Join(dir, name), data[:len(data)-1-int(seed)*20])
			}
			before := tree(t, b.m, dir)
			rep, err := Run(repairOptions(b.m))
			check(t, err)
			b.checkRepaired(b.m, before, rep, verdict{})
		}
	}
}

// TestDamagedManifest flips and cuts MANIFESTs. What is live is then known in
// part; still nothing may be lost, and nothing come up that was not written.
func TestDamagedManifest(t *testing.T) {
	exact := 0
	for seed := range uint64(8) {
		b := build(t, seed)
		name := path.Join(dir, strings.TrimSpace(contents(t, b.m, "db/CURRENT")))
		data := contents(t, b.m, name)
		for round := range 25 {
			m := b.m.Clone()
			d := []byte(data)
			if round%3 == 0 {
				d = d[:b.rng.IntN(len(d))]
			} else {
				d[b.rng.IntN(len(d))] ^= 0x40
			}
			replace(t, m, name, string(d))
			before := tree(t, m, dir)
			rep, err := Run(repairOptions(m))
			check(t, err)
			if rep.Manifest == "" {
				// Cut where an edit ends: an older state, and nothing speaks against it.
				continue
			}
			if !rep.LevelsLost {
				exact++
			}
			b.checkRepaired(m, before, rep, verdict{revived: true})
		}
	}
	if exact == 0 {
		t.Error("levels were never kept")
	}
}

// TestDeletedStaysDeleted has obsolete tables and logs lie about whose entries a
// compaction has dropped: with a MANIFEST they must not come back.
func TestDeletedStaysDeleted(t *testing.T) {
	for _, damage := range []string{"CURRENT", "log", "table", "tail"} {
		b := newBuilder(t, 7)
		b.rng = rand.New(rand.NewPCG(1, 1))
		put := func(key, value string, kind base.Kind) {
			b.seq++
			e := entry{key, base.MakeTrailer(b.seq, kind), value}
			b.pending = append(b.pending, e)
			b.latest[key] = e
			if b.history[key] == nil {
				b.history[key] = map[base.Trailer]string{}
			}
			b.history[key][e.tr] = value
			repr := batchrepr.Init(nil)
			if kind == base.KindSet {
				repr = batchrepr.AppendEntry(repr, base.DefaultKeyspace, base.KindSet, []byte(key),
					[]byte(value))
			} else {
				repr = batchrepr.AppendEntry(repr, base.DefaultKeyspace, base.KindDelete,
					[]byte(key), nil)
			}
			batchrepr.SetSeq(repr, b.seq)
			check(t, b.log.Append(repr))
		}
		keep := map[string]string{}
		save := func() {
			for n, d := range tree(t, b.m, dir) {
				keep[n] = d
			}
		}
		put("gone", "old", base.KindSet)
		put("kept", "old", base.KindSet)
		save()
		b.flush()
		save()
		put("gone", "", base.KindDelete)
		put("kept", "new", base.KindSet)
		b.flush()
		b.compact(1)
		for n, d := range keep { // the old table and log are back
			if strings.HasSuffix(n, ".ldb") || strings.HasSuffix(n, ".log") {
				replace(t, b.m, n, d)
			}
		}
		put("fresh", "x", base.KindSet)
		check(t, errors.Join(b.log.Close(), b.set.Close()))
		switch damage {
		case "CURRENT":
			check(t, b.m.Remove("db/CURRENT"))
		case "log":
			n := path.Join(dir, base.LevelDB.FileName(base.FileLog, b.logNum))
			replace(t, b.m, n, contents(t, b.m, n)+"torn")
		case "table":
			n := path.Join(dir, b.levels[1][0].Name())
			d := []byte(contents(t, b.m, n))
			d[len(d)-1] ^= 1
			replace(t, b.m, n, string(d))
		case "tail":
			n := path.Join(dir, strings.TrimSpace(contents(t, b.m, "db/CURRENT")))
			replace(t, b.m, n, contents(t, b.m, n)+"torn")
		}
		rep, err := Run(repairOptions(b.m))
		check(t, err)
		got := dump(t, b.m)
		if _, ok := got["gone"]; ok || got["kept"].value != "new" || got["fresh"].value != "x" ||
			rep.LevelsLost || rep.Manifest == "" {
			t.Errorf("%s: %v\n%+v", damage, got, rep)
		}
	}
}

// TestDamagedLogs flips bytes of the log: each batch is there as a whole or not
// at all, and all are that lie outside of the stretches reported.
func TestDamagedLogs(t *testing.T) {
	b := build(t, 3)
	name := path.Join(dir, base.LevelDB.FileName(base.FileLog, b.logNum))
	data := contents(t, b.m, name)
	for i := 0; i < len(data); i += seed.Scale(3, 3, 1) {
		m := b.m.Clone()
		d := []byte(data)
		if i%4 == 0 {
			d = d[:i]
		} else {
			d[i] ^= 1
		}
		replace(t, m, name, string(d))
		before := tree(t, m, dir)
		rep, err := Run(repairOptions(m))
		check(t, err)
		if rep.Manifest == "" {
			if i%4 != 0 {
				t.Errorf("flip at %d not seen", i)
			}
			continue
		}
		if rep.LevelsLost || len(rep.Dropped) != 1 || rep.Dropped[0].File != path.Base(name) {
			t.Errorf("%+v", rep)
		}
		inLog := map[string]bool{}
		for _, e := range b.pending {
			inLog[e.key] = true
		}
		b.checkRepaired(m, before, rep, verdict{lossy: func(k string) bool { return inLog[k] }})
	}
}

func TestNothingToRepair(t *testing.T) {
	m := vfs.NewMem()
	check(t, m.MkdirAll(dir))
	if _, err := Run(repairOptions(m)); !errors.Is(err, base.ErrDoesNotExist) {
		t.Error(err)
	}
	b := build(t, 1)
	o := repairOptions(b.m)
	o.Comparer = base.ReverseBytewise
	before := fmt.Sprint(tree(t, b.m, dir))
	if _, err := Run(o); !errors.Is(err, base.ErrComparerMismatch) {
		t.Error(err)
	}
	replace(t, b.m, "db/OPTIONS-000007", "rocksdb_version=1")
	if _, err := Run(repairOptions(b.m)); !errors.Is(err, base.ErrNotADatabase) {
		t.Error(err)
	}
	check(t, b.m.Remove("db/OPTIONS-000007"))
	if fmt.Sprint(tree(t, b.m, dir)) != before {
		t.Error("files changed")
	}
}
