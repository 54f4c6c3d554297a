#include "addon.h"

/* ---- on the JavaScript thread ---- */

/* put(database, key, value, sync); value undefined: delete. */
napi_value js_put(napi_env env, napi_callback_info info) {
  ARGS(4);
  text key, value;
  napi_valuetype type;
  char *error = NULL;
  loam_status status;
  database *db = arg_open_database(env, argv[0]);
  if (db == NULL || napi_typeof(env, argv[2], &type) != napi_ok) return NULL;
  unsigned flags = arg_bool(env, argv[3]) ? LOAM_SYNC : 0;
  if (type == napi_undefined) {
    if (!text_read(env, argv[1], &key)) return NULL;
    status = loam.delete(db->db, WRITE(flags), key.data, key.len, NULL, &error);
  } else {
    if (!text_pair(env, argv + 1, &key, &value)) return NULL;
    status = loam.put(db->db, WRITE(flags), key.data, key.len, value.data, value.len, NULL, &error);
    text_free(&value);
  }
  text_free(&key);
  return refused(env, status, error);
}

typedef struct operation {
  bool put;
  const unsigned char *key, *value;
  size_t key_len, value_len;
} operation;

static const unsigned char *read_string(const unsigned char *p, const unsigned char *end,
  const unsigned char **s, size_t *len) {
  uint64_t n = 0;
  for (unsigned shift = 0; shift <= 28 && p < end; shift += 7) {
    n |= (uint64_t)(*p & 127) << shift;
    if (*p++ & 128) continue;
    if (n > (uint64_t)(end - p)) return NULL;
    *s = p;
    *len = (size_t)n;
    return p + n;
  }
  return NULL;
}

/* The only operation of a batch in LevelDB's layout: 12 bytes, kind, key, value. */
static bool read_single(const unsigned char *data, size_t len, operation *op) {
  const unsigned char *end = data + len, *p = data + 12;
  if (len < 14 || data[8] != 1 || data[9] != 0 || data[10] != 0 || data[11] != 0 || *p > 1) {
    return false;
  }
  op->put = *p == 1;
  p = read_string(p + 1, end, &op->key, &op->key_len);
  if (p != NULL && op->put) p = read_string(p, end, &op->value, &op->value_len);
  return p == end;
}

static loam_status write_batch(loam_db *db, void *data, size_t len, unsigned flags, char **error) {
  operation op;
  if (read_single(data, len, &op)) {
    return op.put ? loam.put(db, WRITE(flags), op.key, op.key_len, op.value, op.value_len, NULL,
      error)
                  : loam.delete(db, WRITE(flags), op.key, op.key_len, NULL, error);
  }
  return loam.write_bytes(db, WRITE(flags), data, len, NULL, error);
}

static bool arg_bytes(napi_env env, napi_value value, napi_value length, void **data, size_t *len) {
  napi_typedarray_type type;
  if (napi_get_typedarray_info(env, value, &type, len, data, NULL, NULL) != napi_ok ||
    type != napi_uint8_array ||
      arg_size(env, length) > *len) {
    napi_throw_type_error(env, NULL, "the batch must be in a Uint8Array");
    return false;
  }
  *len = arg_size(env, length);
  return true;
}

/* write(database, batch, bytes, flags): false: with LOAM_NO_STALL, it would have to wait. */
napi_value js_write(napi_env env, napi_callback_info info) {
  ARGS(4);
  void *data;
  size_t len;
  char *error = NULL;
  napi_value done = NULL;
  database *db = arg_open_database(env, argv[0]);
  if (db == NULL || !arg_bytes(env, argv[1], argv[2], &data, &len)) return NULL;
  loam_status status = write_batch(db->db, data, len, arg_u32(env, argv[3]), &error);
  if (status < 0) return refused(env, status, error);
  napi_get_boolean(env, status != LOAM_BUSY, &done);
  return done;
}

/* ---- on other threads: a write may wait for flushes and compactions ---- */

typedef struct write_work {
  work w;
  loam_db *db;
  void *data;
  size_t len;
  unsigned flags;
} write_work;

static void write_run(work *w) {
  write_work *x = (write_work *)w;
  w->status = write_batch(x->db, x->data, x->len, x->flags, &w->error);
}

