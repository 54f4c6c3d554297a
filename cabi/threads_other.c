//go:build cgo && !linux && !windows

#include "shim.h"

__thread bool loam_thread_ready = true;

void loam_prepare_thread(void) {}
