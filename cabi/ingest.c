//go:build cgo

/* Tables written outside of a database, ingests and loads. Batches are in batch.c. */
#include "shim.h"

#include "_cgo_export.h"

loam_status loam_table_writer_create(const char *path, const loam_options *options,
  loam_table_writer **writer, char **err) {
  CLEAR(writer);
  BEGIN(err);
  WANT(err, path, "path");
  WANT(err, writer, "writer");
  uint64_t handle = 0;
  loam_status status = loamgo_table_writer_create((char *)path, HANDLE(options), &handle, err);
  *writer = (loam_table_writer *)(uintptr_t)handle;
  return status;
}

loam_status loam_table_writer_put(loam_table_writer *writer, const void *key, size_t key_len,
  const void *value, size_t value_len, char **err) {
  BEGIN(err);
  BYTES(err, key, key_len, "key");
  BYTES(err, value, value_len, "value");
  return loamgo_table_writer_write(HANDLE(writer), LOAM_OP_PUT, (void *)key, key_len,
    (void *)value, value_len, 0, err);
}

loam_status loam_table_writer_put_ttl(loam_table_writer *writer, const void *key, size_t key_len,
  const void *value, size_t value_len, uint64_t seconds, char **err) {
  BEGIN(err);
  BYTES(err, key, key_len, "key");
  BYTES(err, value, value_len, "value");
  return loamgo_table_writer_write(HANDLE(writer), LOAM_OP_PUT_TTL, (void *)key, key_len,
    (void *)value, value_len, seconds, err);
}

loam_status loam_table_writer_delete(loam_table_writer *writer, const void *key, size_t key_len,
  char **err) {
  BEGIN(err);
  BYTES(err, key, key_len, "key");
  return loamgo_table_writer_write(HANDLE(writer), LOAM_OP_DELETE, (void *)key, key_len, NULL, 0,
    0, err);
}

loam_status loam_table_writer_delete_range(loam_table_writer *writer, const void *start,
  size_t start_len, const void *stop, size_t stop_len, char **err) {
  BEGIN(err);
  BYTES(err, start, start_len, "start");
  BYTES(err, stop, stop_len, "stop");
  return loamgo_table_writer_write(HANDLE(writer), LOAM_OP_DELETE_RANGE, (void *)start, start_len,
    (void *)stop, stop_len, 0, err);
}

loam_status loam_table_writer_size(loam_table_writer *writer, uint64_t *size, char **err) {
  BEGIN(err);
  WANT(err, size, "size");
  return loamgo_table_writer_size(HANDLE(writer), size, err);
}

loam_status loam_table_writer_finish(loam_table_writer *writer, char **err) {
  BEGIN(err);
  return loamgo_table_writer_finish(HANDLE(writer), err);
}

loam_status loam_table_writer_close(loam_table_writer *writer) {
  return loam_release(HANDLE(writer), LOAMGO_TABLE_WRITER);
}

static loam_status ingest(loam_db *db, const loam_ingest_options *options, size_t n,
  const char *const *paths, uint64_t *job, char **err) {
  uint64_t flags = 0;
  const void *start = NULL, *stop = NULL;
  size_t start_len = 0, stop_len = 0;
  if (options) {
    SIZED(err, options, loam_ingest_options);
    FLAGS(err, options->flags, LOAM_INGEST_MOVE | LOAM_INGEST_EXCISE);
    flags = options->flags;
    start = options->start;
    start_len = options->start_len;
    stop = options->stop;
    stop_len = options->stop_len;
    BYTES(err, start, start_len, "start");
    BYTES(err, stop, stop_len, "stop");
  }
  if (n > MAX_LIST) return loam_fail(err, LOAM_ERR_TOO_LARGE, "loam: a list of %zu tables", n);
  if (n) WANT(err, paths, "paths");
  for (size_t i = 0; i < n; i++) WANT(err, paths[i], "a path");
  return loamgo_ingest(HANDLE(db), flags, (void *)start, start_len, (void *)stop, stop_len, n,
    (char **)paths, job, err);
}

loam_status loam_ingest(loam_db *db, const loam_ingest_options *options, size_t n,
  const char *const *paths, char **err) {
  BEGIN(err);
  return ingest(db, options, n, paths, NULL, err);
}

loam_status loam_ingest_start(loam_db *db, const loam_ingest_options *options, size_t n,
  const char *const *paths, loam_job **job, char **err) {
  CLEAR(job);
  BEGIN(err);
  WANT(err, job, "job");
  uint64_t handle = 0;
  loam_status status = ingest(db, options, n, paths, &handle, err);
  *job = (loam_job *)(uintptr_t)handle;
  return status;
}

loam_status loam_bulk_load_begin(loam_db *db, const loam_bulk_load_options *options,
  loam_bulk_load **load, char **err) {
  CLEAR(load);
  BEGIN(err);
  WANT(err, load, "load");
  uint64_t handle = 0, memory = 0;
  if (options) {
    SIZED(err, options, loam_bulk_load_options);
    FLAGS(err, options->flags, 0);
    memory = options->memory;
  }
  loam_status status = loamgo_bulk_load_begin(HANDLE(db), memory, &handle, err);
  *load = (loam_bulk_load *)(uintptr_t)handle;
  return status;
}

loam_status loam_bulk_load_put(loam_bulk_load *load, const void *key, size_t key_len,
  const void *value, size_t value_len, char **err) {
  BEGIN(err);
  BYTES(err, key, key_len, "key");
  BYTES(err, value, value_len, "value");
  return loamgo_bulk_load_put(HANDLE(load), (void *)key, key_len, (void *)value, value_len, err);
}

loam_status loam_bulk_load_finish(loam_bulk_load *load, char **err) {
  BEGIN(err);
  return loamgo_bulk_load_finish(HANDLE(load), NULL, err);
}

loam_status loam_bulk_load_finish_start(loam_bulk_load *load, loam_job **job, char **err) {
  CLEAR(job);
  BEGIN(err);
  WANT(err, job, "job");
  uint64_t handle = 0;
  loam_status status = loamgo_bulk_load_finish(HANDLE(load), &handle, err);
  *job = (loam_job *)(uintptr_t)handle;
  return status;
}

loam_status loam_bulk_load_close(loam_bulk_load *load) {
  return loam_release(HANDLE(load), LOAMGO_BULK_LOAD);
}
