#include "addon.h"

/* Folders of backups. Their long work is jobs, which belong to no database here: one that is closed
 * ends those that read it. */

typedef struct folder {
  kind kind;
  loam_backup *backup; /* NULL once closed */
} folder;

typedef struct folder_work {
  work w;
  char *path;
  uint64_t number; /* flags, a backup, or how many */
  loam_backup *backup, *own; /* own: opened, and nobody took it, or to be closed */
  char *json;
} folder_work;

static void folder_finalize(napi_env env, void *data, void *hint) {
  (void)env, (void)hint;
  folder *f = data;
  if (f->backup != NULL) loam.backup_close(f->backup);
  free(f);
}

static void folder_release(work *w) {
  folder_work *f = (folder_work *)w;
  free(f->path);
  if (f->json != NULL) loam.free(f->json);
  if (f->own != NULL) loam.backup_close(f->own);
}

static folder_work *folder_new(napi_env env, void (*run)(work *)) {
  folder_work *w = work_new(env, sizeof *w);
  if (w == NULL) return NULL;
  w->w.run = run;
  w->w.release = folder_release;
  return w;
}

static folder *arg_folder(napi_env env, napi_value value) {
  folder *f = get_external(env, value, KIND_FOLDER);
  if (f == NULL || f->backup != NULL) return f;
  napi_throw_error(env, "LEVEL_BACKUPS_NOT_OPEN",
    "Backups are not open: cannot use them after close()");
  return NULL;
}

static uint64_t arg_number(napi_env env, napi_value value) {
  int64_t n = 0;
  napi_get_value_int64(env, value, &n);
  return (uint64_t)n;
}

static void open_run(work *w) {
  folder_work *f = (folder_work *)w;
  w->status = loam.backup_open(f->path, f->number, &f->own, &w->error);
}

static napi_value open_finish(napi_env env, work *w) {
  folder_work *o = (folder_work *)w;
  folder *f = calloc(1, sizeof *f);
  if (f == NULL) {
    throw_memory(env);
    return NULL;
  }
  f->kind = KIND_FOLDER;
  f->backup = o->own;
  o->own = NULL;
  return make_external(env, f, folder_finalize);
}

/* backupOpen(path, flags); the library must be loaded. */
napi_value js_backupOpen(napi_env env, napi_callback_info info) {
  ARGS(2);
  folder_work *w = folder_new(env, open_run);
  if (w == NULL) return NULL;
  w->w.finish = open_finish;
  w->number = arg_number(env, argv[1]);
  if (!arg_path(env, argv[0], &w->path)) return work_fail(&w->w);
  return work_long(env, &w->w, NULL);
}

static void list_run(work *w) {
  folder_work *f = (folder_work *)w;
  w->status = loam.backup_list(f->backup, &f->json, &w->error);
}

static void delete_run(work *w) {
  folder_work *f = (folder_work *)w;
  w->status = loam.backup_delete(f->backup, f->number, &w->error);
}

static void keep_run(work *w) {
  folder_work *f = (folder_work *)w;
  w->status = loam.backup_keep(f->backup, f->number, &w->error);
}

static void end_run(work *w) {
  folder_work *f = (folder_work *)w;
  w->status = loam.backup_close(f->own);
  f->own = NULL;
}

static napi_value list_finish(napi_env env, work *w) {
  folder_work *f = (folder_work *)w;
  return make_string(env, f->json, strlen(f->json));
}

static napi_value folder_call(napi_env env, napi_value value, void (*run)(work *),
  uint64_t number) {
  folder *f = arg_folder(env, value);
  folder_work *w = f == NULL ? NULL : folder_new(env, run);
  if (w == NULL) return NULL;
  w->backup = f->backup;
  w->number = number;
  if (run == list_run) w->w.finish = list_finish;
  if (run == end_run) {
    w->own = f->backup;
    f->backup = NULL;
  }
  return work_long(env, &w->w, NULL);
}

/* backupList(folder): a promise of JSON */
napi_value js_backupList(napi_env env, napi_callback_info info) {
  ARGS(1);
  return folder_call(env, argv[0], list_run, 0);
}

/* backupDelete(folder, id) */
napi_value js_backupDelete(napi_env env, napi_callback_info info) {
  ARGS(2);
  return folder_call(env, argv[0], delete_run, arg_number(env, argv[1]));
}

/* backupKeep(folder, n) */
napi_value js_backupKeep(napi_env env, napi_callback_info info) {
  ARGS(2);
  return folder_call(env, argv[0], keep_run, arg_number(env, argv[1]));
}

/* backupClose(folder) */
napi_value js_backupClose(napi_env env, napi_callback_info info) {
  ARGS(1);
  return folder_call(env, argv[0], end_run, 0);
}

/* backupCreate(folder, database, rate): a job */
napi_value js_backupCreate(napi_env env, napi_callback_info info) {
  ARGS(3);
  char *error = NULL;
  loam_job *job = NULL;
  folder *f = arg_folder(env, argv[0]);
  database *db = f == NULL ? NULL : arg_open_database(env, argv[1]);
  if (db == NULL) return NULL;
  loam_status status = loam.backup_create_start(f->backup, db->db, arg_number(env, argv[2]), &job,
    &error);
  return make_job(env, status, job, error);
}

/* backupVerify(folder, id, rate): a job */
napi_value js_backupVerify(napi_env env, napi_callback_info info) {
  ARGS(3);
  char *error = NULL;
  loam_job *job = NULL;
  folder *f = arg_folder(env, argv[0]);
  if (f == NULL) return NULL;
  loam_status status = loam.backup_verify_start(f->backup, arg_number(env, argv[1]),
    arg_number(env, argv[2]), &job, &error);
  return make_job(env, status, job, error);
}

/* backupRestore(folder, id, path, rate): a job */
napi_value js_backupRestore(napi_env env, napi_callback_info info) {
  ARGS(4);
  char *error = NULL, *path = NULL;
  loam_job *job = NULL;
  folder *f = arg_folder(env, argv[0]);
  if (f == NULL || !arg_path(env, argv[2], &path)) return NULL;
  loam_status status = loam.backup_restore_start(f->backup, arg_number(env, argv[1]), path,
    arg_number(env, argv[3]), &job, &error);
  free(path);
  return make_job(env, status, job, error);
}
