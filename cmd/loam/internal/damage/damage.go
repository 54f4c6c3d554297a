// Package damage describes damaged parts of files: as text, and as members of JSON.
package damage

import (
	"errors"
	"fmt"
	"strings"

	"github.com/loamdb/loam/cmd/loam/internal/encode"
	"github.com/loamdb/loam/cmd/loam/internal/text"
	"github.com/loamdb/loam/lsm"
)

// Part is a damaged part of a file.
type Part struct {
	File   string `json:"file"`
	Offset int64  `json:"offset"`
	Length int64  `json:"length"`
	Kind   string `json:"kind"`
	Reason string `json:"reason"`

	// Keys between which lost entries lie; nil where unknown.
	Smallest, Largest []byte `json:"-"`
}

// Text is the damage on one line.
func (d *Part) Text(as encode.Encoding) string {
	s := text.Printable(d.File)
	if d.Offset >= 0 { // else it is the file as a whole
		s += fmt.Sprintf(", offset %d", d.Offset)
	}
	if d.Length > 0 {
		s += fmt.Sprintf(", %d bytes", d.Length)
	}
	s += ": " + text.Printable(d.Reason)
	if d.Smallest != nil || d.Largest != nil {
		s += fmt.Sprintf(" (keys %s .. %s)", as.Format(d.Smallest), as.Format(d.Largest))
	}
	return s
}

// Of collects the damage in an error, which may join several; nil if it has none.
func Of(err error) (found []Part) {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		for _, e := range joined.Unwrap() {
			found = append(found, Of(e)...)
		}
		if found != nil {
			return found
		}
	}
	var c *lsm.CorruptionError
	switch {
	case errors.As(err, &c):
		return []Part{{File: c.File, Offset: c.Offset, Length: c.Length, Kind: c.Kind,
			Reason: c.Reason}}
	case errors.Is(err, lsm.ErrCorruption):
		return []Part{{Offset: -1, Reason: err.Error()}}
	}
	return nil
}

// List is damage as text, for the end of a verb.
func List(found []Part) string {
	var lines []string
	const most = 20
	for i, d := range found {
		if i == most {
			lines = append(lines, fmt.Sprintf("and %d more", len(found)-most))
			break
		}
		lines = append(lines, d.Text(encode.Text))
	}
	return "damaged: " + strings.Join(lines, "\n  ")
}

// onlyTorn reports whether all that an opening left out are torn ends of logs, which a crash
// leaves.
func onlyTorn(r *lsm.RecoveryReport) bool {
	dropped := int64(0)
	for _, l := range r.Dropped {
		if l.Bytes == 0 {
			return false // the log is missing
		}
		dropped += l.Bytes
	}
	return dropped == r.TornBytes
}

// LeftOut are the parts of logs that an opening left out because they are damaged, or behind
// damage.
func LeftOut(r *lsm.RecoveryReport) (parts []Part) {
	if onlyTorn(r) {
		return nil
	}
	for _, l := range r.Dropped {
		parts = append(parts, Part{File: l.File, Offset: l.Offset, Length: l.Bytes, Kind: "log",
			Reason: l.Reason})
	}
	return parts
}
