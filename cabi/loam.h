/*
 * loam.h - the C interface of Loam, an ordered persistent key-value store.
 *
 * Conventions
 *
 *  1. Status. Functions that can fail return a loam_status. LOAM_OK is 0.
 *     Positive values are answers that are not failures (not found, end of the
 *     range, timeout). Negative values, LOAM_ERR_*, are failures.
 *  2. Message. The last parameter of such a function is char **err. Only
 *     loam_batch_clear, and functions that close a handle other than a
 *     database's, have none. NULL: the caller wants no message. Otherwise *err is
 *     overwritten by every call: with a malloc'ed sentence after a failure, which
 *     the caller gives to loam_free, and with NULL after LOAM_OK and answers. The
 *     call does not free what *err held before.
 *     loam_error_errno and loam_error_path return further details of the failure.
 *  3. Handles. A handle, of an opaque pointer type, stands for each object. The
 *     library never dereferences it: NULL, a handle of another type, a closed one
 *     or a random pointer gives LOAM_ERR_INVALID_HANDLE or LOAM_ERR_CLOSED. Where
 *     a parameter is marked optional, NULL means "the default".
 *  4. Results. Out parameters are written when the status is LOAM_OK, or as
 *     the function says. Handles and memory that a function makes are NULL
 *     after any other status.
 *  5. Bytes. Keys and values are pointer and length, and may hold any bytes.
 *     NULL with length 0 is the empty string. NULL with another length is
 *     LOAM_ERR_INVALID_ARGUMENT, a length of 4 GiB - 1 MiB or more is
 *     LOAM_ERR_TOO_LARGE. Bytes given to Loam are copied before the call
 *     returns. For bounds NULL means "no bound", whatever the length. A lower
 *     bound or start is part of its range, an upper bound or stop is not.
 *  6. Text. Paths, names and messages are NUL-terminated; messages, names and
 *     JSON are UTF-8. Paths are bytes.
 *  7. Memory. What the library allocates for the caller comes from malloc and
 *     is released with loam_free. Pointers into an iterator live until the next
 *     call on it, pointers into a batch until the next call that changes it, a
 *     pinned value until loam_pinned_close.
 *  8. Threads. Databases, snapshots, transactions, caches, jobs, folders of
 *     backups, feeds of changes, table writers, loads, pinned values and options
 *     may be used by any number of threads at once. Iterators and batches are for
 *     one thread at a time, except that calls that take a const loam_batch *, but
 *     not loam_write, may run together; a call that cannot run beside another one
 *     fails with LOAM_ERR_IN_USE. Closing an object waits for the calls that are
 *     using it. In a callback, closing a database, or an iterator or batch that is
 *     in use, fails with LOAM_ERR_IN_USE; any other object is closed by another
 *     thread.
 *  9. Closing. Each object is closed once, in any order. After loam_close,
 *     calls on the database's iterators and snapshots fail with LOAM_ERR_CLOSED,
 *     except that an iterator may still return entries that it fetched ahead; they
 *     must still be closed to free their memory. A pinned value may still be read.
 *     Options and caches may be closed as soon as the call that took them has
 *     returned.
 *     Closing NULL is harmless and gives LOAM_OK.
 * 10. Callbacks. A callback gets the arg it was set with. It is called from any
 *     thread, and by several threads at once. It may call loam_callback_fail,
 *     which reports a failure, loam_free, functions that take nothing but batches,
 *     and functions that close. Merge operators and compaction filters may also
 *     read, by loam_get, loam_get_alloc, loam_get_pinned, loam_has, loam_ttl,
 *     loam_multi_get, snapshots, and iterators that are not a transaction's, but
 *     not if the read of another such callback called them. Loggers and the
 *     functions of a dump may make all calls but loam_close and loam_close_start.
 *     Any other call in a callback gives LOAM_ERR_IN_USE at once.
 *     The destroy function (optional) that belongs to arg is called once, from any
 *     thread, when the library has no more use for the callback: the options that
 *     it was set in are closed or changed, the databases opened with them and
 *     their iterators are closed, and jobs have ended. It is not called when
 *     setting the callback failed. destroy must not call Loam, except to close.
 *     Only loggers and destroy functions may start processes: started by other
 *     callbacks these would inherit a mask with all signals blocked.
 * 11. Fork. After fork() the library works only in the parent. In the child
 *     every function that takes a handle or a path fails with LOAM_ERR_FORKED.
 * 12. Signals. The library's own threads block all signals but SIGURG and those
 *     that a thread gets by its own fault, except while they run a logger or a
 *     destroy function. Calls leave a thread's signal mask as it was. Handlers
 *     need no SA_ONSTACK, whenever they are installed and wherever they
 *     interrupt a call, if 32 KiB of stack are enough for each; only for SIGURG
 *     it is needed when the handler is installed later than the first loam_open or
 *     loam_follower_open.
 *     SIGSTKFLT, which Linux does not send, is the library's unless the program
 *     has a handler for it before.
 * 13. Structs. Structs that may grow begin with struct_size, which the caller sets
 *     to the struct's sizeof. Bytes of a struct beyond the size that the library
 *     knows must be zero. Flags are 64 bits wide in structs; unknown flags are
 *     LOAM_ERR_INVALID_ARGUMENT.
 * 14. Versions. Functions, values and fields are added, never changed or taken
 *     away, while LOAM_ABI_VERSION stays the same; each addition raises
 *     LOAM_ABI_REVISION. Version 0 is not finished: there a program works with
 *     the very revision it was compiled with, and the dynamic linker refuses
 *     another one.
 * 15. Unloading. The library is never unloaded: after dlclose it stays, with its
 *     threads and the open databases, and dlopen finds it again. The code of a
 *     callback must stay, too, until its destroy function was called, or the
 *     databases that use it are closed.
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

#if defined(_WIN32) && defined(LOAM_BUILD)
#define LOAM_API extern __declspec(dllexport)
#elif defined(_WIN32)
#define LOAM_API extern
#elif defined(__GNUC__)
#define LOAM_API extern __attribute__((visibility("default")))
#else
#define LOAM_API extern
#endif

typedef int loam_status;

/* ---- Versions ---- */

#define LOAM_ABI_VERSION 0
#define LOAM_ABI_REVISION 9

/* Whether a program compiled with this header works with the loaded library:
 * loam_abi_check(LOAM_ABI_VERSION, LOAM_ABI_REVISION, &err) is LOAM_OK or, with
 * both versions in the message, LOAM_ERR_ABI. The functions of this section work
 * everywhere, a forked child included. */
LOAM_API loam_status loam_abi_check(int version, int revision, char **err);
/* The ABI version and revision of the loaded library. */
LOAM_API int loam_abi_version(void);
LOAM_API int loam_abi_revision(void);
/* The library's version, such as "0.3.0". Not to be freed. */
LOAM_API const char *loam_version(void);

/* ---- Status ---- */

