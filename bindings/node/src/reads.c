#include "addon.h"

static napi_value make_value(napi_env env, const void *data, size_t len, uint32_t flags) {
  return flags & FLAG_AS_BUFFER ? make_bytes(env, data, len) : make_string(env, data, len);
}

/* ---- one key, on the JavaScript thread ---- */

static napi_value make_large(napi_env env, loam_db *db, const loam_snapshot *snapshot,
  const text *key, uint32_t flags) {
  void *value = NULL;
  size_t len = 0;
  char *error = NULL;
  napi_value result = NULL;
  loam_status status =
      loam.get_alloc(db, READ(snapshot, flags & FLAG_NO_FILL ? LOAM_NO_FILL : 0), key->data,
        key->len, &value, &len, &error);
  if (status < 0) {
    throw_status(env, status, error);
  } else if (status == LOAM_OK) {
    result = make_value(env, value, len, flags);
  }
  loam.free(value);
  return result;
}

/* get(database, snapshot, key, flags): undefined: there is none; null: it is
 * not in memory; a string or Buffer; a number: that many bytes of scratch. */
napi_value js_get(napi_env env, napi_callback_info info) {
  ARGS(4);
  const loam_snapshot *snapshot;
  text key;
  size_t len = 0;
  char *error = NULL;
  napi_value result = NULL;
  database *db = arg_open_database(env, argv[0]);
  if (db == NULL || !arg_snapshot(env, argv[1], &snapshot)) return NULL;
  uint32_t flags = arg_u32(env, argv[3]);
  char *scratch = db->owner->scratch;
  if (!text_read(env, argv[2], &key)) return NULL;
  unsigned how = !(flags & FLAG_MAY_BLOCK) ? LOAM_MEMORY_ONLY : flags & FLAG_NO_FILL ?
    LOAM_NO_FILL : 0;
  loam_status status = loam.get(db->db, READ(snapshot, how), key.data, key.len, scratch,
    SCRATCH_SIZE, &len, &error);
  if (status == LOAM_OK) {
    if (flags & FLAG_AS_BUFFER) {
      napi_create_uint32(env, (uint32_t)len, &result);
    } else {
      result = make_string(env, scratch, len);
    }
  } else if (status == LOAM_BUFFER_TOO_SMALL) {
    result = make_large(env, db->db, snapshot, &key, flags);
  } else if (status == LOAM_WOULD_BLOCK) {
    napi_get_null(env, &result);
  } else if (status < 0) {
    throw_status(env, status, error);
  }
  text_free(&key);
  return result;
}

/* has(database, snapshot, key): a boolean, or null: not known from memory. */
napi_value js_has(napi_env env, napi_callback_info info) {
  ARGS(3);
  const loam_snapshot *snapshot;
  text key;
  size_t len;
  char *error = NULL;
  napi_value result = NULL;
  database *db = arg_open_database(env, argv[0]);
  if (db == NULL || !arg_snapshot(env, argv[1], &snapshot) || !text_read(env, argv[2], &key)) {
    return NULL;
  }
  loam_status status = loam.get(db->db, READ(snapshot, LOAM_MEMORY_ONLY), key.data, key.len, NULL,
    0, &len, &error);
  text_free(&key);
  if (status < 0) {
    throw_status(env, status, error);
  } else if (status == LOAM_WOULD_BLOCK) {
    napi_get_null(env, &result);
  } else {
    napi_get_boolean(env, status != LOAM_NOT_FOUND, &result);
  }
  return result;
}

/* ---- many keys, on the pool, in the state at the time of the call ---- */

typedef struct many_work {
  work w;
  loam_db *db;
  const loam_snapshot *snapshot;
  loam_snapshot *own; /* the same, when the caller gave none */
  uint32_t flags;
  size_t n;
  char *packed; /* the keys */
  const void **keys, **values;
  size_t *key_lens, *value_lens;
  void *memory;          /* of multi_get */
  struct failure *each;  /* every value was read and allocated by itself */
  unsigned char *found;  /* of hasMany */
} many_work;

struct failure {
  loam_status status;
  char *message;
};

static void many_close_snapshot(many_work *m) {
  if (m->own != NULL) loam.snapshot_close(m->own);
  m->own = NULL;
}

static void many_release(work *w) {
  many_work *m = (many_work *)w;
  many_close_snapshot(m);
  for (size_t i = 0; m->each != NULL && i < m->n; i++) {
    loam.free((void *)m->values[i]);
    loam.free(m->each[i].message);
  }
  free(m->each);
  loam.free(m->memory);
  free(m->packed);
  free(m->keys);
  free(m->key_lens);
  free(m->found);
}

