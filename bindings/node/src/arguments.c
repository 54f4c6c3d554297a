#include "addon.h"

/* What the functions for JavaScript have in common: they check their arguments, make an item
 * of work of them, and give it up when an argument is wrong. Each returns with an exception
 * pending then. */

bool arg_bool(napi_env env, napi_value value) {
  bool set = false;
  napi_get_value_bool(env, value, &set);
  return set;
}

bool bytes_args(napi_env env, const napi_value *argv, bytes *out, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (!bytes_copy(env, argv[i], &out[i].data, &out[i].len)) return false;
  return true;
}

void bytes_free(bytes *b, size_t n) {
  for (size_t i = 0; i < n; i++) free(b[i].data);
}

bool arg_name(napi_env env, napi_value value, const char *refusal, char **text) {
  size_t len;
  if (!bytes_copy(env, value, text, &len)) return false;
  if (*text != NULL && strlen(*text) == len) return true;
  free(*text);
  *text = NULL;
  napi_throw_error(env, "LEVEL_INVALID_ARGUMENT", refusal);
  return false;
}

bool arg_path(napi_env env, napi_value value, char **path) {
  return arg_name(env, value, "a location must be a string without zero bytes", path);
}

database *arg_unopened(napi_env env, napi_value value, const char *refusal) {
  database *db = arg_database(env, value);
  if (db == NULL || db->db == NULL) return db;
  napi_throw_error(env, "LEVEL_INVALID_ARGUMENT", refusal);
  return NULL;
}

void *work_for(napi_env env, napi_value value, database **db, size_t size, void (*run)(work *),
  void (*release)(work *)) {
  *db = arg_open_database(env, value);
  work *w = *db == NULL ? NULL : work_new(env, size);
  if (w == NULL) return NULL;
  w->run = run;
  w->release = release;
  return w;
}

napi_value work_fail(work *w) {
  w->release(w);
  free(w->error);
  free(w);
  return NULL;
}

napi_value refused(napi_env env, loam_status status, char *error) {
  if (status < 0) throw_status(env, status, error);
  return NULL;
}
