// Calls of SQLite's interface put together so that one call from Go does what one
// operation needs. Functions return SQLite's codes, 0 for success.
#include <sqlite3.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct sq_env sq_env;

// A connection with its statements, used by one thread at a time: a read transaction where it is a
// snapshot.
typedef struct sq_conn sq_conn;

// A read transaction and a query in it.
typedef struct sq_iter sq_iter;

// cache is the page cache of each connection in KiB, log the pages of the log from which on a
// commit moves them to the database.
int sq_open(const char* file, int cache, int log, sq_env** out);
int sq_close(sq_env* e);

// rc 0: the value, n bytes, was copied to dst, or, when longer than cap, handed
// over in big. rc SQLITE_NOTFOUND: not there.
typedef struct { int rc; int64_t n; char* big; } got;

// in NULL reads the newest state.
got sq_get(sq_env* e, sq_conn* in, const char* k, size_t kn, char* dst, size_t cap);

// need is what the values take together.
typedef struct { int rc; int64_t need; } many;

// Reads n packed keys in one transaction.
many sq_multi_get(sq_env* e, sq_conn* in, const char* p, int64_t n, char* dst, size_t cap,
  uint64_t* ends, uint8_t* found);

// One transaction each; sync makes it durable.
int sq_put(sq_env* e, int sync, const char* k, size_t kn, const char* v, size_t vn);
int sq_delete(sq_env* e, int sync, const char* k, size_t kn);
int sq_write(sq_env* e, int sync, const char* p, int64_t n);

int sq_snapshot(sq_env* e, sq_conn** out);
int sq_snapshot_close(sq_env* e, sq_conn* c);

// in NULL: an iterator with a transaction of its own.
int sq_iter_open(sq_env* e, sq_conn* in, sq_iter** out);
void sq_iter_close(sq_iter* it);
int sq_iter_error(sq_iter* it);

typedef struct { int64_t n, used, need; } run;

run sq_fetch(sq_iter* it, int op, const char* k, size_t kn, int backward, int64_t limit, char* dst,
  size_t cap);

// Copies a database to a new file by the online backup interface, in one step. e NULL: that in the
// file from.
int sq_copy(sq_env* e, const char* from, const char* to);
