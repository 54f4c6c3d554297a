//go:build cgo

/* The functions of loam.h that are neither batches nor iterators: they check
 * their arguments and cross into Go. */
#include "shim.h"

#include "_cgo_export.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Versions, status, memory ---- */

int loam_abi_version(void) { return LOAM_ABI_VERSION; }

int loam_abi_revision(void) { return LOAM_ABI_REVISION; }

loam_status loam_abi_check(int version, int revision, char **err) {
  if (err) *err = NULL;
  if (version == LOAM_ABI_VERSION &&
    (version ? revision <= LOAM_ABI_REVISION : revision == LOAM_ABI_REVISION)) return LOAM_OK;
  return loam_fail(err, LOAM_ERR_ABI,
    "loam: the program was compiled for ABI %d.%d, but the library %s has ABI %d.%d", version,
    revision, loam_version(),
                   LOAM_ABI_VERSION, LOAM_ABI_REVISION);
}

const char *loam_version(void) { return "0.3.0"; }

void loam_free(void *p) { free(p); }

static const struct {
  loam_status status;
  const char *name, *words;
} statuses[] = {
    {LOAM_OK, "LOAM_OK", "fine"},
    {LOAM_NOT_FOUND, "LOAM_NOT_FOUND", "not found"},
    {LOAM_END, "LOAM_END", "end of the range"},
    {LOAM_WOULD_BLOCK, "LOAM_WOULD_BLOCK", "the read needs I/O"},
    {LOAM_BUFFER_TOO_SMALL, "LOAM_BUFFER_TOO_SMALL", "the buffer is too small"},
    {LOAM_TIMEOUT, "LOAM_TIMEOUT", "still running"},
    {LOAM_BUSY, "LOAM_BUSY", "the write would have to wait"},
    {LOAM_MISMATCH, "LOAM_MISMATCH", "the key has another value"},
    {LOAM_ERR_INVALID_ARGUMENT, "LOAM_ERR_INVALID_ARGUMENT", "invalid argument"},
    {LOAM_ERR_INVALID_HANDLE, "LOAM_ERR_INVALID_HANDLE", "not a handle of this type"},
    {LOAM_ERR_CLOSED, "LOAM_ERR_CLOSED", "closed"},
    {LOAM_ERR_CORRUPTION, "LOAM_ERR_CORRUPTION", "damaged bytes on disk"},
    {LOAM_ERR_IO, "LOAM_ERR_IO", "the operating system reported an error"},
    {LOAM_ERR_READ_ONLY, "LOAM_ERR_READ_ONLY", "the database is read-only"},
    {LOAM_ERR_LOCKED, "LOAM_ERR_LOCKED", "the database is open elsewhere"},
    {LOAM_ERR_NOT_A_DATABASE, "LOAM_ERR_NOT_A_DATABASE", "not a database"},
    {LOAM_ERR_EXISTS, "LOAM_ERR_EXISTS", "the database exists"},
    {LOAM_ERR_DOES_NOT_EXIST, "LOAM_ERR_DOES_NOT_EXIST", "the database does not exist"},
    {LOAM_ERR_COMPARATOR_MISMATCH, "LOAM_ERR_COMPARATOR_MISMATCH",
      "the database was created with another comparator"},
    {LOAM_ERR_TOO_LARGE, "LOAM_ERR_TOO_LARGE", "too large"},
    {LOAM_ERR_NO_MEMORY, "LOAM_ERR_NO_MEMORY", "out of memory"},
    {LOAM_ERR_FORKED, "LOAM_ERR_FORKED", "not usable in a child after fork()"},
    {LOAM_ERR_IN_USE, "LOAM_ERR_IN_USE", "in use by another call"},
    {LOAM_ERR_CANCELLED, "LOAM_ERR_CANCELLED", "cancelled"},
    {LOAM_ERR_INTERNAL, "LOAM_ERR_INTERNAL", "internal error"},
    {LOAM_ERR_NO_SPACE, "LOAM_ERR_NO_SPACE", "no space left on the disk"},
    {LOAM_ERR_TOO_MANY_FILES, "LOAM_ERR_TOO_MANY_FILES", "too many open files"},
    {LOAM_ERR_CALLBACK, "LOAM_ERR_CALLBACK", "a callback failed"},
    {LOAM_ERR_ABI, "LOAM_ERR_ABI", "the library has another ABI than the program"},
    {LOAM_ERR_NEWER_FORMAT, "LOAM_ERR_NEWER_FORMAT", "written by a newer version of Loam"},
    {LOAM_ERR_NEEDS_NATIVE, "LOAM_ERR_NEEDS_NATIVE", "needs the native format"},
    {LOAM_ERR_NO_KEYSPACE, "LOAM_ERR_NO_KEYSPACE", "no such keyspace"},
    {LOAM_ERR_NO_MERGE_OPERATOR, "LOAM_ERR_NO_MERGE_OPERATOR", "no merge operator"},
    {LOAM_ERR_MERGE_FAILED, "LOAM_ERR_MERGE_FAILED", "the merge operator failed"},
    {LOAM_ERR_CONFLICT, "LOAM_ERR_CONFLICT", "the transaction conflicts with another write"},
    {LOAM_ERR_DEADLOCK, "LOAM_ERR_DEADLOCK", "to wait for the lock would never end"},
    {LOAM_ERR_LOCK_TIMEOUT, "LOAM_ERR_LOCK_TIMEOUT", "the lock was not given back in time"},
    {LOAM_ERR_TXN_DONE, "LOAM_ERR_TXN_DONE", "the transaction has ended"},
    {LOAM_ERR_GAP, "LOAM_ERR_GAP", "changes are gone"},
    {LOAM_ERR_ENCRYPTION, "LOAM_ERR_ENCRYPTION", "a key is missing or wrong"},
};

