/* The frame of the calls inside callbacks: TestInsideCallbacks puts the calls in. */
#include "check.h"

static objects good;
static char bytes[16] = "bytes";
static char *err, *message;
static const unsigned char batch_bytes[] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 'k', 1, 'v'};
static const void *lists[2] = {"a", "b"};
static size_t list_lens[2] = {1, 1};
#define OPTIONS(type) static loam_##type##_options type##_options = {.struct_size = sizeof type##_options}
OPTIONS(read);
OPTIONS(write);
OPTIONS(iter);
OPTIONS(txn);
OPTIONS(ingest);
OPTIONS(bulk_load);

enum { ALONE, READING, EVERYWHERE };

/* The callback that is to make the calls, and how often each of them has run. */
static const char *armed;
static int calls;

static void made(loam_status s, int may, int least, const char *callback, const char *name) {
  int refused = s == LOAM_ERR_IN_USE;
  CHECK(refused == (may < least) || (may == EVERYWHERE && strstr(name, "iter")), "%s in a %s gives %s: %s", name, callback, loam_status_name(s), message ? message : "");
  CHECK(!refused || !strstr(name, "_close") || strstr(name, "iter") || !strncmp(name, "loam_close", 10), "%s in a %s", name, callback);
  loam_free(message);
  message = NULL;
  calls++;
}

/* Makes all calls. Those marked least, or more, are answered; the others are refused. */
static void inside(const char *callback, int least) {
  if (!armed || strcmp(armed, callback)) return;
  armed = NULL;
  calls = 0;
#define INSIDE(may, call, name) made(strcmp(name, "loam_close") ? (call) : loam_close(good.db, &message), strcmp(name, "loam_close") ? (may) : ALONE, least, callback, name)
  /* CASES */
  printf("%s: %d calls\n", callback, calls);
}

static int compare(void *arg, const void *a, size_t an, const void *b, size_t bn, loam_failure *failure) {
  inside("comparator", EVERYWHERE);
  return a_compare_compare(arg, a, an, b, bn, failure);
}

static int filter(void *arg, int level, const void *key, size_t key_len, const void *value, size_t value_len, void **changed, size_t *changed_len, loam_failure *failure) {
  (void)arg, (void)level, (void)key, (void)key_len, (void)value, (void)value_len, (void)changed, (void)changed_len, (void)failure;
  inside("filter", READING);
  return LOAM_FILTER_KEEP;
}

static void merge(void *arg, const void *key, size_t key_len, const loam_bytes *existing, const loam_bytes *operands, size_t count, loam_merge_result *result, loam_failure *failure) {
  size_t len;
  char buf[8];
  (void)arg, (void)existing, (void)failure;
  if (key_len == 6 && armed) { /* "nested" */
    loam_status s = loam_get(good.db, NULL, "a", 1, buf, sizeof buf, &len, NULL);
    CHECK(s == LOAM_ERR_IN_USE, "a read in a read of a merge operator gives %s", loam_status_name(s));
  } else if (armed && !strcmp(armed, "merge")) {
    loam_status s = loam_get(good.db, NULL, "nested", 6, buf, sizeof buf, &len, NULL);
    CHECK(s == LOAM_OK, "a read in a merge operator gives %s", loam_status_name(s));
  }
  (void)key;
  inside("merge", READING);
  loam_merge_result_set(result, operands[count - 1].data, operands[count - 1].len);
}

static int partial(void *arg, const void *key, size_t key_len, const loam_bytes *left, const loam_bytes *right, loam_merge_result *result, loam_failure *failure) {
  (void)arg, (void)key, (void)key_len, (void)left, (void)right, (void)result, (void)failure;
  inside("partial", READING);
  return 0;
}

static void refuses(const char *callback) {
  WANT(LOAM_ERR_IN_USE, loam_close(good.db, &err));
  WANT(LOAM_ERR_IN_USE, loam_close_start(good.db, &good.job, &err));
  WANT(LOAM_OK, loam_put(good.db, NULL, callback, strlen(callback), "v", 1, NULL, &err));
}

static void log_line(void *arg, int level, const char *line, loam_failure *failure) {
  (void)arg, (void)level, (void)line, (void)failure;
  if (good.db) refuses("logger");
}

static int write_dump(void *arg, const void *data, size_t len, loam_failure *failure) {
  (void)arg, (void)data, (void)len, (void)failure;
  refuses("dump");
  return 0;
}

