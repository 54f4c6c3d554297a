// Memory that databases share, where the library offers it to C.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE // RTLD_DEFAULT
#endif
#include <dlfcn.h>
#include <rocksdb/c.h>
#include <stdbool.h>

typedef void* (*make_buffers)(size_t size, rocksdb_cache_t* cache, bool stall);
typedef void (*use_buffers)(rocksdb_options_t* o, void* buffers);
typedef void (*free_buffers)(void* buffers);

static void* kv_symbol(const char* name) { return dlsym(RTLD_DEFAULT, name); }

static int kv_can_share(void) {
  return kv_symbol("rocksdb_write_buffer_manager_create_with_cache") != NULL &&
    kv_symbol("rocksdb_options_set_write_buffer_manager") != NULL &&
         kv_symbol("rocksdb_write_buffer_manager_destroy") != NULL;
}

// An LRU cache: memtables are charged to it by entries of its own.
static rocksdb_cache_t* kv_cache_of(size_t capacity) { return rocksdb_cache_create_lru(capacity); }

static void* kv_buffers(size_t size, rocksdb_cache_t* cache) {
  return ((make_buffers)kv_symbol("rocksdb_write_buffer_manager_create_with_cache"))(
    size, cache, false);
}

static void kv_use_buffers(rocksdb_options_t* o, void* b) {
  ((use_buffers)kv_symbol("rocksdb_options_set_write_buffer_manager"))(o, b);
}

static void kv_free_buffers(void* b) {
  ((free_buffers)kv_symbol("rocksdb_write_buffer_manager_destroy"))(b);
}
