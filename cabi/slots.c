//go:build cgo && !windows

/*
 * The table of the objects in C memory. A handle is
 * kind << 56 | generation << 24 | index, as in handles.go.
 *
 * A slot's word is generation << 32 | kind << 8 | state. Whoever swaps IDLE for
 * BUSY has the object. Slots are never freed, so that a look at any handle's
 * slot is always allowed.
 */
#include "shim.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum { FREE, IDLE, BUSY };

typedef struct {
  _Atomic uint64_t word;
  _Atomic uintptr_t owner; /* of BUSY: the address of a variable of the thread */
  void *object;
  char pad[40]; /* one slot per cache line */
} slot;

enum { CHUNK_BITS = 10, MAX_CHUNKS = 1 << (24 - CHUNK_BITS) };

static _Atomic(slot *) chunks[MAX_CHUNKS];

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER; /* guards the rest */
static uint32_t used;                                  /* slots ever used */
static uint32_t *free_list;
static size_t free_len, free_cap;

static __thread char self __attribute__((tls_model("initial-exec")));

static inline slot *slot_at(uint32_t index) {
  slot *chunk = atomic_load_explicit(&chunks[index >> CHUNK_BITS], memory_order_acquire);
  return chunk ? &chunk[index & ((1 << CHUNK_BITS) - 1)] : NULL;
}

static inline uint64_t word_of(uint64_t handle, int state) {
  return (handle >> 24 & UINT32_MAX) << 32 | handle >> 56 << 8 | (uint64_t)state;
}

/* REQUIRES: mu held. Returns UINT32_MAX when there is none. */
static uint32_t free_index(void) {
  if (free_len) return free_list[--free_len];
  if (used == (uint32_t)MAX_CHUNKS << CHUNK_BITS) return UINT32_MAX;
  /* Room to put every slot on the list later: remove must not fail. */
  if (used == free_cap) {
    size_t cap = free_cap ? 2 * free_cap : 1 << CHUNK_BITS;
    uint32_t *list = realloc(free_list, cap * sizeof *list);
    if (!list) return UINT32_MAX;
    free_list = list;
    free_cap = cap;
  }
  if (!chunks[used >> CHUNK_BITS]) {
    slot *chunk = calloc(1 << CHUNK_BITS, sizeof *chunk);
    if (!chunk) return UINT32_MAX;
    atomic_store_explicit(&chunks[used >> CHUNK_BITS], chunk, memory_order_release);
  }
  return used++;
}

uint64_t loam_slot_add(int kind, void *object) {
  pthread_mutex_lock(&mu);
  uint32_t index = free_index();
  pthread_mutex_unlock(&mu);
  if (index == UINT32_MAX) return 0;
  slot *s = slot_at(index);
  uint64_t generation = (atomic_load(&s->word) >> 32) + 1;
  uint64_t handle = (uint64_t)kind << 56 | generation << 24 | index;
  s->object = object;
  atomic_store_explicit(&s->word, word_of(handle, IDLE), memory_order_release);
  return handle;
}

/* Why a handle's word is not the slot's. */
static loam_status mismatch(uint64_t handle, uint64_t word) {
  if ((word ^ word_of(handle, 0)) >> 8 == 0 && (word & 0xff) == BUSY) return LOAM_ERR_IN_USE;
  uint64_t generation = handle >> 24 & UINT32_MAX;
  return generation && generation <= word >> 32 ? LOAM_ERR_CLOSED : LOAM_ERR_INVALID_HANDLE;
}

loam_status loam_slot_acquire(uint64_t handle, int kind, void **object) {
  if ((int)(handle >> 56) != kind) return LOAM_ERR_INVALID_HANDLE;
  slot *s = slot_at(handle & 0xffffff);
  if (!s) return LOAM_ERR_INVALID_HANDLE;
  uint64_t word = word_of(handle, IDLE);
  if (!atomic_compare_exchange_strong_explicit(&s->word, &word, word_of(handle, BUSY), memory_order_acquire, memory_order_relaxed))
    return mismatch(handle, word);
  atomic_store_explicit(&s->owner, (uintptr_t)&self, memory_order_relaxed);
  *object = s->object;
  return LOAM_OK;
}

void loam_slot_release(uint64_t handle) {
  slot *s = slot_at(handle & 0xffffff);
  atomic_store_explicit(&s->owner, 0, memory_order_relaxed);
  atomic_store_explicit(&s->word, word_of(handle, IDLE), memory_order_release);
}

loam_status loam_slot_remove(uint64_t handle, int kind, void **object) {
  struct timespec pause = {0, 20000};
  loam_status status;
  while ((status = loam_slot_acquire(handle, kind, object)) == LOAM_ERR_IN_USE) {
    /* From a callback of the very call that has the object, waiting would
     * never end. */
    slot *s = slot_at(handle & 0xffffff);
    if (atomic_load_explicit(&s->owner, memory_order_relaxed) == (uintptr_t)&self) return LOAM_ERR_IN_USE;
    nanosleep(&pause, NULL);
    if (pause.tv_nsec < 1000000) pause.tv_nsec *= 2;
  }
  if (status != LOAM_OK) return status;
  uint32_t index = handle & 0xffffff;
  slot *s = slot_at(index);
  s->object = NULL;
  atomic_store_explicit(&s->word, word_of(handle, FREE), memory_order_release);
  /* A slot whose generations are used up is not used again. */
  if ((handle >> 24 & UINT32_MAX) != UINT32_MAX) {
    pthread_mutex_lock(&mu);
    free_list[free_len++] = index;
    pthread_mutex_unlock(&mu);
  }
  return LOAM_OK;
}

loam_status loam_fail_slot(char **err, loam_status status, const char *what) {
  switch (status) {
    case LOAM_ERR_IN_USE:
      return loam_fail(err, status, "loam: another call is using the %s", what);
    case LOAM_ERR_CLOSED:
      return loam_fail(err, status, "loam: the %s has been closed", what);
    default:
      return loam_fail(err, status, "loam: not the handle of a %s", what);
  }
}
