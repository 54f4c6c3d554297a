/* Each part of the interface once, with its edges. */
#include "check.h"

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

static char *err;

static int reverse(void *arg, const void *a, size_t an, const void *b, size_t bn, loam_failure *failure) {
  (void)failure;
  size_t n = an < bn ? an : bn;
  int c = n ? memcmp(a, b, n) : 0;
  __sync_fetch_and_add((size_t *)arg, 1);
  return c ? -c : an < bn ? 1 : an > bn ? -1 : 0;
}

static int lines;

static void count_lines(void *arg, int level, const char *message, loam_failure *failure) {
  (void)failure;
  (void)arg;
  (void)level;
  CHECK(message && *message, "a line");
  __sync_fetch_and_add(&lines, 1);
}

static void reading(loam_db *db) {
  char buf[8];
  size_t len = 99;
  void *value;
  WANT(LOAM_OK, loam_put(db, NULL, "", 0, "empty key", 9, NULL, &err));
  WANT(LOAM_OK, loam_put(db, NULL, "empty value", 11, NULL, 0, NULL, &err));
  WANT(LOAM_OK, loam_put(db, WRITE(LOAM_SYNC), "seven", 5, "1234567", 7, NULL, &err));
  WANT(LOAM_OK, loam_get(db, NULL, "seven", 5, buf, sizeof buf, &len, &err));
  CHECK(len == 7 && !memcmp(buf, "1234567", 7), "%zu", len);
  WANT(LOAM_OK, loam_get(db, READ(NULL, LOAM_NO_FILL), "seven", 5, buf, 7, &len, &err));
  WANT(LOAM_BUFFER_TOO_SMALL, loam_get(db, NULL, "seven", 5, buf, 6, &len, &err));
  CHECK(len == 7, "%zu", len);
  WANT(LOAM_BUFFER_TOO_SMALL, loam_get(db, NULL, NULL, 0, NULL, 0, &len, &err));
  CHECK(len == 9, "%zu", len);
  WANT(LOAM_OK, loam_get(db, NULL, "empty value", 11, NULL, 0, &len, &err));
  CHECK(len == 0, "%zu", len);
  WANT(LOAM_NOT_FOUND, loam_get(db, NULL, "none", 4, buf, sizeof buf, &len, &err));
  WANT(LOAM_OK, loam_get(db, READ(NULL, LOAM_MEMORY_ONLY), "seven", 5, buf, sizeof buf, &len, &err));
  WANT(LOAM_NOT_FOUND, loam_get(db, READ(NULL, LOAM_MEMORY_ONLY), "none", 4, buf, sizeof buf, &len, &err));
  WANT(LOAM_OK, loam_get_alloc(db, NULL, "empty value", 11, &value, &len, &err));
  CHECK(value && len == 0 && *(char *)value == 0, "%zu", len);
  loam_free(value);
  WANT(LOAM_NOT_FOUND, loam_get_alloc(db, NULL, "none", 4, &value, &len, &err));
  CHECK(!value, "a value");
  char *large = malloc(3000000);
  memset(large, 'L', 3000000);
  WANT(LOAM_OK, loam_put(db, NULL, "large", 5, large, 3000000, NULL, &err));
  WANT(LOAM_OK, loam_get_alloc(db, NULL, "large", 5, &value, &len, &err));
  CHECK(len == 3000000 && !memcmp(value, large, len), "%zu", len);
  loam_free(value);
  free(large);
  WANT(LOAM_OK, loam_has(db, NULL, "large", 5, &err));
  WANT(LOAM_NOT_FOUND, loam_has(db, NULL, "larg", 4, &err));

  const void *keys[4] = {"seven", "none", "empty value", NULL}, *values[4] = {buf, buf, buf, buf};
  size_t lens[4] = {5, 4, 11, 0}, value_lens[4];
  void *memory;
  WANT(LOAM_OK, loam_multi_get(db, NULL, 4, keys, lens, values, value_lens, &memory, &err));
  CHECK(value_lens[0] == 7 && !strcmp(values[0], "1234567"), "%zu", value_lens[0]);
  CHECK(!values[1], "a value");
  CHECK(values[2] && value_lens[2] == 0, "%zu", value_lens[2]);
  CHECK(value_lens[3] == 9 && !strcmp(values[3], "empty key"), "%zu", value_lens[3]);
  loam_free(memory);
  WANT(LOAM_OK, loam_multi_get(db, NULL, 0, NULL, NULL, NULL, NULL, &memory, &err));
  CHECK(!memory, "memory");
}

/* A pinned value stays as it is until its close, whatever becomes of the key and the database. */
static void pinned(void) {
  static char large[50000], copy[50000];
  loam_db *db;
  loam_snapshot *s;
  loam_pinned *values[6], *none = (loam_pinned *)1;
  const void *at[6], *nothing = "";
  size_t lens[6];
  memset(large, 'x', sizeof large);
  WANT(LOAM_OK, loam_open("pinned", NULL, &db, &err));
  WANT(LOAM_OK, loam_put(db, NULL, "large", 5, large, sizeof large, NULL, &err));
  WANT(LOAM_OK, loam_put(db, NULL, "empty", 5, "", 0, NULL, &err));
  WANT(LOAM_OK, loam_snapshot_create(db, &s, &err));
  WANT(LOAM_OK, loam_get_pinned(db, NULL, "large", 5, &values[0], &at[0], &lens[0], &err));
  WANT(LOAM_OK, loam_get_pinned(db, NULL, "empty", 5, &values[1], &at[1], &lens[1], &err));
  CHECK(at[1] && !lens[1], "%p, %zu", at[1], lens[1]);
  WANT(LOAM_OK, loam_flush(db, &err));
  for (int i = 2; i < 4; i++) WANT(LOAM_OK, loam_get_pinned(db, READ(s, 0), "large", 5, &values[i], &at[i], &lens[i], &err));
  WANT(LOAM_OK, loam_get_pinned(db, READ(NULL, LOAM_NO_FILL), "large", 5, &values[4], &at[4], &lens[4], &err));
  WANT(LOAM_OK, loam_get_pinned(db, READ(s, LOAM_MEMORY_ONLY), "empty", 5, &values[5], &at[5], &lens[5], &err));
  CHECK(at[5] && !lens[5], "%p, %zu", at[5], lens[5]);
  WANT(LOAM_NOT_FOUND, loam_get_pinned(db, NULL, "none", 4, &none, &nothing, &lens[5], &err));
  CHECK(!none && !nothing, "results of what is not there");
  WANT(LOAM_OK, loam_put(db, NULL, "large", 5, "small", 5, NULL, &err));
  WANT(LOAM_OK, loam_compact(db, NULL, 0, NULL, 0, &err));
  WANT(LOAM_OK, loam_snapshot_close(s));
  WANT(LOAM_OK, loam_close(db, &err));
  WANT(LOAM_ERR_CLOSED, loam_get_pinned(db, NULL, "large", 5, &none, &nothing, &lens[1], &err));
  for (int i = 0; i < 5; i++) {
    if (i == 1) continue;
    CHECK(lens[i] == sizeof large && !memcmp(memcpy(copy, at[i], lens[i]), large, lens[i]), "value %d has changed", i);
  }
  for (int i = 0; i < 6; i++) WANT(LOAM_OK, loam_pinned_close(values[i]));
  for (int i = 0; i < 6; i++) WANT(LOAM_ERR_CLOSED, loam_pinned_close(values[i]));
  WANT(LOAM_OK, loam_pinned_close(NULL));
}

