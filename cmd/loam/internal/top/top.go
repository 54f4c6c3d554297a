// Package top shows a database that a process uses, again and again.
package top

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/loamdb/loam/internal/feature/examine"
	"github.com/loamdb/loam/internal/feature/inspect"
	"github.com/loamdb/loam/lsm"
)

// Options says what to show, and where.
type Options struct {
	Keyspace string
	Every    time.Duration // between two views
	Once     bool          // one view, without rates
	JSON     bool
	In       io.Reader // keys, if it is a terminal
	Out      Output
	Width    int    // columns
	FS       lsm.FS // has the files of the database, decrypted
	// Options opens the database as a follower.
	Options func() (*lsm.Options, error)
}

// Output is buffered.
type Output interface {
	io.Writer
	Flush() error
}

// Help explains the verb.
const Help = "Top shows throughput, levels, stalls, the cache and the last events of a database " +
	"that a\nprocess has open with Options.Inspect or LOAM_INSPECT=1. Of others it shows what a\n" +
	"follower can read. q ends it. Where output is no terminal, it prints one view.\n\n" +
	"docs/observe.md explains what it shows."

// Run shows the database in dir until ctx is done.
func Run(ctx context.Context, dir string, o Options) error {
	if o.Every < 100*time.Millisecond {
		return fmt.Errorf("%w: --interval must be 100ms or more", lsm.ErrInvalidArgument)
	}
	s, err := o.watch(ctx, dir)
	if err != nil {
		return err
	}
	defer s.close()
	return o.top(ctx, s)
}

func (o *Options) printf(format string, args ...any) error {
	_, err := fmt.Fprintf(o.Out, format, args...)
	return err
}

// top shows views until ctx is done, q is typed, or the source fails.
func (o *Options) top(ctx context.Context, s source) error {
	full := !o.Once && !o.JSON
	if full {
		var leave func()
		ctx, leave = o.fullScreen(ctx)
		defer leave()
	}
	ticker := time.NewTicker(o.Every)
	defer ticker.Stop()
	var before *moment
	for {
		now, err := s.look(ctx, o.Keyspace)
		switch {
		case ctx.Err() != nil && before != nil:
			return nil
		case err != nil:
			return err
		}
		now.At = time.Now()
		now.Rates = now.since(before)
		switch {
		case o.JSON:
			err = json.NewEncoder(o.Out).Encode(now)
		case full:
			err = o.printf("\x1b[H%s\x1b[J", now.render(o.Width, "\x1b[K\r\n"))
		default:
			err = o.printf("%s", now.render(o.Width, "\n"))
		}
		if err = errors.Join(err, o.Out.Flush()); err != nil || o.Once {
			return err
		}
		before = now
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// fullScreen takes the terminal until leave. The context ends with q or Ctrl-C.
func (o *Options) fullScreen(ctx context.Context) (_ context.Context, leave func()) {
	ctx, cancel := context.WithCancel(ctx)
	_ = o.printf("\x1b[?1049h\x1b[?25l")
	restore := func() {}
	if in, ok := o.In.(*os.File); ok && term.IsTerminal(int(in.Fd())) {
		if state, err := term.MakeRaw(int(in.Fd())); err == nil {
			restore = func() { _ = term.Restore(int(in.Fd()), state) }
			go func() {
				key := make([]byte, 1)
				for {
					n, err := in.Read(key)
					if err != nil || n == 1 && (key[0] == 'q' || key[0] == 3) {
						cancel()
						return
					}
				}
			}()
		}
	}
	return ctx, func() {
		_ = o.printf("\x1b[?25h\x1b[?1049l")
		_ = o.Out.Flush()
		restore()
		cancel()
	}
}

// source is where top looks.
type source interface {
	look(ctx context.Context, keyspace string) (*moment, error)
	close()
}

// watch connects to the process that has the database open, or follows it.
func (o *Options) watch(ctx context.Context, dir string) (source, error) {
	if _, err := examine.Open(o.FS, dir); errors.Is(err, lsm.ErrDoesNotExist) {
		return nil, err
	}
	c, err := inspect.Dial(dir)
	if err == nil {
		r := &running{c: c}
		if err = c.Ask(ctx, &inspect.Request{Do: "info"}, &r.info); err == nil {
			return r, nil
		}
		_ = c.Close()
	}
	if !errors.Is(err, lsm.ErrDoesNotExist) && !errors.Is(err, errors.ErrUnsupported) {
		return nil, err
	}
	opts, err := o.Options()
	if err != nil {
		return nil, err
	}
	f, err := lsm.OpenFollower(dir, opts)
	if err != nil {
		return nil, err
	}
	return &followed{f: f, dir: dir}, nil
}

// running asks the process.
type running struct {
	c    *inspect.Client
	info struct {
		Directory, Format string
		PID               int
	}
}

func (r *running) look(ctx context.Context, keyspace string) (*moment, error) {
	now := &moment{Directory: r.info.Directory, Source: "process", PID: r.info.PID,
		Format: r.info.Format}
	for _, ask := range []struct {
		do string
		to any
	}{{"metrics", &now.Metrics}, {"levels", &now.Levels}, {"events", &now.events}} {
		err := r.c.Ask(ctx, &inspect.Request{Do: ask.do, Keyspace: keyspace}, ask.to)
		if err != nil {
			return nil, err
		}
	}
	now.Events = now.events.Events
	return now, now.parse()
}

func (r *running) close() { _ = r.c.Close() }

// followed reads the directory.
type followed struct {
	f   *lsm.Follower
	dir string
}

func (f *followed) look(ctx context.Context, keyspace string) (*moment, error) {
	if err := f.f.CatchUp(ctx); err != nil {
		return nil, err
	}
	k, err := f.f.Keyspace(keyspace, &lsm.KeyspaceOptions{ErrorIfMissing: true})
	if err != nil {
		return nil, err
	}
	now := &moment{Directory: f.dir, Source: "follower"}
	if now.Metrics, err = json.Marshal(k.Metrics()); err != nil {
		return nil, fmt.Errorf("reading the metrics: %w", err)
	}
	return now, now.parse()
}

func (f *followed) close() { _ = f.f.Close() }
