package main

import (
	"bytes"
	"context"
	"log"
	"os"

	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/dump"
	"github.com/loamdb/loam/lsm/replicate"
)

func init() { newer = since03 }

// since03 writes what version 0.3 has beside that: a replica, an encrypted database with its dump,
// and one with large values.
func since03(m *maker) {
	ctx := context.Background()
	db := m.open("replicated", lsm.Options{Format: lsm.FormatNative})
	m.fill(db, 0, 60)
	target, err := replicate.Dir(m.path("replica"), nil)
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan struct{})
	close(ended)
	m.must(replicate.Run(ctx, db, target, &replicate.Options{Until: ended}))
	m.fill(db, 60, 20)
	m.must(db.DeleteRange(key(20), key(25), lsm.NoSync))
	m.must(replicate.Run(ctx, db, target, &replicate.Options{Until: ended}))
	m.note("replica", db)
	m.must(db.Close())

	keys, err := lsm.NewKeyProvider(bytes.Repeat([]byte("k"), 32))
	if err != nil {
		log.Fatal(err)
	}
	db = m.open("encrypted", lsm.Options{Format: lsm.FormatNative, Encryption: keys})
	m.fill(db, 0, 80)
	m.must(db.Flush())
	m.fill(db, 80, 20)
	m.keep("encrypted")
	m.note("encrypted", db)
	var dumped bytes.Buffer
	_, err = dump.Write(ctx, db, &dumped, nil)
	m.must(err)
	m.must(os.WriteFile(m.path("dump-encrypted"), dumped.Bytes(), 0o644))
	m.must(db.Close())

	db = m.open("values", lsm.Options{Format: lsm.FormatNative, LargeValue: 64})
	for i := range 40 {
		m.must(db.Put(key(i), value(i, 1+i%14), lsm.NoSync))
	}
	m.must(db.Flush())
	lines, err := db.Keyspace("lines", &lsm.KeyspaceOptions{
		MergeOperator: lsm.MergeOperatorNamed("append:,")})
	if err != nil {
		log.Fatal(err)
	}
	for i := range 20 { // what is merged is in a value file
		m.must(lines.Merge(key(0), value(i, 1), lsm.NoSync))
	}
	m.must(lines.CompactRange(nil, nil))
	m.fill(db, 0, 10)
	m.keep("values")
	m.note("values", db)
	m.must(db.Close())
}
