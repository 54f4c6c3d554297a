#include "addon.h"

/* ---- on other threads ---- */

typedef struct upkeep_work {
  work w;
  loam_db *db;
  char **keys; /* starts, then stops; NULL: no bound */
  size_t *key_lens;
  size_t n; /* ranges */
  uint64_t *sizes;
  char *json;
} upkeep_work;

static void upkeep_release(work *w) {
  upkeep_work *u = (upkeep_work *)w;
  for (size_t i = 0; u->keys != NULL && i < 2 * u->n; i++) free(u->keys[i]);
  free(u->keys);
  free(u->key_lens);
  free(u->sizes);
  if (u->json != NULL) loam.free(u->json);
}

static upkeep_work *upkeep_new(napi_env env, napi_value database_value, database **db,
  void (*run)(work *)) {
  upkeep_work *u = work_for(env, database_value, db, sizeof *u, run, upkeep_release);
  if (u != NULL) u->db = (*db)->db;
  return u;
}

static bool ranges_new(napi_env env, upkeep_work *u, size_t n) {
  u->keys = calloc(2 * n + 1, sizeof *u->keys);
  u->key_lens = calloc(2 * n + 1, sizeof *u->key_lens);
  u->sizes = calloc(n + 1, sizeof *u->sizes);
  u->n = n;
  if (u->keys != NULL && u->key_lens != NULL && u->sizes != NULL) return true;
  throw_memory(env);
  return false;
}

static void flush_run(work *w) { w->status = loam.flush(((upkeep_work *)w)->db, &w->error); }

/* flush(database) */
napi_value js_flush(napi_env env, napi_callback_info info) {
  ARGS(1);
  database *db;
  upkeep_work *u = upkeep_new(env, argv[0], &db, flush_run);
  return u == NULL ? NULL : work_long(env, &u->w, db);
}

/* ---- jobs, to be watched and cancelled ---- */

typedef struct job {
  kind kind;
  atomic_uint refs; /* the JavaScript object, and the item that waits */
  loam_job *job;
} job;

typedef struct job_work {
  work w;
  job *job;
  char *report; /* of a result; NULL: there is none */
} job_work;

static void job_unref(job *j) {
  if (atomic_fetch_sub(&j->refs, 1) > 1) return;
  loam.job_close(j->job);
  free(j);
}

static void job_finalize(napi_env env, void *data, void *hint) {
  (void)env, (void)hint;
  job_unref(data);
}

napi_value make_job(napi_env env, loam_status status, loam_job *started, char *error) {
  if (status != LOAM_OK) {
    throw_status(env, status, error);
    return NULL;
  }
  job *j = calloc(1, sizeof *j);
  if (j == NULL) {
    loam.job_cancel(started, NULL);
    loam.job_close(started);
    throw_memory(env);
    return NULL;
  }
  j->kind = KIND_JOB;
  j->refs = 1;
  j->job = started;
  return make_external(env, j, job_finalize);
}

/* A compaction of range, a checkpoint in path, or if both are NULL a verification. */
static napi_value job_start(napi_env env, loam_db *db, const upkeep_work *range, const char *path) {
  char *error = NULL;
  loam_job *started = NULL;
  loam_status status;
  if (range != NULL) status = loam.compact_start(db, range->keys[0], range->key_lens[0],
    range->keys[1], range->key_lens[1], &started, &error);
  else if (path != NULL) status = loam.checkpoint_start(db, path, &started, &error);
  else status = loam.verify_start(db, &started, &error);
  return make_job(env, status, started, error);
}

/* compactStart(database, start, stop): a job; undefined: no bound */
napi_value js_compactStart(napi_env env, napi_callback_info info) {
  ARGS(3);
  napi_value result = NULL;
  upkeep_work range = {0};
  database *db = arg_open_database(env, argv[0]);
  if (db == NULL) return NULL;
  if (ranges_new(env, &range, 1) && bytes_copy(env, argv[1], &range.keys[0], &range.key_lens[0]) &&
    bytes_copy(env, argv[2], &range.keys[1], &range.key_lens[1]))
    result = job_start(env, db->db, &range, NULL);
  upkeep_release(&range.w);
  return result;
}

