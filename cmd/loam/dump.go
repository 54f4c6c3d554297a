package main

import (
	"bufio"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/loamdb/loam/cmd/loam/internal/load"
	"github.com/loamdb/loam/cmd/loam/internal/text"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/dump"
)

// toFile calls do with a file that gets its name when do has succeeded, or with standard output for
// "" and "-". Nothing is left of a file that failed.
func (a *app) toFile(name string, binary bool, do func(w io.Writer) error) error {
	if name == "" || name == "-" {
		if binary && a.screen.out {
			return usagef("a dump is no text for a terminal; name a file with --output, or a pipe")
		}
		return do(a.out)
	}
	if _, err := os.Lstat(name); err == nil {
		return fmt.Errorf("%w: %s", lsm.ErrExists, name)
	}
	temp := name + ".incomplete"
	// What a crash left of an earlier file goes. One that another process is writing goes, too, and
	// no two processes write to one file.
	if info, err := os.Lstat(temp); err == nil && info.Mode().IsRegular() {
		if err := os.Remove(temp); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	err = do(w)
	if err == nil {
		err = errors.Join(w.Flush(), f.Sync())
	}
	made, serr := f.Stat()
	if err = errors.Join(err, serr, f.Close()); err == nil {
		err = rename(temp, name, made)
	}
	if err != nil && serr == nil && isFile(temp, made) {
		err = errors.Join(err, os.Remove(temp))
	}
	return err
}

// fileOf is toFile of what a database has. The file may not lie in its directory.
func (a *app) fileOf(db *database, name string, binary bool, do func(w io.Writer) error) error {
	if name != "" && name != "-" {
		if err := dump.CheckPath(db.DB, name); err != nil {
			return err
		}
	}
	return a.toFile(name, binary, do)
}

// rename gives a file that was made its name, durably.
func rename(temp, name string, made os.FileInfo) error {
	changed := fmt.Errorf("%w: another program removed or replaced %s while it was written",
		lsm.ErrDirectoryChanged, name)
	if !isFile(temp, made) {
		return changed
	}
	// A link fails where another program has made a file of the name meanwhile; a rename, which is
	// for file systems without links, would replace that.
	err := os.Link(temp, name)
	switch {
	case err == nil:
		err = os.Remove(temp)
	case errors.Is(err, fs.ErrExist):
		err = fmt.Errorf("%w: another program made %s meanwhile", lsm.ErrExists, name)
	default:
		err = os.Rename(temp, name)
	}
	if err != nil {
		return err
	}
	// A directory that may be entered but not read cannot be synced.
	err = vfs.Default.SyncDir(filepath.Dir(name))
	if err != nil && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	if !isFile(name, made) {
		return changed
	}
	return nil
}

// isFile reports whether a name leads to a file that was made, and that nobody cut.
func isFile(name string, made os.FileInfo) bool {
	now, err := os.Lstat(name)
	return err == nil && os.SameFile(now, made) && now.Size() == made.Size()
}

func (a *app) dumpVerb() *cobra.Command {
	var to, compression string
	var clear bool
	c := &cobra.Command{
		Use:   "dump DIR",
		Short: "Write all keyspaces as a portable stream",
		Long: "Write one state of all keyspaces as a stream that \"loam load\" reads, on any " +
			"machine and by later\nversions. It has checksums and an end, so a dump that was cut " +
			"is no dump. See docs/dump.md.",
		Example: "  loam dump trees --output trees.dump\n" +
			"  loam dump trees | ssh host loam load trees -\n" +
			"  loam dump --compression zstd trees -o trees.dump",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			packing, ok := map[string]lsm.Compression{"none": lsm.NoCompression,
				"snappy": lsm.SnappyCompression, "zstd": lsm.ZstdCompression}[compression]
			if !ok {
				return usagef("%q is no compression; want none, snappy or zstd", compression)
			}
			o := dump.Options{AllowClear: clear, Compression: packing}
			ctx, stop := interruptible(cmd)
			defer stop()
			db, err := a.openRead(args[0])
			if err != nil {
				return err
			}
			p := a.progress("dumping", 0)
			o.Progress = func(x dump.Progress) { p.at(x.Bytes) }
			err = a.fileOf(db, to, true, func(w io.Writer) error {
				_, err := dump.Write(ctx, db.DB, w, &o)
				return err
			})
			p.end()
			return errors.Join(err, db.Close())
		},
	}
	c.Flags().StringVarP(&to, "output", "o", "", "file to write; default: standard output")
	c.Flags().StringVar(&compression, "compression", "snappy", "none, snappy or zstd")
	c.Flags().BoolVar(&clear, "clear", false, "of an encrypted database, do not encrypt the dump")
	return c
}

