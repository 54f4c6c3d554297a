/* Iterators, which hand out blocks of entries, and transactions. */
#include "shim.h"

#include <stdlib.h>
#include <string.h>

/* Opens an iterator of a transaction, or of a database when txn is null. */
NATIVE(jlong, iteratorCreate)(JNIEnv *env, jclass c, jobject db, jobject txn, jobject snapshot,
  jint flags, jbyteArray lower, jbyteArray upper, jbyteArray prefix) {
  bytes l, u, p;
  jlong handle = 0;
  (void)c;
  u.data = p.data = NULL;
  if (bytes_take(env, lower, &l) && bytes_take(env, upper, &u) && bytes_take(env, prefix, &p)) {
    loam_iter_options o = {.struct_size = sizeof o, .flags = (uint64_t)flags,
      .snapshot = HANDLE(loam_snapshot, snapshot), .lower = l.data, .lower_len = l.len,
      .upper = u.data, .upper_len = u.len, .prefix = p.data, .prefix_len = p.len};
    loam_iter *iter = NULL;
    char *err = NULL;
    loam_status status = txn == NULL
      ? loam_iter_create(HANDLE(loam_db, db), &o, &iter, &err)
      : loam_txn_iter_create(HANDLE(loam_txn, txn), HANDLE(loam_db, db), &o, &iter, &err);
    handle = handle_result(env, status, iter, err);
  }
  bytes_free(&l);
  bytes_free(&u);
  bytes_free(&p);
  return handle;
}

/* A block as Java has it: its length, then its entries as in loam_block. It is stored in reuse if
 * that has the room. */
static jbyteArray block_array(JNIEnv *env, jbyteArray reuse, size_t len) {
  unsigned char header[4];
  if (len > INT32_MAX - 16) {
    throw_status(env, LOAM_ERR_TOO_LARGE, NULL);
    return NULL;
  }
  jbyteArray array = reuse;
  if (array == NULL || (size_t)(*env)->GetArrayLength(env, array) < 4 + len) {
    array = (*env)->NewByteArray(env, (jsize)(4 + len));
  }
  if (array == NULL) return NULL;
  put_u32le(header, (uint32_t)len);
  (*env)->SetByteArrayRegion(env, array, 0, 4, (const jbyte *)header);
  return array;
}

static jbyteArray entry_block(JNIEnv *env, jbyteArray reuse, const loam_entry *e) {
  unsigned char lens[8];
  jbyteArray array = block_array(env, reuse, 8 + e->key_len + e->value_len);
  if (array == NULL) return NULL;
  put_u32le(lens, (uint32_t)e->key_len);
  put_u32le(lens + 4, (uint32_t)e->value_len);
  (*env)->SetByteArrayRegion(env, array, 4, 8, (const jbyte *)lens);
  (*env)->SetByteArrayRegion(env, array, 12, (jsize)e->key_len, e->key);
  (*env)->SetByteArrayRegion(env, array, (jsize)(12 + e->key_len), (jsize)e->value_len, e->value);
  return array;
}

/* As Native.FIRST and so on. */
enum { FIRST, LAST, SEEK, SEEK_BEFORE };

/* Moves to an entry, and returns it as a block; null: there is none. */
NATIVE(jbyteArray, iteratorSeek)(JNIEnv *env, jclass c, jobject iterator, jint where,
  jbyteArray key, jbyteArray reuse) {
  loam_iter *iter = HANDLE(loam_iter, iterator);
  bytes k;
  jbyteArray result = NULL;
  (void)c;
  if (bytes_take(env, key, &k)) {
    loam_entry entry;
    char *err = NULL;
    loam_status status = LOAM_ERR_INVALID_ARGUMENT;
    switch (where) {
    case FIRST: status = loam_iter_first(iter, &entry, &err); break;
    case LAST: status = loam_iter_last(iter, &entry, &err); break;
    case SEEK: status = loam_iter_seek(iter, k.data, k.len, &entry, &err); break;
    case SEEK_BEFORE: status = loam_iter_seek_before(iter, k.data, k.len, &entry, &err); break;
    }
    if (status == LOAM_OK) result = entry_block(env, reuse, &entry);
    else if (status != LOAM_END) throw_status(env, status, err);
  }
  bytes_free(&k);
  return result;
}

/* The next block, or with forward false the one before; null: there is none. */
NATIVE(jbyteArray, iteratorBlock)(JNIEnv *env, jclass c, jobject iterator, jboolean forward,
  jint max_entries, jint max_bytes, jbyteArray reuse) {
  loam_iter *iter = HANDLE(loam_iter, iterator);
  loam_block block;
  char *err = NULL;
  (void)c;
  loam_status status = forward
    ? loam_iter_next_block(iter, (size_t)max_entries, (size_t)max_bytes, &block, &err)
    : loam_iter_prev_block(iter, (size_t)max_entries, (size_t)max_bytes, &block, &err);
  if (status == LOAM_END || !succeeded(env, status, &err)) return NULL;
  jbyteArray array = block_array(env, reuse, block.len);
  if (array != NULL) (*env)->SetByteArrayRegion(env, array, 4, (jsize)block.len, block.data);
  return array;
}

