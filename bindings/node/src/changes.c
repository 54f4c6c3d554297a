#include "addon.h"

/* Feeds of changes. changes.js reads what is in a block. */

typedef struct changes {
  kind kind;
  atomic_uint refs; /* the JavaScript object, and each work item */
  loam_changes *feed; /* NULL once it was closed */
} changes;

static void changes_end(changes *c) {
  if (c->feed != NULL) loam.changes_close(c->feed);
  c->feed = NULL;
}

static void changes_unref(changes *c) {
  if (atomic_fetch_sub(&c->refs, 1) > 1) return;
  changes_end(c);
  free(c);
}

static void changes_finalize(napi_env env, void *data, void *hint) {
  (void)env, (void)hint;
  changes_unref(data);
}

/* One that was not closed; NULL: an exception is pending. */
static changes *arg_feed(napi_env env, napi_value value) {
  changes *c = get_external(env, value, KIND_CHANGES);
  if (c == NULL || c->feed != NULL) return c;
  throw_status(env, LOAM_ERR_CLOSED, NULL);
  return NULL;
}

/* changesOpen(database, from, durable) */
napi_value js_changesOpen(napi_env env, napi_callback_info info) {
  ARGS(3);
  char *error = NULL;
  database *db = arg_open_database(env, argv[0]);
  if (db == NULL) return NULL;
  changes *c = calloc(1, sizeof *c);
  if (c == NULL) {
    throw_memory(env);
    return NULL;
  }
  c->kind = KIND_CHANGES;
  c->refs = 1;
  loam_status status = loam.changes_open(db->db, arg_size(env, argv[1]), arg_bool(env, argv[2]) ?
    LOAM_CHANGES_DURABLE : 0, &c->feed, &error);
  if (status == LOAM_OK) return make_external(env, c, changes_finalize);
  free(c);
  return refused(env, status, error);
}

typedef struct changes_work {
  work w;
  changes *c;
  loam_changes *feed; /* as it was: closing it ends the wait */
  int timeout;
  void *block;
  size_t len;
} changes_work;

static void changes_run(work *w) {
  changes_work *x = (changes_work *)w;
  w->status = loam.changes_next(x->feed, 0, x->timeout, &x->block, &x->len, &w->error);
}

static void changes_release(work *w) {
  changes_work *x = (changes_work *)w;
  if (x->block != NULL) loam.free(x->block);
  if (x->c != NULL) changes_unref(x->c);
}

static void changes_stop(work *w) { changes_end(((changes_work *)w)->c); }

static napi_value changes_finish(napi_env env, work *w) {
  changes_work *x = (changes_work *)w;
  return make_bytes(env, x->block != NULL ? x->block : "", x->len);
}

/* changesNext(database, changes, wait): a promise of a block, empty if there is nothing yet */
napi_value js_changesNext(napi_env env, napi_callback_info info) {
  ARGS(3);
  database *db;
  changes_work *x = work_for(env, argv[0], &db, sizeof *x, changes_run, changes_release);
  if (x == NULL) return NULL;
  x->w.finish = changes_finish;
  changes *c = arg_feed(env, argv[1]);
  if (c == NULL) return work_fail(&x->w);
  atomic_fetch_add(&c->refs, 1);
  x->c = c;
  x->feed = c->feed;
  if (!arg_bool(env, argv[2])) return work_queue(env, &x->w, db, "loamdb.changes");
  x->timeout = -1;
  x->w.end = changes_stop;
  return work_wait(env, &x->w, db);
}

/* changesPosition(changes) */
napi_value js_changesPosition(napi_env env, napi_callback_info info) {
  ARGS(1);
  char *error = NULL;
  uint64_t next = 0;
  napi_value result = NULL;
  changes *c = arg_feed(env, argv[0]);
  if (c == NULL) return NULL;
  loam_status status = loam.changes_position(c->feed, &next, &error);
  if (status != LOAM_OK) return refused(env, status, error);
  if (napi_create_int64(env, (int64_t)next, &result) != napi_ok) throw_failure(env);
  return result;
}

/* changesKeyspace(changes, number): undefined if it was dropped */
napi_value js_changesKeyspace(napi_env env, napi_callback_info info) {
  ARGS(2);
  char *error = NULL, *name = NULL;
  changes *c = arg_feed(env, argv[0]);
  if (c == NULL) return NULL;
  loam_status status = loam.changes_keyspace(c->feed, arg_u32(env, argv[1]), &name, &error);
  if (status != LOAM_OK) return refused(env, status, error);
  napi_value result = make_string(env, name, strlen(name));
  loam.free(name);
  return result;
}

/* changesClose(changes) */
napi_value js_changesClose(napi_env env, napi_callback_info info) {
  ARGS(1);
  changes *c = get_external(env, argv[0], KIND_CHANGES);
  if (c != NULL) changes_end(c);
  return NULL;
}
