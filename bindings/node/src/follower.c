/* Databases that another process writes. */
#include "addon.h"

/* catchUpStart(database): a job */
napi_value js_catchUpStart(napi_env env, napi_callback_info info) {
  ARGS(1);
  char *error = NULL;
  loam_job *started = NULL;
  database *db = arg_open_database(env, argv[0]);
  if (db == NULL) return NULL;
  loam_status status = loam.catch_up_start(db->db, &started, &error);
  return make_job(env, status, started, error);
}

typedef struct lag_work {
  work w;
  loam_db *db;
  uint64_t sequences, microseconds;
} lag_work;

static void lag_run(work *w) {
  lag_work *x = (lag_work *)w;
  w->status = loam.lag(x->db, &x->sequences, &x->microseconds, &w->error);
}

static void lag_release(work *w) { (void)w; }

/* [operations, seconds] */
static napi_value lag_finish(napi_env env, work *w) {
  lag_work *x = (lag_work *)w;
  napi_value pair = NULL, number = NULL;
  napi_create_array_with_length(env, 2, &pair);
  napi_create_double(env, (double)x->sequences, &number);
  napi_set_element(env, pair, 0, number);
  napi_create_double(env, (double)x->microseconds / 1e6, &number);
  napi_set_element(env, pair, 1, number);
  return pair;
}

/* lag(database) */
napi_value js_lag(napi_env env, napi_callback_info info) {
  ARGS(1);
  database *db;
  lag_work *x = work_for(env, argv[0], &db, sizeof *x, lag_run, lag_release);
  if (x == NULL) return NULL;
  x->w.finish = lag_finish;
  x->db = db->db;
  return work_queue(env, &x->w, db, "loamdb.lag");
}
