//go:build cgo && sqlite

#include "shim.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

// The statements of a connection.
enum { GET, PUT, DELETE, BEGIN_READ, BEGIN_WRITE, COMMIT, ROLLBACK, TOUCH, STATEMENTS };

static const char* const texts[STATEMENTS] = {
  "SELECT v FROM t WHERE k = ?1",
  "REPLACE INTO t(k, v) VALUES(?1, ?2)",
  "DELETE FROM t WHERE k = ?1",
  "BEGIN",
  "BEGIN IMMEDIATE",
  "COMMIT",
  "ROLLBACK",
  "SELECT 1 FROM t LIMIT 1",
};

// The queries of an iterator.
enum { ALL, ALL_DOWN, FROM, BEHIND, BEFORE, QUERIES };

static const char* const queries[QUERIES] = {
  "SELECT k, v FROM t ORDER BY k",
  "SELECT k, v FROM t ORDER BY k DESC",
  "SELECT k, v FROM t WHERE k >= ?1 ORDER BY k",
  "SELECT k, v FROM t WHERE k > ?1 ORDER BY k",
  "SELECT k, v FROM t WHERE k < ?1 ORDER BY k DESC",
};

struct sq_conn {
  sqlite3* db;
  sqlite3_stmt* s[STATEMENTS];
  sq_conn* next;
};

struct sq_iter {
  sq_env* env;
  sq_conn* conn;
  sqlite3_stmt* q[QUERIES];
  sqlite3_stmt* at; // the query under way
  int rc;           // of the last step
  int own;          // the connection is the iterator's
  sq_iter* next;
};

struct sq_env {
  char* file;
  int cache, log;
  pthread_mutex_t mu;
  sq_conn* idle;       // guarded by mu
  sq_iter* idle_iters; // guarded by mu
  pthread_mutex_t writing;
  sq_conn* writers[2]; // that does not sync its commits, and that does; guarded by writing
};

static pthread_once_t once = PTHREAD_ONCE_INIT;

// The count of all memory that is in use would take a lock at each allocation.
static void configure(void) { sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0); }

static uint32_t u32(const char* p) {
  uint32_t x;
  memcpy(&x, p, 4);
  return x;
}

static int bind(sqlite3_stmt* s, int i, const char* p, size_t n) {
  return sqlite3_bind_blob64(s, i, n == 0 ? "" : p, n, SQLITE_STATIC);
}

static int prepare(sqlite3* db, const char* text, sqlite3_stmt** s) {
  return *s != NULL ? SQLITE_OK : sqlite3_prepare_v3(db, text, -1, SQLITE_PREPARE_PERSISTENT, s,
    NULL);
}

// Runs a statement that returns no row.
static int once_more(sq_conn* c, int i) {
  int rc = prepare(c->db, texts[i], &c->s[i]);
  if (rc != SQLITE_OK) return rc;
  rc = sqlite3_step(c->s[i]);
  sqlite3_reset(c->s[i]);
  sqlite3_clear_bindings(c->s[i]); // the bytes are the caller's
  return rc == SQLITE_DONE || rc == SQLITE_ROW ? SQLITE_OK : rc;
}

static void close_conn(sq_conn* c) {
  if (c == NULL) return;
  for (int i = 0; i < STATEMENTS; i++) sqlite3_finalize(c->s[i]);
  sqlite3_close(c->db);
  free(c);
}

static int open_conn(sq_env* e, int sync, sq_conn** out) {
  sq_conn* c = calloc(1, sizeof *c);
  if (c == NULL) return SQLITE_NOMEM;
  int rc = sqlite3_open_v2(e->file, &c->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE |
    SQLITE_OPEN_NOMUTEX, NULL);
  char text[400];
  snprintf(text, sizeof text,
           "PRAGMA busy_timeout=60000; PRAGMA journal_mode=WAL; PRAGMA synchronous=%s; PRAGMA "
           "cache_size=-%d;"
           "PRAGMA mmap_size=2147418112; PRAGMA wal_autocheckpoint=%d;"
           "CREATE TABLE IF NOT EXISTS t(k BLOB PRIMARY KEY NOT NULL, v BLOB NOT NULL) WITHOUT "
           "ROWID;",
           sync ? "FULL" : "NORMAL", e->cache, e->log);
  if (rc == SQLITE_OK) rc = sqlite3_exec(c->db, text, NULL, NULL, NULL);
  if (rc != SQLITE_OK) {
    close_conn(c);
    return rc;
  }
  *out = c;
  return SQLITE_OK;
}

