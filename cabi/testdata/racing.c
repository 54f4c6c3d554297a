/* Every function of loam.h, called by several threads on the same objects while
 * others close them: any status but LOAM_ERR_INTERNAL, no crash, no hang. */
#define _GNU_SOURCE
#include "check.h"

#include <pthread.h>
#include <unistd.h>

static objects good; /* each handle read and stored atomically */
static volatile int stop;
static char bytes[16] = "bytes";
static const unsigned char batch_bytes[] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 'k', 1, 'v'};
static const void *lists[2] = {"a", "b"};
static size_t list_lens[2] = {1, 1};
static const loam_read_options read_options = {sizeof read_options, 0, NULL};
static const loam_write_options write_options = {sizeof write_options, 0};
static const loam_iter_options iter_options = {.struct_size = sizeof iter_options};
static const loam_txn_options txn_options = {.struct_size = sizeof txn_options};
static const loam_ingest_options ingest_options = {.struct_size = sizeof ingest_options};
static const loam_bulk_load_options bulk_load_options = {.struct_size = sizeof bulk_load_options};
static char *message;

static objects now(void) {
  objects g;
#define LOAD(x) g.x = __atomic_load_n(&good.x, __ATOMIC_ACQUIRE)
  LOAD(options), LOAD(cache), LOAD(db), LOAD(snapshot), LOAD(batch), LOAD(iter), LOAD(job), LOAD(txn), LOAD(backup), LOAD(changes), LOAD(table_writer), LOAD(bulk_load), LOAD(pinned);
  return g;
}

static void said(loam_status s, const char *call) {
  CHECK(s != LOAM_ERR_INTERNAL && strcmp(loam_status_name(s), "LOAM_UNKNOWN"), "%s gives %d", call, s);
}

/* CASES */

static void *use(void *arg) {
  unsigned seed = (unsigned)(uintptr_t)arg;
  while (!stop) cases[(unsigned)rand_r(&seed) % (sizeof cases / sizeof *cases)]();
  return NULL;
}

/* Makes anew what the threads have closed. */
static void renew(loam_cache *shared) {
  objects n;
  objects g = now();
  size_t count;
  uint64_t size;
#define STORE(x) __atomic_store_n(&good.x, n.x, __ATOMIC_RELEASE)
  if (gone(loam_options_set(g.options, "block_size", "4096", NULL)) && loam_options_create(&n.options, NULL) == LOAM_OK) {
    if (shared) loam_options_set_cache(n.options, shared, NULL);
    STORE(options);
  }
  if (gone(loam_has(g.db, NULL, "k", 1, NULL))) {
    /* The options of the threads may have any comparator: these have none. */
    loam_options *own = NULL;
    loam_options_create(&own, NULL);
    if (shared) loam_options_set_cache(own, shared, NULL);
    if (loam_open("shared", own, &n.db, NULL) == LOAM_OK) STORE(db);
    loam_options_close(own);
  }
  g = now();
  loam_snapshot_close(g.snapshot);
  if (loam_snapshot_create(g.db, &n.snapshot, NULL) == LOAM_OK) STORE(snapshot);
  loam_txn_close(g.txn);
  if (loam_txn_begin(g.db, NULL, &n.txn, NULL) == LOAM_OK) STORE(txn);
  if (gone(loam_backup_keep(g.backup, 2, NULL)) && loam_backup_open("backups", 0, &n.backup, NULL) == LOAM_OK) STORE(backup);
  const void *value;
  loam_pinned_close(g.pinned);
  if (loam_get_pinned(g.db, NULL, "bytes", 5, &n.pinned, &value, &count, NULL) == LOAM_OK) STORE(pinned);
  loam_changes_close(g.changes);
  if (loam_changes_open(g.db, 0, 0, &n.changes, NULL) == LOAM_OK) STORE(changes);
  if (gone(loam_table_writer_size(g.table_writer, &size, NULL))) {
    loam_table_writer_close(g.table_writer);
    unlink("a-table");
    if (loam_table_writer_create("a-table", NULL, &n.table_writer, NULL) == LOAM_OK) STORE(table_writer);
  }
  if (gone(loam_bulk_load_put(g.bulk_load, "k", 1, "v", 1, NULL))) {
    loam_bulk_load_close(g.bulk_load);
    if (loam_bulk_load_begin(g.db, NULL, &n.bulk_load, NULL) == LOAM_OK) STORE(bulk_load);
  }
  if (gone(loam_iter_entry(g.iter, NULL, NULL)) && loam_iter_create(g.db, NULL, &n.iter, NULL) == LOAM_OK) STORE(iter);
  if (gone(loam_batch_count(g.batch, &count, NULL)) && loam_batch_create(&n.batch, NULL) == LOAM_OK) STORE(batch);
  if (gone(loam_job_wait(g.job, 0, NULL)) && loam_flush_start(g.db, &n.job, NULL) == LOAM_OK) STORE(job);
  if (gone(loam_options_set_cache(g.options, g.cache, NULL)) && loam_cache_create(1 << 20, &n.cache, NULL) == LOAM_OK) STORE(cache);
}

int main(int argc, char **argv) {
  pthread_t threads[4];
  loam_db *none;
  loam_cache *cache = NULL;
  int rounds = argc > 1 ? atoi(argv[1]) : 1000;
  CHECK(loam_open(NULL, NULL, &none, &message) == LOAM_ERR_INVALID_ARGUMENT && message, "no message");
  if (argc > 2) CHECK(loam_cache_create(8 << 20, &cache, NULL) == LOAM_OK, "cache");
  renew(cache);
  for (uintptr_t i = 0; i < 4; i++) CHECK(!pthread_create(&threads[i], NULL, use, (void *)(i + 1)), "thread");
  for (int i = 0; i < rounds; i++, usleep(500)) renew(cache);
  stop = 1;
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  return 0;
}
