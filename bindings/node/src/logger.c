#include "addon.h"

#include <pthread.h>

/* The engine logs from its own threads; the messages wait in a thread-safe
 * function for the JavaScript thread. It ends with the environment, the engine's
 * use of it with the database: whichever comes last frees the struct. The
 * JavaScript function is held weakly, as it may refer to the database, which
 * then could never be collected. */

#define WAITING_MESSAGES 1000 /* further ones are dropped */

typedef struct logger {
  pthread_mutex_t mutex;
  unsigned refs;                      /* the engine, and the environment; under mutex */
  napi_threadsafe_function functions; /* NULL once the environment has ended it; under mutex */
  napi_ref function;                  /* JavaScript thread */
} logger;

typedef struct message {
  int level;
  char text[];
} message;

static void unref(logger *l) {
  pthread_mutex_lock(&l->mutex);
  bool last = --l->refs == 0;
  pthread_mutex_unlock(&l->mutex);
  if (!last) return;
  pthread_mutex_destroy(&l->mutex);
  free(l);
}

/* On the JavaScript thread; env is NULL when the environment ends. */
static void deliver(napi_env env, napi_value unused, void *context, void *data) {
  (void)unused;
  logger *l = context;
  message *m = data;
  napi_value function = NULL, receiver, args[2];
  if (env != NULL && napi_get_reference_value(env, l->function, &function) == napi_ok && function != NULL &&
      napi_get_undefined(env, &receiver) == napi_ok && napi_create_int32(env, m->level, &args[0]) == napi_ok &&
      napi_create_string_utf8(env, m->text, NAPI_AUTO_LENGTH, &args[1]) == napi_ok)
    napi_call_function(env, receiver, function, 2, args, NULL);
  free(m);
}

static void finalize(napi_env env, void *data, void *hint) {
  (void)hint;
  logger *l = data;
  if (env != NULL) napi_delete_reference(env, l->function);
  pthread_mutex_lock(&l->mutex);
  l->functions = NULL;
  pthread_mutex_unlock(&l->mutex);
  unref(l);
}

struct logger *logger_new(napi_env env, napi_value function) {
  napi_value name;
  logger *l = calloc(1, sizeof *l);
  if (l == NULL) {
    throw_memory(env);
    return NULL;
  }
  pthread_mutex_init(&l->mutex, NULL);
  l->refs = 2;
  if (napi_create_reference(env, function, 0, &l->function) == napi_ok &&
      napi_create_string_utf8(env, "loamdb.log", NAPI_AUTO_LENGTH, &name) == napi_ok &&
      napi_create_threadsafe_function(env, NULL, NULL, name, WAITING_MESSAGES, 1, l, finalize, l, deliver, &l->functions) == napi_ok) {
    napi_unref_threadsafe_function(env, l->functions); /* messages do not keep the process alive */
    return l;
  }
  if (l->function != NULL) napi_delete_reference(env, l->function);
  pthread_mutex_destroy(&l->mutex);
  free(l);
  throw_failure(env);
  return NULL;
}

void logger_log(void *arg, int level, const char *text, loam_failure *failure) {
  (void)failure; /* what the function throws is an uncaught exception of its thread */
  logger *l = arg;
  size_t size = strlen(text) + 1;
  message *m = malloc(sizeof *m + size);
  if (m == NULL) return;
  m->level = level;
  memcpy(m->text, text, size);
  pthread_mutex_lock(&l->mutex);
  if (l->functions == NULL || napi_call_threadsafe_function(l->functions, m, napi_tsfn_nonblocking) != napi_ok) free(m);
  pthread_mutex_unlock(&l->mutex);
}

void logger_destroy(void *arg) {
  logger *l = arg;
  pthread_mutex_lock(&l->mutex);
  if (l->functions != NULL) napi_release_threadsafe_function(l->functions, napi_tsfn_release);
  pthread_mutex_unlock(&l->mutex);
  unref(l);
}
