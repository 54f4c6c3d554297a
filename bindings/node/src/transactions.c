#include "addon.h"

/* Transactions, and compare-and-swap. transaction.js does one call after the
 * other on each transaction, so that a call on the JavaScript thread never
 * meets one that waits for a lock. */

typedef struct transaction {
  kind kind;
  loam_txn *txn; /* NULL once it has ended */
  unsigned refs; /* the JavaScript object, and each work item */
  bool lock;     /* writes and reads for update wait for locks */
} transaction;

static void transaction_close(transaction *t) {
  if (t->txn != NULL) loam.txn_close(t->txn);
  t->txn = NULL;
}

static void transaction_unref(transaction *t) {
  if (--t->refs > 0) return;
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

/* transactionBegin(database, flags, lock timeout in milliseconds, name) */
napi_value js_transactionBegin(napi_env env, napi_callback_info info) {
  ARGS(4);
  char *error = NULL, *name = NULL;
  size_t len;
  database *db = arg_open_database(env, argv[0]);
  if (db == NULL || !bytes_copy(env, argv[3], &name, &len)) return NULL;
  loam_txn_options o = {.struct_size = sizeof o, .flags = arg_u32(env, argv[1]), .name = name};
  napi_get_value_int64(env, argv[2], &o.lock_timeout_ms);
  transaction *t = calloc(1, sizeof *t);
  if (t == NULL) {
    free(name);
    throw_memory(env);
    return NULL;
  }
  t->kind = KIND_TRANSACTION;
  t->refs = 1;
  t->lock = o.flags & LOAM_TXN_LOCK;
  loam_status status = loam.txn_begin(db->db, &o, &t->txn, &error);
  free(name);
  if (status == LOAM_OK) return make_external(env, t, transaction_finalize);
  free(t);
  throw_status(env, status, error);
  return NULL;
}

/* ---- reads, writes and the end ---- */

typedef struct transaction_work {
  work w;
  transaction *t;
  loam_db *db; /* the keyspace */
  char *key, *value;
  size_t key_len, value_len;
  uint32_t flags;
  void *result; /* the library's */
  size_t result_len;
} transaction_work;

static void transaction_release(work *w) {
  transaction_work *x = (transaction_work *)w;
  free(x->key);
  free(x->value);
  if (x->result != NULL) loam.free(x->result);
  transaction_unref(x->t);
}

static transaction_work *transaction_work_new(napi_env env, transaction *t, void (*run)(work *)) {
  transaction_work *x = work_new(env, sizeof *x);
  if (x == NULL) return NULL;
  x->w.run = run;
  x->w.release = transaction_release;
  x->t = t;
  t->refs++;
  return x;
}

static napi_value transaction_fail(transaction_work *x) {
  transaction_release(&x->w);
  free(x);
  return NULL;
}

static void read_run(work *w) {
  transaction_work *x = (transaction_work *)w;
  w->status = loam.txn_get(x->t->txn, x->db, x->key, x->key_len, &x->result, &x->result_len, &w->error);
}

static void read_for_update_run(work *w) {
  transaction_work *x = (transaction_work *)w;
  w->status = loam.txn_get_for_update(x->t->txn, x->db, x->key, x->key_len, &x->result, &x->result_len, &w->error);
}

static napi_value read_finish(napi_env env, work *w) {
  transaction_work *x = (transaction_work *)w;
  napi_value undefined = NULL;
  if (w->status == LOAM_OK) return x->flags & FLAG_AS_BUFFER ? make_bytes(env, x->result, x->result_len) : make_string(env, x->result, x->result_len);
  napi_get_undefined(env, &undefined);
  return undefined;
}

/* transactionGet(database, transaction, key, flags, for update); the database is the keyspace. */
napi_value js_transactionGet(napi_env env, napi_callback_info info) {
  ARGS(5);
  bool update = false;
  database *db = arg_open_database(env, argv[0]);
  transaction *t = db == NULL ? NULL : arg_live(env, argv[1]);
  if (t == NULL) return NULL;
  napi_get_value_bool(env, argv[4], &update);
  transaction_work *x = transaction_work_new(env, t, update ? read_for_update_run : read_run);
  if (x == NULL) return NULL;
  x->w.finish = read_finish;
  x->db = db->db;
  x->flags = arg_u32(env, argv[3]);
  if (!bytes_copy(env, argv[2], &x->key, &x->key_len)) return transaction_fail(x);
  return update && t->lock ? work_start(env, &x->w, db, "loamdb.lock") : work_queue(env, &x->w, db, true, "loamdb.transaction");
}

static void write_run(work *w) {
  transaction_work *x = (transaction_work *)w;
  w->status = x->value == NULL ? loam.txn_delete(x->t->txn, x->db, x->key, x->key_len, &w->error)
                               : loam.txn_put(x->t->txn, x->db, x->key, x->key_len, x->value, x->value_len, &w->error);
}

/* Without locks a write stays in memory until the commit. */
static napi_value write_now(napi_env env, transaction_work *x) {
  write_run(&x->w);
  if (x->w.status < 0) throw_status(env, x->w.status, x->w.error);
  return transaction_fail(x);
}

/* transactionPut(database, transaction, key, value): a promise or undefined; value undefined: delete. */
napi_value js_transactionPut(napi_env env, napi_callback_info info) {
  ARGS(4);
  database *db = arg_open_database(env, argv[0]);
  transaction *t = db == NULL ? NULL : arg_live(env, argv[1]);
  if (t == NULL) return NULL;
  transaction_work *x = transaction_work_new(env, t, write_run);
  if (x == NULL) return NULL;
  x->db = db->db;
  if (!bytes_copy(env, argv[2], &x->key, &x->key_len) || !bytes_copy(env, argv[3], &x->value, &x->value_len)) return transaction_fail(x);
  return t->lock ? work_start(env, &x->w, db, "loamdb.lock") : write_now(env, x);
}

static void commit_run(work *w) {
  transaction_work *x = (transaction_work *)w;
  w->status = loam.txn_commit(x->t->txn, WRITE(x->flags), &w->error);
  transaction_close(x->t);
}

/* transactionCommit(database, transaction, flags): it has ended afterwards, whatever comes of it. */
napi_value js_transactionCommit(napi_env env, napi_callback_info info) {
  ARGS(3);
  database *db = arg_open_database(env, argv[0]);
  transaction *t = db == NULL ? NULL : arg_live(env, argv[1]);
  if (t == NULL) return NULL;
  transaction_work *x = transaction_work_new(env, t, commit_run);
  if (x == NULL) return NULL;
  x->flags = arg_u32(env, argv[2]);
  return work_queue(env, &x->w, db, true, "loamdb.commit");
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
  if (status == LOAM_OK) {
    napi_create_double(env, (double)savepoint, &result);
  } else {
    throw_status(env, status, error);
  }
  return result;
}

/* transactionRollbackTo(transaction, savepoint) */
napi_value js_transactionRollbackTo(napi_env env, napi_callback_info info) {
  ARGS(2);
  char *error = NULL;
  transaction *t = arg_live(env, argv[0]);
  if (t == NULL) return NULL;
  loam_status status = loam.txn_rollback_to(t->txn, arg_size(env, argv[1]), &error);
  if (status != LOAM_OK) throw_status(env, status, error);
  return NULL;
}

/* ---- compare-and-swap ---- */

typedef struct swap_work {
  work w;
  loam_db *db;
  char *key, *old, *value;
  size_t key_len, old_len, value_len;
  bool sync;
} swap_work;

static void swap_release(work *w) {
  swap_work *x = (swap_work *)w;
  free(x->key);
  free(x->old);
  free(x->value);
}

static void swap_run(work *w) {
  swap_work *x = (swap_work *)w;
  w->status = loam.compare_and_swap(x->db, WRITE(x->sync ? LOAM_SYNC : 0), x->key, x->key_len, x->old, x->old_len, x->value, x->value_len, &w->error);
}

static napi_value swap_finish(napi_env env, work *w) {
  napi_value swapped = NULL;
  napi_get_boolean(env, w->status == LOAM_OK, &swapped);
  return swapped;
}

/* compareAndSwap(database, key, old, value, sync); old undefined: no value; value undefined: delete. */
napi_value js_compareAndSwap(napi_env env, napi_callback_info info) {
  ARGS(5);
  database *db = arg_open_database(env, argv[0]);
  if (db == NULL) return NULL;
  swap_work *x = work_new(env, sizeof *x);
  if (x == NULL) return NULL;
  x->w.run = swap_run;
  x->w.finish = swap_finish;
  x->w.release = swap_release;
  x->db = db->db;
  napi_get_value_bool(env, argv[4], &x->sync);
  if (!bytes_copy(env, argv[1], &x->key, &x->key_len) || !bytes_copy(env, argv[2], &x->old, &x->old_len) || !bytes_copy(env, argv[3], &x->value, &x->value_len)) {
    swap_release(&x->w);
    free(x);
    return NULL;
  }
  return work_queue_write(env, &x->w, db, "loamdb.compareAndSwap");
}
