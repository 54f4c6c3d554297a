// Tables from outside and the feed of batches, put together as in shim.h.
#include <rocksdb/c.h>
#include <stdint.h>
#include <stdlib.h>

static char* kv_table_put(rocksdb_sstfilewriter_t* w, const char* k, size_t kn, const char* v,
  size_t vn) {
  char* err = NULL;
  rocksdb_sstfilewriter_put(w, k, kn, v, vn, &err);
  return err;
}

typedef struct { int64_t batches, operations, bytes; char* err; } streamed;

static void kv_count_put(void* s, const char* k, size_t kn, const char* v, size_t vn) {
  (void)k, (void)v;
  ((streamed*)s)->operations++;
  ((streamed*)s)->bytes += (int64_t)(kn + vn);
}

static void kv_count_delete(void* s, const char* k, size_t kn) { kv_count_put(s, k, kn, NULL, 0); }

// Reads at most limit batches.
static streamed kv_changes(rocksdb_wal_iterator_t* it, int64_t limit) {
  streamed s = {0, 0, 0, NULL};
  for (; s.batches < limit && rocksdb_wal_iter_valid(it); s.batches++) {
    uint64_t seq;
    rocksdb_writebatch_t* b = rocksdb_wal_iter_get_batch(it, &seq);
    rocksdb_writebatch_iterate(b, &s, kv_count_put, kv_count_delete);
    rocksdb_writebatch_destroy(b);
    rocksdb_wal_iter_next(it);
  }
  if (s.batches == 0) rocksdb_wal_iter_status(it, &s.err);
  return s;
}
