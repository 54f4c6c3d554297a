/* Callbacks that fail, and the ends of their arguments. */
#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

static char *err;

typedef struct {
  long calls;     /* so far */
  long fail_at;   /* which call fails, and all later ones; 0: none */
  int destroyed;
  int slow;       /* microseconds a call */
} order;

static int compare(void *arg, const void *a, size_t an, const void *b, size_t bn, loam_failure *failure) {
  order *o = arg;
  CHECK(!o->destroyed, "called after its end");
  long n = __atomic_add_fetch(&o->calls, 1, __ATOMIC_RELAXED);
  if (o->fail_at && n >= o->fail_at) loam_callback_fail(failure, "the stars are wrong");
  if (o->slow) usleep((unsigned)o->slow);
  size_t len = an < bn ? an : bn;
  int c = len ? memcmp(a, b, len) : 0;
  /* Any number stands for its sign. */
  return c ? c * 1000000 : an < bn ? -2147483647 - 1 : an > bn ? 2147483647 : 0;
}

/* What a process that the callback starts would inherit. */
static void unblocked(void) {
  sigset_t mask;
  CHECK(!pthread_sigmask(SIG_SETMASK, NULL, &mask) && !sigismember(&mask, SIGTERM) && !sigismember(&mask, SIGINT), "blocked signals in a callback");
}

static void destroy(void *arg) {
  unblocked();
   __atomic_add_fetch(&((order *)arg)->destroyed, 1, __ATOMIC_SEQ_CST); }

static int ended(order *o) {
  /* A job ends in the background. */
  for (int i = 0; i < 10000 && !__atomic_load_n(&o->destroyed, __ATOMIC_SEQ_CST); i++) usleep(1000);
  return __atomic_load_n(&o->destroyed, __ATOMIC_SEQ_CST);
}

static loam_options *ordered(order *o) {
  loam_options *options;
  WANT(LOAM_OK, loam_options_create(&options, &err));
  WANT(LOAM_OK, loam_options_set(options, "write_buffer_size", "64KiB", &err));
  WANT(LOAM_OK, loam_options_set_comparator(options, "test.Order", compare, o, destroy, 0, &err));
  return options;
}

/* Puts until one fails; returns how many were acknowledged. */
static int fill(loam_db *db) {
  char key[16], value[100];
  memset(value, 'v', sizeof value);
  for (int i = 0; i < 3000; i++) {
    size_t n = (size_t)sprintf(key, "%04d", i * 7919 % 3000);
    loam_status s = loam_put(db, NULL, key, n, value, sizeof value, NULL, &err);
    if (s == LOAM_OK) continue;
    CHECK(s == LOAM_ERR_CALLBACK && strstr(err, "the stars are wrong"), "%s: %s", loam_status_name(s), err);
    CHECK(!strstr(err, "goroutine"), "a stack in %s", err);
    loam_free(err);
    err = NULL;
    return i;
  }
  return 3000;
}

/* Whatever comparison fails, whoever makes it: what was acknowledged is there
 * after the next opening, every later write tells the message, and no read
 * gives another answer than the true one. */
