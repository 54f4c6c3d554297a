/* Databases and keyspaces: opening, reading, writing, upkeep. */
#include "shim.h"

#include <stdlib.h>
#include <string.h>

/* ---- Opening and closing ---- */

NATIVE(jlong, open)(JNIEnv *env, jclass c, jbyteArray path, jobject options, jboolean follow) {
  bytes p;
  loam_db *db = NULL;
  jlong handle = 0;
  (void)c;
  if (bytes_take(env, path, &p)) {
    char *err = NULL;
    loam_options *o = HANDLE(loam_options, options);
    loam_status status = follow ? loam_follower_open(p.data, o, &db, &err)
                                : loam_open(p.data, o, &db, &err);
    handle = handle_result(env, status, db, err);
  }
  bytes_free(&p);
  return handle;
}

/* As NativeObject.Kind. */
enum { DATABASE, SNAPSHOT, ITERATOR, TRANSACTION, BACKUPS, CHANGES, TABLE_WRITER, BULK_LOAD,
  CACHE, OPTIONS, JOB };

static loam_status close_object(jint kind, void *h, char **err) {
  switch (kind) {
  case DATABASE: return loam_close(h, err);
  case SNAPSHOT: return loam_snapshot_close(h);
  case ITERATOR: return loam_iter_close(h);
  case TRANSACTION: return loam_txn_close(h);
  case BACKUPS: return loam_backup_close(h);
  case CHANGES: return loam_changes_close(h);
  case TABLE_WRITER: return loam_table_writer_close(h);
  case BULK_LOAD: return loam_bulk_load_close(h);
  case CACHE: return loam_cache_close(h);
  case OPTIONS: return loam_options_close(h);
  default: return loam_job_close(h);
  }
}

/* The object stays open when this fails with LOAM_ERR_IN_USE. */
NATIVE(void, close)(JNIEnv *env, jclass c, jint kind, jlong handle) {
  char *err = NULL;
  (void)c;
  succeeded(env, close_object(kind, (void *)(intptr_t)handle, &err), &err);
}

/* Closes an object that the garbage collector found. The close of a database goes on by itself. */
NATIVE(void, release)(JNIEnv *env, jclass c, jint kind, jlong handle) {
  void *h = (void *)(intptr_t)handle;
  loam_job *job = NULL;
  (void)env;
  (void)c;
  if (kind == DATABASE) {
    loam_close_start(h, &job, NULL);
    h = job;
    kind = JOB;
  }
  close_object(kind, h, NULL);
}

/* As Native.DESTROY and so on: work on a directory that is not open. */
enum { DESTROY, REPAIR, UPGRADE };

NATIVE(jbyteArray, maintain)(JNIEnv *env, jclass c, jint what, jbyteArray path, jobject options) {
  bytes p;
  jbyteArray result = NULL;
  (void)c;
  if (bytes_take(env, path, &p)) {
    loam_options *o = HANDLE(loam_options, options);
    char *report = NULL, *err = NULL;
    if (what == REPAIR) {
      loam_status status = loam_repair(p.data, o, &report, &err);
      result = text_result(env, status, report, err);
    } else {
      succeeded(env, what == DESTROY ? loam_destroy(p.data, o, &err)
                                     : loam_upgrade(p.data, o, &err), &err);
    }
  }
  bytes_free(&p);
  return result;
}

/* ---- Reading ---- */

enum { VALUE = 4096 }; /* bytes of a value that is read onto the stack */

static loam_read_options read_options(JNIEnv *env, jobject snapshot, jint flags) {
  return (loam_read_options){.struct_size = sizeof(loam_read_options), .flags = (uint64_t)flags,
    .snapshot = HANDLE(loam_snapshot, snapshot)};
}

