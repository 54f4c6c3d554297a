/* Merges: named operators, and operators of callbacks, which fail at times. */
#include "check.h"

static char *err;

typedef struct {
  int fail;
  int destroyed;
  long calls;
} operator;

/* Appends with a plus sign. */
static void full(void *arg, const void *key, size_t key_len, const loam_bytes *existing, const loam_bytes *operands, size_t count, loam_merge_result *result, loam_failure *failure) {
  operator *o = arg;
  __atomic_add_fetch(&o->calls, 1, __ATOMIC_RELAXED);
  CHECK(!o->destroyed && key && key_len, "called after its end");
  int fail = __atomic_load_n(&o->fail, __ATOMIC_SEQ_CST);
  if (fail) {
    if (fail == 1) loam_callback_fail(failure, "the sum is lost");
    else loam_merge_result_set(result, NULL, 5);
    return;
  }
  char sum[4096];
  size_t len = 0;
  if (existing) {
    memcpy(sum, existing->data, existing->len);
    len = existing->len;
  }
  for (size_t i = 0; i < count; i++) {
    CHECK(len + operands[i].len + 1 < sizeof sum, "too long");
    if (i || existing) sum[len++] = '+';
    memcpy(sum + len, operands[i].data, operands[i].len);
    len += operands[i].len;
  }
  loam_merge_result_set(result, "nothing", 7);
  loam_merge_result_set(result, NULL, 7);
  loam_merge_result_set(result, sum, len);
}

static int partial(void *arg, const void *key, size_t key_len, const loam_bytes *left, const loam_bytes *right, loam_merge_result *result, loam_failure *failure) {
  char sum[4096];
  (void)key, (void)key_len;
  if (__atomic_load_n(&((operator *)arg)->fail, __ATOMIC_SEQ_CST)) {
    loam_callback_fail(failure, "the part is lost");
    return 1;
  }
  if (left->len + right->len + 1 > sizeof sum) return 0;
  memcpy(sum, left->data, left->len);
  sum[left->len] = '+';
  memcpy(sum + left->len + 1, right->data, right->len);
  loam_merge_result_set(result, sum, left->len + 1 + right->len);
  return 1;
}

static void destroy(void *arg) { note_end(&((operator *)arg)->destroyed); }

static loam_options *native(void) {
  loam_options *options;
  WANT(LOAM_OK, loam_options_create(&options, &err));
  WANT(LOAM_OK, loam_options_set(options, "format", "native", &err));
  return options;
}

static void want(loam_db *db, const char *key, const char *value, size_t len) {
  char got[100];
  size_t got_len;
  WANT(LOAM_OK, loam_get(db, NULL, key, strlen(key), got, sizeof got, &got_len, &err));
  CHECK(got_len == len && !memcmp(got, value, len), "%s is %.*s, want %s", key, (int)got_len, got, value);
}