static void snapshots(loam_db *db, loam_db *other) {
  loam_snapshot *s;
  char buf[8];
  size_t len;
  const void *key = "s", *value;
  size_t key_len = 1, value_len;
  void *memory;
  loam_iter_options o;
  loam_iter *it;
  memset(&o, 0, sizeof o);
  o.struct_size = sizeof o;
  WANT(LOAM_OK, loam_put(db, NULL, "s", 1, "old", 3, NULL, &err));
  WANT(LOAM_OK, loam_snapshot_create(db, &s, &err));
  WANT(LOAM_OK, loam_put(db, NULL, "s", 1, "new!", 4, NULL, &err));
  WANT(LOAM_OK, loam_get(db, READ(s, 0), "s", 1, buf, sizeof buf, &len, &err));
  CHECK(len == 3, "%zu", len);
  WANT(LOAM_OK, loam_get(db, READ(s, LOAM_NO_FILL), "s", 1, buf, sizeof buf, &len, &err));
  WANT(LOAM_OK, loam_get(db, READ(s, LOAM_MEMORY_ONLY), "s", 1, buf, sizeof buf, &len, &err));
  CHECK(len == 3, "%zu", len);
  WANT(LOAM_OK, loam_has(db, READ(s, 0), "s", 1, &err));
  WANT(LOAM_OK, loam_multi_get(db, READ(s, 0), 1, &key, &key_len, &value, &value_len, &memory, &err));
  CHECK(value_len == 3, "%zu", value_len);
  loam_free(memory);
  o.snapshot = s;
  o.prefix = "s", o.prefix_len = 1;
  WANT(LOAM_OK, loam_iter_create(db, &o, &it, &err));
  loam_entry e;
  WANT(LOAM_OK, loam_iter_next(it, &e, &err));
  CHECK(e.value_len == 3 || e.value_len == 7, "%zu", e.value_len);
  WANT(LOAM_OK, loam_iter_close(it));
  WANT(LOAM_ERR_INVALID_ARGUMENT, loam_get(other, READ(s, 0), "s", 1, buf, sizeof buf, &len, &err));
  WANT(LOAM_OK, loam_snapshot_close(s));
  WANT(LOAM_ERR_CLOSED, loam_snapshot_close(s));
  WANT(LOAM_ERR_CLOSED, loam_get(db, READ(s, 0), "s", 1, buf, sizeof buf, &len, &err));
  WANT(LOAM_ERR_CLOSED, loam_iter_create(db, &o, &it, &err));
  o.snapshot = NULL;
  o.struct_size = 8;
  WANT(LOAM_ERR_INVALID_ARGUMENT, loam_iter_create(db, &o, &it, &err));
  struct {
    loam_iter_options o;
    long more;
  } later;
  memset(&later, 0, sizeof later);
  later.o.struct_size = sizeof later;
  WANT(LOAM_OK, loam_iter_create(db, &later.o, &it, &err));
  WANT(LOAM_OK, loam_iter_close(it));
  later.more = 1;
  WANT(LOAM_ERR_INVALID_ARGUMENT, loam_iter_create(db, &later.o, &it, &err));
}

static int puts_seen, dels_seen;

static int visit(void *arg, const loam_operation *o, loam_failure *failure) {
  loam_batch *b = arg;
  (void)failure;
  CHECK(o->struct_size == sizeof *o, "%zu", o->struct_size);
  /* The batch is shared: no change of it, and no wait for its end. */
  WANT(LOAM_ERR_IN_USE, loam_batch_delete(b, "x", 1, &err));
  CHECK(loam_batch_close(b) == LOAM_ERR_IN_USE, "close within the callback");
  CHECK(operations(b) > 1, "reading within the callback");
  if (o->kind == LOAM_OP_DELETE) {
    CHECK(o->key_len == 4 && !o->value && !o->value_len, "a delete's fields");
    dels_seen++;
    return 0;
  }
  CHECK(o->kind == LOAM_OP_PUT && o->key_len <= 300 && o->value_len <= 70000 && o->key && o->value, "a put's fields");
  puts_seen++;
  return 0;
}

static int visit_two(void *arg, const loam_operation *o, loam_failure *failure) {
  (void)o;
  (void)failure;
  return ++*(int *)arg == 2;
}

static int visit_failing(void *arg, const loam_operation *o, loam_failure *failure) {
  (void)o;
  ++*(int *)arg;
  loam_callback_fail(failure, "the words");
  loam_callback_fail(failure, "other words");
  return 0;
}

static void batches(loam_db *db) {
  loam_batch *b, *c;
  size_t len;
  static char big[70000];
  WANT(LOAM_OK, loam_batch_create(&b, &err));
  CHECK(operations(b) == 0, "count");
  const void *data;
  WANT(LOAM_OK, loam_batch_data(b, &data, &len, &err));
  CHECK(len == 12 && data, "%zu", len);
  WANT(LOAM_OK, loam_batch_put(b, "", 0, "", 0, &err));
  for (size_t n = 1; n <= sizeof big; n = n * 3 + 1) WANT(LOAM_OK, loam_batch_put(b, big, n % 300, big, n, &err));
  WANT(LOAM_OK, loam_batch_delete(b, "gone", 4, &err));
  size_t count = operations(b);
  WANT(LOAM_OK, loam_batch_append(b, b, &err));
  CHECK(operations(b) == 2 * count, "%zu", operations(b));
  WANT(LOAM_OK, loam_batch_each(b, visit, b, &err));
  CHECK(dels_seen == 2 && puts_seen == (int)(2 * count) - 2, "%d %d", puts_seen, dels_seen);
  int visits = 0;
  WANT(LOAM_OK, loam_batch_each(b, visit_two, &visits, &err));
  CHECK(visits == 2, "%d visits", visits);
  CHECK(loam_batch_each(b, visit_failing, &visits, &err) == LOAM_ERR_CALLBACK && visits == 3, "%d visits", visits);
  CHECK(strstr(err, "the words") && !strstr(err, "other"), "%s", err);
  loam_free(err);
  err = NULL;
  WANT(LOAM_OK, loam_batch_data(b, &data, &len, &err));
  WANT(LOAM_OK, loam_batch_create_from(data, len, &c, &err));
  CHECK(operations(c) == 2 * count, "%zu", operations(c));
  loam_batch *d;
  WANT(LOAM_ERR_INVALID_ARGUMENT, loam_batch_create_from(data, len - 1, &d, &err));
  CHECK(!d, "a batch");
  WANT(LOAM_ERR_INVALID_ARGUMENT, loam_batch_create_from("short", 5, &d, &err));
  WANT(LOAM_OK, loam_write(db, WRITE(LOAM_SYNC), c, NULL, &err));
  WANT(LOAM_OK, loam_write(db, NULL, c, NULL, &err));
  WANT(LOAM_OK, loam_batch_data(c, &data, &len, &err));
  CHECK(!memcmp(data, "\0\0\0\0\0\0\0\0", 8), "sequence number");
  WANT(LOAM_OK, loam_batch_clear(c));
  CHECK(operations(c) == 0, "count");
  WANT(LOAM_OK, loam_batch_append(c, b, &err));
  WANT(LOAM_OK, loam_write(db, WRITE(LOAM_NO_STALL), c, NULL, &err));
  WANT(LOAM_OK, loam_batch_clear(c));
  WANT(LOAM_OK, loam_write(db, WRITE(LOAM_SYNC), c, NULL, &err));
  WANT(LOAM_OK, loam_batch_close(b));
  WANT(LOAM_OK, loam_batch_close(c));
  WANT(LOAM_ERR_CLOSED, loam_batch_close(c));
  WANT(LOAM_ERR_CLOSED, loam_write(db, NULL, c, NULL, &err));
}

