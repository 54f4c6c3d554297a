//go:build cgo

/* What the C files share, and what Go and C know of each other. */
#ifndef LOAM_SHIM_H
#define LOAM_SHIM_H

#include "loam.h"

#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

/* A mask of signals, which Windows does not have. */
#ifdef _WIN32
typedef char loam_mask;
#else
typedef sigset_t loam_mask;
#endif

/* ---- For Go (callbacks.c) ---- */

/* malloc that reports failure: cgo's own ends the process. */
void *loamgo_alloc(size_t n);
void loamgo_release(void *p);
/* A message with what loam_error_errno and loam_error_path tell; path_len 0: no
 * path. NULL when memory is out. */
char *loamgo_message(const char *text, size_t len, int number, const char *path, size_t path_len);
/* -1, 0, 1, or the address of the message of a failure, see loamgo_failure_text. */
intptr_t loamgo_compare(uintptr_t fn, uintptr_t arg, const unsigned char *a, size_t a_len,
  const unsigned char *b, size_t b_len);
/* What a filter answers; value is malloc'ed. failure is 0 or the address of its message. */
typedef struct {
  int decision;
  void *value;
  size_t len;
  intptr_t failure;
} loamgo_filtered;
loamgo_filtered loamgo_filter(uintptr_t fn, uintptr_t arg, int level, const unsigned char *key,
  size_t key_len, const unsigned char *value, size_t value_len);
/* Merge operators: 0, or the address of the message of a failure. *out is to be released. */
intptr_t loamgo_merge_full(uintptr_t fn, uintptr_t arg, const unsigned char *key, size_t key_len,
  const unsigned char *existing, size_t existing_len, int exists,
                           const unsigned char *operands, const uint64_t *ends, size_t count,
                           void **out, size_t *out_len);
intptr_t loamgo_merge_partial(uintptr_t fn, uintptr_t arg, const unsigned char *key,
  size_t key_len, const unsigned char *left, size_t left_len,
                              const unsigned char *right, size_t right_len, int *joined,
                              void **out, size_t *out_len);
/* Dumps: 0, or the address of the message of a failure. */
intptr_t loamgo_dump_write(uintptr_t fn, uintptr_t arg, const unsigned char *data, size_t len);
intptr_t loamgo_dump_read(uintptr_t fn, uintptr_t arg, unsigned char *data, size_t capacity,
  size_t *len);
/* Whether a comparator called loam_callback_interrupt on this thread since the last question. */
int loamgo_interrupted(void);
/* 0 or the address of the message of a failure. */
intptr_t loamgo_log(uintptr_t fn, uintptr_t arg, int level, const char *message);
/* The words of a failure, until it is freed. */
const char *loamgo_failure_text(intptr_t failure);
void loamgo_failure_free(intptr_t failure);
void loamgo_call_destroy(uintptr_t fn, uintptr_t arg);

/* Codes of the exported Go functions. */
enum {
  LOAMGO_CONTINUE = 0, /* loamgo_iter_fetch: where the block begins */
  LOAMGO_FIRST,
  LOAMGO_SEEK_GE,
  LOAMGO_AFTER, /* the entry after key, which is an entry */
  LOAMGO_BACKWARD,
  LOAMGO_LAST,
  LOAMGO_SEEK_LT,
  LOAMGO_TAKE, /* the block that did not fit */

  LOAMGO_FLUSH = 0, /* loamgo_admin, loamgo_db_start */
  LOAMGO_PAUSE,
  LOAMGO_UNPAUSE,
  LOAMGO_RETRY,
  LOAMGO_CLOSE,
  LOAMGO_VERIFY,
  LOAMGO_REKEY,

  LOAMGO_PROPERTY = 0, /* loamgo_text */
  LOAMGO_METRICS,
  LOAMGO_RECOVERY,
  LOAMGO_COMPARATOR,
  LOAMGO_OPTION_DOCS,
  LOAMGO_KEYSPACES,
  LOAMGO_KEYS,

  LOAMGO_OPTIONS = 1, /* kinds, as in handles.go */
  LOAMGO_CACHE,
  LOAMGO_DB,
  LOAMGO_SNAPSHOT,
  LOAMGO_ITERATOR,
  LOAMGO_JOB,
  LOAMGO_TXN,
  LOAMGO_BACKUP,
  LOAMGO_CHANGES,
  LOAMGO_TABLE_WRITER,
  LOAMGO_BULK_LOAD,
  LOAMGO_PINNED
};