static void failing(long fail_at) {
  order bad, good;
  loam_db *db;
  char key[16], value[100];
  size_t len;
  memset(&bad, 0, sizeof bad);
  memset(&good, 0, sizeof good);
  loam_options *o = ordered(&bad);
  WANT(LOAM_OK, loam_open("failing", o, &db, &err));
  bad.fail_at = bad.calls + fail_at;
  int done = fill(db);
  loam_status s = loam_flush(db, &err);
  CHECK(s == LOAM_OK || (s == LOAM_ERR_CALLBACK && strstr(err, "the stars are wrong")), "%s: %s", loam_status_name(s), err);
  if (s == LOAM_OK) s = loam_compact(db, NULL, 0, NULL, 0, &err);
  CHECK(s == LOAM_OK || (s == LOAM_ERR_CALLBACK && strstr(err, "the stars are wrong")), "%s: %s", loam_status_name(s), err);
  loam_free(err);
  err = NULL;
  for (int i = 0; i < 3000; i += 97) {
    size_t n = (size_t)sprintf(key, "%04d", i * 7919 % 3000);
    s = loam_get(db, NULL, key, n, value, sizeof value, &len, &err);
    CHECK(s == LOAM_ERR_CALLBACK || s == (i < done ? LOAM_OK : LOAM_NOT_FOUND), "get %d of %d gives %s: %s", i, done, loam_status_name(s), err);
    loam_free(err);
    err = NULL;
  }
  if (done < 3000 || bad.calls >= bad.fail_at) {
    s = loam_put(db, NULL, "k", 1, "v", 1, NULL, &err);
    CHECK(s == LOAM_ERR_CALLBACK && strstr(err, "the stars are wrong"), "a later write: %s: %s", loam_status_name(s), err);
    loam_free(err);
    err = NULL;
    s = loam_put(db, WRITE(LOAM_SYNC), "k", 1, "v", 1, NULL, NULL);
    CHECK(s == LOAM_ERR_CALLBACK, "%s", loam_status_name(s));
  }
  loam_close(db, NULL);
  CHECK(!bad.destroyed, "the options have it still");
  WANT(LOAM_OK, loam_options_close(o));
  CHECK(bad.destroyed == 1, "destroyed %d times", bad.destroyed);
  o = ordered(&good);
  WANT(LOAM_OK, loam_open("failing", o, &db, &err));
  for (int i = 0; i < done; i++) {
    size_t n = (size_t)sprintf(key, "%04d", i * 7919 % 3000);
    WANT(LOAM_OK, loam_get(db, NULL, key, n, value, sizeof value, &len, &err));
  }
  WANT(LOAM_OK, loam_close(db, &err));
  WANT(LOAM_OK, loam_destroy("failing", o, &err));
  WANT(LOAM_OK, loam_options_close(o));
  CHECK(good.destroyed == 1, "destroyed %d times", good.destroyed);
}

/* When destroy is called, and when not. */
static void ends(void) {
  order a, b, c;
  loam_db *db;
  loam_iter *it;
  loam_job *job;
  loam_cache *cache;
  memset(&a, 0, sizeof a);
  memset(&b, 0, sizeof b);
  memset(&c, 0, sizeof c);
  loam_options *o = ordered(&a);
  WANT(LOAM_ERR_INVALID_ARGUMENT, loam_options_set_comparator(o, "", compare, &c, destroy, 0, &err));
  CHECK(!c.destroyed && !a.destroyed, "a call that failed");
  WANT(LOAM_OK, loam_options_set_comparator(o, "test.Order", compare, &b, destroy, 0, &err));
  CHECK(a.destroyed == 1, "replaced: destroyed %d times", a.destroyed);

  /* An iterator that outlives database and options. */
  WANT(LOAM_OK, loam_open("ends", o, &db, &err));
  WANT(LOAM_OK, loam_put(db, NULL, "k", 1, "v", 1, NULL, &err));
  WANT(LOAM_OK, loam_iter_create(db, NULL, &it, &err));
  WANT(LOAM_OK, loam_options_close(o));
  WANT(LOAM_OK, loam_close(db, &err));
  CHECK(!b.destroyed, "the iterator has it");
  WANT(LOAM_OK, loam_iter_close(it));
  CHECK(b.destroyed == 1, "destroyed %d times", b.destroyed);

  /* A job that its starter has given up on, with the options and a cache gone. */
  memset(&a, 0, sizeof a);
  o = ordered(&a);
  a.slow = 200;
  WANT(LOAM_OK, loam_cache_create(1 << 20, &cache, &err));
  WANT(LOAM_OK, loam_options_set_cache(o, cache, &err));
  WANT(LOAM_OK, loam_cache_close(cache));
  WANT(LOAM_OK, loam_open_start("ends", o, &job, &err));
  WANT(LOAM_OK, loam_options_close(o));
  WANT(LOAM_OK, loam_job_close(job));
  CHECK(ended(&a) == 1, "destroyed %d times", a.destroyed);

  /* The same, fetched and used. */
  memset(&a, 0, sizeof a);
  for (int i = 0; i < 200; i++) {
    o = ordered(&a);
    WANT(LOAM_OK, loam_cache_create(1 << 20, &cache, &err));
    WANT(LOAM_OK, loam_options_set_cache(o, cache, &err));
    WANT(LOAM_OK, loam_open_start("ends", o, &job, &err));
    WANT(LOAM_OK, loam_cache_close(cache));
    WANT(LOAM_OK, loam_options_close(o));
    WANT(LOAM_OK, loam_job_wait(job, -1, &err));
    WANT(LOAM_OK, loam_job_db(job, &db, &err));
    WANT(LOAM_OK, loam_job_close(job));
    WANT(LOAM_OK, loam_has(db, NULL, "k", 1, &err));
    CHECK(!a.destroyed, "in use");
    WANT(LOAM_OK, loam_close(db, &err));
    CHECK(ended(&a) == 1, "destroyed %d times", a.destroyed);
    a.destroyed = 0;
  }
  WANT(LOAM_OK, loam_options_create(&o, &err));
  WANT(LOAM_OK, loam_options_set_comparator(o, "test.Order", compare, &a, destroy, 0, &err));
  WANT(LOAM_OK, loam_options_set(o, "comparator", "idb_cmp1", &err));
  CHECK(a.destroyed == 1, "replaced by name: destroyed %d times", a.destroyed);
  WANT(LOAM_OK, loam_options_close(o));
}

