package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/loamdb/loam/cmd/loam/internal/damage"
	"github.com/loamdb/loam/cmd/loam/internal/encode"
	"github.com/loamdb/loam/cmd/loam/internal/facts"
	"github.com/loamdb/loam/cmd/loam/internal/text"
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/feature/examine"
)

func (a *app) walVerb() *cobra.Command {
	var f sstFlags
	var records, follow bool
	c := &cobra.Command{
		Use:   "wal FILE",
		Short: "Show a write-ahead log: batches and entries by offset",
		Long: "Show the batches of a log with their offsets, sequence numbers and entries; every " +
			"checksum is\ncompared. A torn end, which a crash leaves, is told and is no damage; " +
			"damage is exit code 1.\nWhat follows damage is shown, although no recovery uses it.",
		Example: "  loam wal trees/000007.wal\n  loam wal --records leveldb/000008.log\n" +
			"  loam wal --json --as hex leveldb/000008.log\n  loam wal --follow trees/000007.wal",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.Parse(); err != nil {
				return err
			}
			format, num, err := a.kindOf(args[0], base.FileLog, cmd.Name())
			if err != nil {
				return err
			}
			ctx, stop := interruptible(cmd)
			defer stop()
			w := &walPrinter{a: a, f: &f, ctx: ctx, records: records}
			if follow {
				return w.follow(args[0], format, num)
			}
			if err := examine.ReadLog(a.files(filepath.Dir(args[0])), args[0], format, num,
				w.batch); err != nil {
				return err
			}
			if err := w.end(); err != nil {
				return err
			}
			return w.explain(args[0], format, num)
		},
	}
	f.Flags.Register(c.Flags())
	c.Flags().BoolVar(&records, "records", false, "batches without their entries")
	c.Flags().BoolVar(&follow, "follow", false, "go on with what is written, until Ctrl-C")
	return c
}

// kindOf finds the format and number of a file by its name.
func (a *app) kindOf(path string, want base.FileType, verb string) (format base.Format,
	num uint64, err error) {
	t, format, num := examine.Kind(filepath.Base(path))
	if t == want {
		return format, num, nil
	}
	if other := facts.OtherVerb(path, verb); other != "" {
		return 0, 0, usagef("%s", other)
	}
	wanted := map[base.FileType]string{
		base.FileLog:      "logs are NUMBER.log (LevelDB) and NUMBER.wal (native)",
		base.FileManifest: "MANIFESTs are MANIFEST-NUMBER (LevelDB) and NUMBER.manifest (native)",
	}
	return 0, 0, usagef("%s: the name tells the format, and %s", path, wanted[want])
}

// walPrinter prints a log.
type walPrinter struct {
	a       *app
	f       *sstFlags
	ctx     context.Context
	records bool

	batches, entries uint64
	found            []damage.Part
	torn             *damage.Part
}

// batchLine is a batch of a log.
type batchLine struct {
	Offset   int64  `json:"offset"`
	Length   int64  `json:"length"`
	Sequence uint64 `json:"sequence"`
	Count    uint32 `json:"count"`
}

func (w *walPrinter) batch(b examine.Batch) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	if c := b.Damage; c != nil {
		w.damaged(damage.Part{File: c.File, Offset: c.Offset, Length: c.Length, Kind: c.Kind,
			Reason: c.Reason}, b.Tail)
		return nil
	}
	w.batches++
	if w.records {
		line := batchLine{b.Offset, b.Length, uint64(b.Seq), b.Count}
		if w.a.json {
			return w.a.printJSON(line)
		}
		return w.a.printf("%d\t%d bytes\t#%d\t%s\n", line.Offset, line.Length, line.Sequence,
			text.Plural(uint64(line.Count), "operation"))
	}
	err := b.Entries(func(e examine.Entry) error {
		w.entries++
		return w.a.printVersion(w.f, entryLine{Offset: &b.Offset, Keyspace: uint32(e.Keyspace),
			Sequence: uint64(e.Seq), Kind: e.Kind.String()}, e.Key,
			facts.Value(e.Kind, base.CodecRaw, e.Value))
	})
	if found := damage.Of(err); found != nil {
		found[0].File, found[0].Offset, found[0].Length = "", b.Offset, b.Length
		w.damaged(found[0], false)
		return nil
	}
	return err
}

// damaged notes damage, or a torn end.
func (w *walPrinter) damaged(d damage.Part, tail bool) {
	if tail {
		w.torn = &d
		return
	}
	w.found = append(w.found, d)
}

func (w *walPrinter) end() error {
	if w.torn != nil {
		fmt.Fprintf(w.a.err, "torn end, as a crash leaves it: %s\n", w.torn.Text(encode.Text))
	}
	if len(w.found) > 0 {
		return &problem{damage.List(w.found)}
	}
	return nil
}

// explain says why nothing was printed.
func (w *walPrinter) explain(path string, format base.Format, num uint64) error {
	switch {
	case w.torn != nil || w.entries > 0 || w.records && w.batches > 0:
	case w.batches > 0:
		fmt.Fprintf(w.a.err, "no entry: %s without an operation\n",
			text.Plural(w.batches, "record"))
	default:
		why, err := examine.WhyEmpty(w.a.files(filepath.Dir(path)), path, format, num)
		if err != nil {
			return err
		}
		fmt.Fprintf(w.a.err, "no batch: %s\n", why)
	}
	return nil
}

// follow prints what is in the log and what is written to it, until it is interrupted.
func (w *walPrinter) follow(path string, format base.Format, num uint64) error {
	t, err := examine.FollowLog(w.a.files(filepath.Dir(path)), path, format, num)
	if err != nil {
		return err
	}
	defer t.Close()
	const pause = 100 * time.Millisecond
	for {
		b, ok, err := t.Next()
		if err != nil {
			return err
		}
		if ok && w.ctx.Err() == nil {
			if err := w.batch(b); err != nil {
				return err
			}
			continue
		}
		if err := w.a.out.Flush(); err != nil {
			return err
		}
		select {
		case <-w.ctx.Done():
			return w.end()
		case <-time.After(pause):
		}
	}
}
