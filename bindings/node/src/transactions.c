#include "addon.h"

/* Transactions, and compare-and-swap. transaction.js does one call after the
 * other on each transaction, so that a call on the JavaScript thread never
 * meets one that waits for a lock. */

typedef struct transaction {
  kind kind;
  loam_txn *txn; /* NULL once it has ended */
  atomic_uint refs; /* the JavaScript object, and each work item */
  bool lock;     /* writes and reads for update wait for locks */
} transaction;

static void transaction_close(transaction *t) {
  if (t->txn != NULL) loam.txn_close(t->txn);
  t->txn = NULL;
}

static void transaction_unref(transaction *t) {
  if (atomic_fetch_sub(&t->refs, 1) > 1) return;
  transaction_close(t);
  free(t);
}

static void transaction_finalize(napi_env env, void *data, void *hint) {
  (void)env;
  (void)hint;
  transaction_unref(data);
}

static void throw_done(napi_env env) { throw_status(env, LOAM_ERR_TXN_DONE, NULL); }

/* One that has not ended; NULL: an exception is pending. */
static transaction *arg_live(napi_env env, napi_value value) {
  transaction *t = get_external(env, value, KIND_TRANSACTION);
  if (t == NULL || t->txn != NULL) return t;
  throw_done(env);
  return NULL;
}

bool arg_transaction(napi_env env, napi_value value, loam_txn **txn) {
  napi_valuetype type;
  *txn = NULL;
  if (napi_typeof(env, value, &type) != napi_ok) return false;
  if (type == napi_undefined) return true;
  transaction *t = arg_live(env, value);
  if (t != NULL) *txn = t->txn;
  return t != NULL;
}

typedef struct begin_work {
  work w;
  loam_db *db;
  loam_txn_options options;
  char *name;
  loam_txn *txn; /* until the object has it */
} begin_work;

static void begin_run(work *w) {
  begin_work *x = (begin_work *)w;
  w->status = loam.txn_begin(x->db, &x->options, &x->txn, &w->error);
}

static void begin_release(work *w) {
  begin_work *x = (begin_work *)w;
  free(x->name);
  if (x->txn != NULL) loam.txn_close(x->txn);
}

static napi_value begin_finish(napi_env env, work *w) {
  begin_work *x = (begin_work *)w;
  transaction *t = calloc(1, sizeof *t);
  if (t == NULL) {
    throw_memory(env);
    return NULL;
  }
  t->kind = KIND_TRANSACTION;
  t->refs = 1;
  t->lock = x->options.flags & LOAM_TXN_LOCK;
  t->txn = x->txn;
  x->txn = NULL;
  return make_external(env, t, transaction_finalize);
}

/* At once: the present state is at hand. */
static napi_value begin_now(napi_env env, begin_work *x) {
  napi_value result = NULL;
  begin_run(&x->w);
  loam_status status = x->w.status;
  char *error = x->w.error;
  x->w.error = NULL;
  if (status == LOAM_OK) result = begin_finish(env, &x->w);
  work_fail(&x->w);
  return status == LOAM_OK ? result : refused(env, status, error);
}

/* transactionBegin(database, flags, lock timeout in milliseconds, name): of a database that follows
 * a promise */
napi_value js_transactionBegin(napi_env env, napi_callback_info info) {
  ARGS(4);
  size_t len;
  database *db;
  begin_work *x = work_for(env, argv[0], &db, sizeof *x, begin_run, begin_release);
  if (x == NULL) return NULL;
  x->w.finish = begin_finish;
  x->db = db->db;
  if (!bytes_copy(env, argv[3], &x->name, &len)) return work_fail(&x->w);
  x->options = (loam_txn_options){.struct_size = sizeof x->options, .flags = arg_u32(env, argv[1]),
    .name = x->name};
  napi_get_value_int64(env, argv[2], &x->options.lock_timeout_ms);
  return db->follows ? work_wait(env, &x->w, db) : begin_now(env, x);
}

/* ---- reads, writes and the end ---- */

typedef struct transaction_work {
  work w;
  transaction *t;
  loam_db *db; /* the keyspace */
  bytes args[2]; /* key and value, start and limit */
  uint32_t flags; /* of a read or the commit; the kind of a write */
  void *result; /* the library's */
  size_t result_len;
  double ttl; /* of a put, in seconds; 0: for ever */
} transaction_work;

