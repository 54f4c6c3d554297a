//go:build cgo && lmdb

#include "shim.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

// A reader is the transaction in which one thread does its Gets, renewed for
// each: beginning a new one searches the reader table.
typedef struct reader {
  MDB_txn* txn;
  struct reader* next;
} reader;

struct kv_iter {
  kv_env* env;
  MDB_txn* txn;
  MDB_cursor* cursor;
  MDB_val key, value;
  int rc;  // of the last move
  int own; // the transaction is the iterator's
  kv_iter* next;
};

struct kv_env {
  MDB_env* env;
  MDB_dbi dbi;
  uint64_t id; // tells environments apart that lay at the same address
  pthread_mutex_t mu;
  reader* readers; // all threads'; guarded by mu
  kv_iter* idle;   // closed iterators for reuse; guarded by mu
};

static pthread_mutex_t ids_mu = PTHREAD_MUTEX_INITIALIZER;
static uint64_t ids; // guarded by ids_mu

// The calling thread's reader, of the environment with the id.
static __thread struct {
  uint64_t id;
  MDB_txn* txn;
} mine;

static MDB_val val(const char* p, size_t n) {
  MDB_val v = {n, (void*)p};
  return v;
}

static uint32_t u32(const char* p) {
  uint32_t x;
  memcpy(&x, p, 4);
  return x;
}

int kv_open(const char* dir, size_t map, unsigned readers, kv_env** out) {
  kv_env* e = calloc(1, sizeof *e);
  if (e == NULL) return ENOMEM;
  pthread_mutex_init(&e->mu, NULL);
  pthread_mutex_lock(&ids_mu);
  e->id = ++ids;
  pthread_mutex_unlock(&ids_mu);
  MDB_txn* txn = NULL;
  int rc = mdb_env_create(&e->env);
  if (rc == 0) rc = mdb_env_set_mapsize(e->env, map);
  if (rc == 0) rc = mdb_env_set_maxreaders(e->env, readers);
  if (rc == 0) rc = mdb_env_open(e->env, dir, MDB_NOTLS | MDB_NOSYNC, 0600);
  if (rc == 0) rc = mdb_txn_begin(e->env, NULL, 0, &txn);
  if (rc == 0) {
    rc = mdb_dbi_open(txn, NULL, 0, &e->dbi);
    if (rc == 0) rc = mdb_txn_commit(txn);
    else mdb_txn_abort(txn);
  }
  if (rc != 0) {
    kv_close(e);
    return rc;
  }
  *out = e;
  return 0;
}

void kv_close(kv_env* e) {
  while (e->readers != NULL) {
    reader* r = e->readers;
    e->readers = r->next;
    mdb_txn_abort(r->txn);
    free(r);
  }
  while (e->idle != NULL) {
    kv_iter* it = e->idle;
    e->idle = it->next;
    mdb_cursor_close(it->cursor);
    mdb_txn_abort(it->txn);
    free(it);
  }
  if (e->env != NULL) mdb_env_close(e->env);
  pthread_mutex_destroy(&e->mu);
  free(e);
}

int kv_sync(kv_env* e) { return mdb_env_sync(e->env, 1); }

int kv_stat(kv_env* e, MDB_stat* out) { return mdb_env_stat(e->env, out); }

// Begins to read in the calling thread; mdb_txn_reset ends it.
static int begin_read(kv_env* e, MDB_txn** out) {
  if (mine.id == e->id) {
    *out = mine.txn;
    return mdb_txn_renew(mine.txn);
  }
  reader* r = malloc(sizeof *r);
  if (r == NULL) return ENOMEM;
  int rc = mdb_txn_begin(e->env, NULL, MDB_RDONLY, &r->txn);
  if (rc != 0) {
    free(r);
    return rc;
  }
  pthread_mutex_lock(&e->mu);
  r->next = e->readers;
  e->readers = r;
  pthread_mutex_unlock(&e->mu);
  mine.id = e->id;
  mine.txn = *out = r->txn;
  return 0;
}

