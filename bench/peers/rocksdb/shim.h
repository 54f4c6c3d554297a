// Calls of RocksDB's C interface put together so that one call from Go does
// what one operation needs. Messages are handed over and freed by the caller.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE // RTLD_DEFAULT
#endif
#include <dlfcn.h>
#include <rocksdb/c.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct { int64_t n; char* big; char* err; } got;

// Gives the length of the value and copies it to dst, or, when longer than cap,
// hands it over in big. -1: not there.
static got kv_get(rocksdb_t* db, rocksdb_readoptions_t* ro, const char* k, size_t kn, char* dst,
  size_t cap) {
  got g = {-1, NULL, NULL};
  size_t n = 0;
  rocksdb_pinnableslice_t* s = rocksdb_get_pinned(db, ro, k, kn, &g.err);
  if (s == NULL) return g;
  const char* v = rocksdb_pinnableslice_value(s, &n);
  g.n = (int64_t)n;
  if (n > cap) {
    g.big = malloc(n);
    dst = g.big;
  }
  if (n > 0) memcpy(dst, v, n);
  rocksdb_pinnableslice_destroy(s);
  return g;
}

typedef struct { rocksdb_pinnableslice_t* s; const char* v; size_t n; char* err; } pinned;

// The value where it lies, until rocksdb_pinnableslice_destroy; s is NULL where it is not there.
static pinned kv_pin(rocksdb_t* db, rocksdb_readoptions_t* ro, const char* k, size_t kn) {
  pinned p = {NULL, NULL, 0, NULL};
  p.s = rocksdb_get_pinned(db, ro, k, kn, &p.err);
  if (p.s != NULL) p.v = rocksdb_pinnableslice_value(p.s, &p.n);
  return p;
}

static char* kv_put(rocksdb_t* db, rocksdb_writeoptions_t* wo, const char* k, size_t kn,
  const char* v, size_t vn) {
  char* err = NULL;
  rocksdb_put(db, wo, k, kn, v, vn, &err);
  return err;
}

static char* kv_delete(rocksdb_t* db, rocksdb_writeoptions_t* wo, const char* k, size_t kn) {
  char* err = NULL;
  rocksdb_delete(db, wo, k, kn, &err);
  return err;
}

static uint32_t u32(const char* p) {
  uint32_t x;
  memcpy(&x, p, 4);
  return x;
}

// Column families are numbered from 1 above the length of a key.
enum { SPACE_SHIFT = 20 };

static char* kv_write(rocksdb_t* db, rocksdb_writeoptions_t* wo, rocksdb_writebatch_t* b,
  rocksdb_column_family_handle_t** spaces, const char* p, int64_t n) {
  char* err = NULL;
  rocksdb_writebatch_clear(b);
  for (; n > 0; n--) {
    uint32_t k = u32(p), v = u32(p + 4);
    uint32_t space = k >> SPACE_SHIFT;
    k &= (1u << SPACE_SHIFT) - 1;
    p += 8;
    if (v == UINT32_MAX) {
      rocksdb_writebatch_delete(b, p, k);
      p += k;
      continue;
    }
    if (space > 0) rocksdb_writebatch_put_cf(b, spaces[space - 1], p, k, p + k, v);
    else rocksdb_writebatch_put(b, p, k, p + k, v);
    p += (size_t)k + v;
  }
  rocksdb_write(db, wo, b, &err);
  return err;
}

typedef struct { int64_t n, used, need; } run;

enum { STEP, FIRST, LAST, SEEK_GE, SEEK_LT, SEEK_GT, STAY };

static run kv_fetch(rocksdb_iterator_t* it, int op, const char* k, size_t kn, int backward,
  int64_t limit, char* dst, size_t cap) {
  run r = {0, 0, 0};
  switch (op) {
    case STEP:
      if (!rocksdb_iter_valid(it)) return r;
      if (backward) rocksdb_iter_prev(it);
      else rocksdb_iter_next(it);
      break;
    case FIRST: rocksdb_iter_seek_to_first(it); break;
    case LAST: rocksdb_iter_seek_to_last(it); break;
    case SEEK_GE: rocksdb_iter_seek(it, k, kn); break;
    case SEEK_GT:
      rocksdb_iter_seek(it, k, kn);
      if (rocksdb_iter_valid(it)) {
        size_t n;
        const char* key = rocksdb_iter_key(it, &n);
        if (n == kn && memcmp(key, k, n) == 0) rocksdb_iter_next(it);
      }
      break;
    case SEEK_LT:
      rocksdb_iter_seek(it, k, kn);
      if (rocksdb_iter_valid(it)) rocksdb_iter_prev(it);
      else rocksdb_iter_seek_to_last(it);
      break;
  }
  while (rocksdb_iter_valid(it)) {
    size_t a, b;
    const char* key = rocksdb_iter_key(it, &a);
    const char* value = rocksdb_iter_value(it, &b);
    int64_t size = (int64_t)(8 + a + b);
    if (r.used + size > (int64_t)cap) {
      r.need = size;
      break;
    }
    uint32_t lengths[2] = {(uint32_t)a, (uint32_t)b};
    memcpy(dst + r.used, lengths, 8);
    memcpy(dst + r.used + 8, key, a);
    memcpy(dst + r.used + 8 + a, value, b);
    r.used += size;
    if (++r.n == limit) break;
    if (backward) rocksdb_iter_prev(it);
    else rocksdb_iter_next(it);
  }
  return r;
}