const char *loam_status_string(loam_status status) {
  for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
    if (statuses[i].status == status) return statuses[i].words;
  return "unknown status";
}

const char *loam_status_name(loam_status status) {
  for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
    if (statuses[i].status == status) return statuses[i].name;
  return "LOAM_UNKNOWN";
}

/* Behind a message's NUL, not aligned; the path and its NUL follow. */
typedef struct {
  char mark[4];
  int number;
} message_tail;

static const char mark[4] = {'\1', 'e', 'r', 'r'};

char *loamgo_message(const char *text, size_t len, int number, const char *path, size_t path_len) {
  message_tail tail;
  memcpy(tail.mark, mark, sizeof mark);
  tail.number = number;
  char *message = malloc(len + 1 + sizeof tail + path_len + 1);
  if (!message) return NULL;
  char *p = message;
  if (len) memcpy(p, text, len);
  p += len;
  *p++ = 0;
  memcpy(p, &tail, sizeof tail);
  p += sizeof tail;
  if (path_len) memcpy(p, path, path_len);
  p[path_len] = 0;
  return message;
}

static const char *tail_of(const char *err, message_tail *tail) {
  const char *p = err + strlen(err) + 1;
  memcpy(tail, p, sizeof *tail);
  return p + sizeof *tail;
}

int loam_error_errno(const char *err) {
  message_tail tail;
  if (!err) return 0;
  tail_of(err, &tail);
  return memcmp(tail.mark, mark, sizeof mark) ? 0 : tail.number;
}

const char *loam_error_path(const char *err) {
  message_tail tail;
  if (!err) return NULL;
  const char *path = tail_of(err, &tail);
  return memcmp(tail.mark, mark, sizeof mark) || !*path ? NULL : path;
}

char *loam_message_copy(const char *message) {
  const char *path = loam_error_path(message);
  return loamgo_message(message, strlen(message), loam_error_errno(message), path,
    path ? strlen(path) : 0);
}

loam_status loam_fail(char **err, loam_status status, const char *format, ...) {
  char message[512];
  if (!err) return status;
  va_list args;
  va_start(args, format);
  int n = vsnprintf(message, sizeof message, format, args);
  va_end(args);
  *err = loamgo_message(message, n < (int)sizeof message ? (size_t)n : sizeof message - 1, 0, NULL,
    0);
  return status;
}

loam_status loam_check_size(char **err, const void *p, size_t size, size_t known,
  const char *type) {
  if (size < known || size > 4096) {
    return loam_fail(err, LOAM_ERR_INVALID_ARGUMENT, "loam: struct_size is not sizeof(%s)", type);
  }
  for (size_t i = known; i < size; i++)
    if (((const char *)p)[i]) {
      return loam_fail(err, LOAM_ERR_INVALID_ARGUMENT,
        "loam: a %s with fields that this library does not know", type);
    }
  return LOAM_OK;
}

