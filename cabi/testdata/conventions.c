/* The conventions at the top of loam.h that no other program holds, a function for
 * each: TestConventions says which sentence is held where. */
#define _GNU_SOURCE
#include "check.h"

#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char *err;

static loam_db *opened(const char *path) {
  loam_db *db;
  WANT(LOAM_OK, loam_open(path, NULL, &db, &err));
  return db;
}

/* Bytes that begin a character, or go on with one, as UTF-8 says. */
static int utf8(const char *text) {
  for (const unsigned char *p = (const unsigned char *)text; *p;) {
    int more = *p < 0x80 ? 0 : (*p & 0xe0) == 0xc0 ? 1 : (*p & 0xf0) == 0xe0 ? 2 : (*p & 0xf8) == 0xf0 ? 3 : -1;
    if (more < 0) return 0;
    for (p++; more; more--, p++)
      if ((*p & 0xc0) != 0x80) return 0;
  }
  return 1;
}

/* A message overwrites what was there, and frees nothing: here it is no message. */
static void message(loam_db *db) {
  char none[] = "not from malloc", *said = none;
  loam_put(db, NULL, "k", 1, "v", 1, NULL, &said);
  CHECK(!said, "%s", said);
  said = none;
  CHECK(loam_has(db, NULL, "nosuch", 6, &said) == LOAM_NOT_FOUND && !said, "an answer has a message");
  said = none;
  CHECK(loam_put(db, NULL, NULL, 1, "v", 1, NULL, &said) == LOAM_ERR_INVALID_ARGUMENT && said && said != none, "no message");
  CHECK(malloc_usable_size(said) > strlen(said) && strlen(said) > 10, "%s", said);
  loam_free(said);
  CHECK(!strcmp(none, "not from malloc"), "%s", none);
  CHECK(loam_put(db, NULL, NULL, 1, "v", 1, NULL, NULL) == LOAM_ERR_INVALID_ARGUMENT, "without a place for the message");
}

/* NULL is a handle of nothing; where it is optional, the default. */
static void handles(loam_db *db) {
  char buf[8];
  size_t len;
  WANT(LOAM_ERR_INVALID_HANDLE, loam_put(NULL, NULL, "k", 1, "v", 1, NULL, &err));
  WANT(LOAM_ERR_INVALID_HANDLE, loam_iter_next(NULL, NULL, &err));
  WANT(LOAM_ERR_INVALID_HANDLE, loam_write(db, NULL, NULL, NULL, &err));
  WANT(LOAM_OK, loam_put(db, NULL, "k", 1, "v", 1, NULL, &err));
  WANT(LOAM_OK, loam_get(db, READ(NULL, 0), "k", 1, buf, sizeof buf, &len, &err));
  WANT(LOAM_OK, loam_get(db, NULL, "k", 1, buf, sizeof buf, &len, &err));
}

/* What a failed call or an answer leaves in out parameters. */
static void results(loam_db *db) {
  loam_db *d = (void *)1;
  loam_iter *it = (void *)1;
  loam_snapshot *s = (void *)1;
  loam_batch *b = (void *)1;
  loam_job *job = (void *)1;
  loam_cache *cache = (void *)1;
  loam_iter_options flags;
  void *value = (void *)1, *memory = (void *)1;
  const void *key = NULL, *found = (void *)1;
  char *text = (void *)1;
  size_t len = 7, key_len = 1;
  uint64_t sequence = 7;
  memset(&flags, 0, sizeof flags);
  flags.struct_size = sizeof flags;
  flags.flags = 1ull << 50;
  WANT(LOAM_ERR_LOCKED, loam_open("db", NULL, &d, &err));
  WANT(LOAM_ERR_INVALID_ARGUMENT, loam_iter_create(db, &flags, &it, &err));
  WANT(LOAM_ERR_INVALID_HANDLE, loam_snapshot_create(NULL, &s, &err));
  WANT(LOAM_ERR_INVALID_ARGUMENT, loam_batch_create_from("x", 1, &b, &err));
  WANT(LOAM_ERR_INVALID_HANDLE, loam_flush_start(NULL, &job, &err));
  WANT(LOAM_ERR_TOO_LARGE, loam_cache_create(UINT64_MAX, &cache, &err));
  WANT(LOAM_NOT_FOUND, loam_get_alloc(db, NULL, "nosuch", 6, &value, &len, &err));
  WANT(LOAM_ERR_INVALID_ARGUMENT, loam_multi_get(db, NULL, 1, &key, &key_len, &found, &len, &memory, &err));
  WANT(LOAM_NOT_FOUND, loam_property(db, "nosuch", &text, &err));
  CHECK(!d && !it && !s && !b && !job && !cache && !value && !memory && !text, "not NULL");
  WANT(LOAM_OK, loam_put(db, NULL, "k", 1, "v", 1, &sequence, &err));
  CHECK(sequence > 0 && sequence != 7, "%llu", (unsigned long long)sequence);
}

