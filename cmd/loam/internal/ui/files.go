package ui

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/loamdb/loam/cmd/loam/internal/encode"
	"github.com/loamdb/loam/cmd/loam/internal/facts"
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/feature/examine"
	"github.com/loamdb/loam/lsm"
)

// Bounds of what the views of files show at once.
const (
	pageTables   = 200
	pageRecords  = 100
	mostPieces   = 200
	mostVersions = 500
	shortBytes   = 256 // of keys and values
)

// errEnough ends the reading of a file.
var errEnough = errors.New("enough")

// tableLine is a table in the list of tables.
type tableLine struct {
	facts.Table
	Smallest string `json:"smallest"`
	Largest  string `json:"largest"`
}

// tables lists the tables of a keyspace that the MANIFEST has. Parameters are keyspace, offset, and
// key_as.
func (s *server) tables(_ context.Context, q query) (any, error) {
	as, _, err := q.encodings()
	if err != nil {
		return nil, err
	}
	offset, err := q.number("offset", 0)
	if err != nil {
		return nil, err
	}
	d, err := examine.Open(s.FS, s.dir)
	if err != nil {
		return nil, err
	}
	all := slices.DeleteFunc(facts.Tables(d), func(t facts.Table) bool {
		return t.Keyspace != q.keyspace()
	})
	lines := []tableLine{}
	for _, t := range all[min(offset, len(all)):min(offset+pageTables, len(all))] {
		lines = append(lines, tableLine{t, short(as, t.First), short(as, t.Last)})
	}
	return map[string]any{"tables": lines, "count": len(all)}, nil
}

// short is the beginning of a key or value.
func short(as encode.Encoding, b []byte) string {
	if len(b) > shortBytes {
		return as.Format(b[:shortBytes]) + "…"
	}
	return as.Format(b)
}

// file is the path of the file that the parameter file names, which is one of the directory.
func (s *server) file(q query, want base.FileType) (path string, format base.Format, num uint64,
	err error) {
	name := q.Get("file")
	t, format, num := examine.Kind(name)
	if t != want || name != filepath.Base(name) {
		return "", format, 0, fmt.Errorf("%w: there is no such file: %.100q",
			lsm.ErrInvalidArgument, name)
	}
	return filepath.Join(s.dir, name), format, num, nil
}

// version is an entry of a table or log.
type version struct {
	Keyspace uint32 `json:"keyspace,omitempty"`
	Sequence uint64 `json:"sequence"`
	Kind     string `json:"kind"`
	Key      string `json:"key"`
	Value    string `json:"value"`
	Size     int    `json:"size"`
}

// piece is a part of a table file.
type piece struct {
	Block  *int   `json:"block,omitempty"`
	Name   string `json:"name"`
	Offset uint64 `json:"offset"`
	Length uint64 `json:"length"`
}

// tableView is a table file.
type tableView struct {
	facts.TableFile

	Pieces []piece `json:"pieces"`
	Left   int     `json:"left"` // pieces that are not shown
	// Versions are the entries of the block that was asked for.
	Versions []version `json:"versions,omitempty"`
	More     bool      `json:"more,omitempty"` // the block has more of them
	// Checked says that all checksums were compared.
	Checked bool   `json:"checked,omitempty"`
	Damage  string `json:"damage,omitempty"`
}

// table answers with a table file. Parameters are file, key_as, value_as; block, the data block
// whose entries to show; and check, to compare all checksums.
func (s *server) table(ctx context.Context, q query) (any, error) {
	path, _, _, err := s.file(q, base.FileTable)
	if err != nil {
		return nil, err
	}
	as, valueAs, err := q.encodings()
	if err != nil {
		return nil, err
	}
	t, err := examine.OpenTable(s.FS, path, s.Comparer)
	if t != nil {
		defer t.Close()
	}
	if err != nil {
		return nil, err
	}
	p := t.Props
	v := &tableView{TableFile: facts.TableFile{File: t.Name, Format: p.Format, Bytes: t.Size(),
		Comparer: t.Comparer.Name, Keyspace: p.KeyspaceName, Entries: p.Entries,
		Tombstones: p.Deletes, RangeDeletes: p.RangeDels, KeyBytes: facts.UserKeyBytes(&p),
		ValueBytes: p.RawValues, Blocks: p.Blocks, FilterBits: p.FilterBits,
		MinSequence: uint64(p.MinSeq), MaxSequence: uint64(p.MaxSeq)}, Pieces: []piece{}}
	if err := v.layout(t); err != nil {
		return nil, err
	}
	if q.Get("check") != "" {
		v.Checked = true
		err := t.Scan(func(int, *base.Chunk) error { return ctx.Err() })
		if err == nil {
			err = t.VerifyMeta()
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			v.Damage = err.Error()
		}
	}
	if q.Get("block") == "" {
		return v, nil
	}
	wanted, err := q.number("block", 0)
	if err != nil {
		return nil, err
	}
	return v, v.block(ctx, t, wanted, as, valueAs)
}

