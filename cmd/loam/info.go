package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/loamdb/loam/cmd/loam/internal/encode"
	"github.com/loamdb/loam/cmd/loam/internal/facts"
	"github.com/loamdb/loam/cmd/loam/internal/text"
	"github.com/loamdb/loam/internal/feature/examine"
)

func (a *app) infoVerb() *cobra.Command {
	return &cobra.Command{
		Use:   "info DIR",
		Short: "Say what a database is and how large",
		Long: "Say what a database is and how large, from the MANIFEST and the logs: no table " +
			"is opened, so it\ntakes the same time whatever the size. Entries are known of " +
			"native tables, and of the first 128 MiB\nof logs.",
		Example: "  loam info trees\n  loam info --json trees\n" +
			"  loam info ~/.config/app/'Local Storage'/leveldb",
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			x, err := facts.InfoOf(a.files(args[0]), args[0])
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(x)
			}
			return a.printInfo(x)
		},
	}
}

func (a *app) printInfo(x *facts.Info) error {
	var p text.Pairs
	p.Add("directory", "%s", x.Directory)
	p.Add("format", "%s", x.Format)
	p.Add("manifest", "%s, %s, %s", x.Manifest, text.Bytes(uint64(x.ManifestBytes)),
		text.Plural(x.Edits, "edit"))
	if x.TornEnd != "" {
		p.Add("torn end", "%s", x.TornEnd)
	}
	p.Add("last sequence", "%d", x.LastSequence)
	p.Add("logs", "%s", x.LogsText())
	p.Add("tables", "%s, %s", text.Count(x.Tables), text.Bytes(x.TableBytes))
	if err := a.printPairs(p); err != nil {
		return err
	}
	g := &text.Grid{}
	g.Column("keyspace", false)
	g.Column("tables", true)
	g.Column("size", true)
	g.Column("entries", true)
	g.Column("tombstones", true)
	g.Column("comparer", false)
	for _, s := range x.Keyspaces {
		entries, tombstones := "?", "?"
		if s.Counted {
			entries, tombstones = text.Count(s.Entries), text.Count(s.Tombstones+s.RangeDeletes)
		}
		g.Row(encode.Escape([]byte(s.Name)), text.Count(s.Tables), text.Bytes(s.Bytes), entries,
			tombstones, encode.Escape([]byte(s.Comparer)))
	}
	if err := a.printf("\n"); err != nil {
		return err
	}
	return a.printGrid(g)
}

func (a *app) levelsVerb() *cobra.Command {
	return &cobra.Command{
		Use:   "levels DIR",
		Short: "Draw the levels of tables",
		Long: "Draw the levels of each keyspace: tables and bytes, from the MANIFEST alone. The " +
			"bars are to scale\nwithin a keyspace.",
		Example: "  loam levels trees\n  loam levels --json trees",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			x, err := facts.InfoOf(a.files(args[0]), args[0])
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(x.Keyspaces)
			}
			between := ""
			for _, s := range x.Keyspaces {
				if err := a.printLevels(&s, between); err != nil {
					return err
				}
				between = "\n"
			}
			return nil
		},
	}
}

