#include "addon.h"

/* The engine logs from its own threads, for as long as a database has the logger, which may be
 * longer than the environment lives. The JavaScript function is held weakly, as it may refer to
 * the database, which then could never be collected. */

#define WAITING_MESSAGES 1000 /* further ones are dropped */

typedef struct logger {
  atomic_uint refs, waiting; /* refs: the engine, and each message */
  answers *answers;
  napi_ref function; /* JavaScript thread */
  answer gone;       /* the engine has forgotten the logger */
} logger;

typedef struct message {
  answer answer;
  logger *l;
  int level;
  char text[];
} message;

static void unref(logger *l) {
  if (atomic_fetch_sub(&l->refs, 1) > 1) return;
  answers_unref(l->answers);
  free(l);
}

static void deliver(napi_env env, answer *a) {
  message *m = (message *)a;
  napi_value function = NULL, receiver, args[2];
  if (env != NULL && napi_get_reference_value(env, m->l->function, &function) == napi_ok &&
    function != NULL &&
      napi_get_undefined(env, &receiver) == napi_ok &&
      napi_create_int32(env, m->level, &args[0]) == napi_ok &&
      napi_create_string_utf8(env, m->text, NAPI_AUTO_LENGTH, &args[1]) == napi_ok)
    napi_call_function(env, receiver, function, 2, args, NULL);
  atomic_fetch_sub(&m->l->waiting, 1);
  unref(m->l);
  free(m);
}

/* Behind the messages. An environment frees its references at its end. */
static void forget(napi_env env, answer *a) {
  logger *l = (logger *)((char *)a - offsetof(logger, gone));
  if (env != NULL) napi_delete_reference(env, l->function);
  unref(l);
}

struct logger *logger_new(napi_env env, napi_value function) {
  logger *l = calloc(1, sizeof *l);
  if (l == NULL) {
    throw_memory(env);
    return NULL;
  }
  l->refs = 1;
  l->gone.deliver = forget;
  l->answers = answers_ref(get_addon(env)->answers);
  if (napi_create_reference(env, function, 0, &l->function) == napi_ok) return l;
  unref(l);
  throw_failure(env);
  return NULL;
}

void logger_log(void *arg, int level, const char *text, loam_failure *failure) {
  (void)failure; /* what the function throws is an uncaught exception of its thread */
  logger *l = arg;
  size_t size = strlen(text) + 1;
  if (atomic_load(&l->waiting) >= WAITING_MESSAGES) return;
  message *m = malloc(sizeof *m + size);
  if (m == NULL) return;
  m->answer.deliver = deliver;
  m->l = l;
  m->level = level;
  memcpy(m->text, text, size);
  atomic_fetch_add(&l->refs, 1);
  atomic_fetch_add(&l->waiting, 1);
  if (!answers_send(l->answers, &m->answer)) deliver(NULL, &m->answer);
}

void logger_destroy(void *arg) {
  logger *l = arg;
  if (!answers_send(l->answers, &l->gone)) forget(NULL, &l->gone);
}
