package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/loamdb/loam/cmd/loam/internal/damage"
	"github.com/loamdb/loam/cmd/loam/internal/encode"
	"github.com/loamdb/loam/cmd/loam/internal/facts"
	"github.com/loamdb/loam/cmd/loam/internal/text"
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/feature/examine"
)

// checked is what the verb check found.
type checked struct {
	Verdict    string        `json:"verdict"` // "sound" or "damaged"
	Directory  string        `json:"directory"`
	Format     string        `json:"format"`
	Tables     int           `json:"tables"`
	TableBytes uint64        `json:"table_bytes"`
	Logs       int           `json:"logs"`
	LogEntries uint64        `json:"log_entries"`
	TornBytes  int64         `json:"torn_bytes"`
	Damage     []damage.Part `json:"damage"`

	known map[string]bool // texts of Damage, and its files
}

func (a *app) checkVerb() *cobra.Command {
	return &cobra.Command{
		Use:   "check DIR",
		Short: "Read everything and compare checksums",
		Long: "Read the MANIFEST, the logs and every table whole, and check checksums, the " +
			"structure of blocks,\nthe order of keys, the levels and what files refer to. " +
			"Nothing is written. Exit code 0: sound,\n1: damaged, 3: it could not be read.",
		Example: "  loam check trees\n  loam check --json trees | jq .verdict\n" +
			"  loam check trees || loam repair --dry-run trees",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := interruptible(cmd)
			defer stop()
			x := &checked{Directory: args[0], Damage: []damage.Part{}, known: map[string]bool{}}
			err := a.check(ctx, x)
			if err == nil || len(x.Damage) > 0 {
				// After a failure there may be more damage.
				err = cmp.Or(err, a.printChecked(x))
			}
			return err
		},
	}
}

// check fills in x. Damage is no error.
func (a *app) check(ctx context.Context, x *checked) error {
	d, err := a.examined(x.Directory)
	if d == nil {
		return err
	}
	x.Format = d.Format.String()
	if err != nil {
		return x.add(err)
	}
	tables := facts.Tables(d)
	x.Tables = len(tables)
	for _, t := range tables {
		x.TableBytes += t.Bytes
	}
	p := a.progress("checking", x.TableBytes)
	defer p.end()
	db, err := a.openQuietly(x.Directory)
	if err != nil {
		if err := x.add(err); err != nil {
			return err
		}
		return x.checkEach(ctx, d, tables, p)
	}
	r := db.RecoveryReport()
	x.Logs, x.LogEntries, x.TornBytes = r.Logs, r.Entries, r.TornBytes
	for _, d := range damage.LeftOut(&r) {
		x.note(d)
	}
	err = db.Verify(ctx, p.both)
	each := []error{err}
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) { // some may not be damage
		each = joined.Unwrap()
	}
	var failed []error
	for _, err := range each {
		failed = append(failed, x.add(err))
	}
	return errors.Join(append(failed, db.Close())...)
}

// checkEach checks the tables one by one where the database does not open.
func (x *checked) checkEach(ctx context.Context, d *examine.Directory, tables []facts.Table,
	p *progress) error {
	done := uint64(0)
	var missing []uint64
	for _, t := range tables {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := checkTable(d, t.File)
		if errors.Is(err, fs.ErrNotExist) {
			if !x.known[t.File] {
				missing = append(missing, t.Number)
			}
		} else if err := x.add(err); err != nil {
			return err
		}
		done += t.Bytes
		p.at(done)
	}
	if missing == nil {
		return nil
	}
	// A process that has the database open may have deleted them.
	now, err := examine.Open(d.FS(), d.Path)
	for _, num := range missing {
		if err := x.add(errors.Join(err, now.CheckTable(num))); err != nil {
			return err
		}
	}
	return nil
}

func checkTable(d *examine.Directory, file string) error {
	t, err := d.OpenTable(file)
	if t != nil {
		defer t.Close()
	}
	if err != nil {
		return err
	}
	if err := t.Scan(func(int, *base.Chunk) error { return nil }); err != nil {
		return err
	}
	return t.VerifyMeta()
}

// add notes the damage in err once, and returns err if it is something else.
func (x *checked) add(err error) error {
	found := damage.Of(err)
	if err != nil && found == nil {
		return err
	}
	for _, d := range found {
		x.note(d)
	}
	return nil
}

// note adds damage, once.
func (x *checked) note(d damage.Part) {
	if text := d.Text(encode.Text); !x.known[text] {
		x.Damage = append(x.Damage, d)
		x.known[text], x.known[d.File] = true, true
	}
}

func (a *app) printChecked(x *checked) error {
	x.Verdict = "sound"
	if len(x.Damage) > 0 {
		x.Verdict = "damaged"
	}
	if a.json {
		if err := a.printJSON(x); err != nil {
			return err
		}
		if len(x.Damage) > 0 {
			return &problem{}
		}
		return nil
	}
	if len(x.Damage) > 0 {
		for _, d := range x.Damage {
			if err := a.printf("%s\n", d.Text(encode.Text)); err != nil {
				return err
			}
		}
		return &problem{fmt.Sprintf("%s is damaged in %s\nNext: loam repair --dry-run %s",
			x.Directory, text.Plural(len(x.Damage), "place"), x.Directory)}
	}
	torn := ""
	if x.TornBytes > 0 {
		torn = fmt.Sprintf(", torn end of %d bytes", x.TornBytes)
	}
	return a.printf("sound: %s, %s; %s, %s%s\n", text.Plural(x.Tables, "table"),
		text.Bytes(x.TableBytes), text.Plural(x.Logs, "log"), text.Plural(x.LogEntries,
			"operation"), torn)
}
