#include "addon.h"

/* Entries cross as blocks in the library's layout: key length and value length
 * (32-bit little-endian), key, value, one entry after the other. When every byte that JavaScript
 * wants as a string is ASCII, they cross as strings, of which JavaScript takes slices; otherwise as
 * Buffers, of which it takes copies. A slice keeps its whole parent in memory, so text crosses in
 * pieces of the size of Node's own pool for small Buffers. Large entries cross one by one. */

#define PIECE 8192
#define LARGE (16 * 1024)

typedef struct iterator {
  kind kind;
  loam_iter *iter; /* NULL: closed, or made from a closed snapshot */
  uint32_t flags;
  unsigned refs; /* the JavaScript object, and a work item */
  bool bytewise; /* the database's order */
  bool out;      /* a seek went outside the range */
  bool closing;  /* to be closed when the read under way has ended */
  range range;
} iterator;

static void iterator_close(iterator *it) {
  if (it->iter != NULL) loam.iter_close(it->iter);
  it->iter = NULL;
}

static void iterator_unref(iterator *it) {
  if (--it->refs == 1 && it->closing) iterator_close(it);
  if (it->refs > 0) return;
  iterator_close(it);
  range_free(&it->range);
  free(it);
}

static void iterator_finalize(napi_env env, void *data, void *hint) {
  (void)env;
  (void)hint;
  iterator_unref(data);
}

static bool iterator_open(napi_env env, iterator *it, database *db, napi_value snapshot_value,
  napi_value txn_value) {
  napi_valuetype type;
  const loam_snapshot *snapshot = NULL;
  loam_txn *txn;
  char *error = NULL;
  /* null: a snapshot that is closed. Reading then fails in the class above. */
  if (napi_typeof(env, snapshot_value, &type) != napi_ok) return false;
  if (type == napi_null) return true;
  if (!arg_snapshot(env, snapshot_value, &snapshot) || !arg_transaction(env, txn_value, &txn)) {
    return false;
  }
  loam_iter_options o = {.struct_size = sizeof o,
                         .snapshot = snapshot,
                         .lower = it->range.lower,
                         .lower_len = it->range.lower_len,
                         .upper = range_upper(&it->range),
                         .upper_len = it->range.upper_len};
  if (it->flags & FLAG_NO_FILL) o.flags |= LOAM_NO_FILL;
  if (!(it->flags & FLAG_VALUES)) o.flags |= LOAM_KEYS_ONLY;
  loam_status status = txn == NULL ? loam.iter_create(db->db, &o, &it->iter, &error) :
    loam.txn_iter_create(txn, db->db, &o, &it->iter, &error);
  if (status != LOAM_OK) throw_status(env, status, error);
  return status == LOAM_OK;
}

/* iterator(database, snapshot, lower, upper, flags, transaction) */
napi_value js_iterator(napi_env env, napi_callback_info info) {
  ARGS(6);
  database *db = arg_open_database(env, argv[0]);
  if (db == NULL) return NULL;
  iterator *it = calloc(1, sizeof *it);
  if (it == NULL) {
    throw_memory(env);
    return NULL;
  }
  it->kind = KIND_ITERATOR;
  it->refs = 1;
  it->flags = arg_u32(env, argv[4]);
  it->bytewise = db->bytewise;
  if (!range_read(env, &it->range, argv[2], argv[3], it->flags, it->bytewise) ||
    !iterator_open(env, it, db, argv[1], argv[5])) {
    iterator_unref(it);
    return NULL;
  }
  return make_external(env, it, iterator_finalize);
}

static int compare(const char *a, size_t a_len, const char *b, size_t b_len) {
  int c = memcmp(a, b, a_len < b_len ? a_len : b_len);
  return c != 0 ? c : (a_len > b_len) - (a_len < b_len);
}

/* Outside the range nothing is found. For comparers unknown to this file, the library finds the
 * nearest key inside the bounds. */