/* ---- Transactions ---- */

NATIVE(jlong, txnBegin)(JNIEnv *env, jclass c, jobject db, jint flags, jlong timeout,
  jbyteArray name) {
  bytes n;
  jlong handle = 0;
  (void)c;
  if (bytes_take(env, name, &n)) {
    loam_txn_options o = {.struct_size = sizeof o, .flags = (uint64_t)flags,
      .lock_timeout_ms = timeout, .name = n.data};
    loam_txn *txn = NULL;
    char *err = NULL;
    loam_status status = loam_txn_begin(HANDLE(loam_db, db), &o, &txn, &err);
    handle = handle_result(env, status, txn, err);
  }
  bytes_free(&n);
  return handle;
}

NATIVE(jbyteArray, txnGet)(JNIEnv *env, jclass c, jobject txn, jobject keyspace, jbyteArray key,
  jboolean for_update) {
  bytes k;
  jbyteArray result = NULL;
  (void)c;
  if (bytes_take(env, key, &k)) {
    loam_txn *t = HANDLE(loam_txn, txn);
    loam_db *s = HANDLE(loam_db, keyspace);
    void *value = NULL;
    size_t len = 0;
    char *err = NULL;
    loam_status status = for_update
      ? loam_txn_get_for_update(t, s, k.data, k.len, &value, &len, &err)
      : loam_txn_get(t, s, k.data, k.len, &value, &len, &err);
    if (status != LOAM_NOT_FOUND && succeeded(env, status, &err)) {
      result = bytes_new(env, value, len);
      loam_free(value);
    }
  }
  bytes_free(&k);
  return result;
}

NATIVE(jboolean, txnHas)(JNIEnv *env, jclass c, jobject txn, jobject keyspace, jbyteArray key) {
  bytes k;
  bool found = false;
  (void)c;
  if (bytes_take(env, key, &k)) {
    char *err = NULL;
    loam_status status = loam_txn_has(HANDLE(loam_txn, txn), HANDLE(loam_db, keyspace), k.data,
      k.len, &err);
    found = status != LOAM_NOT_FOUND && succeeded(env, status, &err);
  }
  bytes_free(&k);
  return found;
}

static loam_status txn_write(loam_txn *t, loam_db *s, jint kind, const bytes *k, const bytes *v,
  jlong seconds, char **err) {
  switch (kind) {
  case LOAM_OP_PUT: return loam_txn_put(t, s, k->data, k->len, v->data, v->len, err);
  case LOAM_OP_DELETE: return loam_txn_delete(t, s, k->data, k->len, err);
  case LOAM_OP_MERGE: return loam_txn_merge(t, s, k->data, k->len, v->data, v->len, err);
  case LOAM_OP_DELETE_RANGE:
    return loam_txn_delete_range(t, s, k->data, k->len, v->data, v->len, err);
  default:
    return loam_txn_put_ttl(t, s, k->data, k->len, v->data, v->len, (uint64_t)seconds, err);
  }
}

NATIVE(void, txnWrite)(JNIEnv *env, jclass c, jobject txn, jobject keyspace, jint kind,
  jbyteArray key, jbyteArray value, jlong seconds) {
  bytes k, v;
  (void)c;
  v.data = NULL;
  if (bytes_take(env, key, &k) && bytes_take(env, value, &v)) {
    char *err = NULL;
    loam_status status = txn_write(HANDLE(loam_txn, txn), HANDLE(loam_db, keyspace), kind, &k, &v,
      seconds, &err);
    succeeded(env, status, &err);
  }
  bytes_free(&k);
  bytes_free(&v);
}

NATIVE(jlong, txnSavepoint)(JNIEnv *env, jclass c, jobject txn) {
  uint64_t savepoint = 0;
  char *err = NULL;
  (void)c;
  succeeded(env, loam_txn_savepoint(HANDLE(loam_txn, txn), &savepoint, &err), &err);
  return (jlong)savepoint;
}

NATIVE(void, txnRollbackTo)(JNIEnv *env, jclass c, jobject txn, jlong savepoint) {
  char *err = NULL;
  (void)c;
  succeeded(env, loam_txn_rollback_to(HANDLE(loam_txn, txn), (uint64_t)savepoint, &err), &err);
}

NATIVE(void, txnCommit)(JNIEnv *env, jclass c, jobject txn, jint flags) {
  loam_write_options o = {.struct_size = sizeof o, .flags = (uint64_t)flags};
  char *err = NULL;
  (void)c;
  succeeded(env, loam_txn_commit(HANDLE(loam_txn, txn), &o, &err), &err);
}

NATIVE(void, txnRollback)(JNIEnv *env, jclass c, jobject txn) {
  char *err = NULL;
  (void)c;
  succeeded(env, loam_txn_rollback(HANDLE(loam_txn, txn), &err), &err);
}
