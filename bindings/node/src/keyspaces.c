#include "addon.h"

/* Keyspaces. The native side of one is a database object whose handle is the keyspace's. */

typedef struct keyspace_work {
  work w;
  loam_db *parent;
  char *name;
  char **options; /* name, value, name, value ... NULL */
  loam_db *keyspace; /* opened, and nobody took it */
  bool bytewise;
} keyspace_work;

static void keyspace_release(work *w) {
  keyspace_work *k = (keyspace_work *)w;
  for (char **p = k->options; p != NULL && *p != NULL; p++) free(*p);
  free(k->options);
  free(k->name);
  if (k->keyspace != NULL) loam.close(k->keyspace, NULL);
}

static const char bad_name[] = "the name of a keyspace must be a string without zero bytes";

static void open_run(work *w) {
  keyspace_work *k = (keyspace_work *)w;
  loam_options *options = NULL;
  char *comparator = NULL;
  w->status = loam.options_create(&options, &w->error);
  for (char **p = k->options; w->status == LOAM_OK && p != NULL && p[0] != NULL; p += 2)
    w->status = loam.options_set(options, p[0], p[1], &w->error);
  if (w->status == LOAM_OK) {
    w->status = loam.keyspace_open(k->parent, k->name, options, &k->keyspace, &w->error);
  }
  if (w->status == LOAM_OK) w->status = loam.comparator_name(k->keyspace, &comparator, &w->error);
  k->bytewise = w->status == LOAM_OK && strcmp(comparator, "leveldb.BytewiseComparator") == 0;
  loam.free(comparator);
  loam.options_close(options);
}

static napi_value open_finish(napi_env env, work *w) {
  keyspace_work *k = (keyspace_work *)w;
  napi_value undefined = NULL;
  w->db->db = k->keyspace;
  w->db->shared = false;
  w->db->bytewise = k->bytewise;
  k->keyspace = NULL;
  napi_get_undefined(env, &undefined);
  return undefined;
}

/* keyspaceOpen(database, parent, name, options) */
napi_value js_keyspaceOpen(napi_env env, napi_callback_info info) {
  ARGS(4);
  database *db = arg_unopened(env, argv[0], "the keyspace is open"), *parent;
  keyspace_work *k = db == NULL ? NULL : work_for(env, argv[1], &parent, sizeof *k, open_run,
    keyspace_release);
  if (k == NULL) return NULL;
  k->w.finish = open_finish;
  k->parent = parent->db;
  db->follows = parent->follows;
  if (!arg_name(env, argv[2], bad_name, &k->name) || !options_read(env, argv[3], &k->options)) {
    return work_fail(&k->w);
  }
  return work_long(env, &k->w, db);
}

static void drop_run(work *w) {
  keyspace_work *k = (keyspace_work *)w;
  w->status = loam.keyspace_drop(k->parent, k->name, &w->error);
}

/* keyspaceDrop(database, name) */
napi_value js_keyspaceDrop(napi_env env, napi_callback_info info) {
  ARGS(2);
  database *db;
  keyspace_work *k = work_for(env, argv[0], &db, sizeof *k, drop_run, keyspace_release);
  if (k == NULL) return NULL;
  k->parent = db->db;
  return arg_name(env, argv[1], bad_name, &k->name) ? work_long(env, &k->w, db) : work_fail(&k->w);
}

/* keyspaceList(database): JSON */
napi_value js_keyspaceList(napi_env env, napi_callback_info info) {
  ARGS(1);
  char *names = NULL, *error = NULL;
  database *db = arg_open_database(env, argv[0]);
  if (db == NULL) return NULL;
  loam_status status = loam.keyspace_list(db->db, &names, &error);
  if (status != LOAM_OK) return refused(env, status, error);
  napi_value result = make_string(env, names, strlen(names));
  loam.free(names);
  return result;
}

/* keyspaceNumber(database): by which batches name it */
napi_value js_keyspaceNumber(napi_env env, napi_callback_info info) {
  ARGS(1);
  uint32_t number = 0;
  char *error = NULL;
  napi_value result = NULL;
  database *db = arg_open_database(env, argv[0]);
  if (db == NULL) return NULL;
  loam_status status = loam.keyspace_number(db->db, &number, &error);
  if (status != LOAM_OK) return refused(env, status, error);
  napi_create_uint32(env, number, &result);
  return result;
}
