package repair

import (
	"errors"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/batchrepr"
	"github.com/loamdb/loam/internal/format/block"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/record"
	"github.com/loamdb/loam/internal/format/sstable/ldb"
	"github.com/loamdb/loam/internal/os/vfs"
)

// craft makes a table of these blocks and separators, whatever they are. Keys
// are their own values; all have sequence number 5.
func craft(t testing.TB, blocks, separators []string) []byte {
	var file []byte
	put := func(rows []byte) block.Handle {
		h := block.Handle{Offset: uint64(len(file)), Size: uint64(len(rows))}
		trailer := block.Trailer(rows, block.None)
		file = append(append(file, rows...), trailer[:]...)
		return h
	}
	tr := base.MakeTrailer(5, base.KindSet)
	var index block.RowBuilder
	index.Interval = 1
	for i, keys := range blocks {
		var rows block.RowBuilder
		rows.Interval = 1
		for _, k := range strings.Fields(keys) {
			check(t, rows.Add([]byte(k), tr, []byte(k)))
		}
		b, err := rows.Finish()
		check(t, err)
		check(t, index.Add([]byte(separators[i]), tr, block.AppendHandle(nil, put(b))))
		rows.Free()
	}
	var meta block.RowBuilder
	meta.Interval = 1
	b, err := meta.Finish()
	check(t, err)
	foot := block.AppendHandle(nil, put(b))
	b, err = index.Finish()
	check(t, err)
	foot = block.AppendHandle(foot, put(b))
	index.Free()
	foot = append(foot, make([]byte, ldb.FooterLen-8-len(foot))...)
	return append(append(file, foot...), 0x57, 0xfb, 0x80, 0x8b, 0x24, 0x75, 0x47, 0xdb)
}

func TestCraftedTables(t *testing.T) {
	tests := []struct {
		name               string
		blocks, separators []string
		want               string // keys that survive
		damage             string // in Rewritten; "" for a good table
		drops              int
	}{
		{"good", []string{"a b c", "d e f"}, []string{"c", "f"}, "a b c d e f", "", 0},
		{"separator before a key", []string{"a b c", "d e f"}, []string{"b", "f"}, "a b c d e f",
			"after the block's key in the index", 0},
		{"last separator too small", []string{"a b c", "d e f"}, []string{"c", "e"}, "a b c d e f",
			"after the block's key in the index", 0},
		{"blocks out of order", []string{"a b", "x y", "m n"}, []string{"b", "y", "z"}, "a b x y",
			"does not lie after the block before", 1},
		{"keys out of order", []string{"a c b d", "e f"}, []string{"d", "f"}, "a c d e f", "", 1},
		{"key twice", []string{"a b", "b c"}, []string{"b", "c"}, "a b c",
			"does not lie after the block before", 1},
	}
	for _, tc := range tests {
		m := vfs.NewMem()
		check(t, m.MkdirAll(dir))
		replace(t, m, "db/000005.ldb", string(craft(t, tc.blocks, tc.separators)))
		rep, err := Run(repairOptions(m))
		check(t, err)
		var got []string
		for k, e := range dump(t, m) {
			if e.value != k {
				t.Errorf("%s: %s has the value %q", tc.name, k, e.value)
			}
			got = append(got, k)
		}
		slices.Sort(got)
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%s: left %q, want %q", tc.name, got, tc.want)
		}
		// CURRENT is missing in all of them.
		if len(rep.Dropped) != tc.drops+1 {
			t.Errorf("%s: dropped %v", tc.name, rep.Dropped)
		}
		if good := tc.name == "good"; good != (len(rep.Rewritten) == 0) || !good &&
			!strings.Contains(rep.Rewritten[0].Reason, tc.damage) {
			t.Errorf("%s: rewritten %v", tc.name, rep.Rewritten)
		}
	}
}

