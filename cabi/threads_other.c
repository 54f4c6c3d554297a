//go:build cgo && !linux && !windows

#include "shim.h"

__thread bool loam_thread_ready = true;
__thread bool loam_go_thread;

void loam_prepare_thread(void) {}