typedef struct {
  size_t len, count;
  int more; /* another fetch in the same direction may find something */
} loamgo_block;

/* loam_iter_options with the handle as an integer: Go's collector must not
 * take it for a pointer. */
typedef struct {
  uint64_t snapshot, flags;
  const void *lower, *upper, *prefix;
  size_t lower_len, upper_len, prefix_len;
} loamgo_iter_options;

/* ---- For C ---- */

_Static_assert(sizeof(void *) == 8, "handles take 64 bits");

#define HANDLE(p) ((uint64_t)(uintptr_t)(p))
/* A DLL exports only what is marked so, and its thread-local variables have one model. */
#ifdef _WIN32
#define HIDDEN
#define LOCAL_TLS
#else
#define HIDDEN __attribute__((visibility("hidden")))
#define LOCAL_TLS __attribute__((tls_model("initial-exec")))
#endif

/* Keys, values and batches must stay below this: a memtable's addresses. */
#define MAX_BYTES ((size_t)UINT32_MAX - (1 << 20))
/* Entries of the lists given to one call. */
#define MAX_LIST ((size_t)1 << 27)

/* ctor.c: true in a child after fork. */
extern _Atomic bool loam_forked HIDDEN;
/* ctor.c: Go stops its threads by SIGURG. Makes the program's handler safe on them,
 * then lets it run there. */
HIDDEN void loam_signal_stacks(void);

/* ctor.c: changes the calling thread's mask. */
HIDDEN void loam_set_mask(const loam_mask *mask, loam_mask *before);
/* ctor.c: the mask of the thread that loaded the library. */
extern loam_mask loam_loader_mask HIDDEN;

/* threads.c: readies a thread for its first call of Go. False while it is in a callback: what the
 * call may do there is decided off the hot path. */
extern __thread bool loam_thread_ready HIDDEN LOCAL_TLS;
/* threads.c: started by Go, with all signals blocked. */
extern __thread bool loam_go_thread HIDDEN LOCAL_TLS;
HIDDEN void loam_prepare_thread(void) __attribute__((cold));

/* callbacks.c: the callbacks that the thread is in, innermost first. What they may do:
 * nothing, as a comparator, which runs under locks; read, but not in a read of their own; or
 * all but close a database. */
enum { CALLBACK_ALONE, CALLBACK_READS, CALLBACK_STAYS };
typedef struct loam_callback {
  struct loam_callback *outer;
  const char *name;
  int may;
  bool ready; /* loam_thread_ready before */
} loam_callback;
extern __thread loam_callback *loam_callbacks HIDDEN LOCAL_TLS;

static inline void loam_callback_begin(loam_callback *c, const char *name, int may) {
  *c = (loam_callback){loam_callbacks, name, may, loam_thread_ready};
  loam_callbacks = c;
  loam_thread_ready = false;
}

static inline void loam_callback_end(const loam_callback *c) {
  loam_thread_ready = c->ready;
  loam_callbacks = c->outer;
}

/* What a call does: CALL_CLOSES is a database's close. */
enum { CALL_READS, CALL_OTHER, CALL_CLOSES };
/* Readies the thread for a call of Go, unless a callback that it is in forbids the call. */
HIDDEN loam_status loam_enter(int call, char **err) __attribute__((cold));
/* threads.c: lets SIGURG reach Go's threads, which block it before. */
HIDDEN void loam_admit_urgent(void);
/* threads.c: adds to the mask of a thread of Go's what it blocks until then. */
HIDDEN void loam_keep_urgent(loam_mask *mask);

/* shim.c: stores a message and returns the status. */
HIDDEN loam_status loam_fail(char **err, loam_status status, const char *format,
  ...) __attribute__((format(printf, 3, 4), cold));
/* A copy of a message, with what loam_error_errno and loam_error_path tell; NULL when memory is
 * out. */
HIDDEN char *loam_message_copy(const char *message);
HIDDEN loam_status loam_fail_forked(char **err) __attribute__((cold));
HIDDEN loam_status loam_fail_bytes(char **err, const char *what, const void *p,
  size_t n) __attribute__((cold));