static jbyteArray get(JNIEnv *env, loam_db *db, const loam_read_options *o, const bytes *key) {
  char small[VALUE];
  size_t len = 0;
  char *err = NULL;
  loam_status status = loam_get(db, o, key->data, key->len, small, sizeof small, &len, &err);
  if (status == LOAM_OK) return bytes_new(env, small, len);
  if (status == LOAM_NOT_FOUND) return NULL;
  void *value = NULL;
  if (status == LOAM_BUFFER_TOO_SMALL) {
    status = loam_get_alloc(db, o, key->data, key->len, &value, &len, &err);
    if (status == LOAM_NOT_FOUND) return NULL;
  }
  if (!succeeded(env, status, &err)) return NULL;
  jbyteArray result = bytes_new(env, value, len);
  loam_free(value);
  return result;
}

NATIVE(jbyteArray, get)(JNIEnv *env, jclass c, jobject db, jobject snapshot, jint flags,
  jbyteArray key) {
  bytes k;
  jbyteArray result = NULL;
  (void)c;
  if (bytes_take(env, key, &k)) {
    loam_read_options o = read_options(env, snapshot, flags);
    result = get(env, HANDLE(loam_db, db), flags == 0 && snapshot == NULL ? NULL : &o, &k);
  }
  bytes_free(&k);
  return result;
}

/* Stores the value at a position of a direct buffer. Returns its length, -1: there is none. */
NATIVE(jlong, getDirect)(JNIEnv *env, jclass c, jobject db, jobject snapshot, jint flags,
  jobject key, jint key_at, jint key_len, jobject value, jint value_at, jint capacity) {
  char *k = (*env)->GetDirectBufferAddress(env, key);
  char *v = (*env)->GetDirectBufferAddress(env, value);
  loam_read_options o = read_options(env, snapshot, flags);
  size_t len = 0;
  char *err = NULL;
  (void)c;
  loam_status status = loam_get(HANDLE(loam_db, db), &o, k + key_at, (size_t)key_len, v + value_at,
    (size_t)capacity, &len, &err);
  if (status == LOAM_BUFFER_TOO_SMALL) return (jlong)len;
  if (status == LOAM_NOT_FOUND || !succeeded(env, status, &err)) return -1;
  return (jlong)len;
}

NATIVE(jboolean, has)(JNIEnv *env, jclass c, jobject db, jobject snapshot, jint flags,
  jbyteArray key) {
  bytes k;
  bool found = false;
  (void)c;
  if (bytes_take(env, key, &k)) {
    loam_read_options o = read_options(env, snapshot, flags);
    char *err = NULL;
    loam_status status = loam_has(HANDLE(loam_db, db), &o, k.data, k.len, &err);
    found = status != LOAM_NOT_FOUND && succeeded(env, status, &err);
  }
  bytes_free(&k);
  return found;
}

/* ---- Many keys ---- */

typedef struct many {
  bytes packed;
  const void **keys;
  size_t *key_lens;
  const void **values;
  size_t *value_lens;
  void *memory;
} many;

/* n keys, each behind its length. */
static bool many_take(JNIEnv *env, jbyteArray packed, jint n, many *m) {
  m->keys = NULL;
  m->memory = NULL;
  if (!bytes_take(env, packed, &m->packed)) return false;
  size_t count = (size_t)n;
  m->keys = malloc(4 * count * sizeof(void *) + 1);
  if (m->keys == NULL) {
    throw_memory(env);
    return false;
  }
  m->key_lens = (size_t *)(void *)(m->keys + count);
  m->values = (const void **)(void *)(m->key_lens + count);
  m->value_lens = (size_t *)(void *)(m->values + count);
  const char *p = m->packed.data;
  for (size_t i = 0; i < count; i++) {
    m->key_lens[i] = u32le(p);
    m->keys[i] = p + 4;
    p += 4 + m->key_lens[i];
  }
  return true;
}

static void many_free(many *m) {
  loam_free(m->memory);
  free(m->keys);
  bytes_free(&m->packed);
}

