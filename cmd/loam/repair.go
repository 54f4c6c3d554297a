package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/loamdb/loam/cmd/loam/internal/damage"
	"github.com/loamdb/loam/cmd/loam/internal/encode"
	"github.com/loamdb/loam/cmd/loam/internal/facts"
	"github.com/loamdb/loam/cmd/loam/internal/overlay"
	"github.com/loamdb/loam/cmd/loam/internal/text"
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/feature/examine"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/lsm"
)

// repaired is what a repair did or, dry, would do.
type repaired struct {
	Directory string     `json:"directory"`
	DryRun    bool       `json:"dry_run"`
	Changed   bool       `json:"changed"`
	Manifest  string     `json:"manifest,omitempty"`
	Tables    int        `json:"tables"`
	Logs      int        `json:"logs"`
	Entries   uint64     `json:"entries"`
	SetAside  []string   `json:"set_aside"`
	Rewritten []rewrite  `json:"rewritten"`
	Kept      []kept     `json:"kept"`
	Lost      []lostPart `json:"lost"`
}

type rewrite struct {
	File   string `json:"file"`
	Reason string `json:"reason"`
}

// kept is what a keyspace has after the repair.
type kept struct {
	Keyspace     string  `json:"keyspace"`
	Tables       int     `json:"tables"`
	Bytes        uint64  `json:"bytes"`
	Smallest     *string `json:"smallest,omitempty"` // as text, with escapes
	Largest      *string `json:"largest,omitempty"`
	LastSequence uint64  `json:"last_sequence"`
}

// lostPart is a part of a file that cannot be read.
type lostPart struct {
	damage.Part
	Smallest *string `json:"smallest,omitempty"` // the lost keys lie from here
	Largest  *string `json:"largest,omitempty"`  // to here
	// The lost sequence numbers lie after AfterSequence and before BeforeSequence.
	AfterSequence  *uint64 `json:"after_sequence,omitempty"`
	BeforeSequence *uint64 `json:"before_sequence,omitempty"`
}

func (a *app) repairVerb() *cobra.Command {
	var dry bool
	c := &cobra.Command{
		Use:   "repair DIR",
		Short: "Keep what can be read of a damaged database",
		Long: "Bring a damaged database back to a state that opens, with all that can be read " +
			"and nothing else.\nIt works in place; the originals move into the folder lost in " +
			"DIR. A database without damage stays\nas it is.\n\n--dry-run writes nothing in DIR " +
			"and says what would be kept and what is lost. It writes the new\ntables into the " +
			"folder for temporary files (TMPDIR), which needs room for them.\n\nExit code 1: " +
			"something is lost or, with --dry-run, there is something to repair.",
		Example: "  loam repair --dry-run trees\n  loam repair --dry-run --json trees\n" +
			"  cp -r trees copy && loam repair copy\n" +
			"  loam repair --comparer idb_cmp1 chrome.indexeddb.leveldb",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if dry {
				return a.dryRepair(cmd, args[0])
			}
			return a.repair(args[0], lsm.OSFS(), false)
		},
	}
	c.Flags().BoolVar(&dry, "dry-run", false, "say what would be kept and lost, and write nothing")
	return c
}

func (a *app) dryRepair(cmd *cobra.Command, dir string) error {
	ctx, stop := interruptible(cmd)
	defer stop()
	temp, err := os.MkdirTemp("", "loam-repair-")
	if err != nil {
		return err
	}
	err = a.repair(dir, overlay.New(ctx, lsm.OSFS(), temp), true)
	return errors.Join(err, os.RemoveAll(temp))
}

func (a *app) repair(dir string, fsys lsm.FS, dry bool) error {
	o, err := a.options(dir)
	var wrong *usageError
	if errors.As(err, &wrong) {
		return err
	}
	forced, err := a.forcedComparer()
	if err != nil {
		return err
	}
	if o.Comparer == nil {
		o.Comparer = forced
	}
	if forced != nil {
		a.nameOrders(o, forced, dir)
	}
	before, _ := examine.Open(a.files(dir), dir)
	lostSeqs := sequences(a.files(dir), dir, before.Format)
	o.FS = fsys
	report, err := lsm.Repair(dir, o)
	if err != nil {
		return err
	}
	x := &repaired{Directory: dir, DryRun: dry, Changed: report.Changed(),
		Manifest: report.Manifest, Tables: report.Tables, Logs: report.Logs,
		Entries: report.Entries, SetAside: report.SetAside, Rewritten: []rewrite{},
		Kept: []kept{}, Lost: []lostPart{}}
	for _, r := range report.Rewritten {
		x.Rewritten = append(x.Rewritten, rewrite(r))
	}
	for _, d := range report.Dropped {
		x.Lost = append(x.Lost, lostOf(d, lostSeqs))
	}
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	after, err := examine.Open(a.sealed(fsys, absolute), absolute)
	if err != nil {
		return err
	}
	for _, s := range after.State.Keyspaces() {
		x.Kept = append(x.Kept, keptOf(s, uint64(after.State.LastSeq)))
	}
	return a.printRepaired(x)
}

