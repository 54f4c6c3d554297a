/* How long a key has its value. */
#include "addon.h"

#include <math.h>
#include <stdlib.h>

typedef struct ttl_work {
  work w;
  loam_db *db;
  char *key;
  size_t key_len;
  uint64_t milliseconds;
} ttl_work;

static void ttl_run(work *w) {
  ttl_work *x = (ttl_work *)w;
  w->status = loam.ttl(x->db, NULL, x->key, x->key_len, &x->milliseconds, &w->error);
}

static void ttl_release(work *w) { free(((ttl_work *)w)->key); }

/* Seconds, Infinity, or undefined for no value. */
static napi_value ttl_finish(napi_env env, work *w) {
  ttl_work *x = (ttl_work *)w;
  napi_value left = NULL;
  if (w->status == LOAM_NOT_FOUND) {
    napi_get_undefined(env, &left);
  } else {
    napi_create_double(env, x->milliseconds == LOAM_TTL_NEVER ? HUGE_VAL : (double)x->milliseconds / 1000, &left);
  }
  return left;
}

/* ttl(database, key) */
napi_value js_ttl(napi_env env, napi_callback_info info) {
  ARGS(2);
  database *db = arg_open_database(env, argv[0]);
  if (db == NULL) return NULL;
  ttl_work *x = work_new(env, sizeof *x);
  if (x == NULL) return NULL;
  x->w.run = ttl_run;
  x->w.finish = ttl_finish;
  x->w.release = ttl_release;
  x->db = db->db;
  if (!bytes_copy(env, argv[1], &x->key, &x->key_len)) {
    ttl_release(&x->w);
    free(x);
    return NULL;
  }
  return work_queue(env, &x->w, db, true, "loamdb.ttl");
}