/* How many entries lie between two bounds. */
static int between(loam_db *db, const void *lower, size_t lower_len, const void *upper, size_t upper_len) {
  loam_iter *it;
  loam_iter_options o;
  int n = 0;
  memset(&o, 0, sizeof o);
  o.struct_size = sizeof o;
  o.lower = lower, o.lower_len = lower_len;
  o.upper = upper, o.upper_len = upper_len;
  WANT(LOAM_OK, loam_iter_create(db, &o, &it, &err));
  while (loam_iter_next(it, NULL, NULL) == LOAM_OK) n++;
  WANT(LOAM_OK, loam_iter_close(it));
  return n;
}

static void any_bytes(void) {
  loam_db *db = opened("bytes");
  loam_batch *b, *c;
  loam_iter *it;
  loam_entry e;
  unsigned char all[256], key[8];
  char buf[256];
  size_t len;
  for (int i = 0; i < 256; i++) all[i] = (unsigned char)i;
  WANT(LOAM_OK, loam_put(db, NULL, all, sizeof all, all, sizeof all, NULL, &err));
  WANT(LOAM_OK, loam_get(db, NULL, all, sizeof all, buf, sizeof buf, &len, &err));
  CHECK(len == 256 && !memcmp(buf, all, 256), "%zu bytes", len);
  WANT(LOAM_OK, loam_put(db, NULL, NULL, 0, NULL, 0, NULL, &err));
  WANT(LOAM_OK, loam_get(db, NULL, "", 0, buf, sizeof buf, &len, &err));
  CHECK(len == 0 && between(db, NULL, 0, NULL, 0) == 2, "%zu bytes", len);
  WANT(LOAM_ERR_INVALID_ARGUMENT, loam_put(db, NULL, NULL, 1, "v", 1, NULL, &err));
  WANT(LOAM_ERR_INVALID_ARGUMENT, loam_put(db, NULL, "k", 1, NULL, 1, NULL, &err));
  const size_t limit = ((size_t)1 << 32) - (1 << 20);
  WANT(LOAM_ERR_TOO_LARGE, loam_put(db, NULL, "k", limit, "v", 1, NULL, &err));
  WANT(LOAM_ERR_TOO_LARGE, loam_put(db, NULL, "k", 1, "v", limit, NULL, &err));
  WANT(LOAM_ERR_TOO_LARGE, loam_has(db, NULL, "k", limit, &err));

  /* Copied: what the caller does with his memory after the call is nobody's business. */
  WANT(LOAM_OK, loam_batch_create(&b, &err));
  memcpy(key, "copied1", 7);
  WANT(LOAM_OK, loam_batch_put(b, key, 7, key, 7, &err));
  memset(key, 0, sizeof key);
  const void *data;
  void *copy;
  WANT(LOAM_OK, loam_batch_data(b, &data, &len, &err));
  copy = malloc(len);
  memcpy(copy, data, len);
  WANT(LOAM_OK, loam_batch_create_from(copy, len, &c, &err));
  memset(copy, 0xff, len);
  free(copy);
  WANT(LOAM_OK, loam_write(db, NULL, c, NULL, &err));
  memcpy(key, "copied2", 7);
  WANT(LOAM_OK, loam_put(db, NULL, key, 7, key, 7, NULL, &err));
  memcpy(key, "copied", 6);
  WANT(LOAM_OK, loam_iter_create(db, NULL, &it, &err));
  WANT(LOAM_OK, loam_iter_set_bounds(it, key, 6, NULL, 0, &err));
  memset(key, 0, sizeof key);
  for (char i = '1'; i <= '2'; i++) {
    WANT(LOAM_OK, loam_iter_next(it, &e, &err));
    CHECK(e.key_len == 7 && ((const char *)e.key)[6] == i && !memcmp(e.key, e.value, 7), "%.*s", (int)e.key_len, (const char *)e.key);
  }
  WANT(LOAM_END, loam_iter_next(it, &e, &err));
  WANT(LOAM_OK, loam_iter_close(it));
  WANT(LOAM_OK, loam_batch_close(b));
  WANT(LOAM_OK, loam_batch_close(c));

  /* Four entries: "", all bytes, copied1, copied2. */
  CHECK(between(db, NULL, 99, NULL, 99) == 4, "NULL is no bound");
  CHECK(between(db, "copied1", 7, "copied2", 7) == 1, "from the one up to the other");
  CHECK(between(db, "copied2", 7, NULL, 0) == 1 && between(db, NULL, 0, "copied1", 7) == 2, "one bound");
  CHECK(between(db, "", 0, "", 0) == 0, "the empty string is a bound");
  WANT(LOAM_OK, loam_close(db, &err));
}

