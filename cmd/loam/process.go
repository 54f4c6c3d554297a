package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/loamdb/loam/internal/feature/inspect"
	"github.com/loamdb/loam/lsm"
)

// process is another process that has a database open and does work in it when asked.
type process struct {
	*inspect.Client
	ctx  context.Context // ends the connection, and with it what the process does
	info struct {
		PID       int
		Keyspaces []struct{ Name string }
	}
}

// processOf connects to the process that has the database in dir open. failed is why dir does not
// open here; it is returned unless a process has the lock.
func processOf(ctx context.Context, dir string, failed error) (*process, error) {
	if !errors.Is(failed, lsm.ErrLocked) {
		return nil, failed
	}
	c, err := inspect.Dial(dir)
	if err == nil {
		p := &process{Client: c, ctx: ctx}
		if err = c.Ask(ctx, &inspect.Request{Do: "info"}, &p.info); err == nil {
			return p, nil
		}
		_ = c.Close()
	}
	if errors.Is(err, lsm.ErrDoesNotExist) || errors.Is(err, errors.ErrUnsupported) {
		return nil, fmt.Errorf("%w; that process cannot be asked to do it: it opened the database "+
			"without Options.Inspect or LOAM_INSPECT=1", failed)
	}
	return nil, fmt.Errorf("asking the process that has the database open: %w", err)
}

// eachKeyspace sends a request for every keyspace, or for the one that --keyspace names.
func (p *process) eachKeyspace(a *app, c *cobra.Command, r inspect.Request) error {
	if c.Flags().Changed("keyspace") {
		r.Keyspace = a.keyspace
		return p.Ask(p.ctx, &r, nil)
	}
	for _, k := range p.info.Keyspaces {
		r.Keyspace = k.Name
		if err := p.Ask(p.ctx, &r, nil); err != nil {
			return err
		}
	}
	return nil
}

// inDirectory sends a request that writes into another directory.
func (p *process) inDirectory(do, dir string, result any) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	return p.Ask(p.ctx, &inspect.Request{Do: do, Dir: dir}, result)
}

// bytes are those of the tables, and those that compactions have written.
func (p *process) bytes() (disk, written uint64, err error) {
	for _, k := range p.info.Keyspaces {
		var m struct {
			DiskBytes uint64 `json:"disk_bytes"`
			Compact   struct {
				BytesOut uint64 `json:"bytes_out"`
			}
		}
		if err := p.Ask(p.ctx, &inspect.Request{Do: "metrics", Keyspace: k.Name}, &m); err != nil {
			return 0, 0, err
		}
		disk, written = disk+m.DiskBytes, m.Compact.BytesOut
	}
	return disk, written, nil
}

// bytesOf is process.bytes of a database that is open here.
func bytesOf(db *lsm.DB) (disk, written uint64) {
	for _, name := range db.Keyspaces() {
		if k, err := db.Keyspace(name, &lsm.KeyspaceOptions{ErrorIfMissing: true}); err == nil {
			m := k.Metrics()
			disk, written = disk+m.DiskBytes, m.Compact.BytesOut
		}
	}
	return disk, written
}

// watch shows on a terminal, until do returns, how many bytes have been written since its begin.
func (a *app) watch(what string, written func() uint64, do func() error) error {
	p := a.progress(what, 0)
	defer p.end()
	if !a.screen.err {
		return do()
	}
	ended, shown := make(chan struct{}), make(chan struct{})
	begin := written()
	go func() {
		defer close(shown)
		ticker := time.NewTicker(tick)
		defer ticker.Stop()
		for {
			select {
			case <-ended:
				return
			case <-ticker.C:
				p.at(max(written(), begin) - begin)
			}
		}
	}()
	err := do()
	close(ended)
	<-shown
	return err
}
