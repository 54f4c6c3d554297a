//go:build cgo && !windows

#include "shim.h"

#include <stdlib.h>

void *loamgo_alloc(size_t n) { return malloc(n ? n : 1); }

void loamgo_release(void *p) { free(p); }

int loamgo_compare(uintptr_t fn, uintptr_t arg, const unsigned char *a, size_t a_len, const unsigned char *b, size_t b_len) {
  loam_compare_fn compare = (loam_compare_fn)fn;
  /* Callbacks may hand the pointers to memcmp, which NULL must not reach. */
  return compare((void *)arg, a ? (const void *)a : "", a_len, b ? (const void *)b : "", b_len);
}

void loamgo_log(uintptr_t fn, uintptr_t arg, int level, const char *message) {
  loam_log_fn log = (loam_log_fn)fn;
  log((void *)arg, level, message);
}