/* Paths are bytes, also such as are no text; messages about them are. */
static void text(void) {
  static const char path[] = "\xff\xfe path";
  struct stat s;
  char *json;
  loam_db *db = opened(path), *again;
  CHECK(!stat(path, &s) && S_ISDIR(s.st_mode), "no directory of that name");
  CHECK(loam_open(path, NULL, &again, &err) == LOAM_ERR_LOCKED && utf8(err), "%s", err);
  const char *where = loam_error_path(err);
  CHECK(where && strstr(where, path), "path %s", where ? where : "(none)");
  loam_free(err);
  WANT(LOAM_OK, loam_metrics(db, &json, &err));
  CHECK(*json == '{' && utf8(json), "%s", json);
  loam_free(json);
  CHECK(loam_property(db, "\xff", &json, &err) == LOAM_NOT_FOUND && !json, "a property");
  loam_options *o;
  WANT(LOAM_OK, loam_options_create(&o, &err));
  CHECK(loam_options_set(o, "\xff\xfe", "\xff", &err) == LOAM_ERR_INVALID_ARGUMENT && utf8(err), "%s", err);
  loam_free(err);
  err = NULL;
  WANT(LOAM_OK, loam_options_close(o));
  WANT(LOAM_OK, loam_close(db, &err));
}