got kv_get(kv_env* e, MDB_txn* txn, const char* k, size_t kn, char* dst, size_t cap) {
  got g = {0, 0, NULL};
  MDB_txn* t = txn;
  if (t == NULL && (g.rc = begin_read(e, &t)) != 0) return g;
  MDB_val key = val(k, kn), value;
  g.rc = mdb_get(t, e->dbi, &key, &value);
  if (g.rc == 0) {
    g.n = (int64_t)value.mv_size;
    if (value.mv_size > cap) dst = g.big = malloc(value.mv_size);
    if (dst != NULL) memcpy(dst, value.mv_data, value.mv_size);
    else if (value.mv_size > 0) g.rc = ENOMEM;
  }
  if (txn == NULL) mdb_txn_reset(t);
  return g;
}

pinned kv_pin(kv_env* e, MDB_txn** txn, const char* k, size_t kn) {
  pinned p = {0, 0, NULL};
  p.rc = *txn != NULL ? mdb_txn_renew(*txn) : mdb_txn_begin(e->env, NULL, MDB_RDONLY, txn);
  if (p.rc != 0) return p;
  MDB_val key = val(k, kn), value;
  p.rc = mdb_get(*txn, e->dbi, &key, &value);
  if (p.rc == 0) {
    p.n = (int64_t)value.mv_size;
    p.v = value.mv_data;
  } else {
    mdb_txn_reset(*txn);
  }
  return p;
}

void kv_unpin(MDB_txn* txn) { mdb_txn_reset(txn); }

many kv_multi_get(kv_env* e, MDB_txn* txn, const char* p, int64_t n, char* dst, size_t cap,
  uint64_t* ends, uint8_t* found) {
  many m = {0, 0};
  MDB_txn* t = txn;
  if (t == NULL && (m.rc = begin_read(e, &t)) != 0) return m;
  for (int64_t i = 0; i < n; i++) {
    MDB_val key = val(p + 4, u32(p)), value;
    int rc = mdb_get(t, e->dbi, &key, &value);
    if (rc != 0 && rc != MDB_NOTFOUND) {
      m.rc = rc;
      break;
    }
    found[i] = rc == 0;
    if (rc == 0) {
      if ((size_t)m.need + value.mv_size <= cap) memcpy(dst + m.need, value.mv_data, value.mv_size);
      m.need += (int64_t)value.mv_size;
    }
    ends[i] = (uint64_t)m.need;
    p += 4 + key.mv_size;
  }
  if (txn == NULL) mdb_txn_reset(t);
  return m;
}

// Ends a write transaction, which becomes durable with sync.
static int finish(kv_env* e, MDB_txn* txn, int rc, int sync) {
  if (rc != 0) {
    mdb_txn_abort(txn);
    return rc;
  }
  rc = mdb_txn_commit(txn);
  return rc == 0 && sync ? kv_sync(e) : rc;
}

static int delete(kv_env* e, MDB_txn* txn, const char* k, size_t kn) {
  MDB_val key = val(k, kn);
  int rc = mdb_del(txn, e->dbi, &key, NULL);
  return rc == MDB_NOTFOUND ? 0 : rc;
}

int kv_put(kv_env* e, int sync, const char* k, size_t kn, const char* v, size_t vn) {
  MDB_txn* txn;
  int rc = mdb_txn_begin(e->env, NULL, 0, &txn);
  if (rc != 0) return rc;
  MDB_val key = val(k, kn), value = val(v, vn);
  return finish(e, txn, mdb_put(txn, e->dbi, &key, &value, 0), sync);
}

int kv_delete(kv_env* e, int sync, const char* k, size_t kn) {
  MDB_txn* txn;
  int rc = mdb_txn_begin(e->env, NULL, 0, &txn);
  if (rc != 0) return rc;
  return finish(e, txn, delete(e, txn, k, kn), sync);
}

int kv_write(kv_env* e, int sync, const char* p, int64_t n) {
  MDB_txn* txn;
  int rc = mdb_txn_begin(e->env, NULL, 0, &txn);
  if (rc != 0) return rc;
  for (; n > 0 && rc == 0; n--) {
    uint32_t k = u32(p), v = u32(p + 4);
    p += 8;
    if (v == UINT32_MAX) {
      rc = delete(e, txn, p, k);
      p += k;
      continue;
    }
    MDB_val key = val(p, k), value = val(p + k, v);
    rc = mdb_put(txn, e->dbi, &key, &value, 0);
    p += (size_t)k + v;
  }
  return finish(e, txn, rc, sync);
}

