// Package formats keeps the pages docs/format-*.md true: each of their examples
// is a script and the bytes it stands for. The tests encode the script and
// compare with the bytes, and decode the bytes and compare with the script.
// go test -run Pages -rewrite writes the bytes anew.
package formats

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/batchrepr"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/record"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/format/sstable/ldb"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/hexdump"
)

var rewrite = flag.Bool("rewrite", false, "write the bytes of the examples into the pages")

// example is one pair of fences of a page: ```FORMAT and ```hex.
var example = regexp.MustCompile(
	"(?s)```(log|chain|batch|manifest|table|native|block|dump)\n" +
		"(.*?)```\n(.*?)```hex\n(.*?)```")

// codec turns scripts into bytes and back.
type codec struct {
	encode func(lines []string) ([]byte, error)
	decode func(data []byte) ([]string, error)
}

var codecs = map[string]codec{
	"log":      {encodeLog, decodeLog},
	"chain":    {encodeChain, decodeChain},
	"batch":    {encodeBatch, decodeBatch},
	"manifest": {encodeManifest, decodeManifest},
	"table":    {encodeTable, decodeTable},
	"native":   {encodeNative, decodeNative},
	"block":    {encodeBlock, decodeBlock},
	"dump":     {encodeDump, decodeDump},
}