static void transaction_release(work *w) {
  transaction_work *x = (transaction_work *)w;
  bytes_free(x->args, 2);
  if (x->result != NULL) loam.free(x->result);
  if (x->t != NULL) transaction_unref(x->t);
}

/* An item of the arguments (database, transaction, ...); the database is the keyspace. */
static transaction_work *transaction_call(napi_env env, const napi_value *argv, database **db,
  void (*run)(work *)) {
  transaction_work *x = work_for(env, argv[0], db, sizeof *x, run, transaction_release);
  if (x == NULL) return NULL;
  x->db = (*db)->db;
  if ((x->t = arg_live(env, argv[1])) != NULL) {
    atomic_fetch_add(&x->t->refs, 1);
    return x;
  }
  return (void)work_fail(&x->w), NULL;
}

static void read_run(work *w) {
  transaction_work *x = (transaction_work *)w;
  w->status = loam.txn_get(x->t->txn, x->db, x->args->data, x->args->len, &x->result,
    &x->result_len, &w->error);
}

static void read_for_update_run(work *w) {
  transaction_work *x = (transaction_work *)w;
  w->status = loam.txn_get_for_update(x->t->txn, x->db, x->args->data, x->args->len, &x->result,
    &x->result_len, &w->error);
}

/* The environment ends, and with it a wait for a lock. */
static void transaction_stop(work *w) { loam.txn_rollback(((transaction_work *)w)->t->txn, NULL); }

static napi_value read_finish(napi_env env, work *w) {
  transaction_work *x = (transaction_work *)w;
  napi_value undefined = NULL;
  if (w->status == LOAM_OK) {
    return x->flags & FLAG_AS_BUFFER ? make_bytes(env, x->result, x->result_len) : make_string(
      env, x->result, x->result_len);
  }
  napi_get_undefined(env, &undefined);
  return undefined;
}

/* transactionGet(database, transaction, key, flags, for update) */
napi_value js_transactionGet(napi_env env, napi_callback_info info) {
  ARGS(5);
  database *db;
  bool update = arg_bool(env, argv[4]);
  transaction_work *x = transaction_call(env, argv, &db, update ? read_for_update_run : read_run);
  if (x == NULL) return NULL;
  x->w.finish = read_finish;
  x->w.end = transaction_stop;
  x->flags = arg_u32(env, argv[3]);
  if (!bytes_args(env, argv + 2, x->args, 1)) return work_fail(&x->w);
  return update && x->t->lock ? work_wait(env, &x->w, db) : work_queue(
    env, &x->w, db, "loamdb.transaction");
}

static void has_run(work *w) {
  transaction_work *x = (transaction_work *)w;
  w->status = loam.txn_has(x->t->txn, x->db, x->args->data, x->args->len, &w->error);
}

static napi_value has_finish(napi_env env, work *w) {
  napi_value found = NULL;
  napi_get_boolean(env, w->status == LOAM_OK, &found);
  return found;
}

/* transactionHas(database, transaction, key) */
napi_value js_transactionHas(napi_env env, napi_callback_info info) {
  ARGS(3);
  database *db;
  transaction_work *x = transaction_call(env, argv, &db, has_run);
  if (x == NULL) return NULL;
  x->w.finish = has_finish;
  return bytes_args(env, argv + 2, x->args, 1) ? work_queue(env, &x->w, db, "loamdb.transaction") :
    work_fail(&x->w);
}

static void write_run(work *w) {
  transaction_work *x = (transaction_work *)w;
  loam_txn *txn = x->t->txn;
  const bytes *key = &x->args[0], *value = &x->args[1];
  switch (x->flags) {
  case LOAM_OP_PUT:
    if (x->ttl > 0) {
      w->status = loam.txn_put_ttl(txn, x->db, key->data, key->len, value->data, value->len,
        (uint64_t)x->ttl, &w->error);
      break;
    }
    w->status = loam.txn_put(txn, x->db, key->data, key->len, value->data, value->len, &w->error);
    break;
  case LOAM_OP_MERGE:
    w->status = loam.txn_merge(txn, x->db, key->data, key->len, value->data, value->len, &w->error);
    break;
  case LOAM_OP_DELETE_RANGE:
    w->status = loam.txn_delete_range(txn, x->db, key->data, key->len, value->data, value->len,
      &w->error);
    break;
  default:
    w->status = loam.txn_delete(txn, x->db, key->data, key->len, &w->error);
  }
}

