/*
 * The native half of the package: Node-API in C over libloam.
 *
 * Everything here runs on the JavaScript thread of its environment, except the
 * run functions of work items, which run on libuv's pool or the threads of
 * threads.c and touch only their own work item and the library. Each worker thread has an
 * environment of its own; they share nothing but the library, these
 * threads and the databases opened with "multithreading" (shared.c).
 */
#ifndef LOAMDB_ADDON_H
#define LOAMDB_ADDON_H

#define NAPI_VERSION 8
#include <node_api.h>

#include <pthread.h>
#include <stddef.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "library.h"

/* Bytes of the buffer through which values reach JavaScript. */
#define SCRATCH_SIZE (64 * 1024)

/* Flags shared with binding.js. */
enum {
  FLAG_AS_BUFFER = 1, /* values as bytes, else as strings */
  FLAG_NO_FILL = 2,
  FLAG_MAY_BLOCK = 4, /* get: read from disk if need be */
  FLAG_REVERSE = 8,
  FLAG_KEYS = 16, /* iterator: the parts wanted */
  FLAG_VALUES = 32,
  FLAG_TEXT_KEYS = 64, /* iterator: as strings */
  FLAG_TEXT_VALUES = 128,
  FLAG_AFTER_LOWER = 256,   /* ranges: the lower bound itself is outside */
  FLAG_THROUGH_UPPER = 512, /* the upper bound itself is inside */
  FLAG_EXACT = 1024         /* iterator: stop right above the byte limit */
};

/* Besides LOAM_ERR_*: the library could not be loaded. */
#define STATUS_NOT_LOADED (-1000)

struct database;

/* Every struct that JavaScript holds as an external begins with its kind. */
typedef enum kind { KIND_DATABASE = 0x6c6f6101, KIND_SNAPSHOT, KIND_ITERATOR, KIND_CACHE, KIND_JOB,
  KIND_TRANSACTION, KIND_FOLDER, KIND_CHANGES, KIND_TABLE, KIND_LOAD } kind;

struct work;
typedef struct answers answers;

/* Per environment. */
typedef struct addon {
  atomic_uint refs; /* the environment, and each database struct */
  char *library_path;
  char *scratch; /* SCRATCH_SIZE bytes of a Buffer that JavaScript reads */
  napi_ref scratch_ref;
  struct database *databases; /* those not yet freed, until the environment ends */
  struct work *works;         /* items of threads.c whose answers have not come */
  answers *answers;
} addon;