static void followers(void) {
  char *err = NULL;
  loam_db *writer, *follower;
  loam_snapshot *before;
  loam_job *job;
  char value[8];
  size_t len;
  uint64_t sequences = 1, microseconds = 1;
  WANT(LOAM_ERR_DOES_NOT_EXIST, loam_follower_open("followed", NULL, &follower, &err));
  CHECK(!follower, "a follower of nothing");
  WANT(LOAM_OK, loam_open("followed", NULL, &writer, &err));
  WANT(LOAM_ERR_INVALID_ARGUMENT, loam_catch_up(writer, &err));
  WANT(LOAM_ERR_INVALID_ARGUMENT, loam_lag(writer, &sequences, NULL, &err));
  WANT(LOAM_OK, loam_put(writer, NULL, "k", 1, "1", 1, NULL, &err));
  WANT(LOAM_OK, loam_follower_open("followed", NULL, &follower, &err));
  WANT(LOAM_OK, loam_snapshot_create(follower, &before, &err));
  WANT(LOAM_OK, loam_lag(follower, &sequences, &microseconds, &err));
  CHECK(sequences == 0 && microseconds == 0, "%llu, %llu", (unsigned long long)sequences, (unsigned long long)microseconds);
  WANT(LOAM_OK, loam_put(writer, NULL, "k", 1, "2", 1, NULL, &err));
  WANT(LOAM_OK, loam_lag(follower, &sequences, NULL, &err));
  CHECK(sequences == 1, "%llu", (unsigned long long)sequences);
  WANT(LOAM_OK, loam_catch_up(follower, &err));
  WANT(LOAM_OK, loam_get(follower, NULL, "k", 1, value, sizeof value, &len, &err));
  CHECK(len == 1 && *value == '2', "%.*s", (int)len, value);
  WANT(LOAM_ERR_READ_ONLY, loam_put(follower, NULL, "k", 1, "3", 1, NULL, &err));
  WANT(LOAM_OK, loam_snapshot_close(before));
  WANT(LOAM_OK, loam_catch_up_start(follower, &job, &err));
  WANT(LOAM_OK, loam_job_wait(job, -1, &err));
  WANT(LOAM_OK, loam_job_close(job));
  WANT(LOAM_OK, loam_close(follower, &err));
  WANT(LOAM_OK, loam_close(writer, &err));
}

static void backups(loam_db *db) {
  loam_backup *b, *none;
  loam_job *job;
  loam_db *copy;
  uint64_t id, done, total;
  char *text;
  WANT(LOAM_ERR_DOES_NOT_EXIST, loam_backup_open("backups", LOAM_BACKUP_ERROR_IF_MISSING, &b, &err));
  WANT(LOAM_OK, loam_backup_open("backups", 0, &b, &err));
  WANT(LOAM_ERR_LOCKED, loam_backup_open("backups", 0, &none, &err));
  CHECK(!none, "a handle");
  WANT(LOAM_OK, loam_backup_create(b, db, 0, &id, &err));
  CHECK(id == 1, "%llu", (unsigned long long)id);
  WANT(LOAM_OK, loam_backup_create_start(b, db, 0, &job, &err));
  WANT(LOAM_OK, loam_job_wait(job, -1, &err));
  WANT(LOAM_OK, loam_job_progress(job, &done, &total, &err));
  CHECK(done == total && total > 100, "%llu of %llu", (unsigned long long)done, (unsigned long long)total);
  WANT(LOAM_OK, loam_job_report(job, &text, &err));
  CHECK(strstr(text, "\"id\":2"), "%s", text);
  loam_free(text);
  WANT(LOAM_OK, loam_job_close(job));
  WANT(LOAM_OK, loam_backup_verify(b, 1, 0, &err));
  WANT(LOAM_ERR_DOES_NOT_EXIST, loam_backup_verify(b, 7, 0, &err));
  WANT(LOAM_OK, loam_backup_verify_start(b, 1, 1000, &job, &err));
  WANT(LOAM_OK, loam_job_cancel(job, &err));
  WANT(LOAM_ERR_CANCELLED, loam_job_wait(job, -1, &err));
  WANT(LOAM_OK, loam_job_close(job));
  WANT(LOAM_OK, loam_backup_restore(b, 1, "restored", 0, &err));
  WANT(LOAM_ERR_EXISTS, loam_backup_restore(b, 1, "restored", 0, &err));
  WANT(LOAM_OK, loam_backup_restore_start(b, 2, "restored2", 0, &job, &err));
  WANT(LOAM_OK, loam_job_wait(job, -1, &err));
  WANT(LOAM_OK, loam_job_close(job));
  WANT(LOAM_OK, loam_open("restored2", NULL, &copy, &err));
  WANT(LOAM_OK, loam_verify(copy, &err));
  WANT(LOAM_OK, loam_close(copy, &err));
  WANT(LOAM_OK, loam_backup_delete(b, 1, &err));
  WANT(LOAM_OK, loam_backup_keep(b, 1, &err));
  WANT(LOAM_ERR_TOO_LARGE, loam_backup_keep(b, UINT64_MAX, &err));
  WANT(LOAM_OK, loam_backup_list(b, &text, &err));
  CHECK(!strncmp(text, "[{", 2) && strstr(text, "\"id\":2,"), "%s", text);
  loam_free(text);
  WANT(LOAM_OK, loam_backup_verify_start(b, 2, 1000, &job, &err));
  WANT(LOAM_OK, loam_backup_close(b));
  WANT(LOAM_ERR_CLOSED, loam_job_wait(job, -1, &err));
  WANT(LOAM_OK, loam_job_close(job));
  WANT(LOAM_ERR_CLOSED, loam_backup_list(b, &text, &err));
  WANT(LOAM_OK, loam_backup_open("backups", LOAM_BACKUP_READ_ONLY, &b, &err));
  WANT(LOAM_ERR_READ_ONLY, loam_backup_create(b, db, 0, &id, &err));
  WANT(LOAM_OK, loam_backup_close(b));
}

typedef struct {
  char *data;
  size_t len, at, fail_at; /* 0: does not fail */
} stream;

static int append(void *arg, const void *data, size_t len, loam_failure *failure) {
  stream *s = arg;
  if (s->fail_at && s->len + len > s->fail_at) {
    loam_callback_fail(failure, "the stream is full");
    return 1;
  }
  s->data = realloc(s->data, s->len + len);
  memcpy(s->data + s->len, data, len);
  s->len += len;
  return 0;
}

static size_t take(void *arg, void *data, size_t capacity, loam_failure *failure) {
  stream *s = arg;
  if (s->fail_at && s->at >= s->fail_at) {
    loam_callback_fail(failure, "the stream is gone");
    return 0;
  }
  size_t n = s->len - s->at < capacity ? s->len - s->at : capacity;
  if (n > 1000) n = 1000; /* fewer than there was room for */
  memcpy(data, s->data + s->at, n);
  s->at += n;
  return n;
}

