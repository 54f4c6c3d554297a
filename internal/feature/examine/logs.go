package examine

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sort"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/batchrepr"
	"github.com/loamdb/loam/internal/format/current"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/record"
	"github.com/loamdb/loam/internal/os/vfs"
)

func sortLogs(logs []Log) {
	sort.Slice(logs, func(i, j int) bool {
		a, b := logs[i].Name, logs[j].Name
		return len(a) < len(b) || len(a) == len(b) && a < b
	})
}

// Record is a record of a log or a MANIFEST, or a damaged part of the file between two of them.
type Record struct {
	Offset int64 // where it begins in the file
	Length int64 // of the data of the record, or of the damaged part in the file
	Data   []byte
	// Damage says why the part cannot be read; nil for a record.
	Damage *base.Corruption
	// Tail reports that a crash in the middle of a write explains the damage.
	Tail bool
}

// reader is record.Reader or record.ChainReader.
type reader interface {
	Next() ([]byte, error)
	Offset() int64
	Resume() bool
	Tail() bool
}

// records calls do for every record and every damaged part, until it fails.
func records(r reader, do func(Record) error) error {
	for {
		data, err := r.Next()
		var c *base.Corruption
		switch {
		case err == io.EOF:
			return nil
		case errors.As(err, &c):
			if err := do(Record{Offset: c.Offset, Length: c.Length, Damage: c,
				Tail: r.Tail()}); err != nil {
				return err
			}
			if !r.Resume() {
				return nil
			}
			continue
		case err != nil:
			return err
		}
		err = do(Record{Offset: r.Offset(), Length: int64(len(data)), Data: data})
		if err != nil {
			return err
		}
	}
}

// Entry is one operation of a batch.
type Entry struct {
	Keyspace   base.KeyspaceID
	Seq        base.SeqNum
	Kind       base.Kind
	Key, Value []byte
}

// Batch is a record of a log.
type Batch struct {
	Record
	Seq   base.SeqNum // of the first entry
	Count uint32      // entries, as the header says
}

// Entries calls do for the entries of the batch. A malformed one is a *base.Corruption with an
// offset within the batch.
func (b *Batch) Entries(do func(Entry) error) error {
	it := batchrepr.Read(b.Data)
	for seq := b.Seq; ; seq++ {
		space, kind, key, value, ok := it.Next()
		if !ok {
			return it.Err()
		}
		if err := do(Entry{space, seq, kind, key, value}); err != nil {
			return err
		}
	}
}

// ReadLog calls do for every batch, and every damaged part, of the log at path, which has the
// number num. A batch that is too short for a header is a damaged part.
func ReadLog(fsys vfs.FS, path string, format base.Format, num uint64,
	do func(Batch) error) error {
	f, err := current.OpenRegular(fsys, filepath.Dir(path), filepath.Base(path))
	if err != nil {
		return err
	}
	defer f.Close()
	name := filepath.Base(path)
	r := reader(record.NewReader(f, f.Size(), name))
	if format == base.Native {
		r = record.NewChainReader(f, f.Size(), name, num, 0)
	}
	return records(r, func(rec Record) error { return do(batchOf(rec, name)) })
}

// WhyEmpty says why the log at path has no batch.
func WhyEmpty(fsys vfs.FS, path string, format base.Format, num uint64) (string, error) {
	f, err := current.OpenRegular(fsys, filepath.Dir(path), filepath.Base(path))
	if err != nil {
		return "", err
	}
	defer f.Close()
	if f.Size() == 0 {
		return "the file is empty", nil
	}
	if format == base.Native {
		b, begun, err := record.ReadBegin(f)
		if err != nil {
			return "", err
		}
		if begun && b.Num != num {
			return fmt.Sprintf("the file was log %06[1]d and is to become %06[2]d, or it was "+
				"renamed: as %06[1]d.wal it shows that log", b.Num, num), nil
		}
	}
	return fmt.Sprintf("nothing was written into the log, whose file has %d bytes", f.Size()), nil
}

func batchOf(rec Record, name string) Batch {
	b := Batch{Record: rec}
	switch {
	case rec.Damage != nil:
	case len(rec.Data) < batchrepr.HeaderLen:
		b.Damage = base.Corruptf("write batch", "%d bytes are too short for a header",
			len(rec.Data)).At(name, rec.Offset, rec.Length)
	default:
		b.Seq, b.Count = batchrepr.Seq(rec.Data), batchrepr.Count(rec.Data)
	}
	return b
}

// Tail reads a log that another process may be writing.
type Tail struct {
	file vfs.ReadFile
	tail *record.Tail
	name string
}

// FollowLog begins to read a log from its beginning on.
func FollowLog(fsys vfs.FS, path string, format base.Format, num uint64) (*Tail, error) {
	f, err := current.OpenRegular(fsys, filepath.Dir(path), filepath.Base(path))
	if err != nil {
		return nil, err
	}
	t := &Tail{file: f, name: filepath.Base(path)}
	if format == base.Native {
		t.tail = record.NewChainTail(f, t.name, num, 0)
	} else {
		t.tail = record.NewTail(f, t.name, 0)
	}
	return t, nil
}

// Next returns the next batch; ok is false as long as there is none.
func (t *Tail) Next() (b Batch, ok bool, err error) {
	data, err := t.tail.Next()
	if errors.Is(err, record.ErrNotYet) {
		return b, false, nil
	}
	if err != nil {
		return b, false, err
	}
	return batchOf(Record{Offset: t.tail.Start(), Length: int64(len(data)), Data: data}, t.name),
		true, nil
}

// Close closes the file.
func (t *Tail) Close() error { return t.file.Close() }

// ManifestEdit is an edit of a MANIFEST, or a damaged part of the file.
type ManifestEdit struct {
	Record
	Edit manifest.Edit
}

// ReadManifest calls do for every edit, and every damaged part, of the MANIFEST at path.
func ReadManifest(fsys vfs.FS, path string, format base.Format,
	do func(ManifestEdit) error) error {
	name := filepath.Base(path)
	f, err := current.OpenRegular(fsys, filepath.Dir(path), name)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := manifest.CheckLog(f, name, format, nil); err != nil {
		e := ManifestEdit{Record: Record{Length: f.Size()}}
		if errors.As(err, &e.Damage) {
			return do(e)
		}
		return err
	}
	return records(record.NewReader(f, f.Size(), name), func(rec Record) error {
		e := ManifestEdit{Record: rec}
		if rec.Damage == nil {
			err := e.Edit.Decode(rec.Data, format)
			if err != nil && !errors.As(err, &e.Damage) {
				return err
			}
			if e.Damage != nil {
				e.Damage = errLocated(e.Damage, name, rec)
			}
		}
		return do(e)
	})
}

// errLocated is damage within a record, with its place in the file.
func errLocated(c *base.Corruption, name string, rec Record) *base.Corruption {
	at := *c
	at.File, at.Offset, at.Length = name, rec.Offset, rec.Length
	return &at
}
