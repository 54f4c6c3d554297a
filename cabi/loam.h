/*
 * loam.h - the C interface of Loam, an ordered persistent key-value store.
 *
 * Conventions
 *
 *  1. Status. Functions that can fail return a loam_status. LOAM_OK is 0.
 *     Positive values are answers that are not failures (not found, end of the
 *     range, timeout). Negative values, LOAM_ERR_*, are failures.
 *  2. Message. The last parameter of such a function is char **err. NULL: no
 *     message wanted. Otherwise *err is overwritten on every call: a malloc'ed
 *     sentence for a failure, to be given to loam_free, and NULL for LOAM_OK
 *     and for answers. What *err held before is not freed.
 *  3. Handles. Every object is known by a handle of an opaque pointer type.
 *     Handles are never dereferenced: NULL, a handle of another type, a closed
 *     one or a random one gives LOAM_ERR_INVALID_HANDLE or LOAM_ERR_CLOSED.
 *     NULL is a handle of no object; where a parameter is marked optional it
 *     means "the default".
 *  4. Results. Out parameters are written when the status is LOAM_OK, or as
 *     the function says; a created handle is NULL after a failure.
 *  5. Bytes. Keys and values are pointer and length, and may hold any bytes.
 *     NULL with length 0 is the empty string. NULL with another length is
 *     LOAM_ERR_INVALID_ARGUMENT, a length of 4 GiB - 1 MiB or more is
 *     LOAM_ERR_TOO_LARGE. Bytes given to Loam are copied before the call
 *     returns. For bounds NULL means "no bound", whatever the length.
 *  6. Text. Paths, names and messages are NUL-terminated; messages, names and
 *     JSON are UTF-8. Paths are bytes.
 *  7. Memory. What the library allocates for the caller comes from malloc and
 *     is released with loam_free. Pointers into an iterator or a batch live
 *     until the next call on it.
 *  8. Threads. Databases, snapshots, caches, jobs and options may be used by any
 *     number of threads at once. Iterators and batches are used by one thread
 *     at a time; a call that meets another one on the same object fails with
 *     LOAM_ERR_IN_USE. Closing one waits for the call that is using it.
 *  9. Closing. Each object is closed once, in any order. After loam_close,
 *     calls on the database's iterators and snapshots fail with
 *     LOAM_ERR_CLOSED, save that an iterator may hand out what it has fetched
 *     ahead; they must still be closed to free their memory. Options
 *     may be closed as soon as loam_open has returned. Closing NULL is harmless
 *     and gives LOAM_OK.
 * 10. Fork. After fork() the library works only in the parent. In the child
 *     every function that takes a handle or a path fails with LOAM_ERR_FORKED.
 * 11. Signals. The library's own threads block all signals but SIGCHLD and
 *     SIGURG. Handlers need no SA_ONSTACK, save those of these two that are
 *     installed later than the last loam_open.
 * 12. Versions. Functions and values are added, never changed or taken away,
 *     while LOAM_ABI_VERSION stays the same. Structs that may grow begin with
 *     their size.
 *
 * Copyright the Loam authors. See LICENSE.
 */
#ifndef LOAM_H
#define LOAM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define LOAM_API extern __attribute__((visibility("default")))
#else
#define LOAM_API extern
#endif

/* ---- Versions ---- */

#define LOAM_ABI_VERSION 0

/* The ABI version of the loaded library; compare it with LOAM_ABI_VERSION.
 * This and the next two functions work everywhere, a forked child included. */
LOAM_API int loam_abi_version(void);
/* The library's version, such as "0.1.0". Not to be freed. */
LOAM_API const char *loam_version(void);

/* ---- Status ---- */

typedef int loam_status;

