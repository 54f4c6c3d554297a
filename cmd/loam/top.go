package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/loamdb/loam/internal/feature/inspect"
	"github.com/loamdb/loam/lsm"
)

// topVerb shows a running database again and again.
func (a *app) topVerb() *cobra.Command {
	once, every := false, time.Second
	c := &cobra.Command{
		Use:   "top DIR",
		Short: "Watch a database while a process uses it",
		Long: "Top shows throughput, levels, stalls, the cache and the last events of a database " +
			"that a\nprocess has open with Options.Inspect or LOAM_INSPECT=1. Of others it shows " +
			"what a\nfollower can read. q ends it. Where output is no terminal, it prints one " +
			"view.\n\ndocs/observe.md explains what it shows.",
		Example: "  loam top db\n  loam top --once db\n  loam top --json --interval 10s db",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if every < 100*time.Millisecond {
				return usagef("--interval must be 100ms or more")
			}
			ctx, stop := interruptible(c)
			defer stop()
			s, err := a.watch(ctx, args[0])
			if err != nil {
				return err
			}
			defer s.close()
			return a.top(ctx, s, every, once || !a.screen.out && !a.json)
		},
	}
	a.keyspaceFlag(c)
	c.Flags().BoolVar(&once, "once", false, "one view, without rates, then end")
	c.Flags().DurationVar(&every, "interval", every, "time between two views")
	return c
}

// top shows views until ctx is done, q is typed, or the source fails.
func (a *app) top(ctx context.Context, s source, every time.Duration, once bool) error {
	full := !once && !a.json
	if full {
		var leave func()
		ctx, leave = a.fullScreen(ctx)
		defer leave()
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	var before *moment
	for {
		now, err := s.look(ctx, a.keyspace)
		switch {
		case ctx.Err() != nil && before != nil:
			return nil
		case err != nil:
			return err
		}
		now.At = time.Now()
		now.Rates = now.since(before)
		switch {
		case a.json:
			err = a.printJSON(now)
		case full:
			err = a.printf("\x1b[H%s\x1b[J", now.render(a.screen.width, "\x1b[K\r\n"))
		default:
			err = a.printf("%s", now.render(a.screen.width, "\n"))
		}
		if err = errors.Join(err, a.out.Flush()); err != nil || once {
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
func (a *app) fullScreen(ctx context.Context) (_ context.Context, leave func()) {
	ctx, cancel := context.WithCancel(ctx)
	_ = a.printf("\x1b[?1049h\x1b[?25l")
	restore := func() {}
	if in, ok := a.in.(*os.File); ok && term.IsTerminal(int(in.Fd())) {
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
		_ = a.printf("\x1b[?25h\x1b[?1049l")
		_ = a.out.Flush()
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
func (a *app) watch(ctx context.Context, dir string) (source, error) {
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
	o, err := a.options(dir)
	if err != nil {
		return nil, err
	}
	f, err := lsm.OpenFollower(dir, o)
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
