/* What all native methods share: the library's start, handles, bytes and exceptions. */
#include "shim.h"

#include <stdlib.h>
#include <string.h>

JavaVM *java_vm;

static jclass native_class;
static jmethodID make_exception; /* Native.exception */
static jfieldID handle_field;    /* NativeObject.handle */

/* A weak reference, so that the class loader goes when nothing else refers to it, where the
 * libraries are linked to stay in the process (-z nodelete). What calls a method of the class keeps
 * it: a native method of Native, or the object of a callback. */
jclass class_ref(JNIEnv *env, const char *name) {
  jclass local = (*env)->FindClass(env, name);
  if (local == NULL) return NULL;
#ifdef __linux__
  return (*env)->NewWeakGlobalRef(env, local);
#else
  return (*env)->NewGlobalRef(env, local);
#endif
}

static bool load(JNIEnv *env) {
  native_class = class_ref(env, "io/loamdb/Native");
  if (native_class == NULL) return false;
  make_exception = (*env)->GetStaticMethodID(env, native_class, "exception",
    "(I[BI[B)Lio/loamdb/LoamException;");
  if (make_exception == NULL) return false;
  jclass object = (*env)->FindClass(env, "io/loamdb/NativeObject");
  if (object == NULL) return false;
  handle_field = (*env)->GetFieldID(env, object, "handle", "J");
  return handle_field != NULL && callbacks_load(env);
}

JNIEXPORT jint JNICALL JNI_OnLoad(JavaVM *vm, void *reserved) {
  (void)reserved;
  JNIEnv *env;
  char *err = NULL;
  java_vm = vm;
  if ((*vm)->GetEnv(vm, (void **)&env, JNI_VERSION_10) != JNI_OK || !load(env)) return JNI_ERR;
  if (!succeeded(env, loam_abi_check(LOAM_ABI_VERSION, LOAM_ABI_REVISION, &err), &err)) {
    return JNI_ERR;
  }
  return JNI_VERSION_10;
}

void *handle_of(JNIEnv *env, jobject object) {
  return object == NULL ? NULL : (void *)(intptr_t)(*env)->GetLongField(env, object, handle_field);
}

/* ---- Bytes ---- */

bool bytes_take_part(JNIEnv *env, jbyteArray array, jint len, bytes *b) {
  b->data = NULL;
  b->len = 0;
  if (array == NULL) return true;
  b->data = len < SMALL ? b->small : malloc((size_t)len + 1);
  if (b->data == NULL) {
    throw_memory(env);
    return false;
  }
  b->len = (size_t)len;
  ((char *)b->data)[len] = 0;
  (*env)->GetByteArrayRegion(env, array, 0, len, b->data);
  return !(*env)->ExceptionCheck(env);
}

bool bytes_take(JNIEnv *env, jbyteArray array, bytes *b) {
  return bytes_take_part(env, array, array == NULL ? 0 : (*env)->GetArrayLength(env, array), b);
}

void bytes_free(bytes *b) {
  if (b->data != b->small) free(b->data);
}

jbyteArray bytes_new(JNIEnv *env, const void *data, size_t len) {
  if (len > INT32_MAX - 8) {
    throw_status(env, LOAM_ERR_TOO_LARGE, NULL);
    return NULL;
  }
  jbyteArray array = (*env)->NewByteArray(env, (jsize)len);
  if (array != NULL) (*env)->SetByteArrayRegion(env, array, 0, (jsize)len, data);
  return array;
}

/* ---- Exceptions ---- */

void throw_memory(JNIEnv *env) {
  jclass error = (*env)->FindClass(env, "java/lang/OutOfMemoryError");
  if (error != NULL) (*env)->ThrowNew(env, error, "no memory outside of the heap");
}

void throw_status(JNIEnv *env, loam_status status, char *err) {
  const char *message = err == NULL ? loam_status_string(status) : err;
  const char *path = loam_error_path(err);
  jbyteArray text = bytes_new(env, message, strlen(message));
  jbyteArray file = text == NULL || path == NULL ? NULL : bytes_new(env, path, strlen(path));
  if (!(*env)->ExceptionCheck(env)) {
    jthrowable exception = (*env)->CallStaticObjectMethod(env, native_class, make_exception,
      (jint)status, text, (jint)loam_error_errno(err), file);
    if (exception != NULL && !(*env)->ExceptionCheck(env)) (*env)->Throw(env, exception);
  }
  loam_free(err);
}

jbyteArray text_result(JNIEnv *env, loam_status status, char *text, char *err) {
  if (status == LOAM_NOT_FOUND || !succeeded(env, status, &err)) return NULL;
  jbyteArray result = bytes_new(env, text, strlen(text));
  loam_free(text);
  return result;
}

jlong handle_result(JNIEnv *env, loam_status status, void *handle, char *err) {
  return succeeded(env, status, &err) ? (jlong)(intptr_t)handle : 0;
}

/* ---- The process ---- */

NATIVE(jbyteArray, version)(JNIEnv *env, jclass c) {
  (void)c;
  return bytes_new(env, loam_version(), strlen(loam_version()));
}

NATIVE(void, runtime)(JNIEnv *env, jclass c, jint threads, jint gogc, jlong limit) {
  char *err = NULL;
  (void)c;
  succeeded(env, loam_runtime_set(threads, gogc, limit, &err), &err);
}
