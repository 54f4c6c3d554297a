// Repairs measures what repairs lose: Loam's, LevelDB's, goleveldb's and RocksDB's, on directories
// that are damaged in the same way.
//
//	repairs PAGE
//
// prints a table and writes it into PAGE, between the lines that begin with "<!-- table". LEVELDB
// and ROCKSDB name other libraries than libleveldb.so and librocksdb.so; an engine whose library is
// missing is left out. Pebble has no repair.
package main

import (
	"fmt"
	"os"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "repairs: want the page that the table is written into")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "repairs:", err)
		os.Exit(1)
	}
}

func run(page string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	head, rest, found := strings.Cut(string(text), begins)
	_, tail, closed := strings.Cut(rest, ends)
	if !found || !closed {
		return fmt.Errorf("%s has no place for the table", page)
	}
	temp, err := os.MkdirTemp("", "repairs-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	rows, err := compare(temp)
	if err != nil {
		return err
	}
	table := markdown(rows)
	fmt.Print(table)
	return os.WriteFile(page, []byte(head+begins+"\n"+table+"\n"+ends+tail), 0o644)
}

const (
	begins = "<!-- table: make bench-repairs -->\n"
	ends   = "<!-- table ends -->"
)

// row is what became of one kind of damage, by engine.
type row struct {
	damage  string
	results map[string]result
}

// compare damages a copy of each directory in every way, and has every engine repair it.
func compare(temp string) ([]row, error) {
	all, err := makers(temp)
	if err != nil {
		return nil, err
	}
	var rows []row
	for _, d := range damages {
		r := row{d.name, map[string]result{}}
		for _, m := range all {
			for _, e := range m.engines {
				dir, err := os.MkdirTemp(temp, "copy-")
				if err != nil {
					return nil, err
				}
				if err := os.CopyFS(dir, os.DirFS(m.dir)); err != nil {
					return nil, err
				}
				if err := d.do(dir); err != nil {
					return nil, fmt.Errorf("%s, %s: %w", m.dir, d.name, err)
				}
				r.results[e.name] = outcome(e, dir)
				if err := os.RemoveAll(dir); err != nil {
					return nil, err
				}
			}
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// outcome repairs dir and compares its entries with those before the damage.
func outcome(e engine, dir string) result {
	if err := e.repair(dir); err != nil {
		return result{failed: "repair " + err.Error()}
	}
	got, err := e.dump(dir)
	if err != nil {
		return result{failed: "read " + err.Error()}
	}
	return judge(got)
}

// markdown renders the table, engines as columns.
func markdown(rows []row) string {
	var names []string
	for _, name := range columns {
		if _, ok := rows[0].results[name]; ok {
			names = append(names, name)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| damage | %s |\n|---|%s\n", strings.Join(names, " | "),
		strings.Repeat("---|", len(names)))
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s |", r.damage)
		for _, name := range names {
			fmt.Fprintf(&b, " %s |", r.results[name])
		}
		b.WriteByte('\n')
	}
	return b.String()
}