static void callbacks(const char *dir) {
  operator o;
  memset(&o, 0, sizeof o);
  loam_db *db;
  loam_batch *b;
  uint64_t first, second;
  loam_options *options = native();
  WANT(LOAM_ERR_INVALID_ARGUMENT, loam_options_set_merge_operator(options, "", full, NULL, NULL, NULL, &err));
  WANT(LOAM_ERR_INVALID_ARGUMENT, loam_options_set_merge_operator(options, "test.Plus", NULL, NULL, NULL, NULL, &err));
  WANT(LOAM_OK, loam_options_set_merge_operator(options, "test.Plus", full, partial, &o, destroy, &err));
  WANT(LOAM_OK, loam_open(dir, options, &db, &err));
  WANT(LOAM_OK, loam_options_close(options));
  WANT(LOAM_OK, loam_merge(db, NULL, "k", 1, "1", 1, &first, &err));
  WANT(LOAM_OK, loam_merge(db, NULL, "k", 1, "2", 1, NULL, &err));
  WANT(LOAM_OK, loam_batch_create(&b, &err));
  WANT(LOAM_OK, loam_batch_merge(b, "k", 1, "3", 1, &err));
  WANT(LOAM_OK, loam_batch_merge(b, "k", 1, NULL, 0, &err));
  WANT(LOAM_OK, loam_batch_put(b, "p", 1, "0", 1, &err));
  WANT(LOAM_OK, loam_batch_merge(b, "p", 1, "1", 1, &err));
  WANT(LOAM_OK, loam_write(db, NULL, b, &second, &err));
  WANT(LOAM_OK, loam_batch_close(b));
  CHECK(second == first + 5, "sequence numbers %d and %d", (int)first, (int)second);
  want(db, "k", "1+2+3+", 6);
  want(db, "p", "0+1", 3);
  __atomic_store_n(&o.fail, 1, __ATOMIC_SEQ_CST);
  char got[100];
  size_t len;
  WANT(LOAM_ERR_MERGE_FAILED, loam_get(db, NULL, "k", 1, got, sizeof got, &len, &err));
  __atomic_store_n(&o.fail, 2, __ATOMIC_SEQ_CST);
  CHECK(loam_get(db, NULL, "k", 1, got, sizeof got, &len, &err) == LOAM_ERR_MERGE_FAILED && strstr(err, "NULL"), "%s", err ? err : "(none)");
  loam_free(err);
  err = NULL;
  __atomic_store_n(&o.fail, 1, __ATOMIC_SEQ_CST);
  WANT(LOAM_OK, loam_flush(db, &err));
  WANT(LOAM_OK, loam_merge(db, NULL, "k", 1, "4", 1, NULL, &err));
  WANT(LOAM_OK, loam_flush(db, &err));
  __atomic_store_n(&o.fail, 0, __ATOMIC_SEQ_CST);
  want(db, "k", "1+2+3++4", 8);
  CHECK(o.calls > 3 && !o.destroyed, "%ld calls, %d ends", o.calls, o.destroyed);
  WANT(LOAM_OK, loam_close(db, &err));
  CHECK(ended(&o.destroyed) == 1, "%d ends", o.destroyed);
}

static void named(const char *dir) {
  loam_db *db, *space;
  loam_options *options = native();
  WANT(LOAM_ERR_INVALID_ARGUMENT, loam_options_set(options, "merge_operator", "sum", &err));
  WANT(LOAM_OK, loam_open(dir, options, &db, &err));
  WANT(LOAM_ERR_NO_MERGE_OPERATOR, loam_merge(db, NULL, "n", 1, "", 0, NULL, &err));
  WANT(LOAM_OK, loam_close(db, &err));
  WANT(LOAM_OK, loam_options_set(options, "merge_operator", "uint64add", &err));
  WANT(LOAM_OK, loam_open(dir, options, &db, &err));
  for (int i = 0; i < 3; i++) WANT(LOAM_OK, loam_merge(db, NULL, "n", 1, "\2\0\0\0\0\0\0\0", 8, NULL, &err));
  want(db, "n", "\6\0\0\0\0\0\0\0", 8);
  operator o;
  memset(&o, 0, sizeof o);
  WANT(LOAM_OK, loam_options_set_merge_operator(options, "test.Plus", full, NULL, &o, destroy, &err));
  WANT(LOAM_OK, loam_keyspace_open(db, "other", options, &space, &err));
  WANT(LOAM_OK, loam_options_close(options));
  WANT(LOAM_OK, loam_merge(space, NULL, "k", 1, "1", 1, NULL, &err));
  WANT(LOAM_OK, loam_merge(space, NULL, "k", 1, "2", 1, NULL, &err));
  want(space, "k", "1+2", 3);
  WANT(LOAM_OK, loam_close(space, &err));
  CHECK(!o.destroyed, "an operator of an open database has ended");
  WANT(LOAM_OK, loam_close(db, &err));
  CHECK(ended(&o.destroyed) == 1, "%d ends", o.destroyed);
}

int main(void) {
  callbacks("callbacks");
  named("named");
  return 0;
}
