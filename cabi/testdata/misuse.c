/* The frame of the misuse matrix: TestMisuse puts the calls in. */
#include "check.h"

#include <limits.h>
#include <unistd.h>

typedef struct {
  loam_options *options;
  loam_cache *cache;
  loam_db *db;
  loam_snapshot *snapshot;
  loam_batch *batch;
  loam_iter *iter;
  loam_job *job;
} objects;

static objects good, closed;
static char bytes[16] = "bytes";
static char long_text[100000];
static const unsigned char batch_bytes[] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 'k', 1, 'v'};
static const void *lists[2] = {"a", "b"};
static size_t list_lens[2] = {1, 1};
static loam_iter_options iter_options;
static int calls;

static int a_compare_compare(void *arg, const void *a, size_t an, const void *b, size_t bn) {
  size_t n = an < bn ? an : bn;
  int c = n ? memcmp(a, b, n) : 0;
  (void)arg;
  return c ? c : an < bn ? -1 : an > bn;
}

static void a_log_log(void *arg, int level, const char *message) {
  (void)arg;
  (void)level;
  (void)message;
}

static void a_function_put(void *arg, const void *k, size_t kn, const void *v, size_t vn) {
  (void)arg;
  (void)k;
  (void)kn;
  (void)v;
  (void)vn;
}

static void a_function_del(void *arg, const void *k, size_t kn) {
  (void)arg;
  (void)k;
  (void)kn;
}

static int gone(loam_status s) { return s == LOAM_ERR_CLOSED || s == LOAM_ERR_INVALID_HANDLE; }

static void make(objects *o, const char *path) {
  char *err = NULL;
  static size_t len;
  if (gone(loam_has(o->db, NULL, "k", 1, NULL))) {
    /* A call of the matrix may have begun to close it in the background. */
    while (loam_open(path, NULL, &o->db, NULL) == LOAM_ERR_LOCKED) usleep(100);
    WANT(LOAM_OK, loam_put(o->db, "bytes", 5, "value", 5, 0, &err));
    WANT(LOAM_OK, loam_snapshot_close(o->snapshot));
    o->snapshot = NULL;
    WANT(LOAM_OK, loam_iter_close(o->iter));
    o->iter = NULL;
  }
  if (!o->snapshot || gone(loam_has(o->db, o->snapshot, "k", 1, NULL))) WANT(LOAM_OK, loam_snapshot_create(o->db, &o->snapshot, &err));
  if (gone(loam_iter_entry(o->iter, NULL))) WANT(LOAM_OK, loam_iter_create(o->db, NULL, &o->iter, &err));
  if (!loam_batch_data(o->batch, &len)) WANT(LOAM_OK, loam_batch_create(&o->batch, &err));
  if (gone(loam_job_wait(o->job, 0, NULL))) WANT(LOAM_OK, loam_flush_start(o->db, &o->job, &err));
  if (gone(loam_job_wait(o->job, -1, NULL))) exit(1);
  if (!o->options || gone(loam_options_set(o->options, "block_size", "4096", NULL))) WANT(LOAM_OK, loam_options_create(&o->options, &err));
  if (!o->cache || gone(loam_options_set_cache(o->options, o->cache, NULL))) WANT(LOAM_OK, loam_cache_create(1 << 20, &o->cache, &err));
}

#define ANY 1
#define HANDLE (s == LOAM_ERR_INVALID_HANDLE || s == LOAM_ERR_CLOSED)
#define CLOSED (s == LOAM_ERR_CLOSED)
#define ARGUMENT (s == LOAM_ERR_INVALID_ARGUMENT)
#define LARGE (s == LOAM_ERR_TOO_LARGE)

#define TRY(expect, call, text)                                                        \
  do {                                                                                 \
    make(&good, "good");                                                               \
    if (getenv("VERBOSE")) fprintf(stderr, "%s\n", text);                              \
    loam_status s = call;                                                              \
    CHECK(strcmp(loam_status_name(s), "LOAM_UNKNOWN"), "%s gives %d", text, s);        \
    CHECK(s != LOAM_ERR_INTERNAL, "%s", text);                                         \
    CHECK(expect, "%s gives %s", text, loam_status_name(s));                           \
    calls++;                                                                           \
  } while (0)

static void matrix(void) {
/* CASES */
}

int main(void) {
  char *err = NULL;
  memset(long_text, 'x', sizeof long_text - 1);
  iter_options.struct_size = sizeof iter_options;
  make(&good, "good");
  make(&closed, "closed");
  WANT(LOAM_OK, loam_batch_close(closed.batch));
  WANT(LOAM_OK, loam_iter_close(closed.iter));
  WANT(LOAM_OK, loam_snapshot_close(closed.snapshot));
  WANT(LOAM_OK, loam_job_close(closed.job));
  WANT(LOAM_OK, loam_cache_close(closed.cache));
  WANT(LOAM_OK, loam_options_close(closed.options));
  WANT(LOAM_OK, loam_close(closed.db, &err));
  matrix();
  printf("%d calls\n", calls);
  return 0;
}