enum {
  LOAM_OK = 0,
  /* answers */
  LOAM_NOT_FOUND = 1,        /* the key has no value; the property is unknown */
  LOAM_END = 2,              /* the iterator has left the range */
  LOAM_WOULD_BLOCK = 3,      /* LOAM_MEMORY_ONLY: not answerable from memory */
  LOAM_BUFFER_TOO_SMALL = 4, /* the needed size has been stored */
  LOAM_TIMEOUT = 5,          /* the job still runs */
  LOAM_BUSY = 6,             /* LOAM_NO_STALL: the write would have to wait */
  LOAM_MISMATCH = 7,         /* loam_compare_and_swap: the key has another value */
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
  /* another call is using the iterator or batch, or loads a dump */
  LOAM_ERR_IN_USE = -15,
  LOAM_ERR_CANCELLED = -16,          /* the job was cancelled */
  LOAM_ERR_INTERNAL = -17,           /* a fault in Loam; the message has the details */
  LOAM_ERR_NO_SPACE = -18,           /* disk or quota full; work resumes when there is room */
  LOAM_ERR_TOO_MANY_FILES = -19,     /* no file descriptors left; work resumes when there are */
  LOAM_ERR_CALLBACK = -20,           /* a callback failed; the message is what it said */
  LOAM_ERR_ABI = -21,                /* the library has another ABI than the program */
  LOAM_ERR_NEWER_FORMAT = -22,       /* a newer version of Loam wrote the directory */
  LOAM_ERR_NEEDS_NATIVE = -23,       /* LevelDB's format cannot hold it; see loam_upgrade */
  LOAM_ERR_NO_KEYSPACE = -24,        /* there is no such keyspace, or it was dropped */
  /* merges need merge_operator, or the operands are another one's */
  LOAM_ERR_NO_MERGE_OPERATOR = -25,
  LOAM_ERR_MERGE_FAILED = -26,       /* the merge operator failed; the message is what it said */
  /* a transaction met a newer write; the message names the key */
  LOAM_ERR_CONFLICT = -27,
  /* the wait for a lock would never end; the message names both transactions */
  LOAM_ERR_DEADLOCK = -28,
  LOAM_ERR_LOCK_TIMEOUT = -29,       /* another transaction kept a lock */
  LOAM_ERR_TXN_DONE = -30,           /* the transaction was committed or rolled back */
  LOAM_ERR_GAP = -31,                /* the logs that a feed of changes needs are gone */
  /* a key is missing or wrong, or a file is not encrypted in a database that is; the message names
   * the file and the id of the key */
  LOAM_ERR_ENCRYPTION = -32
};

/* A few words for a status; never NULL. Not to be freed. */
LOAM_API const char *loam_status_string(loam_status status);
/* The constant's name, such as "LOAM_NOT_FOUND"; never NULL. Not to be freed. */
LOAM_API const char *loam_status_name(loam_status status);

/* What else is known about a failure: the operating system's error number (0:
 * none) and the file or directory concerned (NULL: none), which lives as long as
 * err. err is a message that a function stored, not a copy of one; NULL gives 0
 * and NULL. */
LOAM_API int loam_error_errno(const char *err);
LOAM_API const char *loam_error_path(const char *err);

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
typedef struct loam_txn loam_txn;
typedef struct loam_backup loam_backup;
typedef struct loam_changes loam_changes;
typedef struct loam_table_writer loam_table_writer;
typedef struct loam_bulk_load loam_bulk_load;
typedef struct loam_pinned loam_pinned;

/* ---- Process ---- */

/* Settings of the Go runtime inside the library: threads that run Go code at
 * once (0: leave), garbage collection percentage (0: leave, negative: off) and
 * soft memory limit in bytes (0: leave, negative: none). Unless this function
 * or the environment variable GOMAXPROCS sets it, the number of threads
 * becomes max(processors, background jobs + 2) when a database is opened. */
LOAM_API loam_status loam_runtime_set(int maxprocs, int gogc, int64_t memlimit, char **err);

/* ---- Options ---- */

/* Makes options that all have their defaults. */
LOAM_API loam_status loam_options_create(loam_options **options, char **err);
/* Gives up the options; databases that were opened with them keep what they need. */
LOAM_API loam_status loam_options_close(loam_options *options);
/* Sets an option by name from text: "write_buffer_size" to "64MiB", "compression" to "zstd", or by
 * level to "none,snappy,zstd", "read_only" to "true". docs/options.md lists all names.
 * LOAM_ERR_INVALID_ARGUMENT: an unknown name, or a bad value.
 *
 * "comparator" takes the name of a built-in order: "leveldb.BytewiseComparator",
 * "rocksdb.ReverseBytewiseComparator" or "idb_cmp1". "encryption" takes "file:" and the path of a
 * key file, "key:" and 64 hexadecimal digits, or "passphrase:" and a passphrase. "plain_wal" is
 * always on. "mmap" is off unless it is set to "on": a page fault of a mapped table that cannot be
 * read is a SIGBUS, which ends the process if the program installed a handler for it after this
 * library was loaded, or if the thread that calls blocks it. "format" is that of a new database:
 * "native" by default; "leveldb" makes one that LevelDB and its tools open, without keyspaces,
 * merges, range deletes, times to live and encryption. */
LOAM_API loam_status loam_options_set(loam_options *options, const char *name, const char *value,
  char **err);
/* All options that can be chosen as JSON: [{"name", "doc", "unit", "default",
 * "min", "max"}, ...]. */
LOAM_API loam_status loam_options_describe(char **json, char **err);

/* What a callback was called for, to tell its failure; it lives during the call. */
typedef struct loam_failure loam_failure;
/* Reports that the callback failed, and why (copied; NULL: unknown). The first
 * report of a call counts. */
LOAM_API void loam_callback_fail(loam_failure *failure, const char *message);
/* Asks the Loam call for which the comparator runs to end early. A call that would compare for
 * long, such as a read that orders the entries of a recovery, or a load that sorts, then fails with
 * LOAM_ERR_CANCELLED and has done nothing. The comparator must still return its answer. It has an
 * effect only with LOAM_COMPARATOR_CALLERS_THREAD. */
LOAM_API void loam_callback_interrupt(loam_failure *failure);

typedef void (*loam_destroy_fn)(void *arg);

/* The sign of the result is the order: <0, 0 or >0 for a<b, a=b, a>b. Must be a
 * pure function of the bytes. After a reported failure the result counts for
 * nothing, and the database, which has lost nothing, is read-only: the call that
 * needed the order, and every later write, fail with LOAM_ERR_CALLBACK and the
 * message. */
typedef int (*loam_compare_fn)(void *arg, const void *a, size_t a_len, const void *b, size_t b_len,
  loam_failure *failure);

enum {
  LOAM_COMPARATOR_EQUAL_IS_BYTEWISE = 1, /* only equal bytes compare equal: filters may be used */
  /* The comparator takes a lock that the program holds while it runs, such as an interpreter's: as
   * many comparisons as possible run on the threads that call Loam, and few on the library's own. A
   * write orders its entries before it returns, and adding to a load sorts. */
  LOAM_COMPARATOR_CALLERS_THREAD = 2
};

/* Orders keys by a callback. The name is stored with the database, which opens
 * only with a comparator of the same name. destroy: optional. */
LOAM_API loam_status loam_options_set_comparator(loam_options *options, const char *name,
  loam_compare_fn compare, void *arg, loam_destroy_fn destroy, unsigned flags, char **err);

/* What a compaction filter decides about an entry. */
enum {
  LOAM_FILTER_KEEP = 0,
  LOAM_FILTER_REMOVE = 1,
  LOAM_FILTER_CHANGE = 2 /* *new_value and *new_len are the value from now on */
};

/* Asked in compactions about the newest version of each key, if no snapshot sees it.
 * level is the one that the entry goes to. *new_value is NULL before the call; for
 * LOAM_FILTER_CHANGE it is what malloc returned, and the library frees it. After a
 * reported failure, and for any other result, the compaction fails with
 * LOAM_ERR_CALLBACK, nothing being lost; compactions pause, loam_metrics has the
 * message as "background_error", and they are tried again after a while, or at once
 * with loam_retry. */
typedef int (*loam_filter_fn)(void *arg, int level, const void *key, size_t key_len,
  const void *value, size_t value_len, void **new_value, size_t *new_len, loam_failure *failure);
/* Decides in compactions what becomes of entries; see docs/compaction-filter.md. The
 * name is for messages. The option "compaction_filter" sets filters by name, such as
 * "prefix:tmp/,cache/", which removes the keys that begin so. destroy: optional. */
LOAM_API loam_status loam_options_set_compaction_filter(loam_options *options, const char *name,
  loam_filter_fn filter, void *arg, loam_destroy_fn destroy, char **err);

/* Where a merge callback puts its result; it lives during the call. */
typedef struct loam_merge_result loam_merge_result;
/* Sets the result (copied). The last call counts; without any the result is empty. data NULL with
 * another length than 0 is a failure. */
LOAM_API void loam_merge_result_set(loam_merge_result *result, const void *data, size_t len);

typedef struct loam_bytes {
  const void *data;
  size_t len;
} loam_bytes;

