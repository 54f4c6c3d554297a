package repair

import (
	"errors"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/files"
	"github.com/loamdb/loam/internal/sstable"
)

// operands tells which merge operands of logs are in tables too. A put or delete that stands
// twice, with one sequence number, is the same; an operand would be applied twice. Where the
// MANIFEST does not say which logs a keyspace has flushed, the tables do: one that has an entry of
// the key as new as the operand, or newer, came of a flush that had the operand.
type operands struct {
	r      *repair
	tables map[*keyspace][]*table
	sets   map[*keyspace]*files.Set
}

// stored reports whether the operand of key with the number seq is in a table.
func (o *operands) stored(s *keyspace, key []byte, seq base.SeqNum) (bool, error) {
	for _, t := range o.tables[s] {
		if t.maxSeq < seq || s.cmp.Cmp(key, t.meta.Smallest.User) < 0 || s.cmp.Cmp(key, t.meta.Largest.User) > 0 {
			continue
		}
		set := o.sets[s]
		if set == nil {
			set = files.New(files.Options{FS: o.r.o.FS, Dir: o.r.o.Dir, Format: o.r.format, Comparer: s.cmp, MaxDecoded: o.r.o.MaxDecoded})
			o.sets[s] = set
		}
		reader, err := set.Reader(t.meta)
		if err != nil {
			return false, err
		}
		src := reader.NewSource(sstable.Private)
		var e base.Chunk
		i, err := src.SeekGE(key, base.MaxTrailer, &e)
		found := err == nil && i >= 0 && s.cmp.Cmp(e.Key(i), key) == 0 && e.Trailers[i].Seq() >= seq
		src.Close()
		if found || err != nil {
			return found, err
		}
	}
	return false, nil
}

func (o *operands) close() error {
	var errs []error
	for _, set := range o.sets {
		errs = append(errs, set.Close())
	}
	return errors.Join(errs...)
}

// operand is the newest entry of a merge of tables, an operand, as long as it may stand twice: in
// the inputs and in the outputs of a compaction. The later of two with one sequence number is kept,
// which is a value where the compaction made one.
type operand struct {
	held       bool
	key, value []byte
	trailer    base.Trailer
	codec      base.Codec
}

func (p *operand) hold(key []byte, t base.Trailer, codec base.Codec, value []byte) {
	p.held, p.trailer, p.codec = true, t, codec
	p.key, p.value = append(p.key[:0], key...), append(p.value[:0], value...)
}

// flush writes the operand, unless the entry that follows has its key and its number.
func (p *operand) flush(o *output, key []byte, t base.Trailer) error {
	if !p.held {
		return nil
	}
	p.held = false
	if t.Seq() == p.trailer.Seq() && o.space.cmp.Cmp(key, p.key) == 0 {
		return nil
	}
	return o.add(p.key, p.trailer, p.codec, p.value)
}