static void dumps(loam_db *db) {
  char *info, *again;
  stream s = {0};
  loam_db *to, *second;
  loam_job *job;
  loam_snapshot *snapshot;
  WANT(LOAM_OK, loam_snapshot_create(db, &snapshot, &err));
  s.fail_at = 100;
  loam_status failed = loam_dump(db, NULL, NULL, append, &s, &info, &err);
  CHECK(failed == LOAM_ERR_CALLBACK && strstr(err, "the stream is full") && !info, "%s: %s", loam_status_name(failed), err);
  loam_free(err);
  s.len = s.fail_at = 0;
  WANT(LOAM_ERR_INVALID_ARGUMENT, loam_dump(db, snapshot, "brotli", append, &s, &info, &err));
  WANT(LOAM_OK, loam_dump(db, snapshot, "none", append, &s, &info, &err));
  CHECK(strstr(info, "\"name\":\"default\"") && s.len > 100, "%s", info);
  WANT(LOAM_OK, loam_dump_verify(take, &s, &again, &err));
  CHECK(!strcmp(info, again), "%s\n%s", info, again);
  loam_free(info);
  loam_free(again);
  WANT(LOAM_OK, loam_open("loaded", NULL, &to, &err));
  s.at = 0;
  s.fail_at = s.len / 2;
  WANT(LOAM_ERR_CALLBACK, loam_load(to, 0, take, &s, NULL, &err));
  s.at = s.fail_at = 0;
  WANT(LOAM_OK, loam_load(to, 0, take, &s, NULL, &err));
  s.at = 0;
  WANT(LOAM_ERR_EXISTS, loam_load(to, 0, take, &s, NULL, &err));
  s.at = 0;
  WANT(LOAM_OK, loam_load(to, LOAM_LOAD_OVERWRITE, take, &s, &info, &err));
  loam_free(info);
  s.at = 0;
  s.len--;
  WANT(LOAM_ERR_CORRUPTION, loam_dump_verify(take, &s, &info, &err));
  CHECK(!info, "info");
  loam_free(s.data);
  WANT(LOAM_OK, loam_verify(to, &err));
  FILE *f = fopen("dump", "w+b");
  WANT(LOAM_OK, loam_dump_check(db, "dump", &err));
  WANT(LOAM_ERR_INVALID_ARGUMENT, loam_dump_check(db, NULL, &err));
  WANT(LOAM_ERR_INVALID_ARGUMENT, loam_dump_check(db, "", &err));
  WANT(LOAM_ERR_INVALID_ARGUMENT, loam_dump_check(to, "loaded/dump", &err));
  WANT(LOAM_ERR_IO, loam_dump_start(db, NULL, NULL, 0, 12345, &job, &err));
  CHECK(!job, "job");
  WANT(LOAM_OK, loam_dump_start(db, NULL, "zstd", 0, fileno(f), &job, &err));
  WANT(LOAM_OK, loam_job_wait(job, -1, &err));
  WANT(LOAM_OK, loam_job_report(job, &info, &err));
  loam_free(info);
  WANT(LOAM_OK, loam_job_close(job));
  long size = lseek(fileno(f), 0, SEEK_END);
  CHECK(!ftruncate(fileno(f), size - 3), "ftruncate");
  CHECK(lseek(fileno(f), 0, SEEK_SET) == 0, "lseek");
  WANT(LOAM_OK, loam_dump_verify_start(fileno(f), &job, &err));
  WANT(LOAM_ERR_CORRUPTION, loam_job_wait(job, -1, &err));
  WANT(LOAM_OK, loam_job_close(job));
  WANT(LOAM_OK, loam_dump_start(db, snapshot, "zstd", LOAM_DUMP_CONTINUE, fileno(f), &job, &err));
  WANT(LOAM_OK, loam_job_wait(job, -1, &err));
  WANT(LOAM_OK, loam_job_close(job));
  WANT(LOAM_OK, loam_open("loaded2", NULL, &second, &err));
  CHECK(lseek(fileno(f), 0, SEEK_SET) == 0, "lseek");
  WANT(LOAM_OK, loam_load_start(second, 0, fileno(f), &job, &err));
  WANT(LOAM_OK, loam_job_wait(job, -1, &err));
  uint64_t done, total;
  WANT(LOAM_OK, loam_job_progress(job, &done, &total, &err));
  CHECK(done == total && total == (uint64_t)size, "%llu of %llu, %ld", (unsigned long long)done, (unsigned long long)total, size);
  WANT(LOAM_OK, loam_job_close(job));
  fclose(f);
  WANT(LOAM_OK, loam_close(second, &err));
  WANT(LOAM_OK, loam_close(to, &err));
  WANT(LOAM_OK, loam_snapshot_close(snapshot));
}

static void has(loam_db *db, const char *key, const char *want) {
  char *err = NULL;
  void *value;
  size_t len;
  loam_status s = loam_get_alloc(db, NULL, key, strlen(key), &value, &len, &err);
  CHECK(want ? s == LOAM_OK && len == strlen(want) && !memcmp(value, want, len) : s == LOAM_NOT_FOUND, "%s: %s", key, loam_status_name(s));
  loam_free(value);
}

