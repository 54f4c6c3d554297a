//go:build cgo

/* What databases share, and options that change. */
#include "shim.h"

#include "_cgo_export.h"

loam_status loam_resources_create(uint64_t memory, uint64_t background_jobs,
  uint64_t io_bytes_per_second, uint64_t open_files, loam_cache **resources, char **err) {
  CLEAR(resources);
  BEGIN(err);
  WANT(err, resources, "resources");
  uint64_t handle = 0;
  loam_status status = loamgo_resources_create(memory, background_jobs, io_bytes_per_second,
    open_files, &handle, err);
  *resources = (loam_cache *)(uintptr_t)handle;
  return status;
}

loam_status loam_resources_set(loam_cache *resources, const char *name, const char *value,
  char **err) {
  BEGIN(err);
  WANT(err, name, "name");
  WANT(err, value, "value");
  return loamgo_resources_set(HANDLE(resources), (char *)name, (char *)value, err);
}

loam_status loam_resources_metrics(loam_cache *resources, char **json, char **err) {
  CLEAR(json);
  BEGIN(err);
  WANT(err, json, "json");
  return loamgo_resources_metrics(HANDLE(resources), json, err);
}

loam_status loam_set_option(loam_db *db, const char *name, const char *value, char **err) {
  BEGIN(err);
  WANT(err, name, "name");
  WANT(err, value, "value");
  return loamgo_set_option(HANDLE(db), (char *)name, (char *)value, err);
}

loam_status loam_option(loam_db *db, const char *name, char **value, char **err) {
  CLEAR(value);
  BEGIN(err);
  WANT(err, name, "name");
  WANT(err, value, "value");
  return loamgo_option(HANDLE(db), (char *)name, value, err);
}
