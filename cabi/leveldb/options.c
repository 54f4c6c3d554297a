/* Options, comparators, filter policies, caches, env. */
#define _POSIX_C_SOURCE 200809L
#include "types.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

leveldb_options_t *leveldb_options_create(void) {
  leveldb_options_t *o = calloc(1, sizeof *o);
  if (o) o->compression = leveldb_snappy_compression;
  return o;
}

void leveldb_options_destroy(leveldb_options_t *o) { free(o); }
void leveldb_options_set_comparator(leveldb_options_t *o, leveldb_comparator_t *comparator) {
  o->comparator = comparator;
}
void leveldb_options_set_filter_policy(leveldb_options_t *o, leveldb_filterpolicy_t *policy) {
  o->filter = policy;
}
void leveldb_options_set_create_if_missing(leveldb_options_t *o, uint8_t v) {
  o->create_if_missing = v;
}
void leveldb_options_set_error_if_exists(leveldb_options_t *o, uint8_t v) {
  o->error_if_exists = v;
}
void leveldb_options_set_write_buffer_size(leveldb_options_t *o, size_t bytes) {
  o->write_buffer_size = bytes ? bytes : 1;
}
void leveldb_options_set_max_open_files(leveldb_options_t *o, int files) {
  o->max_open_files = files > 0 ? files : 1;
}
void leveldb_options_set_cache(leveldb_options_t *o, leveldb_cache_t *cache) { o->cache = cache; }
void leveldb_options_set_block_size(leveldb_options_t *o, size_t bytes) {
  o->block_size = bytes ? bytes : 1;
}
void leveldb_options_set_block_restart_interval(leveldb_options_t *o, int entries) {
  o->block_restart_interval = entries > 0 ? entries : 1;
}
void leveldb_options_set_max_file_size(leveldb_options_t *o, size_t bytes) {
  o->max_file_size = bytes ? bytes : 1;
}
void leveldb_options_set_compression(leveldb_options_t *o, int compression) {
  o->compression = compression;
}

void leveldb_options_set_paranoid_checks(leveldb_options_t *o, uint8_t v) {
  (void)o;
  (void)v;
}

void leveldb_options_set_env(leveldb_options_t *o, leveldb_env_t *env) {
  (void)o;
  (void)env;
}

void leveldb_options_set_info_log(leveldb_options_t *o, leveldb_logger_t *logger) {
  (void)o;
  (void)logger;
}

/* Loam's callback type has other pointer types than LevelDB's. */
static int compare(void *arg, const void *a, size_t a_len, const void *b, size_t b_len,
  loam_failure *failure) {
  (void)failure;
  const leveldb_comparator_t *c = arg;
  return c->compare(c->state, a, a_len, b, b_len);
}

/* Sets a number clipped to LevelDB's limits; 0 leaves the default. */
static loam_status set_number(loam_options *o, const char *name, size_t v, size_t min, size_t max,
  char **err) {
  char text[32];
  if (v == 0) return LOAM_OK;
  snprintf(text, sizeof text, "%lu", (unsigned long)(v < min ? min : v > max ? max : v));
  return loam_options_set(o, name, text, err);
}

static pthread_mutex_t cache_mutex = PTHREAD_MUTEX_INITIALIZER;

/* LevelDB takes any capacity. */
static const size_t most_cached = (size_t)1 << 46;

static loam_status set_cache(loam_options *o, leveldb_cache_t *cache, char **err) {
  loam_status s = LOAM_OK;
  size_t bytes = cache->capacity < most_cached ? cache->capacity : most_cached;
  pthread_mutex_lock(&cache_mutex);
  if (!cache->cache) s = loam_cache_create(bytes, &cache->cache, err);
  pthread_mutex_unlock(&cache_mutex);
  return s == LOAM_OK ? loam_options_set_cache(o, cache->cache, err) : s;
}

static loam_status set_all(const leveldb_options_t *from, loam_options *o, char **err) {
  loam_status s;
  const char *codec = from->compression == leveldb_no_compression ? "none" :
    from->compression == leveldb_zstd_compression ? "zstd" : "snappy";
  if ((s = loam_options_set(o, "error_if_missing", from->create_if_missing ? "false" : "true",
    err)) != LOAM_OK) return s;
  if ((s = loam_options_set(o, "error_if_exists", from->error_if_exists ? "true" : "false",
    err)) != LOAM_OK) return s;
  if ((s = loam_options_set(o, "format", "leveldb", err)) != LOAM_OK) return s;
  if ((s = loam_options_set(o, "create_dirs", "false", err)) != LOAM_OK) return s;
  if ((s = loam_options_set(o, "compression", codec, err)) != LOAM_OK) return s;
  if ((s = set_number(o, "write_buffer_size", from->write_buffer_size, 64 << 10, 1 << 30,
    err)) != LOAM_OK) return s;
  if ((s = set_number(o, "block_size", from->block_size, 1 << 10, 4 << 20, err)) != LOAM_OK) {
    return s;
  }
  if ((s = set_number(o, "max_file_size", from->max_file_size, 1 << 20, 1 << 30, err)) != LOAM_OK) {
    return s;
  }
  if ((s = set_number(o, "max_open_files", (size_t)from->max_open_files, 74, 50000,
    err)) != LOAM_OK) return s;
  if ((s = set_number(o, "block_restart_interval", (size_t)from->block_restart_interval, 1,
    1 << 16, err)) != LOAM_OK) return s;
  if (from->filter && from->filter->bits_per_key) {
    if ((s = set_number(o, "bloom_bits", (size_t)from->filter->bits_per_key, 1, 64,
      err)) != LOAM_OK) return s;
    if ((s = loam_options_set(o, "leveldb_filter", "true", err)) != LOAM_OK) return s;
  }
  if (from->cache && (s = set_cache(o, from->cache, err)) != LOAM_OK) return s;
  if (from->comparator) {
    return loam_options_set_comparator(o, from->comparator->name(from->comparator->state), compare,
      (void *)from->comparator, NULL, 0, err);
  }
  return LOAM_OK;
}