/* verifyStart(database): a job */
napi_value js_verifyStart(napi_env env, napi_callback_info info) {
  ARGS(1);
  database *db = arg_open_database(env, argv[0]);
  return db == NULL ? NULL : job_start(env, db->db, NULL, NULL);
}

/* rekeyStart(database): a job */
napi_value js_rekeyStart(napi_env env, napi_callback_info info) {
  ARGS(1);
  char *error = NULL;
  loam_job *started = NULL;
  database *db = arg_open_database(env, argv[0]);
  if (db == NULL) return NULL;
  loam_status status = loam.rekey_start(db->db, &started, &error);
  return make_job(env, status, started, error);
}

/* checkpointStart(database, path): a job */
napi_value js_checkpointStart(napi_env env, napi_callback_info info) {
  ARGS(2);
  char *path = NULL;
  database *db = arg_open_database(env, argv[0]);
  if (db == NULL || !arg_path(env, argv[1], &path)) return NULL;
  napi_value result = job_start(env, db->db, NULL, path);
  free(path);
  return result;
}

static void job_run(work *w) {
  w->status = loam.job_wait(((job_work *)w)->job->job, -1, &w->error);
}

static void job_stop(work *w) { loam.job_cancel(((job_work *)w)->job->job, NULL); }

static void job_release(work *w) {
  job_work *j = (job_work *)w;
  if (j->report != NULL) loam.free(j->report);
  job_unref(j->job);
}

static void result_run(work *w) {
  job_work *j = (job_work *)w;
  job_run(w);
  if (w->status == LOAM_OK) loam.job_report(j->job->job, &j->report, NULL);
}

static napi_value result_finish(napi_env env, work *w) {
  napi_value none = NULL;
  job_work *j = (job_work *)w;
  if (j->report != NULL) return make_string(env, j->report, strlen(j->report));
  napi_get_undefined(env, &none);
  return none;
}

static job_work *job_work_new(napi_env env, napi_value value, void (*run)(work *)) {
  job *j = get_external(env, value, KIND_JOB);
  job_work *w = j == NULL ? NULL : work_new(env, sizeof *w);
  if (w == NULL) return NULL;
  w->w.run = run;
  w->w.end = job_stop;
  w->w.release = job_release;
  w->job = j;
  atomic_fetch_add(&j->refs, 1);
  return w;
}

/* jobResult(job): a promise of its report, if it has one. No database's end waits for it. */
napi_value js_jobResult(napi_env env, napi_callback_info info) {
  ARGS(1);
  job_work *w = job_work_new(env, argv[0], result_run);
  if (w == NULL) return NULL;
  w->w.finish = result_finish;
  return work_wait(env, &w->w, NULL);
}

/* jobWait(database, job) */
napi_value js_jobWait(napi_env env, napi_callback_info info) {
  ARGS(2);
  database *db = arg_open_database(env, argv[0]);
  if (db == NULL) return NULL;
  job_work *w = job_work_new(env, argv[1], job_run);
  return w == NULL ? NULL : work_wait(env, &w->w, db);
}

/* jobProgress(job): [bytes done, bytes in all] */
napi_value js_jobProgress(napi_env env, napi_callback_info info) {
  ARGS(1);
  uint64_t bytes[2] = {0, 0};
  napi_value array, value;
  job *j = get_external(env, argv[0], KIND_JOB);
  if (j == NULL) return NULL;
  /* of a job that has been closed there is nothing to tell */
  loam.job_progress(j->job, &bytes[0], &bytes[1], NULL);
  array = make_array(env);
  for (uint32_t i = 0; array != NULL && i < 2; i++) {
    if (napi_create_int64(env, (int64_t)bytes[i], &value) != napi_ok ||
      napi_set_element(env, array, i, value) != napi_ok) {
      throw_failure(env);
      return NULL;
    }
  }
  return array;
}

