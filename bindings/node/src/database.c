#include "addon.h"

/* ---- the object ---- */

static loam_status handle_close(loam_db *handle, bool shared, char **error) {
  return shared ? shared_close(handle, error) : loam.close(handle, error);
}

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

static void database_detach(database *db) {
  if (db->link == NULL) return;
  if (db->next != NULL) db->next->link = db->link;
  *db->link = db->next;
  db->link = NULL;
}

/* Behind databases_close on any thread. */
void database_unref(database *db) {
  if (atomic_fetch_sub(&db->refs, 1) > 1) return;
  database_drop(db);
  database_detach(db);
  addon_unref(db->owner);
  free(db);
}

void databases_close(addon *a) {
  while (a->databases != NULL) {
    database *db = a->databases;
    loam_db *handle = db->db;
    db->db = NULL;
    database_detach(db);
    if (handle != NULL) handle_close(handle, db->shared, NULL);
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
  if (db == NULL) {
    throw_memory(env);
    return NULL;
  }
  db->kind = KIND_DATABASE;
  db->owner = a;
  atomic_fetch_add(&a->refs, 1);
  db->refs = 1;
  db->next = a->databases;
  db->link = &a->databases;
  if (db->next != NULL) db->next->link = &db->next;
  a->databases = db;
  return make_external(env, db, database_finalize);
}

database *arg_database(napi_env env, napi_value value) {
  return get_external(env, value, KIND_DATABASE);
}

database *arg_open_database(napi_env env, napi_value value) {
  database *db = arg_database(env, value);
  if (db != NULL && db->db == NULL) {
    napi_throw_error(env, "LEVEL_DATABASE_NOT_OPEN", "Database is not open");
    return NULL;
  }
  return db;
}

/* ---- loading, opening, and work on databases that are not open ---- */

typedef struct open_work {
  work w;
  char *library, *path;
  char *to, *format; /* of export */
  char **options; /* name, value, name, value ... NULL */
  bool shared;
  struct logger *logger; /* until the options have it */
  loam_cache *cache;
  char *json;  /* of load and repair */
  loam_db *db; /* of open */
  bool bytewise;
} open_work;

static void open_release(work *w) {
  open_work *o = (open_work *)w;
  for (char **p = o->options; p != NULL && *p != NULL; p++) free(*p);
  free(o->options);
  free(o->library);
  free(o->path);
  free(o->to);
  free(o->format);
  free(o->json);
  if (o->logger != NULL) logger_destroy(o->logger);
  if (o->db != NULL) handle_close(o->db, o->shared, NULL); /* nobody took it */
}

static loam_status set_options(open_work *o, loam_options **options) {
  char **error = &o->w.error;
  loam_status status = loam.options_create(options, error);
  for (char **p = o->options; status == LOAM_OK && p != NULL && p[0] != NULL; p += 2)
    status = loam.options_set(*options, p[0], p[1], error);
  if (status == LOAM_OK && o->cache != NULL) {
    status = loam.options_set_cache(*options, o->cache, error);
  }
  if (status == LOAM_OK && o->logger != NULL) {
    status = loam.options_set_logger(*options, logger_log, o->logger, logger_destroy, error);
    if (status == LOAM_OK) o->logger = NULL;
  }
  return status;
}

static bool load_library(open_work *o) {
  o->w.error = library_load(o->library);
  if (o->w.error != NULL) o->w.status = STATUS_NOT_LOADED;
  return o->w.error == NULL;
}

static loam_status is_bytewise(open_work *o) {
  char *name = NULL;
  loam_status status = loam.comparator_name(o->db, &name, &o->w.error);
  o->bytewise = status == LOAM_OK && strcmp(name, "leveldb.BytewiseComparator") == 0;
  loam.free(name);
  return status;
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
    w->status = o->shared ? shared_open(o->path, options, &o->db, &w->error) : loam.open(
      o->path, options, &o->db, &w->error);
  }
  if (w->status == LOAM_OK) w->status = is_bytewise(o);
  loam.options_close(options);
}

