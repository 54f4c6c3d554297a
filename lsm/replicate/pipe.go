package replicate

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"

	"github.com/loamdb/loam/internal/base"
)

// The protocol of Pipe and Serve. A request is its number, what it asks for, a name and data; an
// answer is the number of its request, how it ended, and data: an object, names by lines, or the
// text of an error. Numbers are varints; names and data are behind their lengths. Answers come in
// any order.
const (
	askPut = iota + 1
	askGet
	askList
	askDelete
)

const (
	answerDone = iota + 1
	answerMissing
	answerFailed
)

// maxServed is how many requests Serve works on at a time.
const maxServed = 16

// frame is a request or an answer.
type frame struct {
	id   uint64
	kind byte
	name string // of a request
	data []byte
}

func readFrame(r *bufio.Reader, named bool) (f frame, err error) {
	if f.id, err = binary.ReadUvarint(r); err != nil {
		return f, err
	}
	if f.kind, err = r.ReadByte(); err == nil && named {
		var name []byte
		name, err = readField(r, 1<<10)
		f.name = string(name)
	}
	if err == nil {
		f.data, err = readField(r, maxObject)
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return f, err
}

// readField takes memory as bytes arrive.
func readField(r *bufio.Reader, limit uint64) ([]byte, error) {
	n, err := binary.ReadUvarint(r)
	if err != nil {
		return nil, err
	}
	if n > limit {
		return nil, fmt.Errorf("a field of %d bytes, too many", n)
	}
	b, err := io.ReadAll(io.LimitReader(r, int64(n)))
	if err == nil && uint64(len(b)) < n {
		err = io.ErrUnexpectedEOF
	}
	return b, err
}

func writeFrame(w io.Writer, f frame, named bool) error {
	b := append(binary.AppendUvarint(nil, f.id), f.kind)
	if named {
		b = append(binary.AppendUvarint(b, uint64(len(f.name))), f.name...)
	}
	b = binary.AppendUvarint(b, uint64(len(f.data)))
	if _, err := w.Write(b); err != nil {
		return err
	}
	_, err := w.Write(f.data)
	return err
}

// Serve answers what a Pipe asks over r and w with a target, until r ends: it makes a program of
// its own of a target whose library another program does not have. It returns nil at the end of r,
// and otherwise the error of r or w, or lsm.ErrInvalidArgument for a nil argument. The target's
// errors are answers, and so are its panics.
func Serve(ctx context.Context, t Target, r io.Reader, w io.Writer) error {
	if ctx == nil || t == nil || r == nil || w == nil {
		return base.Invalidf("Serve needs a context, a target, a reader and a writer")
	}
	in := bufio.NewReader(r)
	ctx, cancel := context.WithCancel(ctx)
	var mu sync.Mutex // of w and failed
	var failed error
	var running sync.WaitGroup
	places := make(chan struct{}, maxServed)
	for {
		f, err := readFrame(in, true)
		if err != nil {
			cancel()
			running.Wait()
			if err == io.EOF {
				err = nil
			}
			return errors.Join(err, failed)
		}
		places <- struct{}{}
		running.Go(func() {
			defer func() { <-places }()
			var a frame
			err := base.Alone(func() error { a = serve(ctx, t, f); return nil })
			if err != nil {
				a = frame{id: f.id, kind: answerFailed, data: []byte(err.Error())}
			}
			mu.Lock()
			defer mu.Unlock()
			if failed == nil {
				failed = writeFrame(w, a, false)
			}
		})
	}
}

// serve answers one request.
func serve(ctx context.Context, t Target, f frame) frame {
	a := frame{id: f.id, kind: answerDone}
	var err error
	switch f.kind {
	case askPut:
		err = t.Put(ctx, f.name, f.data)
	case askGet:
		a.data, err = t.Get(ctx, f.name)
	case askList:
		var names []string
		names, err = t.List(ctx, f.name)
		a.data = []byte(strings.Join(names, "\n"))
	case askDelete:
		err = t.Delete(ctx, f.name)
	default:
		err = fmt.Errorf("request %d is not known", f.kind)
	}
	if err != nil {
		a.kind, a.data = answerFailed, []byte(err.Error())
		if errors.Is(err, fs.ErrNotExist) {
			a.kind = answerMissing
		}
	}
	return a
}

// errEnded ends a Run: no further call can succeed.
var errEnded = errors.New("the program of the target has ended")

// pipe is a Target at the other end of a pipe.
type pipe struct {
	w  io.Writer
	wr sync.Mutex // of w

	mu      sync.Mutex
	last    uint64
	waiting map[uint64]chan frame
	failed  error // why no more answers come
}

// Pipe is the target that a Serve at the other end of r and w has. It reads r until that ends;
// every call fails then.
func Pipe(r io.Reader, w io.Writer) Target {
	p := &pipe{w: w, waiting: map[uint64]chan frame{}}
	in := bufio.NewReader(r)
	go base.Always(func() error { return p.read(in) }, p.end)
	return p
}

// read gives answers to the calls that wait for them, until r fails.
func (p *pipe) read(r *bufio.Reader) error {
	for {
		f, err := readFrame(r, false)
		if err != nil {
			return err
		}
		p.mu.Lock()
		if c := p.waiting[f.id]; c != nil {
			c <- f // it has room for one
			delete(p.waiting, f.id)
		}
		p.mu.Unlock()
	}
}

// end fails the calls that wait, and later ones.
func (p *pipe) end(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = fmt.Errorf("%w: %w", errEnded, err)
	for id, c := range p.waiting {
		close(c)
		delete(p.waiting, id)
	}
}

func (p *pipe) ask(ctx context.Context, kind byte, name string, data []byte) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err // a request would have its effect all the same
	}
	answer := make(chan frame, 1)
	p.mu.Lock()
	p.last++
	f := frame{id: p.last, kind: kind, name: name, data: data}
	if p.failed != nil {
		p.mu.Unlock()
		return nil, p.failed
	}
	p.waiting[f.id] = answer
	p.mu.Unlock()
	if err := p.write(f); err != nil {
		p.forget(f.id)
		return nil, fmt.Errorf("%w: %w", errEnded, err)
	}
	select {
	case <-ctx.Done():
		p.forget(f.id)
		return nil, ctx.Err()
	case a, ok := <-answer:
		switch {
		case !ok:
			p.mu.Lock()
			defer p.mu.Unlock()
			return nil, p.failed
		case a.kind == answerDone:
			return a.data, nil
		case a.kind == answerMissing:
			return nil, fmt.Errorf("%s: %w", a.data, fs.ErrNotExist)
		}
		return nil, errors.New(string(a.data))
	}
}

func (p *pipe) write(f frame) error {
	p.wr.Lock()
	defer p.wr.Unlock() // also when the writer panics
	return writeFrame(p.w, f, true)
}

func (p *pipe) forget(id uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.waiting, id)
}

func (p *pipe) Put(ctx context.Context, name string, data []byte) error {
	_, err := p.ask(ctx, askPut, name, data)
	return err
}

func (p *pipe) Get(ctx context.Context, name string) ([]byte, error) {
	return p.ask(ctx, askGet, name, nil)
}

func (p *pipe) List(ctx context.Context, prefix string) ([]string, error) {
	b, err := p.ask(ctx, askList, prefix, nil)
	if err != nil || len(b) == 0 {
		return nil, err
	}
	return strings.Split(string(b), "\n"), nil
}

func (p *pipe) Delete(ctx context.Context, name string) error {
	_, err := p.ask(ctx, askDelete, name, nil)
	return err
}
