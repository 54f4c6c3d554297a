/* The library's threads block all signals, and SIGURG until the first loam_open gives
 * its handler a stack; the program's mask stays as it was,
 * and a flood of signals whose handler uses 16 KiB of whatever stack it is on,
 * without SA_ONSTACK, harms nothing: neither the main thread nor new ones,
 * whose goroutine stacks have not grown yet. */
#include "check.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

static volatile sig_atomic_t handled;
static volatile int stop;
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER; /* guards victim */
static pthread_t victim;
static loam_db *db;

static void handler(int sig) {
  volatile char room[16 << 10];
  for (size_t i = 0; i < sizeof room; i += 64) room[i] = (char)sig;
  handled++;
}

static volatile sig_atomic_t strangers; /* SIGURGs on the library's threads */
static volatile sig_atomic_t alone;     /* those and the main thread are all there are */

static void urgent(int sig) {
  if (alone && syscall(SYS_gettid) != getpid()) {
    stack_t s;
    CHECK(!sigaltstack(NULL, &s) && s.ss_flags & SS_ONSTACK, "SIGURG on a stack of Go's");
    strangers++;
  }
  handler(sig);
}

/* Sends the library's threads SIGURG, as Go does to stop them. */
static void urge(void) {
  DIR *tasks = opendir("/proc/self/task");
  CHECK(tasks, "/proc/self/task");
  for (struct dirent *d; (d = readdir(tasks));) {
    long tid = atol(d->d_name);
    if (tid && tid != getpid()) syscall(SYS_tgkill, getpid(), tid, SIGURG);
  }
  closedir(tasks);
}

/* A handler of SIGURG without SA_ONSTACK, installed while Go starts and before the
 * first loam_open, runs on Go's threads after that only, and on a stack of its own. */
static void urge_early(bool follow) {
  char *err = NULL;
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = urgent;
  alone = 1;
  CHECK(!sigaction(SIGURG, &action, NULL), "sigaction");
  for (int i = 0; i < 200; i++) urge();
  loam_options *o;
  WANT(LOAM_OK, loam_options_create(&o, &err)); /* waits until Go has started */
  for (int i = 0; i < 200; i++) urge();
  CHECK(!strangers, "%d SIGURGs on the library's threads before loam_open", (int)strangers);
  /* a follower counts, even of what is not there */
  if (follow) WANT(LOAM_ERR_DOES_NOT_EXIST, loam_follower_open("db", o, &db, &err));
  else WANT(LOAM_OK, loam_open("db", o, &db, &err));
  CHECK(!sigaction(SIGURG, NULL, &action) && action.sa_flags & SA_ONSTACK && action.sa_handler == urgent, "SIGURG's handler");
  for (int i = 0; i < 200 || (!strangers && i < 100000); i++) urge();
  CHECK(strangers, "SIGURG does not reach the library's threads after loam_open");
  if (follow) WANT(LOAM_OK, loam_open("db", o, &db, &err));
  WANT(LOAM_OK, loam_options_close(o));
  alone = 0;
}

static void *flood(void *arg) {
  (void)arg;
  while (!stop) {
    pthread_mutex_lock(&mu);
    pthread_kill(victim, SIGUSR2);
    pthread_mutex_unlock(&mu);
    usleep(20);
  }
  return NULL;
}

static void aim(pthread_t at) {
  pthread_mutex_lock(&mu);
  victim = at;
  pthread_mutex_unlock(&mu);
}

static void *work(void *rounds) {
  char *err = NULL, key[16], buf[64];
  size_t len;
  for (int r = 0; r < *(int *)rounds; r++) {
    int i = (int)(rnd() % 2000);
    size_t n = (size_t)sprintf(key, "key%d", i);
    WANT(LOAM_OK, loam_get(db, NULL, key, n, buf, sizeof buf, &len, &err));
    CHECK(len == n && !memcmp(buf, key, n), "%s", key);
    if (r % 100 == 99) {
      loam_iter *it;
      WANT(LOAM_OK, loam_iter_create(db, NULL, &it, &err));
      for (int k = 0; k < 50; k++) WANT(LOAM_OK, loam_iter_next(it, NULL, &err));
      WANT(LOAM_OK, loam_iter_close(it));
      WANT(LOAM_OK, loam_put(db, NULL, key, n, key, n, NULL, &err));
    }
    if (r % 20000 == 0) kill(getpid(), SIGUSR2);
  }
  return NULL;
}

static void *work_under_fire(void *rounds) {
  pthread_t before = victim;
  aim(pthread_self());
  work(rounds);
  aim(before);
  return NULL;
}

/* The mask of a thread of this process. */
static unsigned long long blocked(const char *tid) {
  char path[300], line[256];
  unsigned long long mask = 0;
  snprintf(path, sizeof path, "/proc/self/task/%s/status", tid);
  FILE *f = fopen(path, "r");
  CHECK(f, "%s", path);
  while (fgets(line, sizeof line, f)) sscanf(line, "SigBlk: %llx", &mask);
  fclose(f);
  return mask;
}

