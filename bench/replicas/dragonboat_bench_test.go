package replicas

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"path/filepath"
	"testing"
	"time"

	"github.com/lni/dragonboat/v4"
	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/logger"
	sm "github.com/lni/dragonboat/v4/statemachine"
)

// dragonboats have one shard, whose state is a map in memory: less than a database does.
type dragonboats []*dragonboat.NodeHost

func openDragonboat(b *testing.B, dir string) cluster {
	for _, name := range []string{"raft", "rsm", "transport", "grpc", "config", "logdb",
		"dragonboat", "raftpb", "settings", "server"} {
		logger.GetLogger(name).SetLevel(logger.CRITICAL)
	}
	open, addrs := listeners(b)
	members := map[uint64]dragonboat.Target{}
	ids := []string{"a", "b", "c"}
	for i, id := range ids {
		members[uint64(i+1)] = addrs[id]
		_ = open[id].Close() // dragonboat opens it again
	}
	var c dragonboats
	for i, id := range ids {
		n, err := dragonboat.NewNodeHost(config.NodeHostConfig{NodeHostDir: filepath.Join(dir, id),
			RTTMillisecond: 1, RaftAddress: addrs[id]})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(n.Close)
		if err := n.StartReplica(members, false, newTable, config.Config{ReplicaID: uint64(i + 1),
			ShardID: 1, ElectionRTT: 1000, HeartbeatRTT: 100, CheckQuorum: true}); err != nil {
			b.Fatal(err)
		}
		c = append(c, n)
	}
	for { // until there is a leader
		if err := c.put(b.Context(), 0, []byte("key"), nil); err == nil {
			return c
		}
	}
}

func (c dragonboats) put(ctx context.Context, client int, key, value []byte) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute) // it wants one
	defer cancel()
	n := c[client%3]
	_, err := n.SyncPropose(ctx, n.GetNoOPSession(1),
		append(append(binary.AppendUvarint(nil, uint64(len(key))), key...), value...))
	return err
}

func (c dragonboats) get(ctx context.Context, client int, key []byte) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	v, err := c[client%3].SyncRead(ctx, 1, key)
	if err == nil && v == nil {
		err = errors.New("the key is missing")
	}
	return err
}

// table is the state. Snapshots are not taken.
type table map[string][]byte

func newTable(uint64, uint64) sm.IStateMachine { return table{} }

func (t table) Update(e sm.Entry) (sm.Result, error) {
	n, size := binary.Uvarint(e.Cmd)
	key := e.Cmd[size:][:n]
	t[string(key)] = append([]byte{}, e.Cmd[size+int(n):]...)
	return sm.Result{}, nil
}

func (t table) Lookup(key any) (any, error) { return t[string(key.([]byte))], nil }

func (t table) SaveSnapshot(io.Writer, sm.ISnapshotFileCollection, <-chan struct{}) error {
	return sm.ErrSnapshotStopped
}

func (t table) RecoverFromSnapshot(io.Reader, []sm.SnapshotFile, <-chan struct{}) error {
	return sm.ErrSnapshotStopped
}

func (t table) Close() error { return nil }