// layout lists the pieces: the first data blocks, and all others.
func (v *tableView) layout(t *examine.Table) error {
	pieces, err := t.Layout()
	if err != nil {
		return err
	}
	block := 0
	for _, p := range pieces {
		x := piece{Name: p.Name, Offset: p.Offset, Length: p.Length}
		if p.Name == "data" {
			b := block
			x.Block = &b
			block++
		}
		if len(v.Pieces) >= mostPieces && (p.Name == "data" || len(v.Pieces) >= 2*mostPieces) {
			v.Left++
			continue
		}
		v.Pieces = append(v.Pieces, x)
	}
	v.Blocks = block
	return nil
}

// block reads the entries of a data block.
func (v *tableView) block(ctx context.Context, t *examine.Table, wanted int,
	as, valueAs encode.Encoding) error {
	v.Versions = []version{}
	err := t.Scan(func(block int, e *base.Chunk) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case block < wanted:
			return nil
		case block > wanted:
			return errEnough
		}
		for i := range e.Len() {
			if len(v.Versions) == mostVersions {
				v.More = true
				return errEnough
			}
			kind := e.Trailers[i].Kind()
			value := facts.Value(kind, e.Codec(i), e.Value(i))
			x := version{Sequence: uint64(e.Trailers[i].Seq()), Kind: kind.String(),
				Key: short(as, e.Key(i)), Size: len(value)}
			if e.Codec(i) == base.CodecRaw {
				x.Value = short(valueAs, value)
			} else {
				x.Value = fmt.Sprintf("(%d bytes, packed)", len(value))
			}
			v.Versions = append(v.Versions, x)
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// logLine is a log in the list of logs.
type logLine struct {
	File   string `json:"file"`
	Bytes  int64  `json:"bytes"`
	Format string `json:"format"`
}

// logs lists the logs that the database needs, oldest first, and the MANIFEST.
func (s *server) logs(context.Context, query) (any, error) {
	d, err := examine.Open(s.FS, s.dir)
	if err != nil {
		return nil, err
	}
	logs, err := d.Logs()
	if err != nil {
		return nil, err
	}
	lines := []logLine{}
	for _, l := range logs {
		lines = append(lines, logLine{l.Name, l.Size, d.Format.String()})
	}
	return map[string]any{"logs": lines, "manifest": d.Manifest,
		"manifest_bytes": d.ManifestSize}, nil
}

// record is a batch of a log, or a damaged part of the file.
type record struct {
	Offset   int64     `json:"offset"`
	Length   int64     `json:"length"`
	Sequence uint64    `json:"sequence"`
	Count    uint32    `json:"count"`
	Entries  []version `json:"entries,omitempty"`
	Damage   string    `json:"damage,omitempty"`
	Tail     bool      `json:"tail,omitempty"` // a crash explains the damage
}

// log answers with batches of a log. Parameters are file, key_as, value_as; offset, where the first
// one begins; and newest, for the last ones.
func (s *server) log(ctx context.Context, q query) (any, error) {
	path, format, num, err := s.file(q, base.FileLog)
	if err != nil {
		return nil, err
	}
	as, valueAs, err := q.encodings()
	if err != nil {
		return nil, err
	}
	offset, err := q.number("offset", 0)
	if err != nil {
		return nil, err
	}
	newest := q.Get("newest") != ""
	records, more := []record{}, false
	err = examine.ReadLog(s.FS, path, format, num, func(b examine.Batch) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case b.Offset < int64(offset):
			return nil
		case len(records) == pageRecords && !newest:
			more = true
			return errEnough
		case len(records) == pageRecords:
			records = slices.Delete(records, 0, 1)
		}
		records = append(records, recordOf(b, as, valueAs))
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	return map[string]any{"records": records, "more": more}, nil
}

// mostOfBatch is how many entries of a batch are shown.
const mostOfBatch = 20

func recordOf(b examine.Batch, as, valueAs encode.Encoding) record {
	r := record{Offset: b.Offset, Length: b.Length, Sequence: uint64(b.Seq), Count: b.Count}
	if b.Damage != nil {
		r.Damage, r.Tail = b.Damage.Error(), b.Tail
		return r
	}
	err := b.Entries(func(e examine.Entry) error {
		if len(r.Entries) == mostOfBatch {
			return errEnough
		}
		value := facts.Value(e.Kind, base.CodecRaw, e.Value)
		r.Entries = append(r.Entries, version{Keyspace: uint32(e.Keyspace), Sequence: uint64(e.Seq),
			Kind: e.Kind.String(), Key: short(as, e.Key), Value: short(valueAs, value),
			Size: len(value)})
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		r.Damage = err.Error()
	}
	return r
}

// edit is an edit of the MANIFEST, or a damaged part of the file. Lists have their beginnings, and
// the counts are those of all.
type edit struct {
	*facts.Edit
	Offset       int64  `json:"offset"`
	AddedCount   int    `json:"added_count,omitempty"`
	DeletedCount int    `json:"deleted_count,omitempty"`
	PointerCount int    `json:"pointer_count,omitempty"`
	Damage       string `json:"damage,omitempty"`
	Tail         bool   `json:"tail,omitempty"` // a crash explains the damage
}

// editOf describes an edit, whose lists, names and keys it cuts.
func editOf(x examine.ManifestEdit, as encode.Encoding) edit {
	e := &x.Edit
	l := edit{Offset: x.Offset, AddedCount: len(e.Added), DeletedCount: len(e.Deleted),
		PointerCount: len(e.CompactPointers)}
	e.Added = e.Added[:min(len(e.Added), pageTables)]
	e.Deleted = e.Deleted[:min(len(e.Deleted), pageTables)]
	e.CompactPointers = e.CompactPointers[:min(len(e.CompactPointers), pageTables)]
	e.Comparer = cutName(e.Comparer)
	e.MergeOperator = cutName(e.MergeOperator)
	if k := e.NewKeyspace; k != nil {
		k.Name, k.Comparer = cutName(k.Name), cutName(k.Comparer)
	}
	for i := range e.CompactPointers {
		cutKey(&e.CompactPointers[i].Key.User)
	}
	for _, f := range e.Added {
		cutKey(&f.Meta.Smallest.User)
		cutKey(&f.Meta.Largest.User)
	}
	l.Edit = facts.EditOf(&x, as)
	return l
}

func cutName(name string) string {
	if len(name) > shortBytes {
		return name[:shortBytes] + "…"
	}
	return name
}

func cutKey(key *[]byte) { *key = (*key)[:min(len(*key), shortBytes)] }

// manifest answers with edits of the MANIFEST in force, the newest ones last. Parameters are key_as
// and offset, where the first one begins; without it, the last ones are shown.
func (s *server) manifest(ctx context.Context, q query) (any, error) {
	as, _, err := q.encodings()
	if err != nil {
		return nil, err
	}
	offset, err := q.number("offset", 0)
	if err != nil {
		return nil, err
	}
	d, err := examine.Open(s.FS, s.dir)
	if err != nil && d.Manifest == "" {
		return nil, err
	}
	edits, more := []edit{}, false
	err = examine.ReadManifest(s.FS, filepath.Join(s.dir, d.Manifest), d.Format,
		func(x examine.ManifestEdit) error {
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case x.Offset < int64(offset):
				return nil
			case len(edits) == pageRecords && q.Has("offset"):
				more = true
				return errEnough
			case len(edits) == pageRecords:
				edits = slices.Delete(edits, 0, 1)
			}
			if x.Damage != nil {
				edits = append(edits, edit{Offset: x.Offset, Damage: x.Damage.Error(),
					Tail: x.Tail})
			} else {
				edits = append(edits, editOf(x, as))
			}
			return nil
		})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	return map[string]any{"file": d.Manifest, "edits": edits, "more": more}, nil
}
