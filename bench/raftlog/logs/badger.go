package logs

import (
	"encoding/binary"
	"errors"

	"github.com/dgraph-io/badger/v4"
	"github.com/hashicorp/raft"
)

// badgerLog is a Raft log on Badger: one synced transaction for StoreLogs, a delete of each entry
// for DeleteRange, as Badger has no range deletes. Values of 1 KiB or more are in its value log.
type badgerLog struct{ db *badger.DB }

func openBadger(dir string) (Log, error) {
	db, err := badger.Open(badger.DefaultOptions(dir).WithSyncWrites(true).
		WithValueThreshold(1024).WithNumVersionsToKeep(1).WithLogger(nil))
	return badgerLog{db}, err
}

func (b badgerLog) FirstIndex() (uint64, error) { return b.end(false) }

func (b badgerLog) LastIndex() (uint64, error) { return b.end(true) }

func (b badgerLog) end(last bool) (index uint64, err error) {
	err = b.db.View(func(tx *badger.Txn) error {
		it := tx.NewIterator(badger.IteratorOptions{Reverse: last})
		defer it.Close()
		if it.Rewind(); it.Valid() {
			index = binary.BigEndian.Uint64(it.Item().Key())
		}
		return nil
	})
	return index, err
}

func (b badgerLog) GetLog(index uint64, l *raft.Log) error {
	err := b.db.View(func(tx *badger.Txn) error {
		item, err := tx.Get(key(index))
		if err != nil {
			return err
		}
		v, err := item.ValueCopy(nil)
		if err != nil {
			return err
		}
		return decode(l, index, v)
	})
	if errors.Is(err, badger.ErrKeyNotFound) {
		return raft.ErrLogNotFound
	}
	return err
}

func (b badgerLog) StoreLog(l *raft.Log) error { return b.StoreLogs([]*raft.Log{l}) }

func (b badgerLog) StoreLogs(logs []*raft.Log) error {
	return b.db.Update(func(tx *badger.Txn) error {
		for _, l := range logs {
			if err := tx.Set(key(l.Index), value(nil, l)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (b badgerLog) DeleteRange(low, high uint64) error {
	w := b.db.NewWriteBatch()
	defer w.Cancel()
	for i := low; i <= high; i++ {
		if err := w.Delete(key(i)); err != nil {
			return err
		}
	}
	return w.Flush()
}

func (b badgerLog) Close() error { return b.db.Close() }
