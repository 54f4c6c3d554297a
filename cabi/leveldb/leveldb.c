/* Databases, iterators and write batches. */
#include "types.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A leveldb_t is a database handle of Loam's, a leveldb_snapshot_t one of a
 * snapshot. */
static loam_db *database(leveldb_t *db) { return (loam_db *)db; }

struct leveldb_iterator_t {
  loam_iter *iter;
  loam_entry entry;
  uint8_t valid;
  loam_status status; /* of the last move, when that failed */
  char *err;
};

struct leveldb_writebatch_t {
  loam_batch *batch; /* NULL: nothing was put into it yet */
  loam_status status; /* of the first operation that did not fit */
};

/* ---- Errors ---- */

static const char *kind_of(loam_status status) {
  switch (status) {
    case LOAM_NOT_FOUND:
      return "NotFound: ";
    case LOAM_ERR_CORRUPTION:
      return "Corruption: ";
    case LOAM_ERR_INVALID_ARGUMENT:
    case LOAM_ERR_INVALID_HANDLE:
    case LOAM_ERR_EXISTS:
    case LOAM_ERR_DOES_NOT_EXIST:
    case LOAM_ERR_COMPARATOR_MISMATCH:
    case LOAM_ERR_NOT_A_DATABASE:
    case LOAM_ERR_TOO_LARGE:
      return "Invalid argument: ";
    default:
      return "IO error: ";
  }
}

/* Messages for when memory is out, each ending as any other in free(): without
 * one a failed write would look as if it had been done. */
enum { SPARES = 16 };
static char *spares[SPARES];
static pthread_mutex_t spares_mutex = PTHREAD_MUTEX_INITIALIZER;

static const char no_memory[] = "IO error: out of memory";

static char *spare(void) {
  char *s = NULL;
  pthread_mutex_lock(&spares_mutex);
  for (int i = 0; i < SPARES && !s; i++) {
    s = spares[i];
    spares[i] = NULL;
  }
  pthread_mutex_unlock(&spares_mutex);
  if (!s) abort(); /* as LevelDB does when memory is out */
  return s;
}

static void fill_spares(void) {
  pthread_mutex_lock(&spares_mutex);
  for (int i = 0; i < SPARES; i++)
    if (!spares[i] && (spares[i] = malloc(sizeof no_memory))) {
      memcpy(spares[i], no_memory, sizeof no_memory);
    }
  pthread_mutex_unlock(&spares_mutex);
}

/* LevelDB's words for a status of Loam's and its message (NULL: none). */
static char *words(loam_status status, const char *err) {
  const char *kind = kind_of(status);
  if (!err) err = loamldb_words(status);
  if (!strncmp(err, "loam: ", 6)) err += 6;
  size_t n = strlen(kind) + strlen(err) + 1;
  char *s = malloc(n);
  if (!s) return spare();
  snprintf(s, n, "%s%s", kind, err);
  return s;
}

/* Takes over message. */
static void replace(char **errptr, char *message) {
  if (!errptr) {
    free(message);
    return;
  }
  free(*errptr);
  *errptr = message;
}

/* Stores an error as LevelDB words it; err is Loam's message, which is freed.
 * Answers and LOAM_OK store nothing. */
static void save(char **errptr, loam_status status, char *err) {
  if (status < 0 && errptr) replace(errptr, words(status, err));
  free(err);
}

static void save_words(char **errptr, loam_status status, const char *a, const char *b,
  const char *c) {
  size_t n = strlen(a) + strlen(b) + strlen(c) + 1;
  char *s = malloc(n);
  if (s) snprintf(s, n, "%s%s%s", a, b, c);
  save(errptr, s ? status : LOAM_ERR_NO_MEMORY, s);
}

/* Stores why a database was not opened in LevelDB's words, by which programs
 * know the reason. */