int sq_open(const char* file, int cache, int log, sq_env** out) {
  pthread_once(&once, configure);
  sq_env* e = calloc(1, sizeof *e);
  if (e == NULL) return SQLITE_NOMEM;
  pthread_mutex_init(&e->mu, NULL);
  pthread_mutex_init(&e->writing, NULL);
  e->file = strdup(file);
  e->cache = cache;
  e->log = log;
  int rc = e->file == NULL ? SQLITE_NOMEM : SQLITE_OK;
  for (int sync = 0; sync < 2 && rc == SQLITE_OK; sync++) {
    rc = open_conn(e, sync, &e->writers[sync]);
  }
  if (rc != SQLITE_OK) {
    sq_close(e);
    return rc;
  }
  *out = e;
  return SQLITE_OK;
}

static void destroy(sq_iter* it) {
  for (int i = 0; i < QUERIES; i++) sqlite3_finalize(it->q[i]);
  if (it->own) close_conn(it->conn);
  free(it);
}

int sq_close(sq_env* e) {
  while (e->idle_iters != NULL) {
    sq_iter* it = e->idle_iters;
    e->idle_iters = it->next;
    destroy(it);
  }
  while (e->idle != NULL) {
    sq_conn* c = e->idle;
    e->idle = c->next;
    close_conn(c);
  }
  close_conn(e->writers[0]);
  close_conn(e->writers[1]); // the last one moves the log to the database
  pthread_mutex_destroy(&e->mu);
  pthread_mutex_destroy(&e->writing);
  free(e->file);
  free(e);
  return SQLITE_OK;
}

// Takes an idle connection, or a new one.
static int take(sq_env* e, sq_conn** out) {
  pthread_mutex_lock(&e->mu);
  sq_conn* c = e->idle;
  if (c != NULL) e->idle = c->next;
  pthread_mutex_unlock(&e->mu);
  *out = c;
  return c != NULL ? SQLITE_OK : open_conn(e, 0, out);
}

static void give(sq_env* e, sq_conn* c) {
  pthread_mutex_lock(&e->mu);
  c->next = e->idle;
  e->idle = c;
  pthread_mutex_unlock(&e->mu);
}

// Begins a read transaction whose state is that of now.
static int begin_read(sq_conn* c) {
  int rc = once_more(c, BEGIN_READ);
  return rc == SQLITE_OK ? once_more(c, TOUCH) : rc;
}

// Looks a key up. After SQLITE_OK the value is good until the statement is reset.
static int look(sq_conn* c, const char* k, size_t kn, const void** v, size_t* vn) {
  int rc = prepare(c->db, texts[GET], &c->s[GET]);
  sqlite3_stmt* s = c->s[GET];
  if (rc == SQLITE_OK) rc = bind(s, 1, k, kn);
  if (rc == SQLITE_OK) rc = sqlite3_step(s);
  if (rc == SQLITE_DONE) return SQLITE_NOTFOUND;
  if (rc != SQLITE_ROW) return rc;
  *v = sqlite3_column_blob(s, 0);
  *vn = (size_t)sqlite3_column_bytes(s, 0);
  return SQLITE_OK;
}

got sq_get(sq_env* e, sq_conn* in, const char* k, size_t kn, char* dst, size_t cap) {
  got g = {0, 0, NULL};
  sq_conn* c = in;
  if (c == NULL && (g.rc = take(e, &c)) != SQLITE_OK) return g;
  const void* v = NULL;
  size_t n = 0;
  g.rc = look(c, k, kn, &v, &n);
  if (g.rc == SQLITE_OK) {
    g.n = (int64_t)n;
    if (n > cap) dst = g.big = malloc(n);
    if (n > 0 && dst != NULL) memcpy(dst, v, n);
    else if (n > 0) g.rc = SQLITE_NOMEM;
  }
  sqlite3_reset(c->s[GET]);
  sqlite3_clear_bindings(c->s[GET]);
  if (in == NULL) give(e, c);
  return g;
}