static void make(void) {
  static int n;
  char name[64];
  WANT(LOAM_OK, loam_snapshot_create(good.db, &good.snapshot, &err));
  const void *value;
  size_t len;
  WANT(LOAM_OK, loam_put(good.db, NULL, "bytes", 5, "v", 1, NULL, &err));
  WANT(LOAM_OK, loam_get_pinned(good.db, NULL, "bytes", 5, &good.pinned, &value, &len, &err));
  WANT(LOAM_OK, loam_iter_create(good.db, NULL, &good.iter, &err));
  WANT(LOAM_OK, loam_txn_begin(good.db, NULL, &good.txn, &err));
  snprintf(name, sizeof name, "backups-%d", n);
  WANT(LOAM_OK, loam_backup_open(name, 0, &good.backup, &err));
  WANT(LOAM_OK, loam_changes_open(good.db, 0, 0, &good.changes, &err));
  snprintf(name, sizeof name, "table-%d", n++);
  WANT(LOAM_OK, loam_table_writer_create(name, NULL, &good.table_writer, &err));
  WANT(LOAM_OK, loam_bulk_load_begin(good.db, NULL, &good.bulk_load, &err));
  WANT(LOAM_OK, loam_batch_create(&good.batch, &err));
  WANT(LOAM_OK, loam_flush_start(good.db, &good.job, &err));
  WANT(LOAM_OK, loam_job_wait(good.job, -1, &err));
  WANT(LOAM_OK, loam_options_create(&good.options, &err));
  WANT(LOAM_OK, loam_cache_create(1 << 20, &good.cache, &err));
}

int main(void) {
  loam_options *o;
  char buf[8];
  size_t len;
  WANT(LOAM_OK, loam_options_create(&o, &err));
  WANT(LOAM_OK, loam_options_set_comparator(o, "test.Inside", compare, NULL, NULL, 0, &err));
  WANT(LOAM_OK, loam_options_set_compaction_filter(o, "test.Inside", filter, NULL, NULL, &err));
  WANT(LOAM_OK, loam_options_set_merge_operator(o, "test.Inside", merge, partial, NULL, NULL, &err));
  WANT(LOAM_OK, loam_options_set_logger(o, log_line, NULL, NULL, &err));
  WANT(LOAM_OK, loam_open("inside", o, &good.db, &err));
  WANT(LOAM_OK, loam_options_close(o));
  for (const char *k = "abcdefp"; *k; k++) WANT(LOAM_OK, loam_put(good.db, NULL, k, 1, "v", 1, NULL, &err));
  WANT(LOAM_OK, loam_merge(good.db, NULL, "nested", 6, "v", 1, NULL, &err));
  WANT(LOAM_OK, loam_flush(good.db, &err));

  make();
  armed = "comparator";
  WANT(LOAM_OK, loam_put(good.db, NULL, "g", 1, "v", 1, NULL, &err));
  WANT(LOAM_OK, loam_put(good.db, NULL, "h", 1, "v", 1, NULL, &err));
  WANT(LOAM_OK, loam_get(good.db, NULL, "g", 1, buf, sizeof buf, &len, &err));
  CHECK(!armed, "no comparison");
  make();
  /* The filter is asked about what no snapshot sees. */
  WANT(LOAM_OK, loam_put(good.db, NULL, "newer", 5, "v", 1, NULL, &err));
  armed = "filter";
  WANT(LOAM_OK, loam_compact(good.db, NULL, 0, NULL, 0, &err));
  CHECK(!armed, "no call of the filter");
  make();
  WANT(LOAM_OK, loam_merge(good.db, NULL, "m", 1, "v", 1, NULL, &err));
  armed = "merge";
  WANT(LOAM_OK, loam_get(good.db, NULL, "m", 1, buf, sizeof buf, &len, &err));
  CHECK(!armed, "no merge");
  make();
  armed = "partial";
  WANT(LOAM_OK, loam_snapshot_create(good.db, &good.snapshot, &err));
  WANT(LOAM_OK, loam_merge(good.db, NULL, "p", 1, "v", 1, NULL, &err));
  WANT(LOAM_OK, loam_merge(good.db, NULL, "p", 1, "w", 1, NULL, &err));
  WANT(LOAM_OK, loam_flush(good.db, &err));
  CHECK(!armed, "no partial merge");
  WANT(LOAM_OK, loam_dump(good.db, NULL, NULL, write_dump, NULL, NULL, &err));
  WANT(LOAM_OK, loam_close(good.db, &err));
  return 0;
}
