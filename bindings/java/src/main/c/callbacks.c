/*
 * Callbacks: comparators, merge operators, compaction filters, loggers, and the streams of dumps.
 *
 * The library calls the first four from any thread. A thread of its own is attached to the JVM, as
 * a daemon, at its first callback, and detached by a destructor when it ends. What a callback
 * throws becomes the message of the failure (Callbacks.failed, which remembers the throwable as
 * the cause of the exception that the caller gets).
 *
 * A callback's local references end with it: a thread of the library has no native method whose
 * return would free them.
 */
#define _GNU_SOURCE
#include "shim.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

jclass callbacks_class;

static jmethodID compare_method, merge_method, partial_method, filter_method, log_method,
  failed_method, write_method, read_method;
static jclass bytes_class;

/* Made for the first thread that is attached: a process has few keys, and each class loader has a
 * copy of this library, which stays. */
static pthread_key_t attached;
static bool attached_made;
static pthread_once_t attached_once = PTHREAD_ONCE_INIT;

static void detach(void *unused) {
  (void)unused;
  (*java_vm)->DetachCurrentThread(java_vm);
}

static void make_attached(void) {
  attached_made = pthread_key_create(&attached, detach) == 0;
}

bool callbacks_load(JNIEnv *env) {
  callbacks_class = class_ref(env, "io/loamdb/Callbacks");
  if (callbacks_class == NULL || (bytes_class = class_ref(env, "[B")) == NULL) return false;
  const struct {
    jmethodID *method;
    const char *name, *signature;
  } methods[] = {
    {&compare_method, "compare", "(Lio/loamdb/KeyComparator;[B[B)I"},
    {&merge_method, "merge", "(Lio/loamdb/MergeOperator;[B[B[[B)[B"},
    {&partial_method, "partial", "(Lio/loamdb/MergeOperator;[B[B[B)[B"},
    {&filter_method, "filter", "(Lio/loamdb/CompactionFilter;I[B[B)[B"},
    {&log_method, "log", "(Lio/loamdb/Logger;I[B)V"},
    {&failed_method, "failed", "(Ljava/lang/Throwable;)[B"},
    {&write_method, "write", "(Ljava/io/OutputStream;[B)V"},
    {&read_method, "read", "(Ljava/io/InputStream;I)[B"},
  };
  for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
    *methods[i].method = (*env)->GetStaticMethodID(env, callbacks_class, methods[i].name,
      methods[i].signature);
    if (*methods[i].method == NULL) return false;
  }
  return true;
}

/* NULL: the JVM ends. The JVM opens signals in the mask of a thread that it attaches, such as
 * SIGTERM and SIGUSR2; a thread of the library keeps them blocked, as a handler without SA_ONSTACK
 * would run on the small stack of a goroutine. */
static JNIEnv *attach(void) {
  JNIEnv *env = NULL;
  JavaVMAttachArgs args = {JNI_VERSION_10, "loam", NULL};
  if ((*java_vm)->GetEnv(java_vm, (void **)&env, JNI_VERSION_10) == JNI_OK) return env;
  pthread_once(&attached_once, make_attached);
  if (!attached_made) return NULL;
#ifndef _WIN32
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, NULL, &mask);
#endif
  jint status = (*java_vm)->AttachCurrentThreadAsDaemon(java_vm, (void **)&env, &args);
#ifndef _WIN32
  pthread_sigmask(SIG_SETMASK, &mask, NULL);
#endif
  if (status != JNI_OK) return NULL;
  pthread_setspecific(attached, env);
  return env;
}

enum { LOCALS = 16 };

/* Begins a callback. NULL: it has failed. */
static JNIEnv *begin(loam_failure *failure) {
  JNIEnv *env = attach();
  if (env == NULL || (*env)->PushLocalFrame(env, LOCALS) != 0) {
    loam_callback_fail(failure, "the JVM takes no callback");
    if (env != NULL) (*env)->ExceptionClear(env);
    return NULL;
  }
  return env;
}

