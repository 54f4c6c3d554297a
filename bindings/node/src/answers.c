#include "addon.h"

/* Messages of other threads to the JavaScript thread of an environment. The environment may end
 * first: Node then frees its thread-safe functions, and a later call of one is a use after free.
 * Each environment has one thread-safe function, which is called under mutex and never after
 * answers_close. */

struct answers {
  pthread_mutex_t mutex;
  atomic_uint refs;
  napi_threadsafe_function function; /* NULL once the environment ends; under mutex */
  unsigned awaited;                  /* JavaScript thread */
};

/* On the JavaScript thread. env is NULL when Node empties the queue of a function that ends. */
static void call(napi_env env, napi_value none, void *context, void *data) {
  (void)none, (void)context;
  answer *a = data;
  a->deliver(env, a);
}

void answers_unref(answers *to) {
  if (atomic_fetch_sub(&to->refs, 1) > 1) return;
  pthread_mutex_destroy(&to->mutex);
  free(to);
}

void answers_close(answers *to) {
  pthread_mutex_lock(&to->mutex);
  to->function = NULL;
  pthread_mutex_unlock(&to->mutex);
}

/* The thread-safe function ends. The environment's cleanup hook has called answers_close. */
static void finalize(napi_env env, void *data, void *hint) {
  (void)env, (void)hint;
  answers_close(data);
  answers_unref(data);
}

answers *answers_new(napi_env env) {
  napi_value name;
  answers *to = calloc(1, sizeof *to);
  if (to == NULL) return NULL;
  pthread_mutex_init(&to->mutex, NULL);
  to->refs = 2; /* the caller, and the function */
  if (napi_create_string_utf8(env, "loamdb", NAPI_AUTO_LENGTH, &name) == napi_ok &&
      napi_create_threadsafe_function(env, NULL, NULL, name, 0, 1, to, finalize, NULL, call,
                                      &to->function) == napi_ok) {
    napi_unref_threadsafe_function(env, to->function);
    return to;
  }
  pthread_mutex_destroy(&to->mutex);
  free(to);
  return NULL;
}

answers *answers_ref(answers *to) {
  atomic_fetch_add(&to->refs, 1);
  return to;
}

bool answers_send(answers *to, answer *a) {
  pthread_mutex_lock(&to->mutex);
  bool sent = to->function != NULL &&
              napi_call_threadsafe_function(to->function, a, napi_tsfn_nonblocking) == napi_ok;
  pthread_mutex_unlock(&to->mutex);
  return sent;
}

void answers_await(napi_env env, answers *to) {
  if (to->awaited++ == 0) napi_ref_threadsafe_function(env, to->function);
}

void answers_came(napi_env env, answers *to) {
  if (--to->awaited == 0) napi_unref_threadsafe_function(env, to->function);
}