/* Sets the result to the value of a key: existing, NULL if there is none, with the operands
 * applied in their order, oldest first. Must be a pure function of the bytes. After a
 * reported failure reads of the key fail with LOAM_ERR_MERGE_FAILED and the message;
 * nothing is lost, and the database goes on. Callbacks come on threads of the library, too. */
typedef void (*loam_merge_fn)(void *arg, const void *key, size_t key_len,
  const loam_bytes *existing, const loam_bytes *operands, size_t count, loam_merge_result *result,
  loam_failure *failure);
/* Sets the result to one operand that does what left does and right after it, whatever the
 * existing value is, and returns 1; with 0 the two stay two operands. Must be associative. */
typedef int (*loam_merge_partial_fn)(void *arg, const void *key, size_t key_len,
  const loam_bytes *left, const loam_bytes *right, loam_merge_result *result,
  loam_failure *failure);

/* Makes values of operands by callbacks, see loam_merge; operators that are known by name
 * are set with loam_options_set, "merge_operator". The name is stored with the
 * database, which opens only with an operator of the same name while it has operands.
 * partial, destroy: optional. */
LOAM_API loam_status loam_options_set_merge_operator(loam_options *options, const char *name,
  loam_merge_fn full, loam_merge_partial_fn partial, void *arg, loam_destroy_fn destroy,
  char **err);

/* level: -4 debug, 0 info, 4 warning, 8 error. The message lives during the
 * call. After a reported failure the logger is not called again, and loam_metrics
 * has the message as "logger_error". log: optional (no messages); destroy:
 * optional. */
typedef void (*loam_log_fn)(void *arg, int level, const char *message, loam_failure *failure);
LOAM_API loam_status loam_options_set_logger(loam_options *options, loam_log_fn log, void *arg,
  loam_destroy_fn destroy, char **err);

/* Makes a block cache of so many bytes, which several databases may share. */
LOAM_API loam_status loam_cache_create(uint64_t bytes, loam_cache **cache, char **err);
/* Gives up the handle; options and databases that use the cache keep it. */
LOAM_API loam_status loam_cache_close(loam_cache *cache);
/* Gives databases that are opened with the options a cache, or the resources of
 * loam_resources_create. The last call counts. */
LOAM_API loam_status loam_options_set_cache(loam_options *options, loam_cache *cache, char **err);

/* Makes resources that several databases share, a block cache among them. Like a cache
 * they are given to options with loam_options_set_cache, and closed with loam_cache_close.
 * memory: bytes of blocks, memtables, indexes, filters and buffers together, 8 MiB at
 * least; UINT64_MAX: a quarter of what the process may have, of the limit of its cgroup or
 * the machine's memory, followed when the limit changes; 0: each database has its own
 * limits. background_jobs: flushes and
 * compactions at once; 0: as many as processors, at least 2. io_bytes_per_second: what
 * these read and write while no writer waits for them; 0: no bound. open_files:
 * descriptors of tables; 0: no bound but the process's. See docs/resources.md. */
LOAM_API loam_status loam_resources_create(uint64_t memory, uint64_t background_jobs,
  uint64_t io_bytes_per_second, uint64_t open_files, loam_cache **resources, char **err);
/* Changes a limit at once: "memory" (at most its first value, or "auto"), "background_jobs",
 * "io_bytes_per_second" or "open_files". LOAM_ERR_INVALID_ARGUMENT: an unknown name, a
 * bad value, or a cache that is no resources. */
LOAM_API loam_status loam_resources_set(loam_cache *resources, const char *name, const char *value,
  char **err);
/* How much is in use, as JSON; malloc'ed. */
LOAM_API loam_status loam_resources_metrics(loam_cache *resources, char **json, char **err);

/* ---- Databases ---- */

/* Opens the database in a directory, and creates it when there is none unless
 * error_if_missing is set; the directories above it only if create_dirs is. One that exists
 * keeps its format: a LevelDB directory stays one. options: optional. */
LOAM_API loam_status loam_open(const char *path, const loam_options *options, loam_db **db,
  char **err);
/* Waits for running calls and background work to stop, and releases the
 * directory. The handle is gone whatever the status. */
LOAM_API loam_status loam_close(loam_db *db, char **err);
/* Deletes the database in a directory that is not open: what Loam or LevelDB wrote.
 * LOAM_ERR_NOT_A_DATABASE: the directory is another engine's, and stays as it
 * was; or files with such names and other contents stay. options: optional. */
LOAM_API loam_status loam_destroy(const char *path, const loam_options *options, char **err);
/* Brings a damaged database that is not open back to a state that opens, with everything that can
 * still be read; the originals go to its folder "lost". report (may be NULL) receives JSON: what
 * was dropped and why. options: optional. See docs/repair.md. */
LOAM_API loam_status loam_repair(const char *path, const loam_options *options, char **report,
  char **err);
/* Makes the LevelDB database in a directory, which is not open, a native one. It takes
 * about as long as loam_open: tables are rewritten when a compaction meets them. A
 * native database stays as it is. options: optional. */
LOAM_API loam_status loam_upgrade(const char *path, const loam_options *options, char **err);
/* Writes what the database in a directory, which is not open, holds into a new one in
 * the directory to, in a format: "leveldb" or "native". options: optional; they are for
 * both. */
LOAM_API loam_status loam_export(const char *path, const char *to, const char *format,
  const loam_options *options, char **err);

/* ---- Reading ---- */

enum {
  LOAM_NO_FILL = 1,    /* leave the block cache as it is */
  LOAM_KEYS_ONLY = 2,  /* iterators: values are empty */
  /* LOAM_WOULD_BLOCK where the answer needs I/O; not for iterators and loam_ttl */
  LOAM_MEMORY_ONLY = 4
};

typedef struct loam_read_options {
  size_t struct_size;            /* sizeof(loam_read_options) */
  uint64_t flags;                /* LOAM_NO_FILL | LOAM_MEMORY_ONLY */
  const loam_snapshot *snapshot; /* optional: the present state */
} loam_read_options;

/* Copies the value into buf and stores its length. When it is longer than cap:
 * LOAM_BUFFER_TOO_SMALL, the length needed in *len, and buf undefined. buf may
 * be NULL when cap is 0. options: optional, here and in the other reads. */
LOAM_API loam_status loam_get(loam_db *db, const loam_read_options *options, const void *key,
  size_t key_len, void *buf, size_t cap, size_t *len, char **err);
/* Stores a malloc'ed copy of the value, not NULL for an empty one. One byte
 * behind the value is 0. */
LOAM_API loam_status loam_get_alloc(loam_db *db, const loam_read_options *options, const void *key,
  size_t key_len, void **value, size_t *len, char **err);
/* Stores where the value lies in the library's memory, not NULL for an empty one, and its length.
 * The bytes stay as they are and must not be changed; loam_pinned_close gives them up. Until then
 * the memtables and tables of the state that was read stay, as an iterator keeps them, and the
 * value's block in the cache: close it soon. A value that is not in the cache or a memtable, and
 * one that is read with flags, is copied. It pays from values of some KiB on: docs/pinned.md. */
LOAM_API loam_status loam_get_pinned(loam_db *db, const loam_read_options *options,
  const void *key, size_t key_len, loam_pinned **pinned, const void **value, size_t *len,
  char **err);
/* Gives up the value, whose bytes must not be read any more. */
LOAM_API loam_status loam_pinned_close(loam_pinned *pinned);
/* LOAM_OK: the key has a value. LOAM_NOT_FOUND: it has none. */
LOAM_API loam_status loam_has(loam_db *db, const loam_read_options *options, const void *key,
  size_t key_len, char **err);
/* Looks up n keys in one state of the database. values[i] is NULL for a missing
 * key and otherwise points into *memory, which is released with loam_free. */
LOAM_API loam_status loam_multi_get(loam_db *db, const loam_read_options *options, size_t n,
  const void *const *keys, const size_t *key_lens, const void **values, size_t *value_lens,
  void **memory, char **err);

/* Fixes the present state of all keyspaces, for reads and iterators whose options name the
 * snapshot. It keeps overwritten and deleted entries on disk: close it soon. */
