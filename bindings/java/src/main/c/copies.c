/* Jobs, and what they are for: compactions, copies, backups, ingests; feeds of changes. */
#include "shim.h"

#include <stdlib.h>
#include <string.h>

/* ---- Jobs ---- */

/* Waits at most so many milliseconds. Returns whether the job has ended. */
NATIVE(jboolean, jobWait)(JNIEnv *env, jclass c, jobject job, jint timeout) {
  char *err = NULL;
  (void)c;
  loam_status status = loam_job_wait(HANDLE(loam_job, job), timeout, &err);
  return status != LOAM_TIMEOUT && succeeded(env, status, &err);
}

NATIVE(void, jobCancel)(JNIEnv *env, jclass c, jobject job) {
  char *err = NULL;
  (void)c;
  succeeded(env, loam_job_cancel(HANDLE(loam_job, job), &err), &err);
}

NATIVE(jbyteArray, jobReport)(JNIEnv *env, jclass c, jobject job) {
  char *report = NULL, *err = NULL;
  (void)c;
  loam_status status = loam_job_report(HANDLE(loam_job, job), &report, &err);
  return text_result(env, status, report, err);
}

/* As Native.COMPACT and so on. */
enum { COMPACT, VERIFY, CATCH_UP, CHECKPOINT, REKEY };

/* a and b are the bounds of a compaction; a is the path of a checkpoint. */
NATIVE(jlong, start)(JNIEnv *env, jclass c, jint what, jobject database, jbyteArray a,
  jbyteArray b) {
  loam_db *db = HANDLE(loam_db, database);
  loam_status status = LOAM_ERR_INVALID_ARGUMENT;
  loam_job *job = NULL;
  char *err = NULL;
  bytes x, y;
  jlong handle = 0;
  (void)c;
  y.data = NULL;
  if (bytes_take(env, a, &x) && bytes_take(env, b, &y)) {
    switch (what) {
    case COMPACT: status = loam_compact_start(db, x.data, x.len, y.data, y.len, &job, &err); break;
    case VERIFY: status = loam_verify_start(db, &job, &err); break;
    case CATCH_UP: status = loam_catch_up_start(db, &job, &err); break;
    case CHECKPOINT: status = loam_checkpoint_start(db, x.data, &job, &err); break;
    case REKEY: status = loam_rekey_start(db, &job, &err); break;
    }
    handle = handle_result(env, status, job, err);
  }
  bytes_free(&x);
  bytes_free(&y);
  return handle;
}

NATIVE(jlong, exportStart)(JNIEnv *env, jclass c, jbyteArray path, jbyteArray to,
  jbyteArray format, jobject options) {
  bytes p, t, f;
  jlong handle = 0;
  (void)c;
  t.data = f.data = NULL;
  if (bytes_take(env, path, &p) && bytes_take(env, to, &t) && bytes_take(env, format, &f)) {
    loam_job *job = NULL;
    char *err = NULL;
    loam_status status = loam_export_start(p.data, t.data, f.data, HANDLE(loam_options, options),
      &job, &err);
    handle = handle_result(env, status, job, err);
  }
  bytes_free(&p);
  bytes_free(&t);
  bytes_free(&f);
  return handle;
}

/* ---- Backups ---- */

NATIVE(jlong, backupsOpen)(JNIEnv *env, jclass c, jbyteArray path, jint flags) {
  bytes p;
  jlong handle = 0;
  (void)c;
  if (bytes_take(env, path, &p)) {
    loam_backup *backups = NULL;
    char *err = NULL;
    loam_status status = loam_backup_open(p.data, (uint64_t)flags, &backups, &err);
    handle = handle_result(env, status, backups, err);
  }
  bytes_free(&p);
  return handle;
}

NATIVE(jlong, backupCreate)(JNIEnv *env, jclass c, jobject backups, jobject db, jlong rate) {
  loam_job *job = NULL;
  char *err = NULL;
  (void)c;
  loam_status status = loam_backup_create_start(HANDLE(loam_backup, backups),
    HANDLE(loam_db, db), (uint64_t)rate, &job, &err);
  return handle_result(env, status, job, err);
}

NATIVE(jbyteArray, backupsList)(JNIEnv *env, jclass c, jobject backups) {
  char *json = NULL, *err = NULL;
  (void)c;
  loam_status status = loam_backup_list(HANDLE(loam_backup, backups), &json, &err);
  return text_result(env, status, json, err);
}

