//go:build cgo

/* What ctor.c has, where there are no signals and no fork. */
#include "shim.h"

_Atomic bool loam_forked;

loam_mask loam_loader_mask;

void loam_set_mask(const loam_mask *mask, loam_mask *before) {
  (void)mask;
  (void)before;
}

void loam_signal_stacks(void) {}