/* Reports what the callback threw, if anything. Returns whether it did. */
static bool threw(JNIEnv *env, loam_failure *failure) {
  jthrowable thrown = (*env)->ExceptionOccurred(env);
  if (thrown == NULL) return false;
  (*env)->ExceptionClear(env);
  jbyteArray message = (*env)->CallStaticObjectMethod(env, callbacks_class, failed_method, thrown);
  bytes text;
  text.data = NULL;
  if ((*env)->ExceptionCheck(env) || !bytes_take(env, message, &text)) (*env)->ExceptionClear(env);
  loam_callback_fail(failure, text.data);
  bytes_free(&text);
  return true;
}

static void end(JNIEnv *env) { (*env)->PopLocalFrame(env, NULL); }

static void destroy(void *target) {
  JNIEnv *env = attach();
  if (env != NULL) (*env)->DeleteGlobalRef(env, target);
}

/* A reference that the library keeps; NULL: an exception is pending. */
static jobject keep(JNIEnv *env, jobject object) {
  jobject kept = (*env)->NewGlobalRef(env, object);
  if (kept == NULL && !(*env)->ExceptionCheck(env)) throw_memory(env);
  return kept;
}

static jobject array_of(JNIEnv *env, const loam_bytes *b) {
  return b == NULL ? NULL : bytes_new(env, b->data, b->len);
}

/* ---- Comparators ---- */

static int compare(void *target, const void *a, size_t a_len, const void *b, size_t b_len,
  loam_failure *failure) {
  int order = 0;
  JNIEnv *env = begin(failure);
  if (env == NULL) return 0;
  jbyteArray x = bytes_new(env, a, a_len), y = x == NULL ? NULL : bytes_new(env, b, b_len);
  if (y != NULL) {
    order = (*env)->CallStaticIntMethod(env, callbacks_class, compare_method, target, x, y);
  }
  if (threw(env, failure)) order = 0;
  end(env);
  return order;
}

NATIVE(void, optionsComparator)(JNIEnv *env, jclass c, jobject options, jbyteArray name,
  jobject comparator, jboolean equal_is_bytewise) {
  bytes n;
  jobject target;
  (void)c;
  if (bytes_take(env, name, &n) && (target = keep(env, comparator)) != NULL) {
    unsigned flags = equal_is_bytewise ? LOAM_COMPARATOR_EQUAL_IS_BYTEWISE : 0;
    char *err = NULL;
    loam_status status = loam_options_set_comparator(HANDLE(loam_options, options), n.data,
      compare, target, destroy, flags, &err);
    if (status != LOAM_OK) (*env)->DeleteGlobalRef(env, target);
    succeeded(env, status, &err);
  }
  bytes_free(&n);
}

/* ---- Merge operators ---- */

/* Sets the result to an array; reports what was thrown. */
static void set_result(JNIEnv *env, jbyteArray array, loam_merge_result *result,
  loam_failure *failure) {
  bytes b;
  b.data = NULL;
  if (!threw(env, failure)) {
    if (bytes_take(env, array, &b)) loam_merge_result_set(result, b.data, b.len);
    threw(env, failure);
  }
  bytes_free(&b);
}

static jobjectArray operand_arrays(JNIEnv *env, const loam_bytes *operands, size_t count) {
  jobjectArray arrays = (*env)->NewObjectArray(env, (jsize)count, bytes_class, NULL);
  for (size_t i = 0; arrays != NULL && i < count; i++) {
    jobject operand = array_of(env, operands + i);
    if (operand == NULL) return NULL;
    (*env)->SetObjectArrayElement(env, arrays, (jsize)i, operand);
    (*env)->DeleteLocalRef(env, operand);
  }
  return arrays;
}

static void merge(void *target, const void *key, size_t key_len, const loam_bytes *existing,
  const loam_bytes *operands, size_t count, loam_merge_result *result, loam_failure *failure) {
  JNIEnv *env = begin(failure);
  if (env == NULL) return;
  jbyteArray k = bytes_new(env, key, key_len), merged = NULL;
  jobject e = k == NULL ? NULL : array_of(env, existing);
  if (k != NULL && (e != NULL || existing == NULL)) {
    jobjectArray o = operand_arrays(env, operands, count);
    if (o != NULL) {
      merged = (*env)->CallStaticObjectMethod(env, callbacks_class, merge_method, target, k, e, o);
    }
  }
  set_result(env, merged, result, failure);
  end(env);
}