loam_status loam_fail_forked(char **err) {
  return loam_fail(err, LOAM_ERR_FORKED,
    "loam: this process is a child of fork() and cannot use Loam; open databases after the "
    "fork, in a process started afresh");
}

loam_status loam_fail_bytes(char **err, const char *what, const void *p, size_t n) {
  if (!p) {
    return loam_fail(err, LOAM_ERR_INVALID_ARGUMENT, "loam: the %s is NULL with length %zu", what,
      n);
  }
  return loam_fail(err, LOAM_ERR_TOO_LARGE, "loam: a %s of %zu bytes; the limit is %zu", what, n,
    MAX_BYTES - 1);
}

/* Turns a handle that Go made into the caller's pointer. */
#define GIVE(out, type, handle) (*(out) = (type *)(uintptr_t)(handle))

loam_status loam_release(uint64_t handle, unsigned kind) {
  BEGIN_C((char **)NULL);
  if (!handle) return LOAM_OK;
  if (!loam_callbacks) ENTER((char **)NULL);
  return loamgo_release_object(handle, kind, loam_callbacks != NULL);
}

/* ---- Process and options ---- */

loam_status loam_runtime_set(int maxprocs, int gogc, int64_t memlimit, char **err) {
  BEGIN(err);
  return loamgo_runtime_set(maxprocs, gogc, memlimit, err);
}

loam_status loam_options_create(loam_options **options, char **err) {
  CLEAR(options);
  BEGIN(err);
  WANT(err, options, "options");
  uint64_t handle = 0;
  loam_status status = loamgo_options_create(&handle, err);
  GIVE(options, loam_options, handle);
  return status;
}

loam_status loam_options_close(loam_options *options) {
  return loam_release(HANDLE(options), LOAMGO_OPTIONS);
}

loam_status loam_options_set(loam_options *options, const char *name, const char *value,
  char **err) {
  BEGIN(err);
  WANT(err, name, "name");
  WANT(err, value, "value");
  return loamgo_options_set(HANDLE(options), (char *)name, (char *)value, err);
}

loam_status loam_options_set_comparator(loam_options *options, const char *name,
  loam_compare_fn compare, void *arg, loam_destroy_fn destroy, unsigned flags, char **err) {
  BEGIN(err);
  WANT(err, name, "name");
  WANT(err, *name ? name : NULL, "the comparator's name");
  WANT(err, compare, "compare");
  FLAGS(err, flags, LOAM_COMPARATOR_EQUAL_IS_BYTEWISE | LOAM_COMPARATOR_CALLERS_THREAD);
  return loamgo_options_set_comparator(HANDLE(options), (char *)name, (uintptr_t)compare,
    (uintptr_t)arg, (uintptr_t)destroy, flags, err);
}

loam_status loam_options_set_logger(loam_options *options, loam_log_fn log, void *arg,
  loam_destroy_fn destroy, char **err) {
  BEGIN(err);
  return loamgo_options_set_logger(HANDLE(options), (uintptr_t)log, (uintptr_t)arg,
    (uintptr_t)destroy, err);
}

loam_status loam_options_set_cache(loam_options *options, loam_cache *cache, char **err) {
  BEGIN(err);
  return loamgo_options_set_cache(HANDLE(options), HANDLE(cache), err);
}

loam_status loam_cache_create(uint64_t bytes, loam_cache **cache, char **err) {
  CLEAR(cache);
  BEGIN(err);
  WANT(err, cache, "cache");
  uint64_t handle = 0;
  loam_status status = loamgo_cache_create(bytes, &handle, err);
  GIVE(cache, loam_cache, handle);
  return status;
}

loam_status loam_cache_close(loam_cache *cache) {
  return loam_release(HANDLE(cache), LOAMGO_CACHE);
}

/* ---- Databases ---- */

loam_status loam_open(const char *path, const loam_options *options, loam_db **db, char **err) {
  CLEAR(db);
  BEGIN(err);
  WANT(err, db, "db");
  WANT(err, path, "path");
  loam_signal_stacks();
  uint64_t handle = 0;
  loam_status status = loamgo_open((char *)path, HANDLE(options), 0, &handle, err);
  GIVE(db, loam_db, handle);
  return status;
}

loam_status loam_close(loam_db *db, char **err) {
  BEGIN_TO(CALL_CLOSES, err);
  return db ? loamgo_close(HANDLE(db), err) : LOAM_OK;
}