/* Memory is malloc's, and pointers live as long as is said: AddressSanitizer looks. */
static void memory(loam_db *db) {
  void *value;
  size_t len, data_len;
  loam_iter *it, *other;
  loam_entry e, f;
  loam_batch *b;
  const void *data;
  WANT(LOAM_OK, loam_put(db, NULL, "memory", 6, "value", 5, NULL, &err));
  WANT(LOAM_OK, loam_get_alloc(db, NULL, "memory", 6, &value, &len, &err));
  value = realloc(value, 100000);
  CHECK(value && !memcmp(value, "value", 5), "grown by realloc");
  loam_free(value);
  WANT(LOAM_OK, loam_iter_create(db, NULL, &it, &err));
  WANT(LOAM_OK, loam_iter_create(db, NULL, &other, &err));
  WANT(LOAM_OK, loam_iter_seek(it, "memory", 6, &e, &err));
  WANT(LOAM_OK, loam_delete(db, NULL, "memory", 6, NULL, &err));
  for (int i = 0; i < 100; i++) WANT(LOAM_OK, loam_iter_first(other, &f, &err));
  WANT(LOAM_OK, loam_flush(db, &err));
  CHECK(e.key_len == 6 && !memcmp(e.key, "memory", 6) && !memcmp(e.value, "value", 5), "an entry of a while ago");
  WANT(LOAM_OK, loam_iter_close(other));
  WANT(LOAM_OK, loam_iter_close(it));
  WANT(LOAM_OK, loam_batch_create(&b, &err));
  WANT(LOAM_OK, loam_batch_put(b, "memory", 6, "value", 5, &err));
  WANT(LOAM_OK, loam_batch_data(b, &data, &data_len, &err));
  WANT(LOAM_OK, loam_write(db, NULL, b, NULL, &err));
  WANT(LOAM_OK, loam_batch_each(b, a_operation_visit, NULL, &err));
  CHECK(data_len == 12 + 14 && !memcmp((const char *)data + 12, "\1\6memory\5value", 14), "%zu bytes", data_len);
  WANT(LOAM_OK, loam_batch_close(b));
}

static pthread_barrier_t both;

/* Waits until another thread is in a callback too, then until it has looked round. */
static int together(void *arg, const loam_operation *operation, loam_failure *failure) {
  (void)operation, (void)failure, (void)arg;
  pthread_barrier_wait(&both);
  pthread_barrier_wait(&both);
  return 1;
}

static void *each(void *batch) {
  loam_status s = loam_batch_each(batch, together, NULL, NULL);
  CHECK(s == LOAM_OK, "%s", loam_status_name(s));
  return NULL;
}

static volatile int held; /* a comparison is to wait */

static int holding(void *arg, const void *a, size_t an, const void *b, size_t bn, loam_failure *failure) {
  if (__atomic_exchange_n(&held, 0, __ATOMIC_SEQ_CST)) {
    pthread_barrier_wait(&both);
    pthread_barrier_wait(&both);
  }
  return a_compare_compare(arg, a, an, b, bn, failure);
}

static void *seek(void *iter) {
  loam_status s = loam_iter_seek(iter, "m", 1, NULL, NULL);
  CHECK(s == LOAM_OK, "%s", loam_status_name(s));
  return NULL;
}

/* Calls that meet: const ones of a batch run beside each other, the others do not. */
static void threads(loam_db *db) {
  loam_batch *b;
  loam_options *o;
  loam_db *ordered;
  loam_iter *it;
  pthread_t two[2];
  size_t n, len;
  const void *data;
  WANT(LOAM_OK, loam_batch_create(&b, &err));
  WANT(LOAM_OK, loam_batch_put(b, "k", 1, "v", 1, &err));
  CHECK(!pthread_barrier_init(&both, NULL, 3), "barrier");
  for (int i = 0; i < 2; i++) CHECK(!pthread_create(&two[i], NULL, each, b), "thread");
  pthread_barrier_wait(&both); /* both are in their callback */
  WANT(LOAM_OK, loam_batch_count(b, &n, &err));
  WANT(LOAM_OK, loam_batch_data(b, &data, &len, &err));
  WANT(LOAM_ERR_IN_USE, loam_batch_put(b, "k", 1, "v", 1, &err));
  WANT(LOAM_ERR_IN_USE, loam_batch_clear(b));
  WANT(LOAM_ERR_IN_USE, loam_write(db, NULL, b, NULL, &err));
  pthread_barrier_wait(&both);
  for (int i = 0; i < 2; i++) pthread_join(two[i], NULL);
  WANT(LOAM_OK, loam_write(db, NULL, b, NULL, &err));
  WANT(LOAM_OK, loam_batch_close(b));
  pthread_barrier_destroy(&both);

  WANT(LOAM_OK, loam_options_create(&o, &err));
  WANT(LOAM_OK, loam_options_set_comparator(o, "test.Holding", holding, NULL, NULL, 0, &err));
  WANT(LOAM_OK, loam_open("ordered", o, &ordered, &err));
  for (char c = 'a'; c <= 'z'; c++) WANT(LOAM_OK, loam_put(ordered, NULL, &c, 1, "v", 1, NULL, &err));
  WANT(LOAM_OK, loam_iter_create(ordered, NULL, &it, &err));
  WANT(LOAM_OK, loam_iter_first(it, NULL, &err));
  CHECK(!pthread_barrier_init(&both, NULL, 2), "barrier");
  held = 1;
  CHECK(!pthread_create(&two[0], NULL, seek, it), "thread");
  pthread_barrier_wait(&both); /* the iterator is in use */
  WANT(LOAM_ERR_IN_USE, loam_iter_next(it, NULL, &err));
  WANT(LOAM_ERR_IN_USE, loam_iter_entry(it, NULL, &err));
  pthread_barrier_wait(&both);
  pthread_join(two[0], NULL);
  pthread_barrier_destroy(&both);
  WANT(LOAM_OK, loam_iter_next(it, NULL, &err));
  WANT(LOAM_OK, loam_iter_close(it));
  WANT(LOAM_OK, loam_close(ordered, &err));
  WANT(LOAM_OK, loam_options_close(o));
}