/* jobCancel(job) */
napi_value js_jobCancel(napi_env env, napi_callback_info info) {
  ARGS(1);
  job *j = get_external(env, argv[0], KIND_JOB);
  if (j != NULL) loam.job_cancel(j->job, NULL);
  return NULL;
}

static void sizes_run(work *w) {
  upkeep_work *u = (upkeep_work *)w;
  const void *const *keys = (const void *const *)u->keys;
  w->status = loam.approximate_sizes(u->db, u->n, keys, u->key_lens, keys + u->n, u->key_lens +
    u->n, u->sizes, &w->error);
}

static napi_value sizes_finish(napi_env env, work *w) {
  upkeep_work *u = (upkeep_work *)w;
  napi_value array = make_array(env), value;
  for (uint32_t i = 0; array != NULL && i < u->n; i++) {
    if (napi_create_int64(env, (int64_t)u->sizes[i], &value) != napi_ok ||
      napi_set_element(env, array, i, value) != napi_ok) {
      throw_failure(env);
      return NULL;
    }
  }
  return array;
}

static bool read_bound(napi_env env, napi_value bounds, uint32_t i, upkeep_work *u, size_t at) {
  napi_value value;
  return napi_get_element(env, bounds, i, &value) == napi_ok &&
    bytes_copy(env, value, &u->keys[at], &u->key_lens[at]);
}

/* approximateSizes(database, [start, stop, start, stop, ...]) */
napi_value js_approximateSizes(napi_env env, napi_callback_info info) {
  ARGS(2);
  database *db;
  uint32_t n;
  upkeep_work *u = upkeep_new(env, argv[0], &db, sizes_run);
  if (u == NULL) return NULL;
  u->w.finish = sizes_finish;
  if (napi_get_array_length(env, argv[1], &n) != napi_ok || n % 2 != 0) {
    napi_throw_type_error(env, NULL, "the ranges must be an array of pairs");
    return work_fail(&u->w);
  }
  if (!ranges_new(env, u, n / 2)) return work_fail(&u->w);
  for (uint32_t i = 0; i < n; i++)
    if (!read_bound(env, argv[1], i, u, i / 2 + (i % 2 != 0 ? u->n : 0))) return work_fail(&u->w);
  return work_queue(env, &u->w, db, "loamdb.sizes");
}

static void metrics_run(work *w) {
  upkeep_work *u = (upkeep_work *)w;
  w->status = loam.metrics(u->db, &u->json, &w->error);
}

static void report_run(work *w) {
  upkeep_work *u = (upkeep_work *)w;
  w->status = loam.recovery_report(u->db, &u->json, &w->error);
}

static void keys_run(work *w) {
  upkeep_work *u = (upkeep_work *)w;
  w->status = loam.keys_in_use(u->db, &u->json, &w->error);
}

static napi_value json_finish(napi_env env, work *w) {
  upkeep_work *u = (upkeep_work *)w;
  return make_string(env, u->json, strlen(u->json));
}

static napi_value as_json(napi_env env, napi_callback_info info, void (*run)(work *)) {
  ARGS(1);
  database *db;
  upkeep_work *u = upkeep_new(env, argv[0], &db, run);
  if (u == NULL) return NULL;
  u->w.finish = json_finish;
  return work_queue(env, &u->w, db, "loamdb.report");
}

/* f(database): a promise of JSON */
napi_value js_metrics(napi_env env, napi_callback_info info) {
  return as_json(env, info, metrics_run);
}
napi_value js_recoveryReport(napi_env env, napi_callback_info info) {
  return as_json(env, info, report_run);
}
napi_value js_keysInUse(napi_env env, napi_callback_info info) {
  return as_json(env, info, keys_run);
}

/* ---- on the JavaScript thread ---- */