static void log_failing(void *arg, int level, const char *message, loam_failure *failure) {
  CHECK(level >= 4 && strstr(message, "the stars are wrong"), "%d %s", level, message);
  __atomic_add_fetch((int *)arg, 1, __ATOMIC_SEQ_CST);
  unblocked();
  loam_callback_fail(failure, "no paper \xff left");
}

static void destroy_log(void *arg) { *(int *)arg = -1; }

/* A logger that fails is not called again, says so in the metrics, and harms
 * nothing. */
static void loggers(void) {
  int lines = 0;
  order bad;
  loam_db *db[2];
  char *json;
  memset(&bad, 0, sizeof bad);
  loam_options *o = ordered(&bad);
  WANT(LOAM_OK, loam_options_set_logger(o, log_failing, &lines, destroy_log, &err));
  WANT(LOAM_OK, loam_open("logged0", o, &db[0], &err));
  WANT(LOAM_OK, loam_open("logged1", o, &db[1], &err));
  WANT(LOAM_OK, loam_options_close(o));
  bad.fail_at = 1;
  for (int i = 0; i < 2; i++) {
    CHECK(fill(db[i]) < 3000, "no comparison failed");
    /* The line comes from the background. */
    for (int wait = 0;; wait++) {
      WANT(LOAM_OK, loam_metrics(db[i], &json, &err));
      int told = strstr(json, "\"logger_error\":\"no paper \xef\xbf\xbd left\"") != NULL;
      CHECK(told || wait < 10000, "%s", json);
      loam_free(json);
      if (told) break;
      usleep(1000);
    }
    CHECK(__atomic_load_n(&lines, __ATOMIC_SEQ_CST) == 1, "%d lines", lines);
  }
  loam_close(db[0], NULL);
  CHECK(lines == 1, "destroyed early");
  loam_close(db[1], NULL);
  CHECK(lines == -1, "not destroyed");
}

int main(void) {
  /* Each of the first comparisons, and then every so many. */
  for (long i = 1; i < 60000; i += i < 20 ? 1 : i / 5) failing(i);
  ends();
  loggers();
  loam_callback_fail(NULL, "outside a callback");
  return 0;
}