/* Tables that are ingested, and loads. */
static void ingests(void) {
  char *err = NULL;
  loam_db *db;
  loam_table_writer *w;
  loam_batch *batch;
  loam_bulk_load *load;
  loam_job *job;
  uint64_t size;
  const char *paths[] = {"table1", "table2"};
  WANT(LOAM_OK, loam_open("ingested", NULL, &db, &err));
  WANT(LOAM_OK, loam_put(db, NULL, "a", 1, "old", 3, NULL, &err));
  WANT(LOAM_OK, loam_put(db, NULL, "x", 1, "old", 3, NULL, &err));
  WANT(LOAM_OK, loam_table_writer_create("table1", NULL, &w, &err));
  WANT(LOAM_ERR_EXISTS, loam_table_writer_create("table1", NULL, &w, &err));
  loam_free(err);
  WANT(LOAM_OK, loam_table_writer_create("table3", NULL, &w, &err));
  WANT(LOAM_OK, loam_table_writer_close(w)); /* removes it */
  CHECK(access("table3", F_OK), "a table that was given up is left");
  unlink("table1");
  WANT(LOAM_OK, loam_table_writer_create("table1", NULL, &w, &err));
  WANT(LOAM_OK, loam_table_writer_put(w, "b", 1, "2", 1, &err));
  WANT(LOAM_ERR_INVALID_ARGUMENT, loam_table_writer_put(w, "a", 1, "1", 1, &err));
  loam_free(err);
  WANT(LOAM_OK, loam_table_writer_put_ttl(w, "c", 1, "3", 1, 1000, &err));
  WANT(LOAM_OK, loam_batch_create(&batch, &err));
  WANT(LOAM_OK, loam_batch_put(batch, "d", 1, "4", 1, &err));
  WANT(LOAM_OK, loam_batch_put_ttl(batch, "e", 1, "5", 1, 1000, &err));
  WANT(LOAM_OK, loam_table_writer_add(w, batch, &err));
  WANT(LOAM_OK, loam_table_writer_size(w, &size, &err));
  CHECK(size > 50, "%llu bytes", (unsigned long long)size);
  WANT(LOAM_OK, loam_table_writer_finish(w, &err));
  WANT(LOAM_ERR_CLOSED, loam_table_writer_put(w, "f", 1, "1", 1, NULL));
  WANT(LOAM_OK, loam_table_writer_close(w));
  WANT(LOAM_OK, loam_table_writer_create("table2", NULL, &w, &err));
  WANT(LOAM_OK, loam_table_writer_delete(w, "k", 1, &err));
  WANT(LOAM_OK, loam_table_writer_delete_range(w, "w", 1, "z", 1, &err));
  WANT(LOAM_OK, loam_table_writer_finish(w, &err));
  WANT(LOAM_OK, loam_table_writer_close(w));
  WANT(LOAM_OK, loam_ingest(db, NULL, 2, paths, &err));
  has(db, "a", "old");
  has(db, "b", "2");
  has(db, "c", "3");
  has(db, "e", "5");
  has(db, "x", NULL);
  loam_ingest_options options = {.struct_size = sizeof options, .flags = LOAM_INGEST_MOVE | LOAM_INGEST_EXCISE, .start = "a", .start_len = 1, .stop = "m", .stop_len = 1};
  WANT(LOAM_OK, loam_ingest_start(db, &options, 1, paths, &job, &err));
  WANT(LOAM_OK, loam_job_wait(job, -1, &err));
  WANT(LOAM_OK, loam_job_close(job));
  has(db, "a", NULL);
  has(db, "b", "2");
  CHECK(access("table1", F_OK), "a table that was moved is left");
  loam_bulk_load_options little = {.struct_size = sizeof little, .memory = 1};
  WANT(LOAM_OK, loam_bulk_load_begin(db, &little, &load, &err));
  WANT(LOAM_OK, loam_bulk_load_put(load, "z", 1, "1", 1, &err));
  WANT(LOAM_OK, loam_bulk_load_put(load, "y", 1, "1", 1, &err));
  WANT(LOAM_ERR_INVALID_ARGUMENT, loam_bulk_load_add(load, batch, NULL)); /* a value that expires */
  WANT(LOAM_OK, loam_batch_clear(batch));
  WANT(LOAM_OK, loam_batch_put(batch, "z", 1, "2", 1, &err));
  WANT(LOAM_OK, loam_bulk_load_add(load, batch, &err));
  WANT(LOAM_OK, loam_bulk_load_finish_start(load, &job, &err));
  WANT(LOAM_OK, loam_job_wait(job, -1, &err));
  WANT(LOAM_OK, loam_job_close(job));
  WANT(LOAM_ERR_CLOSED, loam_bulk_load_finish(load, NULL));
  WANT(LOAM_OK, loam_bulk_load_close(load));
  has(db, "y", "1");
  has(db, "z", "2");
  WANT(LOAM_OK, loam_bulk_load_begin(db, NULL, &load, &err));
  WANT(LOAM_OK, loam_bulk_load_put(load, "q", 1, "1", 1, &err));
  WANT(LOAM_OK, loam_bulk_load_close(load));
  has(db, "q", NULL);
  WANT(LOAM_OK, loam_batch_close(batch));
  WANT(LOAM_OK, loam_close(db, &err));
}

/* The digits of keyspaces that operations name; "-": none. */
static int names(void *arg, const loam_operation *o, loam_failure *failure) {
  char *seen = arg;
  (void)failure;
  seen[strlen(seen)] = o->keyspace_named ? (char)('0' + o->keyspace) : '-';
  return 0;
}

static void batches_of_keyspaces(loam_db *db) {
  loam_batch *b, *c, *d;
  loam_db *space, *same;
  const void *data, *copy;
  size_t len, copy_len;
  char seen[16] = "";
  WANT(LOAM_OK, loam_keyspace_open(db, "space", NULL, &space, &err));
  WANT(LOAM_OK, loam_keyspace_open(db, "default", NULL, &same, &err));
  WANT(LOAM_OK, loam_batch_create(&b, &err));
  WANT(LOAM_OK, loam_batch_put(b, "own", 3, "1", 1, &err));
  WANT(LOAM_OK, loam_batch_in(b, db, &err));
  WANT(LOAM_OK, loam_batch_put(b, "db", 2, "1", 1, &err));
  WANT(LOAM_OK, loam_batch_in(b, same, &err));
  WANT(LOAM_OK, loam_batch_put_ttl(b, "default", 7, "1", 1, 3600, &err));
  WANT(LOAM_OK, loam_batch_delete(b, "own", 3, &err));
  WANT(LOAM_OK, loam_batch_in(b, space, &err));
  WANT(LOAM_OK, loam_batch_put(b, "space", 5, "1", 1, &err));
  WANT(LOAM_OK, loam_batch_in(b, NULL, &err));
  WANT(LOAM_OK, loam_batch_put(b, "own2", 4, "1", 1, &err));
  WANT(LOAM_OK, loam_batch_create(&c, &err));
  WANT(LOAM_OK, loam_batch_append(c, b, &err));
  WANT(LOAM_OK, loam_batch_each(c, names, seen, &err));
  CHECK(!strcmp(seen, "-0001-"), "%s", seen);
  WANT(LOAM_OK, loam_batch_merge(c, "db", 2, "1", 1, &err));
  WANT(LOAM_OK, loam_batch_delete_range(c, "x", 1, "y", 1, &err));
  WANT(LOAM_OK, loam_batch_data(c, &data, &len, &err));
  WANT(LOAM_OK, loam_batch_create_from(data, len, &d, &err));
  WANT(LOAM_OK, loam_batch_data(d, &copy, &copy_len, &err));
  CHECK(copy_len == len && !memcmp(copy, data, len), "%zu bytes of %zu", copy_len, len);
  WANT(LOAM_OK, loam_batch_close(c));
  WANT(LOAM_OK, loam_batch_create(&c, &err));
  WANT(LOAM_OK, loam_batch_append(c, b, &err));
  WANT(LOAM_OK, loam_batch_close(d));
  WANT(LOAM_OK, loam_batch_data(c, &data, &len, &err));
  WANT(LOAM_OK, loam_batch_create_from(data, len, &d, &err));
  WANT(LOAM_OK, loam_write(space, NULL, d, NULL, &err));
  WANT(LOAM_OK, loam_batch_close(d));
  const char *keys[] = {"own", "own2", "space", "db", "default"};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    bool in_space = i < 3;
    WANT(in_space ? LOAM_OK : LOAM_NOT_FOUND, loam_has(space, NULL, keys[i], strlen(keys[i]), &err));
    WANT(in_space ? LOAM_NOT_FOUND : LOAM_OK, loam_has(db, NULL, keys[i], strlen(keys[i]), &err));
  }
  uint64_t ms = 0;
  WANT(LOAM_OK, loam_ttl(db, READ(NULL, LOAM_NO_FILL), "default", 7, &ms, &err));
  CHECK(ms > 0 && ms <= 3601000, "%llu ms", (unsigned long long)ms);
  WANT(LOAM_ERR_INVALID_ARGUMENT, loam_ttl(db, READ(NULL, LOAM_MEMORY_ONLY), "default", 7, &ms, &err));
  /* An empty batch is of no database, unless a keyspace is chosen. */
  loam_db *other;
  WANT(LOAM_OK, loam_open("other batches", NULL, &other, &err));
  WANT(LOAM_OK, loam_batch_in(b, space, &err));
  WANT(LOAM_ERR_INVALID_ARGUMENT, loam_batch_in(b, other, &err));
  WANT(LOAM_OK, loam_batch_clear(b));
  WANT(LOAM_OK, loam_batch_put(b, "k", 1, "1", 1, &err));
  WANT(LOAM_ERR_INVALID_ARGUMENT, loam_write(other, NULL, b, NULL, &err));
  WANT(LOAM_OK, loam_batch_clear(b));
  WANT(LOAM_OK, loam_batch_in(b, other, &err));
  WANT(LOAM_OK, loam_batch_put(b, "k", 1, "1", 1, &err));
  WANT(LOAM_OK, loam_write(other, NULL, b, NULL, &err));
  WANT(LOAM_ERR_INVALID_ARGUMENT, loam_write(db, NULL, b, NULL, &err));
  WANT(LOAM_OK, loam_batch_in(b, NULL, &err));
  WANT(LOAM_ERR_INVALID_ARGUMENT, loam_write(db, NULL, b, NULL, &err));
  WANT(LOAM_OK, loam_batch_clear(b));
  WANT(LOAM_OK, loam_batch_put(b, "k", 1, "1", 1, &err));
  WANT(LOAM_OK, loam_write(space, NULL, b, NULL, &err));
  WANT(LOAM_OK, loam_close(other, &err));
  WANT(LOAM_OK, loam_batch_close(b));
  WANT(LOAM_OK, loam_batch_close(c));
  WANT(LOAM_OK, loam_close(same, &err));
  WANT(LOAM_OK, loam_close(space, &err));
}

