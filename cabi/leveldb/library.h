/*
 * libloam, loaded at the first call that needs it: Go's threads begin with the
 * library, and a program that goes into the background by fork() before it opens
 * a database must not have them then.
 */
#ifndef LOAM_LEVELDB_LIBRARY_H
#define LOAM_LEVELDB_LIBRARY_H

#include <loam.h>

#define HIDDEN __attribute__((visibility("hidden")))

#define LOAM_FUNCTIONS(X)                                                      \
  X(loam_abi_check) X(loam_status_string) X(loam_free)                         \
  X(loam_options_create) X(loam_options_close) X(loam_options_set)             \
  X(loam_options_set_comparator) X(loam_options_set_cache)                     \
  X(loam_cache_create) X(loam_cache_close)                                     \
  X(loam_open) X(loam_close) X(loam_destroy) X(loam_repair)                    \
  X(loam_put) X(loam_delete) X(loam_write) X(loam_get_alloc)                   \
  X(loam_snapshot_create) X(loam_snapshot_close)                               \
  X(loam_batch_create) X(loam_batch_close) X(loam_batch_put)                   \
  X(loam_batch_delete) X(loam_batch_clear) X(loam_batch_append)                \
  X(loam_batch_each)                                                           \
  X(loam_iter_create) X(loam_iter_close) X(loam_iter_first) X(loam_iter_last)  \
  X(loam_iter_seek) X(loam_iter_next) X(loam_iter_prev)                        \
  X(loam_property) X(loam_approximate_sizes) X(loam_compact)

/* Whatever has a handle of Loam's may call these: they are there by then. */
struct loamldb_library {
#define X(name) __typeof__(name) *name;
  LOAM_FUNCTIONS(X)
#undef X
};
extern struct loamldb_library loamldb HIDDEN;

/* Loads libloam unless it is loaded. LOAM_OK, or LOAM_ERR_IO with a malloc'ed
 * message. Any thread. */
HIDDEN loam_status loamldb_load(char **err);

/* A few words for a failure. */
HIDDEN const char *loamldb_words(loam_status status);

#endif
