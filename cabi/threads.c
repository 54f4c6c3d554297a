//go:build cgo && linux

/*
 * Threads and their signals.
 *
 * The program's handlers must not meet a goroutine's small stack. So Go's own
 * threads block every signal, and C threads that come into Go have a large stack
 * there (cabi/internal/stk) before the first signal can.
 *
 * Go starts a thread with the mask of the constructor in ctor.c, all blocked,
 * and a C thread's first call with the mask it has; in both cases it then opens
 * some signals (SIGPROF, SIGCHLD, SIGSTKFLT) without asking. This is undone at
 * that very moment: a SIGSTKFLT, which nothing else uses, is sent to the thread
 * while everything is blocked; its handler runs as soon as Go opens it and
 * blocks all signals in the mask that its return restores.
 */
#define _GNU_SOURCE
#include "shim.h"

#include "_cgo_export.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

enum {
  SIGNAL_STACK = 256 << 10, /* several handlers may interrupt each other */
  GUARD = 64 << 10, /* below a signal stack; a multiple of any page size */
  SMALL_STACK = 256 << 10
};

__thread bool loam_thread_ready;

__thread bool loam_go_thread;

static atomic_bool urgent; /* SIGURG may reach Go's threads, see loam_admit_urgent */
/* blocks it until then */
static __thread bool holds_urgent __attribute__((tls_model("initial-exec")));

static uint64_t bit(int sig) { return (uint64_t)1 << (sig - 1); }

/* Blocks all signals in the mask of the interrupted code, except SIGURG, by which Go stops its
 * threads, and signals of faults. While SIGURG may not reach Go's threads, they
 * block it too, and wait for another SIGSTKFLT. */
static void block_all(int sig, siginfo_t *info, void *context) {
  static const int open[] = {SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV, SIGSYS, SIGURG};
  (void)info;
  /* The kernel's mask has 64 bits, the C library's type more. */
  uint64_t *mask = (uint64_t *)(void *)&((ucontext_t *)context)->uc_sigmask;
  uint64_t blocked = ~(uint64_t)0;
  for (size_t i = 0; i < sizeof open / sizeof *open; i++) blocked &= ~bit(open[i]);
  /* 32 and 33 are the C library's own. */
  blocked &= ~((uint64_t)3 << 31);
  if (loam_go_thread && !atomic_load(&urgent)) {
    blocked &= ~bit(sig);
    if (!(*mask & bit(SIGURG))) {
      blocked |= bit(SIGURG);
      holds_urgent = true;
    }
  } else if (holds_urgent) {
    *mask &= ~bit(SIGURG);
    holds_urgent = false;
  }
  *mask |= blocked;
}

static bool is_block_all(const struct sigaction *action) {
  return action->sa_flags & SA_SIGINFO && action->sa_sigaction == block_all;
}

/* Has all signals blocked again after Go's start of the calling thread, which
 * has all of them blocked. A program that uses SIGSTKFLT itself keeps it. */
static void block_after_start(void) {
  struct sigaction action;
  if (sigaction(SIGSTKFLT, NULL, &action)) return;
  if (!(action.sa_flags & SA_SIGINFO) &&
    (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN)) {
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    action.sa_sigaction = block_all;
    sigfillset(&action.sa_mask);
    if (sigaction(SIGSTKFLT, &action, NULL)) return;
  } else if (!is_block_all(&action)) {
    return;
  }
  pthread_kill(pthread_self(), SIGSTKFLT);
}

/* ---- Go's threads ---- */

/* Those that began before SIGURG may reach them. The links are on their stacks. */
typedef struct early {
  pthread_t thread;
  struct early *next;
} early;

static early *earlies;
static pthread_mutex_t earlies_mu = PTHREAD_MUTEX_INITIALIZER;

static void join_earlies(early *e) {
  pthread_mutex_lock(&earlies_mu);
  if (!atomic_load(&urgent)) {
    e->thread = pthread_self();
    e->next = earlies;
    earlies = e;
  }
  pthread_mutex_unlock(&earlies_mu);
}

static void leave_earlies(const early *e) {
  pthread_mutex_lock(&earlies_mu);
  for (early **at = &earlies; *at; at = &(*at)->next) {
    if (*at != e) continue;
    *at = e->next;
    break;
  }
  pthread_mutex_unlock(&earlies_mu);
}

void loam_keep_urgent(loam_mask *mask) {
  if (atomic_load(&urgent)) return;
  sigaddset(mask, SIGURG);
  sigaddset(mask, SIGSTKFLT); /* would change the wrong mask */
}

void loam_admit_urgent(void) {
  struct sigaction action;
  if (atomic_exchange(&urgent, true) || sigaction(SIGSTKFLT, NULL, &action) ||
    !is_block_all(&action)) return;
  pthread_mutex_lock(&earlies_mu);
  for (early *e = earlies; e; e = e->next) pthread_kill(e->thread, SIGSTKFLT);
  pthread_mutex_unlock(&earlies_mu);
}

typedef struct start {
  void *(*run)(void *);
  void *arg;
  struct start *next;
} start;