static bool outside(const iterator *it, const char *key, size_t len) {
  const range *r = &it->range;
  return it->bytewise && ((r->lower != NULL && compare(key, len, r->lower, r->lower_len) < 0) ||
                          (r->upper != NULL && compare(key, len, r->upper, r->upper_len) >= 0));
}

/* Stands so that the next entry is the first at or after the key, backwards
 * the last at or before it. */
static loam_status place(iterator *it, const char *key, size_t len, char **error) {
  loam_entry entry;
  if (!(it->flags & FLAG_REVERSE)) return loam.iter_place(it->iter, key, len, error);
  /* bytes_copy put a zero behind the key: with it, the next larger key. */
  if (it->bytewise) return loam.iter_place(it->iter, key, len + 1, error);
  loam_status status = loam.iter_seek(it->iter, key, len, &entry, error);
  if (status != LOAM_OK) return status; /* at the end, the last entry comes next */
  if (entry.key_len != len || memcmp(entry.key, key, len) != 0) {
    return loam.iter_place(it->iter, key, len, error);
  }
  status = loam.iter_next(it->iter, &entry, error);
  if (status != LOAM_OK) return status;
  char *next = malloc(entry.key_len + 1);
  if (next == NULL) return LOAM_ERR_NO_MEMORY;
  memcpy(next, entry.key, entry.key_len);
  status = loam.iter_place(it->iter, next, entry.key_len, error);
  free(next);
  return status;
}

/* iteratorSeek(iterator, key): the next entry is the first at or after the key
 * in the iterator's direction; there is none when the key is out of range. */
napi_value js_iteratorSeek(napi_env env, napi_callback_info info) {
  ARGS(2);
  char *key, *error = NULL;
  size_t len;
  iterator *it = get_external(env, argv[0], KIND_ITERATOR);
  if (it == NULL || !bytes_copy(env, argv[1], &key, &len)) return NULL;
  if (it->iter == NULL || key == NULL) {
    free(key);
    return NULL;
  }
  loam_status status = range_resolve(&it->range, it->iter, &error);
  it->out = status >= 0 && outside(it, key, len);
  if (status >= 0 && !it->out) status = place(it, key, len, &error);
  free(key);
  if (status < 0) throw_status(env, status, error);
  return NULL;
}

/* ---- reading ---- */

typedef struct next_work {
  work w;
  iterator *it;
  size_t entries, bytes; /* wanted at most */
  bool ended;
  const char *data; /* in the library's memory until the iterator moves, or joined */
  size_t len;
  char *joined;
} next_work;

static void next_release(work *w) {
  next_work *n = (next_work *)w;
  free(n->joined);
  iterator_unref(n->it);
}

static bool next_join(next_work *n, const loam_block *block) {
  if (n->data == NULL) {
    n->data = block->data;
    n->len = block->len;
    return true;
  }
  /* The first block is gone by now unless it was copied before the call. */
  char *grown = realloc(n->joined, n->len + block->len);
  if (grown == NULL) return false;
  memcpy(grown + n->len, block->data, block->len);
  n->data = n->joined = grown;
  n->len += block->len;
  return true;
}

static bool next_keep(next_work *n) {
  if (n->data == NULL || n->data == n->joined) return true;
  n->joined = malloc(n->len);
  if (n->joined == NULL) return false;
  memcpy(n->joined, n->data, n->len);
  n->data = n->joined;
  return true;
}

/* Bytes of a block that JavaScript gets, as highWaterMarkBytes counts them. */
static size_t wanted(const loam_block *block, uint32_t flags) {
  const unsigned char *p = block->data;
  size_t sum = 0;
  for (size_t i = 0; i < block->count; i++) {
    size_t key_len = u32le(p), value_len = u32le(p + 4);
    sum += (flags & FLAG_KEYS ? key_len : 0) + (flags & FLAG_VALUES ? value_len : 0);
    p += 8 + key_len + value_len;
  }
  return sum;
}

