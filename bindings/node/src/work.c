#include "addon.h"

#include <pthread.h>

/* After a terminated worker, calls into Node-API fail while its pending items
 * complete; the results are then dropped, the memory is freed all the same. */

void *work_new(napi_env env, size_t size) {
  void *w = calloc(1, size);
  if (w == NULL) throw_memory(env);
  return w;
}

static void work_free(napi_env env, work *w) {
  if (w->handle != NULL) napi_delete_async_work(env, w->handle);
  if (w->release != NULL) w->release(w);
  free(w->error);
  if (w->db != NULL) database_unref(w->db);
  free(w);
}

/* ---- running ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t done = PTHREAD_COND_INITIALIZER; /* a state became WORK_DONE */

/* Runs the item unless another thread began to. */
static bool claim(work *w) {
  int queued = WORK_QUEUED;
  if (!atomic_compare_exchange_strong(&w->state, &queued, WORK_RUNNING)) return false;
  w->run(w);
  pthread_mutex_lock(&mutex);
  atomic_store(&w->state, WORK_DONE);
  pthread_cond_broadcast(&done);
  pthread_mutex_unlock(&mutex);
  return true;
}

void work_finish(work *w) {
  if (claim(w)) return; /* a busy pool does not hold the caller up */
  pthread_mutex_lock(&mutex);
  while (atomic_load(&w->state) != WORK_DONE) pthread_cond_wait(&done, &mutex);
  pthread_mutex_unlock(&mutex);
}

static void run(napi_env env, void *data) {
  (void)env;
  claim(data);
}

/* ---- completing, on the JavaScript thread ---- */

static void settle(napi_env env, work *w) {
  napi_value value = NULL;
  bool pending = false;
  if (w->status < 0) {
    value = make_error(env, w->status, w->error);
  } else {
    if (w->finish != NULL) {
      value = w->finish(env, w);
    } else {
      napi_get_undefined(env, &value);
    }
    if (value != NULL) {
      napi_resolve_deferred(env, w->deferred, value);
      return;
    }
    if (napi_is_exception_pending(env, &pending) != napi_ok) return;
    if (!pending) throw_memory(env);
    if (napi_get_and_clear_last_exception(env, &value) != napi_ok) return;
  }
  if (value != NULL) napi_reject_deferred(env, w->deferred, value);
}

static void complete(napi_env env, napi_status status, void *data) {
  work *w = data;
  database *db = w->counts ? w->db : NULL;
  if (db != NULL) db->refs++;
  if (w->db != NULL && w->db->writing == w) w->db->writing = NULL;
  if (status == napi_ok) {
    settle(env, w);
  } else {
    napi_value error = make_error(env, LOAM_ERR_CANCELLED, NULL);
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

/* An exception is pending afterwards, without which the caller would see success. */
static napi_value queue_fail(napi_env env, work *w) {
  work_free(env, w);
  throw_failure(env);
  return NULL;
}

napi_value work_queue(napi_env env, work *w, database *db, bool counts, const char *name) {
  napi_value promise, resource;
  w->db = db;
  if (db != NULL) db->refs++;
  if (napi_create_string_utf8(env, name, NAPI_AUTO_LENGTH, &resource) != napi_ok ||
      napi_create_async_work(env, NULL, resource, run, complete, w, &w->handle) != napi_ok ||
      napi_create_promise(env, &w->deferred, &promise) != napi_ok)
    return queue_fail(env, w);
  if (!counts && db != NULL && db->running > 0) {
    db->closing = w; /* queued once the last of them completes */
    return promise;
  }
  if (napi_queue_async_work(env, w->handle) != napi_ok) return queue_fail(env, w);
  w->counts = counts;
  if (counts) db->running++;
  return promise;
}

napi_value work_queue_write(napi_env env, work *w, database *db, const char *name) {
  napi_value promise = work_queue(env, w, db, true, name);
  if (promise != NULL) db->writing = w;
  return promise;
}

/* ---- on a thread of its own ---- */

/* An environment that ends takes no result: the item is left as it is, since only the
 * environment's thread may free it. */
static void *thread(void *data) {
  work *w = data;
  napi_threadsafe_function function = w->function;
  claim(w);
  if (napi_call_threadsafe_function(function, w, napi_tsfn_blocking) == napi_ok)
    napi_release_threadsafe_function(function, napi_tsfn_release);
  return NULL;
}

static void complete_thread(napi_env env, napi_value none, void *context, void *data) {
  (void)none;
  (void)context;
  if (env != NULL) complete(env, napi_ok, data);
}

static bool thread_start(work *w) {
  pthread_t id;
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  bool started = pthread_create(&id, &attributes, thread, w) == 0;
  pthread_attr_destroy(&attributes);
  return started;
}

napi_value work_start(napi_env env, work *w, database *db, const char *name) {
  napi_value promise, resource;
  w->db = db;
  if (db != NULL) db->refs++;
  if (napi_create_string_utf8(env, name, NAPI_AUTO_LENGTH, &resource) != napi_ok ||
      napi_create_promise(env, &w->deferred, &promise) != napi_ok ||
      napi_create_threadsafe_function(env, NULL, NULL, resource, 0, 1, NULL, NULL, NULL, complete_thread, &w->function) != napi_ok)
    return queue_fail(env, w);
  w->counts = db != NULL;
  if (db != NULL) db->running++;
  if (thread_start(w)) return promise;
  if (db != NULL) db->running--;
  napi_release_threadsafe_function(w->function, napi_tsfn_abort);
  return queue_fail(env, w);
}