many sq_multi_get(sq_env* e, sq_conn* in, const char* p, int64_t n, char* dst, size_t cap,
  uint64_t* ends, uint8_t* found) {
  many m = {0, 0};
  sq_conn* c = in;
  if (c == NULL) {
    if ((m.rc = take(e, &c)) == SQLITE_OK) m.rc = once_more(c, BEGIN_READ);
    if (m.rc != SQLITE_OK) {
      close_conn(c);
      return m;
    }
  }
  for (int64_t i = 0; i < n && m.rc == SQLITE_OK; i++) {
    size_t kn = u32(p), vn = 0;
    const void* v = NULL;
    int rc = look(c, p + 4, kn, &v, &vn);
    if (rc != SQLITE_OK && rc != SQLITE_NOTFOUND) m.rc = rc;
    found[i] = rc == SQLITE_OK;
    if (rc == SQLITE_OK) {
      if ((size_t)m.need + vn <= cap && vn > 0) memcpy(dst + m.need, v, vn);
      m.need += (int64_t)vn;
    }
    sqlite3_reset(c->s[GET]);
    sqlite3_clear_bindings(c->s[GET]);
    ends[i] = (uint64_t)m.need;
    p += 4 + kn;
  }
  if (in == NULL) {
    once_more(c, COMMIT);
    give(e, c);
  }
  return m;
}

static int put(sq_conn* c, const char* k, size_t kn, const char* v, size_t vn) {
  int rc = prepare(c->db, texts[PUT], &c->s[PUT]);
  if (rc == SQLITE_OK) rc = bind(c->s[PUT], 1, k, kn);
  if (rc == SQLITE_OK) rc = bind(c->s[PUT], 2, v, vn);
  return rc == SQLITE_OK ? once_more(c, PUT) : rc;
}

static int delete(sq_conn* c, const char* k, size_t kn) {
  int rc = prepare(c->db, texts[DELETE], &c->s[DELETE]);
  if (rc == SQLITE_OK) rc = bind(c->s[DELETE], 1, k, kn);
  return rc == SQLITE_OK ? once_more(c, DELETE) : rc;
}

int sq_put(sq_env* e, int sync, const char* k, size_t kn, const char* v, size_t vn) {
  pthread_mutex_lock(&e->writing);
  int rc = put(e->writers[sync], k, kn, v, vn);
  pthread_mutex_unlock(&e->writing);
  return rc;
}

int sq_delete(sq_env* e, int sync, const char* k, size_t kn) {
  pthread_mutex_lock(&e->writing);
  int rc = delete(e->writers[sync], k, kn);
  pthread_mutex_unlock(&e->writing);
  return rc;
}

int sq_write(sq_env* e, int sync, const char* p, int64_t n) {
  pthread_mutex_lock(&e->writing);
  sq_conn* c = e->writers[sync];
  int rc = once_more(c, BEGIN_WRITE);
  if (rc == SQLITE_OK) {
    for (; n > 0 && rc == SQLITE_OK; n--) {
      uint32_t k = u32(p), v = u32(p + 4);
      p += 8;
      if (v == UINT32_MAX) {
        rc = delete(c, p, k);
        p += k;
        continue;
      }
      rc = put(c, p, k, p + k, v);
      p += (size_t)k + v;
    }
    if (rc == SQLITE_OK) rc = once_more(c, COMMIT);
    if (rc != SQLITE_OK) once_more(c, ROLLBACK);
  }
  pthread_mutex_unlock(&e->writing);
  return rc;
}

int sq_snapshot(sq_env* e, sq_conn** out) {
  int rc = take(e, out);
  if (rc != SQLITE_OK) return rc;
  rc = begin_read(*out);
  if (rc != SQLITE_OK) close_conn(*out);
  return rc;
}

int sq_snapshot_close(sq_env* e, sq_conn* c) {
  int rc = once_more(c, COMMIT);
  if (rc == SQLITE_OK) give(e, c);
  else close_conn(c);
  return rc;
}

int sq_iter_open(sq_env* e, sq_conn* in, sq_iter** out) {
  sq_iter* it = NULL;
  int rc = SQLITE_OK;
  if (in == NULL) {
    pthread_mutex_lock(&e->mu);
    it = e->idle_iters;
    if (it != NULL) e->idle_iters = it->next;
    pthread_mutex_unlock(&e->mu);
  }
  if (it == NULL) {
    it = calloc(1, sizeof *it);
    if (it == NULL) return SQLITE_NOMEM;
    it->env = e;
    it->conn = in;
    it->own = in == NULL;
    if (it->own) rc = open_conn(e, 0, &it->conn);
  }
  if (rc == SQLITE_OK && it->own) rc = begin_read(it->conn);
  if (rc != SQLITE_OK) {
    destroy(it);
    return rc;
  }
  it->rc = SQLITE_DONE; // unpositioned
  *out = it;
  return SQLITE_OK;
}

