package replicate

import (
	"bytes"
	"errors"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/lsm"
)

// TestEncrypted: of an encrypted database nothing is sent, unless that is permitted. What is
// restored with keys is encrypted.
func TestEncrypted(t *testing.T) {
	keys, err := lsm.NewKeyProvider(bytes.Repeat([]byte{1}, 32))
	must(t, err)
	fsys := vfs.NewMem()
	o := &lsm.Options{FS: fsys, Encryption: keys}
	db, err := lsm.Open("/db", o)
	must(t, err)
	defer db.Close()
	must(t, db.Put([]byte("k"), []byte("v"), lsm.Sync))
	target, until := newMem(), make(chan struct{})
	close(until)
	err = Run(ctx, db, target, &Options{Until: until})
	if !errors.Is(err, lsm.ErrInvalidArgument) || len(target.objects) > 0 {
		t.Fatalf("%v, and %d objects were sent", err, len(target.objects))
	}
	must(t, Run(ctx, db, target, &Options{Until: until, AllowClear: true}))
	_, err = Restore(ctx, target, "/new", &RestoreOptions{Open: o})
	must(t, err)
	if _, err := lsm.Open("/new", &lsm.Options{FS: fsys}); !errors.Is(err, lsm.ErrEncryption) {
		t.Errorf("the restored database without keys: %v", err)
	}
	restored, err := lsm.Open("/new", o)
	must(t, err)
	defer restored.Close()
	if v, err := restored.Get([]byte("k"), nil); err != nil || string(v) != "v" {
		t.Errorf("restored %q, %v", v, err)
	}
}
