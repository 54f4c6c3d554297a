//go:build cgo && rocksdb

package rocksdb

/*
#cgo noescape kv_txn_get
#cgo nocallback kv_txn_get
#cgo noescape kv_txn_put
#cgo nocallback kv_txn_put
#cgo noescape kv_txn_delete
#cgo nocallback kv_txn_delete
#cgo nocallback kv_txn_commit
#cgo nocallback kv_txn_rollback
#include "shim.h"
*/
import "C"

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"github.com/loamdb/loam/internal/workload/store"
)

// open opens all column families, as the engine asks for, plainly or for transactions.
func (d *database) open(dir string, needs store.Needs) error {
	d.names = families(d.options, dir)
	path := C.CString(dir)
	defer C.free(unsafe.Pointer(path))
	n := C.int(len(d.names))
	names, options := make([]*C.char, n), make([]*C.rocksdb_options_t, n)
	d.handles = make([]*C.rocksdb_column_family_handle_t, n)
	for i, name := range d.names {
		names[i], options[i] = C.CString(name), d.options
		defer C.free(unsafe.Pointer(names[i]))
	}
	var msg *C.char
	switch {
	case needs.Locks && C.kv_locks() != 0:
		o := C.rocksdb_transactiondb_options_create()
		defer C.rocksdb_transactiondb_options_destroy(o)
		d.txns.locking = C.rocksdb_transactiondb_open_column_families(d.options, o, path, n,
			&names[0], &options[0], &d.handles[0], &msg)
		if msg == nil {
			d.db = C.kv_base(d.txns.locking)
		}
	case needs.Transactions && !needs.Locks:
		d.txns.optimistic = C.rocksdb_optimistictransactiondb_open_column_families(d.options, path,
			n, &names[0], &options[0], &d.handles[0], &msg)
		if msg == nil {
			d.db = C.rocksdb_optimistictransactiondb_get_base_db(d.txns.optimistic)
		}
	default:
		d.db = C.rocksdb_open_column_families(d.options, path, n, &names[0], &options[0],
			&d.handles[0], &msg)
	}
	d.cf = d.handles[0] // which reads of several keys ask for
	return failure(msg)
}

// families are the names of the column families of a database, the default one first.
func families(o *C.rocksdb_options_t, dir string) []string {
	path := C.CString(dir)
	defer C.free(unsafe.Pointer(path))
	var n C.size_t
	var msg *C.char
	list := C.rocksdb_list_column_families(o, path, &n, &msg)
	names := []string{"default"}
	if failure(msg) != nil { // there is none yet
		return names
	}
	defer C.rocksdb_list_column_families_destroy(list, n)
	for _, name := range unsafe.Slice(list, int(n)) {
		if s := C.GoString(name); s != names[0] {
			names = append(names, s)
		}
	}
	return names
}

// close closes what open opened, without its handles.
func (d *database) close() {
	switch x := &d.txns; {
	case x.locking != nil:
		C.kv_close_base(d.db)
		C.rocksdb_transactiondb_close(x.locking)
	case x.optimistic != nil:
		C.rocksdb_optimistictransactiondb_close_base_db(d.db)
		C.rocksdb_optimistictransactiondb_close(x.optimistic)
	default:
		C.rocksdb_close(d.db)
	}
}

// OpenKeyspaces makes column families of the database's own options.
func (d *database) OpenKeyspaces(n int) error {
	d.spaces = d.spaces[:0]
	for i := range n {
		h, err := d.family(fmt.Sprint("keyspace", i))
		if err != nil {
			return err
		}
		d.spaces = append(d.spaces, h)
	}
	return nil
}

func (d *database) family(name string) (*C.rocksdb_column_family_handle_t, error) {
	if i := slices.Index(d.names, name); i >= 0 {
		return d.handles[i], nil
	}
	c := C.CString(name)
	defer C.free(unsafe.Pointer(c))
	var msg *C.char
	h := C.rocksdb_create_column_family(d.db, d.options, c, &msg)
	if err := failure(msg); err != nil {
		return nil, err
	}
	d.names, d.handles = append(d.names, name), append(d.handles, h)
	return h, nil
}

