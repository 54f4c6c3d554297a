/* The frame of the misuse matrix: TestMisuse puts the calls in. */
#include "check.h"

#include <limits.h>
#include <unistd.h>

static objects good, closed;
static char bytes[16] = "bytes";
static char long_text[100000];
static const unsigned char batch_bytes[] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 'k', 1, 'v'};
static const void *lists[2] = {"a", "b"};
static size_t list_lens[2] = {1, 1};
/* Options with nothing wrong, of a later version, and with each fault. */
#define OPTIONS(type)                                                                                          \
  static struct {                                                                                              \
    loam_##type##_options known;                                                                               \
    uint64_t later;                                                                                            \
  } later_##type = {{.struct_size = sizeof later_##type}, 0}, unknown_##type = {{.struct_size = sizeof unknown_##type}, 1}; \
  static loam_##type##_options type##_options = {.struct_size = sizeof type##_options}, short_##type = {.struct_size = 8},  \
                               huge_##type = {.struct_size = SIZE_MAX}, flags_##type = {.struct_size = sizeof flags_##type, .flags = 1ull << 40}
OPTIONS(read);
OPTIONS(write);
OPTIONS(iter);
OPTIONS(txn);
OPTIONS(ingest);
OPTIONS(bulk_load);
static int calls;
static char *message;

static void make(objects *o, const char *path) {
  char *err = NULL;
  char folder[100];
  snprintf(folder, sizeof folder, "%s-backups", path);
  static size_t len;
  static uint64_t savepoint, size;
  if (gone(loam_has(o->db, NULL, "k", 1, NULL))) {
    /* A call of the matrix may have begun to close it in the background. */
    while (loam_open(path, NULL, &o->db, NULL) == LOAM_ERR_LOCKED) usleep(100);
    WANT(LOAM_OK, loam_put(o->db, NULL, "bytes", 5, "value", 5, NULL, &err));
    WANT(LOAM_OK, loam_snapshot_close(o->snapshot));
    o->snapshot = NULL;
    WANT(LOAM_OK, loam_iter_close(o->iter));
    o->iter = NULL;
  }
  if (!o->snapshot || gone(loam_has(o->db, READ(o->snapshot, 0), "k", 1, NULL))) WANT(LOAM_OK, loam_snapshot_create(o->db, &o->snapshot, &err));
  if (gone(loam_iter_entry(o->iter, NULL, NULL))) WANT(LOAM_OK, loam_iter_create(o->db, NULL, &o->iter, &err));
  if (!o->txn || gone(loam_txn_savepoint(o->txn, &savepoint, NULL)) || loam_txn_savepoint(o->txn, &savepoint, NULL) == LOAM_ERR_TXN_DONE) {
    loam_txn_close(o->txn);
    WANT(LOAM_OK, loam_txn_begin(o->db, NULL, &o->txn, &err));
  }
  if (!o->backup || gone(loam_backup_keep(o->backup, 2, NULL))) {
    loam_status s = loam_backup_open(folder, 0, &o->backup, &err);
    CHECK(s == LOAM_OK, "%s", err);
  }
  if (!o->changes || gone(loam_changes_position(o->changes, &savepoint, NULL))) {
    loam_changes_close(o->changes);
    WANT(LOAM_OK, loam_changes_open(o->db, 0, 0, &o->changes, &err));
  }
  if (!o->table_writer || gone(loam_table_writer_size(o->table_writer, &size, NULL))) {
    char table[64];
    snprintf(table, sizeof table, "%s-table", path);
    unlink(table);
    WANT(LOAM_OK, loam_table_writer_create(table, NULL, &o->table_writer, &err));
  }
  if (!o->bulk_load || gone(loam_bulk_load_put(o->bulk_load, "k", 1, "v", 1, NULL))) {
    loam_bulk_load_close(o->bulk_load);
    WANT(LOAM_OK, loam_bulk_load_begin(o->db, NULL, &o->bulk_load, &err));
  }
  /* No call but its close tells whether it is there. */
  const void *value;
  loam_pinned_close(o->pinned);
  if (loam_get_pinned(o->db, NULL, "bytes", 5, &o->pinned, &value, &len, &err) != LOAM_OK) {
    WANT(LOAM_OK, loam_put(o->db, NULL, "bytes", 5, "value", 5, NULL, &err)); /* a call has deleted it */
    WANT(LOAM_OK, loam_get_pinned(o->db, NULL, "bytes", 5, &o->pinned, &value, &len, &err));
  }
  if (gone(loam_batch_count(o->batch, &len, NULL))) WANT(LOAM_OK, loam_batch_create(&o->batch, &err));
  if (gone(loam_job_wait(o->job, 0, NULL))) WANT(LOAM_OK, loam_flush_start(o->db, &o->job, &err));
  if (gone(loam_job_wait(o->job, -1, NULL))) exit(1);
  if (!o->options || gone(loam_options_set(o->options, "block_size", "4096", NULL))) WANT(LOAM_OK, loam_options_create(&o->options, &err));
  if (!o->cache || gone(loam_options_set_cache(o->options, o->cache, NULL))) WANT(LOAM_OK, loam_cache_create(1 << 20, &o->cache, &err));
}

