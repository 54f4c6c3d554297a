/* Times of the hot calls, in nanoseconds, one per line. Usage: bench DIR N;
 * the database must exist and hold N entries. */
#include "check.h"

#include <pthread.h>
#include <time.h>

/* The thread's own time: other programs on the machine are left out. */
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double clock_time(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static size_t key_of(uint64_t i, char *key) {
  memcpy(key, "key-000000000000", 16);
  for (int d = 15; i; i /= 10, d--) key[d] = (char)('0' + i % 10);
  return 16;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

int main(int argc, char **argv) {
  CHECK(argc == 3, "usage");
  char *err = NULL, key[16], value[256];
  int n = atoi(argv[2]);
  loam_db *db;
  WANT(LOAM_OK, loam_open(argv[1], NULL, &db, &err));

  size_t len = 0;
  double t = 0, get = 1e9;
  for (int round = 0; round < 5; round++) {
    t = now();
    for (int i = 0; i < n; i++) {
      key_of(rnd() % (uint64_t)n, key);
      loam_status s = loam_get(db, NULL, key, 16, value, sizeof value, &len, &err);
      CHECK(s == LOAM_OK && len == 100, "get");
    }
    t = (now() - t) / n;
    if (t < get) get = t;
  }
  printf("get %.1f\n", get);

  loam_iter *it;
  loam_entry e;
  int count = 0;
  double steps = 1e9, blocks = 1e9;
  for (int round = 0; round < 5; round++) {
    WANT(LOAM_OK, loam_iter_create(db, NULL, &it, &err));
    t = now();
    for (count = 0; loam_iter_next(it, &e, &err) == LOAM_OK; count++) len += e.value_len + *(const unsigned char *)e.key + *(const unsigned char *)e.value;
    t = (now() - t) / n;
    if (t < steps) steps = t;
    CHECK(count == n, "%d", count);
    WANT(LOAM_OK, loam_iter_close(it));
    WANT(LOAM_OK, loam_iter_create(db, NULL, &it, &err));
    t = now();
    loam_block block;
    for (count = 0; loam_iter_next_block(it, 0, 0, &block, &err) == LOAM_OK;) count += (int)block.count;
    t = (now() - t) / n;
    if (t < blocks) blocks = t;
    CHECK(count == n, "%d", count);
    WANT(LOAM_OK, loam_iter_close(it));
  }
  printf("step %.1f\nblock %.1f\n", steps, blocks);

  loam_batch *b;
  double put = 1e9, write = 1e9;
  memset(value, 'v', sizeof value);
  WANT(LOAM_OK, loam_batch_create(&b, &err));
  for (int round = 0; round < 20; round++) {
    WANT(LOAM_OK, loam_batch_clear(b));
    t = now();
    for (int i = 0; i < 1000; i++) {
      key_of((uint64_t)i, key);
      loam_batch_put(b, key, 16, value, 100, NULL);
    }
    double u = now();
    WANT(LOAM_OK, loam_write(db, NULL, b, NULL, &err));
    double v = now();
    if ((u - t) / 1000 < put) put = (u - t) / 1000;
    if ((v - t) / 1000 < write) write = (v - t) / 1000;
  }
  printf("batch_put %.1f\nbatch %.1f\n", put, write);

  t = now();
  for (int i = 0; i < 20000; i++) {
    key_of((uint64_t)i, key);
    loam_put(db, NULL, key, 16, value, 100, NULL, NULL);
  }
  printf("put %.1f\n", (now() - t) / 20000);

  /* Gets beside a compaction of everything. */
  loam_job *job;
  enum { MOST = 4000000 };
  double *times = malloc(MOST * sizeof *times);
  int calls = 0;
  WANT(LOAM_OK, loam_compact_start(db, NULL, 0, NULL, 0, &job, &err));
  while (loam_job_wait(job, 0, &err) == LOAM_TIMEOUT && calls + 100 < MOST)
    for (int i = 0; i < 100; i++) {
      key_of(rnd() % (uint64_t)n, key);
      double start = clock_time();
      loam_get(db, NULL, key, 16, value, sizeof value, &len, NULL);
      times[calls++] = clock_time() - start;
    }
  WANT(LOAM_OK, loam_job_wait(job, -1, &err));
  qsort(times, (size_t)calls, sizeof *times, by_value);
  printf("compacting_calls %d\ncompacting_p50 %.1f\ncompacting_p999 %.1f\ncompacting_max %.1f\n", calls, times[calls / 2], times[(size_t)(calls * 0.999)], times[calls - 1]);
  WANT(LOAM_OK, loam_close(db, &err));
  return 0;
}
