package lsm_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strconv"
	"sync"

	"github.com/loamdb/loam/lsm"
)

func ExampleDB_Update() {
	db, done := open()
	defer done()
	must(db.Put([]byte("alice"), []byte("90"), lsm.NoSync))
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
	must(tx.Put([]byte("k"), []byte("1")))
	before := tx.SavePoint()
	must(tx.Put([]byte("k"), []byte("2")))
	must(tx.RollbackTo(before))
	fmt.Println(tx.Commit(lsm.Sync))
	v, _ := db.Get([]byte("k"), nil)
	fmt.Println(string(v))
	// Output:
	// <nil>
	// 1
}

// All reads of a View are of one state.
func ExampleDB_View() {
	db, done := open()
	defer done()
	must(db.Put([]byte("alice"), []byte("90"), lsm.NoSync))
	must(db.Put([]byte("bob"), []byte("110"), lsm.NoSync))
	err := db.View(func(tx *lsm.Txn) error {
		alice, err := tx.Get([]byte("alice"), nil)
		if err != nil {
			return err
		}
		bob, err := tx.Get([]byte("bob"), nil)
		fmt.Printf("%s %s\n", alice, bob)
		return err
	})
	fmt.Println(err)
	// Output:
	// 90 110
	// <nil>
}

// With locks, transactions on one key wait for each other and none is in vain.
func ExampleTxn_GetForUpdate() {
	db, done := open()
	defer done()
	must(db.Put([]byte("stock"), []byte("100"), lsm.NoSync))
	take := func(tx *lsm.Txn) error {
		v, err := tx.GetForUpdate([]byte("stock"), nil)
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(string(v))
		if err != nil {
			return err
		}
		return tx.Put([]byte("stock"), strconv.AppendInt(nil, int64(n-1), 10))
	}
	o := &lsm.TxnOptions{Lock: true, LockTimeout: -1}
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() { must(db.UpdateWith(context.Background(), o, take)) })
	}
	all.Wait()
	v, err := db.Get([]byte("stock"), nil)
	fmt.Println(string(v), err, db.Metrics().Txn.Conflicts)
	// Output: 90 <nil> 0
}

// A transaction over two keyspaces.
func ExampleTxn_In() {
	db, done := open()
	defer done()
	users, err := db.Keyspace("users", nil)
	must(err)
	byMail, err := db.Keyspace("users by mail", nil)
	must(err)
	must(db.Update(context.Background(), func(tx *lsm.Txn) error {
		return errors.Join(
			tx.In(users).Put([]byte("1"), []byte("ann@example.org")),
			tx.In(byMail).Put([]byte("ann@example.org"), []byte("1")))
	}))
	id, err := byMail.Get([]byte("ann@example.org"), nil)
	fmt.Println(string(id), err)
	// Output: 1 <nil>
}

func ExampleConflictError() {
	db, done := open()
	defer done()
	tx := db.Begin(nil)
	defer tx.Rollback()
	if _, err := tx.GetForUpdate([]byte("k"), nil); !errors.Is(err, lsm.ErrNotFound) {
		log.Fatal(err)
	}
	must(db.Put([]byte("k"), []byte("faster"), lsm.NoSync))
	must(tx.Put([]byte("k"), []byte("slower")))
	err := tx.Commit(lsm.NoSync)
	var conflict *lsm.ConflictError
	fmt.Println(errors.Is(err, lsm.ErrConflict), errors.As(err, &conflict), string(conflict.Key))
	// Output: true true k
}

// Two transactions take two locks in different orders; the one that closes the circle fails.
func ExampleDeadlockError() {
	db, done := open()
	defer done()
	a := db.Begin(&lsm.TxnOptions{Lock: true, LockTimeout: -1, Name: "a"})
	defer a.Rollback()
	b := db.Begin(&lsm.TxnOptions{Lock: true, LockTimeout: -1, Name: "b"})
	defer b.Rollback()
	must(a.Put([]byte("x"), nil))
	must(b.Put([]byte("y"), nil))
	failed := make(chan error, 2)
	go func() { failed <- a.Put([]byte("y"), nil) }()
	go func() { failed <- b.Put([]byte("x"), nil) }()

	err := <-failed
	var deadlock *lsm.DeadlockError
	fmt.Println(errors.Is(err, lsm.ErrDeadlock), errors.As(err, &deadlock))
	if deadlock.Waiter == "a" { // gives its locks to the other
		must(a.Rollback())
	} else {
		must(b.Rollback())
	}
	fmt.Println(<-failed)
	// Output:
	// true true
	// <nil>
}

func ExampleTxn_DeleteRange() {
	db, done := open()
	defer done()
	for _, key := range []string{"a", "old/1", "old/2", "z"} {
		must(db.Put([]byte(key), nil, lsm.NoSync))
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
