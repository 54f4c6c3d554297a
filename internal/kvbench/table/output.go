package table

import (
	"errors"
	"io"
	"syscall"
)

// Output is where results are printed. It keeps the first failure of a write, so that callers that
// print need not check each write.
type Output struct {
	W    io.Writer
	fail error
}

func (o *Output) Write(p []byte) (int, error) {
	n, err := o.W.Write(p)
	if o.fail == nil {
		o.fail = err
	}
	return n, err
}

// Failed is why results are missing. It is nil if the reader of a pipe has closed it.
func (o *Output) Failed() error {
	if errors.Is(o.fail, syscall.EPIPE) {
		return nil
	}
	return o.fail
}

// Under is the writer below an Output: another process gets a file as it is.
func Under(w io.Writer) io.Writer {
	if o, ok := w.(*Output); ok {
		return o.W
	}
	return w
}
