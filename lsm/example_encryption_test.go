package lsm_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/loamdb/loam/lsm"
)

// An encrypted database gets another key: it is opened with the new key, and with the old one for
// the files that have that.
func ExampleDB_Rekey() {
	dir, done := folder()
	defer done()
	with := func(current []byte, older ...[]byte) *lsm.DB {
		keys, err := lsm.NewKeyProvider(current, older...)
		must(err)
		db, err := lsm.Open(dir, &lsm.Options{Format: lsm.FormatNative, Encryption: keys})
		must(err)
		return db
	}
	// In a program: 32 bytes of crypto/rand, kept on another medium.
	first, second := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)

	db := with(first)
	must(db.Put([]byte("ash"), []byte("Fraxinus"), lsm.Sync))
	must(db.Close())
	_, err := lsm.Open(dir, nil)
	fmt.Println("without a key:", errors.Is(err, lsm.ErrEncryption))

	db = with(second, first)
	must(db.Rekey(context.Background()))
	used, err := db.KeysInUse()
	must(err)
	fmt.Println("keys in use:", len(used))
	must(db.Close())

	db = with(second) // the first key is not needed any more
	value, err := db.Get([]byte("ash"), nil)
	fmt.Println(string(value), err)
	must(db.Close())
	// Output:
	// without a key: true
	// keys in use: 1
	// Fraxinus <nil>
}