enum {
  LOAM_OK = 0,
  /* answers */
  LOAM_NOT_FOUND = 1,        /* the key has no value; the property is unknown */
  LOAM_END = 2,              /* the iterator has left the range */
  LOAM_WOULD_BLOCK = 3,      /* loam_try_get: not answerable from memory */
  LOAM_BUFFER_TOO_SMALL = 4, /* the needed size has been stored */
  LOAM_TIMEOUT = 5,          /* the job still runs */
  LOAM_BUSY = 6,             /* LOAM_NO_STALL: the write would have to wait */
  /* failures */
  LOAM_ERR_INVALID_ARGUMENT = -1,
  LOAM_ERR_INVALID_HANDLE = -2,      /* never was a handle of this type */
  LOAM_ERR_CLOSED = -3,              /* the object, or its database, was closed */
  LOAM_ERR_CORRUPTION = -4,          /* damaged bytes on disk; the message says where */
  LOAM_ERR_IO = -5,                  /* the operating system refused; the message says what */
  LOAM_ERR_READ_ONLY = -6,           /* opened so, or made so by a failed write */
  LOAM_ERR_LOCKED = -7,              /* the directory is open elsewhere */
  LOAM_ERR_NOT_A_DATABASE = -8,      /* the directory holds something else */
  LOAM_ERR_EXISTS = -9,              /* error_if_exists */
  LOAM_ERR_DOES_NOT_EXIST = -10,     /* error_if_missing, read_only */
  LOAM_ERR_COMPARATOR_MISMATCH = -11,/* created with another comparator */
  LOAM_ERR_TOO_LARGE = -12,          /* a key, value, batch or count above the limit */
  LOAM_ERR_NO_MEMORY = -13,
  LOAM_ERR_FORKED = -14,             /* used in a child after fork() */
  LOAM_ERR_IN_USE = -15,             /* another thread is using the iterator or batch */
  LOAM_ERR_CANCELLED = -16,          /* the job was cancelled */
  LOAM_ERR_INTERNAL = -17            /* a fault in Loam; the message has the details */
};

/* A few words for a status; never NULL. Not to be freed. */
LOAM_API const char *loam_status_string(loam_status status);
/* The constant's name, such as "LOAM_NOT_FOUND"; never NULL. Not to be freed. */
LOAM_API const char *loam_status_name(loam_status status);

/* Releases what the library allocated for the caller. NULL is harmless. */
LOAM_API void loam_free(void *p);

/* ---- Types ---- */

typedef struct loam_options loam_options;
typedef struct loam_cache loam_cache;
typedef struct loam_db loam_db;
typedef struct loam_snapshot loam_snapshot;
typedef struct loam_batch loam_batch;
typedef struct loam_iter loam_iter;
typedef struct loam_job loam_job;

/* ---- Process ---- */

/* Settings of the Go runtime inside the library: threads that run Go code at
 * once (0: leave), garbage collection percentage (0: leave, negative: off) and
 * soft memory limit in bytes (0: leave, negative: none). Unless this function
 * or the environment variable GOMAXPROCS sets it, the first of them becomes
 * max(processors, background jobs + 2) when a database is opened. */
LOAM_API loam_status loam_runtime_set(int maxprocs, int gogc, int64_t memlimit, char **err);

/* ---- Options ---- */

LOAM_API loam_status loam_options_create(loam_options **options, char **err);
LOAM_API loam_status loam_options_close(loam_options *options);
/* Sets an option by name from text: "write_buffer_size" to "64MiB",
 * "compression" to "zstd", "read_only" to "true". "comparer" (or "comparator")
 * takes the name of a built-in order: "leveldb.BytewiseComparator",
 * "rocksdb.ReverseBytewiseComparator" or "idb_cmp1". "plain_wal" is always on. */
LOAM_API loam_status loam_options_set(loam_options *options, const char *name, const char *value, char **err);
/* All options that can be chosen as JSON: [{"name", "doc", "unit", "default",
 * "min", "max"}, ...]. */
LOAM_API loam_status loam_options_describe(char **json, char **err);

/* Returns <0, 0 or >0 for a<b, a=b, a>b. It is called from any thread, several
 * at once, and must be a pure function of the bytes. */
typedef int (*loam_compare_fn)(void *arg, const void *a, size_t a_len, const void *b, size_t b_len);

enum {
  LOAM_COMPARATOR_EQUAL_IS_BYTEWISE = 1 /* only equal bytes compare equal: filters may be used */
};

/* Orders keys by a callback. The name is stored with the database, which opens
 * only with a comparator of the same name. The callback and arg must stay valid
 * until every database opened with it, and their iterators, are closed. */
LOAM_API loam_status loam_options_set_comparator(loam_options *options, const char *name, loam_compare_fn compare, void *arg, unsigned flags, char **err);

/* level: -4 debug, 0 info, 4 warning, 8 error. The message lives during the
 * call. Called from any thread; it must not call Loam. NULL: no messages. */
