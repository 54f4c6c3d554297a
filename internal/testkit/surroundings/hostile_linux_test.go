package surroundings

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/klauspost/compress/zstd"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
	"github.com/loamdb/loam/internal/format/current"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/record"
	"github.com/loamdb/loam/internal/format/sstable/ldb"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/fstest"
	"github.com/loamdb/loam/lsm"
)

// place is a directory in the making: a database of keys 0 to hostileKeys,
// whose tables, MANIFEST and log the makers below damage, replace or add to.
type place struct {
	t      testing.TB
	dir    string
	format base.Format
	victim string // a file outside that must stay as it is
	st     manifest.State
}

// hostileKeys is how many keys a hostile directory had before it was hostile.
const hostileKeys = 2000

func (p *place) path(name string) string { return filepath.Join(p.dir, name) }

func (p *place) write(name string, b []byte) {
	must(p.t, os.RemoveAll(p.path(name)))
	must(p.t, os.WriteFile(p.path(name), b, 0o600))
}

func (p *place) read(name string) []byte {
	b, err := os.ReadFile(p.path(name))
	must(p.t, err)
	return b
}

// firstOf is the first file of a type.
func (p *place) firstOf(t base.FileType) string {
	paths, err := fstest.Find(vfs.Default, p.dir, t)
	must(p.t, err)
	if len(paths) == 0 {
		p.t.Fatal("there is none")
	}
	return filepath.Base(paths[0])
}

func (p *place) table() string    { return p.firstOf(base.FileTable) }
func (p *place) log() string      { return p.firstOf(base.FileLog) }
func (p *place) manifest() string { return p.firstOf(base.FileManifest) }

// grow makes a file n bytes longer by a hole.
func (p *place) grow(name string, n int64) {
	st, err := os.Stat(p.path(name))
	must(p.t, err)
	must(p.t, os.Truncate(p.path(name), st.Size()+n))
}

func (p *place) link(name, to string) {
	must(p.t, os.RemoveAll(p.path(name)))
	must(p.t, os.Symlink(to, p.path(name)))
}

func (p *place) fifo(name string) {
	must(p.t, os.RemoveAll(p.path(name)))
	must(p.t, unix.Mkfifo(p.path(name), 0o600))
}

func (p *place) mkdir(name string) {
	must(p.t, os.RemoveAll(p.path(name)))
	must(p.t, os.Mkdir(p.path(name), 0o700))
}

// buffer is a vfs.Log in memory.
type buffer struct{ b []byte }

func (b *buffer) Append(p []byte) error  { b.b = append(b.b, p...); return nil }
func (b *buffer) Truncate(n int64) error { b.b = b.b[:n]; return nil }
func (b *buffer) Sync() error            { return nil }
func (b *buffer) Close() error           { return nil }

// records encodes a log or MANIFEST.
func (p *place) records(recs ...[]byte) []byte {
	var b buffer
	w := record.NewWriter(&b)
	for _, r := range recs {
		must(p.t, w.Append(r))
	}
	return b.b
}

// edits are the records of the MANIFEST as it stands.
func (p *place) edits() (recs [][]byte) {
	b := p.read(p.manifest())
	r := record.NewReader(bytes.NewReader(b), int64(len(b)), "MANIFEST")
	for {
		rec, err := r.Next()
		if err != nil {
			return recs
		}
		recs = append(recs, bytes.Clone(rec))
	}
}

// append adds records to the MANIFEST.
func (p *place) append(recs ...[]byte) {
	p.write(p.manifest(), p.records(append(p.edits(), recs...)...))
}

// uv encodes varints.
func uv(values ...uint64) (b []byte) {
	for _, v := range values {
		b = binary.AppendUvarint(b, v)
	}
	return b
}

// internal is an internal key as the MANIFEST has it: with its length.
func internal(user string, kind byte) []byte {
	return append(append(uv(uint64(len(user)+8)), user...), kind, 1, 0, 0, 0, 0, 0, 0)
}

// newFile is the field of a MANIFEST that adds a table.
func newFile(level, num, size uint64, smallest, largest string) []byte {
	return slices.Concat(uv(7, level, num, size), internal(smallest, 1), internal(largest, 1))
}

// parts builds a table block by block; holes are sparse.
type parts struct {
	p    *place
	name string
	f    *os.File
	off  int64
}

