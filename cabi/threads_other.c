//go:build cgo && !linux

#include "shim.h"

__thread bool loam_thread_ready = true;
__thread bool loam_go_thread;

void loam_prepare_thread(void) {}

void loam_admit_urgent(void) {}

void loam_keep_urgent(loam_mask *mask) { (void)mask; }