typedef void (*loam_log_fn)(void *arg, int level, const char *message);
LOAM_API loam_status loam_options_set_logger(loam_options *options, loam_log_fn log, void *arg, char **err);

/* A block cache of the given bytes for several databases to share. It may be
 * closed at once after the last loam_open that uses it. */
LOAM_API loam_status loam_cache_create(uint64_t bytes, loam_cache **cache, char **err);
LOAM_API loam_status loam_cache_close(loam_cache *cache);
LOAM_API loam_status loam_options_set_cache(loam_options *options, loam_cache *cache, char **err);

/* ---- Databases ---- */

/* Opens the database in a directory, and creates it when there is none unless
 * error_if_missing is set. options: optional. */
LOAM_API loam_status loam_open(const char *path, const loam_options *options, loam_db **db, char **err);
/* Waits for running calls and background work to stop, and releases the
 * directory. The handle is gone whatever the status. */
LOAM_API loam_status loam_close(loam_db *db, char **err);
/* Deletes the database in a directory that is not open. options: optional. */
LOAM_API loam_status loam_destroy(const char *path, const loam_options *options, char **err);
/* Saves what can be saved of a damaged database. report (may be NULL) receives
 * JSON. options: optional. */
LOAM_API loam_status loam_repair(const char *path, const loam_options *options, char **report, char **err);

/* ---- Reading; snapshot: optional ---- */

enum {
  LOAM_NO_FILL = 1,  /* leave the block cache as it is */
  LOAM_KEYS_ONLY = 2 /* iterators: values are empty */
};

/* Copies the value into buf and stores its length. When it is longer than cap:
 * LOAM_BUFFER_TOO_SMALL, the length needed in *len, and buf undefined. buf may
 * be NULL when cap is 0. flags: 0 or LOAM_NO_FILL. */
LOAM_API loam_status loam_get(loam_db *db, const loam_snapshot *snapshot, const void *key, size_t key_len, unsigned flags, void *buf, size_t cap, size_t *len, char **err);
/* loam_get without I/O: LOAM_WOULD_BLOCK when memory does not hold the answer. */
LOAM_API loam_status loam_try_get(loam_db *db, const loam_snapshot *snapshot, const void *key, size_t key_len, void *buf, size_t cap, size_t *len, char **err);
/* Stores a malloc'ed copy of the value, not NULL for an empty one; NULL when
 * the status is not LOAM_OK. One byte behind the value is 0. */
LOAM_API loam_status loam_get_alloc(loam_db *db, const loam_snapshot *snapshot, const void *key, size_t key_len, unsigned flags, void **value, size_t *len, char **err);
/* LOAM_OK: the key has a value. LOAM_NOT_FOUND: it has none. */
LOAM_API loam_status loam_has(loam_db *db, const loam_snapshot *snapshot, const void *key, size_t key_len, char **err);
/* Looks up n keys in one state of the database. values[i] is NULL for a missing
 * key and otherwise points into *memory, which is released with loam_free. */
LOAM_API loam_status loam_multi_get(loam_db *db, const loam_snapshot *snapshot, size_t n, const void *const *keys, const size_t *key_lens, const void **values, size_t *value_lens, void **memory, char **err);

LOAM_API loam_status loam_snapshot_create(loam_db *db, loam_snapshot **snapshot, char **err);
LOAM_API loam_status loam_snapshot_close(loam_snapshot *snapshot);

/* ---- Writing ---- */

enum {
  LOAM_SYNC = 1,    /* return when it is on disk, not only in the kernel */
  LOAM_NO_STALL = 2 /* LOAM_BUSY instead of waiting for flushes or compactions */
};

LOAM_API loam_status loam_put(loam_db *db, const void *key, size_t key_len, const void *value, size_t value_len, unsigned flags, char **err);
/* Removes a key, whether it exists or not. */
LOAM_API loam_status loam_delete(loam_db *db, const void *key, size_t key_len, unsigned flags, char **err);

/* A batch collects puts and deletes that take effect together or not at all.
 * It lies in the memory of the caller's process and costs no crossing into Go
 * until it is written. */
