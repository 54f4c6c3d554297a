#include "addon.h"

/* ---- the object ---- */

/* Gives the handle up; the library finishes the closing in the background. */
static void database_drop(database *db) {
  loam_job *job = NULL;
  loam_db *handle = db->db;
  if (handle == NULL) return;
  db->db = NULL;
  if (db->shared) {
    shared_close(handle, NULL);
  } else if (loam.close_start(handle, &job, NULL) == LOAM_OK) {
    loam.job_close(job);
  }
}

void database_unref(database *db) {
  if (--db->refs > 0) return;
  database_drop(db);
  if (db->next != NULL) db->next->link = db->link;
  *db->link = db->next;
  addon_unref(db->owner);
  free(db);
}

void databases_close(addon *a) {
  for (database *db = a->databases; db != NULL; db = db->next) {
    loam_db *handle = db->db;
    if (handle == NULL) continue;
    db->db = NULL;
    if (db->shared) {
      shared_close(handle, NULL);
    } else {
      loam.close(handle, NULL);
    }
  }
}

static void database_finalize(napi_env env, void *data, void *hint) {
  (void)env;
  (void)hint;
  database_unref(data);
}

napi_value js_database(napi_env env, napi_callback_info info) {
  (void)info;
  addon *a = get_addon(env);
  database *db = calloc(1, sizeof *db);
  if (db == NULL) return NULL;
  db->kind = KIND_DATABASE;
  db->owner = a;
  a->refs++;
  db->refs = 1;
  db->next = a->databases;
  db->link = &a->databases;
  if (db->next != NULL) db->next->link = &db->next;
  a->databases = db;
  return make_external(env, db, database_finalize);
}

database *arg_database(napi_env env, napi_value value) { return get_external(env, value, KIND_DATABASE); }

database *arg_open_database(napi_env env, napi_value value) {
  database *db = arg_database(env, value);
  if (db != NULL && db->db == NULL) {
    napi_throw_error(env, "LEVEL_DATABASE_NOT_OPEN", "Database is not open");
    return NULL;
  }
  return db;
}

/* ---- loading, opening, destroying, repairing: on the pool ---- */

typedef struct open_work {
  work w;
  char *library, *path;
  char **options; /* name, value, name, value ... NULL */
  bool shared;
  char *json;  /* of load and repair */
  loam_db *db; /* of open */
} open_work;

static void open_release(work *w) {
  open_work *o = (open_work *)w;
  for (char **p = o->options; p != NULL && *p != NULL; p++) free(*p);
  free(o->options);
  free(o->library);
  free(o->path);
  free(o->json);
  if (o->db != NULL) loam.close(o->db, NULL); /* nobody took it */
}

static loam_status set_options(open_work *o, loam_options **options) {
  loam_status status = loam.options_create(options, &o->w.error);
  for (char **p = o->options; status == LOAM_OK && p != NULL && p[0] != NULL; p += 2)
    status = loam.options_set(*options, p[0], p[1], &o->w.error);
  return status;
}

static bool load_library(open_work *o) {
  o->w.error = library_load(o->library);
  if (o->w.error != NULL) o->w.status = LOAM_ERR_INTERNAL;
  return o->w.error == NULL;
}

static void load_run(work *w) {
  open_work *o = (open_work *)w;
  if (load_library(o)) w->status = loam.options_describe(&o->json, &w->error);
}

static void open_run(work *w) {
  open_work *o = (open_work *)w;
  loam_options *options = NULL;
  if (!load_library(o)) return;
  w->status = set_options(o, &options);
  if (w->status == LOAM_OK) {
    w->status = o->shared ? shared_open(o->path, options, &o->db, &w->error) : loam.open(o->path, options, &o->db, &w->error);
  }
  loam.options_close(options);
}

static void destroy_run(work *w) {
  open_work *o = (open_work *)w;
  if (load_library(o)) w->status = loam.destroy(o->path, NULL, &w->error);
}

static void repair_run(work *w) {
  open_work *o = (open_work *)w;
  if (load_library(o)) w->status = loam.repair(o->path, NULL, &o->json, &w->error);
}

static napi_value json_finish(napi_env env, work *w) {
  open_work *o = (open_work *)w;
  const char *json = o->json != NULL ? o->json : "";
  return make_string(env, json, strlen(json));
}