LOAM_API loam_status loam_snapshot_create(loam_db *db, loam_snapshot **snapshot, char **err);
/* Gives up the snapshot. Iterators made from it go on working. */
LOAM_API loam_status loam_snapshot_close(loam_snapshot *snapshot);

/* ---- Writing ---- */

enum {
  LOAM_SYNC = 1,    /* return when it is on disk, not only in the kernel */
  LOAM_NO_STALL = 2 /* LOAM_BUSY instead of waiting for flushes or compactions */
};

typedef struct loam_write_options {
  size_t struct_size; /* sizeof(loam_write_options) */
  uint64_t flags;     /* LOAM_SYNC | LOAM_NO_STALL */
} loam_write_options;

/* Stores a value under a key. options: optional, here and in the other writes.
 * sequence (may be NULL) receives the sequence number of the write's last
 * operation, 0 when it had none: later writes have larger ones. */
LOAM_API loam_status loam_put(loam_db *db, const loam_write_options *options, const void *key,
  size_t key_len, const void *value, size_t value_len, uint64_t *sequence, char **err);
/* Removes a key, whether it exists or not. */
LOAM_API loam_status loam_delete(loam_db *db, const loam_write_options *options, const void *key,
  size_t key_len, uint64_t *sequence, char **err);
/* Removes all keys from start up to, not including, limit, whether there are any or not, at the
 * cost of one put. start behind limit is LOAM_ERR_INVALID_ARGUMENT; a database in LevelDB's
 * format gives LOAM_ERR_NEEDS_NATIVE. */
LOAM_API loam_status loam_delete_range(loam_db *db, const loam_write_options *options,
  const void *start, size_t start_len, const void *limit, size_t limit_len, uint64_t *sequence,
  char **err);

/* Adds an operand to a key, whose value is from then on what the merge operator makes of
 * the value before and the operand; nothing is read. LOAM_ERR_NEEDS_NATIVE: the database has
 * LevelDB's format. LOAM_ERR_NO_MERGE_OPERATOR: the options named none. */
LOAM_API loam_status loam_merge(loam_db *db, const loam_write_options *options, const void *key,
  size_t key_len, const void *operand, size_t operand_len, uint64_t *sequence, char **err);

#define LOAM_TTL_NEVER UINT64_MAX

/* Puts a value that expires: after so many seconds, from 1 to 9223372036 (292 years), the key has
 * no value, as if it had been deleted. A later write replaces value and time; merges keep the later
 * deadline. LOAM_ERR_NEEDS_NATIVE: the database has LevelDB's format. The option "default_ttl"
 * gives a time to all values of a keyspace. See docs/ttl.md. */
LOAM_API loam_status loam_put_ttl(loam_db *db, const loam_write_options *options, const void *key,
  size_t key_len, const void *value, size_t value_len, uint64_t seconds, uint64_t *sequence,
  char **err);
/* Stores how many milliseconds a key has its value; LOAM_TTL_NEVER: for ever. LOAM_NOT_FOUND: it
 * has none. */
LOAM_API loam_status loam_ttl(loam_db *db, const loam_read_options *options, const void *key,
  size_t key_len, uint64_t *milliseconds, char **err);

/* Makes an empty batch, which collects operations that take effect together or not at
 * all. Functions of batches do not call into Go, and so are cheap; loam_write does. */
LOAM_API loam_status loam_batch_create(loam_batch **batch, char **err);
/* From the bytes of loam_batch_data, which are checked and copied. Operations of an unknown kind
 * are LOAM_ERR_INVALID_ARGUMENT. Keyspaces that operations name by their numbers are looked for
 * when the batch is written: an unknown one is LOAM_ERR_NO_KEYSPACE. */
LOAM_API loam_status loam_batch_create_from(const void *data, size_t len, loam_batch **batch,
  char **err);
/* Frees the batch, which need not have been written. */
LOAM_API loam_status loam_batch_close(loam_batch *batch);
/* As loam_put and loam_delete. Key and value are copied. */
LOAM_API loam_status loam_batch_put(loam_batch *batch, const void *key, size_t key_len,
  const void *value, size_t value_len, char **err);
LOAM_API loam_status loam_batch_delete(loam_batch *batch, const void *key, size_t key_len,
  char **err);
/* As loam_merge; its errors are returned when the batch is written. */
LOAM_API loam_status loam_batch_merge(loam_batch *batch, const void *key, size_t key_len,
  const void *operand, size_t operand_len, char **err);
/* As loam_put_ttl; the time begins when the batch is written. */
LOAM_API loam_status loam_batch_put_ttl(loam_batch *batch, const void *key, size_t key_len,
  const void *value, size_t value_len, uint64_t seconds, char **err);
/* As loam_delete_range; its errors are returned when the batch is written. */
LOAM_API loam_status loam_batch_delete_range(loam_batch *batch, const void *start,
  size_t start_len, const void *limit, size_t limit_len, char **err);
/* Empties the batch and keeps its memory. */
LOAM_API loam_status loam_batch_clear(loam_batch *batch);
/* Adds the operations of other behind those of batch. */
LOAM_API loam_status loam_batch_append(loam_batch *batch, const loam_batch *other, char **err);
/* The number of operations. */
LOAM_API loam_status loam_batch_count(const loam_batch *batch, size_t *count, char **err);
/* The batch in LevelDB's layout: 8 bytes of sequence number (0), 4 bytes of
 * count, entries. */
LOAM_API loam_status loam_batch_data(const loam_batch *batch, const void **data, size_t *len,
  char **err);

/* Kinds of operations. Further ones may come: pass over what is not known. */
enum {
  LOAM_OP_DELETE = 0,
  LOAM_OP_PUT = 1,
  LOAM_OP_MERGE = 2,
  LOAM_OP_DELETE_RANGE = 15, /* from key up to, not including, value */
  LOAM_OP_PUT_TTL = 48       /* see loam_batch_put_ttl */
};

typedef struct loam_operation {
  size_t struct_size; /* as the library knows it */
  int64_t kind;       /* LOAM_OP_* */
  const void *key;
  size_t key_len;
  /* of LOAM_OP_PUT, LOAM_OP_PUT_TTL and LOAM_OP_MERGE; of LOAM_OP_DELETE_RANGE the limit; else
   * NULL */
  const void *value;
  size_t value_len;
  uint32_t keyspace;       /* its number; 0 is "default" */
  uint32_t keyspace_named; /* 0: loam_batch_in chose none, and keyspace is 0; else 1 */
} loam_operation;

/* 0: go on. The operation lives during the call. */
typedef int (*loam_operation_fn)(void *arg, const loam_operation *operation, loam_failure *failure);
/* Calls visit, in the caller's thread, for every operation in order, until one
 * call returns another value than 0 (then LOAM_OK) or fails (LOAM_ERR_CALLBACK).
 * The calls may read the batch. */
LOAM_API loam_status loam_batch_each(const loam_batch *batch, loam_operation_fn visit, void *arg,
  char **err);
/* Writes a batch, which stays as it is. An empty one with LOAM_SYNC makes all
 * earlier writes durable. */
LOAM_API loam_status loam_write(loam_db *db, const loam_write_options *options,
  const loam_batch *batch, uint64_t *sequence, char **err);

/* Writes a batch given as bytes, those of loam_batch_data for instance, which are checked
 * first. Operations may name keyspaces of the database by their numbers: an unknown one is
 * LOAM_ERR_NO_KEYSPACE. The first 8 bytes are overwritten. */
LOAM_API loam_status loam_write_bytes(loam_db *db, const loam_write_options *options, void *data,
  size_t len, uint64_t *sequence, char **err);

/* ---- Keyspaces ---- */

