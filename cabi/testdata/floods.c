/* A flood of signals over everything that calls the library, with handlers that
 * know nothing of signal stacks: floods ROOM STACK SIGNALS before|after
 *
 * It ends when so many SIGNALS were handled. ROOM bytes are what a handler uses, STACK KiB the threads' size (0: the default), before or after loam_open
 * is when the handlers are installed. The handlers must run on the program's own threads
 * only, and harm nothing there: neither while calls wait, with the collector at work, nor
 * in a thread's first call. */
#define _GNU_SOURCE
#include "check.h"

#include <alloca.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

enum { WORKERS = 8, KEYS = 3000 };

static size_t room;
static volatile int stop;
static long handled, foreign, rounds;
static __thread volatile int mine; /* a thread of this program */
static loam_db *db;
static pthread_t targets[WORKERS + 2];

static void handler(int sig) {
  volatile char *p = alloca(room);
  for (size_t i = 0; i < room; i += 64) p[i] = (char)(sig + (int)i);
  p[room - 1] = 1;
  __atomic_add_fetch(&handled, 1, __ATOMIC_RELAXED);
  if (!mine) __atomic_add_fetch(&foreign, 1, __ATOMIC_RELAXED);
}

static const int signals[] = {SIGUSR2, SIGPROF, SIGCHLD};

/* Threads are born with the signals blocked and call this. */
static void begin(void) {
  sigset_t set;
  mine = 1;
  sigemptyset(&set);
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) sigaddset(&set, signals[i]);
  pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

static int create(pthread_t *t, const pthread_attr_t *attr, void *(*f)(void *), void *arg) {
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  int err = pthread_create(t, attr, f, arg);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  return err;
}

static void install(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) CHECK(!sigaction(signals[i], &action, NULL), "sigaction");
}

/* What each worker does over and over. */
static void work(unsigned kind, unsigned *seed) {
  char *err = NULL, key[16], value[2048], *text;
  size_t n = (size_t)sprintf(key, "%08u", rand_r(seed) % KEYS), len;
  loam_iter *it;
  loam_entry e;
  memset(value, (int)(*seed % 26) + 'a', sizeof value);
  switch (kind) {
    case 0: case 1: WANT(LOAM_OK, loam_put(db, NULL, key, n, value, 1000 + rand_r(seed) % 1000, NULL, &err)); break;
    case 2: WANT(LOAM_OK, loam_put(db, WRITE(LOAM_SYNC), key, n, value, 100, NULL, &err)); break;
    case 3:
      loam_get(db, NULL, key, n, value, sizeof value, &len, &err);
      CHECK(!err, "%s", err);
      break;
    case 4:
      WANT(LOAM_OK, loam_iter_create(db, NULL, &it, &err));
      for (int i = 0; i < 100 && loam_iter_next(it, &e, NULL) == LOAM_OK; i++) CHECK(e.key_len == 8, "%zu", e.key_len);
      WANT(LOAM_OK, loam_iter_close(it));
      break;
    case 5: WANT(LOAM_OK, loam_compact(db, NULL, 0, NULL, 0, &err)); break;
    default:
      WANT(LOAM_OK, loam_metrics(db, &text, &err));
      loam_free(text);
  }
  __atomic_add_fetch(&rounds, 1, __ATOMIC_RELAXED);
}

static void *worker(void *arg) {
  unsigned seed = (unsigned)(uintptr_t)arg;
  begin();
  while (!stop) work((unsigned)(uintptr_t)arg % 7, &seed);
  return NULL;
}

/* One call, the thread's first, and out. */
static void *fresh(void *arg) {
  unsigned seed = (unsigned)(uintptr_t)arg;
  begin();
  pthread_kill(pthread_self(), SIGUSR2);
  work(3, &seed);
  return NULL;
}

static void *flood(void *arg) {
  (void)arg;
  begin();
  for (unsigned i = 0; !stop; i++) {
    pthread_kill(targets[i % WORKERS], i % 3 ? SIGUSR2 : SIGPROF);
    if (i % WORKERS == 0) {
      kill(getpid(), SIGCHLD);
      usleep(100);
    }
  }
  return NULL;
}

int main(int argc, char **argv) {
  char *err = NULL;
  CHECK(argc == 5, "usage");
  room = (size_t)atoi(argv[1]);
  size_t stack = (size_t)atoi(argv[2]) << 10;
  long wanted = atol(argv[3]);
  int before = !strcmp(argv[4], "before");
  pthread_attr_t attr;
  loam_options *o;
  mine = 1;
  if (before) install();
  WANT(LOAM_OK, loam_runtime_set(0, 1, 0, &err));
  WANT(LOAM_OK, loam_options_create(&o, &err));
  static const char *const options[][2] = {{"write_buffer_size", "128KiB"}, {"max_memtables", "2"}, {"l0_compaction", "2"}, {"l0_stop", "8"},
                                           {"max_background_jobs", "1"},    {"compression", "zstd"}, {"zstd_level", "4"}};
  for (size_t i = 0; i < sizeof options / sizeof *options; i++) WANT(LOAM_OK, loam_options_set(o, options[i][0], options[i][1], &err));
  WANT(LOAM_OK, loam_open("db", o, &db, &err));
  WANT(LOAM_OK, loam_options_close(o));
  if (!before) install();
  CHECK(!pthread_attr_init(&attr), "attr");
  if (stack) CHECK(!pthread_attr_setstacksize(&attr, stack), "a stack of %zu bytes", stack);
  pthread_t flooder;
  for (uintptr_t i = 0; i < WORKERS; i++) CHECK(!create(&targets[i], &attr, worker, (void *)i), "thread");
  CHECK(!create(&flooder, NULL, flood, NULL), "thread");
  struct itimerval profiler = {{0, 1000}, {0, 1000}};
  CHECK(!setitimer(ITIMER_PROF, &profiler, NULL), "setitimer");
  /* Each worker makes its calls meanwhile. */
  for (uintptr_t i = 0; __atomic_load_n(&handled, __ATOMIC_RELAXED) < wanted || __atomic_load_n(&rounds, __ATOMIC_RELAXED) < wanted; i++) {
    pthread_t t;
    CHECK(!create(&t, &attr, fresh, (void *)i), "thread");
    pthread_join(t, NULL);
  }
  stop = 1;
  pthread_join(flooder, NULL);
  for (int i = 0; i < WORKERS; i++) pthread_join(targets[i], NULL);
  memset(&profiler, 0, sizeof profiler);
  setitimer(ITIMER_PROF, &profiler, NULL);
  CHECK(foreign == 0, "%ld of %ld signals were handled on the library's threads", foreign, handled);
  WANT(LOAM_OK, loam_close(db, &err));
  fprintf(stderr, "%ld signals, %ld calls\n", handled, rounds);
  return 0;
}
