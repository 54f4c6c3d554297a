//go:build cgo

/* Dumps and their load. */
#include "shim.h"

#include "_cgo_export.h"

intptr_t loamgo_dump_write(uintptr_t fn, uintptr_t arg, const unsigned char *data, size_t len) {
  loam_failure failure = {NULL};
  loam_callback here;
  loam_callback_begin(&here, "a dump's function", CALLBACK_STAYS);
  int ends = ((loam_dump_write_fn)fn)((void *)arg, data, len, &failure);
  loam_callback_end(&here);
  if (ends && !failure.message) loam_callback_fail(&failure, NULL);
  return (intptr_t)failure.message;
}

intptr_t loamgo_dump_read(uintptr_t fn, uintptr_t arg, unsigned char *data, size_t capacity,
  size_t *len) {
  loam_failure failure = {NULL};
  loam_callback here;
  loam_callback_begin(&here, "a dump's function", CALLBACK_STAYS);
  *len = ((loam_dump_read_fn)fn)((void *)arg, data, capacity, &failure);
  loam_callback_end(&here);
  if (*len > capacity && !failure.message) {
    loam_callback_fail(&failure, "it tells of more bytes than there was room for");
  }
  return (intptr_t)failure.message;
}

loam_status loam_dump(loam_db *db, const loam_snapshot *snapshot, const char *compression,
  loam_dump_write_fn write, void *arg, char **info, char **err) {
  CLEAR(info);
  BEGIN(err);
  WANT(err, write, "write");
  return loamgo_dump(HANDLE(db), HANDLE(snapshot), (char *)compression, (uintptr_t)write,
    (uintptr_t)arg, info, err);
}

loam_status loam_load(loam_db *db, uint64_t flags, loam_dump_read_fn read, void *arg, char **info,
  char **err) {
  CLEAR(info);
  BEGIN(err);
  WANT(err, read, "read");
  return loamgo_load(HANDLE(db), flags, (uintptr_t)read, (uintptr_t)arg, info, err);
}

loam_status loam_dump_verify(loam_dump_read_fn read, void *arg, char **info, char **err) {
  CLEAR(info);
  BEGIN(err);
  WANT(err, read, "read");
  return loamgo_dump_verify((uintptr_t)read, (uintptr_t)arg, info, err);
}

loam_status loam_dump_check(loam_db *db, const char *path, char **err) {
  BEGIN(err);
  WANT(err, path, "path");
  return loamgo_dump_check(HANDLE(db), (char *)path, err);
}

loam_status loam_dump_start(loam_db *db, const loam_snapshot *snapshot, const char *compression,
  uint64_t flags, int fd, loam_job **job, char **err) {
  CLEAR(job);
  BEGIN(err);
  WANT(err, job, "job");
  uint64_t handle = 0;
  loam_status status = loamgo_dump_start(HANDLE(db), HANDLE(snapshot), (char *)compression, flags,
    fd, &handle, err);
  *job = (loam_job *)(uintptr_t)handle;
  return status;
}

loam_status loam_load_start(loam_db *db, uint64_t flags, int fd, loam_job **job, char **err) {
  CLEAR(job);
  BEGIN(err);
  WANT(err, job, "job");
  uint64_t handle = 0;
  loam_status status = loamgo_load_start(HANDLE(db), flags, fd, &handle, err);
  *job = (loam_job *)(uintptr_t)handle;
  return status;
}

loam_status loam_dump_verify_start(int fd, loam_job **job, char **err) {
  CLEAR(job);
  BEGIN(err);
  WANT(err, job, "job");
  uint64_t handle = 0;
  loam_status status = loamgo_dump_verify_start(fd, &handle, err);
  *job = (loam_job *)(uintptr_t)handle;
  return status;
}
