// Package shell has what a prompt needs besides a terminal: lines are cut into words, and kept.
package shell

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Split cuts a line into words; '...' and "..." keep blanks, and a backslash in front of a blank or
// a quote.
func Split(line string) (words []string, err error) {
	var w strings.Builder
	quote, in := byte(0), false
	escaped := false
	for _, c := range []byte(line) { // keys may be no UTF-8
		switch {
		case escaped:
			if strings.IndexByte(` "'`, c) < 0 {
				w.WriteByte('\\')
			}
			w.WriteByte(c)
			escaped = false
		case c == '\\' && quote != '\'':
			escaped, in = true, true
		case quote != 0:
			if c == quote {
				quote = 0
			} else {
				w.WriteByte(c)
			}
		case c == '"' || c == '\'':
			quote, in = c, true
		case c == ' ' || c == '\t':
			if in {
				words = append(words, w.String())
				w.Reset()
			}
			in = false
		default:
			in = true
			w.WriteByte(c)
		}
	}
	if escaped {
		w.WriteByte('\\')
	}
	if quote != 0 {
		return nil, fmt.Errorf("the line has no closing %c", quote)
	}
	if in {
		words = append(words, w.String())
	}
	return words, nil
}

// History is the lines of this and earlier shells, in a file of the user's.
type History struct {
	lines []string
	file  *os.File // nil: they are not kept
}

const maxHistory = 1000

// OpenHistory reads the history of the user. Where there is no place for it, it is not kept.
func OpenHistory() *History {
	h := &History{}
	dir, err := os.UserCacheDir()
	if err == nil {
		dir = filepath.Join(dir, "loam")
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return h // the shell works without
	}
	path := filepath.Join(dir, "history")
	if b, err := os.ReadFile(path); err == nil {
		h.lines = strings.Split(strings.TrimSpace(string(b)), "\n")
		h.lines = h.lines[max(len(h.lines)-maxHistory, 0):]
	}
	h.file, _ = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	return h
}

// Add takes a line that was entered.
func (h *History) Add(entry string) {
	if entry == "" || len(h.lines) > 0 && h.lines[len(h.lines)-1] == entry {
		return
	}
	h.lines = append(h.lines, entry)
	if h.file != nil {
		_, _ = fmt.Fprintln(h.file, entry)
	}
}

// Len is the number of lines.
func (h *History) Len() int { return len(h.lines) }

// At is a line, 0 being the newest.
func (h *History) At(i int) string { return h.lines[len(h.lines)-1-i] }

// Complete is called for each key: Tab completes a verb of root, or a flag of a verb, by what all
// candidates share.
func Complete(root *cobra.Command, line string, pos int, key rune) (string, int, bool) {
	if key != '\t' {
		return line, pos, false
	}
	head := line[:pos]
	start := strings.LastIndexByte(head, ' ') + 1
	word := head[start:]
	var all []string
	first, _, more := strings.Cut(head, " ")
	switch {
	case !more:
		for _, c := range root.Commands() {
			all = append(all, c.Name()+" ")
		}
	case strings.HasPrefix(word, "-"):
		verb, _, err := root.Find([]string{first})
		if err != nil {
			return line, pos, true
		}
		verb.Flags().VisitAll(func(f *pflag.Flag) { all = append(all, "--"+f.Name+" ") })
	default:
		return line, pos, true
	}
	common := ""
	for _, c := range all {
		if !strings.HasPrefix(c, word) {
			continue
		}
		if common == "" {
			common = c
		}
		for !strings.HasPrefix(c, common) {
			common = common[:len(common)-1]
		}
	}
	if len(common) <= len(word) {
		return line, pos, true
	}
	return head[:start] + common + line[pos:], start + len(common), true
}