/* The entry that goes beyond the limit is the last one. The library's limit is
 * reached no later, as it counts more: each further request, for the rest, brings the estimate
 * closer. */
static size_t still_wanted(const next_work *n, size_t sum) {
  if (!(n->it->flags & FLAG_EXACT)) return n->len < n->bytes ? n->bytes - n->len : 0;
  return sum <= n->bytes ? n->bytes - sum + 1 : 0;
}

static void next_run(work *w) {
  next_work *n = (next_work *)w;
  iterator *it = n->it;
  loam_block block;
  size_t entries = 0, sum = 0, bytes;
  w->status = range_resolve(&it->range, it->iter, &w->error);
  if (w->status < 0) return;
  n->ended = it->range.nothing;
  if (n->ended) return;
  while (entries < n->entries && (bytes = still_wanted(n, sum)) > 0) {
    if (!next_keep(n)) {
      w->status = LOAM_ERR_NO_MEMORY;
      return;
    }
    size_t max = n->entries - entries;
    w->status = it->flags & FLAG_REVERSE ? loam.iter_prev_block(it->iter, max, bytes, &block,
      &w->error)
                                         : loam.iter_next_block(it->iter, max, bytes, &block,
                                           &w->error);
    n->ended = w->status == LOAM_END;
    if (w->status != LOAM_OK) return;
    if (!next_join(n, &block)) w->status = LOAM_ERR_NO_MEMORY;
    if (w->status < 0) return;
    entries += block.count;
    if (it->flags & FLAG_EXACT) sum += wanted(&block, it->flags);
  }
}

/* ---- making JavaScript values ---- */

static size_t entry_size(const char *p) {
  return 8 + (size_t)u32le((const unsigned char *)p) + u32le((const unsigned char *)p + 4);
}

static bool all_text(uint32_t flags) {
  return (!(flags & FLAG_KEYS) || flags & FLAG_TEXT_KEYS) &&
    (!(flags & FLAG_VALUES) || flags & FLAG_TEXT_VALUES);
}

static bool all_ascii(const char *p, const char *end, uint32_t flags) {
  for (size_t size; p < end; p += size) {
    size_t key_len = u32le((const unsigned char *)p);
    size = entry_size(p);
    if (size > LARGE) continue;
    if (flags & FLAG_KEYS && !is_ascii(p + 8, key_len)) return false;
    if (flags & FLAG_VALUES && !is_ascii(p + 8 + key_len, size - 8 - key_len)) return false;
  }
  return true;
}

/* The end of the piece of a block that starts at p with a small entry. */
static const char *piece_end(const char *p, const char *end, bool as_text) {
  const char *start = p;
  do {
    p += entry_size(p);
  } while (p < end && !(as_text && p - start >= PIECE) && entry_size(p) <= LARGE);
  return p;
}

static napi_value make_piece(napi_env env, const char *data, size_t len, bool as_text) {
  napi_value value = NULL;
  if (!as_text) return make_bytes(env, data, len);
  if (napi_create_string_latin1(env, data, len, &value) != napi_ok) throw_failure(env);
  return value;
}

static napi_value make_part(napi_env env, const char *data, size_t len, bool wanted, bool as_text) {
  napi_value undefined = NULL;
  if (wanted) return as_text ? make_string(env, data, len) : make_bytes(env, data, len);
  napi_get_undefined(env, &undefined);
  return undefined;
}

