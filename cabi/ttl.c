//go:build cgo

/* Values that expire. */
#include "shim.h"

#include "_cgo_export.h"

loam_status loam_put_ttl(loam_db *db, const loam_write_options *options, const void *key,
  size_t key_len, const void *value, size_t value_len, uint64_t seconds, uint64_t *sequence,
  char **err) {
  BEGIN(err);
  WRITING(err, options);
  BYTES(err, key, key_len, "key");
  BYTES(err, value, value_len, "value");
  return loamgo_put_ttl(HANDLE(db), (void *)key, key_len, (void *)value, value_len, seconds, flags,
    sequence, err);
}

loam_status loam_txn_put_ttl(loam_txn *txn, loam_db *keyspace, const void *key, size_t key_len,
  const void *value, size_t value_len, uint64_t seconds, char **err) {
  BEGIN(err);
  BYTES(err, key, key_len, "key");
  BYTES(err, value, value_len, "value");
  return loamgo_txn_put_ttl(HANDLE(txn), HANDLE(keyspace), (void *)key, key_len, (void *)value,
    value_len, seconds, err);
}
