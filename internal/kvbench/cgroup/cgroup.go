// Package cgroup limits the memory of another process, everything counted: what
// it allocates, what it maps and its part of the page cache.
//
// A Group belongs to one goroutine.
package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/loamdb/loam/internal/os/memlimit"
)

// hierarchy is how one version of cgroups names its files.
type hierarchy struct {
	limit, swap, peak, events string
	own, cache                []string // lines of memory.stat
	swapLimit                 func(limit int64) int64
}

var (
	unified = hierarchy{
		limit: "memory.max", swap: "memory.swap.max", peak: "memory.peak", events: "memory.events",
		own: []string{"anon", "kernel"}, cache: []string{"file"},
		swapLimit: func(int64) int64 { return 0 },
	}
	legacy = hierarchy{ // its limit of swap is that of memory and swap together
		limit: "memory.limit_in_bytes", swap: "memory.memsw.limit_in_bytes",
		peak: "memory.max_usage_in_bytes", events: "memory.oom_control",
		own: []string{"total_rss"}, cache: []string{"total_cache"},
		swapLimit: func(limit int64) int64 { return limit },
	}
)

// Group is a new cgroup with a limit.
type Group struct {
	dir string
	hierarchy
}

// place is a cgroup in which a new one may be made.
type place struct {
	dir string
	hierarchy
}

// New makes a group that may take limit bytes of memory and no swap, within the process's own group
// or one above it: one of version 2 that has processes cannot have children with a limit.
func New(limit int64) (*Group, error) {
	var last error
	for _, g := range memlimit.Groups() {
		p := place{g.Dir, legacy}
		if g.Unified {
			p.hierarchy = unified
		}
		g, err := p.add(limit)
		if err == nil {
			return g, nil
		}
		last = err
	}
	if last == nil {
		last = errors.New("none is mounted")
	}
	return nil, fmt.Errorf("no writable cgroup that counts memory: %w", last)
}

func (p place) add(limit int64) (*Group, error) {
	dir, err := os.MkdirTemp(p.dir, "kvbench-")
	if err != nil {
		return nil, err
	}
	g := &Group{dir, p.hierarchy}
	err = g.write(g.limit, limit)
	if err == nil {
		// a kernel without swap
		if err = g.write(g.swap, g.swapLimit(limit)); errors.Is(err, os.ErrNotExist) {
			err = nil
		}
	}
	if err != nil {
		return nil, errors.Join(err, g.Remove())
	}
	return g, nil
}

// write sets a file of the group, which the kernel has made.
func (g *Group) write(name string, n int64) error {
	f, err := os.OpenFile(filepath.Join(g.dir, name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(strconv.FormatInt(n, 10))
	return errors.Join(err, f.Close())
}

// Dir names the group for Join.
func (g *Group) Dir() string { return g.dir }

// Join moves the calling process into a group.
func Join(dir string) error {
	f, err := os.OpenFile(filepath.Join(dir, "cgroup.procs"), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString("0")
	if err = errors.Join(err, f.Close()); err == nil {
		member.Store(&dir)
	}
	return err
}

// member is the group of this process; nil: it joined none.
var member atomic.Pointer[string]

// Now is the memory of the group that this process joined, in bytes: own is of processes, and the
// kernel's for them where it tells; cache is the page cache with shared memory. ok is false
// without a group.
func Now() (own, cache int64, ok bool) {
	dir := member.Load()
	if dir == nil {
		return 0, 0, false
	}
	b, err := os.ReadFile(filepath.Join(*dir, "memory.stat"))
	if err != nil {
		return 0, 0, false
	}
	own, cache = stat(string(b))
	return own, cache, true
}

// stat reads the lines of either version.
func stat(text string) (own, cache int64) {
	lines := map[string]int64{}
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 2 {
			lines[f[0]], _ = strconv.ParseInt(f[1], 10, 64)
		}
	}
	h := unified
	if _, ok := lines[legacy.own[0]]; ok {
		h = legacy
	}
	for _, name := range h.own {
		own += lines[name]
	}
	for _, name := range h.cache {
		cache += lines[name]
	}
	return own, cache
}

// Peak is the most memory that the group took; older kernels do not tell.
func (g *Group) Peak() (int64, bool) {
	b, err := os.ReadFile(filepath.Join(g.dir, g.peak))
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return n, err == nil
}

// Killed reports whether the kernel killed a process of the group for its memory.
func (g *Group) Killed() bool {
	b, err := os.ReadFile(filepath.Join(g.dir, g.events))
	return err == nil && kills(string(b)) > 0
}

// kills reads the line that both versions have.
func kills(events string) int64 {
	for line := range strings.Lines(events) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == "oom_kill" {
			n, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				return 0
			}
			return n
		}
	}
	return 0
}

// Remove removes the group, which has no processes any more.
func (g *Group) Remove() error { return os.Remove(g.dir) }