/* The values, each behind its length; the length 0xffffffff: there is none. */
static jbyteArray many_result(JNIEnv *env, const many *m, size_t n) {
  size_t size = 0;
  for (size_t i = 0; i < n; i++) size += 4 + (m->values[i] == NULL ? 0 : m->value_lens[i]);
  char *packed = malloc(size + 1), *p = packed;
  if (packed == NULL) {
    throw_memory(env);
    return NULL;
  }
  for (size_t i = 0; i < n; i++) {
    put_u32le(p, m->values[i] == NULL ? UINT32_MAX : (uint32_t)m->value_lens[i]);
    p += 4;
    if (m->values[i] == NULL) continue;
    memcpy(p, m->values[i], m->value_lens[i]);
    p += m->value_lens[i];
  }
  jbyteArray result = bytes_new(env, packed, size);
  free(packed);
  return result;
}

NATIVE(jbyteArray, multiGet)(JNIEnv *env, jclass c, jobject db, jobject snapshot, jint flags,
  jbyteArray keys, jint n) {
  many m;
  jbyteArray result = NULL;
  (void)c;
  if (many_take(env, keys, n, &m)) {
    loam_read_options o = read_options(env, snapshot, flags);
    char *err = NULL;
    loam_status status = loam_multi_get(HANDLE(loam_db, db), &o, (size_t)n, m.keys, m.key_lens,
      m.values, m.value_lens, &m.memory, &err);
    if (succeeded(env, status, &err)) result = many_result(env, &m, (size_t)n);
  }
  many_free(&m);
  return result;
}

NATIVE(jbyteArray, txnMultiGet)(JNIEnv *env, jclass c, jobject txn, jobject keyspace,
  jbyteArray keys, jint n) {
  many m;
  jbyteArray result = NULL;
  (void)c;
  if (many_take(env, keys, n, &m)) {
    char *err = NULL;
    loam_status status = loam_txn_multi_get(HANDLE(loam_txn, txn), HANDLE(loam_db, keyspace),
      (size_t)n, m.keys, m.key_lens, m.values, m.value_lens, &m.memory, &err);
    if (succeeded(env, status, &err)) result = many_result(env, &m, (size_t)n);
  }
  many_free(&m);
  return result;
}

/* Milliseconds; -1: the key has no value, -2: it does not expire. */
NATIVE(jlong, ttl)(JNIEnv *env, jclass c, jobject db, jobject snapshot, jint flags,
  jbyteArray key) {
  bytes k;
  jlong left = -1;
  (void)c;
  if (bytes_take(env, key, &k)) {
    loam_read_options o = read_options(env, snapshot, flags);
    uint64_t ms = 0;
    char *err = NULL;
    loam_status status = loam_ttl(HANDLE(loam_db, db), &o, k.data, k.len, &ms, &err);
    if (status != LOAM_NOT_FOUND && succeeded(env, status, &err)) {
      left = ms == LOAM_TTL_NEVER ? -2 : (jlong)ms;
    }
  }
  bytes_free(&k);
  return left;
}

NATIVE(jlong, snapshotCreate)(JNIEnv *env, jclass c, jobject db) {
  loam_snapshot *snapshot = NULL;
  char *err = NULL;
  (void)c;
  loam_status status = loam_snapshot_create(HANDLE(loam_db, db), &snapshot, &err);
  return handle_result(env, status, snapshot, err);
}

/* ---- Writing ---- */

static loam_write_options write_options(jint flags) {
  return (loam_write_options){.struct_size = sizeof(loam_write_options),
    .flags = (uint64_t)flags};
}

static loam_status write_one(loam_db *db, jint kind, const loam_write_options *o,
  const void *key, size_t key_len, const void *value, size_t value_len, jlong seconds,
  uint64_t *sequence, char **err) {
  switch (kind) {
  case LOAM_OP_PUT: return loam_put(db, o, key, key_len, value, value_len, sequence, err);
  case LOAM_OP_DELETE: return loam_delete(db, o, key, key_len, sequence, err);
  case LOAM_OP_MERGE: return loam_merge(db, o, key, key_len, value, value_len, sequence, err);
  case LOAM_OP_DELETE_RANGE:
    return loam_delete_range(db, o, key, key_len, value, value_len, sequence, err);
  default:
    return loam_put_ttl(db, o, key, key_len, value, value_len, (uint64_t)seconds, sequence, err);
  }
}

