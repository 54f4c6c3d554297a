package files

import (
	"fmt"
	"slices"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/record"
	"github.com/loamdb/loam/internal/format/sstable"
)

// verifyChunk is how many bytes of a file Verify reads at a time.
const verifyChunk = 256 << 10

// Verify reads the file of table m, which the caller keeps alive, twice, past its open
// reader, its mapping and the cache: from end to end, for its size and the checksum of the
// whole file, and as a table, for the checksum and the structure of every block, the order of
// the entries, their number and the bounds; and it reads the values in logs. Damage is a
// *base.Corruption, that of a block before that of the file. step takes the number of bytes read;
// its error ends Verify.
func (s *Set) Verify(m *manifest.FileMeta, step func(bytes int) error) error {
	t, err := s.load(m, nil, false)
	if err != nil {
		return err
	}
	defer t.close() // of a file that was read: nothing is lost
	whole, err := t.file.verify(m, step)
	if err != nil {
		return err
	}
	v := verifier{m: m, props: t.reader.Props(), cmp: s.comparer(m), step: step, values: s}
	if err := v.entries(t.reader); err != nil {
		return err
	}
	if err := t.reader.VerifyMeta(); err != nil {
		return err
	}
	return whole
}

// verify reads the file from end to end. damage is what the bytes as a whole say.
func (f *file) verify(m *manifest.FileMeta, step func(bytes int) error) (damage, err error) {
	buf := make([]byte, min(f.size, verifyChunk))
	sum := uint32(0)
	for off := int64(0); off < f.size; {
		b := buf[:min(f.size-off, verifyChunk)]
		if err := base.ReadFull(f, b, off); err != nil {
			return nil, fmt.Errorf("reading table %s at %d: %w", m.Name(), off, err)
		}
		sum = base.CRCUpdate(sum, b)
		off += int64(len(b))
		if err := step(len(b)); err != nil {
			return nil, err
		}
	}
	corrupt := func(format string, args ...any) error {
		return base.Corruptf("table file", format, args...).At(m.Name(), 0, f.size)
	}
	size, err := f.onDisk()
	switch {
	case err != nil:
		return nil, err
	case size != f.size:
		damage = corrupt("the file has %d bytes, the manifest says %d", size, f.size)
	case m.HasChecksum && sum != m.Checksum:
		damage = corrupt("the file has the checksum %08x, the manifest says %08x", sum, m.Checksum)
	}
	return damage, nil
}

// onDisk is the size of the file, which may be another one than the manifest's.
func (f *file) onDisk() (int64, error) {
	if err := f.acquire(); err != nil {
		return 0, err
	}
	defer f.release()
	return f.descriptor.Size(), nil
}

// verifier checks what a table's blocks hold together.
type verifier struct {
	m     *manifest.FileMeta
	props sstable.Props
	cmp   *base.Comparer
	step  func(bytes int) error

	any     bool
	last    []byte // key and trailer of the entry before
	trailer base.Trailer
	buf     []byte // of last, between chunks

	count, deletes, rangeDels uint64

	values *Set
	value  []byte // scratch
	logs   []base.ValueLog
}

// entries reads all entries and range tombstones.
func (v *verifier) entries(r sstable.Reader) error {
	src := r.NewSource(sstable.Scan | sstable.NoFill)
	defer src.Close()
	if err := base.Scan(src, v.chunk); err != nil {
		return err
	}
	v.rangeDels = uint64(r.RangeDels().Count())
	if start, limit := r.RangeDels().Ends(); start != nil &&
		(v.cmp.Cmp(start, v.m.Smallest.User) < 0 || v.cmp.Cmp(limit, v.m.Largest.User) > 0) {
		return v.corrupt("it has range tombstones outside of the keys that the manifest says")
	}
	for _, c := range []struct {
		what      string
		have, say uint64
		known     bool
	}{
		{"entries, its properties", v.count, v.props.Entries, v.props.Entries != 0},
		{"deletions, its properties", v.deletes, v.props.Deletes, v.props.Entries != 0},
		{"range tombstones, its properties", v.rangeDels, v.props.RangeDels, true},
		{"entries, the manifest", v.count, v.m.Entries, v.m.Entries != 0},
		{"deletions, the manifest", v.deletes, v.m.Deletes, v.m.Entries != 0},
		{"range tombstones, the manifest", v.rangeDels, v.m.RangeDels, v.m.HasChecksum},
	} {
		if c.known && c.have != c.say {
			return v.corrupt("it has %d %s: %d", c.have, c.what, c.say)
		}
	}
	if !slices.Equal(v.logs, v.m.ValueLogs) {
		return v.corrupt("it refers to values in logs as %+v, the manifest says %+v", v.logs,
			v.m.ValueLogs)
	}
	if v.any && v.cmp.CompareInternal(v.last, v.trailer, v.m.Largest.User, v.m.Largest.Trailer) >
		0 {
		return v.corrupt("its last entry is behind the largest one that the manifest says")
	}
	return nil
}

// chunk takes the entries of one block.
func (v *verifier) chunk(e *base.Chunk) error {
	for i := range e.Len() {
		key, t := e.Key(i), e.Trailers[i]
		switch {
		case v.any && v.cmp.CompareInternal(v.last, v.trailer, key, t) >= 0:
			return v.corrupt("entry %d is not behind the one before it", v.count)
		case !v.any && v.cmp.CompareInternal(key, t, v.m.Smallest.User, v.m.Smallest.Trailer) < 0:
			return v.corrupt("its first entry is before the smallest one that the manifest says")
		}
		v.any, v.last, v.trailer = true, key, t
		v.count++
		switch {
		case t.Kind().IsTombstone():
			v.deletes++
		case t.Kind().Refers():
			if err := v.handle(t.Kind().Handle(e.Value(i))); err != nil {
				return err
			}
		}
	}
	v.buf = append(v.buf[:0], v.last...) // the chunk goes with the next move
	v.last = v.buf
	return v.step(0)
}

// handle reads the value that an entry refers to.
func (v *verifier) handle(handle []byte) (err error) {
	h, err := base.DecodeValueHandle(handle)
	if err != nil {
		return base.LocateCorruption(err, v.m.Name(), 0, int64(v.m.Size))
	}
	v.logs = base.AddValueLog(v.logs, base.ValueLog{Log: h.Log, InFile: h.InFile, Values: 1,
		Bytes: uint64(h.Len), End: uint64(record.ValueEnd(h))})
	if v.value, err = v.values.AppendValue(v.value[:0], handle); err != nil {
		return err
	}
	return v.step(len(v.value))
}

func (v *verifier) corrupt(format string, args ...any) error {
	return base.Corruptf("table", format, args...).At(v.m.Name(), 0, int64(v.m.Size))
}
