// Package man makes the manual page of loam out of the texts of its help.
package man

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Page is the manual page in roff.
func Page(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString(".TH LOAM 1\n.SH NAME\nloam \\- look at databases, take care of them, and move " +
		"their data\n.SH SYNOPSIS\n.B loam\n.I verb\n.RI [ flags ]\n.I arguments\n" +
		".SH DESCRIPTION\n")
	b.WriteString(roff(root.Long) + "\n")
	for _, g := range root.Groups() {
		fmt.Fprintf(&b, ".SH %s\n", strings.ToUpper(strings.TrimSuffix(g.Title, ":")))
		for _, c := range root.Commands() {
			if c.GroupID != g.ID {
				continue
			}
			fmt.Fprintf(&b, ".SS loam %s\n%s\n", roff(c.Use), roff(c.Long))
			c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
				b.WriteString(manFlag(f))
			})
			if c.Example != "" {
				fmt.Fprintf(&b, ".PP\nExamples:\n.PP\n.nf\n%s\n.fi\n", roff(c.Example))
			}
		}
	}
	b.WriteString(".SH FLAGS OF ALL VERBS\n")
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) { b.WriteString(manFlag(f)) })
	b.WriteString(".SH EXIT STATUS\n0 fine, 1 problems found, 2 usage, 3 could not read or " +
		"write, " +
		"130 interrupted.\n")
	return b.String()
}

func manFlag(f *pflag.Flag) string {
	name := "\\-\\-" + roff(f.Name)
	if f.Shorthand != "" {
		name = "\\-" + f.Shorthand + ", " + name
	}
	kind, usage := pflag.UnquoteUsage(f)
	if kind != "" {
		name += " " + kind
	}
	return fmt.Sprintf(".TP\n.B %s\n%s\n", name, roff(usage))
}

// roff escapes text.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s)
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			lines[i] = `\&` + l
		}
		if l == "" {
			lines[i] = ".PP"
		}
	}
	return strings.Join(lines, "\n")
}