/* For databases that follow: they may have to catch up before. */
static void snapshot_on_pool(many_work *m) {
  if (m->snapshot != NULL) return;
  m->w.status = loam.snapshot_create(m->db, &m->own, &m->w.error);
  m->snapshot = m->own;
}

static uint64_t fill(uint32_t flags) { return flags & FLAG_NO_FILL ? LOAM_NO_FILL : 0; }

/* After a failure: reads of other keys are not to fail with the one that did. */
static void get_each(many_work *m) {
  m->each = calloc(m->n, sizeof *m->each);
  if (m->each == NULL) {
    m->w.status = LOAM_ERR_NO_MEMORY;
    return;
  }
  m->w.status = LOAM_OK;
  for (size_t i = 0; i < m->n; i++) {
    void *value = NULL;
    m->each[i].status = loam.get_alloc(m->db, READ(m->snapshot, fill(m->flags)), m->keys[i],
      m->key_lens[i], &value, &m->value_lens[i],
                                       &m->each[i].message);
    m->values[i] = value;
  }
}

static void many_run(work *w) {
  many_work *m = (many_work *)w;
  snapshot_on_pool(m);
  if (w->status < 0) return;
  w->status = loam.multi_get(m->db, READ(m->snapshot, fill(m->flags)), m->n, m->keys, m->key_lens,
    m->values, m->value_lens, &m->memory, &w->error);
  if (w->status < 0 && m->n > 1) {
    loam.free(w->error);
    w->error = NULL;
    get_each(m);
  }
  many_close_snapshot(m);
}

static void has_run(work *w) {
  many_work *m = (many_work *)w;
  snapshot_on_pool(m);
  for (size_t i = 0; i < m->n && w->status >= 0; i++) {
    w->status = loam.has(m->db, READ(m->snapshot, 0), m->keys[i], m->key_lens[i], &w->error);
    m->found[i] = w->status == LOAM_OK;
  }
  many_close_snapshot(m);
}

/* Values of more bytes are not packed. */
#define PACKED_VALUE (16 * 1024)
/* In place of a length. */
#define LENGTH_NONE UINT32_MAX
#define LENGTH_OWN (UINT32_MAX - 1) /* the next element of the array */

static bool failed(const many_work *m, size_t i) {
  return m->each != NULL && m->each[i].status < 0;
}
static bool packed(const many_work *m, size_t i) {
  return m->values[i] != NULL && m->value_lens[i] <= PACKED_VALUE;
}

/* The value, or the Error that reading it gave; NULL: an exception is pending
 * that is none of the value's. */
static napi_value own_value(napi_env env, many_work *m, size_t i) {
  napi_value value = NULL;
  if (failed(m, i)) {
    value = make_error(env, m->each[i].status, m->each[i].message);
  } else {
    value = make_value(env, m->values[i], m->value_lens[i], m->flags);
    if (value == NULL) napi_get_and_clear_last_exception(env, &value);
  }
  if (value == NULL) throw_failure(env);
  return value;
}

static bool push(napi_env env, napi_value array, uint32_t *count, napi_value value) {
  if (value != NULL && napi_set_element(env, array, (*count)++, value) == napi_ok) return true;
  throw_failure(env);
  return false;
}

/* An array of strings, undefined and Errors; with one of the latter, null behind them. */
static napi_value finish_strings(napi_env env, many_work *m) {
  napi_value array = make_array(env), undefined, null;
  uint32_t count = 0;
  bool errors = false, ok = true, is_error;
  if (array == NULL || napi_get_undefined(env, &undefined) != napi_ok ||
    napi_get_null(env, &null) != napi_ok) return NULL;
  for (size_t i = 0; i < m->n && ok; i++) {
    napi_handle_scope scope;
    napi_value value = undefined;
    if (napi_open_handle_scope(env, &scope) != napi_ok) return NULL;
    if (m->values[i] != NULL || failed(m, i)) value = own_value(env, m, i);
    if (failed(m, i) || (value != NULL && m->value_lens[i] > PACKED_VALUE &&
      napi_is_error(env, value, &is_error) == napi_ok && is_error))
      errors = true;
    ok = push(env, array, &count, value);
    napi_close_handle_scope(env, scope);
  }
  if (ok && errors) ok = push(env, array, &count, null);
  return ok ? array : NULL;
}

/* An array of a Buffer and of the values outside it. The Buffer has n lengths
 * (32-bit little-endian, or LENGTH_NONE or LENGTH_OWN), then the values. */