static void save_open(char **errptr, loam_status status, const leveldb_options_t *options,
  const char *name, char *err) {
  char *theirs = status == LOAM_ERR_COMPARATOR_MISMATCH && err ? strstr(err, "has \"") : NULL;
  char *end = theirs ? strchr(theirs += 5, '"') : NULL;
  switch (status) {
    case LOAM_ERR_DOES_NOT_EXIST:
      save_words(errptr, status, name, ": does not exist (create_if_missing is false)", "");
      break;
    case LOAM_ERR_EXISTS:
      save_words(errptr, status, name, ": exists (error_if_exists is true)", "");
      break;
    case LOAM_ERR_LOCKED:
      save_words(errptr, status, "lock ", name, err && strstr(err, "this process") ?
        "/LOCK: already held by process" : "/LOCK: Resource temporarily unavailable");
      break;
    case LOAM_ERR_COMPARATOR_MISMATCH:
      if (end) {
        const leveldb_comparator_t *c = options ? options->comparator : NULL;
        *end = 0;
        save_words(errptr, status, theirs, " does not match existing comparator : ",
          c ? c->name(c->state) : "leveldb.BytewiseComparator");
        break;
      }
      /* fall through */
    default:
      save(errptr, status, err);
      return;
  }
  free(err);
}

/* ---- Databases ---- */

leveldb_t *leveldb_open(const leveldb_options_t *options, const char *name, char **errptr) {
  loam_options *o = NULL;
  loam_db *db = NULL;
  char *err = NULL;
  loam_status s = loamldb_options(options, &o, &err);
  if (s == LOAM_OK) {
    s = loam_open(name, o, &db, &err);
    loam_options_close(o);
  }
  if (s == LOAM_OK) fill_spares();
  save_open(errptr, s, options, name, err);
  return (leveldb_t *)db;
}

void leveldb_close(leveldb_t *db) { loam_close(database(db), NULL); }

static loam_write_options writing(const leveldb_writeoptions_t *options) {
  loam_write_options o;
  o.struct_size = sizeof o;
  o.flags = options && options->sync ? LOAM_SYNC : 0;
  return o;
}

void leveldb_put(leveldb_t *db, const leveldb_writeoptions_t *options, const char *key,
  size_t keylen, const char *val, size_t vallen, char **errptr) {
  char *err = NULL;
  loam_write_options o = writing(options);
  loam_status s = loam_put(database(db), &o, key, keylen, val, vallen, NULL, &err);
  save(errptr, s, err);
}

void leveldb_delete(leveldb_t *db, const leveldb_writeoptions_t *options, const char *key,
  size_t keylen, char **errptr) {
  char *err = NULL;
  loam_write_options o = writing(options);
  loam_status s = loam_delete(database(db), &o, key, keylen, NULL, &err);
  save(errptr, s, err);
}

/* The functions that fill a batch have no way to fail; leveldb_write has. The
 * batch is made when something is put into it. */
static int fillable(leveldb_writebatch_t *b) {
  char *err = NULL;
  if (b->status == LOAM_OK && !b->batch && (b->status = loamldb_load(&err)) == LOAM_OK) {
    b->status = loam_batch_create(&b->batch, &err);
  }
  free(err);
  return b->status == LOAM_OK;
}

void leveldb_write(leveldb_t *db, const leveldb_writeoptions_t *options,
  leveldb_writebatch_t *batch, char **errptr) {
  char *err = NULL;
  loam_write_options o = writing(options);
  loam_status s = LOAM_ERR_INVALID_ARGUMENT;
  if (batch && !fillable(batch)) s = batch->status;
  else if (batch) s = loam_write(database(db), &o, batch->batch, NULL, &err);
  save(errptr, s, err);
}

char *leveldb_get(leveldb_t *db, const leveldb_readoptions_t *options, const char *key,
  size_t keylen, size_t *vallen, char **errptr) {
  char *err = NULL;
  void *value = NULL;
  size_t len = 0;
  loam_read_options o;
  o.struct_size = sizeof o;
  o.flags = options && options->no_fill ? LOAM_NO_FILL : 0;
  o.snapshot = options ? (const loam_snapshot *)options->snapshot : NULL;
  loam_status s = loam_get_alloc(database(db), &o, key, keylen, &value, &len, &err);
  save(errptr, s, err);
  if (vallen) *vallen = value ? len : 0;
  return value;
}

const leveldb_snapshot_t *leveldb_create_snapshot(leveldb_t *db) {
  loam_snapshot *snapshot = NULL;
  loam_snapshot_create(database(db), &snapshot, NULL);
  return (const leveldb_snapshot_t *)snapshot;
}

void leveldb_release_snapshot(leveldb_t *db, const leveldb_snapshot_t *snapshot) {
  (void)db;
  loam_snapshot_close((loam_snapshot *)snapshot);
}

