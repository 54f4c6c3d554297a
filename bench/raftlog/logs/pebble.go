package logs

import (
	"encoding/binary"
	"errors"

	"github.com/cockroachdb/pebble/v2"
	"github.com/hashicorp/raft"
)

// pebbleLog is a Raft log on Pebble: one synced batch for StoreLogs, one range delete for
// DeleteRange.
type pebbleLog struct{ db *pebble.DB }

// quiet drops Pebble's messages.
type quiet struct{}

func (quiet) Infof(string, ...any)         {}
func (quiet) Errorf(string, ...any)        {}
func (quiet) Fatalf(text string, _ ...any) { panic(text) }

func openPebble(dir string) (Log, error) {
	cache := pebble.NewCache(8 << 20)
	defer cache.Unref()
	db, err := pebble.Open(dir, &pebble.Options{Cache: cache, MemTableSize: 64 << 20,
		MemTableStopWritesThreshold: 3, FormatMajorVersion: pebble.FormatNewest, Logger: quiet{}})
	return &pebbleLog{db: db}, err
}

func (p *pebbleLog) FirstIndex() (uint64, error) { return p.end((*pebble.Iterator).First) }

func (p *pebbleLog) LastIndex() (uint64, error) { return p.end((*pebble.Iterator).Last) }

func (p *pebbleLog) end(move func(*pebble.Iterator) bool) (index uint64, err error) {
	it, err := p.db.NewIter(nil)
	if err != nil {
		return 0, err
	}
	if move(it) {
		index = binary.BigEndian.Uint64(it.Key())
	}
	return index, errors.Join(it.Error(), it.Close())
}

func (p *pebbleLog) GetLog(index uint64, l *raft.Log) error {
	v, closer, err := p.db.Get(key(index))
	if errors.Is(err, pebble.ErrNotFound) {
		return raft.ErrLogNotFound
	}
	if err != nil {
		return err
	}
	return errors.Join(decode(l, index, append([]byte(nil), v...)), closer.Close())
}

func (p *pebbleLog) StoreLog(l *raft.Log) error { return p.StoreLogs([]*raft.Log{l}) }

func (p *pebbleLog) StoreLogs(logs []*raft.Log) error {
	size := 0
	for _, l := range logs {
		size += len(l.Data) + 64
	}
	b := p.db.NewBatchWithSize(size)
	for _, l := range logs {
		op := b.SetDeferred(8, headerLen+len(l.Data))
		binary.BigEndian.PutUint64(op.Key, l.Index)
		value(op.Value[:0], l)
		if err := op.Finish(); err != nil {
			return err
		}
	}
	return errors.Join(b.Commit(pebble.Sync), b.Close())
}

func (p *pebbleLog) DeleteRange(low, high uint64) error {
	return p.db.DeleteRange(key(low), key(high+1), pebble.Sync)
}

func (p *pebbleLog) Close() error { return p.db.Close() }