static void upkeep(loam_db *db) {
  loam_job *job;
  uint64_t done, total, size = 7;
  char *text;
  loam_db *none;
  for (int i = 0; i < 2000; i++) {
    char key[16];
    WANT(LOAM_OK, loam_put(db, NULL, key, (size_t)sprintf(key, "up%05d", i), key, 7, NULL, &err));
  }
  WANT(LOAM_OK, loam_flush_start(db, &job, &err));
  WANT(LOAM_OK, loam_job_wait(job, -1, &err));
  WANT(LOAM_OK, loam_job_wait(job, 0, &err));
  WANT(LOAM_ERR_INVALID_ARGUMENT, loam_job_db(job, &none, &err));
  WANT(LOAM_ERR_INVALID_ARGUMENT, loam_job_report(job, &text, &err));
  WANT(LOAM_OK, loam_job_close(job));
  WANT(LOAM_ERR_CLOSED, loam_job_wait(job, 0, &err));
  const void *start = "up", *limit = "uq";
  size_t two = 2;
  WANT(LOAM_OK, loam_approximate_sizes(db, 1, &start, &two, &limit, &two, &size, &err));
  CHECK(size > 100, "%llu", (unsigned long long)size);
  WANT(LOAM_OK, loam_compact_start(db, NULL, 0, NULL, 0, &job, &err));
  loam_status s;
  while ((s = loam_job_wait(job, 1, &err)) == LOAM_TIMEOUT) WANT(LOAM_OK, loam_job_progress(job, &done, &total, &err));
  WANT(LOAM_OK, s);
  WANT(LOAM_OK, loam_job_progress(job, &done, &total, &err));
  CHECK(done == total && total > 100, "%llu of %llu", (unsigned long long)done, (unsigned long long)total);
  WANT(LOAM_OK, loam_job_cancel(job, &err));
  WANT(LOAM_OK, loam_job_close(job));
  WANT(LOAM_OK, loam_compact_start(db, "a", 1, "z", 1, &job, &err));
  WANT(LOAM_OK, loam_job_cancel(job, &err));
  s = loam_job_wait(job, -1, &err);
  CHECK(s == LOAM_OK || s == LOAM_ERR_CANCELLED, "%s: %s", loam_status_name(s), err);
  loam_free(err);
  err = NULL;
  WANT(LOAM_OK, loam_job_close(job));
  WANT(LOAM_ERR_INVALID_ARGUMENT, loam_compact(db, "z", 1, "a", 1, &err));
  WANT(LOAM_OK, loam_verify(db, &err));
  WANT(LOAM_OK, loam_verify_start(db, &job, &err));
  WANT(LOAM_OK, loam_job_wait(job, -1, &err));
  WANT(LOAM_OK, loam_job_progress(job, &done, &total, &err));
  CHECK(done == total && total > 100, "%llu of %llu", (unsigned long long)done, (unsigned long long)total);
  WANT(LOAM_OK, loam_job_close(job));
  WANT(LOAM_OK, loam_checkpoint(db, "checkpoint", &err));
  WANT(LOAM_ERR_EXISTS, loam_checkpoint(db, "checkpoint", &err));
  WANT(LOAM_OK, loam_checkpoint_start(db, "checkpoint2", &job, &err));
  WANT(LOAM_OK, loam_job_wait(job, -1, &err));
  WANT(LOAM_OK, loam_job_close(job));
  dumps(db);
  loam_db *copy;
  WANT(LOAM_OK, loam_open("checkpoint2", NULL, &copy, &err));
  WANT(LOAM_OK, loam_verify(copy, &err));
  WANT(LOAM_OK, loam_close(copy, &err));
  backups(db);
  followers();
  ingests();
  WANT(LOAM_OK, loam_pause_compaction(db, &err));
  WANT(LOAM_OK, loam_resume_compaction(db, &err));
  WANT(LOAM_OK, loam_retry(db, &err));
  WANT(LOAM_OK, loam_property(db, "leveldb.stats", &text, &err));
  loam_free(text);
  WANT(LOAM_NOT_FOUND, loam_property(db, "leveldb.nothing", &text, &err));
  CHECK(!text, "text");
  WANT(LOAM_OK, loam_metrics(db, &text, &err));
  printf("metrics %s\n", text);
  loam_free(text);
  WANT(LOAM_OK, loam_recovery_report(db, &text, &err));
  printf("recovery %s\n", text);
  loam_free(text);
  WANT(LOAM_OK, loam_options_describe(&text, &err));
  printf("options %s\n", text);
  loam_free(text);
  WANT(LOAM_OK, loam_comparator_name(db, &text, &err));
  CHECK(!strcmp(text, "leveldb.BytewiseComparator"), "%s", text);
  loam_free(text);
}