/* A large entry: an array of key and value, or the Error of a string too long. */
static napi_value make_entry(napi_env env, const char *p, uint32_t flags) {
  size_t key_len = u32le((const unsigned char *)p), value_len = u32le((const unsigned char *)p + 4);
  napi_value array = NULL, key, value = NULL, error = NULL;
  key = make_part(env, p + 8, key_len, flags & FLAG_KEYS, flags & FLAG_TEXT_KEYS);
  if (key != NULL) {
    value = make_part(env, p + 8 + key_len, value_len, flags & FLAG_VALUES,
      flags & FLAG_TEXT_VALUES);
  }
  if (key == NULL || value == NULL) {
    napi_get_and_clear_last_exception(env, &error);
    return error;
  }
  array = make_array(env);
  if (array == NULL) return NULL;
  if (napi_set_element(env, array, 0, key) == napi_ok &&
    napi_set_element(env, array, 1, value) == napi_ok) return array;
  throw_failure(env);
  return NULL;
}

/* null: nothing; otherwise an array of pieces, and null behind them at the end of the range. */
static napi_value next_finish(napi_env env, work *w) {
  next_work *n = (next_work *)w;
  uint32_t flags = n->it->flags, count = 0;
  napi_value array = NULL, null, value;
  if (napi_get_null(env, &null) != napi_ok) return NULL;
  if (n->len == 0) return null;
  const char *p = n->data, *next, *end = n->data + n->len;
  bool as_text = all_text(flags) && all_ascii(p, end, flags);
  array = make_array(env);
  for (; array != NULL && p < end; p = next) {
    bool large = entry_size(p) > LARGE;
    next = large ? p + entry_size(p) : piece_end(p, end, as_text);
    value = large ? make_entry(env, p, flags) : make_piece(env, p, (size_t)(next - p), as_text);
    if (value == NULL || napi_set_element(env, array, count++, value) != napi_ok) array = NULL;
  }
  if (array != NULL && n->ended && napi_set_element(env, array, count, null) != napi_ok) {
    array = NULL;
  }
  if (array == NULL) throw_failure(env);
  return array;
}

static void next_init(next_work *n, iterator *it, size_t entries, size_t bytes) {
  n->w.run = next_run;
  n->w.finish = next_finish;
  n->w.release = next_release;
  n->it = it;
  n->entries = entries > 0 ? entries : 1;
  n->bytes = bytes;
  it->refs++;
}

/* Whether there may be something to read. */
static bool readable(const iterator *it) { return it->iter != NULL && !it->out && !it->closing; }

/* iteratorNext(database, iterator, entries, bytes) */
napi_value js_iteratorNext(napi_env env, napi_callback_info info) {
  ARGS(4);
  napi_value nothing = NULL;
  iterator *it = get_external(env, argv[1], KIND_ITERATOR);
  database *db = it == NULL ? NULL : arg_open_database(env, argv[0]);
  if (db == NULL) return NULL;
  if (!readable(it)) {
    napi_get_null(env, &nothing);
    return nothing;
  }
  next_work *n = work_new(env, sizeof *n);
  if (n == NULL) return NULL;
  next_init(n, it, arg_size(env, argv[2]), arg_size(env, argv[3]));
  return work_queue(env, &n->w, db, "loamdb.next");
}

/* iteratorNextSync(iterator, entries, bytes) */
napi_value js_iteratorNextSync(napi_env env, napi_callback_info info) {
  ARGS(3);
  napi_value value = NULL;
  next_work n = {0};
  iterator *it = get_external(env, argv[0], KIND_ITERATOR);
  if (it == NULL) return NULL;
  if (!readable(it)) {
    napi_get_null(env, &value);
    return value;
  }
  next_init(&n, it, arg_size(env, argv[1]), arg_size(env, argv[2]));
  next_run(&n.w);
  if (n.w.status < 0) {
    throw_status(env, n.w.status, n.w.error);
  } else {
    value = next_finish(env, &n.w);
  }
  next_release(&n.w);
  return value;
}

/* iteratorClose(iterator) */
napi_value js_iteratorClose(napi_env env, napi_callback_info info) {
  ARGS(1);
  iterator *it = get_external(env, argv[0], KIND_ITERATOR);
  if (it == NULL) return NULL;
  it->closing = true;
  if (it->refs == 1) iterator_close(it);
  return NULL;
}
