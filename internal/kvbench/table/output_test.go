package table

import (
	"errors"
	"fmt"
	"io"
	"syscall"
	"testing"
)

// failing fails as often as it has errors, and then writes.
type failing struct{ errs []error }

func (f *failing) Write(p []byte) (int, error) {
	if len(f.errs) == 0 {
		return len(p), nil
	}
	err := f.errs[0]
	f.errs = f.errs[1:]
	return 0, err
}

// TestOutput keeps the first failure, but for that of a pipe without a reader.
func TestOutput(t *testing.T) {
	full := errors.New("no space left")
	for _, c := range []struct {
		errs []error
		want error
	}{{nil, nil}, {[]error{full}, full}, {[]error{nil, full, io.ErrClosedPipe}, full},
		{[]error{fmt.Errorf("write: %w", syscall.EPIPE)}, nil}} {
		w := &failing{c.errs}
		o := &Output{W: w}
		for range 4 {
			fmt.Fprintln(o, "a line")
		}
		if err := o.Failed(); !errors.Is(err, c.want) || err != nil && c.want == nil {
			t.Errorf("%v: %v", c.errs, err)
		}
		if Under(o) != io.Writer(w) || Under(w) != io.Writer(w) {
			t.Error("another writer lies below it")
		}
	}
}
