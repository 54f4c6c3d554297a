/* The types of leveldb/c.h that are more than a handle of Loam's. */
#ifndef LOAM_LEVELDB_TYPES_H
#define LOAM_LEVELDB_TYPES_H

#include "leveldb/c.h"

#include <loam.h>

struct leveldb_options_t {
  const leveldb_comparator_t *comparator;
  const leveldb_filterpolicy_t *filter;
  leveldb_cache_t *cache;
  size_t write_buffer_size, block_size, max_file_size; /* 0: not set */
  int max_open_files, block_restart_interval;          /* 0: not set */
  int compression;
  uint8_t create_if_missing, error_if_exists;
};

struct leveldb_comparator_t {
  void *state;
  void (*destructor)(void *);
  int (*compare)(void *, const char *, size_t, const char *, size_t);
  const char *(*name)(void *);
};

struct leveldb_filterpolicy_t {
  void *state;
  void (*destructor)(void *);
  int bits_per_key; /* 0: the caller's own */
};

struct leveldb_readoptions_t {
  const leveldb_snapshot_t *snapshot;
  uint8_t no_fill;
};

struct leveldb_writeoptions_t {
  uint8_t sync;
};

struct leveldb_env_t {
  char unused;
};

#if defined(__GNUC__)
#define HIDDEN __attribute__((visibility("hidden")))
#else
#define HIDDEN
#endif

/* Stores an error as LevelDB words it; err is Loam's message, which is freed.
 * Answers and LOAM_OK store nothing. */
HIDDEN void loamldb_save(char **errptr, loam_status status, char *err);
/* Makes Loam's options of LevelDB's (NULL: the defaults). */
HIDDEN loam_status loamldb_options(const leveldb_options_t *options, loam_options **out, char **err);

#endif