/* Without locks a write stays in memory until the commit. */
static napi_value write_now(napi_env env, transaction_work *x) {
  write_run(&x->w);
  char *error = x->w.error;
  x->w.error = NULL;
  loam_status status = x->w.status;
  work_fail(&x->w);
  return refused(env, status, error);
}

/* transactionWrite(database, transaction, kind, key, value, ttl): a promise or undefined. */
napi_value js_transactionWrite(napi_env env, napi_callback_info info) {
  ARGS(6);
  database *db;
  transaction_work *x = transaction_call(env, argv, &db, write_run);
  if (x == NULL) return NULL;
  x->flags = arg_u32(env, argv[2]);
  x->w.end = transaction_stop;
  napi_get_value_double(env, argv[5], &x->ttl);
  if (!bytes_args(env, argv + 3, x->args, 2)) return work_fail(&x->w);
  return x->t->lock ? work_wait(env, &x->w, db) : write_now(env, x);
}

static void commit_run(work *w) {
  transaction_work *x = (transaction_work *)w;
  w->status = loam.txn_commit(x->t->txn, WRITE(x->flags), &w->error);
  transaction_close(x->t);
}

/* transactionCommit(database, transaction, flags): it has ended afterwards, whatever comes of it.
 * */
napi_value js_transactionCommit(napi_env env, napi_callback_info info) {
  ARGS(3);
  database *db;
  transaction_work *x = transaction_call(env, argv, &db, commit_run);
  if (x == NULL) return NULL;
  x->flags = arg_u32(env, argv[2]);
  return work_wait(env, &x->w, db);
}

/* transactionRollback(transaction); again, it does nothing. */
napi_value js_transactionRollback(napi_env env, napi_callback_info info) {
  ARGS(1);
  transaction *t = get_external(env, argv[0], KIND_TRANSACTION);
  if (t != NULL) transaction_close(t);
  return NULL;
}

/* ---- savepoints ---- */

/* transactionSavepoint(transaction): a number */
napi_value js_transactionSavepoint(napi_env env, napi_callback_info info) {
  ARGS(1);
  uint64_t savepoint = 0;
  char *error = NULL;
  napi_value result = NULL;
  transaction *t = arg_live(env, argv[0]);
  if (t == NULL) return NULL;
  loam_status status = loam.txn_savepoint(t->txn, &savepoint, &error);
  if (status != LOAM_OK) return refused(env, status, error);
  napi_create_double(env, (double)savepoint, &result);
  return result;
}

/* transactionRollbackTo(transaction, savepoint) */
napi_value js_transactionRollbackTo(napi_env env, napi_callback_info info) {
  ARGS(2);
  char *error = NULL;
  transaction *t = arg_live(env, argv[0]);
  if (t == NULL) return NULL;
  loam_status status = loam.txn_rollback_to(t->txn, arg_size(env, argv[1]), &error);
  return refused(env, status, error);
}

/* ---- compare-and-swap ---- */

typedef struct swap_work {
  work w;
  loam_db *db;
  bytes args[3]; /* key, old, value */
  bool sync;
} swap_work;

static void swap_release(work *w) { bytes_free(((swap_work *)w)->args, 3); }

static void swap_run(work *w) {
  swap_work *x = (swap_work *)w;
  const bytes *key = &x->args[0], *old = &x->args[1], *value = &x->args[2];
  w->status = loam.compare_and_swap(x->db, WRITE(x->sync ? LOAM_SYNC : 0), key->data, key->len,
    old->data, old->len, value->data, value->len, &w->error);
}

/* compareAndSwap(database, key, old, value, sync); old undefined: no value; value undefined:
 * delete. */
napi_value js_compareAndSwap(napi_env env, napi_callback_info info) {
  ARGS(5);
  database *db;
  swap_work *x = work_for(env, argv[0], &db, sizeof *x, swap_run, swap_release);
  if (x == NULL) return NULL;
  x->w.finish = has_finish;
  x->db = db->db;
  x->sync = arg_bool(env, argv[4]);
  return bytes_args(env, argv + 1, x->args, 3) ? work_write(env, &x->w, db) : work_fail(&x->w);
}
