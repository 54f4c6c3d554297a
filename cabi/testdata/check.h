/* What the test programs share. */
#ifndef CHECK_H
#define CHECK_H

#include <loam.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(cond, ...)                                        \
  do {                                                          \
    if (!(cond)) {                                              \
      fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #cond); \
      fprintf(stderr, __VA_ARGS__);                             \
      fputc('\n', stderr);                                      \
      exit(1);                                                  \
    }                                                           \
  } while (0)

/* Calls with a status; err is a variable in scope. */
#define WANT(status, call)                                                                           \
  do {                                                                                               \
    loam_status got_ = (call);                                                                       \
    CHECK(got_ == (status), "%s gives %s, want %s: %s", #call, loam_status_name(got_), #status, err ? err : ""); \
    CHECK(!strstr(#call, "&err") || (got_ < 0) == (err != NULL), "%s: message %s", #call, err ? err : "(none)");               \
    loam_free(err);                                                                                  \
    err = NULL;                                                                                      \
  } while (0)

/* Options of one call. */
#define READ(snap, what) (&(loam_read_options){sizeof(loam_read_options), (what), (snap)})
#define WRITE(what) (&(loam_write_options){sizeof(loam_write_options), (what)})

/* Seconds after which a child process that hangs ends. */
enum { HANG = 600 };

/* Counts of ends of callbacks' arguments, which jobs in the background make. */
static pthread_mutex_t ends_mu = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ends_cond = PTHREAD_COND_INITIALIZER;

static inline void note_end(int *ends) {
  pthread_mutex_lock(&ends_mu);
  ++*ends;
  pthread_cond_broadcast(&ends_cond);
  pthread_mutex_unlock(&ends_mu);
}

/* Waits for the first end, and returns the count. */
static inline int ended(int *ends) {
  pthread_mutex_lock(&ends_mu);
  while (!*ends) pthread_cond_wait(&ends_cond, &ends_mu);
  int n = *ends;
  pthread_mutex_unlock(&ends_mu);
  return n;
}

static inline size_t operations(const loam_batch *batch) {
  size_t n = SIZE_MAX;
  char *err = NULL;
  WANT(LOAM_OK, loam_batch_count(batch, &n, &err));
  return n;
}

static inline uint64_t rnd(void) {
  static uint64_t x = 88172645463325252ull;
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  return x;
}

/* An object of each kind, and callbacks that do nothing, by the names that
 * generated calls give them. */
typedef struct {
  loam_options *options;
  loam_cache *cache;
  loam_db *db;
  loam_snapshot *snapshot;
  loam_batch *batch;
  loam_iter *iter;
  loam_job *job;
  loam_txn *txn;
  loam_backup *backup;
  loam_changes *changes;
  loam_table_writer *table_writer;
  loam_bulk_load *bulk_load;
  loam_pinned *pinned;
} objects;

static inline int gone(loam_status s) { return s == LOAM_ERR_CLOSED || s == LOAM_ERR_INVALID_HANDLE; }

static inline int a_compare_compare(void *arg, const void *a, size_t an, const void *b, size_t bn, loam_failure *failure) {
  size_t n = an < bn ? an : bn;
  int c = n ? memcmp(a, b, n) : 0;
  (void)arg;
  (void)failure;
  return c ? c : an < bn ? -1 : an > bn;
}

static inline void a_log_log(void *arg, int level, const char *line, loam_failure *failure) {
  (void)arg;
  (void)level;
  (void)line;
  (void)failure;
}

static inline int a_dump_write_write(void *arg, const void *data, size_t len, loam_failure *failure) {
  (void)arg, (void)data, (void)len, (void)failure;
  return 0;
}

static inline size_t a_dump_read_read(void *arg, void *data, size_t capacity, loam_failure *failure) {
  (void)arg, (void)data, (void)capacity, (void)failure;
  return 0;
}

static inline int a_filter_filter(void *arg, int level, const void *key, size_t key_len, const void *value, size_t value_len, void **changed, size_t *changed_len, loam_failure *failure) {
  (void)arg, (void)level, (void)key, (void)key_len, (void)value, (void)value_len, (void)changed, (void)changed_len, (void)failure;
  return LOAM_FILTER_KEEP;
}

/* The last operand is the value. */
static inline void a_merge_full(void *arg, const void *key, size_t key_len, const loam_bytes *existing, const loam_bytes *operands, size_t count, loam_merge_result *result, loam_failure *failure) {
  (void)arg, (void)key, (void)key_len, (void)existing, (void)failure;
  loam_merge_result_set(result, operands[count - 1].data, operands[count - 1].len);
}

static inline int a_merge_partial_partial(void *arg, const void *key, size_t key_len, const loam_bytes *left, const loam_bytes *right, loam_merge_result *result, loam_failure *failure) {
  (void)arg, (void)key, (void)key_len, (void)left, (void)failure;
  loam_merge_result_set(result, right->data, right->len);
  return 1;
}

static inline int a_operation_visit(void *arg, const loam_operation *operation, loam_failure *failure) {
  (void)arg;
  (void)operation;
  (void)failure;
  return 0;
}

static inline void a_destroy_destroy(void *arg) { (void)arg; }

#endif