static void destroy_run(work *w) {
  open_work *o = (open_work *)w;
  if (load_library(o)) w->status = loam.destroy(o->path, NULL, &w->error);
}

static void repair_run(work *w) {
  open_work *o = (open_work *)w;
  loam_options *options = NULL;
  if (!load_library(o)) return;
  w->status = set_options(o, &options);
  if (w->status == LOAM_OK) w->status = loam.repair(o->path, options, &o->json, &w->error);
  loam.options_close(options);
}

static void upgrade_run(work *w) {
  open_work *o = (open_work *)w;
  loam_options *options = NULL;
  if (!load_library(o)) return;
  w->status = set_options(o, &options);
  if (w->status == LOAM_OK) w->status = loam.upgrade(o->path, options, &w->error);
  loam.options_close(options);
}

static void export_run(work *w) {
  open_work *o = (open_work *)w;
  loam_options *options = NULL;
  if (!load_library(o)) return;
  w->status = set_options(o, &options);
  if (w->status == LOAM_OK) w->status = loam.export(o->path, o->to, o->format, options, &w->error);
  loam.options_close(options);
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
  w->db->bytewise = o->bytewise;
  o->db = NULL;
  napi_get_undefined(env, &undefined);
  return undefined;
}

bool options_read(napi_env env, napi_value array, char ***options) {
  uint32_t n;
  if (napi_get_array_length(env, array, &n) != napi_ok || n % 2 != 0) {
    napi_throw_type_error(env, NULL, "the options must be an array of pairs");
    return false;
  }
  *options = calloc(n + 1, sizeof **options);
  if (*options == NULL) {
    throw_memory(env);
    return false;
  }
  for (uint32_t i = 0; i < n; i++) {
    napi_value value;
    size_t len;
    if (napi_get_element(env, array, i, &value) != napi_ok ||
      !bytes_copy(env, value, &(*options)[i], &len)) return false;
    if ((*options)[i] == NULL || strlen((*options)[i]) != len) {
      napi_throw_error(env, "LEVEL_INVALID_ARGUMENT",
        "an option must be a string without zero bytes");
      return false;
    }
  }
  return true;
}

static bool read_options(napi_env env, napi_value array, open_work *o) {
  return options_read(env, array, &o->options);
}

static open_work *open_work_new(napi_env env, void (*run)(work *),
  napi_value (*finish)(napi_env, work *)) {
  const char *library = get_addon(env)->library_path;
  open_work *o = work_new(env, sizeof *o);
  if (o == NULL) return NULL;
  o->w.run = run;
  o->w.finish = finish;
  o->w.release = open_release;
  o->library = text_copy(library != NULL ? library : "");
  if (o->library != NULL) return o;
  free(o);
  throw_memory(env);
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
  open_work *o = open_work_new(env, load_run, json_finish);
  return o == NULL ? NULL : work_long(env, &o->w, NULL);
}

static bool read_cache(napi_env env, napi_value value, open_work *o) {
  napi_valuetype type;
  if (napi_typeof(env, value, &type) != napi_ok) return false;
  if (type == napi_undefined || type == napi_null) return true;
  o->cache = arg_cache(env, value);
  return o->cache != NULL;
}

static bool read_logger(napi_env env, napi_value value, open_work *o) {
  napi_valuetype type;
  if (napi_typeof(env, value, &type) != napi_ok) return false;
  if (type == napi_undefined || type == napi_null) return true;
  o->logger = logger_new(env, value);
  return o->logger != NULL;
}

/* open(database, path, options, shared, cache, logger, follows) */
napi_value js_open(napi_env env, napi_callback_info info) {
  ARGS(7);
  database *db = arg_unopened(env, argv[0], "the database is open");
  if (db == NULL) return NULL;
  open_work *o = open_work_new(env, open_run, open_finish);
  if (o == NULL) return NULL;
  napi_get_value_bool(env, argv[3], &o->shared);
  napi_get_value_bool(env, argv[6], &db->follows);
  if (!arg_path(env, argv[1], &o->path) || !read_options(env, argv[2], o) ||
    !read_cache(env, argv[4], o) || !read_logger(env, argv[5], o))
    return work_fail(&o->w);
  return work_long(env, &o->w, db);
}

