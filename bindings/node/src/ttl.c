/* How long a key has its value. */
#include "addon.h"

#include <math.h>

typedef struct ttl_work {
  work w;
  loam_db *db;
  bytes key;
  uint64_t milliseconds;
} ttl_work;

static void ttl_run(work *w) {
  ttl_work *x = (ttl_work *)w;
  w->status = loam.ttl(x->db, NULL, x->key.data, x->key.len, &x->milliseconds, &w->error);
}

static void ttl_release(work *w) { bytes_free(&((ttl_work *)w)->key, 1); }

/* Seconds, Infinity, or undefined for no value. */
static napi_value ttl_finish(napi_env env, work *w) {
  ttl_work *x = (ttl_work *)w;
  napi_value left = NULL;
  if (w->status == LOAM_NOT_FOUND) {
    napi_get_undefined(env, &left);
  } else {
    napi_create_double(env, x->milliseconds == LOAM_TTL_NEVER ? HUGE_VAL :
      (double)x->milliseconds / 1000, &left);
  }
  return left;
}

/* ttl(database, key) */
napi_value js_ttl(napi_env env, napi_callback_info info) {
  ARGS(2);
  database *db;
  ttl_work *x = work_for(env, argv[0], &db, sizeof *x, ttl_run, ttl_release);
  if (x == NULL) return NULL;
  x->w.finish = ttl_finish;
  x->db = db->db;
  return bytes_args(env, argv + 1, &x->key, 1) ? work_queue(env, &x->w, db, "loamdb.ttl") :
    work_fail(&x->w);
}