static napi_value take_text(napi_env env, loam_status status, char *value, char *error) {
  napi_value result = NULL;
  if (status < 0) {
    throw_status(env, status, error);
  } else if (status == LOAM_OK) {
    result = make_string(env, value, strlen(value));
    loam.free(value);
  }
  return result;
}

/* property(database, name): a string, undefined when there is none. */
napi_value js_property(napi_env env, napi_callback_info info) {
  ARGS(2);
  text name;
  char *value = NULL, *error = NULL;
  database *db = arg_open_database(env, argv[0]);
  if (db == NULL || !text_read(env, argv[1], &name)) return NULL;
  loam_status status = LOAM_NOT_FOUND;
  if (memchr(name.data, 0, name.len) == NULL) {
    status = loam.property(db->db, name.data, &value, &error);
  }
  text_free(&name);
  return take_text(env, status, value, error);
}

/* setOption(database, name, value): names have no null bytes */
napi_value js_setOption(napi_env env, napi_callback_info info) {
  ARGS(3);
  text name, value;
  char *error = NULL;
  database *db = arg_open_database(env, argv[0]);
  if (db == NULL || !text_pair(env, argv + 1, &name, &value)) return NULL;
  loam_status status = loam.set_option(db->db, name.data, value.data, &error);
  text_free(&name);
  text_free(&value);
  if (status < 0) throw_status(env, status, error);
  return NULL;
}

/* option(database, name): a string. */
napi_value js_option(napi_env env, napi_callback_info info) {
  ARGS(2);
  text name;
  char *value = NULL, *error = NULL;
  database *db = arg_open_database(env, argv[0]);
  if (db == NULL || !text_read(env, argv[1], &name)) return NULL;
  loam_status status = loam.option(db->db, name.data, &value, &error);
  text_free(&name);
  return take_text(env, status, value, error);
}

/* resourcesSet(resources, name, value): as setOption */
napi_value js_resourcesSet(napi_env env, napi_callback_info info) {
  ARGS(3);
  text name, value;
  char *error = NULL;
  loam_cache *resources = arg_cache(env, argv[0]);
  if (resources == NULL || !text_pair(env, argv + 1, &name, &value)) return NULL;
  loam_status status = loam.resources_set(resources, name.data, value.data, &error);
  text_free(&name);
  text_free(&value);
  if (status < 0) throw_status(env, status, error);
  return NULL;
}

/* resourcesMetrics(resources): JSON. */
napi_value js_resourcesMetrics(napi_env env, napi_callback_info info) {
  ARGS(1);
  char *value = NULL, *error = NULL;
  loam_cache *resources = arg_cache(env, argv[0]);
  if (resources == NULL) return NULL;
  loam_status status = loam.resources_metrics(resources, &value, &error);
  return take_text(env, status, value, error);
}

/* comparatorName(database) */
napi_value js_comparatorName(napi_env env, napi_callback_info info) {
  ARGS(1);
  char *value = NULL, *error = NULL;
  database *db = arg_open_database(env, argv[0]);
  if (db == NULL) return NULL;
  loam_status status = loam.comparator_name(db->db, &value, &error);
  return take_text(env, status, value, error);
}

static napi_value call(napi_env env, napi_callback_info info, loam_status (*function)(
  loam_db *, char **)) {
  ARGS(1);
  char *error = NULL;
  database *db = arg_open_database(env, argv[0]);
  if (db == NULL) return NULL;
  loam_status status = function(db->db, &error);
  if (status < 0) throw_status(env, status, error);
  return NULL;
}

/* f(database) */
napi_value js_pauseCompaction(napi_env env, napi_callback_info info) {
  return call(env, info, loam.pause_compaction);
}
napi_value js_resumeCompaction(napi_env env, napi_callback_info info) {
  return call(env, info, loam.resume_compaction);
}
napi_value js_retry(napi_env env, napi_callback_info info) { return call(env, info, loam.retry); }