typedef struct { int64_t need; char* err; } many;

// Reads n packed keys at once; need is what the values take together.
static many kv_multi_get(rocksdb_t* db, rocksdb_column_family_handle_t* cf,
  rocksdb_readoptions_t* ro, const char* p, int64_t n, char* dst, size_t cap, uint64_t* ends,
  uint8_t* found) {
  many m = {0, NULL};
  void* room = malloc((size_t)n * (sizeof(char*) + sizeof(size_t) + sizeof(void*) + sizeof(char*)));
  const char** keys = room;
  size_t* sizes = (size_t*)(keys + n);
  rocksdb_pinnableslice_t** values = (rocksdb_pinnableslice_t**)(sizes + n);
  char** errs = (char**)(values + n);
  for (int64_t i = 0; i < n; i++) {
    keys[i] = p + 4;
    sizes[i] = u32(p);
    p += 4 + sizes[i];
  }
  rocksdb_batched_multi_get_cf(db, ro, cf, (size_t)n, keys, sizes, values, errs, 0);
  for (int64_t i = 0; i < n; i++) {
    if (errs[i] != NULL) {
      if (m.err == NULL) m.err = errs[i];
      else rocksdb_free(errs[i]);
    }
    found[i] = values[i] != NULL;
    if (values[i] != NULL) {
      size_t vn = 0;
      const char* v = rocksdb_pinnableslice_value(values[i], &vn);
      if (m.need + vn <= cap) memcpy(dst + m.need, v, vn);
      m.need += (int64_t)vn;
      rocksdb_pinnableslice_destroy(values[i]);
    }
    ends[i] = (uint64_t)m.need;
  }
  free(room);
  return m;
}

static char* kv_delete_range(rocksdb_t* db, rocksdb_writeoptions_t* wo,
  rocksdb_column_family_handle_t* cf, const char* s, size_t sn, const char* l, size_t ln) {
  char* err = NULL;
  rocksdb_delete_range_cf(db, wo, cf, s, sn, l, ln, &err);
  return err;
}

// The built-in operator adds numbers of 64 bits, little-endian.
static char* kv_add(rocksdb_t* db, rocksdb_writeoptions_t* wo, const char* k, size_t kn,
  uint64_t n) {
  char* err = NULL;
  char operand[8];
  for (int i = 0; i < 8; i++) operand[i] = (char)(n >> 8 * i);
  rocksdb_merge(db, wo, k, kn, operand, 8, &err);
  return err;
}

static got kv_txn_get(rocksdb_transaction_t* txn, rocksdb_readoptions_t* ro, const char* k,
  size_t kn, char* dst, size_t cap) {
  got g = {-1, NULL, NULL};
  size_t n = 0;
  rocksdb_pinnableslice_t* s = rocksdb_transaction_get_pinned_for_update(txn, ro, k, kn, 1, &g.err);
  if (s == NULL) return g;
  const char* v = rocksdb_pinnableslice_value(s, &n);
  if (v == NULL) { // an empty answer means not there, too
    rocksdb_pinnableslice_destroy(s);
    return g;
  }
  g.n = (int64_t)n;
  if (n > cap) {
    g.big = malloc(n);
    dst = g.big;
  }
  if (n > 0) memcpy(dst, v, n);
  rocksdb_pinnableslice_destroy(s);
  return g;
}

static char* kv_txn_put(rocksdb_transaction_t* txn, const char* k, size_t kn, const char* v,
  size_t vn) {
  char* err = NULL;
  rocksdb_transaction_put(txn, k, kn, v, vn, &err);
  return err;
}

static char* kv_txn_delete(rocksdb_transaction_t* txn, const char* k, size_t kn) {
  char* err = NULL;
  rocksdb_transaction_delete(txn, k, kn, &err);
  return err;
}

static char* kv_txn_commit(rocksdb_transaction_t* txn) {
  char* err = NULL;
  rocksdb_transaction_commit(txn, &err);
  return err;
}

static char* kv_txn_rollback(rocksdb_transaction_t* txn) {
  char* err = NULL;
  rocksdb_transaction_rollback(txn, &err);
  return err;
}

// The database below a TransactionDB, where the library tells.
typedef rocksdb_t* (*get_base)(rocksdb_transactiondb_t* db);
typedef void (*close_base)(rocksdb_t* db);

static int kv_locks(void) {
  return dlsym(RTLD_DEFAULT, "rocksdb_transactiondb_get_base_db") != NULL;
}

static rocksdb_t* kv_base(rocksdb_transactiondb_t* db) {
  return ((get_base)dlsym(RTLD_DEFAULT, "rocksdb_transactiondb_get_base_db"))(db);
}

static void kv_close_base(rocksdb_t* base) {
  ((close_base)dlsym(RTLD_DEFAULT, "rocksdb_transactiondb_close_base_db"))(base);
}

// The HyperClock cache where the library has it, as kv_clock tells.
typedef rocksdb_cache_t* (*make_clock)(size_t capacity, size_t entry);

static make_clock find_clock(void) {
  return (make_clock)dlsym(RTLD_DEFAULT, "rocksdb_cache_create_hyper_clock");
}

static int kv_clock(void) { return find_clock() != NULL; }

static rocksdb_cache_t* kv_cache(size_t capacity) {
  make_clock f = find_clock();
  return f != NULL ? f(capacity, 0) : rocksdb_cache_create_lru(capacity);
}
