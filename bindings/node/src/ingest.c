/* Tables that are written outside of a database, ingests and loads. */
#include "addon.h"

/* ---- tables: on the JavaScript thread but for their beginning and end ---- */

typedef struct table {
  kind kind;
  loam_table_writer *writer; /* NULL once finished or closed */
} table;

typedef struct table_work {
  work w;
  char *path, **options;
  loam_table_writer *writer; /* until somebody has it */
  bool finish;
} table_work;

static void table_finalize(napi_env env, void *data, void *hint) {
  (void)env, (void)hint;
  table *t = data;
  if (t->writer != NULL) loam.table_writer_close(t->writer);
  free(t);
}

static void table_release(work *w) {
  table_work *x = (table_work *)w;
  for (char **p = x->options; p != NULL && *p != NULL; p++) free(*p);
  free(x->options);
  free(x->path);
  if (x->writer != NULL) loam.table_writer_close(x->writer);
}

static void create_run(work *w) {
  table_work *x = (table_work *)w;
  loam_options *options = NULL;
  w->status = loam.options_create(&options, &w->error);
  for (char **p = x->options; w->status == LOAM_OK && *p != NULL; p += 2) {
    w->status = loam.options_set(options, p[0], p[1], &w->error);
  }
  if (w->status == LOAM_OK) {
    w->status = loam.table_writer_create(x->path, options, &x->writer, &w->error);
  }
  loam.options_close(options);
}

static napi_value create_finish(napi_env env, work *w) {
  table_work *x = (table_work *)w;
  table *t = calloc(1, sizeof *t);
  if (t == NULL) {
    throw_memory(env);
    return NULL;
  }
  t->kind = KIND_TABLE;
  t->writer = x->writer;
  x->writer = NULL;
  return make_external(env, t, table_finalize);
}

/* tableCreate(path, options); the library must be loaded. */
napi_value js_tableCreate(napi_env env, napi_callback_info info) {
  ARGS(2);
  table_work *x = work_new(env, sizeof *x);
  if (x == NULL) return NULL;
  x->w.run = create_run;
  x->w.finish = create_finish;
  x->w.release = table_release;
  if (!arg_path(env, argv[0], &x->path) || !options_read(env, argv[1], &x->options)) {
    return work_fail(&x->w);
  }
  return work_long(env, &x->w, NULL);
}

static table *arg_table(napi_env env, napi_value value) {
  table *t = get_external(env, value, KIND_TABLE);
  if (t == NULL || t->writer != NULL) return t;
  napi_throw_error(env, "LEVEL_TABLE_NOT_OPEN", "Table is not open: it was finished or closed");
  return NULL;
}

static loam_status table_write(loam_table_writer *w, const text *key, const text *value,
  bool range, uint64_t ttl, char **error) {
  if (value == NULL) return loam.table_writer_delete(w, key->data, key->len, error);
  if (range) {
    return loam.table_writer_delete_range(w, key->data, key->len, value->data, value->len, error);
  }
  if (ttl != 0) {
    return loam.table_writer_put_ttl(w, key->data, key->len, value->data, value->len, ttl, error);
  }
  return loam.table_writer_put(w, key->data, key->len, value->data, value->len, error);
}

/* tableWrite(table, key, value, seconds, range): value undefined: delete; the range from key to
 * value */
napi_value js_tableWrite(napi_env env, napi_callback_info info) {
  ARGS(5);
  text key, value;
  napi_valuetype type;
  char *error = NULL;
  loam_status status;
  table *t = arg_table(env, argv[0]);
  if (t == NULL || napi_typeof(env, argv[2], &type) != napi_ok) return NULL;
  if (type == napi_undefined) {
    if (!text_read(env, argv[1], &key)) return NULL;
    status = table_write(t->writer, &key, NULL, false, 0, &error);
  } else {
    if (!text_pair(env, argv + 1, &key, &value)) return NULL;
    status = table_write(t->writer, &key, &value, arg_bool(env, argv[4]), arg_size(env, argv[3]),
      &error);
    text_free(&value);
  }
  text_free(&key);
  return refused(env, status, error);
}

