package repair

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/store/files"
)

// operands tells which merge operands of logs are in tables too. A put or delete that stands
// twice, with one sequence number, is the same; an operand would be applied twice. The MANIFEST
// says which logs a keyspace has flushed, and where there is none the tables do, see
// sstable.Props.FirstLog. For entries of later logs, and of tables that do not say it:
//
//   - A table that has an entry of the key as new as the operand, or newer, came of a flush that
//     had the operand.
//   - A value with sequence number 0 is one that a compaction wrote. If the table records its first
//     log, and that has no larger number than the operand's, the value lacks the operand. If the
//     table is older than the log, by the numbers of their files, the value lacks it, too.
//     Otherwise it is unknown: the operand is left out and reported, unless a put or delete before
//     it in the logs hides the value. So no operand is ever applied twice.
type operands struct {
	r      *repair
	tables map[*keyspace][]*table
	sets   map[*keyspace]*files.Set
	// hidden has the keys of puts and deletes of logs, where there are tables with values that
	// nobody can tell from an operand's.
	hidden map[*keyspace]*keySet
}

// of takes the tables of a keyspace whose logs are not told from its tables by the MANIFEST.
func (o *operands) of(s *keyspace, tables []*table) {
	o.tables[s] = tables
	if slices.ContainsFunc(tables, (*table).unclear) {
		o.hidden[s] = &keySet{cmp: s.cmp, exact: make(map[string]bool)}
	}
}

// unclear reports whether the table may have values of merges without a record of their operands.
func (t *table) unclear() bool {
	return t.native && t.firstLog == 0 && t.minSeq == 0 && t.entries > 0
}

// keySet is a set of user keys. Keys that the comparer calls equal are one.
type keySet struct {
	cmp    *base.Comparer
	exact  map[string]bool // where equal keys have the same bytes
	sorted [][]byte        // otherwise
}

func (k *keySet) search(key []byte) (int, bool) {
	return slices.BinarySearchFunc(k.sorted, key, k.cmp.Cmp)
}

func (k *keySet) add(key []byte) {
	if k.cmp.EqualIsBytewise {
		k.exact[string(key)] = true
	} else if i, found := k.search(key); !found {
		k.sorted = slices.Insert(k.sorted, i, bytes.Clone(key))
	}
}

func (k *keySet) has(key []byte) bool {
	if k.cmp.EqualIsBytewise {
		return k.exact[string(key)]
	}
	_, found := k.search(key)
	return found
}

// twice reports whether an entry of a log is an operand that is, or may be, in a table.
func (o *operands) twice(s *keyspace, l *logFile, kind base.Kind, seq base.SeqNum,
	key []byte) (bool, error) {
	if kind != base.KindMerge {
		if h := o.hidden[s]; h != nil && kind != base.KindRangeDelete {
			h.add(key)
		}
		return false, nil
	}
	for _, t := range o.tables[s] {
		maybe := t.unclear() && t.meta.Num > l.num && !o.hidden[s].has(key)
		if t.maxSeq < seq && !maybe || s.cmp.Cmp(key, t.meta.Smallest.User) < 0 ||
			s.cmp.Cmp(key, t.meta.Largest.User) > 0 {
			continue
		}
		newest, found, err := o.newest(s, t, key)
		switch {
		case err != nil:
			return false, err
		case found && newest >= seq:
			return true, nil
		case found && newest == 0 && maybe:
			o.r.report.Dropped = append(o.r.report.Dropped,
				Drop{File: l.name, Smallest: bytes.Clone(key), Largest: bytes.Clone(key),
					Reason: fmt.Sprintf("an operand (sequence number %d) that %s may have "+
						"already is left out", seq, t.name)})
			return true, nil
		}
	}
	return false, nil
}

// newest returns the sequence number of the newest entry of key in a table.
func (o *operands) newest(s *keyspace, t *table,
	key []byte) (seq base.SeqNum, found bool, err error) {
	set := o.sets[s]
	if set == nil {
		set = files.New(files.Options{FS: o.r.o.FS, Dir: o.r.o.Dir, Format: o.r.format,
			Comparer: s.cmp, MaxDecoded: o.r.o.MaxDecoded})
		o.sets[s] = set
	}
	reader, err := set.Reader(t.meta)
	if err != nil {
		return 0, false, err
	}
	src := reader.NewSource(sstable.Private)
	defer src.Close()
	var e base.Chunk
	i, err := src.SeekGE(key, base.MaxTrailer, &e)
	if err != nil || i < 0 || s.cmp.Cmp(e.Key(i), key) != 0 {
		return 0, false, err
	}
	return e.Trailers[i].Seq(), true, nil
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
