// Package logs opens Raft logs of several engines for the benchmark. A Log is used by one writer
// and one reader at a time.
package logs

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	wal "github.com/hashicorp/raft-wal"
	"github.com/loamdb/loam/raftlog"
)

// Log is what the phases call.
type Log interface {
	raft.LogStore
	io.Closer
}

// Engine opens logs. Module is that of its version, "" for Loam's own.
type Engine struct {
	Name   string
	Module string
	Open   func(dir string) (Log, error)
}

// Engines are all engines, Loam first.
var Engines = []Engine{
	{"loam", "", func(dir string) (Log, error) { return raftlog.Open(dir, nil) }},
	{"raft-wal", "github.com/hashicorp/raft-wal", openWAL},
	{"raft-boltdb", "github.com/hashicorp/raft-boltdb/v2", openBolt},
	{"pebble", "github.com/cockroachdb/pebble/v2", openPebble},
	{"badger", "github.com/dgraph-io/badger/v4", openBadger},
}

// Find returns an engine by its name.
func Find(name string) (Engine, error) {
	for _, e := range Engines {
		if e.Name == name {
			return e, nil
		}
	}
	return Engine{}, fmt.Errorf("no engine %q", name)
}

// Version is that of the engine's module.
func (e Engine) Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || e.Module == "" {
		return ""
	}
	for _, d := range info.Deps {
		if d.Path == e.Module {
			return d.Version
		}
	}
	return "unknown"
}

func openWAL(dir string) (Log, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	return wal.Open(dir)
}

func openBolt(dir string) (Log, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	return raftboltdb.NewBoltStore(filepath.Join(dir, "raft.db"))
}

// An entry in Pebble and Badger: the key is the index, big-endian; the value is the term in 8
// bytes, the type in one, and Data. The benchmark's entries have no extensions and no time.
const headerLen = 8 + 1

func key(index uint64) []byte { return binary.BigEndian.AppendUint64(nil, index) }

func value(dst []byte, l *raft.Log) []byte {
	dst = binary.BigEndian.AppendUint64(dst[:0], l.Term)
	return append(append(dst, byte(l.Type)), l.Data...)
}

// decode keeps v.
func decode(l *raft.Log, index uint64, v []byte) error {
	if len(v) < headerLen {
		return fmt.Errorf("entry %d has %d bytes", index, len(v))
	}
	*l = raft.Log{Index: index, Term: binary.BigEndian.Uint64(v), Type: raft.LogType(v[8]),
		Data: v[headerLen:]}
	return nil
}