LOAM_API loam_status loam_batch_create(loam_batch **batch, char **err);
/* From LevelDB's batch layout; the bytes are checked and copied. */
LOAM_API loam_status loam_batch_create_from(const void *data, size_t len, loam_batch **batch, char **err);
LOAM_API loam_status loam_batch_close(loam_batch *batch);
LOAM_API loam_status loam_batch_put(loam_batch *batch, const void *key, size_t key_len, const void *value, size_t value_len, char **err);
LOAM_API loam_status loam_batch_delete(loam_batch *batch, const void *key, size_t key_len, char **err);
LOAM_API loam_status loam_batch_clear(loam_batch *batch);
/* Adds the operations of other behind those of batch. */
LOAM_API loam_status loam_batch_append(loam_batch *batch, const loam_batch *other, char **err);
/* Operations; 0 for a bad handle. */
LOAM_API size_t loam_batch_count(const loam_batch *batch);
/* The batch in LevelDB's layout: 8 bytes of sequence number (0), 4 bytes of
 * count, entries. NULL for a bad handle. */
LOAM_API const void *loam_batch_data(const loam_batch *batch, size_t *len);
/* Calls put or del for every operation in order. They must not use the batch. */
LOAM_API loam_status loam_batch_each(const loam_batch *batch, void *arg,
                                     void (*put)(void *arg, const void *key, size_t key_len, const void *value, size_t value_len),
                                     void (*del)(void *arg, const void *key, size_t key_len), char **err);
/* Writes a batch, which stays as it is. An empty one with LOAM_SYNC makes all
 * earlier writes durable. */
LOAM_API loam_status loam_write(loam_db *db, const loam_batch *batch, unsigned flags, char **err);

/* ---- Iterators ---- */

typedef struct loam_iter_options {
  size_t struct_size;            /* sizeof(loam_iter_options) */
  const loam_snapshot *snapshot; /* optional */
  const void *lower;             /* first key to return; NULL: no bound */
  size_t lower_len;
  const void *upper; /* first key not to return; NULL: no bound */
  size_t upper_len;
  const void *prefix; /* only keys that begin so; NULL: all */
  size_t prefix_len;
  unsigned flags; /* LOAM_NO_FILL | LOAM_KEYS_ONLY */
} loam_iter_options;

typedef struct loam_entry {
  const void *key;
  size_t key_len;
  const void *value;
  size_t value_len;
} loam_entry;

/* count entries, one behind the other in iteration order, each as key length
 * and value length (32-bit little-endian, not aligned), key, value. */
typedef struct loam_block {
  const void *data;
  size_t len;
  size_t count;
} loam_block;

/* Opens an iterator over the present state, or the snapshot's. It stands
 * outside the range: loam_iter_next goes to the first entry, loam_iter_prev to
 * the last. options: optional. */
LOAM_API loam_status loam_iter_create(loam_db *db, const loam_iter_options *options, loam_iter **iter, char **err);
LOAM_API loam_status loam_iter_close(loam_iter *iter);
/* Moves: LOAM_OK at an entry, which is stored in *entry (may be NULL), LOAM_END
 * when there is none. Behind the end prev goes to the last entry, before the
 * beginning next goes to the first. Entries are fetched ahead in blocks. After
 * a failure the iterator stands outside the range. */
LOAM_API loam_status loam_iter_first(loam_iter *iter, loam_entry *entry, char **err);
LOAM_API loam_status loam_iter_last(loam_iter *iter, loam_entry *entry, char **err);
/* To the first key at or after key. */
LOAM_API loam_status loam_iter_seek(loam_iter *iter, const void *key, size_t key_len, loam_entry *entry, char **err);
/* To the last key before key. */
LOAM_API loam_status loam_iter_seek_before(loam_iter *iter, const void *key, size_t key_len, loam_entry *entry, char **err);
/* Stands between the last key before key and the first at or after it, without
 * reading: prev goes to the one, next to the other. */
LOAM_API loam_status loam_iter_place(loam_iter *iter, const void *key, size_t key_len, char **err);
LOAM_API loam_status loam_iter_next(loam_iter *iter, loam_entry *entry, char **err);
LOAM_API loam_status loam_iter_prev(loam_iter *iter, loam_entry *entry, char **err);
/* The entry the iterator is at: LOAM_OK or LOAM_END. */
LOAM_API loam_status loam_iter_entry(const loam_iter *iter, loam_entry *entry);
/* 1 at an entry, otherwise 0. */
LOAM_API int loam_iter_valid(const loam_iter *iter);
/* Key and value of the entry; NULL and length 0 outside the range. */
LOAM_API const void *loam_iter_key(const loam_iter *iter, size_t *len);
LOAM_API const void *loam_iter_value(const loam_iter *iter, size_t *len);
/* Moves over many entries at once and returns those moved over: first the one
 * that loam_iter_next (loam_iter_prev) would go to. Afterwards the iterator is
 * at the last of them. At most max_entries entries, and no further one once
 * max_bytes are full; 0: as many as the library sees fit. A block may hold
 * fewer; LOAM_END alone says that there are no more. */