/* Left out are the signals that a thread gets by its own fault, those that
 * cannot be blocked, those of the C library itself, and the one of convention 12. */
static unsigned long long asynchronous(void) {
  unsigned long long mask = 0;
  static const int own[] = {SIGKILL, SIGSTOP, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGURG};
  for (int s = 1; s < 32; s++) mask |= 1ull << (s - 1);
  for (int s = 35; s <= 64; s++) mask |= 1ull << (s - 1);
  for (size_t i = 0; i < sizeof own / sizeof *own; i++) mask &= ~(1ull << (own[i] - 1));
  return mask;
}

/* A thread's mask is as it was after its first call and later ones. */
static void *masked(void *arg) {
  char *err = NULL;
  sigset_t before, after;
  (void)arg;
  sigfillset(&before);
  sigdelset(&before, SIGHUP);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_sigmask(SIG_SETMASK, NULL, &before);
  for (int i = 0; i < 3; i++) {
    WANT(LOAM_OK, loam_has(db, NULL, "key1", 4, &err));
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    for (int s = 1; s < 65; s++) CHECK(sigismember(&before, s) == sigismember(&after, s), "signal %d after call %d", s, i);
  }
  return NULL;
}

/* Handlers with SA_ONSTACK have more than 32 KiB. */
static void roomy(int sig) {
  volatile char room[48 << 10];
  for (size_t i = 0; i < sizeof room; i += 64) room[i] = (char)sig;
  handled++;
}

static void *on_stack(void *arg) {
  char *err = NULL;
  struct sigaction action;
  (void)arg;
  WANT(LOAM_OK, loam_has(db, NULL, "key1", 4, &err));
  memset(&action, 0, sizeof action);
  action.sa_handler = roomy;
  action.sa_flags = SA_ONSTACK;
  CHECK(!sigaction(SIGUSR1, &action, NULL), "sigaction");
  int before = handled;
  raise(SIGUSR1);
  CHECK(handled == before + 1, "not handled");
  stack_t s;
  CHECK(!sigaltstack(NULL, &s) && s.ss_size >= 128 << 10, "a stack of %zu bytes", s.ss_size);
  WANT(LOAM_OK, loam_has(db, NULL, "key1", 4, &err));
  return NULL;
}

int main(int argc, char **argv) {
  char *err = NULL, self[32], key[16];
  int threads = 0;
  sigset_t mask;
  CHECK(!pthread_sigmask(SIG_SETMASK, NULL, &mask) && !sigismember(&mask, SIGUSR2) && !sigismember(&mask, SIGINT), "the main thread's mask was changed");
  struct sigaction action;
  urge_early(argc > 1 && !strcmp(argv[1], "follow"));
  for (int i = 0; i < 2000; i++) {
    size_t n = (size_t)sprintf(key, "key%d", i);
    WANT(LOAM_OK, loam_put(db, NULL, key, n, key, n, NULL, &err));
    if (i % 500 == 0) WANT(LOAM_OK, loam_compact(db, NULL, 0, NULL, 0, &err));
  }
  snprintf(self, sizeof self, "%ld", (long)syscall(SYS_gettid));
  DIR *tasks = opendir("/proc/self/task");
  for (struct dirent *d; (d = readdir(tasks));) {
    if (d->d_name[0] == '.' || !strcmp(d->d_name, self)) continue;
    unsigned long long open = asynchronous() & ~blocked(d->d_name);
    CHECK(!open, "thread %s does not block %llx", d->d_name, open);
    threads++;
  }
  closedir(tasks);
  CHECK(threads > 0, "no threads of the library's found");

  pthread_t other;
  for (int i = 0; i < 50; i++) {
    CHECK(!pthread_create(&other, NULL, i % 2 ? masked : on_stack, NULL), "thread");
    pthread_join(other, NULL);
  }

  memset(&action, 0, sizeof action);
  action.sa_handler = handler;
  CHECK(!sigaction(SIGUSR2, &action, NULL), "sigaction");
  victim = pthread_self();
  pthread_t flooder;
  CHECK(!pthread_create(&flooder, NULL, flood, NULL), "thread");
  int many = 50000, few = 300;
  work(&many);
  for (int i = 0; i < 300; i++) {
    pthread_t fresh;
    CHECK(!pthread_create(&fresh, NULL, work_under_fire, &few), "thread");
    pthread_join(fresh, NULL);
  }
  stop = 1;
  pthread_join(flooder, NULL);
  CHECK(handled > 100, "only %d signals were handled", (int)handled);
  WANT(LOAM_OK, loam_close(db, &err));
  fprintf(stderr, "%d signals, %d SIGURGs on %d threads\n", (int)handled, (int)strangers, threads);
  return 0;
}