loam_status loam_destroy(const char *path, const loam_options *options, char **err) {
  BEGIN(err);
  WANT(err, path, "path");
  return loamgo_destroy((char *)path, HANDLE(options), err);
}

loam_status loam_repair(const char *path, const loam_options *options, char **report, char **err) {
  CLEAR(report);
  BEGIN(err);
  WANT(err, path, "path");
  return loamgo_repair((char *)path, HANDLE(options), report, err);
}

loam_status loam_upgrade(const char *path, const loam_options *options, char **err) {
  BEGIN(err);
  WANT(err, path, "path");
  return loamgo_upgrade((char *)path, HANDLE(options), NULL, err);
}

loam_status loam_export(const char *path, const char *to, const char *format,
  const loam_options *options, char **err) {
  BEGIN(err);
  WANT(err, path, "path");
  WANT(err, to, "to");
  WANT(err, format, "format");
  return loamgo_export((char *)path, (char *)to, (char *)format, HANDLE(options), NULL, err);
}

/* ---- Reading ---- */

typedef struct {
  uint64_t snapshot, flags;
} reading;

/* Sets a variable r of the caller's to what options say. */
#define READING(err, options)                                   \
  reading r = {0, 0};                                           \
  if (options) {                                                \
    SIZED(err, options, loam_read_options);                     \
    FLAGS(err, (options)->flags, LOAM_NO_FILL | LOAM_MEMORY_ONLY); \
    r.snapshot = HANDLE((options)->snapshot);                   \
    r.flags = (options)->flags;                                 \
  }

loam_status loam_get(loam_db *db, const loam_read_options *options, const void *key,
  size_t key_len, void *buf, size_t cap, size_t *len, char **err) {
  BEGIN_READ(err);
  READING(err, options);
  WANT(err, len, "len");
  BYTES(err, key, key_len, "key");
  if (__builtin_expect(!buf && cap, 0)) {
    return loam_fail(err, LOAM_ERR_INVALID_ARGUMENT, "loam: buf is NULL with capacity %zu", cap);
  }
  /* No value is longer, and Go's lengths are signed. */
  if (cap > MAX_BYTES) cap = MAX_BYTES;
  return loamgo_get(HANDLE(db), r.snapshot, (void *)key, key_len, r.flags, buf, cap, len, NULL,
    err);
}

loam_status loam_get_alloc(loam_db *db, const loam_read_options *options, const void *key,
  size_t key_len, void **value, size_t *len, char **err) {
  char small[2048];
  void *big = NULL;
  CLEAR(value);
  BEGIN_READ(err);
  READING(err, options);
  WANT(err, value, "value");
  WANT(err, len, "len");
  BYTES(err, key, key_len, "key");
  loam_status status = loamgo_get(HANDLE(db), r.snapshot, (void *)key, key_len, r.flags, small,
    sizeof small, len, &big, err);
  if (status != LOAM_OK) return status;
  if (!big) {
    char *copy = malloc(*len + 1);
    if (!copy) return loam_fail(err, LOAM_ERR_NO_MEMORY, "loam: out of memory");
    memcpy(copy, small, *len);
    copy[*len] = 0;
    big = copy;
  }
  *value = big;
  return LOAM_OK;
}

loam_status loam_get_pinned(loam_db *db, const loam_read_options *options, const void *key,
  size_t key_len, loam_pinned **pinned, const void **value, size_t *len, char **err) {
  CLEAR(pinned);
  CLEAR(value);
  BEGIN_READ(err);
  READING(err, options);
  WANT(err, pinned, "pinned");
  WANT(err, value, "value");
  WANT(err, len, "len");
  BYTES(err, key, key_len, "key");
  uint64_t handle = 0;
  uintptr_t at = 0;
  loam_status status = loamgo_get_pinned(HANDLE(db), r.snapshot, (void *)key, key_len, r.flags,
    &handle, &at, len, err);
  if (status != LOAM_OK) return status;
  GIVE(pinned, loam_pinned, handle);
  *value = at ? (const void *)at : "";
  return LOAM_OK;
}

loam_status loam_pinned_close(loam_pinned *pinned) {
  return loam_release(HANDLE(pinned), LOAMGO_PINNED);
}

loam_status loam_has(loam_db *db, const loam_read_options *options, const void *key,
  size_t key_len, char **err) {
  BEGIN_READ(err);
  READING(err, options);
  BYTES(err, key, key_len, "key");
  return loamgo_has(HANDLE(db), r.snapshot, (void *)key, key_len, r.flags, err);
}

