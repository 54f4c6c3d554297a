package badger

import (
	"errors"
	"os"

	"github.com/dgraph-io/badger/v4"
)

// Dump is the engine's backup, which is a stream of entries.
func (d *database) Dump(file string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = d.db.Backup(f, 0)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// pending is how many writes a load has under way, as the engine's own command has.
const pending = 256

// LoadDump makes a database with the options of this one.
func (d *database) LoadDump(file, to string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	db, err := badger.Open(d.options.WithDir(to).WithValueDir(to))
	if err != nil {
		return err
	}
	err = db.Load(f, pending)
	if err == nil {
		err = db.Sync()
	}
	return errors.Join(err, db.Close())
}
