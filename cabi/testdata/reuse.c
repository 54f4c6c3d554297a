/* Batches that are given their own bytes, and iterators that go on after a failure or a refused
 * move. */
#define _GNU_SOURCE
#include "check.h"

static char *err;

/* Keys and values of a batch's own bytes, while its memory grows and moves. */
static void own_bytes(void) {
  loam_batch *b;
  const void *data;
  size_t len, before = 0;
  WANT(LOAM_OK, loam_batch_create(&b, &err));
  WANT(LOAM_OK, loam_batch_put(b, "key", 3, "value", 5, &err));
  for (int i = 0; i < 16; i++) {
    WANT(LOAM_OK, loam_batch_data(b, &data, &len, &err));
    CHECK(len > before, "%zu bytes", len);
    before = len;
    char *was = malloc(len);
    memcpy(was, data, len);
    switch (i % 4) {
      case 0: WANT(LOAM_OK, loam_batch_put(b, data, len, data, len, &err)); break;
      case 1: WANT(LOAM_OK, loam_batch_delete(b, data, len, &err)); break;
      case 2: WANT(LOAM_OK, loam_batch_put_ttl(b, data, len, data, len, 9, &err)); break;
      default: WANT(LOAM_OK, loam_batch_merge(b, "key", 3, data, len, &err));
    }
    size_t now;
    WANT(LOAM_OK, loam_batch_data(b, &data, &now, &err));
    /* All but the sequence number and the count is as before, and follows once more. */
    CHECK(!memcmp((const char *)data + 12, was + 12, len - 12), "round %d", i);
    CHECK(now > 2 * len - 12 && memmem((const char *)data + len, now - len, was + 12, len - 12), "round %d", i);
    free(was);
  }
  CHECK(operations(b) == 17, "%zu operations", operations(b));
  WANT(LOAM_OK, loam_batch_close(b));
}

static void sums(void *arg, const void *key, size_t key_len, const loam_bytes *existing, const loam_bytes *operands, size_t count, loam_merge_result *result, loam_failure *failure) {
  (void)key, (void)key_len, (void)existing, (void)operands, (void)count;
  if (*(int *)arg) loam_callback_fail(failure, "the sum is lost");
  else loam_merge_result_set(result, "sum", 3);
}

/* An iterator that failed stays where it failed, and does not begin anew. */
static void failed_iterators(void) {
  loam_options *o;
  loam_db *db;
  loam_iter *it;
  loam_entry e;
  loam_block block;
  int fails = 1;
  WANT(LOAM_OK, loam_options_create(&o, &err));
  WANT(LOAM_OK, loam_options_set_merge_operator(o, "sum", sums, NULL, &fails, NULL, &err));
  WANT(LOAM_OK, loam_open("failing", o, &db, &err));
  WANT(LOAM_OK, loam_options_close(o));
  WANT(LOAM_OK, loam_put(db, NULL, "a", 1, "v", 1, NULL, &err));
  WANT(LOAM_OK, loam_merge(db, NULL, "b", 1, "v", 1, NULL, &err));
  WANT(LOAM_OK, loam_put(db, NULL, "c", 1, "v", 1, NULL, &err));
  WANT(LOAM_OK, loam_iter_create(db, NULL, &it, &err));
  WANT(LOAM_OK, loam_iter_first(it, &e, &err));
  for (int i = 0; i < 3; i++) {
    WANT(LOAM_ERR_MERGE_FAILED, loam_iter_next(it, &e, &err));
    WANT(LOAM_ERR_MERGE_FAILED, loam_iter_prev(it, &e, &err));
    WANT(LOAM_ERR_MERGE_FAILED, loam_iter_next_block(it, 0, 0, &block, &err));
    WANT(LOAM_END, loam_iter_entry(it, &e, &err));
    CHECK(loam_iter_next(it, &e, NULL) == LOAM_ERR_MERGE_FAILED, "without a message");
  }
  WANT(LOAM_OK, loam_iter_seek(it, "c", 1, &e, &err));
  CHECK(e.key_len == 1 && *(const char *)e.key == 'c', "key");
  WANT(LOAM_ERR_MERGE_FAILED, loam_iter_prev(it, &e, &err));
  fails = 0;
  WANT(LOAM_OK, loam_iter_first(it, &e, &err));
  WANT(LOAM_OK, loam_iter_next(it, &e, &err));
  CHECK(e.value_len == 3 && !memcmp(e.value, "sum", 3), "value");
  WANT(LOAM_OK, loam_iter_close(it));
  WANT(LOAM_OK, loam_close(db, &err));
}

static loam_iter *asked; /* by the next comparison */

static int compare(void *arg, const void *a, size_t an, const void *b, size_t bn, loam_failure *failure) {
  loam_iter *it = asked;
  asked = NULL;
  if (it) WANT(LOAM_ERR_IN_USE, loam_iter_next(it, NULL, &err));
  return a_compare_compare(arg, a, an, b, bn, failure);
}

/* A move that a comparator may not make leaves the iterator where it was, with its block. */
static void refused_moves(void) {
  loam_options *o;
  loam_db *db;
  loam_iter *it;
  loam_entry e;
  size_t len;
  char key[16], buf[8];
  WANT(LOAM_OK, loam_options_create(&o, &err));
  WANT(LOAM_OK, loam_options_set_comparator(o, "test.Moves", compare, NULL, NULL, 0, &err));
  WANT(LOAM_OK, loam_open("moves", o, &db, &err));
  WANT(LOAM_OK, loam_options_close(o));
  for (int i = 0; i < 200; i++) WANT(LOAM_OK, loam_put(db, NULL, key, (size_t)sprintf(key, "%03d", i), "v", 1, NULL, &err));
  WANT(LOAM_OK, loam_iter_create(db, NULL, &it, &err));
  for (int i = 0; i < 100; i++) {
    WANT(LOAM_OK, loam_iter_next(it, &e, &err));
    sprintf(key, "%03d", i);
    CHECK(e.key_len == 3 && !memcmp(e.key, key, 3), "entry %d", i);
    /* Blocks have 1, 4, 16, 64 entries: here the next one would be fetched. */
    if (i != 0 && i != 4 && i != 20 && i != 84) continue;
    WANT(LOAM_OK, loam_put(db, NULL, "new", 3, "v", 1, NULL, &err));
    asked = it;
    WANT(LOAM_OK, loam_get(db, NULL, "new", 3, buf, sizeof buf, &len, &err));
    CHECK(!asked, "no comparison behind entry %d", i);
    WANT(LOAM_OK, loam_iter_entry(it, &e, &err));
    CHECK(e.key_len == 3 && !memcmp(e.key, key, 3) && e.value_len == 1, "entry %d after a refused move", i);
  }
  WANT(LOAM_OK, loam_iter_close(it));
  WANT(LOAM_OK, loam_close(db, &err));
}

int main(void) {
  own_bytes();
  refused_moves();
  failed_iterators();
  return 0;
}
