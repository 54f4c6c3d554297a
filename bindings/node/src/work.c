#include "addon.h"

/* After a terminated worker, calls into Node-API fail while its pending items
 * complete; the results are then dropped, the memory is freed all the same. */

void *work_new(size_t size) { return calloc(1, size); }

static void work_free(napi_env env, work *w) {
  if (w->handle != NULL) napi_delete_async_work(env, w->handle);
  if (w->release != NULL) w->release(w);
  free(w->error);
  if (w->db != NULL) database_unref(w->db);
  free(w);
}

static void run(napi_env env, void *data) {
  (void)env;
  work *w = data;
  w->run(w);
}

static void settle(napi_env env, work *w) {
  napi_value value = NULL;
  if (w->status >= 0) {
    if (w->finish != NULL) {
      value = w->finish(env, w);
    } else {
      napi_get_undefined(env, &value);
    }
    if (value != NULL) {
      napi_resolve_deferred(env, w->deferred, value);
      return;
    }
    if (napi_get_and_clear_last_exception(env, &value) != napi_ok) return;
  } else {
    value = make_error(env, w->status, w->error);
  }
  if (value != NULL) napi_reject_deferred(env, w->deferred, value);
}

static void complete(napi_env env, napi_status status, void *data) {
  work *w = data;
  database *db = w->counts ? w->db : NULL;
  if (db != NULL) db->refs++;
  if (status == napi_ok) {
    settle(env, w);
  } else {
    napi_value error = make_error(env, LOAM_ERR_CANCELLED, "the operation was cancelled");
    if (error != NULL) napi_reject_deferred(env, w->deferred, error);
  }
  work_free(env, w);
  if (db == NULL) return;
  if (--db->running == 0 && db->closing != NULL) {
    work *closing = db->closing;
    db->closing = NULL;
    if (napi_queue_async_work(env, closing->handle) != napi_ok) work_free(env, closing);
  }
  database_unref(db);
}

napi_value work_queue(napi_env env, work *w, database *db, bool counts, const char *name) {
  napi_value promise, resource;
  w->db = db;
  if (db != NULL) db->refs++;
  if (napi_create_string_utf8(env, name, NAPI_AUTO_LENGTH, &resource) != napi_ok ||
      napi_create_async_work(env, NULL, resource, run, complete, w, &w->handle) != napi_ok ||
      napi_create_promise(env, &w->deferred, &promise) != napi_ok) {
    work_free(env, w);
    return NULL;
  }
  if (!counts && db != NULL && db->running > 0) {
    db->closing = w; /* queued once the last of them completes */
    return promise;
  }
  if (napi_queue_async_work(env, w->handle) != napi_ok) {
    work_free(env, w);
    napi_throw_error(env, NULL, "the operation could not be queued");
    return NULL;
  }
  w->counts = counts;
  if (counts) db->running++;
  return promise;
}