func (p *place) newTable(name string) *parts {
	must(p.t, os.RemoveAll(p.path(name)))
	f, err := os.OpenFile(p.path(name), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	must(p.t, err)
	return &parts{p: p, name: name, f: f}
}

func (t *parts) add(b []byte, c block.Codec) block.Handle {
	h := block.Handle{Offset: uint64(t.off), Size: uint64(len(b))}
	trailer := block.Trailer(b, c)
	b = append(bytes.Clone(b), trailer[:]...)
	_, err := t.f.WriteAt(b, t.off)
	must(t.p.t, err)
	t.off += int64(len(b))
	return h
}

// hole is a block of n zeros; the checksum is right with crc.
func (t *parts) hole(n int64, crc bool) block.Handle {
	h := block.Handle{Offset: uint64(t.off), Size: uint64(n)}
	trailer := make([]byte, block.TrailerLen)
	if crc {
		sum, zeros := uint32(0), make([]byte, 1<<20)
		table := crc32.MakeTable(crc32.Castagnoli)
		for left := n + 1; left > 0; { // and the codec, 0
			m := min(left, int64(len(zeros)))
			sum = crc32.Update(sum, table, zeros[:m])
			left -= m
		}
		binary.LittleEndian.PutUint32(trailer[1:], base.MaskCRC(sum))
	}
	_, err := t.f.WriteAt(trailer, t.off+n)
	must(t.p.t, err)
	t.off += n + block.TrailerLen
	return h
}

// finish writes the footer and makes the MANIFEST agree about the size.
func (t *parts) finish(metaindex, index block.Handle) {
	var foot [ldb.FooterLen]byte
	b := block.AppendHandle(foot[:0], metaindex)
	block.AppendHandle(b, index)
	binary.LittleEndian.PutUint64(foot[ldb.FooterLen-8:], ldb.Magic)
	_, err := t.f.WriteAt(foot[:], t.off)
	must(t.p.t, err)
	must(t.p.t, t.f.Close())
	t.p.resize(t.name, t.off+ldb.FooterLen)
}

// resize makes the MANIFEST say that a table has n bytes and all keys.
func (p *place) resize(name string, n int64) {
	_, num := base.LevelDB.ParseFileName(name)
	f := p.st.Files[num]
	if f.Meta == nil {
		p.t.Fatalf("%s is not live", name)
	}
	e := &manifest.Edit{}
	e.Delete(f.Level, num)
	e.Add(f.Level, &manifest.FileMeta{Num: num, Size: uint64(n), Smallest: f.Meta.Smallest,
		Largest: f.Meta.Largest})
	p.append(e.Encode(nil, base.LevelDB))
}

// rows encodes a block; keys get sequence number 1.
func (p *place) rows(kvs ...string) []byte {
	b := block.RowBuilder{Interval: 1}
	defer b.Free()
	for i := 0; i < len(kvs); i += 2 {
		must(p.t, b.Add([]byte(kvs[i]), base.MakeTrailer(1, base.KindSet), []byte(kvs[i+1])))
	}
	out, err := b.Finish()
	must(p.t, err)
	return bytes.Clone(out)
}

func (p *place) meta(kvs ...string) []byte {
	b := block.RowBuilder{Interval: 1}
	defer b.Free()
	for i := 0; i < len(kvs); i += 2 {
		must(p.t, b.AddRaw([]byte(kvs[i]), []byte(kvs[i+1])))
	}
	out, err := b.Finish()
	must(p.t, err)
	return bytes.Clone(out)
}

func handle(h block.Handle) string { return string(block.AppendHandle(nil, h)) }

// withBlock replaces the first table by one with this data block.
func (p *place) withBlock(stored []byte, c block.Codec) {
	t := p.newTable(p.table())
	h := t.add(stored, c)
	metaindex := t.add(p.rows(), block.None)
	t.finish(metaindex, t.add(p.rows("key999999", handle(h)), block.None))
}

func zstdOf(b []byte) []byte {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBetterCompression))
	if err != nil {
		panic(err)
	}
	return enc.EncodeAll(b, nil)
}

// batch encodes a batch whose header says count.
func batch(seq uint64, count uint32, entries []byte) []byte {
	b := binary.LittleEndian.AppendUint64(nil, seq)
	return append(binary.LittleEndian.AppendUint32(b, count), entries...)
}

