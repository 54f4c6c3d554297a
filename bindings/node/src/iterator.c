#include "addon.h"

/* Entries cross as blocks in the library's layout: key length and value length
 * (32-bit little-endian), key, value, one entry after the other. When every
 * byte that JavaScript wants as a string is ASCII, they cross as strings, of
 * which JavaScript takes slices; otherwise as Buffers. A slice keeps the memory
 * of what it was taken from, so a block crosses in pieces of the size of Node's
 * own pool for small Buffers. */

#define PIECE 8192

typedef struct iterator {
  kind kind;
  loam_iter *iter; /* NULL: closed, or made from a closed snapshot */
  uint32_t flags;
  unsigned refs; /* the JavaScript object, and a work item */
  bool out;      /* a seek went outside the range */
  bool closing;  /* to be closed when the read under way has ended */
  char *lower, *upper;
  size_t lower_len, upper_len;
} iterator;

static void iterator_close(iterator *it) {
  if (it->iter != NULL) loam.iter_close(it->iter);
  it->iter = NULL;
}

static void iterator_unref(iterator *it) {
  if (--it->refs == 1 && it->closing) iterator_close(it);
  if (it->refs > 0) return;
  iterator_close(it);
  free(it->lower);
  free(it->upper);
  free(it);
}

static void iterator_finalize(napi_env env, void *data, void *hint) {
  (void)env;
  (void)hint;
  iterator_unref(data);
}

static bool iterator_open(napi_env env, iterator *it, database *db, napi_value snapshot_value) {
  napi_valuetype type;
  const loam_snapshot *snapshot = NULL;
  char *error = NULL;
  /* null: a snapshot that is closed. Reading then fails in the class above. */
  if (napi_typeof(env, snapshot_value, &type) != napi_ok) return false;
  if (type == napi_null) return true;
  if (!arg_snapshot(env, snapshot_value, &snapshot)) return false;
  loam_iter_options o = {.struct_size = sizeof o,
                         .snapshot = snapshot,
                         .lower = it->lower,
                         .lower_len = it->lower_len,
                         .upper = it->upper,
                         .upper_len = it->upper_len};
  if (it->flags & FLAG_NO_FILL) o.flags |= LOAM_NO_FILL;
  if (!(it->flags & FLAG_VALUES)) o.flags |= LOAM_KEYS_ONLY;
  loam_status status = loam.iter_create(db->db, &o, &it->iter, &error);
  if (status != LOAM_OK) throw_status(env, status, error);
  return status == LOAM_OK;
}

/* iterator(database, snapshot, lower, upper, flags) */
napi_value js_iterator(napi_env env, napi_callback_info info) {
  ARGS(5);
  database *db = arg_open_database(env, argv[0]);
  if (db == NULL) return NULL;
  iterator *it = calloc(1, sizeof *it);
  if (it == NULL) return NULL;
  it->kind = KIND_ITERATOR;
  it->refs = 1;
  it->flags = arg_u32(env, argv[4]);
  if (!bytes_copy(env, argv[2], &it->lower, &it->lower_len) || !bytes_copy(env, argv[3], &it->upper, &it->upper_len) ||
      !iterator_open(env, it, db, argv[1])) {
    iterator_unref(it);
    return NULL;
  }
  return make_external(env, it, iterator_finalize);
}

static int compare(const char *a, size_t a_len, const char *b, size_t b_len) {
  int c = memcmp(a, b, a_len < b_len ? a_len : b_len);
  return c != 0 ? c : (a_len > b_len) - (a_len < b_len);
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
  it->out = (it->lower != NULL && compare(key, len, it->lower, it->lower_len) < 0) ||
            (it->upper != NULL && compare(key, len, it->upper, it->upper_len) >= 0);
  if (!it->out) {
    /* bytes_copy put a zero behind the key: with it, the next larger key. */
    loam_status status = loam.iter_place(it->iter, key, it->flags & FLAG_REVERSE ? len + 1 : len, &error);
    if (status < 0) throw_status(env, status, error);
  }
  free(key);
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

static void next_run(work *w) {
  next_work *n = (next_work *)w;
  loam_block block;
  size_t entries = 0;
  while (entries < n->entries && n->len < n->bytes) {
    if (!next_keep(n)) {
      w->status = LOAM_ERR_NO_MEMORY;
      return;
    }
    size_t max = n->entries - entries, bytes = n->bytes - n->len;
    w->status = n->it->flags & FLAG_REVERSE ? loam.iter_prev_block(n->it->iter, max, bytes, &block, &w->error)
                                            : loam.iter_next_block(n->it->iter, max, bytes, &block, &w->error);
    n->ended = w->status == LOAM_END;
    if (w->status != LOAM_OK) return;
    if (!next_join(n, &block)) w->status = LOAM_ERR_NO_MEMORY;
    if (w->status < 0) return;
    entries += block.count;
  }
}

static bool all_ascii(const char *data, size_t len, uint32_t flags) {
  const char *p = data, *end = p + len;
  while (end - p >= 8) {
    size_t key_len = u32le((const unsigned char *)p), value_len = u32le((const unsigned char *)p + 4);
    p += 8;
    if (flags & FLAG_KEYS && !is_ascii(p, key_len)) return false;
    p += key_len;
    if (flags & FLAG_VALUES && !is_ascii(p, value_len)) return false;
    p += value_len;
  }
  return true;
}

/* The end of the piece of a block that starts at p. */
static const char *piece_end(const char *p, const char *end) {
  const char *start = p;
  do {
    p += 8 + (size_t)u32le((const unsigned char *)p) + u32le((const unsigned char *)p + 4);
  } while (p < end && p - start < PIECE);
  return p;
}

static napi_value make_piece(napi_env env, const char *data, size_t len, bool as_text) {
  napi_value value = NULL;
  if (as_text) {
    napi_create_string_latin1(env, data, len, &value);
  } else {
    napi_create_buffer_copy(env, len, data, NULL, &value);
  }
  return value;
}

/* null: nothing; otherwise an array of pieces, and null behind them at the end of the range. */
static napi_value next_finish(napi_env env, work *w) {
  next_work *n = (next_work *)w;
  napi_value array = NULL, null, value;
  uint32_t count = 0;
  if (napi_get_null(env, &null) != napi_ok) return NULL;
  if (n->len == 0) return null;
  bool as_text = n->it->flags & FLAG_TEXT && all_ascii(n->data, n->len, n->it->flags);
  if (napi_create_array(env, &array) != napi_ok) return NULL;
  for (const char *p = n->data, *next, *end = n->data + n->len; p < end; p = next) {
    next = piece_end(p, end);
    value = make_piece(env, p, (size_t)(next - p), as_text);
    if (value == NULL || napi_set_element(env, array, count++, value) != napi_ok) return NULL;
  }
  if (n->ended && napi_set_element(env, array, count, null) != napi_ok) return NULL;
  return array;
}

static void next_init(next_work *n, iterator *it, uint32_t entries, uint32_t bytes) {
  n->w.run = next_run;
  n->w.finish = next_finish;
  n->w.release = next_release;
  n->it = it;
  n->entries = entries > 0 ? entries : 1;
  n->bytes = bytes > 0 ? bytes : 1;
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
  next_work *n = work_new(sizeof *n);
  if (n == NULL) return NULL;
  next_init(n, it, arg_u32(env, argv[2]), arg_u32(env, argv[3]));
  return work_queue(env, &n->w, db, true, "loamdb.next");
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
  next_init(&n, it, arg_u32(env, argv[1]), arg_u32(env, argv[2]));
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
