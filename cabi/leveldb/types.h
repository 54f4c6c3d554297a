/* The types of leveldb/c.h that are more than a handle of Loam's. */
#ifndef LOAM_LEVELDB_TYPES_H
#define LOAM_LEVELDB_TYPES_H

#include "leveldb/c.h"

#include "library.h"

/* The functions of loam.h, without a link to them. */
#define loam_status_string loamldb.loam_status_string
#define loam_free loamldb.loam_free
#define loam_options_create loamldb.loam_options_create
#define loam_options_close loamldb.loam_options_close
#define loam_options_set loamldb.loam_options_set
#define loam_options_set_comparator loamldb.loam_options_set_comparator
#define loam_options_set_cache loamldb.loam_options_set_cache
#define loam_cache_create loamldb.loam_cache_create
#define loam_cache_close loamldb.loam_cache_close
#define loam_open loamldb.loam_open
#define loam_close loamldb.loam_close
#define loam_destroy loamldb.loam_destroy
#define loam_repair loamldb.loam_repair
#define loam_put loamldb.loam_put
#define loam_delete loamldb.loam_delete
#define loam_write loamldb.loam_write
#define loam_get_alloc loamldb.loam_get_alloc
#define loam_snapshot_create loamldb.loam_snapshot_create
#define loam_snapshot_close loamldb.loam_snapshot_close
#define loam_batch_create loamldb.loam_batch_create
#define loam_batch_close loamldb.loam_batch_close
#define loam_batch_put loamldb.loam_batch_put
#define loam_batch_delete loamldb.loam_batch_delete
#define loam_batch_clear loamldb.loam_batch_clear
#define loam_batch_append loamldb.loam_batch_append
#define loam_batch_each loamldb.loam_batch_each
#define loam_iter_create loamldb.loam_iter_create
#define loam_iter_close loamldb.loam_iter_close
#define loam_iter_first loamldb.loam_iter_first
#define loam_iter_last loamldb.loam_iter_last
#define loam_iter_seek loamldb.loam_iter_seek
#define loam_iter_next loamldb.loam_iter_next
#define loam_iter_prev loamldb.loam_iter_prev
#define loam_property loamldb.loam_property
#define loam_approximate_sizes loamldb.loam_approximate_sizes
#define loam_compact loamldb.loam_compact

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

struct leveldb_cache_t {
  size_t capacity;
  loam_cache *cache; /* made by the first open, under a mutex of options.c */
};

/* Makes Loam's options of LevelDB's (NULL: the defaults). */
HIDDEN loam_status loamldb_options(const leveldb_options_t *options, loam_options **out,
  char **err);

#endif