func TestPages(t *testing.T) {
	pages, err := filepath.Glob("../../../docs/format-*.md")
	if err != nil || len(pages) < 4 {
		t.Fatalf("%v %v", pages, err)
	}
	for _, page := range pages {
		switch filepath.Base(page) {
		case "format-loamd.md": // the module replica has its codec and tests it
			continue
		case "format-encryption.md": // packages seal and record test its known answers
			continue
		}
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		found := example.FindAllSubmatch(text, -1)
		if len(found) == 0 {
			t.Errorf("%s has no example", page)
		}
		for _, m := range found {
			c, script := codecs[string(m[1])], strings.Split(strings.TrimSpace(string(m[2])), "\n")
			data, err := c.encode(script)
			if err != nil {
				t.Fatalf("%s: %q: %v", page, script, err)
			}
			if *rewrite {
				text = bytes.Replace(text, m[0], fmt.Appendf(nil, "```%s\n%s```\n%s```hex\n%s```",
					m[1], m[2], m[3], hexdump.Of(data)), 1)
				continue
			}
			if want := hexdump.Bytes(t, string(m[4])); !bytes.Equal(data, want) {
				t.Errorf("%s: %q encodes to\n%s", page, script, hexdump.Of(data))
			}
			back, err := c.decode(hexdump.Bytes(t, string(m[4])))
			if err != nil || strings.Join(back, "\n") != strings.Join(script, "\n") {
				t.Errorf("%s: the bytes decode to %q, %v; want %q", page, back, err, script)
			}
		}
		if *rewrite {
			if err := os.WriteFile(page, text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// fields splits a line at spaces outside of quotes and unquotes what is quoted.
func fields(line string) (words []string, err error) {
	for rest := strings.TrimSpace(line); rest != ""; rest = strings.TrimSpace(rest) {
		if rest[0] != '"' {
			word, after, _ := strings.Cut(rest, " ")
			words, rest = append(words, word), after
			continue
		}
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return nil, err
		}
		word, err := strconv.Unquote(quoted)
		if err != nil {
			return nil, err
		}
		words, rest = append(words, word), rest[len(quoted):]
	}
	return words, nil
}

func number(s string) uint64 {
	n, _ := strconv.ParseUint(s, 10, 64)
	return n
}

// memLog runs write on a log in memory and returns the file's bytes.
func memLog(write func(w *record.Writer) error) ([]byte, error) {
	m := vfs.NewMem()
	l, err := m.CreateLog("log", 0)
	if err != nil {
		return nil, err
	}
	w := record.NewWriter(l)
	if err := errors.Join(write(w), w.Close()); err != nil {
		return nil, err
	}
	return readFile(m, "log")
}

func readFile(m *vfs.Mem, name string) ([]byte, error) {
	f, err := m.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.NewSectionReader(f, 0, f.Size()))
}

func records(data []byte) (all [][]byte, err error) {
	r := record.NewReader(bytes.NewReader(data), int64(len(data)), "example")
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		all = append(all, bytes.Clone(rec))
	}
}

// log: lines `record "..."`, or `record N bytes of "x"`.
func encodeLog(lines []string) ([]byte, error) {
	return memLog(func(w *record.Writer) error {
		for _, line := range lines {
			words, err := fields(line)
			if err != nil {
				return err
			}
			rec := []byte(words[1])
			if len(words) == 5 {
				rec = bytes.Repeat([]byte(words[4]), int(number(words[1])))
			}
			if err := w.Append(rec); err != nil {
				return err
			}
		}
		return nil
	})
}

func decodeLog(data []byte) (lines []string, err error) {
	all, err := records(data)
	for _, rec := range all {
		lines = append(lines, fmt.Sprintf("record %q", rec))
	}
	return lines, err
}

// chain: `begin N life N before N end N durable N former N`, then `record "..."` and `sync`. A
// record that is a batch is `marker N`, if it is empty, or `put N "k" "v"`; N is its sequence
// number.
func encodeChain(lines []string) ([]byte, error) {
	return memLog(func(w *record.Writer) error {
		for _, line := range lines {
			words, err := fields(line)
			if err != nil {
				return err
			}
			switch words[0] {
			case "begin":
				n := func(i int) uint64 { return number(words[i]) }
				err = w.Begin(record.Begin{Num: n(1), Life: uint32(n(3)), Former: int64(n(11)),
					Before: record.Predecessor{Num: n(5), End: int64(n(7)), Durable: int64(n(9))}})
			case "record":
				err = w.Append([]byte(words[1]))
			case "marker", "put":
				b := batchrepr.Init(nil)
				if words[0] == "put" {
					b = batchrepr.AppendEntry(b, base.DefaultKeyspace, base.KindSet,
						[]byte(words[2]), []byte(words[3]))
				}
				batchrepr.SetSeq(b, base.SeqNum(number(words[1])))
				err = w.Append(b)
			case "sync":
				err = w.Sync()
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// decodeRecord is the line of a record.
func decodeRecord(rec []byte) string {
	if len(rec) < batchrepr.HeaderLen || batchrepr.Validate(rec, nil) != nil {
		return fmt.Sprintf("record %q", rec)
	}
	if it := batchrepr.Read(rec); batchrepr.Count(rec) > 0 {
		_, _, key, value, _ := it.Next()
		return fmt.Sprintf("put %d %q %q", batchrepr.Seq(rec), key, value)
	}
	return fmt.Sprintf("marker %d", batchrepr.Seq(rec))
}

func decodeChain(data []byte) (lines []string, err error) {
	// of the first chunk, behind its header and version
	num := binary.LittleEndian.Uint64(data[20:])
	r := record.NewChainReader(bytes.NewReader(data), int64(len(data)), "example", num, 0)
	for durable := int64(0); ; durable = r.Durable() {
		rec, err := r.Next()
		if b, ok := r.Begin(); ok && lines == nil {
			lines = append(lines,
				fmt.Sprintf("begin %d life %d before %d end %d durable %d former %d",
					b.Num, b.Life, b.Before.Num, b.Before.End, b.Before.Durable, b.Former))
		}
		if errors.Is(err, io.EOF) {
			return lines, nil
		}
		if err != nil {
			return nil, err
		}
		if r.Durable() > durable {
			lines = append(lines, "sync")
		}
		lines = append(lines, decodeRecord(rec))
	}
}

// batch: `sequence N`, then `put "k" "v"` and `delete "k"`, with `keyspace N` in
// front where the entry names one.
func encodeBatch(lines []string) ([]byte, error) {
	b := batchrepr.Init(nil)
	for _, line := range lines {
		words, err := fields(line)
		if err != nil {
			return nil, err
		}
		keyspace := base.DefaultKeyspace
		if words[0] == "keyspace" {
			keyspace, words = base.KeyspaceID(number(words[1])), words[2:]
		}
		switch words[0] {
		case "sequence":
			batchrepr.SetSeq(b, base.SeqNum(number(words[1])))
		case "put":
			b = batchrepr.AppendEntry(b, keyspace, base.KindSet, []byte(words[1]), []byte(words[2]))
		case "delete":
			b = batchrepr.AppendEntry(b, keyspace, base.KindDelete, []byte(words[1]), nil)
		}
	}
	return b, nil
}

func decodeBatch(data []byte) ([]string, error) {
	if err := batchrepr.Validate(data, func(base.KeyspaceID) bool { return true }); err != nil {
		return nil, err
	}
	lines := []string{fmt.Sprintf("sequence %d", batchrepr.Seq(data))}
	it := batchrepr.Read(data)
	for {
		keyspace, kind, key, value, ok := it.Next()
		if !ok {
			return lines, it.Err()
		}
		line := ""
		if keyspace != base.DefaultKeyspace {
			line = fmt.Sprintf("keyspace %d ", keyspace)
		}
		if kind == base.KindDelete {
			line += fmt.Sprintf("delete %q", key)
		} else {
			line += fmt.Sprintf("put %q %q", key, value)
		}
		lines = append(lines, line)
	}
}

// manifest: one edit, of the lines below.
func encodeManifest(lines []string) ([]byte, error) {
	var e manifest.Edit
	format := base.LevelDB
	for _, line := range lines {
		words, err := fields(line)
		if err != nil {
			return nil, err
		}
		switch words[0] {
		case "format-version":
			e.FormatVersion = uint32(number(words[1]))
		case "max-keyspace":
			e.MaxKeyspace, e.HasMaxKeyspace = base.KeyspaceID(number(words[1])), true
		case "keyspace":
			e.Keyspace = base.KeyspaceID(number(words[1]))
		case "new-keyspace":
			e.NewKeyspace = &manifest.KeyspaceNames{Name: words[1], Comparer: words[2]}
		case "drop-keyspace":
			e.DropKeyspace = true
		case "durable":
			e.Durable = record.LogEnd{Num: number(words[1]), End: int64(number(words[2]))}
		case "first-log":
			e.SetFirstLog(number(words[1]))
		case "comparer":
			e.SetComparer(words[1])
		case "log":
			e.SetLogNum(number(words[1]))
		case "previous-log":
			e.SetPrevLogNum(number(words[1]))
		case "next-file":
			e.SetNextFile(number(words[1]))
		case "last-sequence":
			e.SetLastSeq(base.SeqNum(number(words[1])))
		case "delete":
			e.Delete(int(number(words[1])), number(words[2]))
		case "add":
			m := &manifest.FileMeta{Num: number(words[2]), Size: number(words[3]),
				Smallest: internalKey(words[4], words[5]), Largest: internalKey(words[6], words[7])}
			e.Add(int(number(words[1])), m)
		case "facts": // of the table before
			m := e.Added[len(e.Added)-1].Meta
			m.Facts, m.ValueLogs = parseFacts(words[1:])
			format = base.Native
		}
	}
	return memLog(func(w *record.Writer) error { return w.Append(e.Encode(nil, format)) })
}

// factNames are the fields of manifest.Facts that are numbers.
var factNames = []string{"entries", "deletes", "range-deletes", "kinds", "first-expiry",
	"last-expiry", "old-values"}

func factFields(f *manifest.Facts) []*uint64 {
	return []*uint64{&f.Entries, &f.Deletes, &f.RangeDels, &f.Kinds, &f.MinExpiry, &f.MaxExpiry,
		&f.OldValues}
}

// parseFacts reads the line behind `facts`: native, leftovers, checksum=N, and numbers.
func parseFacts(words []string) (f manifest.Facts, logs []base.ValueLog) {
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "native":
			f.Format = base.Native
		case "leftovers":
			f.Leftovers = true
		case "checksum":
			f.Checksum, f.HasChecksum = uint32(number(value)), true
		case "value-log", "value-file": // number:references:bytes:end
			n := strings.Split(value, ":")
			logs = append(logs, base.ValueLog{Log: number(n[0]), InFile: name == "value-file",
				Values: number(n[1]), Bytes: number(n[2]), End: number(n[3])})
		default:
			*factFields(&f)[slices.Index(factNames, name)] = number(value)
		}
	}
	return f, logs
}

func factsLine(m *manifest.FileMeta) string {
	f := m.Facts
	line := "facts"
	if f.Format == base.Native {
		line += " native"
	}
	if f.HasChecksum {
		line += fmt.Sprintf(" checksum=%d", f.Checksum)
	}
	if f.Leftovers {
		line += " leftovers"
	}
	for i, v := range factFields(&f) {
		if *v != 0 {
			line += fmt.Sprintf(" %s=%d", factNames[i], *v)
		}
	}
	for _, l := range m.ValueLogs {
		name := "value-log"
		if l.InFile {
			name = "value-file"
		}
		line += fmt.Sprintf(" %s=%d:%d:%d:%d", name, l.Log, l.Values, l.Bytes, l.End)
	}
	return line
}

func internalKey(user, rest string) base.InternalKey {
	seq, kind, _ := strings.Cut(rest, ":")
	k := base.KindSet
	if kind == "delete" {
		k = base.KindDelete
	}
	return base.InternalKey{User: []byte(user), Trailer: base.MakeTrailer(base.SeqNum(number(seq)),
		k)}
}

func trailerString(t base.Trailer) string {
	return fmt.Sprintf("%d:%s", t.Seq(), map[base.Kind]string{base.KindSet: "set",
		base.KindDelete: "delete"}[t.Kind()])
}

func decodeManifest(data []byte) (lines []string, err error) {
	all, err := records(data)
	if err != nil {
		return nil, err
	}
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for _, rec := range all {
		var e manifest.Edit
		if err := e.Decode(rec, base.Native); err != nil {
			return nil, err
		}
		if e.FormatVersion != 0 {
			add("format-version %d", e.FormatVersion)
		}
		if e.HasMaxKeyspace {
			add("max-keyspace %d", e.MaxKeyspace)
		}
		if e.Keyspace != base.DefaultKeyspace {
			add("keyspace %d", e.Keyspace)
		}
		if k := e.NewKeyspace; k != nil {
			add("new-keyspace %q %q", k.Name, k.Comparer)
		}
		if e.DropKeyspace {
			add("drop-keyspace")
		}
		if e.Durable.Num != 0 {
			add("durable %d %d", e.Durable.Num, e.Durable.End)
		}
		if e.HasFirstLog {
			add("first-log %d", e.FirstLog)
		}
		if e.HasComparer {
			add("comparer %q", e.Comparer)
		}
		if e.HasLogNum {
			add("log %d", e.LogNum)
		}
		if e.HasPrevLogNum {
			add("previous-log %d", e.PrevLogNum)
		}
		if e.HasNextFile {
			add("next-file %d", e.NextFile)
		}
		if e.HasLastSeq {
			add("last-sequence %d", e.LastSeq)
		}
		for _, d := range e.Deleted {
			add("delete %d %d", d.Level, d.Num)
		}
		for _, a := range e.Added {
			m := a.Meta
			add("add %d %d %d %q %s %q %s", a.Level, m.Num, m.Size, m.Smallest.User,
				trailerString(m.Smallest.Trailer), m.Largest.User, trailerString(m.Largest.Trailer))
			if m.Facts != (manifest.Facts{}) {
				lines = append(lines, factsLine(m))
			}
		}
	}
	return lines, nil
}

// table: `entry "key" SEQ:KIND "value"`, without compression and filters.
func encodeTable(lines []string) ([]byte, error) {
	m := vfs.NewMem()
	f, err := m.Create("table")
	if err != nil {
		return nil, err
	}
	return writeTable(m,
		ldb.NewWriter(f, sstable.WriterOptions{Comparer: base.Bytewise, BlockSize: 4096,
			RestartInterval: 16}), lines)
}

// writeTable writes lines `entry "key" SEQ:KIND "value"` to the file "table".
func writeTable(m *vfs.Mem, w sstable.Writer, lines []string) ([]byte, error) {
	for _, line := range lines {
		words, err := fields(line)
		if err != nil {
			return nil, err
		}
		if err := w.Add([]byte(words[1]), internalKey("", words[2]).Trailer, base.CodecRaw,
			[]byte(words[3])); err != nil {
			return nil, err
		}
	}
	if _, err := w.Finish(); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return readFile(m, "table")
}

func decodeTable(data []byte) (lines []string, err error) {
	src, err := memFile(data)
	if err != nil {
		return nil, err
	}
	r, err := ldb.Open(src, ldb.Env{Name: "table", Comparer: base.Bytewise})
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return readTable(r)
}

func memFile(data []byte) (vfs.ReadFile, error) {
	m := vfs.NewMem()
	f, err := m.Create("table")
	if err != nil {
		return nil, err
	}
	if _, err := f.Write(data); err != nil {
		return nil, err
	}
	return m.Open("table")
}

// readTable undoes writeTable.
func readTable(r sstable.Reader) (lines []string, err error) {
	it := r.NewSource(0)
	defer it.Close()
	err = base.Scan(it, func(e *base.Chunk) error {
		for i := range e.Len() {
			lines = append(lines,
				fmt.Sprintf("entry %q %s %q", e.Key(i), trailerString(e.Trailers[i]), e.Value(i)))
		}
		return nil
	})
	return lines, err
}