/* tableSize(table) */
napi_value js_tableSize(napi_env env, napi_callback_info info) {
  ARGS(1);
  uint64_t size = 0;
  char *error = NULL;
  napi_value number = NULL;
  table *t = arg_table(env, argv[0]);
  if (t == NULL) return NULL;
  loam_status status = loam.table_writer_size(t->writer, &size, &error);
  if (status < 0) return refused(env, status, error);
  napi_create_double(env, (double)size, &number);
  return number;
}

static void end_run(work *w) {
  table_work *x = (table_work *)w;
  if (x->finish) w->status = loam.table_writer_finish(x->writer, &w->error);
  loam_status closed = loam.table_writer_close(x->writer);
  x->writer = NULL;
  if (w->status >= 0) w->status = closed;
}

/* tableEnd(table, finish): finishes the table, or gives it up */
napi_value js_tableEnd(napi_env env, napi_callback_info info) {
  ARGS(2);
  table *t = arg_table(env, argv[0]);
  table_work *x = t == NULL ? NULL : work_new(env, sizeof *x);
  if (x == NULL) return NULL;
  x->w.run = end_run;
  x->w.release = table_release;
  x->finish = arg_bool(env, argv[1]);
  x->writer = t->writer;
  t->writer = NULL;
  return work_long(env, &x->w, NULL);
}

/* ---- ingests ---- */

static loam_status ingest_start(loam_db *db, char **paths, uint32_t n, bool move,
  const bytes *ends, loam_job **job, char **error) {
  loam_ingest_options options = {
      .struct_size = sizeof options,
      .flags = (move ? LOAM_INGEST_MOVE : 0) | (ends[0].data != NULL ? LOAM_INGEST_EXCISE : 0),
      .start = ends[0].data,
      .start_len = ends[0].len,
      .stop = ends[1].data,
      .stop_len = ends[1].len,
  };
  return loam.ingest_start(db, &options, n, (const char *const *)paths, job, error);
}

/* ingestStart(database, paths, move, start, stop): a job; start undefined: nothing is excised */
napi_value js_ingestStart(napi_env env, napi_callback_info info) {
  ARGS(5);
  uint32_t n, have = 0;
  bytes ends[2] = {{NULL, 0}, {NULL, 0}};
  char *error = NULL;
  loam_job *job = NULL;
  napi_value path, result = NULL;
  database *db = arg_open_database(env, argv[0]);
  if (db == NULL || napi_get_array_length(env, argv[1], &n) != napi_ok) return NULL;
  char **paths = calloc((size_t)n + 1, sizeof *paths);
  if (paths == NULL) {
    throw_memory(env);
    return NULL;
  }
  while (have < n && napi_get_element(env, argv[1], have, &path) == napi_ok &&
    arg_path(env, path, &paths[have])) have++;
  if (have == n && bytes_args(env, argv + 3, ends, 2)) {
    loam_status status = ingest_start(db->db, paths, n, arg_bool(env, argv[2]), ends, &job, &error);
    result = make_job(env, status, job, error);
  }
  bytes_free(ends, 2);
  for (uint32_t i = 0; i < have; i++) free(paths[i]);
  free(paths);
  return result;
}

/* ---- bulk loads ---- */

typedef struct load {
  kind kind;
  atomic_uint refs;     /* the JavaScript object, and each work item */
  loam_bulk_load *load; /* NULL once closed */
} load;

typedef struct load_work {
  work w;
  load *load; /* of an addition */
  loam_bulk_load *handle, *closing;
  void *data;
  size_t len;
} load_work;

static void load_unref(load *l) {
  if (atomic_fetch_sub(&l->refs, 1) > 1) return;
  if (l->load != NULL) loam.bulk_load_close(l->load);
  free(l);
}

