package replicate

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/loamdb/loam/internal/testkit/conform"
	"github.com/loamdb/loam/lsm"
)

// piped is a Pipe to a Serve of a target; end closes it and returns what Serve returned.
func piped(target Target) (p Target, end func() error) {
	fromPipe, toServe := io.Pipe()
	fromServe, toPipe := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- Serve(ctx, target, fromPipe, toPipe)
		toPipe.Close()
	}()
	return Pipe(fromServe, toServe), func() error {
		toServe.Close()
		return <-ended
	}
}

// TestPipe holds a target behind a pipe to what a target has to do; its errors come through, and
// calls fail when the other end has gone.
func TestPipe(t *testing.T) {
	m := newMem()
	p, end := piped(m)
	conform.Target(t, p, nil)
	m.fail = func(string, string, bool) error { return errTarget }
	err := p.Put(ctx, "a", nil)
	if err == nil || !strings.Contains(err.Error(), errTarget.Error()) {
		t.Error(err)
	}
	done, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := p.List(done, ""); err == nil {
		t.Error("a canceled call succeeded")
	}
	must(t, end())
	if _, err := p.Get(ctx, "owner"); !errors.Is(err, errEnded) || !final(err) {
		t.Error(err)
	}
	var out bytes.Buffer
	if err := Serve(ctx, m, strings.NewReader("\x01\x01"), &out); !errors.Is(err,
		io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	if err := Serve(nil, m, strings.NewReader(""), &out); !errors.Is(err, lsm.ErrInvalidArgument) {
		t.Error(err)
	}
	must(t, Serve(ctx, m, strings.NewReader("\x01\x09\x00\x00"), &out))
	if f, err := readFrame(bufio.NewReader(&out), false); err != nil || f.kind != answerFailed {
		t.Error(f, err)
	}
}

// FuzzServe reads bytes as requests.
func FuzzServe(f *testing.F) {
	f.Add([]byte("\x01\x01\x01a\x01b\x02\x02\x01a\x00\x03\x03\x00\x00\x04\x04\x01a\x00"))
	f.Add([]byte("\x01\x01\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		_ = Serve(ctx, newMem(), bytes.NewReader(b), io.Discard)
	})
}

// distant is a store that answers no read until so many have come.
type distant struct {
	Target
	reads *sync.WaitGroup
}

func (d distant) Get(context.Context, string) ([]byte, error) {
	d.reads.Done()
	d.reads.Wait()
	return nil, errTarget
}

// TestFetchReadsAhead: a restore waits for many answers of a distant store at a time, through a
// pipe, too.
func TestFetchReadsAhead(t *testing.T) {
	var reads sync.WaitGroup
	reads.Add(segmentsAhead)
	p, end := piped(distant{newMem(), &reads})
	next, stop := fetch(ctx, p, make([]string, segmentsAhead), segmentsAhead)
	if _, err := next(); err == nil || !strings.Contains(err.Error(), errTarget.Error()) {
		t.Error(err)
	}
	stop()
	must(t, end())
}