static void comparators(void) {
  loam_options *o;
  loam_db *db, *again;
  loam_iter *it;
  loam_entry e;
  char *name;
  size_t compared = 0;
  WANT(LOAM_OK, loam_options_create(&o, &err));
  WANT(LOAM_OK, loam_options_set_comparator(o, "test.Reverse", reverse, &compared, NULL, LOAM_COMPARATOR_EQUAL_IS_BYTEWISE, &err));
  WANT(LOAM_OK, loam_options_set_logger(o, count_lines, NULL, NULL, &err));
  WANT(LOAM_OK, loam_open("reverse", o, &db, &err));
  WANT(LOAM_ERR_LOCKED, loam_open("reverse", o, &again, &err));
  CHECK(!again, "a handle");
  for (int i = 0; i < 5000; i++) {
    char key[16];
    WANT(LOAM_OK, loam_put(db, NULL, key, (size_t)sprintf(key, "%d", i), "v", 1, NULL, &err));
  }
  WANT(LOAM_OK, loam_put(db, NULL, "", 0, "v", 1, NULL, &err));
  /* Read while they lie in several tables, too. */
  for (int part = 0; part < 3; part++) {
    WANT(LOAM_OK, loam_flush(db, &err));
    char key[16];
    for (int i = part; i < 5000; i += 7) WANT(LOAM_OK, loam_put(db, NULL, key, (size_t)sprintf(key, "%d", i), "v", 1, NULL, &err));
  }
  WANT(LOAM_OK, loam_iter_create(db, NULL, &it, &err));
  for (int i = 0; i < 5001; i++) WANT(LOAM_OK, loam_iter_next(it, NULL, &err));
  for (int i = 0; i < 5000; i++) WANT(LOAM_OK, loam_iter_prev(it, NULL, &err));
  WANT(LOAM_OK, loam_iter_seek(it, "77", 2, NULL, &err));
  WANT(LOAM_OK, loam_iter_close(it));
  WANT(LOAM_OK, loam_compact(db, NULL, 0, NULL, 0, &err));
  CHECK(compared > 5000, "%zu", compared);
  WANT(LOAM_OK, loam_iter_create(db, NULL, &it, &err));
  char last[16] = "~";
  int n = 0;
  loam_status s;
  while ((s = loam_iter_next(it, &e, &err)) == LOAM_OK) {
    char key[16] = "";
    memcpy(key, e.key, e.key_len);
    CHECK(strcmp(key, last) < 0, "%s behind %s", key, last);
    strcpy(last, key);
    n++;
  }
  CHECK(s == LOAM_END && n == 5001, "%d entries, %s", n, err);
  WANT(LOAM_OK, loam_iter_close(it));
  WANT(LOAM_OK, loam_comparator_name(db, &name, &err));
  CHECK(!strcmp(name, "test.Reverse"), "%s", name);
  loam_free(name);
  WANT(LOAM_OK, loam_close(db, &err));
  WANT(LOAM_ERR_COMPARATOR_MISMATCH, loam_open("reverse", NULL, &db, &err));
  WANT(LOAM_OK, loam_options_set_logger(o, NULL, NULL, NULL, &err));
  WANT(LOAM_OK, loam_destroy("reverse", o, &err));
  WANT(LOAM_OK, loam_options_set(o, "comparator", "idb_cmp1", &err));
  WANT(LOAM_ERR_INVALID_ARGUMENT, loam_options_set(o, "comparator", "nobody's", &err));
  WANT(LOAM_ERR_INVALID_ARGUMENT, loam_options_set(o, "block_sice", "4KiB", &err));
  WANT(LOAM_ERR_INVALID_ARGUMENT, loam_options_set(o, "block_size", "huge", &err));
  WANT(LOAM_OK, loam_options_close(o));
}

/* A directory's CURRENT is a file in LevelDB's format, a directory in the native one. */
static bool is_native(const char *current) {
  FILE *f = fopen(current, "r");
  char c;
  bool native = f == NULL || fread(&c, 1, 1, f) != 1;
  if (f != NULL) fclose(f);
  return native;
}

static void has_entry(const char *path) {
  loam_db *db;
  char value[8];
  size_t len;
  WANT(LOAM_OK, loam_open(path, NULL, &db, &err));
  WANT(LOAM_OK, loam_get(db, NULL, "k", 1, value, sizeof value, &len, &err));
  CHECK(len == 1 && value[0] == 'v', "%zu bytes", len);
  WANT(LOAM_OK, loam_close(db, &err));
}

/* There and back: a LevelDB database becomes native, and is exported. */
static void formats(void) {
  loam_options *o;
  loam_db *db;
  loam_job *job;
  uint64_t done, total;
  WANT(LOAM_OK, loam_options_create(&o, &err));
  WANT(LOAM_OK, loam_open("default", o, &db, &err));
  WANT(LOAM_OK, loam_close(db, &err));
  CHECK(is_native("default/CURRENT"), "a new database is native");
  WANT(LOAM_ERR_INVALID_ARGUMENT, loam_options_set(o, "format", "rocksdb", &err));
  WANT(LOAM_OK, loam_options_set(o, "format", "leveldb", &err));
  WANT(LOAM_OK, loam_open("format", o, &db, &err));
  WANT(LOAM_OK, loam_put(db, NULL, "k", 1, "v", 1, NULL, &err));
  WANT(LOAM_ERR_LOCKED, loam_upgrade("format", NULL, &err));
  WANT(LOAM_OK, loam_close(db, &err));
  CHECK(!is_native("format/CURRENT"), "made in LevelDB's format");
  WANT(LOAM_OK, loam_upgrade("format", o, &err));
  CHECK(is_native("format/CURRENT"), "upgraded");
  has_entry("format");
  WANT(LOAM_OK, loam_upgrade_start("format", NULL, &job, &err)); /* nothing to do */
  WANT(LOAM_OK, loam_job_wait(job, -1, &err));
  WANT(LOAM_OK, loam_job_close(job));
  WANT(LOAM_ERR_DOES_NOT_EXIST, loam_upgrade("none", NULL, &err));
  WANT(LOAM_ERR_INVALID_ARGUMENT, loam_export("format", "back", "rocksdb", NULL, &err));
  WANT(LOAM_OK, loam_export("format", "back", "leveldb", NULL, &err));
  CHECK(!is_native("back/CURRENT"), "exported to LevelDB's format");
  has_entry("back");
  WANT(LOAM_ERR_EXISTS, loam_export("format", "back", "leveldb", NULL, &err));
  WANT(LOAM_OK, loam_export_start("back", "again", "native", o, &job, &err));
  WANT(LOAM_OK, loam_options_close(o));
  WANT(LOAM_OK, loam_job_wait(job, -1, &err));
  WANT(LOAM_OK, loam_job_progress(job, &done, &total, &err));
  CHECK(done <= total, "%llu of %llu", (unsigned long long)done, (unsigned long long)total);
  WANT(LOAM_OK, loam_job_close(job));
  CHECK(is_native("again/CURRENT"), "exported to the native format");
  has_entry("again");
}