/* Opens a keyspace of a database: a key space with a memtable, tables and a comparator of its own,
 * which shares the log, snapshots, cache and background work. It is created when there is none,
 * unless error_if_missing is set. The handle is like the database's, which is that of the keyspace
 * "default": each function that takes a loam_db works on the keyspace's keys, and loam_verify,
 * loam_checkpoint, loam_recovery_report, loam_retry, loam_pause_compaction and these functions on
 * the database. loam_close gives up the handle. After loam_close of the database, calls fail with
 * LOAM_ERR_CLOSED. options: optional; of them these count: comparator (one of callbacks must be the
 * database's), merge_operator, compression, bloom_bits, prefix_length, compaction_filter,
 * default_ttl and error_if_missing. Unset options have the database's values, except that there is
 * no compaction filter. Callbacks are kept until the database is closed. LOAM_ERR_NEEDS_NATIVE: the
 * database has LevelDB's format. */
LOAM_API loam_status loam_keyspace_open(loam_db *db, const char *name, const loam_options *options,
  loam_db **keyspace, char **err);
/* Drops a keyspace with all that is in it, at once. Its space comes back in the background.
 * Handles of it are to be closed; calls on them fail with LOAM_ERR_NO_KEYSPACE. */
LOAM_API loam_status loam_keyspace_drop(loam_db *db, const char *name, char **err);
/* The names of all keyspaces as a JSON list, "default" first. */
LOAM_API loam_status loam_keyspace_list(loam_db *db, char **names, char **err);
/* The number of a keyspace, by which batches name it (docs/format-batch.md): 0 is "default". One
 * that is made again under a name has another number. */
LOAM_API loam_status loam_keyspace_number(loam_db *keyspace, uint32_t *number, char **err);
/* Chooses the keyspace of operations that are added to the batch from now on. The handle of
 * the database, or of "default", chooses "default". Without, and after a call with NULL, they
 * go to the keyspace whose handle loam_write gets. */
LOAM_API loam_status loam_batch_in(loam_batch *batch, loam_db *keyspace, char **err);

/* ---- Iterators ---- */