loam_status loam_ttl(loam_db *db, const loam_read_options *options, const void *key,
  size_t key_len, uint64_t *milliseconds, char **err) {
  BEGIN_READ(err);
  READING(err, options);
  FLAGS(err, r.flags, LOAM_NO_FILL);
  BYTES(err, key, key_len, "key");
  WANT(err, milliseconds, "milliseconds");
  return loamgo_ttl(HANDLE(db), r.snapshot, (void *)key, key_len, milliseconds, err);
}

/* The arguments of a lookup of many keys. */
#define MANY_KEYS()                                                                              \
  do {                                                                                           \
    WANT(err, memory, "memory");                                                                 \
    if (n > MAX_LIST) return loam_fail(err, LOAM_ERR_TOO_LARGE,                                  \
        "loam: %zu keys; the limit is %zu", n, MAX_LIST);                                        \
    if (n) {                                                                                     \
      WANT(err, keys, "keys");                                                                   \
      WANT(err, key_lens, "key_lens");                                                           \
      WANT(err, values, "values");                                                               \
      WANT(err, value_lens, "value_lens");                                                       \
    }                                                                                            \
    for (size_t i = 0; i < n; i++) BYTES(err, keys[i], key_lens[i], "key");                      \
  } while (0)

loam_status loam_multi_get(loam_db *db, const loam_read_options *options, size_t n,
  const void *const *keys, const size_t *key_lens, const void **values, size_t *value_lens,
  void **memory, char **err) {
  CLEAR(memory);
  BEGIN_READ(err);
  READING(err, options);
  MANY_KEYS();
  return loamgo_multi_get(HANDLE(db), r.snapshot, n, (void **)keys, (size_t *)key_lens, r.flags,
    (void **)values, value_lens, memory, err);
}

loam_status loam_txn_multi_get(loam_txn *txn, loam_db *keyspace, size_t n, const void *const *keys,
  const size_t *key_lens, const void **values, size_t *value_lens, void **memory, char **err) {
  CLEAR(memory);
  BEGIN(err);
  MANY_KEYS();
  return loamgo_txn_multi_get(HANDLE(txn), HANDLE(keyspace), n, (void **)keys, (size_t *)key_lens,
    (void **)values, value_lens, memory, err);
}

loam_status loam_snapshot_create(loam_db *db, loam_snapshot **snapshot, char **err) {
  CLEAR(snapshot);
  BEGIN_READ(err);
  WANT(err, snapshot, "snapshot");
  uint64_t handle = 0;
  loam_status status = loamgo_snapshot_create(HANDLE(db), &handle, err);
  GIVE(snapshot, loam_snapshot, handle);
  return status;
}

loam_status loam_snapshot_close(loam_snapshot *snapshot) {
  return loam_release(HANDLE(snapshot), LOAMGO_SNAPSHOT);
}

/* ---- Writing ---- */

loam_status loam_put(loam_db *db, const loam_write_options *options, const void *key,
  size_t key_len, const void *value, size_t value_len, uint64_t *sequence, char **err) {
  BEGIN(err);
  WRITING(err, options);
  BYTES(err, key, key_len, "key");
  BYTES(err, value, value_len, "value");
  if (sequence) {
    return loamgo_put_numbered(HANDLE(db), LOAM_OP_PUT, (void *)key, key_len, (void *)value,
      value_len, flags, sequence, err);
  }
  return loamgo_put(HANDLE(db), LOAM_OP_PUT, (void *)key, key_len, (void *)value, value_len, flags,
    err);
}

loam_status loam_delete(loam_db *db, const loam_write_options *options, const void *key,
  size_t key_len, uint64_t *sequence, char **err) {
  BEGIN(err);
  WRITING(err, options);
  BYTES(err, key, key_len, "key");
  if (sequence) {
    return loamgo_put_numbered(HANDLE(db), LOAM_OP_DELETE, (void *)key, key_len, NULL, 0, flags,
      sequence, err);
  }
  return loamgo_put(HANDLE(db), LOAM_OP_DELETE, (void *)key, key_len, NULL, 0, flags, err);
}