// nameOrders gives the order that the flag --comparer names, under the names of comparers that
// tables record and that are not built in, to a repair. It refuses other names than the database's,
// which a MANIFEST that is gone does not tell.
func (a *app) nameOrders(o *lsm.Options, forced *lsm.Comparer, dir string) {
	fsys := a.files(dir)
	names, _ := fsys.List(dir) // the repair reports errors
	for _, name := range names {
		if t, _, _ := examine.Kind(name); t != base.FileTable {
			continue
		}
		t, err := examine.OpenTable(fsys, filepath.Join(dir, name), (*base.Comparer)(forced))
		if t == nil {
			continue
		}
		known, _ := base.ComparerNamed(t.Comparer.Name)
		switch {
		case err != nil || known != nil:
		case t.Props.Keyspace != base.DefaultKeyspace || t.Props.Outside:
			o.Comparers = append(o.Comparers, (*lsm.Comparer)(t.Comparer))
		case o.Comparer.Name == forced.Name: // no MANIFEST has named it
			o.Comparer = (*lsm.Comparer)(t.Comparer)
		}
		_ = t.Close() // it was read
	}
}

func keptOf(s *manifest.KeyspaceState, last uint64) kept {
	k := kept{Keyspace: facts.NameOf(s), Tables: len(s.Files), LastSequence: last}
	cmp, _ := base.ComparerNamed(s.Comparer)
	var smallest, largest []byte
	for _, f := range s.Files {
		m := f.Meta
		k.Bytes += m.Size
		if cmp == nil {
			continue
		}
		if smallest == nil || cmp.Cmp(m.Smallest.User, smallest) < 0 {
			smallest = append([]byte{}, m.Smallest.User...)
		}
		if largest == nil || cmp.Cmp(m.Largest.User, largest) > 0 {
			largest = append([]byte{}, m.Largest.User...)
		}
	}
	if smallest != nil {
		k.Smallest, k.Largest = textOf(smallest), textOf(largest)
	}
	return k
}

// textOf is a key as text, nil for nil.
func textOf(key []byte) *string {
	if key == nil {
		return nil
	}
	s := encode.Escape(key)
	return &s
}

// gapKey is a damaged part of a log.
type gapKey struct {
	file   string
	offset int64
}

// seqGap is between which sequence numbers it lies; 0: not known.
type seqGap struct{ after, before uint64 }

// sequences reads the logs of a directory for the sequence numbers around damaged parts.
func sequences(fsys lsm.FS, dir string, format base.Format) map[gapKey]seqGap {
	gaps := map[gapKey]seqGap{}
	names, err := fsys.List(dir)
	if err != nil {
		return gaps
	}
	for _, name := range names {
		t, num := format.ParseFileName(name)
		if t != base.FileLog {
			continue
		}
		last := uint64(0)
		var open []gapKey
		// The repair reports read errors.
		_ = examine.ReadLog(fsys, filepath.Join(dir, name), format, num,
			func(b examine.Batch) error {
				if b.Damage != nil {
					k := gapKey{name, b.Offset}
					gaps[k] = seqGap{after: last}
					open = append(open, k)
					return nil
				}
				for _, k := range open {
					gaps[k] = seqGap{gaps[k].after, uint64(b.Seq)}
				}
				open = open[:0]
				last = uint64(b.Seq) + uint64(max(b.Count, 1)) - 1
				return nil
			})
	}
	return gaps
}

func lostOf(d lsm.RepairDrop, gaps map[gapKey]seqGap) lostPart {
	l := lostPart{Part: damage.Part{File: d.File, Offset: d.Offset, Length: d.Length, Kind: "file",
		Reason: d.Reason, Smallest: d.Smallest, Largest: d.Largest},
		Smallest: textOf(d.Smallest), Largest: textOf(d.Largest)}
	if g, ok := gaps[gapKey{d.File, d.Offset}]; ok {
		if g.after > 0 {
			l.AfterSequence = &g.after
		}
		if g.before > 0 {
			l.BeforeSequence = &g.before
		}
	}
	return l
}

func (a *app) printRepaired(x *repaired) error {
	var result error
	if len(x.Lost) > 0 || x.DryRun && x.Changed {
		result = &problem{}
	}
	if a.json {
		if err := a.printJSON(x); err != nil {
			return err
		}
		return result
	}
	if !x.Changed {
		return a.printf("nothing to repair\n")
	}
	aside := "set aside"
	if x.DryRun {
		aside = "to be set aside"
	}
	for _, l := range x.Lost {
		line := "lost: " + l.Text(encode.Text)
		if l.AfterSequence != nil {
			line += fmt.Sprintf(", sequence numbers after %d", *l.AfterSequence)
		}
		if l.BeforeSequence != nil {
			line += fmt.Sprintf(", before %d", *l.BeforeSequence)
		}
		if err := a.printf("%s\n", line); err != nil {
			return err
		}
	}
	for _, r := range x.Rewritten {
		if err := a.printf("rewritten: %s: %s\n", r.File,
			text.Printable(r.Reason)); err != nil {
			return err
		}
	}
	for _, k := range x.Kept {
		line := fmt.Sprintf("kept: keyspace %s, %s, %s, sequence numbers to %d",
			text.Printable(k.Keyspace), text.Plural(k.Tables, "table"), text.Bytes(k.Bytes),
			k.LastSequence)
		if k.Smallest != nil {
			line += fmt.Sprintf(", keys %s .. %s", *k.Smallest, *k.Largest)
		}
		if err := a.printf("%s\n", line); err != nil {
			return err
		}
	}
	if err := a.printf("%s %s in %s\n", text.Plural(len(x.SetAside), "file"), aside,
		filepath.Join(x.Directory, "lost")); err != nil {
		return err
	}
	if x.DryRun {
		if err := a.printf("nothing was written; \"loam repair %s\" does it\n",
			x.Directory); err != nil {
			return err
		}
	}
	return result
}