/* Closes the objects, each once, in an order that rnd chooses. */
static void in_any_order(int round) {
  objects o;
  int left[7] = {0, 1, 2, 3, 4, 5, 6}, database_gone = 0;
  loam_entry e;
  WANT(LOAM_OK, loam_options_create(&o.options, &err));
  WANT(LOAM_OK, loam_cache_create(1 << 20, &o.cache, &err));
  WANT(LOAM_OK, loam_options_set_cache(o.options, o.cache, &err));
  WANT(LOAM_OK, loam_open("order", o.options, &o.db, &err));
  for (int i = 0; i < 2000; i++) WANT(LOAM_OK, loam_put(o.db, NULL, &i, sizeof i, "v", 1, NULL, &err));
  WANT(LOAM_OK, loam_snapshot_create(o.db, &o.snapshot, &err));
  WANT(LOAM_OK, loam_iter_create(o.db, NULL, &o.iter, &err));
  WANT(LOAM_OK, loam_iter_next(o.iter, &e, &err));
  WANT(LOAM_OK, loam_batch_create(&o.batch, &err));
  WANT(LOAM_OK, loam_flush_start(o.db, &o.job, &err));
  WANT(LOAM_OK, loam_job_wait(o.job, -1, &err));
  for (int n = 7; n; n--) {
    int at = (int)(rnd() % (uint64_t)n), what = left[at];
    left[at] = left[n - 1];
    switch (what) {
      case 0: WANT(LOAM_OK, loam_options_close(o.options)); break;
      case 1: WANT(LOAM_OK, loam_cache_close(o.cache)); break;
      case 2:
        WANT(LOAM_OK, loam_close(o.db, &err));
        database_gone = 1;
        break;
      case 3:
        if (database_gone) WANT(LOAM_ERR_CLOSED, loam_has(o.db, READ(o.snapshot, 0), "k", 1, &err));
        WANT(LOAM_OK, loam_snapshot_close(o.snapshot));
        break;
      case 4: WANT(LOAM_OK, loam_batch_close(o.batch)); break;
      case 5:
        if (database_gone) {
          loam_status s;
          for (int i = 0; (s = loam_iter_next(o.iter, &e, NULL)) == LOAM_OK; i++) CHECK(i < 2000, "round %d: entries without end", round);
          CHECK(s == LOAM_ERR_CLOSED, "round %d: %s", round, loam_status_name(s));
        }
        WANT(LOAM_OK, loam_iter_close(o.iter));
        break;
      case 6: WANT(LOAM_OK, loam_job_close(o.job)); break;
    }
  }
  WANT(LOAM_ERR_CLOSED, loam_options_close(o.options));
  WANT(LOAM_ERR_CLOSED, loam_cache_close(o.cache));
  WANT(LOAM_ERR_CLOSED, loam_close(o.db, &err));
  WANT(LOAM_ERR_CLOSED, loam_snapshot_close(o.snapshot));
  WANT(LOAM_ERR_CLOSED, loam_batch_close(o.batch));
  WANT(LOAM_ERR_CLOSED, loam_iter_close(o.iter));
  WANT(LOAM_ERR_CLOSED, loam_job_close(o.job));
}