static int partial(void *target, const void *key, size_t key_len, const loam_bytes *left,
  const loam_bytes *right, loam_merge_result *result, loam_failure *failure) {
  JNIEnv *env = begin(failure);
  if (env == NULL) return 0;
  jbyteArray k = bytes_new(env, key, key_len), merged = NULL;
  jobject l = k == NULL ? NULL : array_of(env, left), r = l == NULL ? NULL : array_of(env, right);
  if (r != NULL) {
    merged = (*env)->CallStaticObjectMethod(env, callbacks_class, partial_method, target, k, l, r);
  }
  set_result(env, merged, result, failure);
  bool done = merged != NULL;
  end(env);
  return done;
}

NATIVE(void, optionsMergeOperator)(JNIEnv *env, jclass c, jobject options, jbyteArray name,
  jobject operator) {
  bytes n;
  jobject target;
  (void)c;
  if (bytes_take(env, name, &n) && (target = keep(env, operator)) != NULL) {
    char *err = NULL;
    loam_status status = loam_options_set_merge_operator(HANDLE(loam_options, options), n.data,
      merge, partial, target, destroy, &err);
    if (status != LOAM_OK) (*env)->DeleteGlobalRef(env, target);
    succeeded(env, status, &err);
  }
  bytes_free(&n);
}

/* ---- Compaction filters ---- */

/* A copy of an array with malloc. */
static int change_to(JNIEnv *env, jbyteArray array, void **new_value, size_t *new_len) {
  jsize len = (*env)->GetArrayLength(env, array);
  *new_value = malloc((size_t)len + 1);
  if (*new_value == NULL) {
    throw_memory(env);
    return LOAM_FILTER_KEEP;
  }
  *new_len = (size_t)len;
  (*env)->GetByteArrayRegion(env, array, 0, len, *new_value);
  return LOAM_FILTER_CHANGE;
}

/* The Java filter returns the value itself, null or another array. */
static int filter(void *target, int level, const void *key, size_t key_len, const void *value,
  size_t value_len, void **new_value, size_t *new_len, loam_failure *failure) {
  int decision = LOAM_FILTER_KEEP;
  JNIEnv *env = begin(failure);
  if (env == NULL) return decision;
  jbyteArray k = bytes_new(env, key, key_len), v = k == NULL ? NULL : bytes_new(
    env, value, value_len);
  if (v != NULL) {
    jbyteArray left = (*env)->CallStaticObjectMethod(env, callbacks_class, filter_method, target,
      (jint)level, k, v);
    if (!(*env)->ExceptionCheck(env)) {
      if (left == NULL) decision = LOAM_FILTER_REMOVE;
      else if (!(*env)->IsSameObject(env, left, v)) decision = change_to(
        env, left, new_value, new_len);
    }
  }
  threw(env, failure);
  end(env);
  return decision;
}

NATIVE(void, optionsFilter)(JNIEnv *env, jclass c, jobject options, jbyteArray name,
  jobject java_filter) {
  bytes n;
  jobject target;
  (void)c;
  if (bytes_take(env, name, &n) && (target = keep(env, java_filter)) != NULL) {
    char *err = NULL;
    loam_status status = loam_options_set_compaction_filter(HANDLE(loam_options, options), n.data,
      filter, target, destroy, &err);
    if (status != LOAM_OK) (*env)->DeleteGlobalRef(env, target);
    succeeded(env, status, &err);
  }
  bytes_free(&n);
}

/* ---- Loggers ---- */

static void log_message(void *target, int level, const char *message, loam_failure *failure) {
  JNIEnv *env = begin(failure);
  if (env == NULL) return;
  jbyteArray text = bytes_new(env, message, strlen(message));
  if (text != NULL) {
    (*env)->CallStaticVoidMethod(env, callbacks_class, log_method, target, (jint)level, text);
  }
  threw(env, failure);
  end(env);
}

