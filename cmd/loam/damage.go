package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/loamdb/loam/cmd/loam/internal/encode"
	"github.com/loamdb/loam/cmd/loam/internal/text"
	"github.com/loamdb/loam/lsm"
)

// damage is a damaged part of a file.
type damage struct {
	File   string `json:"file"`
	Offset int64  `json:"offset"`
	Length int64  `json:"length"`
	Kind   string `json:"kind"`
	Reason string `json:"reason"`

	smallest, largest []byte // keys between which lost entries lie; nil where unknown
}

// text is the damage on one line.
func (d *damage) text(as encode.Encoding) string {
	s := text.Printable(d.File)
	if d.Offset >= 0 { // else it is the file as a whole
		s += fmt.Sprintf(", offset %d", d.Offset)
	}
	if d.Length > 0 {
		s += fmt.Sprintf(", %d bytes", d.Length)
	}
	s += ": " + text.Printable(d.Reason)
	if d.smallest != nil || d.largest != nil {
		s += fmt.Sprintf(" (keys %s .. %s)", as.Format(d.smallest), as.Format(d.largest))
	}
	return s
}

// damagesOf collects the damage in an error, which may join several; nil if it has none.
func damagesOf(err error) (found []damage) {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		for _, e := range joined.Unwrap() {
			found = append(found, damagesOf(e)...)
		}
		if found != nil {
			return found
		}
	}
	var c *lsm.CorruptionError
	switch {
	case errors.As(err, &c):
		return []damage{{File: c.File, Offset: c.Offset, Length: c.Length, Kind: c.Kind,
			Reason: c.Reason}}
	case errors.Is(err, lsm.ErrCorruption):
		return []damage{{Offset: -1, Reason: err.Error()}}
	}
	return nil
}

// damageText lists damage, for the end of a verb.
func damageText(found []damage) string {
	var lines []string
	const most = 20
	for i, d := range found {
		if i == most {
			lines = append(lines, fmt.Sprintf("and %d more", len(found)-most))
			break
		}
		lines = append(lines, d.text(encode.Text))
	}
	return "damaged: " + strings.Join(lines, "\n  ")
}

// unreadable makes damage a problem, exit code 1; another error stays what it is.
func (a *app) unreadable(err error) error {
	if found := damagesOf(err); found != nil {
		if a.json {
			if err := a.printJSON(map[string]any{"damage": found}); err != nil {
				return err
			}
		}
		return &problem{damageText(found)}
	}
	return err
}