/* shim.c: closes an object of Go's that has nothing to say; in a callback it is closed by another
 * thread, as the call that the callback is of may have it. */
HIDDEN loam_status loam_release(uint64_t handle, unsigned kind);

/* What a callback is called for. */
struct loam_failure {
  char *message; /* NULL: it has not failed */
};
/* callbacks.c: hands a callback's failure on and frees it. */
HIDDEN loam_status loam_fail_callback(char **err, loam_failure *failure) __attribute__((cold));

/* Before BEGIN: a result is NULL unless the call makes it. */
#define CLEAR(out)        \
  do {                    \
    if (out) *(out) = NULL; \
  } while (0)

/* Begins every function: no message yet, and not in a forked child. BEGIN_C is
 * for those that do not cross into Go, or call ENTER before they do. */
#define BEGIN_C(err)                                        \
  do {                                                      \
    if (err) *(err) = NULL;                                 \
    if (__builtin_expect(loam_forked, 0)) return loam_fail_forked(err); \
  } while (0)

#define ENTER_TO(call, err)                                                                \
  do {                                                                                    \
    if (__builtin_expect(!loam_thread_ready, 0)) {                                        \
      loam_status entered_ = loam_enter(call, err);                                       \
      if (entered_ != LOAM_OK) return entered_;                                           \
    }                                                                                     \
  } while (0)
#define ENTER(err) ENTER_TO(CALL_OTHER, err)

#define BEGIN_TO(call, err) \
  do {                      \
    BEGIN_C(err);           \
    ENTER_TO(call, err);    \
  } while (0)
#define BEGIN(err) BEGIN_TO(CALL_OTHER, err)
/* Of a call that only reads a database or a snapshot, or sets up a read. */
#define BEGIN_READ(err) BEGIN_TO(CALL_READS, err)

#define WANT(err, p, name)                                                                  \
  do {                                                                                      \
    if (__builtin_expect(!(p), 0))                                                          \
      return loam_fail(err, LOAM_ERR_INVALID_ARGUMENT, "loam: %s is NULL", name);           \
  } while (0)

#define BYTES(err, p, n, name)                                                              \
  do {                                                                                      \
    if (__builtin_expect((n) >= MAX_BYTES || (!(p) && (n)), 0))                             \
      return loam_fail_bytes(err, name, p, n);                                              \
  } while (0)

#define BOUND(err, p, n, name)                                                              \
  do {                                                                                      \
    if ((p) && (n) >= MAX_BYTES) return loam_fail_bytes(err, name, p, n);                   \
  } while (0)

#define FLAGS(err, flags, known)                                                            \
  do {                                                                                      \
    if (__builtin_expect(((flags) & ~(uint64_t)(known)) != 0, 0))                           \
      return loam_fail(err, LOAM_ERR_INVALID_ARGUMENT, "loam: unknown flags 0x%llx",         \
        (unsigned long long)((flags) & ~(uint64_t)(known)));                                \
  } while (0)