static void write_release(work *w) { free(((write_work *)w)->data); }

/* writeAsync(database, batch, bytes, flags) */
napi_value js_writeAsync(napi_env env, napi_callback_info info) {
  ARGS(4);
  void *data;
  size_t len;
  database *db;
  write_work *x = work_for(env, argv[0], &db, sizeof *x, write_run, write_release);
  if (x == NULL) return NULL;
  if (!arg_bytes(env, argv[1], argv[2], &data, &len)) return work_fail(&x->w);
  x->data = malloc(len + 1);
  if (x->data == NULL) {
    throw_memory(env);
    return work_fail(&x->w);
  }
  memcpy(x->data, data, len);
  x->db = db->db;
  x->len = len;
  x->flags = arg_u32(env, argv[3]);
  return work_write(env, &x->w, db);
}

/* ---- clear ---- */

#define CLEAR_BYTES (64 * 1024) /* of keys in one batch */

typedef struct clear_work {
  work w;
  loam_db *db;
  const loam_snapshot *snapshot;
  range range;
  bool reverse, sync;
  int64_t limit; /* negative: none */
} clear_work;

static void clear_release(work *w) { range_free(&((clear_work *)w)->range); }

static void clear_block(clear_work *c, loam_batch *batch, const loam_block *block) {
  work *w = &c->w;
  const unsigned char *p = block->data;
  for (size_t i = 0; i < block->count && w->status >= 0; i++) {
    size_t key_len = u32le(p), value_len = u32le(p + 4);
    w->status = loam.batch_delete(batch, p + 8, key_len, &w->error);
    p += 8 + key_len + value_len;
  }
  if (w->status >= 0) w->status = loam.write(c->db, NULL, batch, NULL, &w->error);
  loam.batch_clear(batch);
  if (c->limit >= 0) c->limit -= (int64_t)block->count;
}

static void clear_all(clear_work *c, loam_iter *iter, loam_batch *batch) {
  work *w = &c->w;
  loam_block block;
  while (c->limit != 0) {
    size_t max = c->limit < 0 || c->limit > 65536 ? 65536 : (size_t)c->limit;
    w->status = c->reverse ? loam.iter_prev_block(iter, max, CLEAR_BYTES, &block, &w->error)
                           : loam.iter_next_block(iter, max, CLEAR_BYTES, &block, &w->error);
    if (w->status != LOAM_OK) break;
    clear_block(c, batch, &block);
    if (w->status < 0) return;
  }
  /* An empty batch makes everything before it durable. */
  if (w->status >= 0 && c->sync) {
    w->status = loam.write(c->db, WRITE(LOAM_SYNC), batch, NULL, &w->error);
  }
}

/* Clears by a range delete, from the first key of the range to the last one, and that key
 * itself, so that the range may be open. It reports false in LevelDB's format, which has none. */
static bool clear_range(clear_work *c, loam_iter *iter, loam_batch *batch) {
  work *w = &c->w;
  loam_entry entry;
  w->status = loam.iter_first(iter, &entry, &w->error);
  if (w->status != LOAM_OK) return true; /* the range is empty, or the failure is reported */
  size_t first_len = entry.key_len;
  char *first = malloc(first_len + 1);
  if (first == NULL) {
    w->status = LOAM_ERR_NO_MEMORY;
    return true;
  }
  memcpy(first, entry.key, first_len);
  w->status = loam.iter_last(iter, &entry, &w->error);
  if (w->status == LOAM_OK) {
    w->status = loam.batch_delete_range(batch, first, first_len, entry.key, entry.key_len,
      &w->error);
  }
  if (w->status == LOAM_OK) {
    w->status = loam.batch_delete(batch, entry.key, entry.key_len, &w->error);
  }
  if (w->status == LOAM_OK) {
    w->status = loam.write(c->db, c->sync ? WRITE(LOAM_SYNC) : NULL, batch, NULL, &w->error);
  }
  free(first);
  if (w->status != LOAM_ERR_NEEDS_NATIVE) return true;
  loam.free(w->error);
  w->error = NULL;
  loam.batch_clear(batch);
  w->status = loam.iter_set_bounds(iter, c->range.lower, c->range.lower_len, c->range.upper,
    c->range.upper_len, &w->error);
  return w->status != LOAM_OK;
}