/* destroy(path), repair(path, options), upgrade(path, options) */
static napi_value on_path(napi_env env, napi_callback_info info, void (*run)(work *),
  napi_value (*finish)(napi_env, work *)) {
  ARGS(2);
  open_work *o = open_work_new(env, run, finish);
  if (o == NULL) return NULL;
  if (!arg_path(env, argv[0], &o->path) || (run != destroy_run && !read_options(env, argv[1], o))) {
    return work_fail(&o->w);
  }
  return work_long(env, &o->w, NULL);
}

napi_value js_destroy(napi_env env, napi_callback_info info) {
  return on_path(env, info, destroy_run, NULL);
}
napi_value js_repair(napi_env env, napi_callback_info info) {
  return on_path(env, info, repair_run, json_finish);
}
napi_value js_upgrade(napi_env env, napi_callback_info info) {
  return on_path(env, info, upgrade_run, NULL);
}

/* export(path, to, format, options) */
napi_value js_export(napi_env env, napi_callback_info info) {
  ARGS(4);
  open_work *o = open_work_new(env, export_run, NULL);
  if (o == NULL) return NULL;
  if (!arg_path(env, argv[0], &o->path) || !arg_path(env, argv[1], &o->to) ||
    !arg_path(env, argv[2], &o->format) || !read_options(env, argv[3], o))
    return work_fail(&o->w);
  return work_long(env, &o->w, NULL);
}

/* ---- closing ---- */

typedef struct close_work {
  work w;
  loam_db *db; /* until it is closed */
  bool shared;
} close_work;

static void close_run(work *w) {
  close_work *c = (close_work *)w;
  w->status = handle_close(c->db, c->shared, &w->error);
  c->db = NULL;
}

static void close_release(work *w) {
  close_work *c = (close_work *)w;
  if (c->db != NULL) handle_close(c->db, c->shared, NULL);
}

napi_value js_close(napi_env env, napi_callback_info info) {
  ARGS(1);
  database *db = arg_open_database(env, argv[0]);
  close_work *c = db == NULL ? NULL : work_new(env, sizeof *c);
  if (c == NULL) return NULL;
  c->w.run = close_run;
  c->w.release = close_release;
  c->db = db->db;
  c->shared = db->shared;
  /* New operations fail from here on; queued ones have their own copy of the handle. */
  db->db = NULL;
  return work_close(env, &c->w, db);
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
  if (s->snapshot != NULL) loam.snapshot_close(s->snapshot);
  free(s);
}

napi_value js_snapshot(napi_env env, napi_callback_info info) {
  ARGS(1);
  char *error = NULL;
  database *db = arg_open_database(env, argv[0]);
  if (db == NULL) return NULL;
  snapshot *s = calloc(1, sizeof *s);
  if (s == NULL) {
    throw_memory(env);
    return NULL;
  }
  s->kind = KIND_SNAPSHOT;
  loam_status status = loam.snapshot_create(db->db, &s->snapshot, &error);
  if (status == LOAM_OK) return make_external(env, s, snapshot_finalize);
  free(s);
  throw_status(env, status, error);
  return NULL;
}

typedef struct snapshot_work {
  work w;
  loam_db *db;
  loam_snapshot *snapshot; /* until the object has it */
} snapshot_work;

static void snapshot_run(work *w) {
  snapshot_work *x = (snapshot_work *)w;
  w->status = loam.snapshot_create(x->db, &x->snapshot, &w->error);
}

static void snapshot_release(work *w) {
  snapshot_work *x = (snapshot_work *)w;
  if (x->snapshot != NULL) loam.snapshot_close(x->snapshot);
}