NATIVE(jlong, backupVerify)(JNIEnv *env, jclass c, jobject backups, jlong id, jlong rate) {
  loam_job *job = NULL;
  char *err = NULL;
  (void)c;
  loam_status status = loam_backup_verify_start(HANDLE(loam_backup, backups), (uint64_t)id,
    (uint64_t)rate, &job, &err);
  return handle_result(env, status, job, err);
}

NATIVE(jlong, backupRestore)(JNIEnv *env, jclass c, jobject backups, jlong id, jbyteArray to,
  jlong rate) {
  bytes t;
  jlong handle = 0;
  (void)c;
  if (bytes_take(env, to, &t)) {
    loam_job *job = NULL;
    char *err = NULL;
    loam_status status = loam_backup_restore_start(HANDLE(loam_backup, backups), (uint64_t)id,
      t.data, (uint64_t)rate, &job, &err);
    handle = handle_result(env, status, job, err);
  }
  bytes_free(&t);
  return handle;
}

NATIVE(void, backupDelete)(JNIEnv *env, jclass c, jobject backups, jlong id) {
  char *err = NULL;
  (void)c;
  succeeded(env, loam_backup_delete(HANDLE(loam_backup, backups), (uint64_t)id, &err), &err);
}

NATIVE(void, backupsKeep)(JNIEnv *env, jclass c, jobject backups, jlong n) {
  char *err = NULL;
  (void)c;
  succeeded(env, loam_backup_keep(HANDLE(loam_backup, backups), (uint64_t)n, &err), &err);
}

/* ---- Changes ---- */

NATIVE(jlong, changesOpen)(JNIEnv *env, jclass c, jobject db, jlong from, jint flags) {
  loam_changes *changes = NULL;
  char *err = NULL;
  (void)c;
  loam_status status = loam_changes_open(HANDLE(loam_db, db), (uint64_t)from, (uint64_t)flags,
    &changes, &err);
  return handle_result(env, status, changes, err);
}

/* null: the time is over. kept: the address and length of a block that could not be returned
 * before, as there was no memory; the feed has gone on. */
NATIVE(jbyteArray, changesNext)(JNIEnv *env, jclass c, jobject changes, jint timeout,
  jlongArray kept) {
  static const jlong none[2];
  jlong block[2];
  (void)c;
  (*env)->GetLongArrayRegion(env, kept, 0, 2, block);
  if (block[0] == 0) {
    void *data = NULL;
    size_t len = 0;
    char *err = NULL;
    loam_status status = loam_changes_next(HANDLE(loam_changes, changes), 0, timeout, &data, &len,
      &err);
    if (status == LOAM_TIMEOUT || !succeeded(env, status, &err)) return NULL;
    block[0] = (jlong)(intptr_t)data;
    block[1] = (jlong)len;
    (*env)->SetLongArrayRegion(env, kept, 0, 2, block);
  }
  jbyteArray result = bytes_new(env, (void *)(intptr_t)block[0], (size_t)block[1]);
  if (result == NULL) return NULL;
  loam_free((void *)(intptr_t)block[0]);
  (*env)->SetLongArrayRegion(env, kept, 0, 2, none);
  return result;
}

NATIVE(void, changesFree)(JNIEnv *env, jclass c, jlongArray kept) {
  static const jlong none[2];
  jlong block[2];
  (void)c;
  (*env)->GetLongArrayRegion(env, kept, 0, 2, block);
  (*env)->SetLongArrayRegion(env, kept, 0, 2, none);
  loam_free((void *)(intptr_t)block[0]);
}

NATIVE(jlong, changesPosition)(JNIEnv *env, jclass c, jobject changes) {
  uint64_t next = 0;
  char *err = NULL;
  (void)c;
  succeeded(env, loam_changes_position(HANDLE(loam_changes, changes), &next, &err), &err);
  return (jlong)next;
}

/* null: it was dropped. */
NATIVE(jbyteArray, changesKeyspace)(JNIEnv *env, jclass c, jobject changes, jint number) {
  char *name = NULL, *err = NULL;
  (void)c;
  loam_status status = loam_changes_keyspace(HANDLE(loam_changes, changes), (uint32_t)number,
    &name, &err);
  return text_result(env, status, name, err);
}

/* ---- Tables and bulk loads ---- */

NATIVE(jlong, tableCreate)(JNIEnv *env, jclass c, jbyteArray path, jobject options) {
  bytes p;
  jlong handle = 0;
  (void)c;
  if (bytes_take(env, path, &p)) {
    loam_table_writer *writer = NULL;
    char *err = NULL;
    loam_status status = loam_table_writer_create(p.data, HANDLE(loam_options, options), &writer,
      &err);
    handle = handle_result(env, status, writer, err);
  }
  bytes_free(&p);
  return handle;
}

