//go:build cgo

#include "shim.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

void *loamgo_alloc(size_t n) { return malloc(n ? n : 1); }

void loamgo_release(void *p) { free(p); }

/* Stands for a message that memory is too short for. */
static char no_words[] = "a callback failed, and memory for its message is out";

void loam_callback_fail(loam_failure *failure, const char *message) {
  if (!failure || failure->message) return;
  failure->message = strdup(message ? message : "it did not say why");
  if (!failure->message) failure->message = no_words;
}

const char *loamgo_failure_text(intptr_t failure) { return (const char *)failure; }

void loamgo_failure_free(intptr_t failure) {
  if ((char *)failure != no_words) free((char *)failure);
}

loam_status loam_fail_callback(char **err, loam_failure *failure) {
  loam_fail(err, LOAM_ERR_CALLBACK, "loam: the callback failed: %s", failure->message);
  loamgo_failure_free((intptr_t)failure->message);
  return LOAM_ERR_CALLBACK;
}

__thread loam_callback *loam_callbacks;

static __thread bool interrupted;

void loam_callback_interrupt(loam_failure *failure) {
  if (failure) interrupted = true;
}

int loamgo_interrupted(void) {
  bool was = interrupted;
  interrupted = false;
  return was;
}

static loam_status refuse(const char *callback, char **err) {
  return loam_fail(err, LOAM_ERR_IN_USE,
    "loam: %s must not make this call; convention 10 of loam.h says which it may", callback);
}

loam_status loam_enter(int call, char **err) {
  bool nested = false;
  for (const loam_callback *c = loam_callbacks; c; c = c->outer) {
    if (c->may == CALLBACK_ALONE || (c->may == CALLBACK_READS && (nested || call != CALL_READS)) ||
      (c->may == CALLBACK_STAYS && call == CALL_CLOSES)) return refuse(c->name, err);
    nested = nested || c->may == CALLBACK_READS;
  }
  /* else it stays unready, so that each call comes here */
  if (!loam_callbacks) loam_prepare_thread();
  return LOAM_OK;
}

intptr_t loamgo_compare(uintptr_t fn, uintptr_t arg, const unsigned char *a, size_t a_len,
  const unsigned char *b, size_t b_len) {
  loam_compare_fn compare = (loam_compare_fn)fn;
  loam_failure failure = {NULL};
  loam_callback here;
  loam_callback_begin(&here, "a comparator", CALLBACK_ALONE);
  /* Callbacks may hand the pointers to memcmp, which NULL must not reach. */
  int order = compare((void *)arg, a ? (const void *)a : "", a_len, b ? (const void *)b : "",
    b_len, &failure);
  loam_callback_end(&here);
  if (__builtin_expect(failure.message != NULL, 0)) return (intptr_t)failure.message;
  return (order > 0) - (order < 0);
}

/* Loggers and destroy functions may start processes, which inherit the mask: on
 * Go's threads they get that of the thread that loaded the library. Comparators
 * do not, two system calls a comparison being too many. */
static void open_signals(loam_mask *before) {
  if (!loam_go_thread) return;
  loam_mask mask = loam_loader_mask;
  loam_keep_urgent(&mask);
  loam_set_mask(&mask, before);
}

static void close_signals(const loam_mask *before) {
  if (loam_go_thread) loam_set_mask(before, NULL);
}

intptr_t loamgo_log(uintptr_t fn, uintptr_t arg, int level, const char *message) {
  loam_log_fn log = (loam_log_fn)fn;
  loam_failure failure = {NULL};
  loam_mask before = {0};
  loam_callback here;
  loam_callback_begin(&here, "a logger", CALLBACK_STAYS);
  open_signals(&before);
  log((void *)arg, level, message, &failure);
  close_signals(&before);
  loam_callback_end(&here);
  return (intptr_t)failure.message;
}

void loamgo_call_destroy(uintptr_t fn, uintptr_t arg) {
  loam_mask before = {0};
  open_signals(&before);
  ((loam_destroy_fn)fn)((void *)arg);
  close_signals(&before);
}