static void clear_run(work *w) {
  clear_work *c = (clear_work *)w;
  loam_iter *iter = NULL;
  loam_batch *batch = NULL;
  loam_iter_options o = {.struct_size = sizeof o,
                         .snapshot = c->snapshot,
                         .lower = c->range.lower,
                         .lower_len = c->range.lower_len,
                         .upper = range_upper(&c->range),
                         .upper_len = c->range.upper_len,
                         .flags = LOAM_NO_FILL | LOAM_KEYS_ONLY};
  w->status = loam.iter_create(c->db, &o, &iter, &w->error);
  if (w->status == LOAM_OK) w->status = range_resolve(&c->range, iter, &w->error);
  if (w->status == LOAM_OK) w->status = loam.batch_create(&batch, &w->error);
  if (w->status == LOAM_OK && !c->range.nothing) {
    bool all = c->limit < 0 && c->snapshot == NULL;
    if (!all || !clear_range(c, iter, batch)) clear_all(c, iter, batch);
  }
  loam.batch_close(batch);
  loam.iter_close(iter);
}

static void delete_range_run(work *w) {
  clear_work *c = (clear_work *)w;
  const range *r = &c->range;
  w->status = loam.delete_range(c->db, c->sync ? WRITE(LOAM_SYNC) : NULL, r->lower, r->lower_len,
    r->upper, r->upper_len, NULL, &w->error);
}

/* deleteRange(database, start, limit, sync) */
napi_value js_deleteRange(napi_env env, napi_callback_info info) {
  ARGS(4);
  database *db;
  clear_work *c = work_for(env, argv[0], &db, sizeof *c, delete_range_run, clear_release);
  if (c == NULL) return NULL;
  c->db = db->db;
  c->sync = arg_bool(env, argv[3]);
  if (!range_read(env, &c->range, argv[1], argv[2], 0, db->bytewise)) return work_fail(&c->w);
  return work_write(env, &c->w, db);
}

/* deleteRangeSync(database, start, limit, sync) */
napi_value js_deleteRangeSync(napi_env env, napi_callback_info info) {
  ARGS(4);
  database *db = arg_open_database(env, argv[0]);
  bytes args[2] = {{NULL, 0}, {NULL, 0}};
  char *error = NULL;
  loam_status status = LOAM_OK; /* the exception is pending */
  if (db == NULL) return NULL;
  if (bytes_args(env, argv + 1, args, 2))
    status = loam.delete_range(db->db, WRITE(arg_bool(env, argv[3]) ? LOAM_SYNC : 0), args[0].data,
      args[0].len, args[1].data, args[1].len, NULL, &error);
  bytes_free(args, 2);
  return refused(env, status, error);
}

/* clear(database, snapshot, lower, upper, flags, limit, sync) */
napi_value js_clear(napi_env env, napi_callback_info info) {
  ARGS(7);
  const loam_snapshot *snapshot;
  database *db;
  clear_work *c = work_for(env, argv[0], &db, sizeof *c, clear_run, clear_release);
  if (c == NULL) return NULL;
  if (!arg_snapshot(env, argv[1], &snapshot)) return work_fail(&c->w);
  c->db = db->db;
  c->snapshot = snapshot;
  c->limit = -1;
  uint32_t flags = arg_u32(env, argv[4]);
  c->reverse = flags & FLAG_REVERSE;
  napi_get_value_int64(env, argv[5], &c->limit);
  c->sync = arg_bool(env, argv[6]);
  if (!range_read(env, &c->range, argv[2], argv[3], flags, db->bytewise)) return work_fail(&c->w);
  return work_write(env, &c->w, db);
}

/* finishWrite(database): returns when the last write that was queued has taken
 * effect; its promise is settled later. */
napi_value js_finishWrite(napi_env env, napi_callback_info info) {
  ARGS(1);
  database *db = arg_database(env, argv[0]);
  if (db != NULL && db->writing != NULL) work_finish(db->writing);
  return NULL;
}
