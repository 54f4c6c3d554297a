//go:build cgo

/* Keyspaces. Their handles are of the kind of databases. */
#include "shim.h"

#include "_cgo_export.h"

loam_status loam_keyspace_open(loam_db *db, const char *name, const loam_options *options,
  loam_db **keyspace, char **err) {
  CLEAR(keyspace);
  BEGIN(err);
  WANT(err, name, "name");
  WANT(err, keyspace, "keyspace");
  uint64_t handle = 0;
  loam_status status = loamgo_keyspace_open(HANDLE(db), (char *)name, HANDLE(options), &handle,
    err);
  *keyspace = (loam_db *)(uintptr_t)handle;
  return status;
}

loam_status loam_keyspace_drop(loam_db *db, const char *name, char **err) {
  BEGIN(err);
  WANT(err, name, "name");
  return loamgo_keyspace_drop(HANDLE(db), (char *)name, err);
}

loam_status loam_keyspace_number(loam_db *keyspace, uint32_t *number, char **err) {
  BEGIN(err);
  WANT(err, number, "number");
  uint64_t opening = 0;
  return loamgo_keyspace_number(HANDLE(keyspace), number, &opening, err);
}

loam_status loam_write_bytes(loam_db *db, const loam_write_options *options, void *data,
  size_t len, uint64_t *sequence, char **err) {
  BEGIN(err);
  WRITING(err, options);
  BYTES(err, data, len, "batch");
  loam_status status = loamgo_write(HANDLE(db), 0, data, len, flags, err);
  if (sequence && status == LOAM_OK) {
    const uint8_t *p = data;
    uint64_t first = 0, n = 0;
    for (int i = 0; i < 8; i++) first |= (uint64_t)p[i] << 8 * i;
    for (int i = 0; i < 4; i++) n |= (uint64_t)p[8 + i] << 8 * i;
    *sequence = n ? first + n - 1 : 0;
  }
  return status;
}

loam_status loam_keyspace_list(loam_db *db, char **names, char **err) {
  CLEAR(names);
  BEGIN(err);
  WANT(err, names, "names");
  return loamgo_text(HANDLE(db), LOAMGO_KEYSPACES, NULL, names, err);
}
