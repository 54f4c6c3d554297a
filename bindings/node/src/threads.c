#define _GNU_SOURCE
#include "addon.h"

#include <signal.h>

/* Threads for work that would delay reads on libuv's pool, which has four threads. At most
 * LONG_THREADS long items run at once in the process. The number of items that wait is not
 * bounded: an item may wait for one that was started later. */

#define LONG_THREADS 8
#define IDLE_THREADS 4 /* kept for the next items */

typedef struct queue {
  work *first, **end;
} queue;

/* All of it under work_mutex. */
static pthread_cond_t handed = PTHREAD_COND_INITIALIZER;
static queue ready = {NULL, &ready.first};     /* for the next thread */
static queue delayed = {NULL, &delayed.first}; /* long items while LONG_THREADS others run */
static unsigned queued, idle, longs;           /* items of ready; threads; long items */

static void push(queue *q, work *w) {
  w->next = NULL;
  *q->end = w;
  q->end = &w->next;
}

static work *pop(queue *q) {
  work *w = q->first;
  if (w == NULL) return NULL;
  q->first = w->next;
  if (q->first == NULL) q->end = &q->first;
  return w;
}

static bool cut(queue *q, work *w) {
  for (work **p = &q->first; *p != NULL; p = &(*p)->next) {
    if (*p != w) continue;
    *p = w->next;
    if (*p == NULL) q->end = p;
    return true;
  }
  return false;
}

/* A long item has ended: the next one becomes ready. */
static void long_ended(void) {
  work *next = pop(&delayed);
  if (next == NULL) {
    longs--;
    return;
  }
  push(&ready, next);
  queued++;
  pthread_cond_signal(&handed);
}

static void *thread(void *none) {
  pthread_mutex_lock(&work_mutex);
  for (;;) {
    work *w = pop(&ready);
    if (w != NULL) {
      bool is_long = w->kind == WORK_LONG;
      queued--;
      pthread_mutex_unlock(&work_mutex);
      work_run(w);
      pthread_mutex_lock(&work_mutex);
      if (is_long) long_ended();
    } else if (idle < IDLE_THREADS) {
      idle++;
      pthread_cond_wait(&handed, &work_mutex);
      idle--;
    } else {
      break;
    }
  }
  pthread_mutex_unlock(&work_mutex);
  return none;
}

static bool create_detached(void) {
  pthread_t id;
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  bool created = pthread_create(&id, &attributes, thread, NULL) == 0;
  pthread_attr_destroy(&attributes);
  return created;
}

#ifdef _WIN32
static bool create(void) { return create_detached(); }
#else
/* Node's threads handle signals: these block all but SIGURG, by which Go stops threads, and the
 * signals of faults. */
static bool create(void) {
  sigset_t blocked, before;
  static const int open[] = {SIGURG, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
  sigfillset(&blocked);
  for (size_t i = 0; i < sizeof open / sizeof *open; i++) sigdelset(&blocked, open[i]);
  pthread_sigmask(SIG_SETMASK, &blocked, &before);
  bool created = create_detached();
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return created;
}
#endif

bool threads_start(work *w) {
  bool started = true;
  pthread_mutex_lock(&work_mutex);
  if (w->kind == WORK_LONG && longs == LONG_THREADS) {
    push(&delayed, w);
  } else if (++queued > idle && !create()) {
    queued--;
    started = false;
  } else {
    if (w->kind == WORK_LONG) longs++;
    push(&ready, w);
    pthread_cond_signal(&handed);
  }
  pthread_mutex_unlock(&work_mutex);
  return started;
}

bool threads_stop(work *w) {
  pthread_mutex_lock(&work_mutex);
  bool stopped = cut(&delayed, w);
  if (!stopped && cut(&ready, w)) {
    stopped = true;
    queued--;
    if (w->kind == WORK_LONG) long_ended();
  }
  pthread_mutex_unlock(&work_mutex);
  return stopped;
}
