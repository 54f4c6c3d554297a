/* Eight threads use a database, its iterators, batches and snapshots while a
 * ninth closes them. Every answer is fine, or says closed, or in use. */
#include "check.h"

#include <pthread.h>
#include <unistd.h>

static loam_db *volatile db;
static loam_iter *volatile iter;
static loam_batch *volatile batch;
static loam_snapshot *volatile snapshot;
static loam_job *volatile job;
static volatile int stop;

static void fine(loam_status s, const char *what, char *err) {
  CHECK(s >= 0 || s == LOAM_ERR_CLOSED || s == LOAM_ERR_INVALID_HANDLE || s == LOAM_ERR_IN_USE || s == LOAM_ERR_INVALID_ARGUMENT || s == LOAM_ERR_CANCELLED,
        "%s gives %s: %s", what, loam_status_name(s), err ? err : "");
  loam_free(err);
}

#define TRY(call)                    \
  do {                               \
    char *err = NULL;                \
    loam_status s_ = call;           \
    fine(s_, #call, err);            \
  } while (0)

static void *use(void *arg) {
  unsigned seed = (unsigned)(uintptr_t)arg;
  char buf[64], key[8];
  size_t len;
  while (!stop) {
    size_t n = (size_t)sprintf(key, "%u", rand_r(&seed) % 500);
    loam_entry e;
    loam_block block;
    loam_iter *mine = NULL;
    switch (rand_r(&seed) % 14) {
      case 0: TRY(loam_put(db, NULL, key, n, "value", 5, NULL, &err)); break;
      case 1: TRY(loam_get(db, NULL, key, n, buf, sizeof buf, &len, &err)); break;
      case 2: TRY(loam_get(db, READ(snapshot, 0), key, n, buf, sizeof buf, &len, &err)); break;
      case 3: TRY(loam_iter_next(iter, NULL, &err)); break;
      case 4: TRY(loam_iter_prev(iter, NULL, &err)); break;
      case 5: TRY(loam_iter_seek(iter, key, n, NULL, &err)); break;
      case 6: TRY(loam_iter_next_block(iter, 0, 0, &block, &err)); break;
      case 7: TRY(loam_batch_put(batch, key, n, "batch", 5, &err)); break;
      case 8: TRY(loam_write(db, NULL, batch, NULL, &err)); break;
      case 9: TRY(loam_batch_clear(batch)); break;
      case 10:
        TRY(loam_iter_create(db, NULL, &mine, &err));
        while (mine && loam_iter_next(mine, &e, NULL) == LOAM_OK) CHECK(e.key_len <= 3, "%zu", e.key_len);
        TRY(loam_iter_close(mine));
        break;
      case 11: TRY(loam_job_wait(job, 1, &err)); break;
      case 12: TRY(loam_flush(db, &err)); break;
      case 13: TRY(loam_delete(db, NULL, key, n, NULL, &err)); break;
    }
  }
  return NULL;
}

int main(int argc, char **argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 20;
  pthread_t threads[8];
  for (uintptr_t i = 0; i < 8; i++) CHECK(!pthread_create(&threads[i], NULL, use, (void *)(i + 1)), "thread");
  for (int r = 0; r < rounds; r++) {
    char *err = NULL;
    loam_db *d;
    loam_iter *i;
    loam_batch *b;
    loam_snapshot *s;
    loam_job *j;
    WANT(LOAM_OK, loam_open("db", NULL, &d, &err));
    WANT(LOAM_OK, loam_snapshot_create(d, &s, &err));
    WANT(LOAM_OK, loam_iter_create(d, NULL, &i, &err));
    WANT(LOAM_OK, loam_batch_create(&b, &err));
    WANT(LOAM_OK, loam_compact_start(d, NULL, 0, NULL, 0, &j, &err));
    db = d, snapshot = s, iter = i, batch = b, job = j;
    usleep(10000);
    WANT(LOAM_OK, loam_job_cancel(j, &err));
    switch (r % 3) {
      case 0:
        WANT(LOAM_OK, loam_iter_close(i));
        WANT(LOAM_OK, loam_batch_close(b));
        WANT(LOAM_OK, loam_snapshot_close(s));
        WANT(LOAM_OK, loam_close(d, &err));
        break;
      default:
        WANT(LOAM_OK, loam_close(d, &err));
        WANT(LOAM_OK, loam_snapshot_close(s));
        WANT(LOAM_OK, loam_batch_close(b));
        WANT(LOAM_OK, loam_iter_close(i));
    }
    WANT(LOAM_OK, loam_job_close(j));
  }
  stop = 1;
  for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
  return 0;
}