void sq_iter_close(sq_iter* it) {
  if (it->at != NULL) sqlite3_reset(it->at);
  it->at = NULL;
  if (!it->own || once_more(it->conn, COMMIT) != SQLITE_OK) {
    destroy(it);
    return;
  }
  pthread_mutex_lock(&it->env->mu);
  it->next = it->env->idle_iters;
  it->env->idle_iters = it;
  pthread_mutex_unlock(&it->env->mu);
}

int sq_iter_error(sq_iter* it) {
  return it->rc == SQLITE_DONE || it->rc == SQLITE_ROW ? SQLITE_OK : it->rc;
}

static void step(sq_iter* it) {
  it->rc = sqlite3_step(it->at);
  if (it->rc != SQLITE_ROW) sqlite3_reset(it->at);
}

// Begins a query, with a key unless k is NULL.
static void query(sq_iter* it, int i, const char* k, size_t kn) {
  if (it->at != NULL) sqlite3_reset(it->at);
  it->rc = prepare(it->conn->db, queries[i], &it->q[i]);
  it->at = it->q[i];
  if (it->rc == SQLITE_OK && i >= FROM) {
    it->rc = sqlite3_bind_blob64(it->at, 1, kn == 0 ? "" : k, kn, SQLITE_TRANSIENT);
  }
  if (it->rc == SQLITE_OK) step(it);
}

// The values of package crun. A query goes in one direction, which a seek sets.
enum { STEP, FIRST, LAST, SEEK_GE, SEEK_LT, SEEK_GT, STAY };

run sq_fetch(sq_iter* it, int op, const char* k, size_t kn, int backward, int64_t limit, char* dst,
  size_t cap) {
  run r = {0, 0, 0};
  (void)backward;
  switch (op) {
    case STEP:
      if (it->rc == SQLITE_ROW) step(it);
      break;
    case FIRST: query(it, ALL, NULL, 0); break;
    case LAST: query(it, ALL_DOWN, NULL, 0); break;
    case SEEK_GE: query(it, FROM, k, kn); break;
    case SEEK_GT: query(it, BEHIND, k, kn); break;
    case SEEK_LT: query(it, BEFORE, k, kn); break;
  }
  while (it->rc == SQLITE_ROW) {
    const void* key = sqlite3_column_blob(it->at, 0);
    const void* value = sqlite3_column_blob(it->at, 1);
    size_t a = (size_t)sqlite3_column_bytes(it->at, 0), b = (size_t)sqlite3_column_bytes(it->at, 1);
    int64_t size = (int64_t)(8 + a + b);
    if (r.used + size > (int64_t)cap) {
      r.need = size;
      break;
    }
    uint32_t lengths[2] = {(uint32_t)a, (uint32_t)b};
    memcpy(dst + r.used, lengths, 8);
    if (a > 0) memcpy(dst + r.used + 8, key, a);
    if (b > 0) memcpy(dst + r.used + 8 + a, value, b);
    r.used += size;
    if (++r.n == limit) break;
    step(it);
  }
  return r;
}

int sq_copy(sq_env* e, const char* from, const char* to) {
  sq_conn* c = NULL;
  sqlite3 *source = NULL, *target = NULL;
  int rc;
  if (e != NULL) {
    rc = take(e, &c);
    source = c != NULL ? c->db : NULL;
  } else {
    rc = sqlite3_open_v2(from, &source, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
  }
  if (rc == SQLITE_OK) {
    rc = sqlite3_open_v2(to, &target, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE |
      SQLITE_OPEN_NOMUTEX, NULL);
  }
  // It is new: no journal could bring anything back. Its commit syncs it.
  if (rc == SQLITE_OK) {
    rc = sqlite3_exec(target, "PRAGMA journal_mode=OFF; PRAGMA synchronous=FULL;", NULL, NULL,
      NULL);
  }
  if (rc == SQLITE_OK) {
    sqlite3_backup* b = sqlite3_backup_init(target, "main", source, "main");
    if (b == NULL) {
      rc = sqlite3_errcode(target);
    } else {
      sqlite3_backup_step(b, -1);
      rc = sqlite3_backup_finish(b);
    }
  }
  int closed = sqlite3_close(target);
  if (rc == SQLITE_OK) rc = closed;
  if (c != NULL) give(e, c);
  else sqlite3_close(source);
  return rc;
}
