package crash

import (
	"bytes"

	"github.com/loamdb/loam/lsm"
)

// encryption encrypts the databases of this package unless it is nil.
var encryption lsm.KeyProvider

// encrypt makes the databases of this package encrypted ones, until restore.
func encrypt() (restore func(), err error) {
	encryption, err = lsm.NewKeyProvider(bytes.Repeat([]byte{7}, 32))
	return func() { encryption = nil }, err
}