/* kind: LOAM_OP_*. Returns the sequence number, as the next two. */
NATIVE(jlong, write)(JNIEnv *env, jclass c, jobject db, jint kind, jint flags, jbyteArray key,
  jbyteArray value, jlong seconds) {
  bytes k, v;
  uint64_t sequence = 0;
  (void)c;
  v.data = NULL;
  if (bytes_take(env, key, &k) && bytes_take(env, value, &v)) {
    loam_write_options o = write_options(flags);
    char *err = NULL;
    loam_status status = write_one(HANDLE(loam_db, db), kind, flags == 0 ? NULL : &o, k.data,
      k.len, v.data, v.len, seconds, &sequence, &err);
    succeeded(env, status, &err);
  }
  bytes_free(&k);
  bytes_free(&v);
  return (jlong)sequence;
}

NATIVE(jlong, putDirect)(JNIEnv *env, jclass c, jobject db, jint flags, jobject key, jint key_at,
  jint key_len, jobject value, jint value_at, jint value_len) {
  char *k = (*env)->GetDirectBufferAddress(env, key);
  char *v = (*env)->GetDirectBufferAddress(env, value);
  loam_write_options o = write_options(flags);
  uint64_t sequence = 0;
  char *err = NULL;
  (void)c;
  loam_status status = loam_put(HANDLE(loam_db, db), &o, k + key_at, (size_t)key_len, v + value_at,
    (size_t)value_len, &sequence, &err);
  succeeded(env, status, &err);
  return (jlong)sequence;
}

NATIVE(jlong, writeBatch)(JNIEnv *env, jclass c, jobject db, jint flags, jbyteArray batch,
  jint len) {
  bytes b;
  uint64_t sequence = 0;
  (void)c;
  if (bytes_take_part(env, batch, len, &b)) {
    loam_write_options o = write_options(flags);
    char *err = NULL;
    loam_status status = loam_write_bytes(HANDLE(loam_db, db), &o, b.data, b.len, &sequence, &err);
    succeeded(env, status, &err);
  }
  bytes_free(&b);
  return (jlong)sequence;
}

/* Whether it was done. */
NATIVE(jboolean, compareAndSwap)(JNIEnv *env, jclass c, jobject db, jint flags, jbyteArray key,
  jbyteArray old, jbyteArray value) {
  bytes k, o, v;
  bool done = false;
  (void)c;
  o.data = v.data = NULL;
  if (bytes_take(env, key, &k) && bytes_take(env, old, &o) && bytes_take(env, value, &v)) {
    loam_write_options w = write_options(flags);
    char *err = NULL;
    loam_status status = loam_compare_and_swap(HANDLE(loam_db, db), &w, k.data, k.len, o.data,
      o.len, v.data, v.len, &err);
    done = status != LOAM_MISMATCH && succeeded(env, status, &err);
  }
  bytes_free(&k);
  bytes_free(&o);
  bytes_free(&v);
  return done;
}

/* ---- Keyspaces ---- */

NATIVE(jlong, keyspaceOpen)(JNIEnv *env, jclass c, jobject db, jbyteArray name, jobject options) {
  bytes n;
  loam_db *keyspace = NULL;
  jlong handle = 0;
  (void)c;
  if (bytes_take(env, name, &n)) {
    char *err = NULL;
    loam_status status = loam_keyspace_open(HANDLE(loam_db, db), n.data,
      HANDLE(loam_options, options), &keyspace, &err);
    handle = handle_result(env, status, keyspace, err);
  }
  bytes_free(&n);
  return handle;
}

NATIVE(void, keyspaceDrop)(JNIEnv *env, jclass c, jobject db, jbyteArray name) {
  bytes n;
  (void)c;
  if (bytes_take(env, name, &n)) {
    char *err = NULL;
    succeeded(env, loam_keyspace_drop(HANDLE(loam_db, db), n.data, &err), &err);
  }
  bytes_free(&n);
}