static napi_value snapshot_finish(napi_env env, work *w) {
  snapshot_work *x = (snapshot_work *)w;
  snapshot *s = calloc(1, sizeof *s);
  if (s == NULL) {
    throw_memory(env);
    return NULL;
  }
  s->kind = KIND_SNAPSHOT;
  s->snapshot = x->snapshot;
  x->snapshot = NULL;
  return make_external(env, s, snapshot_finalize);
}

/* snapshotMake(database): a promise, for databases that may have to catch up before */
napi_value js_snapshotMake(napi_env env, napi_callback_info info) {
  ARGS(1);
  database *db;
  snapshot_work *x = work_for(env, argv[0], &db, sizeof *x, snapshot_run, snapshot_release);
  if (x == NULL) return NULL;
  x->w.finish = snapshot_finish;
  x->db = db->db;
  return work_wait(env, &x->w, db);
}

napi_value js_snapshotClose(napi_env env, napi_callback_info info) {
  ARGS(1);
  snapshot *s = get_external(env, argv[0], KIND_SNAPSHOT);
  if (s == NULL) return NULL;
  if (s->snapshot != NULL) loam.snapshot_close(s->snapshot);
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
    napi_throw_error(env, "LEVEL_SNAPSHOT_NOT_OPEN",
      "Snapshot is not open: cannot use snapshot after close()");
    return false;
  }
  *result = s->snapshot;
  return true;
}

/* ---- caches ---- */

typedef struct cache {
  kind kind;
  loam_cache *cache; /* NULL once closed */
} cache;

static void cache_finalize(napi_env env, void *data, void *hint) {
  (void)env;
  (void)hint;
  cache *c = data;
  if (c->cache != NULL) loam.cache_close(c->cache);
  free(c);
}

/* cache(bytes); the library must be loaded. */
napi_value js_cache(napi_env env, napi_callback_info info) {
  ARGS(1);
  char *error = NULL;
  if (loam.cache_create == NULL) {
    napi_throw_error(env, "LEVEL_LIBRARY_NOT_LOADED", "the library is not loaded");
    return NULL;
  }
  cache *c = calloc(1, sizeof *c);
  if (c == NULL) {
    throw_memory(env);
    return NULL;
  }
  c->kind = KIND_CACHE;
  loam_status status = loam.cache_create(arg_size(env, argv[0]), &c->cache, &error);
  if (status == LOAM_OK) return make_external(env, c, cache_finalize);
  free(c);
  throw_status(env, status, error);
  return NULL;
}

/* resources(memory, backgroundJobs, ioBytesPerSecond, openFiles): a cache with all that is shared.
 * memory -1: UINT64_MAX. */
napi_value js_resources(napi_env env, napi_callback_info info) {
  ARGS(4);
  char *error = NULL;
  if (loam.resources_create == NULL) {
    napi_throw_error(env, "LEVEL_LIBRARY_NOT_LOADED", "the library is not loaded");
    return NULL;
  }
  cache *c = calloc(1, sizeof *c);
  if (c == NULL) {
    throw_memory(env);
    return NULL;
  }
  c->kind = KIND_CACHE;
  int64_t memory = 0;
  napi_get_value_int64(env, argv[0], &memory);
  loam_status status = loam.resources_create((uint64_t)memory, arg_size(env, argv[1]),
    arg_size(env, argv[2]), arg_size(env, argv[3]), &c->cache, &error);
  if (status == LOAM_OK) return make_external(env, c, cache_finalize);
  free(c);
  throw_status(env, status, error);
  return NULL;
}

napi_value js_cacheClose(napi_env env, napi_callback_info info) {
  ARGS(1);
  cache *c = get_external(env, argv[0], KIND_CACHE);
  if (c == NULL) return NULL;
  if (c->cache != NULL) loam.cache_close(c->cache);
  c->cache = NULL;
  return NULL;
}

loam_cache *arg_cache(napi_env env, napi_value value) {
  cache *c = get_external(env, value, KIND_CACHE);
  if (c != NULL && c->cache == NULL) {
    napi_throw_error(env, "LEVEL_CACHE_NOT_OPEN",
      "Cache is not open: cannot use cache after close()");
  }
  return c != NULL ? c->cache : NULL;
}