enum { ANY, HANDLE, CLOSED, ARGUMENT, LARGE };

static void before(const char *text) {
  make(&good, "good");
  if (getenv("VERBOSE")) fprintf(stderr, "%s\n", text);
}

static void after(int expect, loam_status s, const char *text) {
  bool as_expected = true;
  switch (expect) {
    case HANDLE: as_expected = s == LOAM_ERR_INVALID_HANDLE || s == LOAM_ERR_CLOSED; break;
    case CLOSED: as_expected = s == LOAM_ERR_CLOSED; break;
    case ARGUMENT: as_expected = s == LOAM_ERR_INVALID_ARGUMENT; break;
    case LARGE: as_expected = s == LOAM_ERR_TOO_LARGE; break;
  }
  CHECK(strcmp(loam_status_name(s), "LOAM_UNKNOWN"), "%s gives %d", text, s);
  CHECK(s != LOAM_ERR_INTERNAL, "%s", text);
  CHECK(as_expected, "%s gives %s", text, loam_status_name(s));
  calls++;
}

/* Functions and not a block: thousands of calls are compiled. */
#define TRY(expect, call, text) (before(text), after(expect, call, text))

static void matrix(void) {
/* CASES */
}

int main(void) {
  char *err = NULL;
  memset(long_text, 'x', sizeof long_text - 1);
  CHECK(loam_open(NULL, NULL, &closed.db, &message) == LOAM_ERR_INVALID_ARGUMENT && message, "no message");
  make(&good, "good");
  make(&closed, "closed");
  WANT(LOAM_OK, loam_batch_close(closed.batch));
  WANT(LOAM_OK, loam_iter_close(closed.iter));
  WANT(LOAM_OK, loam_snapshot_close(closed.snapshot));
  WANT(LOAM_OK, loam_txn_close(closed.txn));
  WANT(LOAM_OK, loam_changes_close(closed.changes));
  WANT(LOAM_OK, loam_table_writer_close(closed.table_writer));
  WANT(LOAM_OK, loam_bulk_load_close(closed.bulk_load));
  WANT(LOAM_OK, loam_pinned_close(closed.pinned));
  WANT(LOAM_OK, loam_job_close(closed.job));
  WANT(LOAM_OK, loam_backup_close(closed.backup));
  WANT(LOAM_OK, loam_cache_close(closed.cache));
  WANT(LOAM_OK, loam_options_close(closed.options));
  WANT(LOAM_OK, loam_close(closed.db, &err));
  matrix();
  printf("%d calls\n", calls);
  return 0;
}