char *leveldb_property_value(leveldb_t *db, const char *propname) {
  char *value = NULL;
  loam_property(database(db), propname, &value, NULL);
  return value;
}

void leveldb_approximate_sizes(leveldb_t *db, int num_ranges, const char *const *range_start_key,
  const size_t *range_start_key_len, const char *const *range_limit_key,
  const size_t *range_limit_key_len, uint64_t *sizes) {
  for (int i = 0; i < num_ranges; i++) {
    /* A missing key is the empty one here. */
    const void *start = range_start_key[i] ? range_start_key[i] : "", *limit = range_limit_key[i] ?
      range_limit_key[i] : "";
    sizes[i] = 0;
    loam_approximate_sizes(database(db), 1, &start, &range_start_key_len[i], &limit,
      &range_limit_key_len[i], &sizes[i], NULL);
  }
}

/* LevelDB's range includes its end: Loam's stops before the key that follows. */
void leveldb_compact_range(leveldb_t *db, const char *start_key, size_t start_key_len,
  const char *limit_key, size_t limit_key_len) {
  loam_iter *iter = NULL;
  loam_entry e;
  e.key = NULL;
  e.key_len = 0;
  loam_iter_options o;
  memset(&o, 0, sizeof o);
  o.struct_size = sizeof o;
  o.flags = LOAM_KEYS_ONLY | LOAM_NO_FILL;
  if (limit_key && loam_iter_create(database(db), &o, &iter, NULL) == LOAM_OK) {
    loam_status s = loam_iter_seek(iter, limit_key, limit_key_len, &e, NULL);
    if (s == LOAM_OK && e.key_len == limit_key_len &&
      memcmp(e.key, limit_key, limit_key_len) == 0) s = loam_iter_next(iter, &e, NULL);
    if (s != LOAM_OK) e.key = NULL;
  }
  loam_compact(database(db), start_key, start_key_len, e.key, e.key_len, NULL);
  loam_iter_close(iter);
}

void leveldb_destroy_db(const leveldb_options_t *options, const char *name, char **errptr) {
  loam_options *o = NULL;
  char *err = NULL;
  loam_status s = loamldb_options(options, &o, &err);
  if (s == LOAM_OK) {
    s = loam_destroy(name, o, &err);
    loam_options_close(o);
  }
  save(errptr, s, err);
}

void leveldb_repair_db(const leveldb_options_t *options, const char *name, char **errptr) {
  loam_options *o = NULL;
  char *err = NULL;
  loam_status s = loamldb_options(options, &o, &err);
  if (s == LOAM_OK) {
    s = loam_repair(name, o, NULL, &err);
    loam_options_close(o);
  }
  save(errptr, s, err);
}

/* ---- Iterators ---- */

/* Keeps what a move returned. The error of an iterator is the first one, also after a seek to where
 * there is none. */
static void moved(leveldb_iterator_t *iter, loam_status status, char *err) {
  iter->valid = status == LOAM_OK;
  if (iter->status < 0) {
    free(err);
    return;
  }
  free(iter->err);
  iter->err = err;
  iter->status = status;
}

leveldb_iterator_t *leveldb_create_iterator(leveldb_t *db, const leveldb_readoptions_t *options) {
  leveldb_iterator_t *iter = calloc(1, sizeof *iter);
  loam_iter_options o;
  char *err = NULL;
  if (!iter) return NULL;
  memset(&o, 0, sizeof o);
  o.struct_size = sizeof o;
  if (options) {
    o.snapshot = (const loam_snapshot *)options->snapshot;
    o.flags = options->no_fill ? LOAM_NO_FILL : 0;
  }
  loam_status status = loam_iter_create(database(db), &o, &iter->iter, &err);
  moved(iter, status == LOAM_OK ? LOAM_END : status, err);
  return iter;
}

void leveldb_iter_destroy(leveldb_iterator_t *iter) {
  if (!iter) return;
  if (iter->iter) loam_iter_close(iter->iter);
  free(iter->err);
  free(iter);
}

uint8_t leveldb_iter_valid(const leveldb_iterator_t *iter) { return iter->valid; }