static napi_value finish_packed(napi_env env, many_work *m) {
  napi_value array = make_array(env), buffer;
  char *p, *to;
  uint32_t count = 0;
  size_t total = 4 * m->n;
  for (size_t i = 0; i < m->n; i++)
    if (packed(m, i)) total += m->value_lens[i];
  if (array == NULL) return NULL;
  if (napi_create_buffer(env, total, (void **)&p, &buffer) != napi_ok) {
    throw_failure(env);
    return NULL;
  }
  if (!push(env, array, &count, buffer)) return NULL;
  to = p + 4 * m->n;
  for (size_t i = 0; i < m->n; i++) {
    uint32_t len = LENGTH_NONE;
    if (packed(m, i)) {
      len = (uint32_t)m->value_lens[i];
      memcpy(to, m->values[i], len);
      to += len;
    } else if (m->values[i] != NULL || failed(m, i)) {
      len = LENGTH_OWN;
      if (!push(env, array, &count, own_value(env, m, i))) return NULL;
    }
    unsigned char le[4] = {(unsigned char)len, (unsigned char)(len >> 8),
      (unsigned char)(len >> 16), (unsigned char)(len >> 24)};
    memcpy(p + 4 * i, le, 4);
  }
  return array;
}

static napi_value many_finish(napi_env env, work *w) {
  many_work *m = (many_work *)w;
  return m->flags & FLAG_AS_BUFFER ? finish_packed(env, m) : finish_strings(env, m);
}

static napi_value has_finish(napi_env env, work *w) {
  many_work *m = (many_work *)w;
  return make_bytes(env, m->found, m->n);
}

/* Takes the keys apart: each as length (32-bit little-endian) and bytes. */
static bool unpack(napi_env env, many_work *m, const unsigned char *data, size_t len) {
  size_t at = 0;
  m->packed = malloc(len + 1);
  m->keys = calloc(2 * m->n + 1, sizeof *m->keys);
  m->key_lens = calloc(2 * m->n + 1, sizeof *m->key_lens);
  m->found = calloc(m->n + 1, 1);
  if (m->packed == NULL || m->keys == NULL || m->key_lens == NULL || m->found == NULL) {
    throw_memory(env);
    return false;
  }
  m->values = m->keys + m->n;
  m->value_lens = m->key_lens + m->n;
  memcpy(m->packed, data, len);
  for (size_t i = 0; i < m->n; i++) {
    size_t n = len - at < 4 ? 0 : u32le(data + at);
    if (len - at < 4 || n > len - at - 4) {
      napi_throw_type_error(env, NULL, "the packed keys are damaged");
      return false;
    }
    m->keys[i] = m->packed + at + 4;
    m->key_lens[i] = n;
    at += 4 + n;
  }
  return true;
}

static bool take_snapshot(napi_env env, many_work *m) {
  char *error = NULL;
  if (m->snapshot != NULL) return true;
  loam_status status = loam.snapshot_create(m->db, &m->own, &error);
  m->snapshot = m->own;
  if (status != LOAM_OK) throw_status(env, status, error);
  return status == LOAM_OK;
}

/* f(database, snapshot, packed keys, bytes, count, flags) */
static napi_value on_keys(napi_env env, napi_callback_info info, void (*run)(work *),
  napi_value (*finish)(napi_env, work *)) {
  ARGS(6);
  const loam_snapshot *snapshot;
  napi_typedarray_type type;
  size_t len;
  void *data;
  database *db = arg_open_database(env, argv[0]);
  if (db == NULL || !arg_snapshot(env, argv[1], &snapshot)) return NULL;
  if (napi_get_typedarray_info(env, argv[2], &type, &len, &data, NULL, NULL) != napi_ok ||
    type != napi_uint8_array ||
      arg_size(env, argv[3]) > len || arg_u32(env, argv[4]) > arg_size(env, argv[3]) / 4) {
    napi_throw_type_error(env, NULL, "the keys must be packed in a Uint8Array");
    return NULL;
  }
  many_work *m = work_new(env, sizeof *m);
  if (m == NULL) return NULL;
  m->w.run = run;
  m->w.finish = finish;
  m->w.release = many_release;
  m->db = db->db;
  m->snapshot = snapshot;
  m->n = arg_u32(env, argv[4]);
  m->flags = arg_u32(env, argv[5]);
  if (!unpack(env, m, data, arg_size(env, argv[3])) || (!db->follows && !take_snapshot(env, m))) {
    many_release(&m->w);
    free(m);
    return NULL;
  }
  return db->follows ? work_wait(env, &m->w, db) : work_queue(env, &m->w, db, "loamdb.keys");
}

napi_value js_getMany(napi_env env, napi_callback_info info) {
  return on_keys(env, info, many_run, many_finish);
}
napi_value js_hasMany(napi_env env, napi_callback_info info) {
  return on_keys(env, info, has_run, has_finish);
}