LOAM_API loam_status loam_iter_next_block(loam_iter *iter, size_t max_entries, size_t max_bytes, loam_block *block, char **err);
LOAM_API loam_status loam_iter_prev_block(loam_iter *iter, size_t max_entries, size_t max_bytes, loam_block *block, char **err);
/* Replaces the bounds (not the prefix); the iterator then stands outside the
 * range, as a new one. */
LOAM_API loam_status loam_iter_set_bounds(loam_iter *iter, const void *lower, size_t lower_len, const void *upper, size_t upper_len, char **err);

/* ---- Upkeep ---- */

/* Writes the memtables into tables. */
LOAM_API loam_status loam_flush(loam_db *db, char **err);
/* Merges everything from start up to and including limit; NULL: no bound. */
LOAM_API loam_status loam_compact(loam_db *db, const void *start, size_t start_len, const void *limit, size_t limit_len, char **err);
/* Stop and restart automatic compaction; calls nest. */
LOAM_API loam_status loam_pause_compaction(loam_db *db, char **err);
LOAM_API loam_status loam_resume_compaction(loam_db *db, char **err);
/* Retries failed background work now. */
LOAM_API loam_status loam_resume(loam_db *db, char **err);

/* Long work beside the caller, who waits in slices. */
LOAM_API loam_status loam_flush_start(loam_db *db, loam_job **job, char **err);
LOAM_API loam_status loam_compact_start(loam_db *db, const void *start, size_t start_len, const void *limit, size_t limit_len, loam_job **job, char **err);
/* loam_close as a job: the database handle is gone at once. */
LOAM_API loam_status loam_close_start(loam_db *db, loam_job **job, char **err);
LOAM_API loam_status loam_open_start(const char *path, const loam_options *options, loam_job **job, char **err);
LOAM_API loam_status loam_repair_start(const char *path, const loam_options *options, loam_job **job, char **err);
/* Waits at most timeout_ms (negative: as long as it takes). LOAM_TIMEOUT: it
 * still runs. Otherwise the status of the work, the same on every call. */
LOAM_API loam_status loam_job_wait(loam_job *job, int timeout_ms, char **err);
/* Work done and to be done, in bytes, as an estimate; both 0 when unknown. */
LOAM_API loam_status loam_job_progress(loam_job *job, uint64_t *done, uint64_t *total, char **err);
/* Asks the job to end early, with LOAM_ERR_CANCELLED. Compactions stop soon;
 * other work runs to its end. */
LOAM_API loam_status loam_job_cancel(loam_job *job, char **err);
/* What a finished job made: the database of loam_open_start (once), the JSON
 * report of loam_repair_start. */
LOAM_API loam_status loam_job_db(loam_job *job, loam_db **db, char **err);
LOAM_API loam_status loam_job_report(loam_job *job, char **report, char **err);
/* Gives up the handle. The work goes on to its end; a database that was opened
 * and not fetched is closed. */
LOAM_API loam_status loam_job_close(loam_job *job);

/* ---- Information; strings are malloc'ed ---- */

/* LevelDB's properties, such as "leveldb.stats". LOAM_NOT_FOUND: unknown. */
LOAM_API loam_status loam_property(loam_db *db, const char *name, char **value, char **err);
/* All counters as JSON. */
LOAM_API loam_status loam_metrics(loam_db *db, char **json, char **err);
/* What opening found in the logs, as JSON. */
LOAM_API loam_status loam_recovery_report(loam_db *db, char **json, char **err);
/* The name of the database's comparator. */
LOAM_API loam_status loam_comparator_name(loam_db *db, char **name, char **err);
/* Bytes on disk of n key ranges, each from start up to, not including, limit;
 * NULL: no bound. */
LOAM_API loam_status loam_approximate_sizes(loam_db *db, size_t n, const void *const *starts, const size_t *start_lens, const void *const *limits, const size_t *limit_lens, uint64_t *sizes, char **err);

#ifdef __cplusplus
}
#endif

#endif
