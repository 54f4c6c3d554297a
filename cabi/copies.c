//go:build cgo

/* Copies of an open database. */
#include "shim.h"

#include "_cgo_export.h"

loam_status loam_checkpoint(loam_db *db, const char *path, char **err) {
  BEGIN(err);
  WANT(err, path, "path");
  return loamgo_checkpoint(HANDLE(db), (char *)path, NULL, err);
}

loam_status loam_checkpoint_start(loam_db *db, const char *path, loam_job **job, char **err) {
  CLEAR(job);
  BEGIN(err);
  WANT(err, path, "path");
  WANT(err, job, "job");
  uint64_t handle = 0;
  loam_status status = loamgo_checkpoint(HANDLE(db), (char *)path, &handle, err);
  *job = (loam_job *)(uintptr_t)handle;
  return status;
}
