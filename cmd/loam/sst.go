package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/loamdb/loam/cmd/loam/internal/damage"
	"github.com/loamdb/loam/cmd/loam/internal/encode"
	"github.com/loamdb/loam/cmd/loam/internal/facts"
	"github.com/loamdb/loam/cmd/loam/internal/text"
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/feature/examine"
	"github.com/loamdb/loam/internal/format/sstable"
)

// sstFlags are the flags of sst.
type sstFlags struct {
	encode.Flags
	layout, entries, salvage bool
	block                    int
}

func (a *app) sstVerb() *cobra.Command {
	var f sstFlags
	c := &cobra.Command{
		Use:   "sst FILE",
		Short: "Show a table file: properties, layout, entries",
		Long: "Show a table file of Loam or LevelDB in full. Every block is read and its " +
			"checksum compared, so\ndamage is found whatever is printed. A damaged table is exit " +
			"code 1; --salvage prints what can\nbe read of it.",
		Example: "  loam sst trees/000005.loam\n  loam sst --layout trees/000005.loam\n" +
			"  loam sst --entries --as hex leveldb/000005.ldb\n" +
			"  loam sst --entries --block 3 trees/000005.loam\n" +
			"  loam sst --salvage broken/000005.ldb",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.Parse(); err != nil {
				return err
			}
			return a.sst(cmd, args[0], &f)
		},
	}
	f.Flags.Register(c.Flags())
	c.Flags().BoolVar(&f.layout, "layout", false, "the pieces of the file and where they lie")
	c.Flags().BoolVar(&f.entries, "entries", false, "all entries, tombstones and old versions too")
	c.Flags().BoolVar(&f.salvage, "salvage", false, "what is readable of a damaged table")
	c.Flags().IntVar(&f.block, "block", -1, "with --entries: those of one data block")
	return c
}

// tableProps is what a table says of itself.
type tableProps struct {
	facts.TableFile
	// Damage is what the check of all blocks found.
	Damage []damage.Part `json:"damage"`

	smallest, largest []byte
}

// piece is a line of --layout.
type piece struct {
	Block   *int   `json:"block,omitempty"`
	Name    string `json:"name"`
	Offset  uint64 `json:"offset"`
	Length  uint64 `json:"length"`
	Entries *int   `json:"entries,omitempty"`
}

func (a *app) sst(cmd *cobra.Command, path string, f *sstFlags) error {
	ctx, stop := interruptible(cmd)
	defer stop()
	if other := facts.OtherVerb(path, cmd.Name()); other != "" && !f.salvage {
		return usagef("%s", other)
	}
	forced, err := a.forcedComparer()
	if err != nil {
		return err
	}
	t, err := examine.OpenTable(a.files(filepath.Dir(path)), path, (*base.Comparer)(forced))
	if t != nil {
		defer t.Close()
	}
	if f.salvage && t != nil {
		return a.salvage(ctx, t, f)
	}
	if err != nil {
		return a.unreadable(err)
	}
	x := &tableProps{TableFile: facts.TableFile{File: t.Name, Format: t.Props.Format,
		Bytes: t.Size(), Comparer: t.Comparer.Name, Keyspace: t.Props.KeyspaceName,
		FilterBits: t.Props.FilterBits, RangeDeletes: t.Props.RangeDels}, Damage: []damage.Part{}}
	perBlock, err := a.readTable(ctx, t, x, f)
	if err == nil {
		err = t.VerifyMeta()
	}
	if ctx.Err() != nil || a.out.fail != nil {
		return ctx.Err()
	}
	found := damage.Of(err)
	if err != nil && found == nil {
		return err
	}
	x.Damage = append(x.Damage, found...)
	switch {
	case f.entries:
	case f.layout:
		err = a.printLayout(t, perBlock)
	case a.json:
		err = a.printWithKeys(x, f.Key, "smallest", x.smallest, f.Key, "largest",
			x.largest)
	default:
		err = a.printTableProps(x, f)
	}
	if len(found) > 0 {
		return &problem{damage.List(found)}
	}
	return err
}

// readTable reads all entries, prints them if that is asked for, and counts.
func (a *app) readTable(ctx context.Context, t *examine.Table, x *tableProps,
	f *sstFlags) (perBlock map[int]int, err error) {
	perBlock = map[int]int{}
	x.MinSequence = uint64(base.MaxSeqNum)
	p := a.progress("reading", uint64(t.Size()))
	defer p.end()
	err = t.Scan(func(block int, e *base.Chunk) error {
		for i := range e.Len() {
			seq, kind := e.Trailers[i].Seq(), e.Trailers[i].Kind()
			if x.Entries == 0 {
				x.smallest = append([]byte{}, e.Key(i)...)
			}
			if i == e.Len()-1 {
				x.largest = append(x.largest[:0], e.Key(i)...)
			}
			x.Entries++
			if kind.IsTombstone() {
				x.Tombstones++
			}
			x.KeyBytes += uint64(len(e.Key(i)))
			x.ValueBytes += uint64(len(e.Value(i)))
			x.MinSequence = min(x.MinSequence, uint64(seq))
			x.MaxSequence = max(x.MaxSequence, uint64(seq))
			if f.entries && (f.block < 0 || f.block == block) {
				if err := a.printVersion(f, entryLine{Block: &block, Sequence: uint64(seq),
					Kind: kind.String(), packed: e.Codec(i) != base.CodecRaw}, e.Key(i),
					facts.Value(kind, e.Codec(i), e.Value(i))); err != nil {
					return err
				}
			}
		}
		perBlock[block] += e.Len()
		x.Blocks = max(x.Blocks, block+1)
		p.at(x.KeyBytes + x.ValueBytes)
		return ctx.Err()
	})
	if x.Entries == 0 {
		x.MinSequence = 0
	}
	if err == nil && f.entries && f.block < 0 {
		t.RangeDels(func(start, limit []byte, seq base.SeqNum) {
			if err == nil {
				err = a.printVersion(f, entryLine{Sequence: uint64(seq),
					Kind: base.KindRangeDelete.String()}, start, limit)
			}
		})
	}
	return perBlock, err
}

