//go:build cgo

/* Transactions: the functions check their arguments and cross into Go. */
#include "shim.h"

#include "_cgo_export.h"

loam_status loam_txn_begin(loam_db *db, const loam_txn_options *options, loam_txn **txn,
  char **err) {
  CLEAR(txn);
  BEGIN(err);
  WANT(err, txn, "txn");
  uint64_t flags = 0, handle = 0;
  int64_t timeout = 0;
  const char *name = NULL;
  if (options) {
    SIZED(err, options, loam_txn_options);
    FLAGS(err, options->flags, LOAM_TXN_SERIALIZABLE | LOAM_TXN_LOCK | LOAM_TXN_READ_ONLY);
    flags = options->flags;
    timeout = options->lock_timeout_ms;
    name = options->name;
    if (timeout > INT64_MAX / 1000000) timeout = -1;
  }
  loam_status status = loamgo_txn_begin(HANDLE(db), flags, timeout, (char *)name, &handle, err);
  *txn = (loam_txn *)(uintptr_t)handle;
  return status;
}

static loam_status txn_get(loam_txn *txn, loam_db *keyspace, int update, const void *key,
  size_t key_len, void **value, size_t *len, char **err) {
  CLEAR(value);
  BEGIN(err);
  WANT(err, value, "value");
  WANT(err, len, "len");
  BYTES(err, key, key_len, "key");
  return loamgo_txn_get(HANDLE(txn), HANDLE(keyspace), update, (void *)key, key_len, value, len,
    err);
}

loam_status loam_txn_get(loam_txn *txn, loam_db *keyspace, const void *key, size_t key_len,
  void **value, size_t *len, char **err) {
  return txn_get(txn, keyspace, 0, key, key_len, value, len, err);
}

loam_status loam_txn_get_for_update(loam_txn *txn, loam_db *keyspace, const void *key,
  size_t key_len, void **value, size_t *len, char **err) {
  return txn_get(txn, keyspace, 1, key, key_len, value, len, err);
}

loam_status loam_txn_put(loam_txn *txn, loam_db *keyspace, const void *key, size_t key_len,
  const void *value, size_t value_len, char **err) {
  BEGIN(err);
  BYTES(err, key, key_len, "key");
  BYTES(err, value, value_len, "value");
  return loamgo_txn_write(HANDLE(txn), HANDLE(keyspace), LOAM_OP_PUT, (void *)key, key_len,
    (void *)value, value_len, err);
}

loam_status loam_txn_delete(loam_txn *txn, loam_db *keyspace, const void *key, size_t key_len,
  char **err) {
  BEGIN(err);
  BYTES(err, key, key_len, "key");
  return loamgo_txn_write(HANDLE(txn), HANDLE(keyspace), LOAM_OP_DELETE, (void *)key, key_len,
    NULL, 0, err);
}

loam_status loam_txn_has(loam_txn *txn, loam_db *keyspace, const void *key, size_t key_len,
  char **err) {
  BEGIN(err);
  BYTES(err, key, key_len, "key");
  return loamgo_txn_has(HANDLE(txn), HANDLE(keyspace), (void *)key, key_len, err);
}

loam_status loam_txn_merge(loam_txn *txn, loam_db *keyspace, const void *key, size_t key_len,
  const void *operand, size_t operand_len, char **err) {
  BEGIN(err);
  BYTES(err, key, key_len, "key");
  BYTES(err, operand, operand_len, "operand");
  return loamgo_txn_write(HANDLE(txn), HANDLE(keyspace), LOAM_OP_MERGE, (void *)key, key_len,
    (void *)operand, operand_len, err);
}

loam_status loam_txn_delete_range(loam_txn *txn, loam_db *keyspace, const void *start,
  size_t start_len, const void *limit, size_t limit_len, char **err) {
  BEGIN(err);
  BYTES(err, start, start_len, "start");
  BYTES(err, limit, limit_len, "limit");
  return loamgo_txn_write(HANDLE(txn), HANDLE(keyspace), LOAM_OP_DELETE_RANGE, (void *)start,
    start_len, (void *)limit, limit_len, err);
}

loam_status loam_txn_savepoint(loam_txn *txn, uint64_t *savepoint, char **err) {
  BEGIN(err);
  WANT(err, savepoint, "savepoint");
  return loamgo_txn_savepoint(HANDLE(txn), savepoint, err);
}

loam_status loam_txn_rollback_to(loam_txn *txn, uint64_t savepoint, char **err) {
  BEGIN(err);
  return loamgo_txn_rollback_to(HANDLE(txn), savepoint, err);
}

loam_status loam_txn_commit(loam_txn *txn, const loam_write_options *options, char **err) {
  BEGIN(err);
  WRITING(err, options);
  return loamgo_txn_commit(HANDLE(txn), flags, err);
}

loam_status loam_txn_rollback(loam_txn *txn, char **err) {
  BEGIN(err);
  return loamgo_txn_rollback(HANDLE(txn), err);
}

loam_status loam_txn_close(loam_txn *txn) {
  return loam_release(HANDLE(txn), LOAMGO_TXN);
}

static loam_status swap(loam_db *db, const loam_write_options *options, const void *key,
  size_t key_len, const void *old, size_t old_len, const void *value, size_t value_len,
  char **err) {
  int swapped = 0;
  WRITING(err, options);
  BYTES(err, key, key_len, "key");
  loam_status status = loamgo_compare_and_swap(HANDLE(db), (void *)key, key_len, (void *)old,
    old_len, (void *)value, value_len, flags, &swapped, err);
  return status == LOAM_OK && !swapped ? LOAM_MISMATCH : status;
}

loam_status loam_compare_and_swap(loam_db *db, const loam_write_options *options, const void *key,
  size_t key_len, const void *old, size_t old_len, const void *value, size_t value_len,
  char **err) {
  BEGIN(err);
  BOUND(err, old, old_len, "old value");
  BOUND(err, value, value_len, "value");
  return swap(db, options, key, key_len, old, old_len, value, value_len, err);
}

loam_status loam_put_if_absent(loam_db *db, const loam_write_options *options, const void *key,
  size_t key_len, const void *value, size_t value_len, char **err) {
  BEGIN(err);
  BYTES(err, value, value_len, "value");
  return swap(db, options, key, key_len, NULL, 0, value ? value : "", value_len, err);
}
