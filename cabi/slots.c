//go:build cgo

/*
 * The table of the objects in C memory. A handle is
 * kind << 56 | generation << 24 | index, as in handles.go.
 */
#include "shim.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

_Atomic(loam_slot *) loam_slot_chunks[SLOT_CHUNKS];

__thread char loam_slot_self;

__thread loam_visit *loam_visits;

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER; /* guards the rest */
static uint32_t used;                                  /* slots ever used */
static uint32_t *free_list;
static size_t free_len, free_cap;

/* REQUIRES: mu held. Returns UINT32_MAX when there is none. */
static uint32_t free_index(void) {
  if (free_len) return free_list[--free_len];
  if (used == (uint32_t)SLOT_CHUNKS << SLOT_CHUNK_BITS) return UINT32_MAX;
  /* Room to put every slot on the list later: remove must not fail. */
  if (used == free_cap) {
    size_t cap = free_cap ? 2 * free_cap : 1 << SLOT_CHUNK_BITS;
    uint32_t *list = realloc(free_list, cap * sizeof *list);
    if (!list) return UINT32_MAX;
    free_list = list;
    free_cap = cap;
  }
  if (!loam_slot_chunks[used >> SLOT_CHUNK_BITS]) {
    loam_slot *chunk = calloc(1 << SLOT_CHUNK_BITS, sizeof *chunk);
    if (!chunk) return UINT32_MAX;
    atomic_store_explicit(&loam_slot_chunks[used >> SLOT_CHUNK_BITS], chunk, memory_order_release);
  }
  return used++;
}

uint64_t loam_slot_add(int kind, void *object) {
  pthread_mutex_lock(&mu);
  uint32_t index = free_index();
  pthread_mutex_unlock(&mu);
  if (index == UINT32_MAX) return 0;
  loam_slot *s = loam_slot_at(index);
  uint64_t generation = (atomic_load(&s->word) >> 32) + 1;
  uint64_t handle = (uint64_t)kind << 56 | generation << 24 | index;
  s->object = object;
  atomic_store_explicit(&s->word, loam_slot_word(handle, SLOT_IDLE), memory_order_release);
  return handle;
}

loam_status loam_slot_mismatch(uint64_t handle, uint64_t word) {
  if ((word ^ loam_slot_word(handle, 0)) >> 8 == 0 && (word & 0xff) >= SLOT_BUSY) {
    return LOAM_ERR_IN_USE;
  }
  uint64_t generation = handle >> 24 & UINT32_MAX;
  return generation && generation <= word >> 32 ? LOAM_ERR_CLOSED : LOAM_ERR_INVALID_HANDLE;
}

loam_status loam_slot_share(uint64_t handle, int kind, void **object) {
  loam_slot *s = loam_slot_at(handle);
  if ((int)(handle >> 56) != kind || !s) return LOAM_ERR_INVALID_HANDLE;
  uint64_t word = atomic_load_explicit(&s->word, memory_order_relaxed);
  for (;;) {
    uint64_t state = word & 0xff, next = state == SLOT_IDLE ? SLOT_SHARED : state + 1;
    if ((word ^ loam_slot_word(handle, 0)) >> 8 != 0 ||
      (state != SLOT_IDLE && state < SLOT_SHARED) || state == SLOT_SHARED_MOST)
      return loam_slot_mismatch(handle, word);
    if (atomic_compare_exchange_weak_explicit(&s->word, &word, word - state + next,
      memory_order_acquire, memory_order_relaxed)) break;
  }
  *object = s->object;
  return LOAM_OK;
}

void loam_slot_unshare(uint64_t handle) {
  loam_slot *s = loam_slot_at(handle);
  if (!s) __builtin_unreachable(); /* it was shared */
  uint64_t word = atomic_load_explicit(&s->word, memory_order_relaxed), next;
  do next = (word & 0xff) == SLOT_SHARED ? word - SLOT_SHARED + SLOT_IDLE : word - 1;
  while (!atomic_compare_exchange_weak_explicit(&s->word, &word, next, memory_order_release,
    memory_order_relaxed));
}

/* Whether the thread is in a callback of a call that has the object: to wait
 * for its end would never end. */
static bool own_call(uint64_t handle) {
  loam_slot *s = loam_slot_at(handle);
  if (atomic_load_explicit(&s->owner, memory_order_relaxed) == (uintptr_t)&loam_slot_self) {
    return true;
  }
  for (loam_visit *v = loam_visits; v; v = v->outer)
    if (v->handle == handle) return true;
  return false;
}

loam_status loam_slot_remove(uint64_t handle, int kind, void **object) {
  struct timespec pause = {0, 20000};
  loam_status status;
  while ((status = loam_slot_acquire(handle, kind, object)) == LOAM_ERR_IN_USE) {
    /* the wait may be for this thread */
    if (loam_callbacks || own_call(handle)) return LOAM_ERR_IN_USE;
    nanosleep(&pause, NULL);
    if (pause.tv_nsec < 1000000) pause.tv_nsec *= 2;
  }
  if (status != LOAM_OK) return status;
  uint32_t index = handle & 0xffffff;
  loam_slot *s = loam_slot_at(index);
  s->object = NULL;
  atomic_store_explicit(&s->owner, 0, memory_order_relaxed);
  atomic_store_explicit(&s->word, loam_slot_word(handle, SLOT_FREE), memory_order_release);
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