func (a *app) exportVerb() *cobra.Command {
	var f scanFlags
	var to string
	var asCSV bool
	c := &cobra.Command{
		Use:   "export DIR",
		Short: "Write a keyspace as JSON lines or CSV",
		Long: "Write the keys and values of a keyspace as JSON lines or, with --csv, as CSV with " +
			"a header. \"loam\nload\" reads them back: what is no text is base64, and in CSV " +
			"text with escapes. Times to live are\nleft out, which \"loam dump\" keeps, and " +
			"with --as json the white space of JSON.",
		Example: "  loam export trees -o trees.jsonl\n  loam export --csv --prefix user: app\n" +
			"  loam export --value-as json app | jq .value_json.name",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.Parse(); err != nil {
				return err
			}
			ctx, stop := interruptible(cmd)
			defer stop()
			return a.inKeyspace(args[0], func(db *database, k *lsm.Keyspace) error {
				return a.fileOf(db, to, false, func(w io.Writer) error {
					return a.export(ctx, w, k, &f, asCSV)
				})
			})
		},
	}
	f.Flags.Register(c.Flags())
	f.bounds.flags(c)
	a.keyspaceFlag(c)
	a.snapshotFlag(c)
	c.Flags().BoolVar(&asCSV, "csv", false, "CSV; the default is JSON lines")
	c.Flags().StringVarP(&to, "output", "o", "", "file to write; default: standard output")
	return c
}

func (a *app) export(ctx context.Context, w io.Writer, k *lsm.Keyspace, f *scanFlags,
	asCSV bool) error {
	o, err := f.iter(f.Key)
	if err != nil {
		return err
	}
	to := csv.NewWriter(w)
	if asCSV {
		if err := to.Write([]string{f.Key.Column("key"), f.Value.Column("value")}); err != nil {
			return err
		}
	}
	it := k.Iter(&o)
	defer it.Close()
	var line []byte
	for ok := it.First(); ok && ctx.Err() == nil; ok = it.Next() {
		if asCSV {
			err = to.Write([]string{f.Key.Format(it.Key()), f.Value.Format(it.Value())})
		} else {
			line = f.Key.AppendField(append(line[:0], '{'), "key", it.Key())
			line = f.Value.AppendField(append(line, ','), "value", it.Value())
			_, err = w.Write(append(line, '}', '\n'))
		}
		if err != nil {
			return err
		}
	}
	to.Flush()
	return errors.Join(ctx.Err(), it.Err(), to.Error())
}

func (a *app) loadVerb() *cobra.Command {
	var overwrite, leveldb bool
	var as string
	c := &cobra.Command{
		Use:   "load DIR [FILE]",
		Short: "Read a dump, JSON lines or CSV into a database",
		Long: "Read a dump, JSON lines or CSV from FILE, or from standard input, into a " +
			"database, which is made\nif there is none. A dump is told by its beginning, the " +
			"others by --as, or by the name of the file:\n.jsonl, .json or .csv. CSV has a " +
			"header: key or key_hex or key_base64, value or value_hex, ...\n\nA load of a dump " +
			"that was interrupted goes on when it is started again.",
		Example: "  loam load trees trees.dump\n  loam load trees trees.jsonl\n" +
			"  loam load --as csv trees < trees.csv\n  loam load --leveldb copy trees.dump",
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			from, name := a.in, ""
			if len(args) == 2 && args[1] != "-" {
				name = args[1]
				f, err := os.Open(name)
				if err != nil {
					return err
				}
				defer f.Close()
				from = f
			}
			kind, err := loadKind(as, name)
			if err != nil {
				return err
			}
			if kind == "dump" && cmd.Flags().Changed("keyspace") {
				return usagef("a dump has all its keyspaces: --keyspace is for JSON lines and CSV")
			}
			ctx, stop := interruptible(cmd)
			defer stop()
			db, err := a.openOrCreate(args[0], true, leveldb)
			if err != nil {
				return err
			}
			n, err := a.load(ctx, db, from, kind, overwrite)
			if err = errors.Join(err, db.Close()); err != nil {
				return err
			}
			if a.json {
				return a.printJSON(map[string]uint64{"loaded": n})
			}
			return a.printf("%s loaded\n", text.Plural(n, "key"))
		},
	}
	a.keyspaceFlag(c)
	c.Flags().StringVar(&as, "as", "", "what is read: dump, jsonl or csv")
	c.Flags().BoolVar(&overwrite, "overwrite", false, "load a dump over entries that are there")
	c.Flags().BoolVar(&leveldb, "leveldb", false, "make a new database in LevelDB's format")
	return c
}

// loadKind is what a file has: "dump", "jsonl" or "csv".
func loadKind(as, name string) (string, error) {
	switch as {
	case "dump", "jsonl", "csv":
		return as, nil
	case "":
	default:
		return "", usagef("%q is nothing to load; want dump, jsonl or csv", as)
	}
	switch {
	case strings.HasSuffix(name, ".csv"):
		return "csv", nil
	case strings.HasSuffix(name, ".jsonl"), strings.HasSuffix(name, ".json"):
		return "jsonl", nil
	}
	return "dump", nil
}

func (a *app) load(ctx context.Context, db *lsm.DB, from io.Reader, kind string,
	overwrite bool) (uint64, error) {
	p := a.progress("loading", 0)
	defer p.end()
	if kind == "dump" {
		return load.Dump(ctx, db, from, overwrite, p.at)
	}
	k, err := a.spaceOf(db, true)
	if err != nil {
		return 0, err
	}
	read := load.Lines
	if kind == "csv" {
		read = load.CSV
	}
	return read(ctx, k, from, p.at)
}