static napi_value open_finish(napi_env env, work *w) {
  open_work *o = (open_work *)w;
  napi_value undefined = NULL;
  w->db->db = o->db;
  w->db->shared = o->shared;
  o->db = NULL;
  napi_get_undefined(env, &undefined);
  return undefined;
}

static bool read_options(napi_env env, napi_value array, open_work *o) {
  uint32_t n;
  if (napi_get_array_length(env, array, &n) != napi_ok || n % 2 != 0) {
    napi_throw_type_error(env, NULL, "the options must be an array of pairs");
    return false;
  }
  o->options = calloc(n + 1, sizeof *o->options);
  if (o->options == NULL) return false;
  for (uint32_t i = 0; i < n; i++) {
    napi_value value;
    size_t len;
    if (napi_get_element(env, array, i, &value) != napi_ok || !bytes_copy(env, value, &o->options[i], &len)) return false;
    if (o->options[i] == NULL) return false;
  }
  return true;
}

static open_work *open_work_new(napi_env env, void (*run)(work *), napi_value (*finish)(napi_env, work *)) {
  open_work *o = work_new(sizeof *o);
  if (o == NULL) return NULL;
  o->w.run = run;
  o->w.finish = finish;
  o->w.release = open_release;
  o->library = strdup(get_addon(env)->library_path);
  if (o->library != NULL) return o;
  free(o);
  return NULL;
}

static napi_value open_fail(open_work *o) {
  open_release(&o->w);
  free(o);
  return NULL;
}

/* load(libraryPath): the options table as JSON. */
napi_value js_load(napi_env env, napi_callback_info info) {
  ARGS(1);
  size_t len;
  addon *a = get_addon(env);
  free(a->library_path);
  a->library_path = NULL;
  if (!bytes_copy(env, argv[0], &a->library_path, &len)) return NULL;
  if (a->library_path == NULL) a->library_path = strdup("");
  open_work *o = open_work_new(env, load_run, json_finish);
  return o == NULL ? NULL : work_queue(env, &o->w, NULL, false, "loamdb.load");
}

/* open(database, path, options, shared) */
napi_value js_open(napi_env env, napi_callback_info info) {
  ARGS(4);
  size_t len;
  database *db = arg_database(env, argv[0]);
  if (db == NULL) return NULL;
  if (db->db != NULL) {
    napi_throw_error(env, NULL, "the database is open");
    return NULL;
  }
  open_work *o = open_work_new(env, open_run, open_finish);
  if (o == NULL) return NULL;
  napi_get_value_bool(env, argv[3], &o->shared);
  if (!bytes_copy(env, argv[1], &o->path, &len) || !read_options(env, argv[2], o)) return open_fail(o);
  return work_queue(env, &o->w, db, true, "loamdb.open");
}

static napi_value on_path(napi_env env, napi_callback_info info, void (*run)(work *), napi_value (*finish)(napi_env, work *)) {
  ARGS(1);
  size_t len;
  open_work *o = open_work_new(env, run, finish);
  if (o == NULL) return NULL;
  if (!bytes_copy(env, argv[0], &o->path, &len)) return open_fail(o);
  return work_queue(env, &o->w, NULL, false, "loamdb.upkeep");
}

napi_value js_destroy(napi_env env, napi_callback_info info) { return on_path(env, info, destroy_run, NULL); }
napi_value js_repair(napi_env env, napi_callback_info info) { return on_path(env, info, repair_run, json_finish); }

/* ---- closing ---- */

typedef struct close_work {
  work w;
  loam_db *db;
  bool shared;
} close_work;

static void close_run(work *w) {
  close_work *c = (close_work *)w;
  w->status = c->shared ? shared_close(c->db, &w->error) : loam.close(c->db, &w->error);
}

napi_value js_close(napi_env env, napi_callback_info info) {
  ARGS(1);
  database *db = arg_open_database(env, argv[0]);
  if (db == NULL) return NULL;
  close_work *c = work_new(sizeof *c);
  if (c == NULL) return NULL;
  c->w.run = close_run;
  c->db = db->db;
  c->shared = db->shared;
  db->db = NULL; /* new operations fail from here on; queued ones have their own copy of the handle */
  return work_queue(env, &c->w, db, false, "loamdb.close");
}

/* ---- upkeep ---- */

typedef struct range_work {
  work w;
  loam_db *db;
  char *start, *limit;
  size_t start_len, limit_len;
  uint64_t size;
} range_work;

static void range_release(work *w) {
  range_work *r = (range_work *)w;
  free(r->start);
  free(r->limit);
}

