package lsm_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/loamdb/loam/lsm"
)

func ExampleDB_Update() {
	db, done := open()
	defer done()
	if err := db.Put([]byte("alice"), []byte("90"), lsm.NoSync); err != nil {
		log.Fatal(err)
	}
	// The function runs again if another transaction wrote alice meanwhile.
	err := db.Update(context.Background(), func(tx *lsm.Txn) error {
		v, err := tx.Get([]byte("alice"), nil)
		if err != nil {
			return err
		}
		return tx.Put([]byte("alice"), append(v, '!'))
	})
	v, _ := db.Get([]byte("alice"), nil)
	fmt.Println(string(v), err)
	// Output: 90! <nil>
}

func ExampleDB_Begin() {
	db, done := open()
	defer done()
	tx := db.Begin(&lsm.TxnOptions{Isolation: lsm.Serializable})
	defer tx.Rollback()
	if err := tx.Put([]byte("k"), []byte("1")); err != nil {
		log.Fatal(err)
	}
	before := tx.SavePoint()
	if err := tx.Put([]byte("k"), []byte("2")); err != nil {
		log.Fatal(err)
	}
	if err := tx.RollbackTo(before); err != nil {
		log.Fatal(err)
	}
	fmt.Println(tx.Commit(lsm.Sync))
	v, _ := db.Get([]byte("k"), nil)
	fmt.Println(string(v))
	// Output:
	// <nil>
	// 1
}

func ExampleConflictError() {
	db, done := open()
	defer done()
	tx := db.Begin(nil)
	defer tx.Rollback()
	if _, err := tx.GetForUpdate([]byte("k"), nil); !errors.Is(err, lsm.ErrNotFound) {
		log.Fatal(err)
	}
	if _, err := db.PutIfAbsent([]byte("k"), []byte("faster"), lsm.NoSync); err != nil {
		log.Fatal(err)
	}
	if err := tx.Put([]byte("k"), []byte("slower")); err != nil {
		log.Fatal(err)
	}
	err := tx.Commit(lsm.NoSync)
	var conflict *lsm.ConflictError
	fmt.Println(errors.Is(err, lsm.ErrConflict), errors.As(err, &conflict), string(conflict.Key))
	// Output: true true k
}

func ExampleTxn_DeleteRange() {
	db, done := open()
	defer done()
	for _, key := range []string{"a", "old/1", "old/2", "z"} {
		if err := db.Put([]byte(key), nil, lsm.NoSync); err != nil {
			log.Fatal(err)
		}
	}
	err := db.Update(context.Background(), func(tx *lsm.Txn) error {
		if err := tx.DeleteRange([]byte("old/"), []byte("old0")); err != nil {
			return err
		}
		return tx.Put([]byte("old/3"), nil)
	})
	var failed error
	for key := range db.All(nil, nil, &failed) {
		fmt.Println(string(key))
	}
	fmt.Println(err, failed)
	// Output:
	// a
	// old/3
	// z
	// <nil> <nil>
}