static loam_status table_write(loam_table_writer *w, jint kind, const bytes *k, const bytes *v,
  jlong seconds, char **err) {
  switch (kind) {
  case LOAM_OP_PUT: return loam_table_writer_put(w, k->data, k->len, v->data, v->len, err);
  case LOAM_OP_DELETE: return loam_table_writer_delete(w, k->data, k->len, err);
  case LOAM_OP_DELETE_RANGE:
    return loam_table_writer_delete_range(w, k->data, k->len, v->data, v->len, err);
  default:
    return loam_table_writer_put_ttl(w, k->data, k->len, v->data, v->len, (uint64_t)seconds, err);
  }
}

NATIVE(void, tableWrite)(JNIEnv *env, jclass c, jobject writer, jint kind, jbyteArray key,
  jbyteArray value, jlong seconds) {
  bytes k, v;
  (void)c;
  v.data = NULL;
  if (bytes_take(env, key, &k) && bytes_take(env, value, &v)) {
    char *err = NULL;
    loam_status status = table_write(HANDLE(loam_table_writer, writer), kind, &k, &v, seconds,
      &err);
    succeeded(env, status, &err);
  }
  bytes_free(&k);
  bytes_free(&v);
}

NATIVE(jlong, tableSize)(JNIEnv *env, jclass c, jobject writer) {
  uint64_t size = 0;
  char *err = NULL;
  (void)c;
  succeeded(env, loam_table_writer_size(HANDLE(loam_table_writer, writer), &size, &err), &err);
  return (jlong)size;
}

NATIVE(void, tableFinish)(JNIEnv *env, jclass c, jobject writer) {
  char *err = NULL;
  (void)c;
  succeeded(env, loam_table_writer_finish(HANDLE(loam_table_writer, writer), &err), &err);
}

/* paths: one behind the other, each with a 0 behind it. */
NATIVE(jlong, ingestStart)(JNIEnv *env, jclass c, jobject db, jint flags, jbyteArray start,
  jbyteArray stop, jbyteArray paths, jint n) {
  bytes a, b, p;
  const char **list = NULL;
  jlong handle = 0;
  (void)c;
  b.data = p.data = NULL;
  if (!bytes_take(env, start, &a) || !bytes_take(env, stop, &b) || !bytes_take(env, paths, &p)) {
    goto done;
  }
  list = malloc(((size_t)n + 1) * sizeof *list);
  if (list == NULL) {
    throw_memory(env);
    goto done;
  }
  const char *at = p.data;
  for (jint i = 0; i < n; i++, at += strlen(at) + 1) list[i] = at;
  loam_ingest_options o = {.struct_size = sizeof o, .flags = (uint64_t)flags, .start = a.data,
    .start_len = a.len, .stop = b.data, .stop_len = b.len};
  loam_job *job = NULL;
  char *err = NULL;
  loam_status status = loam_ingest_start(HANDLE(loam_db, db), &o, (size_t)n, list, &job, &err);
  handle = handle_result(env, status, job, err);
done:
  free(list);
  bytes_free(&a);
  bytes_free(&b);
  bytes_free(&p);
  return handle;
}

NATIVE(jlong, bulkBegin)(JNIEnv *env, jclass c, jobject db, jlong memory) {
  loam_bulk_load_options o = {.struct_size = sizeof o, .memory = (uint64_t)memory};
  loam_bulk_load *load = NULL;
  char *err = NULL;
  (void)c;
  loam_status status = loam_bulk_load_begin(HANDLE(loam_db, db), &o, &load, &err);
  return handle_result(env, status, load, err);
}

/* Adds the puts of a batch, given by its bytes. */
NATIVE(void, bulkAdd)(JNIEnv *env, jclass c, jobject load, jbyteArray data, jint len) {
  bytes b;
  (void)c;
  if (bytes_take_part(env, data, len, &b)) {
    loam_batch *batch = NULL;
    char *err = NULL;
    loam_status status = loam_batch_create_from(b.data, b.len, &batch, &err);
    if (status == LOAM_OK) status = loam_bulk_load_add(HANDLE(loam_bulk_load, load), batch, &err);
    loam_batch_close(batch);
    succeeded(env, status, &err);
  }
  bytes_free(&b);
}

NATIVE(jlong, bulkFinish)(JNIEnv *env, jclass c, jobject load) {
  loam_job *job = NULL;
  char *err = NULL;
  (void)c;
  loam_status status = loam_bulk_load_finish_start(HANDLE(loam_bulk_load, load), &job, &err);
  return handle_result(env, status, job, err);
}
