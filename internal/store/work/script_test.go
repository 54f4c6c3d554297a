package work

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/batchrepr"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/script"
	"github.com/loamdb/loam/internal/tree"
)

// logScript has a database with several trees and the logs that it began.
type logScript struct {
	*database
	gate  chan struct{} // tables are made when it is closed
	trees map[string]*Keyspace
	begun []uint64 // numbers of logs
}

// TestLogScript runs testdata/logs: which logs flushes free. The commands:
//
//	database     begins anew with a tree, main; with gated, no table is made before the
//	             command open-gate
//	tree NAME    another tree, which may have entries in logs from log 0 on
//	put NAME     writes an entry
//	seal NAME    seals the tree's memtable; main begins a log for that
//	install NAME the oldest sealed memtable of another tree is in tables
//	oldest       the oldest log that any tree needs; without=NAME when that tree's oldest
//	             sealed memtable is in tables
//	next         the tree that is flushed next
//	flushed      waits until all memtables of main are in tables
//	close NAME   closes another tree
//	stop         ends the jobs
//	logs         the logs in the directory, the manifest's log, what was flushed
//
// Logs are numbered from 1 in the order in which they were begun.
func TestLogScript(t *testing.T) {
	s := &logScript{}
	script.Run(t, "testdata/logs", func(c *script.Command) string { return s.run(t, c) })
}

func (s *logScript) run(t *testing.T, c *script.Command) string {
	name := "main"
	if c.Name != "database" && c.Name != "oldest" && len(c.Args()) > 0 {
		name = c.Args()[0].Key
	}
	var err error
	switch c.Name {
	case "database":
		s.gate = make(chan struct{})
		var fsys vfs.FS = vfs.NewMem()
		if c.Has("gated") {
			fsys = gated(s.gate)
		}
		s.database = openDatabase(t, fsys)
		s.trees = map[string]*Keyspace{"main": s.tree}
		s.begun = []uint64{s.wal.Num()}
	case "tree":
		other := &Keyspace{Tree: tree.New(tree.Options{ID: base.KeyspaceID(len(s.trees)),
			Name: name, Comparer: base.Bytewise, MemTableSize: 64 << 10}, s.shared)}
		other.Start(s.begun[0]-1, nil, s.jobs.opts.Manifest.Current(base.DefaultKeyspace))
		s.others = append(s.others, other)
		s.jobs.Add(other)
		s.trees[name] = other
	case "put":
		if name == "main" {
			err = s.put("k", 0)
		} else {
			err = s.trees[name].Apply(batchrepr.AppendEntry(batchrepr.Init(nil),
				base.DefaultKeyspace, base.KindSet, []byte("k"), nil), s.last+1)
		}
	case "seal":
		if name == "main" {
			s.seal()
			s.begun = append(s.begun, s.wal.Num())
		} else {
			err = s.trees[name].Rotate(0, 0, func(base.SeqNum) (uint64, error) {
				return s.wal.Num(), nil
			})
			s.jobs.mu.Lock()
			s.jobs.trees.seal(s.trees[name])
			s.jobs.mu.Unlock()
		}
	case "install":
		tr := s.trees[name]
		tr.Install(s.jobs.opts.Manifest.Current(base.DefaultKeyspace), newestSealed(tr.Tree), 0)
	case "oldest":
		return s.oldest(c)
	case "next":
		s.jobs.mu.Lock()
		defer s.jobs.mu.Unlock()
		next := s.jobs.nextFlushLocked()
		for name, tr := range s.trees {
			if next != nil && next == tr {
				return name
			}
		}
		return "none"
	case "open-gate":
		close(s.gate)
	case "flushed":
		err = s.jobs.WaitFlushed(s.tree, 0)
	case "close":
		s.trees[name].Close()
	case "stop":
		s.jobs.Close()
	case "logs":
		return s.show(t, c)
	default:
		return c.Unknown()
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// newestSealed is the memtable of a tree that was sealed last.
func newestSealed(t *tree.Tree) *tree.Sealed {
	s := t.Acquire()
	defer s.Unref()
	return s.Sealed[0]
}

func (s *logScript) oldest(c *script.Command) string {
	var m *tree.Sealed
	if name := c.Arg("without", ""); name != "" {
		m = newestSealed(s.trees[name].Tree)
	}
	log, ok := s.jobs.oldestLogWithout(m)
	if !ok {
		return "a tree is closed"
	}
	return s.log(log)
}

// log prints a log.
func (s *logScript) log(num uint64) string {
	if num < s.begun[0] {
		return "log 0"
	}
	out := fmt.Sprintf("log %d", slices.Index(s.begun, num)+1)
	if num == s.wal.Num() {
		out += ", the current one"
	}
	return out
}

// show prints the logs that are there. One that was made ahead of time is not.
func (s *logScript) show(t *testing.T, c *script.Command) string {
	var out []string
	ahead := 0
	for _, num := range s.logs() {
		if slices.Contains(s.begun, num) {
			out = append(out, s.log(num))
		} else if ahead++; ahead > 1 {
			t.Errorf("line %d: log %06d was never begun", c.Line, num)
		}
	}
	flushes := s.jobs.Counters().Flushes
	out = append(out, "the manifest needs "+s.log(s.jobs.opts.Manifest.LogNum()),
		fmt.Sprintf("%d flushes of %d entries", flushes.Count, flushes.EntriesIn))
	return strings.Join(out, "\n")
}