// entryLine is an entry of a table or log, without key and value.
type entryLine struct {
	Block    *int   `json:"block,omitempty"`
	Offset   *int64 `json:"offset,omitempty"`
	Keyspace uint32 `json:"keyspace,omitempty"`
	Sequence uint64 `json:"sequence"`
	Kind     string `json:"kind"`

	packed bool // the value cannot be shown
}

// printVersion writes one version of a key.
func (a *app) printVersion(f *sstFlags, l entryLine, key, value []byte) error {
	if a.json {
		name := "value"
		if l.packed || l.Kind == base.KindDelete.String() {
			name = ""
		}
		return a.printWithKeys(l, f.Key, "key", key, f.Value, name, value)
	}
	place := ""
	switch {
	case l.Offset != nil:
		place = fmt.Sprintf("%d\t", *l.Offset)
	case l.Block != nil:
		place = fmt.Sprintf("%d\t", *l.Block)
	default:
		place = "-\t"
	}
	if l.Keyspace != 0 {
		place += fmt.Sprintf("keyspace %d ", l.Keyspace)
	}
	text := f.Value.Format(value)
	if l.packed {
		text = fmt.Sprintf("(%d bytes, packed)", len(value))
	}
	return a.printf("%s\n", a.cut(fmt.Sprintf("%s#%d %s\t%s\t%s", place, l.Sequence, l.Kind,
		f.Key.Format(key), text), 4*a.screen.width))
}

func (a *app) printLayout(t *examine.Table, perBlock map[int]int) error {
	pieces, err := t.Layout()
	if err != nil {
		return a.unreadable(err)
	}
	g := &text.Grid{}
	g.Column("offset", true)
	g.Column("length", true)
	g.Column("block", true)
	g.Column("entries", true)
	g.Column("what", false)
	block := 0
	for _, p := range pieces {
		x := piece{Name: p.Name, Offset: p.Offset, Length: p.Length}
		cells := []string{fmt.Sprint(p.Offset), fmt.Sprint(p.Length), "", "",
			encode.Escape([]byte(p.Name))}
		if p.Name == "data" {
			b, n := block, perBlock[block]
			x.Block, x.Entries = &b, &n
			cells[2], cells[3] = fmt.Sprint(b), fmt.Sprint(n)
			block++
		}
		if a.json {
			if err := a.printJSON(x); err != nil {
				return err
			}
			continue
		}
		g.Row(cells...)
	}
	if a.json {
		return nil
	}
	return a.printGrid(g)
}

func (a *app) printTableProps(x *tableProps, f *sstFlags) error {
	var p text.Pairs
	p.Add("file", "%s, %s", x.File, text.Bytes(uint64(x.Bytes)))
	p.Add("format", "%s", x.Format)
	p.Add("comparer", "%s", encode.Escape([]byte(x.Comparer)))
	if x.Keyspace != "" {
		p.Add("keyspace", "%s", encode.Escape([]byte(x.Keyspace)))
	}
	p.Add("entries", "%s in %s", text.Count(x.Entries), text.Plural(x.Blocks, "block"))
	p.Add("tombstones", "%s, %s of ranges", text.Count(x.Tombstones), text.Count(x.RangeDeletes))
	p.Add("keys", "%s", text.Bytes(x.KeyBytes))
	p.Add("values", "%s", text.Bytes(x.ValueBytes))
	p.Add("sequences", "%d .. %d", x.MinSequence, x.MaxSequence)
	p.Add("filter", "%d bits per key", x.FilterBits)
	p.Add("smallest", "%s", f.Key.Format(x.smallest))
	p.Add("largest", "%s", f.Key.Format(x.largest))
	state := "all blocks are sound"
	if len(x.Damage) > 0 {
		state = "damaged"
	}
	p.Add("checksums", "%s", state)
	return a.printPairs(p)
}

// salvage prints what is readable of a table, and what is not.
func (a *app) salvage(ctx context.Context, t *examine.Table, f *sstFlags) error {
	var lost []damage.Part
	entries := 0
	err := t.Salvage(sstable.Salvage{
		Add: func(key []byte, tr base.Trailer, codec base.Codec, value []byte) error {
			entries++
			if err := ctx.Err(); err != nil {
				return err
			}
			return a.printVersion(f, entryLine{Sequence: uint64(tr.Seq()), Kind: tr.Kind().String(),
				packed: codec != base.CodecRaw}, key, facts.Value(tr.Kind(), codec, value))
		},
		Lost: func(l sstable.Lost) {
			lost = append(lost, damage.Part{File: t.Name, Offset: l.Offset, Length: l.Length,
				Kind: "table", Reason: l.Reason, Smallest: l.Smallest, Largest: l.Largest})
		},
	})
	if err != nil {
		return err
	}
	if len(lost) == 0 {
		return nil
	}
	for _, d := range lost {
		fmt.Fprintf(a.err, "loam: %s\n", d.Text(f.Key))
	}
	return &problem{fmt.Sprintf("%s: %s readable, %s lost", filepath.Base(t.Name),
		text.Count(entries)+" entries are", text.Plural(len(lost), "part"))}
}
