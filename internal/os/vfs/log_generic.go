//go:build !linux

package vfs

import (
	"cmp"
	"os"

	"github.com/loamdb/loam/internal/base"
)

// osLog appends by plain writes. Nothing is allocated ahead: the replacements of fallocate on these
// systems would write zeros or not grow the file.
type osLog struct {
	f    *os.File
	off  int64 // end of the appended bytes
	torn bool  // a failed Append or a former life left something after off
}

func newLog(f *os.File, ahead int64, plain bool) *osLog { return &osLog{f: f} }

func reusedLog(f *os.File, ahead, size int64, plain bool) *osLog { return &osLog{f: f, torn: true} }

func (l *osLog) Append(p []byte) error {
	n, err := l.f.WriteAt(p, l.off)
	if err != nil {
		if n > 0 {
			l.torn = true
		}
		return base.Classify(err)
	}
	l.off += int64(n)
	return nil
}

// Truncate cuts the file.
func (l *osLog) Truncate(size int64) error {
	if err := l.f.Truncate(size); err != nil {
		return base.Classify(err)
	}
	l.off, l.torn = size, false
	return nil
}

func (l *osLog) Sync() error { return base.Classify(l.f.Sync()) }

// Close cuts off what a failed Append or a former life left.
func (l *osLog) Close() error {
	var err error
	if l.torn {
		err = l.f.Truncate(l.off)
	}
	return base.Classify(cmp.Or(err, closeFile(l.f)))
}