static _Atomic(start *) spent; /* of threads that have begun */

static void spend(start *s) {
  s->next = atomic_load(&spent);
  while (!atomic_compare_exchange_weak(&spent, &s->next, s)) continue;
}

#ifndef __SANITIZE_ADDRESS__ /* which wants to see every free */

/* glibc reserves 64 MiB of addresses for each thread that allocates or frees
 * memory. Go's threads do so once, in the beginning, for the argument that Go's
 * function for new threads frees. The memory is kept instead, and the next thread that starts frees
 * it: a thread that starts others allocates anyway. */
/* its argument has not been freed */
static __thread start *beginning __attribute__((tls_model("initial-exec")));
static atomic_int beginners;
static void (*free_of_libc)(void *);

__attribute__((constructor(101))) static void find_free(void) {
  free_of_libc = (__typeof__(free_of_libc))dlsym(RTLD_DEFAULT, "free");
}

static bool keeps(void *p) {
  start *s = beginning;
  if (!s || s->arg != p) return false;
  beginning = NULL;
  atomic_fetch_sub(&beginners, 1);
  spend(s);
  return true;
}

/* Stands in front of the C library's for the code of this library. */
HIDDEN void free(void *p) {
  if (__builtin_expect(atomic_load_explicit(&beginners, memory_order_relaxed) > 0, 0) && p &&
    keeps(p)) return;
  free_of_libc(p);
}

static void begin(start *s) {
  if (!s->arg) {
    spend(s);
    return;
  }
  beginning = s;
  atomic_fetch_add(&beginners, 1);
}

static void free_start(start *s) {
  free(s->arg);
  free(s);
}

#else

static void begin(start *s) { spend(s); }

static void free_start(start *s) { free(s); }

#endif

static void *run(void *p) {
  start *s = p;
  void *(*function)(void *) = s->run;
  void *arg = s->arg;
  begin(s);
  loam_go_thread = true;
  early self;
  join_earlies(&self);
  block_after_start();
  void *result = function(arg);
  leave_earlies(&self);
  return result;
}

static void free_spent(void) {
  for (start *s = atomic_exchange(&spent, NULL), *next; s; s = next) {
    next = s->next;
    free_start(s);
  }
}

typedef int create_function(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

/* Stands in front of the C library's for the code of this library, Go's runtime
 * included, which has all signals blocked when it calls. */
HIDDEN int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*f)(void *),
  void *arg) {
  static create_function *_Atomic create;
  if (!create) create = (create_function *)dlsym(RTLD_DEFAULT, "pthread_create");
  start *s = malloc(sizeof *s);
  if (!s) return EAGAIN;
  free_spent();
  *s = (start){f, arg, NULL};
  int err = create(thread, attr, run, s);
  /* Go ends the process when it gets no thread: where there is no address space
   * for a stack of the usual 8 MiB, one that is enough for Go will do. */
  pthread_attr_t small;
  if (err == EAGAIN && attr && !pthread_attr_init(&small)) {
    int state;
    if (!pthread_attr_getdetachstate(attr, &state) && !pthread_attr_setdetachstate(
      &small, state) && !pthread_attr_setstacksize(&small, SMALL_STACK))
      err = create(thread, &small, run, s);
    pthread_attr_destroy(&small);
  }
  if (err) free(s);
  return err;
}

/* ---- C threads ---- */

static pthread_key_t stacks; /* a thread's signal stack that came from here */
static pthread_once_t stacks_once = PTHREAD_ONCE_INIT;
static bool have_stacks;

static void release_stack(void *p) {
  stack_t now, off = {.ss_flags = SS_DISABLE};
  if (!sigaltstack(NULL, &now) && now.ss_sp == (char *)p + GUARD) sigaltstack(&off, NULL);
  munmap(p, GUARD + SIGNAL_STACK);
}

static void make_key(void) { have_stacks = !pthread_key_create(&stacks, release_stack); }

/* Gives the thread a stack for handlers with SA_ONSTACK, to which Go adds those
 * it finds when it starts, unless it has one: Go would give it one of 32 KiB
 * with nothing below it to stop an overrun. */
static void give_stack(void) {
  stack_t now;
  pthread_once(&stacks_once, make_key);
  if (!have_stacks || sigaltstack(NULL, &now) || !(now.ss_flags & SS_DISABLE)) return;
  char *p = mmap(NULL, GUARD + SIGNAL_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS |
    MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return;
  stack_t mine = {.ss_sp = p + GUARD, .ss_size = SIGNAL_STACK};
  if (mprotect(p, GUARD, PROT_NONE) || pthread_setspecific(stacks, p)) munmap(
    p, GUARD + SIGNAL_STACK);
  else sigaltstack(&mine, NULL);
}

void loam_prepare_thread(void) {
  sigset_t all, before;
  loam_thread_ready = true;
  if (loam_go_thread) return; /* a callback */
  sigfillset(&all);
  if (pthread_sigmask(SIG_SETMASK, &all, &before)) return;
  give_stack();
  block_after_start();
  loamgo_enter();
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}