void leveldb_iter_seek_to_first(leveldb_iterator_t *iter) {
  char *err = NULL;
  if (!iter->iter) return;
  loam_status s = loam_iter_first(iter->iter, &iter->entry, &err);
  moved(iter, s, err);
}

void leveldb_iter_seek_to_last(leveldb_iterator_t *iter) {
  char *err = NULL;
  if (!iter->iter) return;
  loam_status s = loam_iter_last(iter->iter, &iter->entry, &err);
  moved(iter, s, err);
}

void leveldb_iter_seek(leveldb_iterator_t *iter, const char *k, size_t klen) {
  char *err = NULL;
  if (!iter->iter) return;
  loam_status s = loam_iter_seek(iter->iter, k, klen, &iter->entry, &err);
  moved(iter, s, err);
}

void leveldb_iter_next(leveldb_iterator_t *iter) {
  char *err = NULL;
  if (!iter->valid) return;
  loam_status s = loam_iter_next(iter->iter, &iter->entry, &err);
  moved(iter, s, err);
}

void leveldb_iter_prev(leveldb_iterator_t *iter) {
  char *err = NULL;
  if (!iter->valid) return;
  loam_status s = loam_iter_prev(iter->iter, &iter->entry, &err);
  moved(iter, s, err);
}

const char *leveldb_iter_key(const leveldb_iterator_t *iter, size_t *klen) {
  *klen = iter->valid ? iter->entry.key_len : 0;
  return iter->valid ? iter->entry.key : NULL;
}

const char *leveldb_iter_value(const leveldb_iterator_t *iter, size_t *vlen) {
  *vlen = iter->valid ? iter->entry.value_len : 0;
  return iter->valid ? iter->entry.value : NULL;
}

void leveldb_iter_get_error(const leveldb_iterator_t *iter, char **errptr) {
  if (iter->status < 0 && errptr) replace(errptr, words(iter->status, iter->err));
}

/* ---- Write batches ---- */

leveldb_writebatch_t *leveldb_writebatch_create(void) {
  return calloc(1, sizeof(leveldb_writebatch_t));
}

void leveldb_writebatch_destroy(leveldb_writebatch_t *b) {
  if (!b) return;
  if (b->batch) loam_batch_close(b->batch);
  free(b);
}

void leveldb_writebatch_clear(leveldb_writebatch_t *b) {
  b->status = b->batch ? loam_batch_clear(b->batch) : LOAM_OK;
}

void leveldb_writebatch_put(leveldb_writebatch_t *b, const char *key, size_t klen, const char *val,
  size_t vlen) {
  if (fillable(b)) b->status = loam_batch_put(b->batch, key, klen, val, vlen, NULL);
}

void leveldb_writebatch_delete(leveldb_writebatch_t *b, const char *key, size_t klen) {
  if (fillable(b)) b->status = loam_batch_delete(b->batch, key, klen, NULL);
}

void leveldb_writebatch_append(leveldb_writebatch_t *destination,
  const leveldb_writebatch_t *source) {
  if (destination->status == LOAM_OK) destination->status = source->status;
  if (source->batch && fillable(destination)) {
    destination->status = loam_batch_append(destination->batch, source->batch, NULL);
  }
}

/* Callbacks with LevelDB's pointer types. */
typedef struct {
  void *state;
  void (*put)(void *, const char *, size_t, const char *, size_t);
  void (*deleted)(void *, const char *, size_t);
} visitor;

static int visit(void *arg, const loam_operation *operation, loam_failure *failure) {
  visitor *v = arg;
  (void)failure;
  if (operation->kind == LOAM_OP_PUT) v->put(v->state, operation->key, operation->key_len,
    operation->value, operation->value_len);
  else if (operation->kind == LOAM_OP_DELETE) v->deleted(v->state, operation->key,
    operation->key_len);
  return 0;
}

void leveldb_writebatch_iterate(const leveldb_writebatch_t *b, void *state,
  void (*put)(void *, const char *, size_t, const char *, size_t),
  void (*deleted)(void *, const char *, size_t)) {
  visitor v;
  v.state = state;
  v.put = put;
  v.deleted = deleted;
  if (b->batch) loam_batch_each(b->batch, visit, &v, NULL);
}

/* ---- The rest ---- */

void leveldb_free(void *ptr) { free(ptr); }
int leveldb_major_version(void) { return 1; }
int leveldb_minor_version(void) { return 23; }
