/* What the test programs share. */
#ifndef CHECK_H
#define CHECK_H

#include <loam.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(cond, ...)                                        \
  do {                                                          \
    if (!(cond)) {                                              \
      fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #cond); \
      fprintf(stderr, __VA_ARGS__);                             \
      fputc('\n', stderr);                                      \
      exit(1);                                                  \
    }                                                           \
  } while (0)

/* Calls with a status; err is a variable in scope. */
#define WANT(status, call)                                                                           \
  do {                                                                                               \
    loam_status got_ = (call);                                                                       \
    CHECK(got_ == (status), "%s gives %s, want %s: %s", #call, loam_status_name(got_), #status, err ? err : ""); \
    CHECK(!strstr(#call, "&err") || (got_ < 0) == (err != NULL), "%s: message %s", #call, err ? err : "(none)");               \
    loam_free(err);                                                                                  \
    err = NULL;                                                                                      \
  } while (0)

/* Options of one call. */
#define READ(snap, what) (&(loam_read_options){sizeof(loam_read_options), (what), (snap)})
#define WRITE(what) (&(loam_write_options){sizeof(loam_write_options), (what)})

static inline size_t operations(const loam_batch *batch) {
  size_t n = SIZE_MAX;
  char *err = NULL;
  WANT(LOAM_OK, loam_batch_count(batch, &n, &err));
  return n;
}

static inline uint64_t rnd(void) {
  static uint64_t x = 88172645463325252ull;
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  return x;
}

#endif