NATIVE(jint, keyspaceNumber)(JNIEnv *env, jclass c, jobject keyspace) {
  uint32_t number = 0;
  char *err = NULL;
  (void)c;
  succeeded(env, loam_keyspace_number(HANDLE(loam_db, keyspace), &number, &err), &err);
  return (jint)number;
}

/* ---- Upkeep and information ---- */

/* As Native.FLUSH and so on. */
enum { FLUSH, PAUSE, RESUME, RETRY };

NATIVE(void, upkeep)(JNIEnv *env, jclass c, jint what, jobject database) {
  loam_db *db = HANDLE(loam_db, database);
  char *err = NULL;
  loam_status status = LOAM_ERR_INVALID_ARGUMENT;
  (void)c;
  switch (what) {
  case FLUSH: status = loam_flush(db, &err); break;
  case PAUSE: status = loam_pause_compaction(db, &err); break;
  case RESUME: status = loam_resume_compaction(db, &err); break;
  case RETRY: status = loam_retry(db, &err); break;
  }
  succeeded(env, status, &err);
}

/* As Native.PROPERTY and so on. */
enum { PROPERTY, OPTION, METRICS, RECOVERY, COMPARATOR, KEYSPACES, KEYS };

/* null: there is none. */
NATIVE(jbyteArray, information)(JNIEnv *env, jclass c, jint what, jobject database,
  jbyteArray name) {
  loam_db *db = HANDLE(loam_db, database);
  loam_status status = LOAM_ERR_INVALID_ARGUMENT;
  char *text = NULL, *err = NULL;
  bytes n;
  jbyteArray result = NULL;
  (void)c;
  if (bytes_take(env, name, &n)) {
    switch (what) {
    case PROPERTY: status = loam_property(db, n.data, &text, &err); break;
    case OPTION: status = loam_option(db, n.data, &text, &err); break;
    case METRICS: status = loam_metrics(db, &text, &err); break;
    case RECOVERY: status = loam_recovery_report(db, &text, &err); break;
    case COMPARATOR: status = loam_comparator_name(db, &text, &err); break;
    case KEYSPACES: status = loam_keyspace_list(db, &text, &err); break;
    case KEYS: status = loam_keys_in_use(db, &text, &err); break;
    }
    result = text_result(env, status, text, err);
  }
  bytes_free(&n);
  return result;
}

NATIVE(void, setOption)(JNIEnv *env, jclass c, jobject db, jbyteArray name, jbyteArray value) {
  bytes n, v;
  (void)c;
  v.data = NULL;
  if (bytes_take(env, name, &n) && bytes_take(env, value, &v)) {
    char *err = NULL;
    succeeded(env, loam_set_option(HANDLE(loam_db, db), n.data, v.data, &err), &err);
  }
  bytes_free(&n);
  bytes_free(&v);
}

NATIVE(jlong, approximateSize)(JNIEnv *env, jclass c, jobject db, jbyteArray start,
  jbyteArray stop) {
  bytes a, b;
  uint64_t size = 0;
  (void)c;
  b.data = NULL;
  if (bytes_take(env, start, &a) && bytes_take(env, stop, &b)) {
    const void *starts[] = {a.data}, *stops[] = {b.data};
    char *err = NULL;
    loam_status status = loam_approximate_sizes(HANDLE(loam_db, db), 1, starts, &a.len, stops,
      &b.len, &size, &err);
    succeeded(env, status, &err);
  }
  bytes_free(&a);
  bytes_free(&b);
  return (jlong)size;
}

/* Stores operations and microseconds. */
NATIVE(void, lag)(JNIEnv *env, jclass c, jobject db, jlongArray result) {
  uint64_t sequences = 0, microseconds = 0;
  char *err = NULL;
  (void)c;
  if (succeeded(env, loam_lag(HANDLE(loam_db, db), &sequences, &microseconds, &err), &err)) {
    jlong both[] = {(jlong)sequences, (jlong)microseconds};
    (*env)->SetLongArrayRegion(env, result, 0, 2, both);
  }
}