static void compact_run(work *w) {
  range_work *r = (range_work *)w;
  w->status = loam.compact(r->db, r->start, r->start_len, r->limit, r->limit_len, &w->error);
}

static void size_run(work *w) {
  range_work *r = (range_work *)w;
  w->status = loam.approximate_sizes(r->db, 1, (const void *const *)&r->start, &r->start_len, (const void *const *)&r->limit,
                                     &r->limit_len, &r->size, &w->error);
}

static napi_value size_finish(napi_env env, work *w) {
  napi_value value = NULL;
  napi_create_int64(env, (int64_t)((range_work *)w)->size, &value);
  return value;
}

/* compactRange(database, start, limit), approximateSize(database, start, limit) */
static napi_value on_range(napi_env env, napi_callback_info info, void (*run)(work *), napi_value (*finish)(napi_env, work *)) {
  ARGS(3);
  database *db = arg_open_database(env, argv[0]);
  if (db == NULL) return NULL;
  range_work *r = work_new(sizeof *r);
  if (r == NULL) return NULL;
  r->w.run = run;
  r->w.finish = finish;
  r->w.release = range_release;
  r->db = db->db;
  if (!bytes_copy(env, argv[1], &r->start, &r->start_len) || !bytes_copy(env, argv[2], &r->limit, &r->limit_len)) {
    range_release(&r->w);
    free(r);
    return NULL;
  }
  return work_queue(env, &r->w, db, true, "loamdb.range");
}

napi_value js_compactRange(napi_env env, napi_callback_info info) { return on_range(env, info, compact_run, NULL); }
napi_value js_approximateSize(napi_env env, napi_callback_info info) { return on_range(env, info, size_run, size_finish); }

/* property(database, name): a string, undefined when there is none. */
napi_value js_property(napi_env env, napi_callback_info info) {
  ARGS(2);
  text name;
  char *value = NULL, *error = NULL;
  database *db = arg_open_database(env, argv[0]);
  if (db == NULL || !text_read(env, argv[1], &name)) return NULL;
  loam_status status = LOAM_NOT_FOUND;
  if (memchr(name.data, 0, name.len) == NULL) status = loam.property(db->db, name.data, &value, &error);
  text_free(&name);
  if (status < 0) {
    throw_status(env, status, error);
    return NULL;
  }
  napi_value result = NULL;
  if (status == LOAM_OK) result = make_string(env, value, strlen(value));
  loam.free(value);
  return result;
}

/* ---- snapshots ---- */

typedef struct snapshot {
  kind kind;
  loam_snapshot *snapshot; /* NULL once closed */
} snapshot;

static void snapshot_finalize(napi_env env, void *data, void *hint) {
  (void)env;
  (void)hint;
  snapshot *s = data;
  loam.snapshot_close(s->snapshot);
  free(s);
}

napi_value js_snapshot(napi_env env, napi_callback_info info) {
  ARGS(1);
  char *error = NULL;
  database *db = arg_open_database(env, argv[0]);
  if (db == NULL) return NULL;
  snapshot *s = calloc(1, sizeof *s);
  if (s == NULL) return NULL;
  s->kind = KIND_SNAPSHOT;
  loam_status status = loam.snapshot_create(db->db, &s->snapshot, &error);
  if (status == LOAM_OK) return make_external(env, s, snapshot_finalize);
  free(s);
  throw_status(env, status, error);
  return NULL;
}

napi_value js_snapshotClose(napi_env env, napi_callback_info info) {
  ARGS(1);
  snapshot *s = get_external(env, argv[0], KIND_SNAPSHOT);
  if (s == NULL) return NULL;
  loam.snapshot_close(s->snapshot);
  s->snapshot = NULL;
  return NULL;
}

bool arg_snapshot(napi_env env, napi_value value, const loam_snapshot **result) {
  napi_valuetype type;
  *result = NULL;
  if (napi_typeof(env, value, &type) != napi_ok) return false;
  if (type == napi_undefined || type == napi_null) return true;
  snapshot *s = get_external(env, value, KIND_SNAPSHOT);
  if (s == NULL) return false;
  if (s->snapshot == NULL) {
    napi_throw_error(env, "LEVEL_SNAPSHOT_NOT_OPEN", "Snapshot is not open: cannot use snapshot after close()");
    return false;
  }
  *result = s->snapshot;
  return true;
}
