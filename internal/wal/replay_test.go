package wal

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/batchrepr"
	"github.com/loamdb/loam/internal/record"
	"github.com/loamdb/loam/internal/testkit/fstest"
	"github.com/loamdb/loam/internal/vfs"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// batch has n entries from sequence number seq on; 0 entries are a marker.
func batch(seq base.SeqNum, n int) []byte {
	b := batchrepr.Init(nil)
	for i := range n {
		b = batchrepr.AppendPut(b, fmt.Appendf(nil, "key%06d", int(seq)+i), make([]byte, 50))
	}
	batchrepr.SetSeq(b, seq)
	return b
}

// contents are the bytes of a log with these batches.
func contents(t testing.TB, batches ...[]byte) []byte {
	mem := vfs.NewMem()
	l, err := mem.CreateLog("log", 0)
	must(t, err)
	w := record.NewWriter(l)
	for _, b := range batches {
		must(t, w.Append(b))
	}
	must(t, w.Close())
	b, err := fstest.ReadFile(mem, "log")
	must(t, err)
	return b
}

func singles(first, last base.SeqNum) (batches [][]byte) {
	for seq := first; seq <= last; seq++ {
		batches = append(batches, batch(seq, 1))
	}
	return batches
}

func marked(first, last base.SeqNum) [][]byte {
	return append([][]byte{batch(first, 0)}, singles(first, last)...)
}

// damaged has a byte of the last record changed.
func damaged(b []byte) []byte {
	b = slices.Clone(b)
	b[len(b)-3] ^= 1
	return b
}

// zeros is b with zeros behind it up to a multiple of n.
func zeros(b []byte, n int) []byte { return append(b, make([]byte, n-len(b)%n)...) }

// TestReplay says of each set of logs up to which entry it is replayed, and which
// logs are set aside.
func TestReplay(t *testing.T) {
	const block = 32 << 10
	log := func(b [][]byte) []byte { return contents(t, b...) }
	join := func(parts ...[]byte) []byte { return slices.Concat(parts...) }
	for _, c := range []struct {
		name    string
		last    base.SeqNum // the manifest's
		logs    [][]byte    // from number 5 on
		missing bool        // the first log is
		want    string      // entries replayed, then the numbers of logs set aside
		clean   bool
	}{
		{name: "one log", logs: [][]byte{log(singles(1, 20))}, want: "1-20", clean: true},
		{name: "entries in tables come first", last: 99, logs: [][]byte{log(singles(100, 110))}, want: "100-110", clean: true},
		{name: "a manifest from the middle of the log", last: 7, logs: [][]byte{log(singles(1, 20))}, want: "1-20", clean: true},
		{name: "other engines leave gaps where a log begins", last: 9, logs: [][]byte{log(singles(15, 20))}, want: "15-20", clean: true},
		{name: "two logs", logs: [][]byte{log(singles(1, 10)), log(singles(11, 20))}, want: "1-20", clean: true},
		{name: "a record is damaged, the manifest is behind it", last: 0,
			logs: [][]byte{damaged(log(singles(1, 10))), log(singles(11, 20))}, want: "1-9 6"},
		{name: "a record is damaged, the manifest is beyond it", last: 15,
			logs: [][]byte{damaged(log(singles(1, 10))), log(singles(11, 20))}, want: "1-9 6"},
		{name: "cut off between two records", last: 15,
			logs: [][]byte{log(singles(1, 9)), log(singles(11, 20))}, want: "1-9 6"},
		{name: "lost pages in the middle", last: 300,
			logs: [][]byte{join(log(singles(1, 9)), make([]byte, 4096), log(singles(11, 12))), log(singles(13, 20))}, want: "1-9 5 6"},
		{name: "nothing of the first log can be read", last: 15,
			logs: [][]byte{damaged(log(singles(1, 1))), log(singles(2, 20))}, want: " 6"},
		{name: "the first log is missing", last: 15, missing: true,
			logs: [][]byte{nil, log(singles(11, 20)), log(singles(21, 22))}, want: " 6 7"},
		{name: "three logs, the second lost its end", last: 0,
			logs: [][]byte{log(singles(1, 5)), log(singles(6, 9)), log(singles(11, 20)), log(singles(21, 22))}, want: "1-9 7 8"},
		{name: "markers", last: 9, logs: [][]byte{log(marked(10, 12)), log(marked(13, 20))}, want: "10-20", clean: true},
		{name: "a marker behind what is in tables", last: 8, logs: [][]byte{log(marked(10, 12))}, want: " 5"},
		{name: "a marker alone, and the log after it", last: 9, logs: [][]byte{log(marked(10, 9)), log(marked(10, 20))}, want: "10-20", clean: true},
		{name: "a marker alone, and a gap", last: 99, logs: [][]byte{log(marked(10, 9)), log(marked(12, 20))}, want: " 6"},
		{name: "a log whose making failed", last: 9, logs: [][]byte{log(marked(10, 12)), log(marked(13, 12))[:9], log(marked(13, 20))}, want: "10-20"},
		{name: "allocated ahead", logs: [][]byte{zeros(log(singles(1, 10)), block), log(singles(11, 20))}, want: "1-20", clean: true},
		{name: "another writer went on behind the zeros",
			logs: [][]byte{join(zeros(log(marked(1, 10)), block), log(singles(11, 20)))}, want: "1-20", clean: true},
		{name: "twice, behind zeros of any length",
			logs: [][]byte{join(zeros(log(marked(1, 10)), 4096), log(singles(11, 15)), make([]byte, 3*block+5), log(singles(16, 20)))}, want: "1-20", clean: true},
		{name: "behind the zeros something is missing",
			logs: [][]byte{join(zeros(log(marked(1, 10)), block), log(singles(12, 20)))}, want: "1-10 5"},
		{name: "behind the zeros comes what was there before",
			logs: [][]byte{join(zeros(log(marked(1, 10)), block), log(singles(10, 20)))}, want: "1-10 5"},
		{name: "zeros first", logs: [][]byte{join(make([]byte, block), log(singles(1, 20)))}, want: " 5"},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := vfs.NewMem()
			var nums []uint64
			for i, b := range c.logs {
				if c.missing && i == 0 {
					continue
				}
				nums = append(nums, uint64(5+i))
				w, err := mem.Create(base.FileName(base.FileLog, uint64(5+i)))
				must(t, err)
				_, err = w.Write(b)
				must(t, err)
				must(t, w.Close())
			}
			var seen []base.SeqNum
			r := Replay{FS: mem, Dir: "/", Last: c.last, Apply: func(_ uint64, b []byte) error {
				for i := range batchrepr.Count(b) {
					seen = append(seen, batchrepr.Seq(b)+base.SeqNum(i))
				}
				return nil
			}}
			must(t, r.Run(nums, 5))
			must(t, r.SetAside())
			got := ""
			if len(seen) > 0 {
				got = fmt.Sprintf("%d-%d", seen[0], seen[len(seen)-1])
				if int(seen[len(seen)-1]-seen[0]) != len(seen)-1 {
					t.Errorf("a gap: %v", seen)
				}
			}
			for _, name := range r.Report.SetAside {
				got += " " + strings.TrimLeft(strings.TrimSuffix(name, ".log.lost"), "0")
			}
			if got != c.want || (len(r.Report.Dropped) == 0) != c.clean {
				t.Errorf("%q instead of %q; dropped %+v", got, c.want, r.Report.Dropped)
			}
		})
	}
}