loam_status loam_delete_range(loam_db *db, const loam_write_options *options, const void *start,
  size_t start_len, const void *limit, size_t limit_len, uint64_t *sequence, char **err) {
  BEGIN(err);
  WRITING(err, options);
  BYTES(err, start, start_len, "start");
  BYTES(err, limit, limit_len, "limit");
  uint64_t unwanted;
  return loamgo_put_numbered(HANDLE(db), LOAM_OP_DELETE_RANGE, (void *)start, start_len,
    (void *)limit, limit_len, flags, sequence ? sequence : &unwanted, err);
}

/* ---- Upkeep ---- */

loam_status loam_flush(loam_db *db, char **err) {
  BEGIN(err);
  return loamgo_admin(HANDLE(db), LOAMGO_FLUSH, err);
}

loam_status loam_compact(loam_db *db, const void *start, size_t start_len, const void *stop,
  size_t stop_len, char **err) {
  BEGIN(err);
  BOUND(err, start, start_len, "start");
  BOUND(err, stop, stop_len, "stop");
  return loamgo_compact(HANDLE(db), (void *)start, start_len, (void *)stop, stop_len, NULL, err);
}

loam_status loam_verify(loam_db *db, char **err) {
  BEGIN(err);
  return loamgo_admin(HANDLE(db), LOAMGO_VERIFY, err);
}

loam_status loam_rekey(loam_db *db, char **err) {
  BEGIN(err);
  return loamgo_admin(HANDLE(db), LOAMGO_REKEY, err);
}

loam_status loam_pause_compaction(loam_db *db, char **err) {
  BEGIN(err);
  return loamgo_admin(HANDLE(db), LOAMGO_PAUSE, err);
}

loam_status loam_resume_compaction(loam_db *db, char **err) {
  BEGIN(err);
  return loamgo_admin(HANDLE(db), LOAMGO_UNPAUSE, err);
}

loam_status loam_retry(loam_db *db, char **err) {
  BEGIN(err);
  return loamgo_admin(HANDLE(db), LOAMGO_RETRY, err);
}

static loam_status db_start(loam_db *db, unsigned what, loam_job **job, char **err) {
  CLEAR(job);
  BEGIN_TO(what == LOAMGO_CLOSE ? CALL_CLOSES : CALL_OTHER, err);
  WANT(err, job, "job");
  uint64_t handle = 0;
  loam_status status = loamgo_db_start(HANDLE(db), what, &handle, err);
  GIVE(job, loam_job, handle);
  return status;
}

loam_status loam_flush_start(loam_db *db, loam_job **job, char **err) {
  return db_start(db, LOAMGO_FLUSH, job, err);
}

loam_status loam_verify_start(loam_db *db, loam_job **job, char **err) {
  return db_start(db, LOAMGO_VERIFY, job, err);
}

loam_status loam_rekey_start(loam_db *db, loam_job **job, char **err) {
  return db_start(db, LOAMGO_REKEY, job, err);
}

loam_status loam_close_start(loam_db *db, loam_job **job, char **err) {
  return db_start(db, LOAMGO_CLOSE, job, err);
}

loam_status loam_compact_start(loam_db *db, const void *start, size_t start_len, const void *stop,
  size_t stop_len, loam_job **job, char **err) {
  CLEAR(job);
  BEGIN(err);
  WANT(err, job, "job");
  BOUND(err, start, start_len, "start");
  BOUND(err, stop, stop_len, "stop");
  uint64_t handle = 0;
  loam_status status = loamgo_compact(HANDLE(db), (void *)start, start_len, (void *)stop,
    stop_len, &handle, err);
  GIVE(job, loam_job, handle);
  return status;
}

loam_status loam_open_start(const char *path, const loam_options *options, loam_job **job,
  char **err) {
  CLEAR(job);
  BEGIN(err);
  WANT(err, job, "job");
  WANT(err, path, "path");
  loam_signal_stacks();
  uint64_t handle = 0;
  loam_status status = loamgo_open_start((char *)path, HANDLE(options), &handle, err);
  GIVE(job, loam_job, handle);
  return status;
}

loam_status loam_repair_start(const char *path, const loam_options *options, loam_job **job,
  char **err) {
  CLEAR(job);
  BEGIN(err);
  WANT(err, job, "job");
  WANT(err, path, "path");
  uint64_t handle = 0;
  loam_status status = loamgo_repair_start((char *)path, HANDLE(options), &handle, err);
  GIVE(job, loam_job, handle);
  return status;
}

