package kvbench

import (
	"fmt"
	"io"
	"strings"

	"github.com/loamdb/loam/internal/kvbench/experiment"
	"github.com/loamdb/loam/internal/workload"
	"github.com/loamdb/loam/internal/workload/store"
)

func printHelp(w io.Writer, d store.Driver, all []store.Driver) {
	fmt.Fprint(w, "kvbench measures a key-value engine with LevelDB's benchmarks.\n\n",
		"  kvbench                        LevelDB's eighteen steps\n",
		"  kvbench --benchmarks=LIST      the benchmarks named, in that order\n",
		"  kvbench EXPERIMENT[=N]...      a published experiment, its figures beside ours\n",
		"  kvbench compare A.json B.json  how many times faster the second report is\n",
		"  kvbench check A.json HISTORY   ratios to peers against those of earlier runs\n",
		"  kvbench --list                 all benchmarks and experiments\n\n",
		"Flags are written --name=value, --name value or -name value.\n\n")
	for _, f := range flags {
		printFlag(w, f.name, f.arg, f.doc, f.def)
	}
	fmt.Fprint(w, "\nExperiments: ", strings.Join(experiment.Names(), ", "), "\n")
	fmt.Fprint(w, "Engines: ", engineNames(all), "\n")
	fmt.Fprintf(w, "\nOptions of %s:\n\n", d.Title())
	for _, o := range d.Options() {
		if findFlag(o.Name) != nil {
			continue
		}
		printFlag(w, o.Name, "V", o.Doc, o.Default)
	}
	fmt.Fprint(w, "\nExit codes: 0 done, 1 the engine or the system failed, 2 the command "+
		"line is\n",
		"wrong, 3 reads found other than what had been written, 130 interrupted.\n")
}

func engineNames(all []store.Driver) string {
	names := make([]string, len(all))
	for i, d := range all {
		names[i] = d.Name()
	}
	return strings.Join(names, ", ")
}

func printFlag(w io.Writer, name, arg, doc, def string) {
	left := "--" + name
	if arg != "" {
		left += "=" + arg
	}
	if def != "" {
		doc += " (" + def + ")"
	}
	fmt.Fprintf(w, "  %-29s %s\n", left, doc)
}

func printList(w io.Writer) {
	fmt.Fprint(w, "Benchmarks:\n\n")
	for _, s := range workload.Specs {
		fmt.Fprintf(w, "  %-21s %s\n", s.Name, s.Doc)
	}
	fmt.Fprint(w, "\nExperiments:\n\n")
	for _, e := range experiment.List {
		fmt.Fprintf(w, "  %-21s %s\n", e.Name, e.Doc)
	}
}