static inline uint32_t u32le(const unsigned char *p) {
  return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* Options of one call of the library. */
#define READ(snap, what) (&(loam_read_options){sizeof(loam_read_options), (what), (snap)})
#define WRITE(what) (&(loam_write_options){sizeof(loam_write_options), (what)})

typedef struct database {
  kind kind;
  addon *owner;
  struct database *next, **link; /* link NULL: not in the owner's list */
  loam_db *db; /* NULL unless open */
  bool shared; /* opened with multithreading */
  bool bytewise; /* the keys' order; set while open */
  bool follows;  /* opened with follow: making a snapshot may wait for a catch-up */
  atomic_uint refs; /* the JavaScript object, and each work item */
  unsigned running; /* work items that closing waits for */
  struct work *closing;
  struct work *writing; /* the last write that was queued, until it completes */
} database;

enum { WORK_QUEUED, WORK_RUNNING, WORK_DONE };

/* Where an item runs. */
typedef enum work_kind {
  WORK_POOL, /* short: libuv's pool */
  WORK_LONG, /* an environment that ends waits for it, if it runs */
  WORK_WAITS /* for other work; an environment that ends does not wait for it */
} work_kind;

/* A message of another thread. deliver is called once: on the JavaScript thread, or on any
 * thread with env NULL if the environment has ended. */
typedef struct answer {
  void (*deliver)(napi_env env, struct answer *a);
} answer;

/* A unit of work, the first member of a larger struct. run is called at most once, on a thread
 * as the kind says or by work_finish; finish on the JavaScript thread after run gave a status
 * that is not negative, to make the promise's value (a NULL finish: undefined; it returns NULL
 * with an exception pending); end on the JavaScript thread if the environment ends before an
 * item that waits (NULL: nothing ends the wait); release always, before the struct is freed, on
 * any thread and without Node-API: it gives up what run did not. */
typedef struct work {
  answer answer;
  atomic_int state;
  work_kind kind;
  void (*run)(struct work *);
  napi_value (*finish)(napi_env, struct work *);
  void (*end)(struct work *);
  void (*release)(struct work *);
  database *db;     /* referenced; may be NULL */
  bool counts;      /* closing the database waits for it */
  loam_status status;
  char *error;      /* malloc'ed by the library, or by library_load */
  napi_async_work handle; /* of the pool */
  napi_deferred deferred;
  answers *answers;            /* referenced; this and the rest: not of WORK_POOL */
  bool answered;               /* sent, or refused by answers_send; under work_mutex */
  struct work *next;           /* of a queue of threads.c */
  struct work *later, **link;  /* of the list of the environment */
} work;

/* A string argument as UTF-8, or the bytes of a Uint8Array. */
typedef struct text {
  const char *data;
  size_t len;
  char *heap; /* data when it was malloc'ed */
  char local[768];
} text;

/* A range of keys, with bounds as the library has them once it is resolved. */
typedef struct range {
  char *lower, *upper; /* malloc'ed; NULL: none */
  size_t lower_len, upper_len;
  bool after_lower, through_upper; /* range_resolve has to find the next key */
  bool nothing;                    /* no key is in it */
} range;

/* ---- addon.c ---- */

bool text_read(napi_env env, napi_value value, text *t); /* false: an exception is pending */
/* Two arguments. Behind a view without bytes, whose check may run code of the program that
 * transfers the bytes of the first one, that one is read again. */
bool text_pair(napi_env env, const napi_value *argv, text *first, text *second);
void text_free(text *t);
char *text_copy(const char *text); /* malloc'ed; NULL: no memory */
/* Copies a string or Uint8Array to malloc'ed memory; NULL for undefined and null. */
bool bytes_copy(napi_env env, napi_value value, char **data, size_t *len);

/* ---- arguments.c: false and NULL, an exception is pending ---- */

/* Bytes of an argument, malloc'ed; data is NULL for undefined and null. */
typedef struct bytes {
  char *data;
  size_t len;
} bytes;

bool bytes_args(napi_env env, const napi_value *argv, bytes *out, size_t n);
void bytes_free(bytes *b, size_t n);
bool arg_bool(napi_env env, napi_value value); /* false for what is no boolean */
/* A malloc'ed string without zero bytes, which would end it early; refusal says what it is. */
bool arg_name(napi_env env, napi_value value, const char *refusal, char **text);
bool arg_path(napi_env env, napi_value value, char **path); /* the same */
/* A database object that is not open. */
database *arg_unopened(napi_env env, napi_value value, const char *refusal);
/* A new item on an open database; release is called by work_fail, too. */
void *work_for(napi_env env, napi_value value, database **db, size_t size, void (*run)(work *),
  void (*release)(work *));
/* Gives up an item that was not queued, and returns NULL. */
napi_value work_fail(work *w);
/* Throws the failure of a call of the library, if it is one, and returns NULL. */
napi_value refused(napi_env env, loam_status status, char *error);

/* ---- addon.c ---- */

/* message: what the library stored, or NULL */
napi_value make_error(napi_env env, loam_status status, char *message);
void throw_status(napi_env env, loam_status status, char *message); /* frees message */
void throw_memory(napi_env env);
void throw_failure(napi_env env); /* of a call of Node-API; keeps a pending exception */
bool is_ascii(const char *data, size_t len);
/* These return NULL with an exception pending: strings can be too long for V8. */
napi_value make_string(napi_env env, const char *data, size_t len);
napi_value make_bytes(napi_env env, const void *data, size_t len);
napi_value make_array(napi_env env);
uint32_t arg_u32(napi_env env, napi_value value);
size_t arg_size(napi_env env, napi_value value);
addon *get_addon(napi_env env);
void addon_unref(addon *a);

/* finalize frees data also when this fails. */
napi_value make_external(napi_env env, void *data, napi_finalize finalize);
void *get_external(napi_env env, napi_value value, kind kind); /* NULL: an exception is pending */

/* ---- work.c ---- */

void *work_new(napi_env env, size_t size); /* zeroed; NULL: an exception is pending */
/* These hand the item over and return a promise; NULL: an exception is pending. They own the
 * item from then on. Closing the database, if there is one, waits for it. */
napi_value work_queue(napi_env env, work *w, database *db, const char *name); /* to the pool */
napi_value work_long(napi_env env, work *w, database *db);
napi_value work_wait(napi_env env, work *w, database *db);
/* The closing itself, a long item: it starts when the other items have completed. */
napi_value work_close(napi_env env, work *w, database *db);
napi_value work_write(napi_env env, work *w, database *db); /* waits; becomes db->writing */
/* The environment ends. */
void works_end(addon *a);
/* Returns when the item has run; runs it in this thread if the pool has not begun it. */
void work_finish(work *w);
void work_run(work *w); /* for threads.c */
void work_leave(napi_env env, work *w); /* frees an item that was not started */
void database_unref(database *db);

/* ---- threads.c ---- */

extern pthread_mutex_t work_mutex; /* of the queues, and of what becomes of items */
bool threads_start(work *w); /* false: there is no thread */
bool threads_stop(work *w);  /* takes an item back; false: a thread has begun it */

/* ---- answers.c ---- */

answers *answers_new(napi_env env); /* NULL: it failed */
answers *answers_ref(answers *to);
void answers_unref(answers *to);
/* Any thread. false: the environment has ended, and the caller calls deliver with env NULL. */
bool answers_send(answers *to, answer *a);
/* At the end of the environment: no answer is sent after this. */
void answers_close(answers *to);
/* The process stays alive between answers_await and answers_came. JavaScript thread. */
void answers_await(napi_env env, answers *to);
void answers_came(napi_env env, answers *to);

/* ---- database.c ---- */

/* The struct of the kind behind an external; NULL: an exception is pending. */
database *arg_database(napi_env env, napi_value value);      /* open or not */
database *arg_open_database(napi_env env, napi_value value); /* open */

/* A snapshot argument: undefined is none. false: an exception is pending. */
bool arg_snapshot(napi_env env, napi_value value, const loam_snapshot **snapshot);

/* A transaction argument: undefined is none. false: an exception is pending. */
bool arg_transaction(napi_env env, napi_value value, loam_txn **txn);

/* NULL: an exception is pending. */
loam_cache *arg_cache(napi_env env, napi_value value);

/* Closes every database of the environment, which is ending. */
void databases_close(addon *a);

/* An array of names and values as strings, with NULL behind the last. false: an exception is
 * pending, and the caller frees what there is. */
bool options_read(napi_env env, napi_value array, char ***options);

/* ---- upkeep.c ---- */

/* An object of a job that was started; throws the failure if it was not. */
napi_value make_job(napi_env env, loam_status status, loam_job *job, char *error);

/* ---- range.c ---- */

/* false: an exception is pending */
bool range_read(napi_env env, range *r, napi_value lower, napi_value upper, uint32_t flags,
  bool bytewise);
void range_free(range *r);
/* The upper bound for an iterator that is to resolve the range. */
static inline const char *range_upper(const range *r) { return r->through_upper ? NULL : r->upper; }
/* Before the first use of an iterator; again, it does nothing. */
loam_status range_resolve(range *r, loam_iter *iter, char **error);

/* ---- logger.c: messages of the engine for a JavaScript function ---- */

struct logger;

/* NULL: an exception is pending. Keeps the function weakly: the caller holds it. */
struct logger *logger_new(napi_env env, napi_value function);
/* any thread */
void logger_log(void *logger, int level, const char *message, loam_failure *failure);
void logger_destroy(void *logger); /* any thread */

/* ---- shared.c: databases that several environments have open ---- */

loam_status shared_open(const char *path, const loam_options *options, loam_db **db, char **err);
/* Closes the database when the caller is its last user. */
loam_status shared_close(loam_db *db, char **err);

/* ---- exported to JavaScript ---- */

#define NATIVE_FUNCTIONS(X)                                                    \
  X(load) X(database) X(open) X(close) X(destroy) X(repair) X(upgrade) X(export) \
  X(keyspaceOpen) X(keyspaceDrop) X(keyspaceList) X(keyspaceNumber)            \
  X(snapshot) X(snapshotMake) X(snapshotClose) X(cache) X(cacheClose)                          \
  X(resources) X(resourcesSet) X(resourcesMetrics) X(setOption) X(option)      \
  X(property) X(metrics) X(recoveryReport) X(keysInUse) X(comparatorName)      \
  X(flush) X(approximateSizes)                                                 \
  X(dumpStart) X(loadStart) X(dumpVerifyStart) X(dumpCheck) X(pipe) X(pipeClose) \
  X(compactStart) X(verifyStart) X(rekeyStart) X(checkpointStart)              \
  X(jobWait) X(jobResult) X(jobProgress) X(jobCancel)                          \
  X(backupOpen) X(backupCreate) X(backupList) X(backupVerify) X(backupRestore) \
  X(backupDelete) X(backupKeep) X(backupClose)                                 \
  X(pauseCompaction) X(resumeCompaction) X(retry)                              \
  X(get) X(has) X(getMany) X(hasMany)                                          \
  X(put) X(write) X(writeAsync) X(clear) X(deleteRange)                        \
  X(deleteRangeSync) X(finishWrite)                                            \
  X(transactionBegin) X(transactionGet) X(transactionHas) X(transactionWrite)  \
  X(transactionCommit)                                                         \
  X(transactionRollback) X(transactionSavepoint) X(transactionRollbackTo)      \
  X(compareAndSwap) X(ttl) X(catchUpStart) X(lag)                              \
  X(changesOpen) X(changesNext) X(changesPosition) X(changesKeyspace)          \
  X(changesClose)                                                              \
  X(tableCreate) X(tableWrite) X(tableSize) X(tableEnd) X(ingestStart)         \
  X(bulkLoadBegin) X(bulkLoadAdd) X(bulkLoadFinish) X(bulkLoadClose)           \
  X(iterator) X(iteratorSeek) X(iteratorNext) X(iteratorNextSync) X(iteratorClose)

#define X(name) napi_value js_##name(napi_env env, napi_callback_info info);
NATIVE_FUNCTIONS(X)
#undef X

#define ARGS(n)                                                                \
  size_t argc = (n);                                                           \
  napi_value argv[n];                                                          \
  if (napi_get_cb_info(env, info, &argc, argv, NULL, NULL) != napi_ok) return NULL

#endif
