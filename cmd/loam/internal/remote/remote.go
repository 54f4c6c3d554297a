// Package remote reads the arguments of the verbs for replicas: targets, moments and durations.
package remote

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/loamdb/loam/cmd/loam/internal/program"
	"github.com/loamdb/loam/lsm/replicate"
)

// ErrNoProgram: nothing answers for targets of a kind.
var ErrNoProgram = errors.New("a kind of target that needs the program")

// Open opens a directory, or an address of the form SCHEME://..., which a program of the name
// loam-target-SCHEME answers for: the libraries of object stores are not in this one. The caller
// calls end. Without the program the error is ErrNoProgram.
func Open(name string) (t replicate.Target, end func(), err error) {
	dir, ok := strings.CutPrefix(name, "file://")
	scheme, _, address := strings.Cut(name, "://")
	if ok || !address {
		t, err := replicate.Dir(dir, nil)
		return t, func() {}, err
	}
	found, err := program.Find("loam-target-" + scheme)
	if err != nil {
		return nil, nil, fmt.Errorf("%s:// is %w loam-target-%s, beside this one or in PATH; see "+
			"docs/replicate.md", scheme, ErrNoProgram, scheme)
	}
	c := exec.Command(found, name)
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := c.Start(); err != nil {
		return nil, nil, err
	}
	return replicate.Pipe(out, in), func() {
		_ = in.Close() // the program ends at the end of its input
		_ = c.Wait()   // its failures were answers
	}, nil
}

// Duration is a flag that takes days, too: 7d, 36h, 90s.
type Duration time.Duration

// String is the flag as Set takes it; "" for none.
func (d *Duration) String() string {
	switch day := 24 * time.Hour; {
	case *d == 0:
		return ""
	case time.Duration(*d)%day == 0:
		return fmt.Sprintf("%dd", time.Duration(*d)/day)
	}
	return time.Duration(*d).String()
}

// Type is what the help calls it.
func (d *Duration) Type() string { return "duration" }

// Set reads a flag.
func (d *Duration) Set(s string) error {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 15)
		if err != nil {
			return fmt.Errorf("want days as 7d, not %q", s)
		}
		*d = Duration(time.Duration(n) * 24 * time.Hour)
		return nil
	}
	v, err := time.ParseDuration(s)
	if err == nil && v < 0 {
		err = errors.New("it is negative")
	}
	*d = Duration(v)
	return err
}

// moments are the forms of --at, in local time unless they say otherwise.
var moments = []string{time.RFC3339Nano, "2006-01-02T15:04:05.999", "2006-01-02 15:04:05",
	"2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02"}

// Moment reads the time of --at.
func Moment(s string) (t time.Time, err error) {
	for _, form := range moments {
		if t, err = time.ParseInLocation(form, s, time.Local); err == nil {
			return t, nil
		}
	}
	return t, fmt.Errorf("%q is no time; want one as 2026-11-23T08:00 or 2026-11-23T08:00:00Z", s)
}