// TestLogFromBefore has a live log that is older than the tables: the sequence
// numbers decide, not the order of files.
func TestLogFromBefore(t *testing.T) {
	m := vfs.NewMem()
	check(t, m.MkdirAll(dir))
	s, err := manifest.New(manifest.Options{FS: m, Dir: dir, Comparer: base.Bytewise})
	check(t, err)
	check(t, s.StartManifest())
	f := writeTable(t, m, 10, []entry{{"a", base.MakeTrailer(50, base.KindSet), "new"},
		{"b", base.MakeTrailer(51, base.KindSet), "b"}})
	e := &manifest.Edit{}
	e.SetLogNum(12)
	e.Add(0, f)
	v, err := s.Apply(e)
	check(t, err)
	v.Unref()
	check(t, s.Close())
	l, err := m.CreateLog(filepath.Join(dir, "000012.log"), 0)
	check(t, err)
	w := record.NewWriter(l)
	for i, kv := range [][2]string{{"a", "old"}, {"c", "c"}} {
		b := batchrepr.AppendEntry(batchrepr.Init(nil), base.DefaultKeyspace, base.KindSet,
			[]byte(kv[0]), []byte(kv[1]))
		batchrepr.SetSeq(b, base.SeqNum(i+1))
		check(t, w.Append(b))
	}
	check(t, w.Append([]byte("no batch")))
	check(t, w.Close())
	rep, err := Run(repairOptions(m))
	check(t, err)
	got := dump(t, m)
	if got["a"].value != "new" || got["b"].value != "b" || got["c"].value != "c" ||
		!rep.LevelsLost || len(rep.Dropped) != 1 {
		t.Errorf("%v\n%+v", got, rep)
	}
}

// TestStrangeFiles has names and kinds of files that do not belong.
func TestStrangeFiles(t *testing.T) {
	b := build(t, 6)
	check(t, b.m.Remove("db/CURRENT"))
	check(t, b.m.MkdirAll("db/CURRENT"))
	check(t, b.m.MkdirAll("db/000900.ldb"))
	check(t, b.m.MkdirAll("db/000901.log"))
	check(t, b.m.MkdirAll("db/MANIFEST-000902"))
	replace(t, b.m, "db/9223372036854775807.ldb", "x")
	replace(t, b.m, "db/000903.dbtmp", "x")
	for name := range b.liveTables() {
		// The old name beside the new one.
		replace(t, b.m, path.Join(dir, strings.TrimSuffix(name, ".ldb")+".sst"), "x")
	}
	before := tree(t, b.m, dir)
	rep, err := Run(repairOptions(b.m))
	check(t, err)
	b.checkRepaired(b.m, before, rep, verdict{})
}

// FuzzRun repairs directories of arbitrary files.
func FuzzRun(f *testing.F) {
	b := build(f, 1)
	var seeds [3]string
	for name, data := range tree(f, b.m, dir) {
		switch t, n := base.LevelDB.ParseFileName(path.Base(name)); {
		case t == base.FileTable && len(data) > len(seeds[0]):
			seeds[0] = data
		case t == base.FileLog && n == b.logNum:
			seeds[1] = data
		case t == base.FileManifest:
			seeds[2] = data
		}
	}
	f.Add(false, []byte(seeds[0]), []byte(seeds[1]), []byte(seeds[2]))
	f.Add(true, []byte(seeds[0][:len(seeds[0])-1]), []byte(seeds[1][1:]), []byte{})
	f.Add(true, craft(f, []string{"a b", "x y", "m n"}, []string{"b", "y", "z"}), []byte(seeds[1]),
		[]byte(seeds[2]))
	f.Fuzz(func(t *testing.T, current bool, table, log, man []byte) {
		m := vfs.NewMem()
		check(t, m.MkdirAll(dir))
		if current {
			replace(t, m, "db/CURRENT", "MANIFEST-000003\n")
		}
		replace(t, m, "db/MANIFEST-000003", string(man))
		replace(t, m, "db/000005.ldb", string(table))
		replace(t, m, "db/000006.ldb", seeds[0])
		replace(t, m, "db/000007.log", string(log))
		_, err := Run(repairOptions(m))
		if err != nil {
			if errors.Is(err, base.ErrNotADatabase) || errors.Is(err, base.ErrComparerMismatch) {
				return
			}
			t.Fatal(err)
		}
		dump(t, m)
		again, err := Run(repairOptions(m))
		if err != nil || again.Manifest != "" {
			t.Fatalf("second repair: %+v, %v", again, err)
		}
	})
}
