package lsm_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/crashfs"
)

// Damage is an error that says where it is.
func ExampleCorruptionError() {
	dir, done := folder()
	defer done()
	makeDamaged(dir)

	db, err := lsm.Open(dir, nil)
	must(err)
	defer db.Close()
	_, err = db.Get([]byte("0600"), nil)
	var damage *lsm.CorruptionError
	fmt.Println(errors.Is(err, lsm.ErrCorruption), errors.As(err, &damage))
	fmt.Println(damage.Kind, damage.Offset >= 0, damage.Length > 0)
	// Output:
	// true true
	// table block true true
}

// makeDamaged makes a database in dir and changes a byte in the middle of its table.
func makeDamaged(dir string) {
	db, err := lsm.Open(dir, &lsm.Options{Compression: lsm.NoCompression})
	must(err)
	for i := range 1000 {
		must(db.Put(fmt.Appendf(nil, "%04d", i), []byte("value"), lsm.NoSync))
	}
	must(db.Flush())
	must(db.Close())
	tables, err := filepath.Glob(filepath.Join(dir, "*.loam"))
	must(err)
	data, err := os.ReadFile(tables[0])
	must(err)
	data[len(data)/2] ^= 1
	must(os.WriteFile(tables[0], data, 0o600))
}

func ExampleDB_Verify() {
	dir, done := folder()
	defer done()
	makeDamaged(dir)
	db, err := lsm.Open(dir, nil)
	must(err)
	defer db.Close()
	err = db.Verify(context.Background(), nil)
	fmt.Println(errors.Is(err, lsm.ErrCorruption))
	// Output: true
}

// A repair keeps the readable entries and reports the range of the lost ones.
func ExampleRepair() {
	dir, done := folder()
	defer done()
	makeDamaged(dir)
	report, err := lsm.Repair(dir, nil)
	must(err)
	for _, d := range report.Dropped {
		fmt.Printf("lost: %s to %s\n", d.Smallest, d.Largest)
	}
	fmt.Println(report.Changed(), len(report.SetAside), "files in the folder lost")

	db, err := lsm.Open(dir, nil)
	must(err)
	defer db.Close()
	fmt.Println(db.Verify(context.Background(), nil))
	// Output:
	// lost: 0481 to 0964
	// true 3 files in the folder lost
	// <nil>
}

// A crash leaves a log, which the next Open replays.
func ExampleDB_RecoveryReport() {
	disk := crashfs.New()
	db, err := lsm.Open("/db", &lsm.Options{FS: disk})
	must(err)
	must(db.Put([]byte("k"), []byte("v"), lsm.Sync))
	after := disk.Crash(crashfs.DropUnsynced, 1) // the power is cut
	must(db.Close())

	db, err = lsm.Open("/db", &lsm.Options{FS: after})
	must(err)
	defer db.Close()
	r := db.RecoveryReport()
	fmt.Println(r.Entries, "entry replayed, clean:", r.WasClean)
	// Output: 1 entry replayed, clean: true
}
