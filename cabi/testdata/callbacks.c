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
  note_end(&((order *)arg)->destroyed);
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
  CHECK(ended(&a.destroyed) == 1, "destroyed %d times", a.destroyed);

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
    CHECK(ended(&a.destroyed) == 1, "destroyed %d times", a.destroyed);
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
    /* The line comes from the background, which tells nobody of the failure. */
    for (int told = 0; !told; usleep(1000)) {
      WANT(LOAM_OK, loam_metrics(db[i], &json, &err));
      told = strstr(json, "\"logger_error\":\"no paper \xef\xbf\xbd left\"") != NULL;
      loam_free(json);
    }
    CHECK(__atomic_load_n(&lines, __ATOMIC_SEQ_CST) == 1, "%d lines", lines);
  }
  loam_close(db[0], NULL);
  CHECK(lines == 1, "destroyed early");
  loam_close(db[1], NULL);
  CHECK(lines == -1, "not destroyed");
}

typedef struct {
  int fails;     /* 1: it reports a failure, 2: its answer is none, 3: the value is NULL, 4: too long */
  int destroyed;
  int calls;
} rules;

/* Removes what begins with r, and gives what begins with c another value. */
static int decide(void *arg, int level, const void *key, size_t key_len, const void *value, size_t value_len, void **changed, size_t *changed_len, loam_failure *failure) {
  rules *r = arg;
  CHECK(!r->destroyed && level > 0 && level < 7 && key && value && !*changed, "level %d", level);
  __atomic_add_fetch(&r->calls, 1, __ATOMIC_RELAXED);
  if (key_len && *(const char *)key == 'x') {
    if (r->fails == 1) {
      *changed = malloc(1); /* freed all the same */
      loam_callback_fail(failure, "no time");
      return LOAM_FILTER_REMOVE;
    }
    if (r->fails == 2) return 7;
    if (r->fails == 4) {
      *changed = malloc(1);
      *changed_len = (size_t)1 << 40;
      return LOAM_FILTER_CHANGE;
    }
    if (r->fails == 3) {
      *changed_len = 1;
      return LOAM_FILTER_CHANGE;
    }
  }
  if (value_len && *(const char *)value == 'r') return LOAM_FILTER_REMOVE;
  if (value_len && *(const char *)value == 'c') {
    *changed = malloc(value_len + 8);
    *changed_len = (size_t)sprintf(*changed, "was %.*s", (int)value_len, (const char *)value);
    return LOAM_FILTER_CHANGE;
  }
  if (value_len && *(const char *)value == 'e') return LOAM_FILTER_CHANGE; /* the empty value */
  return LOAM_FILTER_KEEP;
}

static void ended_rules(void *arg) { ((rules *)arg)->destroyed++; }

static void holds(loam_db *db, const char *key, const char *value) {
  char buf[100];
  size_t len = 0;
  loam_status s = loam_get(db, NULL, key, strlen(key), buf, sizeof buf, &len, &err);
  CHECK(value ? s == LOAM_OK && len == strlen(value) && !memcmp(buf, value, len) : s == LOAM_NOT_FOUND, "%s: %s, %.*s", key, loam_status_name(s), (int)len, buf);
}