static void closing(void) {
  for (int i = 0; i < 100; i++) in_any_order(i);
  WANT(LOAM_OK, loam_options_close(NULL));
  WANT(LOAM_OK, loam_cache_close(NULL));
  WANT(LOAM_OK, loam_close(NULL, &err));
  WANT(LOAM_OK, loam_snapshot_close(NULL));
  WANT(LOAM_OK, loam_batch_close(NULL));
  WANT(LOAM_OK, loam_iter_close(NULL));
  WANT(LOAM_OK, loam_job_close(NULL));
}

static int argument, meeting;

/* Two callers of one comparator meet in it. */
static int crowded(void *arg, const void *a, size_t an, const void *b, size_t bn, loam_failure *failure) {
  CHECK(arg == &argument, "another argument");
  if (meeting) {
    loam_free(malloc(10));
    pthread_barrier_wait(&both);
  }
  return a_compare_compare(arg, a, an, b, bn, failure);
}

static void *look(void *db) {
  loam_status s = loam_has(db, NULL, "key", 3, NULL);
  CHECK(s == LOAM_OK, "%s", loam_status_name(s));
  return NULL;
}

static void callbacks(void) {
  loam_options *o;
  loam_db *db;
  pthread_t two[2];
  CHECK(!pthread_barrier_init(&both, NULL, 2), "barrier");
  WANT(LOAM_OK, loam_options_create(&o, &err));
  WANT(LOAM_OK, loam_options_set_comparator(o, "test.Crowded", crowded, &argument, NULL, 0, &err));
  WANT(LOAM_OK, loam_open("crowded", o, &db, &err));
  WANT(LOAM_OK, loam_put(db, NULL, "key", 3, "v", 1, NULL, &err));
  WANT(LOAM_OK, loam_flush(db, &err));
  meeting = 1; /* both readers compare as often */
  for (int i = 0; i < 2; i++) CHECK(!pthread_create(&two[i], NULL, look, db), "thread");
  for (int i = 0; i < 2; i++) pthread_join(two[i], NULL);
  meeting = 0;
  WANT(LOAM_OK, loam_close(db, &err));
  WANT(LOAM_OK, loam_options_close(o));
}

static void own(int sig) { (void)sig; }

/* SIGSTKFLT is the library's unless the program has a handler; in a process of its
 * own, as the first opening decides. */
static int stack_fault(int handled) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = own;
  if (handled) CHECK(!sigaction(SIGSTKFLT, &action, NULL), "sigaction");
  loam_db *db = opened(handled ? "handled" : "unhandled");
  CHECK(!sigaction(SIGSTKFLT, NULL, &action), "sigaction");
  CHECK(handled == (action.sa_handler == own), "handled %d", handled);
  WANT(LOAM_OK, loam_put(db, NULL, "k", 1, "v", 1, NULL, &err));
  WANT(LOAM_OK, loam_close(db, &err));
  return 0;
}

static void signals(const char *self) {
  for (int i = 0; i < 2; i++) {
    int status;
    pid_t pid = fork();
    if (pid == 0) {
      execl(self, self, "stack_fault", i ? "1" : "0", (char *)NULL);
      _exit(9);
    }
    CHECK(waitpid(pid, &status, 0) == pid && status == 0, "ended with %x", status);
  }
}

int main(int argc, char **argv) {
  if (argc > 2) return stack_fault(atoi(argv[2]));
  signals(argv[0]);
  loam_db *db = opened("db");
  message(db);
  handles(db);
  results(db);
  any_bytes();
  text();
  memory(db);
  threads(db);
  closing();
  callbacks();
  WANT(LOAM_OK, loam_close(db, &err));
  return 0;
}