static void opening(void) {
  loam_options *o;
  loam_db *db, *other;
  loam_cache *cache;
  loam_job *job;
  char *report;
  WANT(LOAM_OK, loam_options_create(&o, &err));
  WANT(LOAM_OK, loam_options_set(o, "error_if_missing", "true", &err));
  WANT(LOAM_ERR_DOES_NOT_EXIST, loam_open("missing", o, &db, &err));
  WANT(LOAM_OK, loam_options_set(o, "error_if_missing", "false", &err));
  WANT(LOAM_OK, loam_options_set(o, "error_if_exists", "true", &err));
  WANT(LOAM_ERR_EXISTS, loam_open("other", o, &db, &err));
  WANT(LOAM_OK, loam_options_close(o));
  WANT(LOAM_OK, loam_options_create(&o, &err));
  WANT(LOAM_OK, loam_cache_create(8 << 20, &cache, &err));
  WANT(LOAM_OK, loam_options_set_cache(o, cache, &err));
  WANT(LOAM_OK, loam_open("one", o, &db, &err));
  WANT(LOAM_OK, loam_open_start("two", o, &job, &err));
  WANT(LOAM_OK, loam_job_wait(job, -1, &err));
  WANT(LOAM_OK, loam_job_db(job, &other, &err));
  WANT(LOAM_OK, loam_job_close(job));
  WANT(LOAM_OK, loam_cache_close(cache));
  WANT(LOAM_ERR_CLOSED, loam_options_set_cache(o, cache, &err));
  WANT(LOAM_OK, loam_put(db, NULL, "k", 1, "v", 1, NULL, &err));
  WANT(LOAM_OK, loam_put(other, NULL, "k", 1, "v", 1, NULL, &err));
  WANT(LOAM_OK, loam_close(db, &err));
  WANT(LOAM_ERR_CLOSED, loam_put(db, NULL, "k", 1, "v", 1, NULL, &err));
  WANT(LOAM_OK, loam_close_start(other, &job, &err));
  WANT(LOAM_ERR_CLOSED, loam_close(other, &err));
  WANT(LOAM_OK, loam_job_wait(job, 10000, &err));
  WANT(LOAM_OK, loam_job_close(job));
  WANT(LOAM_OK, loam_options_close(o));
  /* A job nobody fetches from closes what it opened. */
  WANT(LOAM_OK, loam_open_start("two", NULL, &job, &err));
  WANT(LOAM_OK, loam_job_close(job));
  loam_status s;
  for (int i = 0; (s = loam_open("two", NULL, &db, &err)) == LOAM_ERR_LOCKED && i < 1000000; i++) loam_free(err), err = NULL;
  WANT(LOAM_OK, s);
  WANT(LOAM_OK, loam_close(db, &err));
  o = NULL;
  WANT(LOAM_OK, loam_options_create(&o, &err));
  WANT(LOAM_OK, loam_options_set(o, "read_only", "true", &err));
  WANT(LOAM_OK, loam_open("two", o, &db, &err));
  WANT(LOAM_ERR_READ_ONLY, loam_put(db, NULL, "k", 1, "v", 1, NULL, &err));
  WANT(LOAM_OK, loam_close(db, &err));
  WANT(LOAM_OK, loam_options_close(o));
  WANT(LOAM_OK, loam_repair("one", NULL, &report, &err));
  printf("repair %s\n", report);
  loam_free(report);
  WANT(LOAM_OK, loam_repair_start("one", NULL, &job, &err));
  WANT(LOAM_OK, loam_job_wait(job, -1, &err));
  WANT(LOAM_OK, loam_job_report(job, &report, &err));
  loam_free(report);
  WANT(LOAM_OK, loam_job_close(job));
  formats();
  WANT(LOAM_OK, loam_destroy("one", NULL, &err));
  WANT(LOAM_OK, loam_destroy("one", NULL, &err));
}

/* Waits for a job in another working directory than that in which it was started. */
static void wait_elsewhere(loam_job *job) {
  CHECK(!chdir("../after"), "chdir");
  WANT(LOAM_OK, loam_job_wait(job, -1, &err));
  CHECK(!chdir("../before"), "chdir");
}

static void working_directories(void) {
  static const char *const made[] = {"db/CURRENT", "copy/CURRENT", "out/CURRENT"}, *table = "table";
  loam_db *db;
  loam_job *job;
  loam_table_writer *writer;
  CHECK(!mkdir("before", 0700) && !mkdir("after", 0700) && !chdir("before"), "mkdir");
  WANT(LOAM_OK, loam_open_start("db", NULL, &job, &err));
  wait_elsewhere(job);
  WANT(LOAM_OK, loam_job_db(job, &db, &err));
  WANT(LOAM_OK, loam_job_close(job));
  WANT(LOAM_OK, loam_table_writer_create(table, NULL, &writer, &err));
  WANT(LOAM_OK, loam_table_writer_put(writer, "k", 1, "v", 1, &err));
  WANT(LOAM_OK, loam_table_writer_finish(writer, &err));
  WANT(LOAM_OK, loam_table_writer_close(writer));
  WANT(LOAM_OK, loam_ingest_start(db, NULL, 1, &table, &job, &err));
  wait_elsewhere(job);
  WANT(LOAM_OK, loam_job_close(job));
  WANT(LOAM_OK, loam_checkpoint_start(db, "copy", &job, &err));
  wait_elsewhere(job);
  WANT(LOAM_OK, loam_job_close(job));
  WANT(LOAM_OK, loam_close(db, &err));
  WANT(LOAM_OK, loam_export_start("db", "out", "leveldb", NULL, &job, &err));
  wait_elsewhere(job);
  WANT(LOAM_OK, loam_job_close(job));
  for (int i = 0; i < 3; i++) CHECK(!access(made[i], F_OK), "there is no %s", made[i]);
  CHECK(!chdir("..") && !rmdir("after"), "something was made where the jobs were waited for");
}

/* A write to a mapped log could end in a signal that the host has taken. */
static void logs_are_not_mapped(loam_db *db, loam_db *off) {
  char line[1024];
  WANT(LOAM_OK, loam_put(db, NULL, "mapped", 6, "", 0, NULL, &err));
  WANT(LOAM_OK, loam_put(off, NULL, "mapped", 6, "", 0, NULL, &err));
  FILE *maps = fopen("/proc/self/maps", "r");
  CHECK(maps, "maps");
  while (fgets(line, sizeof line, maps)) CHECK(!strstr(line, ".log") && !strstr(line, ".wal"), "%s", line);
  fclose(maps);
  WANT(LOAM_OK, loam_delete(db, NULL, "mapped", 6, NULL, &err));
  WANT(LOAM_OK, loam_delete(off, NULL, "mapped", 6, NULL, &err));
}

int main(void) {
  loam_db *db, *other;
  loam_options *o;
  loam_iter *it;
  loam_snapshot *snapshot;
  CHECK(loam_abi_version() == LOAM_ABI_VERSION, "%d", loam_abi_version());
  CHECK(loam_version()[0], "version");
  for (int s = -17; s <= 6; s++) CHECK(strcmp(loam_status_name(s), "LOAM_UNKNOWN") && *loam_status_string(s), "%d", s);
  WANT(LOAM_OK, loam_runtime_set(0, 100, 0, &err));
  WANT(LOAM_OK, loam_open("db", NULL, &db, &err));
  WANT(LOAM_OK, loam_options_create(&o, &err));
  WANT(LOAM_OK, loam_options_set(o, "plain_wal", "false", &err));
  WANT(LOAM_OK, loam_open("other", o, &other, &err));
  WANT(LOAM_OK, loam_options_close(o));
  logs_are_not_mapped(db, other);
  reading(db);
  pinned();
  snapshots(db, other);
  batches(db);
  batches_of_keyspaces(db);
  upkeep(db);
  WANT(LOAM_OK, loam_iter_create(other, NULL, &it, &err));
  WANT(LOAM_OK, loam_snapshot_create(other, &snapshot, &err));
  WANT(LOAM_OK, loam_close(other, &err));
  WANT(LOAM_ERR_CLOSED, loam_close(other, &err));
  WANT(LOAM_ERR_CLOSED, loam_iter_first(it, NULL, &err));
  WANT(LOAM_OK, loam_iter_close(it));
  WANT(LOAM_ERR_CLOSED, loam_iter_close(it));
  WANT(LOAM_OK, loam_snapshot_close(snapshot));
  opening();
  WANT(LOAM_OK, loam_close(db, &err));
  comparators();
  working_directories();
  return 0;
}