/* What a compaction filter answers is done, its failures lose nothing, and it has an end. */
static void filters(void) {
  static const char *failures[] = {NULL, "no time", "7 is no decision", "NULL is no value", "a value of 1099511627776 bytes"};
  rules r, refused;
  loam_options *o;
  loam_db *db;
  loam_snapshot *snapshot;
  char *json, buf[10];
  size_t len;
  memset(&r, 0, sizeof r);
  memset(&refused, 0, sizeof refused);
  WANT(LOAM_OK, loam_options_create(&o, &err));
  WANT(LOAM_ERR_INVALID_ARGUMENT, loam_options_set_compaction_filter(o, "", decide, &refused, ended_rules, &err));
  WANT(LOAM_ERR_INVALID_ARGUMENT, loam_options_set_compaction_filter(o, "x", NULL, &refused, ended_rules, &err));
  WANT(LOAM_ERR_INVALID_ARGUMENT, loam_options_set_compaction_filter(o, NULL, decide, &refused, ended_rules, &err));
  CHECK(!refused.destroyed, "a call that failed");
  WANT(LOAM_OK, loam_options_set_compaction_filter(o, "test.Rules", decide, &r, ended_rules, &err));
  WANT(LOAM_OK, loam_open("filtered", o, &db, &err));
  WANT(LOAM_OK, loam_put(db, NULL, "old", 3, "r", 1, NULL, &err));
  WANT(LOAM_OK, loam_snapshot_create(db, &snapshot, &err));
  WANT(LOAM_OK, loam_put(db, NULL, "a", 1, "keep", 4, NULL, &err));
  WANT(LOAM_OK, loam_put(db, NULL, "b", 1, "remove", 6, NULL, &err));
  WANT(LOAM_OK, loam_put(db, NULL, "c", 1, "change", 6, NULL, &err));
  WANT(LOAM_OK, loam_put(db, NULL, "e", 1, "empty", 5, NULL, &err));
  WANT(LOAM_OK, loam_put(db, NULL, "x", 1, "", 0, NULL, &err));
  for (r.fails = 1; r.fails <= 4; r.fails++) {
    loam_status s = loam_compact(db, NULL, 0, NULL, 0, &err);
    CHECK(s == LOAM_ERR_CALLBACK && strstr(err, failures[r.fails]) && strstr(err, "test.Rules") && strstr(err, "\"x\""), "%s: %s", loam_status_name(s), err);
    loam_free(err);
    err = NULL;
    WANT(LOAM_OK, loam_metrics(db, &json, &err));
    CHECK(strstr(json, failures[r.fails]) && strstr(json, "\"read_only\":null"), "%s", json);
    loam_free(json);
    holds(db, "b", "remove");
  }
  r.fails = 0;
  WANT(LOAM_OK, loam_retry(db, &err));
  WANT(LOAM_OK, loam_compact(db, NULL, 0, NULL, 0, &err));
  holds(db, "a", "keep");
  holds(db, "b", NULL);
  holds(db, "c", "was change");
  holds(db, "e", "");
  holds(db, "x", "");
  holds(db, "old", "r");
  WANT(LOAM_OK, loam_get(db, READ(snapshot, 0), "old", 3, buf, sizeof buf, &len, &err));
  WANT(LOAM_OK, loam_snapshot_close(snapshot));
  WANT(LOAM_OK, loam_compact(db, NULL, 0, NULL, 0, &err));
  holds(db, "old", NULL);
  WANT(LOAM_OK, loam_metrics(db, &json, &err));
  CHECK(strstr(json, "\"removed\":2") && strstr(json, "\"changed\":2") && strstr(json, "\"background_error\":null"), "%s", json);
  loam_free(json);
  WANT(LOAM_OK, loam_options_close(o));
  CHECK(!r.destroyed && r.calls > 0, "in use");
  WANT(LOAM_OK, loam_close(db, &err));
  CHECK(r.destroyed == 1, "destroyed %d times", r.destroyed);

  memset(&r, 0, sizeof r);
  WANT(LOAM_OK, loam_options_create(&o, &err));
  WANT(LOAM_OK, loam_options_set_compaction_filter(o, "test.Rules", decide, &r, ended_rules, &err));
  WANT(LOAM_OK, loam_options_set(o, "cache_size", "1MiB", &err));
  CHECK(!r.destroyed, "another option was set");
  WANT(LOAM_ERR_INVALID_ARGUMENT, loam_options_set(o, "compaction_filter", "prefix:", &err));
  loam_free(err);
  err = NULL;
  CHECK(!r.destroyed, "a call that failed");
  WANT(LOAM_OK, loam_options_set(o, "compaction_filter", "prefix:a,%00", &err));
  CHECK(r.destroyed == 1, "replaced by name: destroyed %d times", r.destroyed);
  WANT(LOAM_OK, loam_open("filtered", o, &db, &err));
  WANT(LOAM_OK, loam_options_close(o));
  WANT(LOAM_OK, loam_put(db, NULL, "\0x", 2, "v", 1, NULL, &err));
  WANT(LOAM_OK, loam_compact(db, NULL, 0, NULL, 0, &err));
  holds(db, "a", NULL);
  holds(db, "c", "was change");
  WANT(LOAM_NOT_FOUND, loam_has(db, NULL, "\0x", 2, &err));
  WANT(LOAM_OK, loam_close(db, &err));

  /* A keyspace has a filter of its own, which ends with the database. */
  memset(&r, 0, sizeof r);
  WANT(LOAM_OK, loam_options_create(&o, &err));
  WANT(LOAM_OK, loam_options_set(o, "format", "native", &err));
  WANT(LOAM_OK, loam_open("spaces", o, &db, &err));
  WANT(LOAM_OK, loam_options_set_compaction_filter(o, "test.Rules", decide, &r, ended_rules, &err));
  loam_db *space;
  WANT(LOAM_OK, loam_keyspace_open(db, "users", o, &space, &err));
  WANT(LOAM_OK, loam_options_close(o));
  WANT(LOAM_OK, loam_put(db, NULL, "a", 1, "remove", 6, NULL, &err));
  WANT(LOAM_OK, loam_put(space, NULL, "a", 1, "remove", 6, NULL, &err));
  WANT(LOAM_OK, loam_compact(db, NULL, 0, NULL, 0, &err));
  WANT(LOAM_OK, loam_compact(space, NULL, 0, NULL, 0, &err));
  holds(db, "a", "remove");
  holds(space, "a", NULL);
  WANT(LOAM_OK, loam_close(space, &err));
  WANT(LOAM_OK, loam_put(db, NULL, "b", 1, "", 0, NULL, &err));
  CHECK(!r.destroyed, "the keyspace goes on");
  WANT(LOAM_OK, loam_close(db, &err));
  CHECK(r.destroyed == 1, "after the close: destroyed %d times", r.destroyed);
}