// maker makes one hostile directory.
type maker struct {
	name    string
	make    func(p *place)
	foreign bool // see the constant
}

func currents(text string) func(p *place) {
	return func(p *place) { p.write("CURRENT", []byte(text)) }
}

// edit appends one record to the MANIFEST.
func edit(rec ...[]byte) func(p *place) {
	return func(p *place) { p.append(slices.Concat(rec...)) }
}

var makers = []maker{
	{name: "current: empty", make: currents("")},
	{name: "native: files beside", make: func(p *place) {
		for i, name := range []string{"000900.loam", "000901.wal", "000902.manifest",
			"000903.loamtmp", "CURRENT.new"} {
			p.write(name, bytes.Repeat([]byte{byte(i)}, 5000))
		}
	}},
	{name: "native: CURRENT.new beside", make: func(p *place) {
		p.mkdir("CURRENT.new")
		p.write("CURRENT.new/manifest", []byte("000902.manifest 00000000\n"))
	}},
	{name: "current: no newline", make: currents("MANIFEST-000004")},
	{name: "current: parent", make: currents("../victim\n")},
	{name: "current: absolute", make: currents("/etc/passwd\n")},
	{name: "current: zeros", make: currents(strings.Repeat("\x00", 16))},
	{name: "current: lock", make: currents("LOCK\n")},
	{name: "current: missing manifest", make: currents("MANIFEST-000777\n")},
	{name: "current: largest number", make: currents("MANIFEST-18446744073709551615\n")},
	{name: "current: huge", make: func(p *place) { p.grow("CURRENT", 5<<30) }},
	{name: "current: directory", make: func(p *place) { p.mkdir("CURRENT") }},
	{name: "current: fifo", make: func(p *place) { p.fifo("CURRENT") }},
	{name: "current: link", make: func(p *place) { p.link("CURRENT", p.victim) }},
	{name: "current: loop of links", make: func(p *place) { p.link("CURRENT", "CURRENT") }},
	{name: "current: device", make: func(p *place) { p.link("CURRENT", "/dev/zero") }},

	{name: "manifest: empty", make: func(p *place) { p.write(p.manifest(), nil) }},
	{name: "manifest: all a hole", make: func(p *place) {
		p.write(p.manifest(), nil)
		p.grow(p.manifest(), 5<<30)
	}},
	{name: "manifest: ends with a hole", make: func(p *place) { p.grow(p.manifest(), 5<<30) }},
	{name: "manifest: hole, then a record", make: func(p *place) {
		name := p.manifest()
		rec := p.records(uv(9, 0))
		p.grow(name, 5<<30)
		f, err := os.OpenFile(p.path(name), os.O_WRONLY|os.O_APPEND, 0)
		must(p.t, err)
		_, err = f.Write(append(make([]byte, 32<<10), rec...))
		must(p.t, err)
		must(p.t, f.Close())
	}},
	{name: "manifest: fifo", make: func(p *place) { p.fifo(p.manifest()) }},
	{name: "manifest: link", make: func(p *place) { p.link(p.manifest(), p.victim) }},
	{name: "manifest: device", make: func(p *place) { p.link(p.manifest(), "/dev/zero") }},
	{name: "manifest: next file 2^64-1", make: edit(uv(3, math.MaxUint64))},
	{name: "manifest: next file 2^62-1", make: edit(uv(3, 1<<62-1))},
	{name: "manifest: last sequence 2^56-1", make: edit(uv(4, 1<<56-1))},
	{name: "manifest: last sequence 2^56", make: edit(uv(4, 1<<56))},
	{name: "manifest: log number 2^64-1", make: edit(uv(2, math.MaxUint64))},
	{name: "manifest: log number 2^62-1", make: edit(uv(2, 1<<62-1))},
	{name: "manifest: previous log 2^61", make: edit(uv(9, 1<<61))},
	{name: "manifest: level 7", make: edit(newFile(7, 900, 100, "a", "b"))},
	{name: "manifest: level 2^32-1", make: edit(newFile(math.MaxUint32, 900, 100, "a", "b"))},
	{name: "manifest: level 2^63", make: edit(newFile(1<<63, 900, 100, "a", "b"))},
	{name: "manifest: table of 2^63 bytes", make: edit(newFile(1, 900, 1<<63, "a", "b"))},
	{name: "manifest: table of 2^48 bytes", make: func(p *place) { p.resize(p.table(), 1<<48) }},
	{name: "manifest: table number 2^63", make: edit(newFile(1, 1<<63, 100, "a", "b"))},
	{name: "manifest: table number 2^62-1", make: edit(newFile(1, 1<<62-1, 100, "a", "b"))},
	{name: "manifest: table twice", make: edit(newFile(5, 900, 100, "a", "b"),
		newFile(5, 900, 100, "a", "b"))},
	{name: "manifest: smallest after largest", make: edit(newFile(5, 900, 100, "b", "a"))},
	{name: "manifest: tables overlap", make: edit(newFile(5, 900, 100, "a", "m"),
		newFile(5, 901, 100, "c", "z"))},
	{name: "manifest: deletes what is not there", make: edit(uv(6, 3, 12345))},
	{name: "manifest: key of 2^32-1 bytes", make: edit(uv(5, 1, math.MaxUint32))},
	{name: "manifest: key too short", make: edit(uv(5, 1, 3), []byte("abc"))},
	{name: "manifest: varint without end", make: edit(bytes.Repeat([]byte{0xff}, 100))},
	{name: "manifest: unknown tag", make: edit(uv(55, 1))},
	{name: "manifest: RocksDB's tag", make: edit(uv(200, 1))},
	{name: "manifest: comparer of 8 MiB", make: edit(uv(1, 8<<20), make([]byte, 8<<20))},
	{name: "manifest: another comparer", make: edit(uv(1, 5), []byte("other"))},
	{name: "manifest: 100,000 tables that are missing", make: func(p *place) {
		var rec []byte
		for i := range uint64(100_000) {
			k := fmt.Sprintf("x%09d", i)
			rec = append(rec, newFile(6, 10_000+i, 1<<40, k, k)...)
		}
		p.append(rec)
	}},
	{name: "manifest: 300,000 compaction pointers", make: func(p *place) {
		p.append(bytes.Repeat(slices.Concat(uv(5, 3), internal("k", 1)), 300_000))
	}},
	{name: "manifest: 100,000 edits", make: func(p *place) {
		recs := make([][]byte, 100_000)
		for i := range recs {
			recs[i] = uv(9, 0)
		}
		p.append(recs...)
	}},
	{name: "manifest: record without end", make: func(p *place) {
		b := p.read(p.manifest())
		b = b[:len(b)-len(b)%(32<<10)]
		rec := p.records(make([]byte, 8<<20))
		p.write(p.manifest(), append(b, rec[:len(rec)-40<<10]...))
	}},

	{name: "table: index is a hole", make: func(p *place) {
		t := p.newTable(p.table())
		metaindex := t.add(p.rows(), block.None)
		t.finish(metaindex, t.hole(4<<30, false))
	}},
	{name: "table: metaindex is a hole", make: func(p *place) {
		t := p.newTable(p.table())
		index := t.add(p.rows("key999999", handle(t.add(p.rows("a", "b"), block.None))), block.None)
		t.finish(t.hole(4<<30, false), index)
	}},
	{name: "table: filter is a hole", make: func(p *place) {
		t := p.newTable(p.table())
		index := t.add(p.rows("key999999", handle(t.add(p.rows("a", "b"), block.None))), block.None)
		t.finish(t.add(p.meta("loam.filter.v1", handle(t.hole(1<<30, true))), block.None), index)
	}},
	{name: "table: data block is a hole", make: func(p *place) {
		t := p.newTable(p.table())
		h := t.hole(1<<30, true)
		t.finish(t.add(p.rows(), block.None), t.add(p.rows("key999999", handle(h)), block.None))
	}},
	{name: "table: 500 data blocks of 60 MiB are holes", make: func(p *place) {
		t := p.newTable(p.table())
		index := block.RowBuilder{Interval: 1}
		h := t.hole(60<<20, true)
		trailer := make([]byte, block.TrailerLen)
		_, err := t.f.ReadAt(trailer, int64(h.End())-block.TrailerLen)
		must(p.t, err)
		for i := range 500 {
			if i > 0 {
				h = block.Handle{Offset: uint64(t.off), Size: 60 << 20}
				_, err := t.f.WriteAt(trailer, t.off+60<<20)
				must(p.t, err)
				t.off = int64(h.End())
			}
			must(p.t, index.Add(fmt.Appendf(nil, "key%06d", i), base.MakeTrailer(1, base.KindSet),
				[]byte(handle(h))))
		}
		b, err := index.Finish()
		must(p.t, err)
		t.finish(t.add(p.rows(), block.None), t.add(bytes.Clone(b), block.None))
	}},
	{name: "table: grows by a hole", make: func(p *place) { p.grow(p.table(), 5<<30) }},
	{name: "table: grows by a hole, the manifest too", make: func(p *place) {
		st, err := os.Stat(p.path(p.table()))
		must(p.t, err)
		p.grow(p.table(), 5<<30)
		p.resize(p.table(), st.Size()+5<<30)
	}},
	{name: "table: zstd bomb", make: func(p *place) {
		p.withBlock(zstdOf(make([]byte, 60<<20)), block.Zstd)
	}},
	{name: "table: zstd bomb over the cap", make: func(p *place) {
		p.withBlock(zstdOf(make([]byte, 300<<20)), block.Zstd)
	}},
	{name: "table: zstd bomb of one value", make: func(p *place) {
		p.withBlock(zstdOf(p.rows("key000001", strings.Repeat("v", 3<<20))), block.Zstd)
	}, foreign: true},
	{name: "table: zstd bomb as index", make: func(p *place) {
		t := p.newTable(p.table())
		metaindex := t.add(p.rows(), block.None)
		t.finish(metaindex, t.add(zstdOf(make([]byte, 60<<20)), block.Zstd))
	}},
	{name: "table: zstd window of 2 GiB", make: func(p *place) {
		p.withBlock(append([]byte{0x28, 0xb5, 0x2f, 0xfd, 0x80, 0xa8, 0, 0, 0, 1},
			make([]byte, 50)...), block.Zstd)
	}},
	{name: "table: snappy claims 4 GiB", make: func(p *place) {
		p.withBlock(append(uv(1<<32-1), make([]byte, 100)...), block.Snappy)
	}},
	{name: "table: snappy claims 60 MiB", make: func(p *place) {
		p.withBlock(append(uv(60<<20), make([]byte, 100)...), block.Snappy)
	}},
	{name: "table: unknown codec", make: func(p *place) { p.withBlock(p.rows("a", "b"), 77) }},
	{name: "table: keys expand", make: func(p *place) {
		long := bytes.Repeat([]byte("x"), 64<<10)
		b := slices.Concat([]byte{0}, uv(uint64(len(long)+8)), []byte{0}, long,
			[]byte{1, 255, 255, 255, 255, 255, 255, 255})
		for range 1 << 20 {
			b = append(binary.AppendUvarint(b, uint64(len(long)+8)), 0, 0)
			if len(b) > 3<<20 {
				break
			}
		}
		p.withBlock(append(b, 0, 0, 0, 0, 1, 0, 0, 0), block.None)
	}},
	{name: "table: 2^32-1 restart points", make: func(p *place) {
		b := p.rows("a", "b")
		binary.LittleEndian.PutUint32(b[len(b)-4:], math.MaxUint32)
		p.withBlock(b, block.None)
	}},
	{name: "table: lengths of 2^32-1", make: func(p *place) {
		p.withBlock(append(uv(0, math.MaxUint32, math.MaxUint32), make([]byte, 40)...), block.None)
	}},
	{name: "table: keys descend", make: func(p *place) {
		a, b := p.rows("b", "1"), p.rows("a", "1")
		joined := append(a[:len(a)-8], b[:len(b)-8]...)
		p.withBlock(append(joined, 0, 0, 0, 0, 1, 0, 0, 0), block.None)
	}},
	{name: "table: unknown kind", make: func(p *place) {
		b := p.rows("a", "b")
		b[3+1] = 99
		p.withBlock(b, block.None)
	}},
	{name: "table: index leads to itself", make: func(p *place) {
		t := p.newTable(p.table())
		metaindex := t.add(p.rows(), block.None)
		t.finish(metaindex,
			t.add(p.rows("key999999", handle(block.Handle{Offset: uint64(t.off), Size: 40})),
				block.None))
	}},
	{name: "table: index past the end", make: func(p *place) {
		t := p.newTable(p.table())
		metaindex := t.add(p.rows(), block.None)
		t.finish(metaindex,
			t.add(p.rows("key999999", handle(block.Handle{Offset: 1 << 60, Size: 1 << 60})),
				block.None))
	}},
	{name: "table: footer leads outside", make: func(p *place) {
		t := p.newTable(p.table())
		t.add(p.rows(), block.None)
		t.finish(block.Handle{Offset: 1 << 61, Size: 1 << 61},
			block.Handle{Offset: 1, Size: 1<<62 - 1})
	}},
	{name: "table: 200,000 blocks of nothing", make: func(p *place) {
		t := p.newTable(p.table())
		index := block.RowBuilder{Interval: 16}
		h := t.add(p.rows("a", "b"), block.None)
		for i := range 200_000 {
			must(p.t, index.Add(fmt.Appendf(nil, "key%06d", i), base.MakeTrailer(1, base.KindSet),
				[]byte(handle(block.Handle{Offset: h.Offset + uint64(i), Size: 1}))))
		}
		b, err := index.Finish()
		must(p.t, err)
		t.finish(t.add(p.rows(), block.None), t.add(bytes.Clone(b), block.None))
	}},
	{name: "table: properties of another", make: func(p *place) {
		t := p.newTable(p.table())
		h := t.add(p.rows("key000000", "value of key000000"), block.None)
		props := t.add(uv(1, math.MaxUint64, 2, math.MaxUint64, 3, math.MaxUint64, 4,
			math.MaxUint64), block.None)
		metaindex := t.add(p.meta("loam.props.v1", handle(props)), block.None)
		t.finish(metaindex, t.add(p.rows("key999999", handle(h)), block.None))
	}, foreign: true},
	{name: "table: filter of garbage", make: func(p *place) {
		t := p.newTable(p.table())
		h := t.add(p.rows("a", "b"), block.None)
		f := t.add(bytes.Repeat([]byte{0xff}, 100), block.None)
		metaindex := t.add(p.meta("loam.filter.v1", handle(f)), block.None)
		t.finish(metaindex, t.add(p.rows("key999999", handle(h)), block.None))
	}},
	{name: "table: empty", make: func(p *place) { p.write(p.table(), nil) }},
	{name: "table: zeros", make: func(p *place) { p.write(p.table(), make([]byte, 10_000)) }},
	{name: "table: fifo", make: func(p *place) { p.fifo(p.table()) }},
	{name: "table: directory", make: func(p *place) { p.mkdir(p.table()) }},
	{name: "table: device", make: func(p *place) { p.link(p.table(), "/dev/zero") }},
	{name: "table: link", make: func(p *place) { p.link(p.table(), p.victim) }},

	{name: "log: all a hole", make: func(p *place) {
		p.write(p.log(), nil)
		p.grow(p.log(), 5<<30)
	}},
	{name: "log: ends with a hole", make: func(p *place) { p.grow(p.log(), 5<<30) }},
	{name: "log: hole, then garbage", make: func(p *place) {
		name := p.log()
		p.grow(name, 5<<30)
		f, err := os.OpenFile(p.path(name), os.O_WRONLY|os.O_APPEND, 0)
		must(p.t, err)
		_, err = f.Write(bytes.Repeat([]byte{1, 2, 3, 4, 200, 3, 1}, 1000))
		must(p.t, err)
		must(p.t, f.Close())
	}},
	{name: "log: batch of 2^32-1", make: func(p *place) {
		p.write(p.log(), p.records(batch(5000, math.MaxUint32, nil)))
	}},
	{name: "log: sequence 2^64-1", make: func(p *place) {
		p.write(p.log(), p.records(batch(math.MaxUint64, 1, []byte{0, 1, 'a'})))
	}},
	{name: "log: sequence 2^56-1", make: func(p *place) {
		p.write(p.log(), p.records(batch(1<<56-1, 1, []byte{0, 1, 'a'})))
	}},
	{name: "log: sequence goes back", make: func(p *place) {
		p.write(p.log(), p.records(batch(9000, 1, []byte{0, 1, 'a'}),
			batch(1, 1, []byte{0, 1, 'a'})))
	}},
	{name: "log: key of 2^32-1 bytes", make: func(p *place) {
		p.write(p.log(), p.records(batch(5000, 1, append([]byte{1}, uv(math.MaxUint32)...))))
	}},
	{name: "log: a million deletions", make: func(p *place) {
		p.write(p.log(),
			p.records(batch(5000, 1_000_000, bytes.Repeat([]byte{0, 1, 'z'}, 1_000_000))))
	}},
	{name: "log: record without end", make: func(p *place) {
		rec := p.records(make([]byte, 8<<20))
		p.write(p.log(), rec[:len(rec)-40<<10])
	}},
	{name: "log: 500 logs", make: func(p *place) {
		for i := range 500 {
			p.write(base.LevelDB.FileName(base.FileLog, uint64(1000+i)),
				p.records(batch(uint64(10_000+i), 1, []byte{0, 1, 'z'})))
		}
	}},
	{name: "log: garbage", make: func(p *place) {
		p.write(p.log(), bytes.Repeat([]byte("garbage"), 10_000))
	}},
	{name: "log: fifo", make: func(p *place) { p.fifo(p.log()) }},
	{name: "log: directory", make: func(p *place) { p.mkdir(p.log()) }},
	{name: "log: device", make: func(p *place) { p.link(p.log(), "/dev/zero") }},

	{name: "lock: link", make: func(p *place) { p.link("LOCK", p.victim) }},
	{name: "lock: link to nothing", make: func(p *place) {
		p.link("LOCK", filepath.Join(filepath.Dir(p.victim), "made"))
	}},
	{name: "lock: fifo", make: func(p *place) { p.fifo("LOCK") }},
	{name: "lock: directory", make: func(p *place) { p.mkdir("LOCK") }},
	{name: "lost: link", make: func(p *place) {
		p.link("lost", filepath.Dir(p.victim))
		p.write(p.table(), nil)
	}},
	{name: "lost: file", make: func(p *place) {
		p.write("lost", []byte("x"))
		p.write(p.table(), nil)
	}},
	{name: "next names are links", make: func(p *place) {
		for n := range uint64(60) {
			for _, kind := range []base.FileType{base.FileLog, base.FileTable, base.FileTemp,
				base.FileManifest} {
				if name := base.LevelDB.FileName(kind, n); !exists(p.path(name)) {
					p.link(name, p.victim)
				}
			}
		}
	}},
	{name: "set aside: directory", make: func(p *place) {
		p.mkdir(p.log() + ".lost")
		p.write(p.log(), bytes.Repeat([]byte("garbage"), 10_000))
	}},
	{name: "options: fifo", make: func(p *place) { p.fifo("OPTIONS-000007") }},
	{name: "LOG: link", make: func(p *place) {
		p.link("LOG", p.victim)
		p.link("LOG.old", p.victim)
	}},
	{name: "names: 20,000", make: func(p *place) {
		for i := range 20_000 {
			p.write(base.LevelDB.FileName(base.FileTable, uint64(5000+i)), nil)
		}
	}},
	{name: "names: bytes", make: func(p *place) {
		for i, name := range []string{"\n", "\xff\xfe", "000009.ldb\n", "MANIFEST-000009\x01",
			strings.Repeat("9", 250)} {
			p.write(name, fmt.Append(nil, i))
		}
	}},
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// makeHostile makes the base database once.
func makeHostile(t *testing.T, dir string, format base.Format) manifest.State {
	t.Helper()
	o := small()
	if o.Format = lsm.FormatLevelDB; format == base.Native {
		o.Format = lsm.FormatNative
	}
	o.DisableCompaction = true
	db := open(t, dir, o)
	for i := range hostileKeys {
		must(t, db.Put(key(i), value(i), syncSome(i)))
		if i == hostileKeys/3 || i == 2*hostileKeys/3 {
			must(t, db.Flush())
		}
	}
	must(t, db.Close())
	pointer, err := current.Read(vfs.Default, dir)
	must(t, err)
	res, err := manifest.ReadManifest(vfs.Default, dir, pointer.Manifest, format)
	must(t, err)
	return res.State
}

func value(i int) []byte { return append([]byte("value of "), key(i)...) }

// typed reports whether an error says what kind it is.
func typed(err error) bool {
	return err == nil || slices.ContainsFunc([]error{
		base.ErrCorruption, base.ErrNotADatabase, base.ErrNewerFormat, base.ErrComparerMismatch,
		base.ErrInvalidArgument, base.ErrDoesNotExist, base.ErrLocked, base.ErrTooLarge,
		base.ErrNoMemory, base.ErrReadOnly, base.ErrNoSpace, vfs.ErrNotRegular, os.ErrExist,
	}, func(target error) bool { return errors.Is(err, target) })
}
