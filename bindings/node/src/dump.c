#define _GNU_SOURCE /* pipe2 */
#include "addon.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* What the library takes for a descriptor of Node: on Windows its HANDLE. */
#ifdef _WIN32
extern void *uv_get_osfhandle(int fd);
#define FILE_OF(fd) (int)(intptr_t)uv_get_osfhandle((int)(fd))
#else
#define FILE_OF(fd) (int)(fd)
#endif

static bool arg_number(napi_env env, napi_value value, int64_t *n) {
  if (napi_get_value_int64(env, value, n) == napi_ok) return true;
  napi_throw_type_error(env, NULL, "a number is missing");
  return false;
}

/* dumpCheck(database, path) */
napi_value js_dumpCheck(napi_env env, napi_callback_info info) {
  ARGS(2);
  char *path = NULL, *error = NULL;
  database *db = arg_open_database(env, argv[0]);
  if (db == NULL || !arg_path(env, argv[1], &path)) return NULL;
  loam_status status = loam.dump_check(db->db, path, &error);
  free(path);
  if (status != LOAM_OK) throw_status(env, status, error);
  return NULL;
}

/* dumpStart(database, snapshot, compression, flags, fd): a job; undefined: the present, snappy */
napi_value js_dumpStart(napi_env env, napi_callback_info info) {
  ARGS(5);
  const loam_snapshot *snapshot = NULL;
  char *compression = NULL, *error = NULL;
  int64_t flags, fd;
  loam_job *started = NULL;
  napi_valuetype type;
  database *db = arg_open_database(env, argv[0]);
  if (db == NULL || !arg_snapshot(env, argv[1], &snapshot) || !arg_number(env, argv[3], &flags) ||
    !arg_number(env, argv[4], &fd)) return NULL;
  napi_typeof(env, argv[2], &type);
  if (type != napi_undefined && !arg_path(env, argv[2], &compression)) return NULL;
  loam_status status = loam.dump_start(db->db, snapshot, compression, (uint64_t)flags, FILE_OF(fd),
    &started, &error);
  free(compression);
  return make_job(env, status, started, error);
}

/* loadStart(database, flags, fd): a job */
napi_value js_loadStart(napi_env env, napi_callback_info info) {
  ARGS(3);
  char *error = NULL;
  int64_t flags, fd;
  loam_job *started = NULL;
  database *db = arg_open_database(env, argv[0]);
  if (db == NULL || !arg_number(env, argv[1], &flags) || !arg_number(env, argv[2], &fd)) {
    return NULL;
  }
  loam_status status = loam.load_start(db->db, (uint64_t)flags, FILE_OF(fd), &started, &error);
  return make_job(env, status, started, error);
}

/* dumpVerifyStart(fd): a job */
napi_value js_dumpVerifyStart(napi_env env, napi_callback_info info) {
  ARGS(1);
  char *error = NULL;
  int64_t fd;
  loam_job *started = NULL;
  if (!arg_number(env, argv[0], &fd)) return NULL;
  loam_status status = loam.dump_verify_start(FILE_OF(fd), &started, &error);
  return make_job(env, status, started, error);
}

#ifdef _WIN32
/* Descriptors of this library are none of Node, whose C library is another one. */
napi_value js_pipe(napi_env env, napi_callback_info info) {
  (void)info;
  napi_throw_error(env, "LEVEL_NOT_SUPPORTED",
    "on Windows dumps go to files and come from files, not streams: give a path");
  return NULL;
}

napi_value js_pipeClose(napi_env env, napi_callback_info info) {
  (void)env;
  (void)info;
  return NULL;
}
#else
/* The descriptors are not inherited by processes that other threads start meanwhile, which would
 * hold the pipe open. */
#ifdef __linux__
static bool make_pipe(int fds[2]) { return pipe2(fds, O_CLOEXEC) == 0; }
#else
static bool make_pipe(int fds[2]) {
  if (pipe(fds) != 0) return false;
  for (int i = 0; i < 2; i++) fcntl(fds[i], F_SETFD, FD_CLOEXEC);
  return true;
}
#endif

/* pipe(): [descriptor to read from, to write to] */
napi_value js_pipe(napi_env env, napi_callback_info info) {
  (void)info;
  int fds[2];
  napi_value array, value;
  if (!make_pipe(fds)) {
    napi_throw_error(env, "EMFILE", strerror(errno));
    return NULL;
  }
  array = make_array(env);
  for (uint32_t i = 0; array != NULL && i < 2; i++) {
    if (napi_create_int32(env, fds[i], &value) != napi_ok ||
      napi_set_element(env, array, i, value) != napi_ok) array = NULL;
  }
  if (array != NULL) return array;
  for (int i = 0; i < 2; i++) close(fds[i]);
  throw_failure(env);
  return NULL;
}

/* pipeClose(descriptor): fs.closeSync warns in a worker, where Node counts descriptors it opened.
 * */
napi_value js_pipeClose(napi_env env, napi_callback_info info) {
  ARGS(1);
  int64_t fd;
  if (arg_number(env, argv[0], &fd)) close((int)fd);
  return NULL;
}
#endif
