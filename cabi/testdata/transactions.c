/* Transactions, compare-and-swap and their ends. */
#include "check.h"

#include <pthread.h>

static char *err;

/* Wants a failure whose message has the words. */
#define SAYS(status, words, call)                                                                 \
  do {                                                                                            \
    loam_status said_ = (call);                                                                   \
    CHECK(said_ == (status) && err && strstr(err, words), "%s: %s", #call, err ? err : "nothing"); \
    loam_free(err);                                                                               \
    err = NULL;                                                                                   \
  } while (0)

/* Wants a value, or none. */
static void holds(loam_db *db, const char *key, const char *want) {
  void *value;
  size_t len;
  loam_status s = loam_get_alloc(db, NULL, key, strlen(key), &value, &len, &err);
  CHECK(want ? s == LOAM_OK && len == strlen(want) && !memcmp(value, want, len) : s == LOAM_NOT_FOUND, "%s: %s", key, loam_status_name(s));
  loam_free(value);
}

static void sees(loam_txn *txn, const char *key, const char *want) {
  void *value;
  size_t len;
  loam_status s = loam_txn_get(txn, NULL, key, strlen(key), &value, &len, &err);
  CHECK(want ? s == LOAM_OK && len == strlen(want) && !memcmp(value, want, len) : s == LOAM_NOT_FOUND, "%s: %s", key, loam_status_name(s));
  loam_free(value);
}

static void commits(loam_db *db) {
  loam_txn *txn;
  loam_iter *it;
  loam_entry e;
  uint64_t first, second;
  WANT(LOAM_OK, loam_put(db, NULL, "a", 1, "0", 1, NULL, &err));
  WANT(LOAM_OK, loam_txn_begin(db, NULL, &txn, &err));
  WANT(LOAM_OK, loam_txn_put(txn, NULL, "b", 1, "1", 1, &err));
  WANT(LOAM_OK, loam_txn_savepoint(txn, &first, &err));
  WANT(LOAM_OK, loam_txn_delete(txn, db, "a", 1, &err));
  WANT(LOAM_OK, loam_txn_savepoint(txn, &second, &err));
  sees(txn, "a", NULL);
  sees(txn, "b", "1");
  holds(db, "b", NULL);
  WANT(LOAM_OK, loam_txn_iter_create(txn, NULL, NULL, &it, &err));
  WANT(LOAM_OK, loam_iter_first(it, &e, &err));
  CHECK(e.key_len == 1 && *(const char *)e.key == 'b', "the first key");
  WANT(LOAM_END, loam_iter_next(it, &e, &err));
  WANT(LOAM_OK, loam_iter_close(it));
  loam_snapshot *snapshot;
  WANT(LOAM_OK, loam_snapshot_create(db, &snapshot, &err));
  loam_iter_options o = {.struct_size = sizeof o, .snapshot = snapshot};
  SAYS(LOAM_ERR_INVALID_ARGUMENT, "no snapshot", loam_txn_iter_create(txn, NULL, &o, &it, &err));
  WANT(LOAM_OK, loam_snapshot_close(snapshot));
  WANT(LOAM_OK, loam_txn_rollback_to(txn, first, &err));
  SAYS(LOAM_ERR_INVALID_ARGUMENT, "not a savepoint", loam_txn_rollback_to(txn, second, &err));
  sees(txn, "a", "0");
  WANT(LOAM_OK, loam_txn_commit(txn, WRITE(LOAM_SYNC), &err));
  holds(db, "a", "0");
  holds(db, "b", "1");
  SAYS(LOAM_ERR_TXN_DONE, "has ended", loam_txn_commit(txn, NULL, &err));
  WANT(LOAM_ERR_TXN_DONE, loam_txn_put(txn, NULL, "c", 1, "", 0, NULL));
  WANT(LOAM_OK, loam_txn_rollback(txn, &err));
  WANT(LOAM_OK, loam_txn_close(txn));
  WANT(LOAM_ERR_CLOSED, loam_txn_close(txn));
  WANT(LOAM_OK, loam_txn_close(NULL));
}

static void conflicts(loam_db *db) {
  loam_txn *txn;
  void *value;
  size_t len;
  for (int update = 0; update < 2; update++) {
    loam_txn_options o = {.struct_size = sizeof o, .flags = update ? 0 : LOAM_TXN_SERIALIZABLE};
    WANT(LOAM_OK, loam_txn_begin(db, &o, &txn, &err));
    WANT(LOAM_OK, (update ? loam_txn_get_for_update : loam_txn_get)(txn, NULL, "a", 1, &value, &len, &err));
    loam_free(value);
    WANT(LOAM_OK, loam_txn_put(txn, NULL, "z", 1, "z", 1, &err));
    WANT(LOAM_OK, loam_put(db, NULL, "a", 1, "newer", 5, NULL, &err));
    SAYS(LOAM_ERR_CONFLICT, "\"a\"", loam_txn_commit(txn, NULL, &err));
    WANT(LOAM_OK, loam_txn_close(txn));
    holds(db, "z", NULL);
  }
}

static void locks(loam_db *db) {
  loam_txn *one, *two;
  loam_txn_options o = {.struct_size = sizeof o, .flags = LOAM_TXN_LOCK, .lock_timeout_ms = 1, .name = "the first"};
  WANT(LOAM_OK, loam_txn_begin(db, &o, &one, &err));
  o.name = "the second";
  WANT(LOAM_OK, loam_txn_begin(db, &o, &two, &err));
  WANT(LOAM_OK, loam_txn_put(one, NULL, "k", 1, "1", 1, &err));
  WANT(LOAM_OK, loam_txn_put(one, NULL, "k", 1, "2", 1, &err));
  SAYS(LOAM_ERR_LOCK_TIMEOUT, "the first", loam_txn_put(two, NULL, "k", 1, "3", 1, &err));
  SAYS(LOAM_ERR_LOCK_TIMEOUT, "the second", loam_txn_put(two, NULL, "k", 1, "3", 1, &err));
  WANT(LOAM_OK, loam_txn_close(one)); /* rolls back */
  WANT(LOAM_OK, loam_txn_put(two, NULL, "k", 1, "3", 1, &err));
  WANT(LOAM_OK, loam_txn_commit(two, NULL, &err));
  WANT(LOAM_OK, loam_txn_close(two));
  holds(db, "k", "3");
  o.flags = LOAM_TXN_READ_ONLY;
  WANT(LOAM_OK, loam_txn_begin(db, &o, &one, &err));
  WANT(LOAM_ERR_INVALID_ARGUMENT, loam_txn_delete(one, NULL, "k", 1, NULL));
  WANT(LOAM_OK, loam_txn_close(one));
}

static void swaps(loam_db *db) {
  WANT(LOAM_OK, loam_put_if_absent(db, NULL, "s", 1, NULL, 0, &err));
  WANT(LOAM_MISMATCH, loam_put_if_absent(db, NULL, "s", 1, "x", 1, &err));
  WANT(LOAM_MISMATCH, loam_compare_and_swap(db, NULL, "s", 1, NULL, 0, "x", 1, &err));
  WANT(LOAM_OK, loam_compare_and_swap(db, WRITE(LOAM_SYNC), "s", 1, "", 0, "x", 1, &err));
  holds(db, "s", "x");
  WANT(LOAM_OK, loam_compare_and_swap(db, NULL, "s", 1, "x", 1, NULL, 0, &err));
  holds(db, "s", NULL);
}

/* Merges and range deletes, in a keyspace. */
static void kinds(loam_db *plain) {
  loam_options *options;
  loam_db *db, *numbers;
  loam_txn *txn;
  uint64_t before;
  WANT(LOAM_OK, loam_txn_begin(plain, NULL, &txn, &err));
  SAYS(LOAM_ERR_NEEDS_NATIVE, "merge", loam_txn_merge(txn, NULL, "k", 1, "x", 1, &err));
  SAYS(LOAM_ERR_NEEDS_NATIVE, "range delete", loam_txn_delete_range(txn, NULL, "a", 1, "b", 1, &err));
  WANT(LOAM_OK, loam_txn_close(txn));
  WANT(LOAM_OK, loam_options_create(&options, &err));
  WANT(LOAM_OK, loam_options_set(options, "format", "native", &err));
  WANT(LOAM_OK, loam_open("kinds", options, &db, &err));
  WANT(LOAM_OK, loam_options_set(options, "merge_operator", "append", &err));
  WANT(LOAM_OK, loam_keyspace_open(db, "numbers", options, &numbers, &err));
  WANT(LOAM_OK, loam_options_close(options));
  WANT(LOAM_OK, loam_put(numbers, NULL, "a", 1, "1", 1, NULL, &err));
  WANT(LOAM_OK, loam_put(numbers, NULL, "b", 1, "1", 1, NULL, &err));
  WANT(LOAM_OK, loam_txn_begin(numbers, NULL, &txn, &err));
  WANT(LOAM_OK, loam_txn_merge(txn, NULL, "a", 1, "2", 1, &err));
  sees(txn, "a", "1,2");
  WANT(LOAM_OK, loam_txn_savepoint(txn, &before, &err));
  WANT(LOAM_OK, loam_txn_delete_range(txn, numbers, "a", 1, "c", 1, &err));
  WANT(LOAM_NOT_FOUND, loam_txn_has(txn, NULL, "a", 1, &err));
  WANT(LOAM_OK, loam_txn_rollback_to(txn, before, &err));
  WANT(LOAM_OK, loam_txn_has(txn, NULL, "a", 1, &err));
  WANT(LOAM_OK, loam_txn_delete_range(txn, NULL, "b", 1, "c", 1, &err));
  WANT(LOAM_OK, loam_txn_delete_range(txn, NULL, "x", 1, "x", 1, &err));
  SAYS(LOAM_ERR_INVALID_ARGUMENT, "behind its limit", loam_txn_delete_range(txn, NULL, "c", 1, "b", 1, &err));
  SAYS(LOAM_ERR_NO_MERGE_OPERATOR, "\"default\"", loam_txn_merge(txn, db, "k", 1, "x", 1, &err));
  const void *keys[] = {"a", "b", "none"}, *values[3];
  size_t lens[] = {1, 1, 4}, value_lens[3];
  void *memory;
  WANT(LOAM_OK, loam_txn_multi_get(txn, NULL, 3, keys, lens, values, value_lens, &memory, &err));
  CHECK(values[0] && value_lens[0] == 3 && !memcmp(values[0], "1,2", 4) && !values[1] && !values[2], "many keys");
  loam_free(memory);
  WANT(LOAM_OK, loam_txn_multi_get(txn, NULL, 0, NULL, NULL, NULL, NULL, &memory, &err));
  WANT(LOAM_OK, loam_txn_commit(txn, NULL, &err));
  WANT(LOAM_ERR_TXN_DONE, loam_txn_multi_get(txn, NULL, 3, keys, lens, values, value_lens, &memory, NULL));
  WANT(LOAM_ERR_TXN_DONE, loam_txn_merge(txn, NULL, "a", 1, "2", 1, NULL));
  WANT(LOAM_ERR_TXN_DONE, loam_txn_delete_range(txn, NULL, "a", 1, "b", 1, NULL));
  WANT(LOAM_ERR_TXN_DONE, loam_txn_has(txn, NULL, "a", 1, NULL));
  WANT(LOAM_OK, loam_txn_close(txn));
  holds(numbers, "a", "1,2");
  holds(numbers, "b", NULL);
  WANT(LOAM_OK, loam_txn_begin(numbers, NULL, &txn, &err));
  WANT(LOAM_OK, loam_txn_delete_range(txn, NULL, "a", 1, "z", 1, &err));
  WANT(LOAM_OK, loam_put(numbers, NULL, "m", 1, "new", 3, NULL, &err));
  SAYS(LOAM_ERR_CONFLICT, "\"m\" of keyspace \"numbers\"", loam_txn_commit(txn, NULL, &err));
  WANT(LOAM_OK, loam_txn_close(txn));
  holds(numbers, "m", "new");
  WANT(LOAM_OK, loam_close(numbers, &err));
  WANT(LOAM_OK, loam_close(db, &err));
}

typedef struct {
  loam_txn *txn;
  loam_status status;
} waiting;

static void *wait_for_lock(void *arg) {
  waiting *w = arg;
  w->status = loam_txn_put(w->txn, NULL, "held", 4, "", 0, NULL);
  return NULL;
}

/* The end of a transaction ends its wait for a lock in another thread, and gives its own locks
 * back, whichever of the two calls comes first. */
static void ends_of_waits(loam_db *db) {
  loam_txn_options o = {.struct_size = sizeof o, .flags = LOAM_TXN_LOCK, .lock_timeout_ms = INT64_MAX};
  loam_txn *holder;
  WANT(LOAM_OK, loam_txn_begin(db, &o, &holder, &err));
  WANT(LOAM_OK, loam_txn_put(holder, NULL, "held", 4, "", 0, &err));
  for (int i = 0; i < 40; i++) {
    waiting w;
    pthread_t thread;
    WANT(LOAM_OK, loam_txn_begin(db, &o, &w.txn, &err));
    WANT(LOAM_OK, loam_txn_put(w.txn, NULL, "own", 3, "", 0, &err));
    CHECK(pthread_create(&thread, NULL, wait_for_lock, &w) == 0, "no thread");
    if (i % 2) WANT(LOAM_OK, loam_txn_rollback(w.txn, &err));
    else WANT(LOAM_OK, loam_txn_close(w.txn));
    pthread_join(thread, NULL);
    CHECK(w.status == LOAM_ERR_TXN_DONE || (i % 2 == 0 && gone(w.status)), "%s", loam_status_name(w.status));
    if (i % 2) WANT(LOAM_OK, loam_txn_close(w.txn));
  }
  WANT(LOAM_OK, loam_txn_put(holder, NULL, "own", 3, "", 0, &err));
  WANT(LOAM_OK, loam_txn_close(holder));
}

int main(void) {
  loam_options *options;
  loam_db *db, *other, *keyspace;
  loam_txn *txn, *none;
  WANT(LOAM_OK, loam_open("db", NULL, &db, &err));
  WANT(LOAM_OK, loam_options_create(&options, &err));
  WANT(LOAM_OK, loam_options_set(options, "format", "leveldb", &err));
  WANT(LOAM_OK, loam_open("other", options, &other, &err));
  WANT(LOAM_OK, loam_options_close(options));
  commits(db);
  conflicts(db);
  locks(db);
  ends_of_waits(db);
  swaps(db);
  kinds(other);
  WANT(LOAM_OK, loam_txn_begin(db, NULL, &txn, &err));
  WANT(LOAM_ERR_INVALID_ARGUMENT, loam_txn_put(txn, other, "k", 1, "", 0, NULL));
  WANT(LOAM_OK, loam_close(other, &err));
  WANT(LOAM_OK, loam_keyspace_open(db, "default", NULL, &keyspace, &err));
  WANT(LOAM_OK, loam_close(db, &err));
  WANT(LOAM_ERR_CLOSED, loam_txn_begin(keyspace, NULL, &none, &err));
  WANT(LOAM_OK, loam_close(keyspace, &err));
  WANT(LOAM_ERR_CLOSED, loam_txn_put(txn, NULL, "k", 1, "", 0, NULL));
  WANT(LOAM_OK, loam_txn_close(txn));
  return 0;
}