loam_status loamldb_options(const leveldb_options_t *from, loam_options **out, char **err) {
  static const leveldb_options_t defaults = {NULL, NULL, NULL, 0, 0, 0, 0, 0,
    leveldb_snappy_compression, 0, 0};
  loam_status s = loamldb_load(err);
  if (s == LOAM_OK) s = loam_options_create(out, err);
  if (s != LOAM_OK) return s;
  s = set_all(from ? from : &defaults, *out, err);
  if (s != LOAM_OK) loam_options_close(*out);
  return s;
}

leveldb_comparator_t *leveldb_comparator_create(void *state, void (*destructor)(void *),
  int (*compare_keys)(void *, const char *, size_t, const char *, size_t),
  const char *(*name)(void *)) {
  leveldb_comparator_t *c = malloc(sizeof *c);
  if (!c) return NULL;
  c->state = state;
  c->destructor = destructor;
  c->compare = compare_keys;
  c->name = name;
  return c;
}

void leveldb_comparator_destroy(leveldb_comparator_t *c) {
  if (c && c->destructor) c->destructor(c->state);
  free(c);
}

leveldb_filterpolicy_t *leveldb_filterpolicy_create(void *state, void (*destructor)(void *),
  char *(*create_filter)(void *, const char *const *, const size_t *, int, size_t *),
  uint8_t (*key_may_match)(void *, const char *, size_t, const char *, size_t),
    const char *(*name)(void *)) {
  leveldb_filterpolicy_t *p = malloc(sizeof *p);
  (void)create_filter;
  (void)key_may_match;
  (void)name;
  if (!p) return NULL;
  p->state = state;
  p->destructor = destructor;
  p->bits_per_key = 0;
  return p;
}

leveldb_filterpolicy_t *leveldb_filterpolicy_create_bloom(int bits_per_key) {
  leveldb_filterpolicy_t *p = calloc(1, sizeof *p);
  if (p) p->bits_per_key = bits_per_key > 0 ? bits_per_key : 1;
  return p;
}

void leveldb_filterpolicy_destroy(leveldb_filterpolicy_t *p) {
  if (p && p->destructor) p->destructor(p->state);
  free(p);
}

leveldb_readoptions_t *leveldb_readoptions_create(void) {
  return calloc(1, sizeof(leveldb_readoptions_t));
}
void leveldb_readoptions_destroy(leveldb_readoptions_t *o) { free(o); }
void leveldb_readoptions_set_fill_cache(leveldb_readoptions_t *o, uint8_t v) { o->no_fill = !v; }
void leveldb_readoptions_set_snapshot(leveldb_readoptions_t *o,
  const leveldb_snapshot_t *snapshot) {
  o->snapshot = snapshot;
}

void leveldb_readoptions_set_verify_checksums(leveldb_readoptions_t *o, uint8_t v) {
  (void)o;
  (void)v;
}

leveldb_writeoptions_t *leveldb_writeoptions_create(void) {
  return calloc(1, sizeof(leveldb_writeoptions_t));
}
void leveldb_writeoptions_destroy(leveldb_writeoptions_t *o) { free(o); }
void leveldb_writeoptions_set_sync(leveldb_writeoptions_t *o, uint8_t v) { o->sync = v; }

leveldb_cache_t *leveldb_cache_create_lru(size_t capacity) {
  leveldb_cache_t *cache = calloc(1, sizeof *cache);
  if (cache) cache->capacity = capacity;
  return cache;
}

void leveldb_cache_destroy(leveldb_cache_t *cache) {
  if (cache && cache->cache) loam_cache_close(cache->cache);
  free(cache);
}

leveldb_env_t *leveldb_create_default_env(void) { return calloc(1, sizeof(leveldb_env_t)); }
void leveldb_env_destroy(leveldb_env_t *env) { free(env); }

char *leveldb_env_get_test_directory(leveldb_env_t *env) {
  const char *set = getenv("TEST_TMPDIR");
  char path[64];
  (void)env;
  if (set && *set) return strdup(set);
  snprintf(path, sizeof path, "/tmp/leveldbtest-%lu", (unsigned long)geteuid());
  mkdir(path, 0700); /* it may be there already */
  return strdup(path);
}