int kv_snapshot(kv_env* e, MDB_txn** out) { return mdb_txn_begin(e->env, NULL, MDB_RDONLY, out); }

// Takes an idle iterator, or NULL.
static kv_iter* take_idle(kv_env* e) {
  pthread_mutex_lock(&e->mu);
  kv_iter* it = e->idle;
  if (it != NULL) e->idle = it->next;
  pthread_mutex_unlock(&e->mu);
  return it;
}

static void destroy(kv_iter* it) {
  if (it->cursor != NULL) mdb_cursor_close(it->cursor);
  if (it->own && it->txn != NULL) mdb_txn_abort(it->txn);
  free(it);
}

int kv_iter_open(kv_env* e, MDB_txn* txn, kv_iter** out) {
  kv_iter* it = txn == NULL ? take_idle(e) : NULL;
  int rc = 0;
  if (it != NULL) {
    rc = mdb_txn_renew(it->txn);
    if (rc == 0) rc = mdb_cursor_renew(it->txn, it->cursor);
  } else {
    it = calloc(1, sizeof *it);
    if (it == NULL) return ENOMEM;
    it->env = e;
    it->own = txn == NULL;
    it->txn = txn;
    if (it->own) rc = mdb_txn_begin(e->env, NULL, MDB_RDONLY, &it->txn);
    if (rc == 0) rc = mdb_cursor_open(it->txn, e->dbi, &it->cursor);
  }
  if (rc != 0) {
    destroy(it);
    return rc;
  }
  it->rc = MDB_NOTFOUND; // unpositioned
  *out = it;
  return 0;
}

void kv_iter_close(kv_iter* it) {
  if (!it->own) {
    destroy(it);
    return;
  }
  mdb_txn_reset(it->txn);
  pthread_mutex_lock(&it->env->mu);
  it->next = it->env->idle;
  it->env->idle = it;
  pthread_mutex_unlock(&it->env->mu);
}

int kv_iter_error(kv_iter* it) { return it->rc == MDB_NOTFOUND ? 0 : it->rc; }

static void move(kv_iter* it, MDB_cursor_op op) {
  it->rc = mdb_cursor_get(it->cursor, &it->key, &it->value, op);
}

static void seek(kv_iter* it, const char* k, size_t kn) {
  it->key = val(k, kn);
  move(it, MDB_SET_RANGE);
}

// The values of package crun.
enum { STEP, FIRST, LAST, SEEK_GE, SEEK_LT, SEEK_GT, STAY };

run kv_fetch(kv_iter* it, int op, const char* k, size_t kn, int backward, int64_t limit, char* dst,
  size_t cap) {
  run r = {0, 0, 0};
  MDB_cursor_op next = backward ? MDB_PREV : MDB_NEXT;
  switch (op) {
    case STEP:
      if (it->rc != 0) return r;
      move(it, next);
      break;
    case FIRST: move(it, MDB_FIRST); break;
    case LAST: move(it, MDB_LAST); break;
    case SEEK_GE: seek(it, k, kn); break;
    case SEEK_GT:
      seek(it, k, kn);
      if (it->rc == 0 && it->key.mv_size == kn && memcmp(it->key.mv_data, k, kn) == 0) {
        move(it, MDB_NEXT);
      }
      break;
    case SEEK_LT:
      seek(it, k, kn);
      if (it->rc == 0) move(it, MDB_PREV);
      else if (it->rc == MDB_NOTFOUND) move(it, MDB_LAST);
      break;
  }
  while (it->rc == 0) {
    size_t a = it->key.mv_size, b = it->value.mv_size;
    int64_t size = (int64_t)(8 + a + b);
    if (r.used + size > (int64_t)cap) {
      r.need = size;
      break;
    }
    uint32_t lengths[2] = {(uint32_t)a, (uint32_t)b};
    memcpy(dst + r.used, lengths, 8);
    memcpy(dst + r.used + 8, it->key.mv_data, a);
    memcpy(dst + r.used + 8 + a, it->value.mv_data, b);
    r.used += size;
    if (++r.n == limit) break;
    move(it, next);
  }
  return r;
}
