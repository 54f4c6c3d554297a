// Calls of LevelDB's C interface put together so that one call from Go does
// what one operation needs. Messages are handed over and freed by the caller.
#include <leveldb/c.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct { int64_t n; char* big; char* err; } got;

// Gives the length of the value and copies it to dst, or, when longer than cap,
// hands it over in big. -1: not there.
static got kv_get(leveldb_t* db, leveldb_readoptions_t* ro, const char* k, size_t kn, char* dst,
  size_t cap) {
  got g = {-1, NULL, NULL};
  size_t n = 0;
  char* v = leveldb_get(db, ro, k, kn, &n, &g.err);
  if (v == NULL) return g;
  g.n = (int64_t)n;
  if (n > cap) {
    g.big = v;
    return g;
  }
  memcpy(dst, v, n);
  leveldb_free(v);
  return g;
}

static char* kv_put(leveldb_t* db, leveldb_writeoptions_t* wo, const char* k, size_t kn,
  const char* v, size_t vn) {
  char* err = NULL;
  leveldb_put(db, wo, k, kn, v, vn, &err);
  return err;
}

static char* kv_delete(leveldb_t* db, leveldb_writeoptions_t* wo, const char* k, size_t kn) {
  char* err = NULL;
  leveldb_delete(db, wo, k, kn, &err);
  return err;
}

static uint32_t u32(const char* p) {
  uint32_t x;
  memcpy(&x, p, 4);
  return x;
}

static char* kv_write(leveldb_t* db, leveldb_writeoptions_t* wo, leveldb_writebatch_t* b,
  const char* p, int64_t n) {
  char* err = NULL;
  leveldb_writebatch_clear(b);
  for (; n > 0; n--) {
    uint32_t k = u32(p), v = u32(p + 4);
    p += 8;
    if (v == UINT32_MAX) {
      leveldb_writebatch_delete(b, p, k);
      p += k;
      continue;
    }
    leveldb_writebatch_put(b, p, k, p + k, v);
    p += (size_t)k + v;
  }
  leveldb_write(db, wo, b, &err);
  return err;
}

typedef struct { int64_t n, used, need; } run;

enum { STEP, FIRST, LAST, SEEK_GE, SEEK_LT, SEEK_GT, STAY };

static run kv_fetch(leveldb_iterator_t* it, int op, const char* k, size_t kn, int backward,
  int64_t limit, char* dst, size_t cap) {
  run r = {0, 0, 0};
  switch (op) {
    case STEP:
      if (!leveldb_iter_valid(it)) return r;
      if (backward) leveldb_iter_prev(it);
      else leveldb_iter_next(it);
      break;
    case FIRST: leveldb_iter_seek_to_first(it); break;
    case LAST: leveldb_iter_seek_to_last(it); break;
    case SEEK_GE: leveldb_iter_seek(it, k, kn); break;
    case SEEK_GT:
      leveldb_iter_seek(it, k, kn);
      if (leveldb_iter_valid(it)) {
        size_t n;
        const char* key = leveldb_iter_key(it, &n);
        if (n == kn && memcmp(key, k, n) == 0) leveldb_iter_next(it);
      }
      break;
    case SEEK_LT:
      leveldb_iter_seek(it, k, kn);
      if (leveldb_iter_valid(it)) leveldb_iter_prev(it);
      else leveldb_iter_seek_to_last(it);
      break;
  }
  while (leveldb_iter_valid(it)) {
    size_t a, b;
    const char* key = leveldb_iter_key(it, &a);
    const char* value = leveldb_iter_value(it, &b);
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
    if (backward) leveldb_iter_prev(it);
    else leveldb_iter_next(it);
  }
  return r;
}

typedef struct { int64_t need; char* err; } many;

// Reads n packed keys; need is what the values take together.
static many kv_multi_get(leveldb_t* db, leveldb_readoptions_t* ro, const char* p, int64_t n,
  char* dst, size_t cap, uint64_t* ends, uint8_t* found) {
  many m = {0, NULL};
  for (int64_t i = 0; i < n && m.err == NULL; i++) {
    uint32_t kn = u32(p);
    size_t vn = 0;
    char* v = leveldb_get(db, ro, p + 4, kn, &vn, &m.err);
    found[i] = v != NULL;
    if (v != NULL) {
      if (m.need + vn <= cap) memcpy(dst + m.need, v, vn);
      m.need += (int64_t)vn;
      leveldb_free(v);
    }
    ends[i] = (uint64_t)m.need;
    p += 4 + kn;
  }
  return m;
}
