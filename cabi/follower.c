//go:build cgo

/* Followers: databases that another process writes. */
#include "shim.h"

#include "_cgo_export.h"

loam_status loam_follower_open(const char *path, const loam_options *options, loam_db **db,
  char **err) {
  CLEAR(db);
  BEGIN(err);
  WANT(err, path, "path");
  WANT(err, db, "db");
  loam_signal_stacks();
  uint64_t handle = 0;
  loam_status status = loamgo_open((char *)path, HANDLE(options), 1, &handle, err);
  *db = (loam_db *)(uintptr_t)handle;
  return status;
}

loam_status loam_catch_up(loam_db *db, char **err) {
  BEGIN(err);
  return loamgo_catch_up(HANDLE(db), NULL, err);
}

loam_status loam_catch_up_start(loam_db *db, loam_job **job, char **err) {
  CLEAR(job);
  BEGIN(err);
  WANT(err, job, "job");
  uint64_t handle = 0;
  loam_status status = loamgo_catch_up(HANDLE(db), &handle, err);
  *job = (loam_job *)(uintptr_t)handle;
  return status;
}

loam_status loam_lag(loam_db *db, uint64_t *sequences, uint64_t *microseconds, char **err) {
  BEGIN(err);
  uint64_t behind = 0, since = 0;
  loam_status status = loamgo_lag(HANDLE(db), &behind, &since, err);
  if (sequences != NULL) *sequences = behind;
  if (microseconds != NULL) *microseconds = since;
  return status;
}
