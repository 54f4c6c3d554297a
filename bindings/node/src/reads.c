#include "addon.h"

/* ---- one key, on the JavaScript thread ---- */

static napi_value make_large(napi_env env, loam_db *db, const loam_snapshot *snapshot, const text *key, uint32_t flags) {
  void *value = NULL;
  size_t len = 0;
  char *error = NULL;
  napi_value result = NULL;
  loam_status status =
      loam.get_alloc(db, READ(snapshot, flags & FLAG_NO_FILL ? LOAM_NO_FILL : 0), key->data, key->len, &value, &len, &error);
  if (status < 0) {
    throw_status(env, status, error);
  } else if (status == LOAM_OK && flags & FLAG_AS_BUFFER) {
    napi_create_buffer_copy(env, len, value, NULL, &result);
  } else if (status == LOAM_OK) {
    result = make_string(env, value, len);
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
  unsigned how = !(flags & FLAG_MAY_BLOCK) ? LOAM_MEMORY_ONLY : flags & FLAG_NO_FILL ? LOAM_NO_FILL : 0;
  loam_status status = loam.get(db->db, READ(snapshot, how), key.data, key.len, scratch, SCRATCH_SIZE, &len, &error);
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
  if (db == NULL || !arg_snapshot(env, argv[1], &snapshot) || !text_read(env, argv[2], &key)) return NULL;
  loam_status status = loam.get(db->db, READ(snapshot, LOAM_MEMORY_ONLY), key.data, key.len, NULL, 0, &len, &error);
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

/* ---- many keys, on the pool ---- */

typedef struct many_work {
  work w;
  loam_db *db;
  const loam_snapshot *snapshot;
  uint32_t flags;
  size_t n;
  char *packed; /* the keys */
  const void **keys, **values;
  size_t *key_lens, *value_lens;
  void *memory; /* of multi_get */
  unsigned char *found; /* of hasMany */
} many_work;

static void many_release(work *w) {
  many_work *m = (many_work *)w;
  loam.free(m->memory);
  free(m->packed);
  free(m->keys);
  free(m->key_lens);
  free(m->found);
}

static void many_run(work *w) {
  many_work *m = (many_work *)w;
  w->status = loam.multi_get(m->db, READ(m->snapshot, m->flags & FLAG_NO_FILL ? LOAM_NO_FILL : 0), m->n, m->keys, m->key_lens, m->values, m->value_lens,
                             &m->memory, &w->error);
}

static void has_run(work *w) {
  many_work *m = (many_work *)w;
  for (size_t i = 0; i < m->n && w->status >= 0; i++) {
    w->status = loam.has(m->db, READ(m->snapshot, 0), m->keys[i], m->key_lens[i], &w->error);
    m->found[i] = w->status == LOAM_OK;
  }
}

static napi_value finish_strings(napi_env env, many_work *m) {
  napi_value array, value, undefined;
  if (napi_get_undefined(env, &undefined) != napi_ok || napi_create_array_with_length(env, m->n, &array) != napi_ok) return NULL;
  for (size_t i = 0; i < m->n; i++) {
    napi_handle_scope scope;
    if (napi_open_handle_scope(env, &scope) != napi_ok) return NULL;
    value = m->values[i] == NULL ? undefined : make_string(env, m->values[i], m->value_lens[i]);
    bool ok = value != NULL && napi_set_element(env, array, (uint32_t)i, value) == napi_ok;
    napi_close_handle_scope(env, scope);
    if (!ok) return NULL;
  }
  return array;
}

/* One Buffer: n lengths (32-bit little-endian, all ones: there is none), then the values. */
static napi_value finish_packed(napi_env env, many_work *m) {
  napi_value buffer;
  char *p;
  size_t total = 4 * m->n;
  for (size_t i = 0; i < m->n; i++)
    if (m->values[i] != NULL) total += m->value_lens[i];
  if (napi_create_buffer(env, total, (void **)&p, &buffer) != napi_ok) return NULL;
  char *to = p + 4 * m->n;
  for (size_t i = 0; i < m->n; i++) {
    uint32_t len = m->values[i] == NULL ? UINT32_MAX : (uint32_t)m->value_lens[i];
    unsigned char le[4] = {(unsigned char)len, (unsigned char)(len >> 8), (unsigned char)(len >> 16), (unsigned char)(len >> 24)};
    memcpy(p + 4 * i, le, 4);
    if (m->values[i] == NULL) continue;
    memcpy(to, m->values[i], m->value_lens[i]);
    to += m->value_lens[i];
  }
  return buffer;
}

static napi_value many_finish(napi_env env, work *w) {
  many_work *m = (many_work *)w;
  return m->flags & FLAG_AS_BUFFER ? finish_packed(env, m) : finish_strings(env, m);
}

static napi_value has_finish(napi_env env, work *w) {
  many_work *m = (many_work *)w;
  napi_value buffer = NULL;
  napi_create_buffer_copy(env, m->n, m->found, NULL, &buffer);
  return buffer;
}

/* Takes the keys apart: each as length (32-bit little-endian) and bytes. */
static bool unpack(many_work *m, const unsigned char *data, size_t len) {
  size_t at = 0;
  m->packed = malloc(len + 1);
  m->keys = calloc(2 * m->n + 1, sizeof *m->keys);
  m->key_lens = calloc(2 * m->n + 1, sizeof *m->key_lens);
  m->found = calloc(m->n + 1, 1);
  if (m->packed == NULL || m->keys == NULL || m->key_lens == NULL || m->found == NULL) return false;
  m->values = m->keys + m->n;
  m->value_lens = m->key_lens + m->n;
  memcpy(m->packed, data, len);
  for (size_t i = 0; i < m->n; i++) {
    if (len - at < 4) return false;
    size_t n = u32le(data + at);
    at += 4;
    if (len - at < n) return false;
    m->keys[i] = m->packed + at;
    m->key_lens[i] = n;
    at += n;
  }
  return true;
}

/* f(database, snapshot, packed keys, bytes, count, flags) */
static napi_value on_keys(napi_env env, napi_callback_info info, void (*run)(work *), napi_value (*finish)(napi_env, work *)) {
  ARGS(6);
  const loam_snapshot *snapshot;
  napi_typedarray_type type;
  size_t len;
  void *data;
  database *db = arg_open_database(env, argv[0]);
  if (db == NULL || !arg_snapshot(env, argv[1], &snapshot)) return NULL;
  if (napi_get_typedarray_info(env, argv[2], &type, &len, &data, NULL, NULL) != napi_ok || arg_u32(env, argv[3]) > len) {
    napi_throw_type_error(env, NULL, "the keys must be packed in a Uint8Array");
    return NULL;
  }
  len = arg_u32(env, argv[3]);
  many_work *m = work_new(sizeof *m);
  if (m == NULL) return NULL;
  m->w.run = run;
  m->w.finish = finish;
  m->w.release = many_release;
  m->db = db->db;
  m->snapshot = snapshot;
  m->n = arg_u32(env, argv[4]);
  m->flags = arg_u32(env, argv[5]);
  if (m->n > len / 4 || !unpack(m, data, len)) {
    many_release(&m->w);
    free(m);
    napi_throw_error(env, NULL, "the packed keys are damaged, or memory is out");
    return NULL;
  }
  return work_queue(env, &m->w, db, true, "loamdb.keys");
}

napi_value js_getMany(napi_env env, napi_callback_info info) { return on_keys(env, info, many_run, many_finish); }
napi_value js_hasMany(napi_env env, napi_callback_info info) { return on_keys(env, info, has_run, has_finish); }
