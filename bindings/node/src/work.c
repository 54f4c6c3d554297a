#include "addon.h"

/* Items of work. At the end of an environment Node waits for the items on libuv's pool, and
 * works_end for the long items on other threads. Items that wait are told to end, without a
 * wait for them: the thread of such an item frees it when its answer cannot be sent.
 * In a terminated worker calls of Node-API fail while pending items complete: their results are
 * dropped, their memory is freed. */

pthread_mutex_t work_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t done = PTHREAD_COND_INITIALIZER; /* an item has run, or was answered */

void *work_new(napi_env env, size_t size) {
  void *w = calloc(1, size);
  if (w == NULL) throw_memory(env);
  return w;
}

/* env NULL: on any thread. */
static void work_free(napi_env env, work *w) {
  if (w->handle != NULL) napi_delete_async_work(env, w->handle);
  if (w->release != NULL) w->release(w);
  free(w->error);
  if (w->db != NULL) database_unref(w->db);
  if (w->answers != NULL) answers_unref(w->answers);
  free(w);
}

/* ---- running ---- */

/* Runs the item unless another thread began to. */
static bool claim(work *w) {
  int queued = WORK_QUEUED;
  if (!atomic_compare_exchange_strong(&w->state, &queued, WORK_RUNNING)) return false;
  w->run(w);
  pthread_mutex_lock(&work_mutex);
  atomic_store(&w->state, WORK_DONE);
  pthread_cond_broadcast(&done);
  pthread_mutex_unlock(&work_mutex);
  return true;
}

void work_finish(work *w) {
  if (claim(w)) return; /* a busy pool does not hold the caller up */
  pthread_mutex_lock(&work_mutex);
  while (atomic_load(&w->state) != WORK_DONE) pthread_cond_wait(&done, &work_mutex);
  pthread_mutex_unlock(&work_mutex);
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

/* Starts a delayed closing when no item runs any more. */
static void close_begin(napi_env env, database *db) {
  work *closing = db->closing;
  if (closing == NULL || db->running > 0) return;
  db->closing = NULL;
  if (threads_start(closing)) return;
  napi_value error = make_error(env, LOAM_ERR_NO_MEMORY, NULL);
  if (error != NULL) napi_reject_deferred(env, closing->deferred, error);
  work_leave(env, closing);
}

static void complete(napi_env env, napi_status status, void *data) {
  work *w = data;
  database *db = w->counts ? w->db : NULL;
  if (db != NULL) atomic_fetch_add(&db->refs, 1);
  if (w->db != NULL && w->db->writing == w) w->db->writing = NULL;
  if (status == napi_ok) {
    settle(env, w);
  } else {
    napi_value error = make_error(env, LOAM_ERR_CANCELLED, NULL);
    if (error != NULL) napi_reject_deferred(env, w->deferred, error);
  }
  work_free(env, w);
  if (db == NULL) return;
  db->running--;
  close_begin(env, db);
  database_unref(db);
}

/* An exception is pending afterwards, without which the caller would see success. */
static napi_value queue_fail(napi_env env, work *w) {
  work_free(env, w);
  throw_failure(env);
  return NULL;
}

static void use_database(work *w, database *db) {
  w->db = db;
  if (db != NULL) atomic_fetch_add(&db->refs, 1);
}

napi_value work_queue(napi_env env, work *w, database *db, const char *name) {
  napi_value promise, resource;
  use_database(w, db);
  if (napi_create_string_utf8(env, name, NAPI_AUTO_LENGTH, &resource) != napi_ok ||
      napi_create_async_work(env, NULL, resource, run, complete, w, &w->handle) != napi_ok ||
      napi_create_promise(env, &w->deferred, &promise) != napi_ok ||
      napi_queue_async_work(env, w->handle) != napi_ok)
    return queue_fail(env, w);
  w->counts = db != NULL;
  if (w->counts) db->running++;
  return promise;
}

/* ---- on threads of threads.c ---- */

/* The list of the environment. On the JavaScript thread. */
static void list_add(addon *a, work *w) {
  w->link = &a->works;
  w->later = a->works;
  if (w->later != NULL) w->later->link = &w->later;
  a->works = w;
}

static void list_remove(work *w) {
  if (w->link == NULL) return; /* removed by works_end */
  if (w->later != NULL) w->later->link = w->link;
  *w->link = w->later;
  w->link = NULL;
}

void work_leave(napi_env env, work *w) {
  list_remove(w);
  answers_came(env, w->answers);
  work_free(env, w);
}

static void deliver(napi_env env, answer *a) {
  work *w = (work *)a;
  if (env == NULL) {
    work_free(NULL, w);
    return;
  }
  list_remove(w);
  answers_came(env, w->answers);
  complete(env, napi_ok, w);
}

/* The answer is sent under the mutex under which works_end waits for answered: after that wait
 * it may close the answers. */
void work_run(work *w) {
  claim(w);
  pthread_mutex_lock(&work_mutex);
  w->answered = true;
  bool sent = answers_send(w->answers, &w->answer);
  pthread_cond_broadcast(&done);
  pthread_mutex_unlock(&work_mutex);
  if (!sent) deliver(NULL, &w->answer);
}

static napi_value on_thread(napi_env env, work *w, database *db, bool counts) {
  napi_value promise;
  addon *a = get_addon(env);
  use_database(w, db);
  if (napi_create_promise(env, &w->deferred, &promise) != napi_ok) return queue_fail(env, w);
  w->answer.deliver = deliver;
  w->answers = answers_ref(a->answers);
  answers_await(env, w->answers);
  list_add(a, w);
  if (!counts && db != NULL && db->running > 0) {
    db->closing = w; /* started by complete */
    return promise;
  }
  if (!threads_start(w)) {
    work_leave(env, w);
    throw_failure(env);
    return NULL;
  }
  w->counts = counts && db != NULL;
  if (w->counts) db->running++;
  return promise;
}

napi_value work_long(napi_env env, work *w, database *db) {
  w->kind = WORK_LONG;
  return on_thread(env, w, db, true);
}

napi_value work_close(napi_env env, work *w, database *db) {
  w->kind = WORK_LONG;
  return on_thread(env, w, db, false);
}

napi_value work_wait(napi_env env, work *w, database *db) {
  w->kind = WORK_WAITS;
  return on_thread(env, w, db, true);
}

napi_value work_write(napi_env env, work *w, database *db) {
  napi_value promise = work_wait(env, w, db);
  if (promise != NULL) db->writing = w;
  return promise;
}

/* ---- the end of the environment ---- */

static void await_answer(work *w) {
  pthread_mutex_lock(&work_mutex);
  while (!w->answered) pthread_cond_wait(&done, &work_mutex);
  pthread_mutex_unlock(&work_mutex);
}

/* Node frees the answered items when it empties the queue of the thread-safe function. */
void works_end(addon *a) {
  while (a->works != NULL) {
    work *w = a->works;
    list_remove(w);
    if (w->db != NULL && w->db->closing == w) {
      w->db->closing = NULL;
      work_free(NULL, w);
    } else if (threads_stop(w)) {
      work_free(NULL, w);
    } else if (w->kind == WORK_LONG) {
      await_answer(w);
    } else if (w->end != NULL) {
      w->end(w);
    }
  }
}
