//go:build cgo && !windows

/* Keyspaces. Their handles are of the kind of databases. */
#include "shim.h"

#include "_cgo_export.h"

loam_status loam_keyspace_open(loam_db *db, const char *name, const loam_options *options, loam_db **keyspace, char **err) {
  CLEAR(keyspace);
  BEGIN(err);
  WANT(err, name, "name");
  WANT(err, keyspace, "keyspace");
  uint64_t handle = 0;
  loam_status status = loamgo_keyspace_open(HANDLE(db), (char *)name, HANDLE(options), &handle, err);
  *keyspace = (loam_db *)(uintptr_t)handle;
  return status;
}

loam_status loam_keyspace_drop(loam_db *db, const char *name, char **err) {
  BEGIN(err);
  WANT(err, name, "name");
  return loamgo_keyspace_drop(HANDLE(db), (char *)name, err);
}

loam_status loam_keyspace_list(loam_db *db, char **names, char **err) {
  CLEAR(names);
  BEGIN(err);
  WANT(err, names, "names");
  return loamgo_text(HANDLE(db), LOAMGO_KEYSPACES, NULL, names, err);
}