typedef struct {
  char *data;
  size_t len;
} bytes;

static int keep(void *arg, const void *data, size_t len, loam_failure *failure) {
  bytes *b = arg;
  (void)failure;
  b->data = realloc(b->data, b->len + len);
  memcpy(b->data + b->len, data, len);
  b->len += len;
  return 0;
}

static size_t none(void *arg, void *data, size_t capacity, loam_failure *failure) {
  (void)arg, (void)data, (void)capacity, (void)failure;
  return 0;
}

static void put_all(int fd, const char *data, size_t len) {
  for (ssize_t n; len > 0; data += n, len -= (size_t)n) {
    n = write(fd, data, len);
    if (n < 0) return; /* the job has ended */
  }
}

/* A load that goes on after its database was closed compares keys: what it needs stays. Beside it
 * there is no other load. */
static void loading(void) {
  signal(SIGPIPE, SIG_IGN); /* jobs that fail close their end */
  order a, fails;
  loam_db *db;
  loam_job *job, *second;
  bytes dump = {0};
  int ends[2];
  memset(&a, 0, sizeof a);
  memset(&fails, 0, sizeof fails);
  loam_options *o = ordered(&a);
  WANT(LOAM_OK, loam_open("dumped", o, &db, &err));
  CHECK(fill(db) == 3000, "fill");
  WANT(LOAM_OK, loam_dump(db, NULL, "none", keep, &dump, NULL, &err));
  WANT(LOAM_OK, loam_close(db, &err));
  WANT(LOAM_OK, loam_open("loading", o, &db, &err));
  WANT(LOAM_OK, loam_options_close(o));
  CHECK(!pipe(ends), "pipe");
  WANT(LOAM_OK, loam_load_start(db, 0, ends[0], &job, &err));
  size_t some = 100000; /* more than a pipe holds: the load has begun when it is written */
  put_all(ends[1], dump.data, some);
  loam_status s = loam_load(db, 0, none, NULL, NULL, &err);
  CHECK(s == LOAM_ERR_IN_USE && strstr(err, "another dump"), "%s: %s", loam_status_name(s), err);
  loam_free(err);
  err = NULL;
  WANT(LOAM_OK, loam_load_start(db, 0, ends[0], &second, &err));
  WANT(LOAM_ERR_IN_USE, loam_job_wait(second, -1, &err));
  WANT(LOAM_OK, loam_job_close(second));
  size_t most = dump.len - 10000; /* a block, and some of the next */
  put_all(ends[1], dump.data + some, most - some);
  for (uint64_t done = 0, total; done == 0;) {
    WANT(LOAM_OK, loam_job_progress(job, &done, &total, &err));
    usleep(1000);
  }
  WANT(LOAM_OK, loam_close(db, &err));
  put_all(ends[1], dump.data + most, dump.len - most); /* compare says if it is called too late */
  close(ends[1]);
  WANT(LOAM_ERR_CLOSED, loam_job_wait(job, -1, &err));
  CHECK(a.destroyed == 1, "destroyed %d times", a.destroyed);
  WANT(LOAM_OK, loam_job_close(job));
  close(ends[0]);

  /* A comparison of the load fails. */
  o = ordered(&fails);
  WANT(LOAM_OK, loam_open("unordered", o, &db, &err));
  WANT(LOAM_OK, loam_options_close(o));
  fails.fail_at = fails.calls + 5;
  CHECK(!pipe(ends), "pipe");
  WANT(LOAM_OK, loam_load_start(db, 0, ends[0], &job, &err));
  put_all(ends[1], dump.data, dump.len);
  close(ends[1]);
  WANT(LOAM_ERR_CALLBACK, loam_job_wait(job, -1, &err));
  WANT(LOAM_OK, loam_job_close(job));
  close(ends[0]);
  loam_close(db, NULL);
  CHECK(fails.destroyed == 1, "destroyed %d times", fails.destroyed);
  free(dump.data);
}

int main(void) {
  /* Each of the first comparisons, and then every so many. */
  for (long i = 1; i < 60000; i += i < 20 ? 1 : i / 5) failing(i);
  ends();
  loading();
  loggers();
  filters();
  loam_callback_fail(NULL, "outside a callback");
  return 0;
}
