// Calls of LMDB's interface put together so that one call from Go does what one
// operation needs. Functions return LMDB's codes, 0 for success.
#include <lmdb.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct kv_env kv_env;

// A read transaction and a cursor on it.
typedef struct kv_iter kv_iter;

int kv_open(const char* dir, size_t map, unsigned readers, kv_env** out);
void kv_close(kv_env* e);
int kv_sync(kv_env* e);
int kv_stat(kv_env* e, MDB_stat* out);

// rc 0: the value, n bytes, was copied to dst, or, when longer than cap, handed
// over in big. rc MDB_NOTFOUND: not there.
typedef struct { int rc; int64_t n; char* big; } got;

// txn NULL reads the newest state, in a transaction of the calling thread.
got kv_get(kv_env* e, MDB_txn* txn, const char* k, size_t kn, char* dst, size_t cap);

// The value where it lies, until kv_unpin. *txn is NULL or that of an earlier kv_pin, which
// is renewed; mdb_txn_abort ends it.
typedef struct { int rc; int64_t n; const char* v; } pinned;

pinned kv_pin(kv_env* e, MDB_txn** txn, const char* k, size_t kn);
void kv_unpin(MDB_txn* txn);

// need is what the values take together.
typedef struct { int rc; int64_t need; } many;

// Reads n packed keys in one transaction.
many kv_multi_get(kv_env* e, MDB_txn* txn, const char* p, int64_t n, char* dst, size_t cap,
  uint64_t* ends, uint8_t* found);

// One transaction each; sync makes it durable.
int kv_put(kv_env* e, int sync, const char* k, size_t kn, const char* v, size_t vn);
int kv_delete(kv_env* e, int sync, const char* k, size_t kn);
int kv_write(kv_env* e, int sync, const char* p, int64_t n);

int kv_snapshot(kv_env* e, MDB_txn** out);

// txn NULL: an iterator with a transaction of its own.
int kv_iter_open(kv_env* e, MDB_txn* txn, kv_iter** out);
void kv_iter_close(kv_iter* it);
int kv_iter_error(kv_iter* it);

typedef struct { int64_t n, used, need; } run;

run kv_fetch(kv_iter* it, int op, const char* k, size_t kn, int backward, int64_t limit, char* dst,
  size_t cap);
