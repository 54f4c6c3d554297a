//go:build cgo && !windows

/*
 * What happens when the library is loaded.
 *
 * Go's runtime starts its threads from a constructor of its own (in
 * .init_array, without priority). They inherit the signal mask: all signals
 * are blocked before it runs and the loading thread's mask is restored after
 * it. The program's handlers therefore never run on Go's threads, whose small
 * goroutine stacks a handler without SA_ONSTACK would overrun.
 */
#include "shim.h"

#include <pthread.h>
#include <signal.h>

_Atomic bool loam_forked;

sigset_t loam_loader_mask;

void loam_set_mask(const sigset_t *mask, sigset_t *before) {
  pthread_sigmask(SIG_SETMASK, mask, before);
}

static void in_child(void) { loam_forked = true; }

/* What handler of SIGURG there is when Go starts it lets run on a stack of its own;
 * this does the same for a later one. */
static void give_urgent_stack(void) {
  struct sigaction action;
  if (sigaction(SIGURG, NULL, &action) || action.sa_flags & SA_ONSTACK) return;
  if (!(action.sa_flags & SA_SIGINFO) &&
    (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN)) return;
  action.sa_flags |= SA_ONSTACK;
  sigaction(SIGURG, &action, NULL);
}

void loam_signal_stacks(void) {
  give_urgent_stack();
  loam_admit_urgent();
}

/* Sections with a priority are run before those without. */
__attribute__((constructor(101))) static void block_signals(void) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &loam_loader_mask);
  pthread_atfork(NULL, NULL, in_child);
}

/* Without priority, the order is that of the link: Go's object comes first. */
__attribute__((constructor)) static void restore_signals(void) {
  pthread_sigmask(SIG_SETMASK, &loam_loader_mask, NULL);
}
