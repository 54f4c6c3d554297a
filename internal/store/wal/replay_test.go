package wal

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/batchrepr"
	"github.com/loamdb/loam/internal/format/record"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/fstest"
	"github.com/loamdb/loam/internal/testkit/script"
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
		b = batchrepr.AppendEntry(b, base.DefaultKeyspace, base.KindSet,
			fmt.Appendf(nil, "key%06d", int(seq)+i), make([]byte, 50))
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

// TestReplayScript runs testdata/replay: up to which entry sets of logs are replayed,
// and which logs are set aside. The commands:
//
//	logs     each line of the input is a log: its number and what is in it, in order.
//	         "1-20" are batches of one entry each, "@10" a marker that the log begins
//	         with 10, "zeros=9" so many zeros, "pad=4096" zeros up to a multiple, "+"
//	         says that another writer goes on, "damage" changes a byte of the last
//	         record, "cut=9" leaves the first bytes only.
//	replay   replays them; last=7 is the manifest's sequence number. The first log
//	         should be 5.
func TestReplayScript(t *testing.T) {
	var mem *vfs.Mem
	var nums []uint64
	script.Run(t, "testdata/replay", func(c *script.Command) string {
		switch c.Name {
		case "logs":
			mem, nums = vfs.NewMem(), nil
			for _, line := range c.Lines() {
				num, what, _ := strings.Cut(line, ":")
				n, err := strconv.ParseUint(num, 10, 64)
				must(t, err)
				nums = append(nums, n)
				w, err := mem.Create(base.LevelDB.FileName(base.FileLog, n))
				must(t, err)
				_, err = w.Write(parseLog(t, what))
				must(t, err)
				must(t, w.Close())
			}
			return ""
		case "replay":
			return replay(t, mem, nums, base.SeqNum(c.Int("last", 0)))
		}
		return c.Unknown()
	})
}

// parseLog returns the bytes of a log; see TestReplayScript.
func parseLog(t testing.TB, what string) []byte {
	t.Helper()
	var log []byte
	var batches [][]byte // of the present writer
	for _, word := range strings.Fields(what + " +") {
		key, value, _ := strings.Cut(word, "=")
		n, _ := strconv.Atoi(value)
		if first, last, ok := strings.Cut(word, "-"); ok {
			from, err := strconv.Atoi(first)
			must(t, err)
			to, err := strconv.Atoi(last)
			must(t, err)
			for seq := from; seq <= to; seq++ {
				batches = append(batches, batch(base.SeqNum(seq), 1))
			}
			continue
		}
		if word[0] == '@' {
			seq, err := strconv.Atoi(word[1:])
			must(t, err)
			batches = append(batches, batch(base.SeqNum(seq), 0))
			continue
		}
		log, batches = append(log, contents(t, batches...)...), nil
		switch key {
		case "zeros":
			log = append(log, make([]byte, n)...)
		case "pad":
			log = append(log, make([]byte, n-len(log)%n)...)
		case "damage":
			log[len(log)-3] ^= 1
		case "cut":
			log = log[:n]
		case "+":
		default:
			t.Fatalf("log: what is %s?", word)
		}
	}
	return log
}

// replay describes what a Replay hands out and reports.
func replay(t testing.TB, mem *vfs.Mem, nums []uint64, last base.SeqNum) string {
	t.Helper()
	var seen []base.SeqNum
	r := Replay{FS: mem, Dir: "/", Last: last, Apply: func(_ uint64, b []byte) error {
		for i := range batchrepr.Count(b) {
			seen = append(seen, batchrepr.Seq(b)+base.SeqNum(i))
		}
		return nil
	}}
	must(t, r.Run(nums, 5))
	must(t, r.SetAside())
	var b strings.Builder
	if n := len(seen); n == 0 {
		b.WriteString("nothing")
	} else {
		fmt.Fprintf(&b, "%d-%d", seen[0], seen[n-1])
		if int(seen[n-1]-seen[0]) != n-1 {
			t.Errorf("a gap: %v", seen)
		}
	}
	if r.Report.Logs > len(nums) || r.Report.Entries != uint64(len(seen)) ||
		r.Report.Records < r.Report.Entries {
		t.Errorf("%d logs, %d entries: %+v", len(nums), len(seen), r.Report)
	}
	b.WriteString("\n")
	for _, d := range r.Report.Dropped {
		fmt.Fprintf(&b, "%s, %d bytes at %d: %s\n", d.File, d.Bytes, d.Offset, d.Reason)
	}
	if r.Report.TornBytes > 0 {
		fmt.Fprintf(&b, "torn: %d bytes\n", r.Report.TornBytes)
	}
	for _, name := range r.Report.SetAside {
		fmt.Fprintf(&b, "set aside: %s\n", name)
	}
	return b.String()
}