typedef struct loam_iter_options {
  size_t struct_size;            /* sizeof(loam_iter_options) */
  uint64_t flags;                /* LOAM_NO_FILL | LOAM_KEYS_ONLY */
  const loam_snapshot *snapshot; /* optional: the present state */
  const void *lower;             /* first key to return; NULL: no bound */
  size_t lower_len;
  const void *upper; /* first key not to return; NULL: no bound */
  size_t upper_len;
  const void *prefix; /* only keys that begin so; NULL: all */
  size_t prefix_len;
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
LOAM_API loam_status loam_iter_create(loam_db *db, const loam_iter_options *options,
  loam_iter **iter, char **err);
/* Frees the iterator, and the memory and files that it keeps. */
LOAM_API loam_status loam_iter_close(loam_iter *iter);
/* Moves: LOAM_OK at an entry, which is stored in *entry (may be NULL), LOAM_END
 * when there is none. Behind the end prev goes to the last entry, before the
 * beginning next goes to the first. Entries are fetched ahead in blocks. After
 * a failure next and prev fail in the same way, until first, last or a seek succeeds. */
LOAM_API loam_status loam_iter_first(loam_iter *iter, loam_entry *entry, char **err);
LOAM_API loam_status loam_iter_last(loam_iter *iter, loam_entry *entry, char **err);
/* To the first key at or after key. */
LOAM_API loam_status loam_iter_seek(loam_iter *iter, const void *key, size_t key_len,
  loam_entry *entry, char **err);
/* To the last key before key. */
LOAM_API loam_status loam_iter_seek_before(loam_iter *iter, const void *key, size_t key_len,
  loam_entry *entry, char **err);
/* Stands between the last key before key and the first at or after it, without
 * reading: prev goes to the one, next to the other. */
LOAM_API loam_status loam_iter_place(loam_iter *iter, const void *key, size_t key_len, char **err);
LOAM_API loam_status loam_iter_next(loam_iter *iter, loam_entry *entry, char **err);
LOAM_API loam_status loam_iter_prev(loam_iter *iter, loam_entry *entry, char **err);
/* The entry the iterator is at, again: LOAM_OK or LOAM_END. */
LOAM_API loam_status loam_iter_entry(loam_iter *iter, loam_entry *entry, char **err);
/* Moves over many entries at once and returns those moved over: first the one
 * that loam_iter_next (loam_iter_prev) would go to. Afterwards the iterator is
 * at the last of them. At most max_entries entries, and no further one once
 * max_bytes are full; 0: as many as the library sees fit. A block may hold
 * fewer; LOAM_END alone says that there are no more. */
LOAM_API loam_status loam_iter_next_block(loam_iter *iter, size_t max_entries, size_t max_bytes,
  loam_block *block, char **err);
LOAM_API loam_status loam_iter_prev_block(loam_iter *iter, size_t max_entries, size_t max_bytes,
  loam_block *block, char **err);
/* Replaces the bounds (not the prefix); the iterator then stands outside the
 * range, as a new one. */
LOAM_API loam_status loam_iter_set_bounds(loam_iter *iter, const void *lower, size_t lower_len,
  const void *upper, size_t upper_len, char **err);

/* ---- Transactions ---- */

enum {
  LOAM_TXN_SERIALIZABLE = 1, /* keys and ranges that were read must not have changed either */
  LOAM_TXN_LOCK = 2,         /* writes and loam_txn_get_for_update lock their keys */
  LOAM_TXN_READ_ONLY = 4     /* writes are LOAM_ERR_INVALID_ARGUMENT */
};

typedef struct loam_txn_options {
  size_t struct_size;      /* sizeof(loam_txn_options) */
  uint64_t flags;          /* LOAM_TXN_* */
  int64_t lock_timeout_ms; /* 0: 1 second; negative: without end */
  const char *name;        /* in messages about locks; NULL: a number */
} loam_txn_options;

/* Begins a transaction: it reads the present state with its own writes on top, and its
 * writes take effect together at loam_txn_commit or not at all. options: optional. */
LOAM_API loam_status loam_txn_begin(loam_db *db, const loam_txn_options *options, loam_txn **txn,
  char **err);
/* Stores a malloc'ed copy of the value, as loam_get_alloc does. keyspace (optional), here
 * and below: one of the same database; without, the one that the transaction was begun in. */
LOAM_API loam_status loam_txn_get(loam_txn *txn, loam_db *keyspace, const void *key,
  size_t key_len, void **value, size_t *len, char **err);
/* Like loam_txn_get, of a key that the rest depends on: another write of it is
 * LOAM_ERR_CONFLICT. With LOAM_TXN_LOCK it locks the key first. */
LOAM_API loam_status loam_txn_get_for_update(loam_txn *txn, loam_db *keyspace, const void *key,
  size_t key_len, void **value, size_t *len, char **err);
/* LOAM_OK: the key has a value. LOAM_NOT_FOUND: it has none. */
LOAM_API loam_status loam_txn_has(loam_txn *txn, loam_db *keyspace, const void *key,
  size_t key_len, char **err);
/* As loam_multi_get. */
LOAM_API loam_status loam_txn_multi_get(loam_txn *txn, loam_db *keyspace, size_t n,
  const void *const *keys, const size_t *key_lens, const void **values, size_t *value_lens,
  void **memory, char **err);
/* Stores a value, or removes a key, when the transaction commits; its own reads see that at
 * once. With LOAM_TXN_LOCK they lock the key, as loam_txn_get_for_update does. */
LOAM_API loam_status loam_txn_put(loam_txn *txn, loam_db *keyspace, const void *key,
  size_t key_len, const void *value, size_t value_len, char **err);
LOAM_API loam_status loam_txn_delete(loam_txn *txn, loam_db *keyspace, const void *key,
  size_t key_len, char **err);
/* As loam_put_ttl; the time begins with the commit. */
LOAM_API loam_status loam_txn_put_ttl(loam_txn *txn, loam_db *keyspace, const void *key,
  size_t key_len, const void *value, size_t value_len, uint64_t seconds, char **err);
/* As loam_merge; it counts as a write of the key. */
LOAM_API loam_status loam_txn_merge(loam_txn *txn, loam_db *keyspace, const void *key,
  size_t key_len, const void *operand, size_t operand_len, char **err);
/* As loam_delete_range. It takes no locks; another write in the range is LOAM_ERR_CONFLICT at
 * the commit. */
LOAM_API loam_status loam_txn_delete_range(loam_txn *txn, loam_db *keyspace, const void *start,
  size_t start_len, const void *limit, size_t limit_len, char **err);
/* Opens an iterator over what the transaction reads now; later writes are not seen. It
 * outlives the transaction. options: optional; its snapshot must be NULL, else
 * LOAM_ERR_INVALID_ARGUMENT. */
LOAM_API loam_status loam_txn_iter_create(loam_txn *txn, loam_db *keyspace,
  const loam_iter_options *options, loam_iter **iter, char **err);
/* Marks the present point of the transaction, to which loam_txn_rollback_to goes back. */
LOAM_API loam_status loam_txn_savepoint(loam_txn *txn, uint64_t *savepoint, char **err);
/* Takes back the writes and savepoints made after a savepoint, which itself stays. Locks are
 * kept. */
LOAM_API loam_status loam_txn_rollback_to(loam_txn *txn, uint64_t savepoint, char **err);
/* Writes all or, after a failure, nothing. Either ends the transaction. options: optional. */
LOAM_API loam_status loam_txn_commit(loam_txn *txn, const loam_write_options *options, char **err);
/* Ends the transaction without a trace; one that has ended stays as it is. A call of another thread
 * that waits for a lock of the transaction's ends with LOAM_ERR_TXN_DONE, here and below. */
LOAM_API loam_status loam_txn_rollback(loam_txn *txn, char **err);
/* Gives up the handle; a transaction that has not ended is rolled back. */
LOAM_API loam_status loam_txn_close(loam_txn *txn);

/* Stores a value if the key has the value old now: a transaction in one call. old NULL,
 * whatever the length: the key must have no value. value NULL: it is deleted.
 * LOAM_MISMATCH: the key has another value, and nothing was done. */
LOAM_API loam_status loam_compare_and_swap(loam_db *db, const loam_write_options *options,
  const void *key, size_t key_len, const void *old, size_t old_len, const void *value,
  size_t value_len, char **err);
/* Stores a value if the key has none. LOAM_MISMATCH: it has one. */
LOAM_API loam_status loam_put_if_absent(loam_db *db, const loam_write_options *options,
  const void *key, size_t key_len, const void *value, size_t value_len, char **err);

/* ---- Upkeep ---- */

/* Writes the memtables into tables. */
LOAM_API loam_status loam_flush(loam_db *db, char **err);
/* Merges everything from start up to, not including, stop; NULL: no bound. */
LOAM_API loam_status loam_compact(loam_db *db, const void *start, size_t start_len,
  const void *stop, size_t stop_len, char **err);
/* Reads every table whole, from the disk and past the cache, and checks sizes,
 * checksums, blocks, the order of keys and the numbers of entries. It changes
 * nothing. LOAM_ERR_CORRUPTION: the message names every damaged table,
 * loam_error_path gives the first. */
LOAM_API loam_status loam_verify(loam_db *db, char **err);
/* Encrypts all files with the current key of the option "encryption", while reads and writes go on;
 * see docs/encryption.md. The text of the option, and a key file, are read when the database is
 * opened: open it with the new key first. LOAM_ERR_INVALID_ARGUMENT: the option is not set. */
LOAM_API loam_status loam_rekey(loam_db *db, char **err);
/* The keys of the files in the directory, as a JSON list of objects with provider, id and files,
 * their number; files that are not encrypted have "" as provider and id. */
LOAM_API loam_status loam_keys_in_use(loam_db *db, char **json, char **err);
/* Stop and restart automatic compaction; each pause needs a resume. */
LOAM_API loam_status loam_pause_compaction(loam_db *db, char **err);
LOAM_API loam_status loam_resume_compaction(loam_db *db, char **err);
/* Tries failed background work again at once instead of after a pause, for instance when
 * disk space was freed. LOAM_ERR_READ_ONLY: the database must be closed and opened again. */
LOAM_API loam_status loam_retry(loam_db *db, char **err);

/* Jobs: the same work on a thread of its own, while the caller waits with loam_job_wait. A relative
 * path, here and elsewhere, is of the working directory at the call. */
LOAM_API loam_status loam_flush_start(loam_db *db, loam_job **job, char **err);
LOAM_API loam_status loam_compact_start(loam_db *db, const void *start, size_t start_len,
  const void *stop, size_t stop_len, loam_job **job, char **err);
LOAM_API loam_status loam_verify_start(loam_db *db, loam_job **job, char **err);
LOAM_API loam_status loam_rekey_start(loam_db *db, loam_job **job, char **err);
/* loam_close as a job: the database handle is gone at once. */
LOAM_API loam_status loam_close_start(loam_db *db, loam_job **job, char **err);
LOAM_API loam_status loam_open_start(const char *path, const loam_options *options, loam_job **job,
  char **err);
LOAM_API loam_status loam_repair_start(const char *path, const loam_options *options,
  loam_job **job, char **err);
LOAM_API loam_status loam_upgrade_start(const char *path, const loam_options *options,
  loam_job **job, char **err);
LOAM_API loam_status loam_export_start(const char *path, const char *to, const char *format,
  const loam_options *options, loam_job **job, char **err);
/* Waits at most timeout_ms (negative: as long as it takes). LOAM_TIMEOUT: it
 * still runs. Otherwise the status of the work, the same on every call. */
LOAM_API loam_status loam_job_wait(loam_job *job, int timeout_ms, char **err);
/* Work done and to be done, in bytes, as an estimate; both 0 when unknown. */
LOAM_API loam_status loam_job_progress(loam_job *job, uint64_t *done, uint64_t *total, char **err);
/* Asks the job to end early, with LOAM_ERR_CANCELLED. Compactions, exports,
 * verifications, checkpoints, backups, catch-ups, dumps and loads stop soon; other work runs to its
 * end. */
LOAM_API loam_status loam_job_cancel(loam_job *job, char **err);
/* What a finished job made: the database of loam_open_start (once), the JSON
 * report of loam_repair_start, loam_backup_create_start, loam_dump_start, loam_load_start and
 * loam_dump_verify_start. */
LOAM_API loam_status loam_job_db(loam_job *job, loam_db **db, char **err);
LOAM_API loam_status loam_job_report(loam_job *job, char **report, char **err);
/* Gives up the handle. The work goes on to its end; a database that was opened
 * and not fetched is closed. */
LOAM_API loam_status loam_job_close(loam_job *job);

/* ---- Followers ---- */

/* Opens a database that another process writes, LevelDB or goleveldb among them, for reading beside
 * it, in its present state: a loam_db for all calls that read. Nothing in the directory changes,
 * and no lock is taken. It is loam_open with the option "follow"; "follow_interval" catches up in
 * the background. LOAM_ERR_DOES_NOT_EXIST: there is no database. See docs/follower.md. */
LOAM_API loam_status loam_follower_open(const char *path, const loam_options *options,
  loam_db **db, char **err);
/* Moves on to what the writer has written up to this call, or more, in whole batches over all
 * keyspaces, never back. Snapshots and iterators keep their states. If it fails, the next call goes
 * on. LOAM_ERR_IO: the directory was replaced by another one or by an older state, or a read
 * failed. LOAM_ERR_INVALID_ARGUMENT: db is not a follower. */
LOAM_API loam_status loam_catch_up(loam_db *db, char **err);
LOAM_API loam_status loam_catch_up_start(loam_db *db, loam_job **job, char **err);
/* The number of operations in the directory that the follower does not show yet, and an upper bound
 * of their age; 0 if there is none. Either may be NULL. It fails as the last loam_catch_up did,
 * also one of "follow_interval". */
LOAM_API loam_status loam_lag(loam_db *db, uint64_t *sequences, uint64_t *microseconds, char **err);

/* ---- Copies ---- */

/* Makes path a database of its own that has what this one has now, all keyspaces and the
 * writes without a sync included, durable and at one moment, while writes go on. Tables are hard
 * links, or are copied where links do not reach; only the end of the log is copied always. path
 * must not exist, or be an empty directory (LOAM_ERR_EXISTS), in a directory that exists, outside
 * of the database (LOAM_ERR_INVALID_ARGUMENT). It is made under path with ".incomplete" behind it,
 * and renamed: a failed one leaves no files. */
LOAM_API loam_status loam_checkpoint(loam_db *db, const char *path, char **err);
LOAM_API loam_status loam_checkpoint_start(loam_db *db, const char *path, loam_job **job,
  char **err);

/* ---- Backups ---- */

enum {
  LOAM_BACKUP_READ_ONLY = 1,       /* changes nothing in the folder; readers share it */
  LOAM_BACKUP_ERROR_IF_MISSING = 2 /* LOAM_ERR_DOES_NOT_EXIST instead of a new folder */
};

/* Opens the folder of backups path, or makes it in a directory that exists, and locks it until it
 * is closed (LOAM_ERR_LOCKED). A directory with something else is LOAM_ERR_NOT_A_DATABASE. flags:
 * LOAM_BACKUP_*. */
LOAM_API loam_status loam_backup_open(const char *path, uint64_t flags, loam_backup **backup,
  char **err);
/* Makes a backup of what db has now, all keyspaces and the writes without a sync included, durable
 * and at one moment, while writes go on. What an earlier backup has is not copied again. Here and
 * below bytes_per_second bounds what is read; 0: no bound. *id is the backup's number; the report
 * of the job is what loam_backup_list says of it. A failed one leaves no files. */
LOAM_API loam_status loam_backup_create(loam_backup *backup, loam_db *db,
  uint64_t bytes_per_second, uint64_t *id, char **err);
LOAM_API loam_status loam_backup_create_start(loam_backup *backup, loam_db *db,
  uint64_t bytes_per_second, loam_job **job, char **err);
/* The backups, oldest first, as a JSON list of objects: id, created_ms (since 1970), database (its
 * directory), format, files, bytes, new_bytes (what no earlier backup had), and error, why it
 * cannot be read, or null. */
LOAM_API loam_status loam_backup_list(loam_backup *backup, char **json, char **err);
/* Reads all files of a backup and compares them with their checksums. LOAM_ERR_CORRUPTION: the
 * message names every damaged file, loam_error_path gives the first. Of this and the next,
 * LOAM_ERR_DOES_NOT_EXIST: there is no backup with this number. */
LOAM_API loam_status loam_backup_verify(loam_backup *backup, uint64_t id,
  uint64_t bytes_per_second, char **err);
LOAM_API loam_status loam_backup_verify_start(loam_backup *backup, uint64_t id,
  uint64_t bytes_per_second, loam_job **job, char **err);
/* Makes to a database as it was at the backup, durable, and compares all files with their
 * checksums. to must not exist, or be an empty directory (LOAM_ERR_EXISTS), in a directory that
 * exists. A failed one leaves no files. */
LOAM_API loam_status loam_backup_restore(loam_backup *backup, uint64_t id, const char *to,
  uint64_t bytes_per_second, char **err);
LOAM_API loam_status loam_backup_restore_start(loam_backup *backup, uint64_t id, const char *to,
  uint64_t bytes_per_second, loam_job **job, char **err);
/* Deletes a backup, and the files that no other backup needs. LOAM_ERR_DOES_NOT_EXIST: there is no
 * backup with this number. */
LOAM_API loam_status loam_backup_delete(loam_backup *backup, uint64_t id, char **err);
/* Deletes, of the backups of each database directory, all but the newest n. */
LOAM_API loam_status loam_backup_keep(loam_backup *backup, uint64_t n, char **err);
/* Closes the folder and gives its lock back; calls and jobs under way end with LOAM_ERR_CLOSED. */
LOAM_API loam_status loam_backup_close(loam_backup *backup);

/* ---- Options that change ---- */

/* Changes an option of an open database, by name and from text as loam_options_set: for
 * the whole database and all keyspaces that have no value of their own or, with the
 * handle of loam_keyspace_open, for that keyspace. It holds from the next memtable,
 * table or compaction on and is not stored. LOAM_ERR_INVALID_ARGUMENT: an unknown
 * name, a bad value, or an option that needs a reopen; nothing has changed then. */
LOAM_API loam_status loam_set_option(loam_db *db, const char *name, const char *value, char **err);
/* The value of an option that is in force; malloc'ed. */
LOAM_API loam_status loam_option(loam_db *db, const char *name, char **value, char **err);

/* ---- Dumps ---- */

/* A dump is one state of all keyspaces as a stream of bytes, which does not depend on the format or
 * the machine: docs/dump.md and docs/format-dump.md.
 *
 * write gets the next bytes of it, and returns other than 0 to end the call; read stores at most
 * capacity bytes, more than 0, at data, and returns how many, 0 at the end. Both report failures by
 * loam_callback_fail (LOAM_ERR_CALLBACK). They run on the calling thread, one at a time. */
typedef int (*loam_dump_write_fn)(void *arg, const void *data, size_t len, loam_failure *failure);
typedef size_t (*loam_dump_read_fn)(void *arg, void *data, size_t capacity, loam_failure *failure);

enum {
  /* Completes a dump that was cut: the descriptor is of a regular file that is open for
   * reading and writing. The state must be that of its beginning (snapshot, or a database that was
   * not written since): else LOAM_ERR_INVALID_ARGUMENT, and the file stays as it is. */
  LOAM_DUMP_CONTINUE = 1,
  /* Entries of the dump replace what is there; without it a keyspace that is not empty is
   * LOAM_ERR_EXISTS. */
  LOAM_LOAD_OVERWRITE = 1
};

/* Writes a dump of all keyspaces at snapshot (optional: the present), which stays open until the
 * end. compression is "none", "snappy" or "zstd" (NULL: snappy). info (optional) is malloc'ed JSON:
 * id, created (seconds since 1970), sequence, bytes (of keys and values), size (of the dump), and
 * keyspaces with name, comparator, merge_operator, expires and entries. */
LOAM_API loam_status loam_dump(loam_db *db, const loam_snapshot *snapshot, const char *compression,
  loam_dump_write_fn write, void *arg, char **info, char **err);
/* Loads a dump; all of it is durable then. A call that failed or was cut short by a crash is
 * repeated with the same dump from its beginning, and goes on where the first one ended.
 * LOAM_ERR_CORRUPTION: the dump is damaged or was cut. LOAM_ERR_IN_USE: another dump is being
 * loaded into the database. */
LOAM_API loam_status loam_load(loam_db *db, uint64_t flags, loam_dump_read_fn read, void *arg,
  char **info, char **err);
/* Reads and checks a whole dump. */
LOAM_API loam_status loam_dump_verify(loam_dump_read_fn read, void *arg, char **info, char **err);
/* LOAM_ERR_INVALID_ARGUMENT if a file of that name would lie in the database's directory, also by
 * way of links: a dump must not be written there. Call it before the file is opened. */
LOAM_API loam_status loam_dump_check(loam_db *db, const char *path, char **err);
/* The same as jobs, on a file descriptor: a regular file, a pipe or a socket, from where it is,
 * with LOAM_DUMP_CONTINUE from the beginning. The job has a descriptor of its own for the file, and
 * makes a regular one that it writes durable. On Windows fd is a HANDLE. loam_job_report gives
 * what info is. A cancel does not end a wait for a pipe: close its other end. */
LOAM_API loam_status loam_dump_start(loam_db *db, const loam_snapshot *snapshot,
  const char *compression, uint64_t flags, int fd, loam_job **job, char **err);
LOAM_API loam_status loam_load_start(loam_db *db, uint64_t flags, int fd, loam_job **job,
  char **err);
LOAM_API loam_status loam_dump_verify_start(int fd, loam_job **job, char **err);

/* ---- Changes ---- */

enum {
  LOAM_CHANGES_DURABLE = 1 /* nothing is shown that a power cut may take */
};

/* Opens a feed of the changes that a database commits, in all keyspaces: every operation once, in
 * order, from sequence number from on; 0: from the first that is there. It reads logs, which
 * "wal_retention_bytes" and "wal_retention_seconds" keep. LOAM_ERR_GAP, here and below: from is in
 * no log any more, or larger than the next one. flags: LOAM_CHANGES_DURABLE; not for a follower,
 * which shows what its catch-ups have read. Any number of threads may use a feed; a block goes to
 * one of them. See docs/changes.md. */
LOAM_API loam_status loam_changes_open(loam_db *db, uint64_t from, uint64_t flags,
  loam_changes **changes, char **err);
/* Stores a malloc'ed block of changes, those that are there, at least one: each as its length
 * (32-bit little-endian, not aligned) and its bytes, which are those of loam_batch_data with the
 * sequence number of the first operation. Their size goes to *len. max_bytes: no further change
 * once so many are full; 0: as the library sees fit. If there is none yet, or another thread waits
 * for it, it waits, at most timeout_ms (negative: as long as it takes), and then gives
 * LOAM_TIMEOUT. loam_changes_close and loam_close end the wait with LOAM_ERR_CLOSED. */
LOAM_API loam_status loam_changes_next(loam_changes *changes, size_t max_bytes, int timeout_ms,
  void **data, size_t *len, char **err);
/* The sequence number of the next operation: a feed that is opened with it goes on. */
LOAM_API loam_status loam_changes_position(loam_changes *changes, uint64_t *next, char **err);
/* The malloc'ed name of the keyspace that operations name by a number. LOAM_NOT_FOUND: it was
 * dropped. */
LOAM_API loam_status loam_changes_keyspace(loam_changes *changes, uint32_t number, char **name,
  char **err);
/* Ends the feed; a loam_changes_next that waits ends with LOAM_ERR_CLOSED. */
LOAM_API loam_status loam_changes_close(loam_changes *changes);
/* Reads the operation at *offset of a change's bytes, 0 being the first, and moves *offset behind
 * it; LOAM_END: there is none. operation points into the change. expires (may be NULL) receives
 * when the value of a LOAM_OP_PUT_TTL expires, in seconds since 1970, else 0. */
LOAM_API loam_status loam_change_operation(const void *change, size_t len, size_t *offset,
  loam_operation *operation, uint64_t *expires, char **err);

/* ---- Ingest and bulk load ---- */

/* Writes a table outside of a database, for loam_ingest. Creates the file, which must not exist
 * (LOAM_ERR_EXISTS). options: optional; of them count format and comparator, which must be those of
 * the keyspace that is to take the table, and what says how tables are written. */
LOAM_API loam_status loam_table_writer_create(const char *path, const loam_options *options,
  loam_table_writer **writer, char **err);
/* Keys ascend, and come once each: otherwise LOAM_ERR_INVALID_ARGUMENT, and the table stays as it
 * was. A deletion deletes what the database has when the table is ingested. Ranges come in any
 * order, and delete nothing of the tables that are ingested together. LOAM_ERR_NEEDS_NATIVE:
 * put_ttl and delete_range in LevelDB's format. */
LOAM_API loam_status loam_table_writer_put(loam_table_writer *writer, const void *key,
  size_t key_len, const void *value, size_t value_len, char **err);
LOAM_API loam_status loam_table_writer_put_ttl(loam_table_writer *writer, const void *key,
  size_t key_len, const void *value, size_t value_len, uint64_t seconds, char **err);
LOAM_API loam_status loam_table_writer_delete(loam_table_writer *writer, const void *key,
  size_t key_len, char **err);
LOAM_API loam_status loam_table_writer_delete_range(loam_table_writer *writer, const void *start,
  size_t start_len, const void *stop, size_t stop_len, char **err);
/* Adds the operations of a batch, in its order; after a failure those before the one that failed
 * are added. Merges, and operations for which loam_batch_in chose a keyspace, are
 * LOAM_ERR_INVALID_ARGUMENT. */
LOAM_API loam_status loam_table_writer_add(loam_table_writer *writer, const loam_batch *batch,
  char **err);
/* About how many bytes the file would have if the table were finished now. */
LOAM_API loam_status loam_table_writer_size(loam_table_writer *writer, uint64_t *size, char **err);
/* Writes the rest and makes the table durable, under its name. If it fails the file is removed. */
LOAM_API loam_status loam_table_writer_finish(loam_table_writer *writer, char **err);
/* Gives up the handle; a table that was not finished is removed. */
LOAM_API loam_status loam_table_writer_close(loam_table_writer *writer);

enum {
  LOAM_INGEST_MOVE = 1,   /* remove the files when their entries are durable in the database */
  /* delete what there is from start up to, not including, stop, in the same step */
  LOAM_INGEST_EXCISE = 2
};

typedef struct loam_ingest_options {
  size_t struct_size;
  uint64_t flags; /* LOAM_INGEST_* */
  const void *start;
  size_t start_len;
  const void *stop;
  size_t stop_len;
} loam_ingest_options;

/* Takes tables of loam_table_writer into the database, all or none of them: newer than all that is
 * there, invisible to open snapshots and iterators, durable when it returns. The files are read
 * first, and linked, or copied where links do not reach; they stay, and must not be changed
 * afterwards. options: optional. Tables that overlap each other, or are of the other format or a
 * database's, are LOAM_ERR_INVALID_ARGUMENT, damaged ones LOAM_ERR_CORRUPTION.
 * LOAM_ERR_NEEDS_NATIVE: in LevelDB's format the range of a table overlaps that of one of the
 * database, or a snapshot is open. */
LOAM_API loam_status loam_ingest(loam_db *db, const loam_ingest_options *options, size_t n,
  const char *const *paths, char **err);
LOAM_API loam_status loam_ingest_start(loam_db *db, const loam_ingest_options *options, size_t n,
  const char *const *paths, loam_job **job, char **err);

typedef struct loam_bulk_load_options {
  size_t struct_size;
  uint64_t flags;  /* none yet: 0 */
  uint64_t memory; /* bytes of entries before a sorted run is written; 0: 4 * write_buffer_size */
} loam_bulk_load_options;

/* Begins a load: entries in any order, which are sorted, with the help of files in the directory,
 * and ingested as tables. options: optional. */
LOAM_API loam_status loam_bulk_load_begin(loam_db *db, const loam_bulk_load_options *options,
  loam_bulk_load **load, char **err);
/* Of entries with the same key the last one counts. The batch has nothing but puts. */
LOAM_API loam_status loam_bulk_load_put(loam_bulk_load *load, const void *key, size_t key_len,
  const void *value, size_t value_len, char **err);
LOAM_API loam_status loam_bulk_load_add(loam_bulk_load *load, const loam_batch *batch, char **err);
/* Makes all entries durable in the database, in one step, or none if it fails; it ends the load. */
LOAM_API loam_status loam_bulk_load_finish(loam_bulk_load *load, char **err);
LOAM_API loam_status loam_bulk_load_finish_start(loam_bulk_load *load, loam_job **job, char **err);
/* Gives up the handle; an unfinished load leaves no entries and no files. */
LOAM_API loam_status loam_bulk_load_close(loam_bulk_load *load);

/* ---- Information; strings are malloc'ed ---- */

/* LevelDB's properties, such as "leveldb.stats", or "stats". LOAM_NOT_FOUND: unknown. */
LOAM_API loam_status loam_property(loam_db *db, const char *name, char **value, char **err);
/* All counters as JSON, as docs/metrics.md describes them. */
LOAM_API loam_status loam_metrics(loam_db *db, char **json, char **err);
/* What the opening found in the logs and what an unclean end cut off, as JSON. */
LOAM_API loam_status loam_recovery_report(loam_db *db, char **json, char **err);
/* The name of the database's comparator. */
LOAM_API loam_status loam_comparator_name(loam_db *db, char **name, char **err);
/* Bytes on disk of n key ranges, each from start up to, not including, stop;
 * NULL: no bound. */
LOAM_API loam_status loam_approximate_sizes(loam_db *db, size_t n, const void *const *starts,
  const size_t *start_lens, const void *const *stops, const size_t *stop_lens, uint64_t *sizes,
  char **err);

#ifdef __cplusplus
}
#endif

#endif
