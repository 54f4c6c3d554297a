//go:build cgo

/* Folders of backups. */
#include "shim.h"

#include "_cgo_export.h"

loam_status loam_backup_open(const char *path, uint64_t flags, loam_backup **backup, char **err) {
  CLEAR(backup);
  BEGIN(err);
  WANT(err, path, "path");
  WANT(err, backup, "backup");
  FLAGS(err, flags, LOAM_BACKUP_READ_ONLY | LOAM_BACKUP_ERROR_IF_MISSING);
  uint64_t handle = 0;
  loam_status status = loamgo_backup_open((char *)path, flags, &handle, err);
  *backup = (loam_backup *)(uintptr_t)handle;
  return status;
}

loam_status loam_backup_create(loam_backup *backup, loam_db *db, uint64_t bytes_per_second,
  uint64_t *id, char **err) {
  BEGIN(err);
  WANT(err, id, "id");
  return loamgo_backup_create(HANDLE(backup), HANDLE(db), bytes_per_second, id, NULL, err);
}

loam_status loam_backup_create_start(loam_backup *backup, loam_db *db, uint64_t bytes_per_second,
  loam_job **job, char **err) {
  CLEAR(job);
  BEGIN(err);
  WANT(err, job, "job");
  uint64_t handle = 0;
  loam_status status = loamgo_backup_create(HANDLE(backup), HANDLE(db), bytes_per_second, NULL,
    &handle, err);
  *job = (loam_job *)(uintptr_t)handle;
  return status;
}

loam_status loam_backup_list(loam_backup *backup, char **json, char **err) {
  CLEAR(json);
  BEGIN(err);
  WANT(err, json, "json");
  return loamgo_backup_list(HANDLE(backup), json, err);
}

loam_status loam_backup_verify(loam_backup *backup, uint64_t id, uint64_t bytes_per_second,
  char **err) {
  BEGIN(err);
  return loamgo_backup_verify(HANDLE(backup), id, bytes_per_second, NULL, err);
}

loam_status loam_backup_verify_start(loam_backup *backup, uint64_t id, uint64_t bytes_per_second,
  loam_job **job, char **err) {
  CLEAR(job);
  BEGIN(err);
  WANT(err, job, "job");
  uint64_t handle = 0;
  loam_status status = loamgo_backup_verify(HANDLE(backup), id, bytes_per_second, &handle, err);
  *job = (loam_job *)(uintptr_t)handle;
  return status;
}

loam_status loam_backup_restore(loam_backup *backup, uint64_t id, const char *to,
  uint64_t bytes_per_second, char **err) {
  BEGIN(err);
  WANT(err, to, "to");
  return loamgo_backup_restore(HANDLE(backup), id, (char *)to, bytes_per_second, NULL, err);
}

loam_status loam_backup_restore_start(loam_backup *backup, uint64_t id, const char *to,
  uint64_t bytes_per_second, loam_job **job, char **err) {
  CLEAR(job);
  BEGIN(err);
  WANT(err, to, "to");
  WANT(err, job, "job");
  uint64_t handle = 0;
  loam_status status = loamgo_backup_restore(HANDLE(backup), id, (char *)to, bytes_per_second,
    &handle, err);
  *job = (loam_job *)(uintptr_t)handle;
  return status;
}

loam_status loam_backup_delete(loam_backup *backup, uint64_t id, char **err) {
  BEGIN(err);
  return loamgo_backup_delete(HANDLE(backup), id, 0, err);
}

loam_status loam_backup_keep(loam_backup *backup, uint64_t n, char **err) {
  BEGIN(err);
  return loamgo_backup_delete(HANDLE(backup), n, 1, err);
}

loam_status loam_backup_close(loam_backup *backup) {
  return loam_release(HANDLE(backup), LOAMGO_BACKUP);
}
