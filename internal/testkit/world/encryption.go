package world

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/loamdb/loam/lsm"
)

// ring is a provider whose keys are numbered. It knows all of them.
type ring struct{ current atomic.Int64 }

func (r *ring) Name() string { return "ring" }

func (r *ring) Current(string) (id string, key []byte, err error) {
	id = strconv.FormatInt(r.current.Load(), 10)
	key, err = r.Key(id)
	return id, key, err
}

func (r *ring) Key(id string) ([]byte, error) {
	n, err := strconv.ParseUint(id, 10, 8)
	return bytes.Repeat([]byte{byte(n)}, 32), err
}

// flush flushes, and changes the key of an encrypted database now and then.
func (w *World) flush() error {
	err := w.store(w.space()).Flush()
	keys, ok := w.opts.Encryption.(*ring)
	if err != nil || !ok || w.rng.IntN(4) > 0 {
		return err
	}
	if w.rng.IntN(2) == 0 {
		keys.current.Store((keys.current.Load() + 1) % 200)
	}
	w.log("rekey to %d", keys.current.Load())
	if err := w.db.Rekey(context.Background()); err != nil {
		return err
	}
	uses, err := w.db.KeysInUse()
	for _, u := range uses {
		if u.ID == "" || u.Provider != keys.Name() || u.Files <= 0 {
			return fmt.Errorf("%d files have the key %q of %q", u.Files, u.ID, u.Provider)
		}
	}
	return err
}

// withoutKey opens the database, which is closed, without its key.
func (w *World) withoutKey() error {
	if w.opts.Encryption == nil {
		return nil
	}
	o := w.options(w.fs)
	o.Encryption = nil
	if db, err := lsm.Open(w.dir, o); !errors.Is(err, lsm.ErrEncryption) {
		if err == nil {
			err = db.Close()
		}
		return fmt.Errorf("opened without its key: %w", err)
	}
	return nil
}