func (d *database) PutIn(b store.Batch, keyspace int, key, value []byte) {
	b.(*batch).PutIn(keyspace, key, value)
}

func (d *database) DeleteRange(start, limit []byte, sync bool) error {
	s, sn := bytesOf(start)
	l, ln := bytesOf(limit)
	return failure(C.kv_delete_range(d.db, d.mode(sync), d.cf, s, sn, l, ln))
}

// Add fails in a database that was not opened for counters.
func (d *database) Add(key []byte, n uint64, sync bool) error {
	k, kn := bytesOf(key)
	return failure(C.kv_add(d.db, d.mode(sync), k, kn, C.uint64_t(n)))
}

// transactions are what a database was opened with for them.
type transactions struct {
	locking    *C.rocksdb_transactiondb_t
	lock       *C.rocksdb_transaction_options_t
	optimistic *C.rocksdb_optimistictransactiondb_t
	plain      *C.rocksdb_optimistictransaction_options_t

	mu  sync.Mutex
	all []*C.rocksdb_transaction_t // which Begin made
}

// init makes the options: snapshots are off, as is the default of both, and a deadlock is
// found, not waited out.
func (x *transactions) init() {
	x.lock, x.plain =
		C.rocksdb_transaction_options_create(), C.rocksdb_optimistictransaction_options_create()
	C.rocksdb_transaction_options_set_deadlock_detect(x.lock, 1)
}

// end comes before the database is closed, release after.
func (x *transactions) end() {
	for _, t := range x.all {
		C.rocksdb_transaction_destroy(t)
	}
}

func (x *transactions) release() {
	C.rocksdb_transaction_options_destroy(x.lock)
	C.rocksdb_optimistictransaction_options_destroy(x.plain)
}

// transactional is a database that was opened for transactions.
type transactional struct{ *database }

// Begin uses the memory of an old transaction again, as the engine offers.
func (d transactional) Begin(old store.Txn) (store.Txn, error) {
	x := &d.txns
	t, ok := old.(*transaction)
	if !ok {
		t = &transaction{d: d.database}
	}
	if x.locking != nil {
		t.own = C.rocksdb_transaction_begin(x.locking, d.wo[0], x.lock, t.own)
	} else {
		t.own = C.rocksdb_optimistictransaction_begin(x.optimistic, d.wo[0], x.plain, t.own)
	}
	if !ok {
		x.mu.Lock()
		x.all = append(x.all, t.own)
		x.mu.Unlock()
	}
	return t, nil
}

type transaction struct {
	d   *database
	own *C.rocksdb_transaction_t
}

// conflict marks the states that ask for another attempt: Busy, TimedOut and TryAgain.
func conflict(err error) error {
	if err == nil {
		return nil
	}
	for _, state := range []string{"Resource busy", "Operation timed out",
		"Operation failed. Try again."} {
		if strings.HasPrefix(err.Error(), state) {
			return fmt.Errorf("%w: %w", store.ErrConflict, err)
		}
	}
	return err
}

func (t *transaction) GetForUpdate(key, dst []byte) ([]byte, bool, error) {
	k, kn := bytesOf(key)
	p, room := bytesOf(dst[len(dst):cap(dst)])
	g := C.kv_txn_get(t.own, t.d.ro, k, kn, p, room)
	if g.err != nil {
		return dst, false, conflict(failure(g.err))
	}
	dst, found := answer(g, dst)
	return dst, found, nil
}

func (t *transaction) Put(key, value []byte) error {
	k, kn := bytesOf(key)
	v, vn := bytesOf(value)
	return conflict(failure(C.kv_txn_put(t.own, k, kn, v, vn)))
}

func (t *transaction) Delete(key []byte) error {
	k, kn := bytesOf(key)
	return conflict(failure(C.kv_txn_delete(t.own, k, kn)))
}

func (t *transaction) Commit(sync bool) error {
	err := conflict(failure(C.kv_txn_commit(t.own)))
	if err == nil && sync {
		var msg *C.char
		C.rocksdb_flush_wal(t.d.db, 1, &msg)
		err = failure(msg)
	}
	return err
}

func (t *transaction) Rollback() error { return failure(C.kv_txn_rollback(t.own)) }