/* A struct of the caller's, which may be of a later version. */
#define SIZED(err, p, type)                                                                 \
  do {                                                                                      \
    if (__builtin_expect((p)->struct_size != sizeof(type), 0)) {                            \
      loam_status sized_ = loam_check_size(err, p, (p)->struct_size, sizeof(type), #type);  \
      if (sized_ != LOAM_OK) return sized_;                                                 \
    }                                                                                       \
  } while (0)
/* Sets a variable flags of the caller's to what write options say. */
#define WRITING(err, options)                              \
  uint64_t flags = 0;                                      \
  if (options) {                                           \
    SIZED(err, options, loam_write_options);               \
    FLAGS(err, (options)->flags, LOAM_SYNC | LOAM_NO_STALL); \
    flags = (options)->flags;                              \
  }

HIDDEN loam_status loam_check_size(char **err, const void *p, size_t size, size_t known,
  const char *type) __attribute__((cold));

/* slots.c: the objects that live in C memory. One thread at a time has an
 * object, between acquire and release. */
enum { KIND_BATCH = 0x41, KIND_ITER = 0x42 };

/* A slot's word is generation << 32 | kind << 8 | state. The thread that swaps SLOT_IDLE for
 * SLOT_BUSY has the object alone. From SLOT_SHARED on the state counts the readers of
 * the object: SLOT_SHARED is one. Slots are never freed, so that a
 * look at any handle's slot is always allowed. */
enum { SLOT_FREE, SLOT_IDLE, SLOT_BUSY, SLOT_SHARED, SLOT_SHARED_MOST = 255 };

typedef struct {
  _Atomic uint64_t word;
  /* Of SLOT_BUSY: the address of a variable of the thread. 0 in every other
   * state, so that nobody takes a former owner for the present one. */
  _Atomic uintptr_t owner;
  void *object;
  char pad[40]; /* one slot per cache line */
} loam_slot;

enum { SLOT_CHUNK_BITS = 10, SLOT_CHUNKS = 1 << (24 - SLOT_CHUNK_BITS) };

extern _Atomic(loam_slot *) loam_slot_chunks[SLOT_CHUNKS] HIDDEN;
extern __thread char loam_slot_self HIDDEN LOCAL_TLS;

/* The slot of a handle's index; NULL if there is none. */
static inline loam_slot *loam_slot_at(uint64_t handle) {
  loam_slot *chunk = atomic_load_explicit(
    &loam_slot_chunks[(handle & 0xffffff) >> SLOT_CHUNK_BITS], memory_order_acquire);
  return chunk ? &chunk[handle & ((1 << SLOT_CHUNK_BITS) - 1)] : NULL;
}

static inline uint64_t loam_slot_word(uint64_t handle, int state) {
  return (handle >> 24 & UINT32_MAX) << 32 | handle >> 56 << 8 | (uint64_t)state;
}

/* Makes a handle for object; 0 when memory is out. */
HIDDEN uint64_t loam_slot_add(int kind, void *object);
/* Why a handle was not acquired, from its slot's word. */
HIDDEN loam_status loam_slot_mismatch(uint64_t handle, uint64_t word) __attribute__((cold));
/* Ends the handle once nobody has the object, and hands the object over. */
HIDDEN loam_status loam_slot_remove(uint64_t handle, int kind, void **object);

/* Takes the slot with its object: LOAM_OK, or the reason why not. */
static inline loam_status loam_slot_take(uint64_t handle, int kind, loam_slot **slot) {
  loam_slot *s = loam_slot_at(handle);
  if (__builtin_expect((int)(handle >> 56) != kind || !s, 0)) return LOAM_ERR_INVALID_HANDLE;
  uint64_t word = loam_slot_word(handle, SLOT_IDLE);
  if (__builtin_expect(!atomic_compare_exchange_strong_explicit(
    &s->word, &word, loam_slot_word(handle, SLOT_BUSY), memory_order_acquire,
    memory_order_relaxed), 0))
    return loam_slot_mismatch(handle, word);
  atomic_store_explicit(&s->owner, (uintptr_t)&loam_slot_self, memory_order_relaxed);
  *slot = s;
  return LOAM_OK;
}

static inline void loam_slot_give(loam_slot *s, uint64_t handle) {
  atomic_store_explicit(&s->owner, 0, memory_order_relaxed);
  atomic_store_explicit(&s->word, loam_slot_word(handle, SLOT_IDLE), memory_order_release);
}

static inline loam_status loam_slot_acquire(uint64_t handle, int kind, void **object) {
  loam_slot *s;
  loam_status status = loam_slot_take(handle, kind, &s);
  if (status == LOAM_OK) *object = s->object;
  return status;
}

static inline void loam_slot_release(uint64_t handle) {
  loam_slot *s = loam_slot_at(handle);
  if (!s) __builtin_unreachable(); /* it was acquired */
  loam_slot_give(s, handle);
}

/* Shares the object with its other readers: LOAM_OK, or the reason why not. */
HIDDEN loam_status loam_slot_share(uint64_t handle, int kind, void **object);
HIDDEN void loam_slot_unshare(uint64_t handle);

/* The objects that the thread shares while it is in callbacks, innermost first. */
typedef struct loam_visit {
  uint64_t handle;
  struct loam_visit *outer;
} loam_visit;
extern __thread loam_visit *loam_visits HIDDEN LOCAL_TLS;

/* Message for a status of these. */
HIDDEN loam_status loam_fail_slot(char **err, loam_status status, const char *what) __attribute__(
  (cold));

#endif