func (a *app) printLevels(s *facts.Keyspace, between string) error {
	most := uint64(1)
	for _, l := range s.Levels {
		most = max(most, l.Bytes)
	}
	if err := a.printf("%s%s: %s, %s\n", between, encode.Escape([]byte(s.Name)),
		text.Plural(s.Tables, "table"), text.Bytes(s.Bytes)); err != nil {
		return err
	}
	const before, widest = 26, 50 // columns before the bar, and of the longest one
	room := min(a.screen.width-before-1, widest)
	for _, l := range s.Levels {
		bar := ""
		if l.Bytes > 0 && room > 0 {
			bar = strings.Repeat("█", max(int(float64(l.Bytes)/float64(most)*float64(room)), 1))
		}
		if room <= 0 {
			if err := a.printf("L%d %s\n", l.Level, text.Bytes(l.Bytes)); err != nil {
				return err
			}
			continue
		}
		line := fmt.Sprintf("L%d %9s %10s  %s", l.Level, text.Count(l.Tables), text.Bytes(l.Bytes),
			bar)
		if err := a.printf("%s\n", strings.TrimRight(line, " ")); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) tablesVerb() *cobra.Command {
	var e encode.Flags
	c := &cobra.Command{
		Use:     "tables DIR",
		Short:   "List the tables with their key ranges",
		Long:    "List the tables of the MANIFEST: level, size and first and last key.",
		Example: "  loam tables trees\n  loam tables --json trees | jq .file",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := e.Parse(); err != nil {
				return err
			}
			d, err := examine.Open(a.files(args[0]), args[0])
			if err != nil {
				return err
			}
			return a.printTables(facts.Tables(d), e.Key)
		},
	}
	e.Register(c.Flags())
	return c
}

func (a *app) printTables(tables []facts.Table, as encode.Encoding) error {
	g := &text.Grid{}
	g.Column("level", true)
	g.Column("file", false)
	g.Column("size", true)
	g.Column("entries", true)
	g.Column("keyspace", false)
	g.Column("keys", false)
	for _, t := range tables {
		if a.json {
			if err := a.printWithKeys(t, as, "smallest", t.First, as, "largest",
				t.Last); err != nil {
				return err
			}
			continue
		}
		file, entries := t.File, "?"
		if t.Missing {
			file += " (missing)"
		}
		if t.Entries > 0 || t.RangeDeletes > 0 {
			entries = text.Count(t.Entries)
		}
		g.Row(fmt.Sprint(t.Level), file, text.Bytes(t.Bytes), entries,
			encode.Escape([]byte(t.Keyspace)),
			as.Format(t.First)+" .. "+as.Format(t.Last))
	}
	if a.json {
		return nil
	}
	return a.printGrid(g)
}

func (a *app) propsVerb() *cobra.Command {
	return &cobra.Command{
		Use:   "props DIR",
		Short: "Add up what the tables say of themselves",
		Long: "Open every table and add up its properties: entries, tombstones, bytes before and " +
			"after compression.\nTables that LevelDB wrote have no properties; they count as " +
			"silent.",
		Example: "  loam props trees\n  loam props --json trees",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := a.examined(args[0])
			if err != nil {
				return err
			}
			return a.props(cmd, d)
		},
	}
}

func (a *app) props(cmd *cobra.Command, d *examine.Directory) error {
	ctx, stop := interruptible(cmd)
	defer stop()
	sums := map[string]*facts.Props{}
	var order []string
	tables := facts.Tables(d)
	p := a.progress("reading properties", 0)
	defer p.end()
	done, all := uint64(0), uint64(0)
	for _, t := range tables {
		all += t.Bytes
	}
	for _, t := range tables {
		if err := ctx.Err(); err != nil {
			return err
		}
		sum := sums[t.Keyspace]
		if sum == nil {
			sum = &facts.Props{Keyspace: t.Keyspace}
			sums[t.Keyspace], order = sum, append(order, t.Keyspace)
		}
		if err := sum.Add(d, t.File); err != nil {
			return err
		}
		done += t.Bytes
		p.both(done, all)
	}
	p.end()
	for i, name := range order {
		sum := sums[name]
		if packed := sum.Bytes; packed > 0 && sum.Silent == 0 {
			sum.Ratio = float64(sum.KeyBytes+sum.ValueBytes) / float64(packed)
		}
		if a.json {
			if err := a.printJSON(sum); err != nil {
				return err
			}
			continue
		}
		if i > 0 {
			if err := a.printf("\n"); err != nil {
				return err
			}
		}
		if err := a.printPairs(sum.Pairs()); err != nil {
			return err
		}
	}
	return nil
}