NATIVE(void, optionsLogger)(JNIEnv *env, jclass c, jobject options, jobject logger) {
  jobject target = keep(env, logger);
  char *err = NULL;
  (void)c;
  if (target == NULL) return;
  loam_status status = loam_options_set_logger(HANDLE(loam_options, options), log_message, target,
    destroy, &err);
  if (status != LOAM_OK) (*env)->DeleteGlobalRef(env, target);
  succeeded(env, status, &err);
}

/* ---- Dumps: the streams are called on the thread of the call ---- */

typedef struct stream {
  JNIEnv *env;
  jobject java;      /* a local reference of the native method */
  jthrowable thrown; /* what the stream threw; a global reference */
} stream;

/* Whether the stream threw; it is thrown again when the call has ended. */
static bool stream_threw(stream *s, loam_failure *failure) {
  jthrowable thrown = (*s->env)->ExceptionOccurred(s->env);
  if (thrown == NULL) return false;
  (*s->env)->ExceptionClear(s->env);
  if (s->thrown == NULL) s->thrown = (*s->env)->NewGlobalRef(s->env, thrown);
  loam_callback_fail(failure, "the stream failed");
  return true;
}

static int stream_write(void *arg, const void *data, size_t len, loam_failure *failure) {
  stream *s = arg;
  JNIEnv *env = begin(failure);
  if (env == NULL) return 1;
  jbyteArray array = bytes_new(env, data, len);
  if (array != NULL) {
    (*env)->CallStaticVoidMethod(env, callbacks_class, write_method, s->java, array);
  }
  bool failed = stream_threw(s, failure);
  end(env);
  return failed;
}

static size_t stream_read(void *arg, void *data, size_t capacity, loam_failure *failure) {
  stream *s = arg;
  jsize len = 0;
  JNIEnv *env = begin(failure);
  if (env == NULL) return 0;
  jint most = capacity > INT32_MAX ? INT32_MAX : (jint)capacity;
  jbyteArray array = (*env)->CallStaticObjectMethod(env, callbacks_class, read_method, s->java,
    most);
  if (!stream_threw(s, failure) && array != NULL) {
    len = (*env)->GetArrayLength(env, array);
    if (len > most) len = most;
    (*env)->GetByteArrayRegion(env, array, 0, len, data);
  }
  end(env);
  return (size_t)len;
}

/* What a call with a stream made; throws what the stream threw. */
static jbyteArray stream_result(stream *s, loam_status status, char *info, char *err) {
  JNIEnv *env = s->env;
  if (s->thrown == NULL) return text_result(env, status, info, err);
  loam_free(info);
  loam_free(err);
  (*env)->Throw(env, s->thrown);
  (*env)->DeleteGlobalRef(env, s->thrown);
  return NULL;
}

NATIVE(jbyteArray, dump)(JNIEnv *env, jclass c, jobject db, jobject snapshot,
  jbyteArray compression, jobject out) {
  stream s = {env, out, NULL};
  bytes name;
  jbyteArray result = NULL;
  (void)c;
  if (bytes_take(env, compression, &name)) {
    char *info = NULL, *err = NULL;
    loam_status status = loam_dump(HANDLE(loam_db, db), HANDLE(loam_snapshot, snapshot), name.data,
      stream_write, &s, &info, &err);
    result = stream_result(&s, status, info, err);
  }
  bytes_free(&name);
  return result;
}

NATIVE(jbyteArray, load)(JNIEnv *env, jclass c, jobject db, jint flags, jobject in) {
  stream s = {env, in, NULL};
  char *info = NULL, *err = NULL;
  (void)c;
  loam_status status = loam_load(HANDLE(loam_db, db), (uint64_t)flags, stream_read, &s, &info,
    &err);
  return stream_result(&s, status, info, err);
}

NATIVE(jbyteArray, dumpVerify)(JNIEnv *env, jclass c, jobject in) {
  stream s = {env, in, NULL};
  char *info = NULL, *err = NULL;
  (void)c;
  loam_status status = loam_dump_verify(stream_read, &s, &info, &err);
  return stream_result(&s, status, info, err);
}