loam_status loam_upgrade_start(const char *path, const loam_options *options, loam_job **job,
  char **err) {
  CLEAR(job);
  BEGIN(err);
  WANT(err, job, "job");
  WANT(err, path, "path");
  uint64_t handle = 0;
  loam_status status = loamgo_upgrade((char *)path, HANDLE(options), &handle, err);
  GIVE(job, loam_job, handle);
  return status;
}

loam_status loam_export_start(const char *path, const char *to, const char *format,
  const loam_options *options, loam_job **job, char **err) {
  CLEAR(job);
  BEGIN(err);
  WANT(err, job, "job");
  WANT(err, path, "path");
  WANT(err, to, "to");
  WANT(err, format, "format");
  uint64_t handle = 0;
  loam_status status = loamgo_export((char *)path, (char *)to, (char *)format,
    HANDLE(options), &handle, err);
  GIVE(job, loam_job, handle);
  return status;
}

loam_status loam_job_wait(loam_job *job, int timeout_ms, char **err) {
  BEGIN(err);
  return loamgo_job_wait(HANDLE(job), timeout_ms, err);
}

loam_status loam_job_progress(loam_job *job, uint64_t *finished, uint64_t *total, char **err) {
  BEGIN(err);
  WANT(err, finished, "done");
  WANT(err, total, "total");
  *finished = *total = 0;
  return loamgo_job_progress(HANDLE(job), finished, total, err);
}

loam_status loam_job_cancel(loam_job *job, char **err) {
  BEGIN(err);
  return loamgo_job_cancel(HANDLE(job), err);
}

loam_status loam_job_db(loam_job *job, loam_db **db, char **err) {
  CLEAR(db);
  BEGIN(err);
  WANT(err, db, "db");
  uint64_t handle = 0;
  loam_status status = loamgo_job_db(HANDLE(job), &handle, err);
  GIVE(db, loam_db, handle);
  return status;
}

loam_status loam_job_report(loam_job *job, char **report, char **err) {
  CLEAR(report);
  BEGIN(err);
  WANT(err, report, "report");
  return loamgo_job_report(HANDLE(job), report, err);
}

loam_status loam_job_close(loam_job *job) { return loam_release(HANDLE(job), LOAMGO_JOB); }

/* ---- Information ---- */

static loam_status text(const loam_db *db, unsigned what, const char *name, char **out,
  char **err) {
  CLEAR(out);
  BEGIN(err);
  WANT(err, out, "the place for the result");
  return loamgo_text(HANDLE(db), what, (char *)name, out, err);
}

loam_status loam_options_describe(char **json, char **err) {
  return text(NULL, LOAMGO_OPTION_DOCS, NULL, json, err);
}

loam_status loam_property(loam_db *db, const char *name, char **value, char **err) {
  CLEAR(value);
  BEGIN(err);
  WANT(err, name, "name");
  return text(db, LOAMGO_PROPERTY, name, value, err);
}

loam_status loam_metrics(loam_db *db, char **json, char **err) {
  return text(db, LOAMGO_METRICS, NULL, json, err);
}

loam_status loam_recovery_report(loam_db *db, char **json, char **err) {
  return text(db, LOAMGO_RECOVERY, NULL, json, err);
}

loam_status loam_keys_in_use(loam_db *db, char **json, char **err) {
  return text(db, LOAMGO_KEYS, NULL, json, err);
}

loam_status loam_comparator_name(loam_db *db, char **name, char **err) {
  return text(db, LOAMGO_COMPARATOR, NULL, name, err);
}

loam_status loam_approximate_sizes(loam_db *db, size_t n, const void *const *starts,
  const size_t *start_lens, const void *const *stops, const size_t *stop_lens, uint64_t *sizes,
  char **err) {
  BEGIN(err);
  if (n > MAX_LIST) {
    return loam_fail(err, LOAM_ERR_TOO_LARGE, "loam: %zu ranges; the limit is %zu", n, MAX_LIST);
  }
  if (n) {
    WANT(err, starts, "starts");
    WANT(err, start_lens, "start_lens");
    WANT(err, stops, "stops");
    WANT(err, stop_lens, "stop_lens");
    WANT(err, sizes, "sizes");
  }
  for (size_t i = 0; i < n; i++) {
    BOUND(err, starts[i], start_lens[i], "start");
    BOUND(err, stops[i], stop_lens[i], "stop");
  }
  return loamgo_approximate_sizes(HANDLE(db), n, (void **)starts, (size_t *)start_lens,
    (void **)stops, (size_t *)stop_lens, sizes, err);
}
