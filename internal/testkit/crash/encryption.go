package crash

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/seal"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/fstest"
	"github.com/loamdb/loam/lsm"
)

// encryption encrypts the databases of this package unless it is nil.
var encryption lsm.KeyProvider

// encrypt makes the databases of this package encrypted ones, until restore.
func encrypt() (restore func(), err error) {
	encryption, err = lsm.NewKeyProvider(bytes.Repeat([]byte{7}, 32))
	return func() { encryption = nil }, err
}

// sealed reports whether the bytes of a file have a header of the encryption.
func sealed(b []byte) bool { return bytes.Contains(b, []byte(seal.Magic)) }

// seen wants a damaged table or MANIFEST of an encrypted database to be found by Open or Verify,
// even where no key or value is missing: each byte of them is authenticated. Logs may have bytes of
// a former life, which are nothing; of the others, verify misses the records.
func (g *golden) seen(fs vfs.FS, d damage) error {
	t := fstest.TypeOf(d.file)
	if encryption == nil || g.unprotected(d) || t != base.FileTable && t != base.FileManifest {
		return nil
	}
	if t == base.FileManifest && (d.flip == 0 || d.at >= lastRecord(d.original)) {
		return nil // it may be what a power cut during its last edit leaves
	}
	o := options()
	o.FS = fs
	db, err := lsm.Open(dir, &o)
	if err != nil {
		return nil
	}
	defer db.Close()
	if !db.RecoveryReport().WasClean {
		return nil
	}
	err = db.Verify(context.Background(), nil)
	if t == base.FileTable && !live(db, d.file) {
		return nil // a range delete covers all of it, so that it was dropped unread
	}
	if !errors.Is(err, lsm.ErrCorruption) {
		return fmt.Errorf("it does not show in Open, and in Verify as %w",
			cmp.Or(err, errNothing))
	}
	return nil
}

// live reports whether a table is part of the default keyspace.
func live(db *lsm.DB, name string) bool {
	_, num := base.Native.ParseFileName(path.Base(name))
	tables, _ := db.Property("leveldb.sstables")
	return strings.Contains(tables, fmt.Sprintf(" %d:", num))
}

var errNothing = errors.New("nothing")