static void load_finalize(napi_env env, void *data, void *hint) {
  (void)env, (void)hint;
  load_unref(data);
}

static load *arg_load(napi_env env, napi_value value) {
  load *l = get_external(env, value, KIND_LOAD);
  if (l == NULL || l->load != NULL) return l;
  napi_throw_error(env, "LEVEL_INVALID_ARGUMENT", "the load was closed");
  return NULL;
}

/* bulkLoadBegin(database, memory) */
napi_value js_bulkLoadBegin(napi_env env, napi_callback_info info) {
  ARGS(2);
  char *error = NULL;
  database *db = arg_open_database(env, argv[0]);
  load *l = db == NULL ? NULL : calloc(1, sizeof *l);
  if (l == NULL) {
    if (db != NULL) throw_memory(env);
    return NULL;
  }
  l->kind = KIND_LOAD;
  l->refs = 1;
  loam_bulk_load_options options = {.struct_size = sizeof options,
    .memory = arg_size(env, argv[1])};
  loam_status status = loam.bulk_load_begin(db->db, &options, &l->load, &error);
  if (status == LOAM_OK) return make_external(env, l, load_finalize);
  free(l);
  return refused(env, status, error);
}

static void add_run(work *w) {
  load_work *x = (load_work *)w;
  loam_batch *batch = NULL;
  w->status = loam.batch_create_from(x->data, x->len, &batch, &w->error);
  if (w->status == LOAM_OK) w->status = loam.bulk_load_add(x->handle, batch, &w->error);
  if (batch != NULL) loam.batch_close(batch);
}

static void load_release(work *w) {
  load_work *x = (load_work *)w;
  if (x->load != NULL) load_unref(x->load);
  if (x->closing != NULL) loam.bulk_load_close(x->closing);
  free(x->data);
}

/* bulkLoadAdd(database, load, batch, bytes) */
napi_value js_bulkLoadAdd(napi_env env, napi_callback_info info) {
  ARGS(4);
  void *data;
  size_t len = 0, all = 0;
  database *db = arg_open_database(env, argv[0]);
  load *l = db == NULL ? NULL : arg_load(env, argv[1]);
  load_work *x = l == NULL ? NULL : work_new(env, sizeof *x);
  if (x == NULL) return NULL;
  x->w.run = add_run;
  x->w.release = load_release;
  atomic_fetch_add(&l->refs, 1);
  x->load = l;
  x->handle = l->load;
  len = arg_size(env, argv[3]);
  if (napi_get_buffer_info(env, argv[2], &data, &all) != napi_ok || len > all) {
    throw_failure(env);
    return work_fail(&x->w);
  }
  x->data = malloc(len + 1);
  if (x->data == NULL) {
    throw_memory(env);
    return work_fail(&x->w);
  }
  memcpy(x->data, data, len);
  x->len = len;
  return work_long(env, &x->w, db);
}

/* bulkLoadFinish(load): a job */
napi_value js_bulkLoadFinish(napi_env env, napi_callback_info info) {
  ARGS(1);
  char *error = NULL;
  loam_job *job = NULL;
  load *l = arg_load(env, argv[0]);
  if (l == NULL) return NULL;
  loam_status status = loam.bulk_load_finish_start(l->load, &job, &error);
  return make_job(env, status, job, error);
}

static void load_close_run(work *w) {
  load_work *x = (load_work *)w;
  w->status = loam.bulk_load_close(x->closing);
  x->closing = NULL;
}

/* bulkLoadClose(load) */
napi_value js_bulkLoadClose(napi_env env, napi_callback_info info) {
  ARGS(1);
  load *l = arg_load(env, argv[0]);
  load_work *x = l == NULL ? NULL : work_new(env, sizeof *x);
  if (x == NULL) return NULL;
  x->w.run = load_close_run;
  x->w.release = load_release;
  x->closing = l->load;
  l->load = NULL;
  return work_long(env, &x->w, NULL);
}
